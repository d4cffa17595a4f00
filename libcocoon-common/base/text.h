/* Text helpers: comparisons, trimming, strict numbers, UTF-8. No locale, no allocation unless said. */
#ifndef CC_BASE_TEXT_H
#define CC_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buf.h"

/* NULL counts as the empty text in all of these. */
bool cc_text_equal(const char *a, const char *b);
bool cc_text_equal_fold(const char *a, const char *b); /* ASCII case-insensitive */
bool cc_text_is_empty(const char *text);
bool cc_text_starts_with(const char *text, const char *prefix);
bool cc_text_ends_with(const char *text, const char *suffix);
bool cc_text_contains(const char *text, const char *part);
bool cc_text_contains_fold(const char *text, const char *part);
/* text, or fallback when text is NULL or empty. */
const char *cc_text_or(const char *text, const char *fallback);

/* A new text without leading and trailing blanks (space, tab, CR, LF, VT, FF); caller frees. */
char *cc_text_trim(const char *text);

/* Strict decimal as contract/02 section 4.2: optional sign, digits only, whole text, in range. False leaves *ret alone.
 */
bool cc_parse_int64(const char *text, int64_t min, int64_t max, int64_t *ret);
bool cc_parse_int32(const char *text, int32_t min, int32_t max, int32_t *ret);
/* Go strconv.ParseBool: 1 t T TRUE true True / 0 f F FALSE false False. False when text is none of them. */
bool cc_parse_bool(const char *text, bool *ret);

bool cc_utf8_is_valid(const char *text, size_t bytes);
/* Largest length <= limit that does not cut a character (text is valid UTF-8). */
size_t cc_utf8_cut(const char *text, size_t bytes, size_t limit);
/* A new text: invalid bytes become U+FFFD, cut at a character to at most limit bytes. Caller frees. Decision 46. */
char *cc_utf8_publishable(const char *text, size_t limit);

/* Kubernetes names: lower-case DNS-1123 subdomain (<= 253) and label value (<= 63, may be empty). */
bool cc_name_is_dns1123_subdomain(const char *text);
bool cc_name_is_label_value(const char *text);

#endif

/* What clang's analyzer cannot see across files: an error that was set is never 0, and NULL is an empty text.
 * clang-tidy includes this before every file but base/error.c and base/text.c (hack/lint); no build does. */
#include "base/error.h"
#include "base/text.h"

#define cc_err_set(err, code, ...) (cc_err_set((err), (code), __VA_ARGS__), (code))
#define cc_err_errno(err, value, ...) (cc_err_errno((err), (value), __VA_ARGS__), CC_IO)
#define cc_err_wrap(err, ...) (cc_err_wrap((err), __VA_ARGS__), CC_IO)
#define cc_text_is_empty(text) (!(text) || cc_text_is_empty(text))

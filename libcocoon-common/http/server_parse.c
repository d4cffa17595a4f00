#include "http/server_parse.h"

#include <http_parser.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

#define LENGTH_DIGITS_MAX 18 /* fits int64 */

static const char two_lengths[] = "more than one statement of the body's length";

static void refuse(struct cc_http_refusal *refusal, int status, const char *why) {
    if (refusal->status == 0)
        *refusal = (struct cc_http_refusal){status, why};
}

bool cc_http_head_scan(const char *bytes, size_t count, size_t *scanned, size_t *ret_bytes,
                       struct cc_http_refusal *ret_refusal) {
    for (size_t i = *scanned; i < count; i++) {
        if (bytes[i] != '\n') {
            if (i > 0 && bytes[i - 1] == '\r') {
                refuse(ret_refusal, 400, "CR without LF");
                return false;
            }
            continue;
        }
        if (i == 0 || bytes[i - 1] != '\r') {
            refuse(ret_refusal, 400, "LF without CR");
            return false;
        }
        if (i >= 3 && bytes[i - 2] == '\n') {
            *ret_bytes = i + 1;
            return true;
        }
    }
    *scanned = count;
    return false;
}

/* --- what http-parser would let pass (Debian builds it without its strict mode) ---------------------------------- */

static void check_request_line(const char *line, size_t length, struct cc_http_refusal *refusal) {
    size_t blanks = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)line[i];
        blanks += byte == ' ';
        if (byte < ' ' || byte == 0x7f)
            return refuse(refusal, 400, "control character in the request line");
    }
    if (blanks != 2 || line[0] == ' ' || line[length - 1] == ' ')
        refuse(refusal, 400, "malformed request line");
}

static bool is_token(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!(text[i] > ' ' && text[i] < 0x7f) || strchr("()<>@,;:\\\"/[]?={}", text[i]))
            return false;
    return length > 0;
}

static void check_header_line(const char *line, size_t length, struct cc_http_refusal *refusal) {
    const char *colon = memchr(line, ':', length);
    if (line[0] == ' ' || line[0] == '\t')
        return refuse(refusal, 400, "folded header line");
    if (!colon || colon == line)
        return refuse(refusal, 400, "header line without a name");
    if (colon[-1] == ' ' || colon[-1] == '\t')
        return refuse(refusal, 400, "blank before the colon of a header line");
    if (!is_token(line, (size_t)(colon - line)))
        return refuse(refusal, 400, "malformed header name");
    for (const char *at = colon + 1; at < line + length; at++)
        if (((unsigned char)*at < ' ' && *at != '\t') || *at == 0x7f)
            return refuse(refusal, 400, "control character in a header value");
}

static void check_lines(const char *bytes, size_t count, struct cc_http_refusal *refusal) {
    const char *end = bytes + count - 2; /* the empty line */
    bool first = true;
    for (const char *line = bytes; line < end && refusal->status == 0; first = false) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        cc_assert(newline);
        size_t length = (size_t)(newline - line) - 1;
        if (first && length == 0)
            refuse(refusal, 400, "empty request line");
        else if (first)
            check_request_line(line, length, refusal);
        else
            check_header_line(line, length, refusal);
        line = newline + 1;
    }
}

/* --- http-parser ------------------------------------------------------------------------------------------------- */

/* Byte ranges of the head; they are cut into texts after the parser is through. */
struct range {
    char *at;
    size_t length;
};
struct collector {
    struct range url;
    struct range *fields; /* name, value, name, value, ... */
    size_t count, capacity;
    bool too_many;
};

static int on_url(http_parser *parser, const char *at, size_t length) {
    struct collector *collector = parser->data;
    collector->url = (struct range){(char *)(uintptr_t)at, length};
    return 0;
}

static int add_range(struct collector *collector, const char *at, size_t length) {
    if (collector->count == 2 * CC_HTTP_SERVER_HEADERS_MAX) {
        collector->too_many = true;
        return -1;
    }
    if (collector->count == collector->capacity) {
        collector->capacity = collector->capacity ? collector->capacity * 2 : 32;
        collector->fields = cc_xrealloc(collector->fields, collector->capacity * sizeof *collector->fields);
    }
    collector->fields[collector->count++] = (struct range){(char *)(uintptr_t)at, length};
    return 0;
}

static int on_header_name(http_parser *parser, const char *at, size_t length) {
    return add_range(parser->data, at, length);
}

static int on_header_value(http_parser *parser, const char *at, size_t length) {
    while (length > 0 && (at[length - 1] == ' ' || at[length - 1] == '\t'))
        length--;
    return add_range(parser->data, at, length);
}

/* The body is not the parser's: our own decoder is stricter about chunks. */
static int on_headers_complete(http_parser *parser CC_UNUSED) {
    return 1;
}

static const http_parser_settings settings = {
    .on_url = on_url,
    .on_header_field = on_header_name,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
};

static void run_parser(http_parser *parser, struct collector *collector, struct cc_http_head *head, size_t count,
                       struct cc_http_refusal *refusal) {
    http_parser_set_max_header_size(UINT32_MAX); /* a setting of the whole library; our bound is the caller's */
    http_parser_init(parser, HTTP_REQUEST);
    parser->data = collector;
    size_t parsed = http_parser_execute(parser, &settings, head->text, count);
    enum http_errno error = HTTP_PARSER_ERRNO(parser);
    if (collector->too_many)
        refuse(refusal, 431, "too many headers");
    else if (error == HPE_INVALID_METHOD)
        refuse(refusal, 501, "unknown method");
    else if (error == HPE_UNEXPECTED_CONTENT_LENGTH)
        refuse(refusal, 400, two_lengths);
    else if (error == HPE_INVALID_VERSION)
        refuse(refusal, 505, "unknown HTTP version");
    else if (error != HPE_OK || parsed != count || !collector->url.at || collector->count % 2 != 0)
        refuse(refusal, 400, "malformed head");
    else if (parser->http_major != 1 || parser->http_minor > 1)
        refuse(refusal, 505, "unknown HTTP version");
}

/* empty: what an empty value points to. */
static void cut_fields(const struct collector *collector, char *empty, struct cc_http_server_request_headers *headers) {
    headers->count = headers->capacity = collector->count / 2;
    headers->items = cc_xcalloc(headers->count ? headers->count : 1, sizeof *headers->items);
    for (size_t i = 0; i < collector->count; i++) {
        struct range *field = &collector->fields[i];
        /* The parser puts an empty value at the first byte of the next line: a cut there would take that byte away. */
        if (field->length > 0)
            field->at[field->length] = '\0';
        else
            field->at = empty;
    }
    for (size_t i = 0; i < headers->count; i++)
        headers->items[i] = (struct cc_http_field){collector->fields[2 * i].at, collector->fields[2 * i + 1].at};
}

/* --- what the fields say ----------------------------------------------------------------------------------------- */

static size_t count_fields(const struct cc_http_server_request_headers *headers, const char *name) {
    size_t found = 0;
    for (size_t i = 0; i < headers->count; i++)
        found += cc_text_equal_fold(headers->items[i].name, name);
    return found;
}

const char *cc_http_head_field(const struct cc_http_server_request_headers *headers, const char *name) {
    for (size_t i = 0; headers && i < headers->count; i++)
        if (cc_text_equal_fold(headers->items[i].name, name))
            return headers->items[i].value;
    return NULL;
}

/* RFC 9112 6: two statements about the length of a message are how requests are smuggled past a proxy. */
static void read_length(struct cc_http_head *head, struct cc_http_refusal *refusal) {
    size_t lengths = count_fields(&head->headers, "Content-Length");
    size_t encodings = count_fields(&head->headers, "Transfer-Encoding");
    if (lengths > 1 || encodings > 1 || (lengths > 0 && encodings > 0))
        return refuse(refusal, 400, two_lengths);
    if (encodings > 0) {
        if (head->is_http_10)
            return refuse(refusal, 400, "Transfer-Encoding in HTTP/1.0");
        if (!cc_text_equal_fold(cc_http_head_field(&head->headers, "Transfer-Encoding"), "chunked"))
            return refuse(refusal, 501, "only Transfer-Encoding: chunked is supported");
        head->is_chunked = true;
    }
    if (lengths > 0) {
        const char *digits = cc_http_head_field(&head->headers, "Content-Length");
        size_t count = strspn(digits, "0123456789");
        if (count == 0 || digits[count] != '\0' || count > LENGTH_DIGITS_MAX ||
            !cc_parse_int64(digits, 0, INT64_MAX, &head->content_length))
            refuse(refusal, 400, "malformed Content-Length");
    }
}

static void read_fields(struct cc_http_head *head, struct cc_http_refusal *refusal) {
    size_t hosts = count_fields(&head->headers, "Host");
    if (hosts > 1 || (hosts == 0 && !head->is_http_10))
        return refuse(refusal, 400, "exactly one Host header is needed");
    read_length(head, refusal);
    const char *expect = cc_http_head_field(&head->headers, "Expect");
    if (!expect)
        return;
    if (cc_text_equal_fold(expect, "100-continue"))
        head->expects_continue = !head->is_http_10;
    else
        refuse(refusal, 417, "unknown expectation");
}

static int hex_digit(char byte) {
    return byte >= '0' && byte <= '9'   ? byte - '0'
           : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
           : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                        : -1;
}

/* NULL when malformed. */
static char *decode_path(const char *text, size_t bytes) {
    char *path = cc_xmalloc(bytes + 1);
    size_t length = 0;
    for (size_t i = 0; i < bytes; i++) {
        path[length] = text[i];
        if (text[i] == '%') {
            int high = i + 1 < bytes ? hex_digit(text[i + 1]) : -1, low = i + 2 < bytes ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0 || high + low == 0) {
                free(path);
                return NULL;
            }
            path[length] = (char)(high * 16 + low);
            i += 2;
        }
        length++;
    }
    path[length] = '\0';
    return path;
}

/* Origin form, or absolute form as a proxy sends it, or '*'. */
static void read_target(struct cc_http_head *head, char *target, struct cc_http_refusal *refusal) {
    if (strchr(target, '#'))
        return refuse(refusal, 400, "fragment in the request target");
    if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
        target = strchr(target, ':') + 3;
        target += strcspn(target, "/?");
    } else if (target[0] != '/' && strcmp(target, "*") != 0) {
        return refuse(refusal, 400, "malformed request target");
    }
    size_t length = strcspn(target, "?");
    head->query = target[length] == '?' ? target + length + 1 : "";
    head->path = length > 0 ? decode_path(target, length) : cc_xstrdup("/");
    if (!head->path)
        refuse(refusal, 400, "malformed percent-encoding in the path");
}

void cc_http_head_parse(const char *bytes, size_t count, struct cc_http_head *ret,
                        struct cc_http_refusal *ret_refusal) {
    http_parser parser;
    struct collector collector = {0};
    *ret = (struct cc_http_head){0};
    *ret_refusal = (struct cc_http_refusal){0};
    check_lines(bytes, count, ret_refusal);
    if (ret_refusal->status != 0)
        return;
    ret->text = cc_xstrndup(bytes, count);
    if (strlen(ret->text) != count)
        return refuse(ret_refusal, 400, "NUL in the head");
    run_parser(&parser, &collector, ret, count, ret_refusal);
    if (ret_refusal->status == 0) {
        ret->is_http_10 = parser.http_minor == 0;
        ret->keep_alive = http_should_keep_alive(&parser) != 0;
        ret->method = http_method_str((enum http_method)parser.method);
        cut_fields(&collector, ret->text + count, &ret->headers);
        collector.url.at[collector.url.length] = '\0';
        read_fields(ret, ret_refusal);
        read_target(ret, collector.url.at, ret_refusal);
    }
    free(collector.fields);
}

void cc_http_head_done(struct cc_http_head *head) {
    free(head->text);
    free(head->path);
    free(head->headers.items);
    *head = (struct cc_http_head){0};
}

#include "fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"

void fuzz_fail(const char *condition, const char *file, int line) {
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

void fuzz_check_error(int rc, const struct cc_err *err, const char *file, int line) {
    if (rc == 0)
        return;
    if (rc > 0 || err->code != rc)
        fuzz_fail("the code is in the error", file, line);
    size_t bytes = strnlen(err->msg, sizeof err->msg);
    if (bytes == 0 || bytes == sizeof err->msg || !cc_utf8_is_valid(err->msg, bytes))
        fuzz_fail("the message is a text", file, line);
}

bool fuzz_same_text(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

struct fuzz_input fuzz_input_of(const uint8_t *data, size_t size) {
    return (struct fuzz_input){(const char *)data, (const char *)data + size};
}

char *fuzz_line(struct fuzz_input *input) {
    size_t left = (size_t)(input->end - input->at);
    const char *newline = left > 0 ? memchr(input->at, '\n', left) : NULL;
    size_t bytes = newline ? (size_t)(newline - input->at) : left;
    char *line = bytes > 0 ? cc_xstrndup(input->at, bytes) : cc_xstrdup("");
    input->at += bytes + (newline != NULL);
    return line;
}

char *fuzz_rest(struct fuzz_input *input, size_t *ret_bytes) {
    size_t bytes = (size_t)(input->end - input->at);
    char *rest = cc_xmalloc(bytes + 1);
    if (bytes > 0)
        memcpy(rest, input->at, bytes);
    rest[bytes] = '\0';
    input->at = input->end;
    if (ret_bytes)
        *ret_bytes = bytes;
    return rest;
}

uint64_t fuzz_number(struct fuzz_input *input) {
    char *line cc_cleanup(cc_free_p) = fuzz_line(input);
    uint64_t number = 0;
    for (const char *at = line; *at >= '0' && *at <= '9'; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    return number;
}

/* FNV-1a */
struct fuzz_dice fuzz_dice_of(const uint8_t *data, size_t size) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * UINT64_C(1099511628211);
    return (struct fuzz_dice){hash};
}

/* splitmix64 */
size_t fuzz_roll(struct fuzz_dice *dice, size_t max) {
    uint64_t mixed = dice->state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (size_t)((mixed ^ (mixed >> 31)) % max) + 1;
}

static char directory[256], path[sizeof directory + 8];
static pid_t owner;

static void remove_file(void) {
    if (getpid() != owner)
        return;
    unlink(path);
    rmdir(directory);
}

const char *fuzz_file(const void *bytes, size_t count) {
    if (owner != getpid()) {
        const char *parent = cc_text_or(getenv("TMPDIR"), "/tmp");
        snprintf(directory, sizeof directory, "%s/cocoon-fuzz-XXXXXX", parent);
        fuzz_require(mkdtemp(directory) != NULL);
        snprintf(path, sizeof path, "%s/input", directory);
        owner = getpid();
        fuzz_require(atexit(remove_file) == 0);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_require(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
    close(fd);
    return path;
}

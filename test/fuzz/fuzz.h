/* What fuzz targets share. A target is one file, fuzz_<name>.c, with LLVMFuzzerTestOneInput: it checks what must hold
 * for every input (round trips, bounds, same result however the input is cut), not only that nothing crashes. */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process with the text of the condition. */
#define fuzz_require(condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fuzz_fail(#condition, __FILE__, __LINE__);                                                                 \
    } while (0)
CC_NORETURN void fuzz_fail(const char *condition, const char *file, int line);

/* A failed call left a proper error: its code, and a message of valid UTF-8 that is not empty. Fills nothing on
 * success. */
#define fuzz_require_error(rc, err) fuzz_check_error((rc), (err), __FILE__, __LINE__)
void fuzz_check_error(int rc, const struct cc_err *err, const char *file, int line);

/* Both NULL, or equal. */
bool fuzz_same_text(const char *a, const char *b);

/* The input, taken from the front line by line: corpora stay readable. */
struct fuzz_input {
    const char *at, *end;
};
struct fuzz_input fuzz_input_of(const uint8_t *data, size_t size);
/* The next line without its end, up to a NUL in it; "" at the end of the input. The caller frees it. */
char *fuzz_line(struct fuzz_input *input);
/* All that is left, NUL-terminated: *ret_bytes (may be NULL) long. The caller frees it. */
char *fuzz_rest(struct fuzz_input *input, size_t *ret_bytes);
/* A number from the next line: 0 when it has none. */
uint64_t fuzz_number(struct fuzz_input *input);

/* Random numbers that depend on the input alone, so that a crash comes again: 1..max. */
struct fuzz_dice {
    uint64_t state;
};
struct fuzz_dice fuzz_dice_of(const uint8_t *data, size_t size);
size_t fuzz_roll(struct fuzz_dice *dice, size_t max);

/* Writes the bytes to one file in a directory of its own, made at the first call and removed at exit, and gives its
 * path. For code that opens files. */
const char *fuzz_file(const void *bytes, size_t count);

#endif

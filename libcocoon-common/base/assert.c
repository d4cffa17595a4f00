#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void cc_assert_failed(const char *condition, const char *file, int line, const char *function) {
    fprintf(stderr, "assertion failed: %s at %s:%d (%s)\n", condition, file, line, function);
    fflush(stderr);
    abort();
}

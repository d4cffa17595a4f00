/* Assertions for our own mistakes, never for input. They stay on in release builds. */
#ifndef CC_BASE_ASSERT_H
#define CC_BASE_ASSERT_H

#include "base/attributes.h"

/* Prints the place and the condition on stderr and aborts. */
CC_NORETURN void cc_assert_failed(const char *condition, const char *file, int line, const char *function);

#define cc_assert(condition)                                                                                           \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            cc_assert_failed(#condition, __FILE__, __LINE__, __func__);                                                \
    } while (0)

#endif

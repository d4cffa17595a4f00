/* Compiler attributes and cleanup helpers used by every file. */
#ifndef CC_BASE_ATTRIBUTES_H
#define CC_BASE_ATTRIBUTES_H

/* The result must be looked at; drop one on purpose with cc_ignore(). */
#define CC_MUST_USE __attribute__((warn_unused_result))
/* The function may suspend the calling fiber: shared state may change across the call. It must run inside a fiber. */
#define CC_YIELDS
/* A function pointer that never suspends the fiber. */
#define CC_NO_YIELD
#define CC_PRINTF(format_index, first_index) __attribute__((format(printf, format_index, first_index)))
#define CC_UNUSED __attribute__((unused))
#define CC_NORETURN __attribute__((noreturn))

/* Runs destructor_p(&variable) when the variable leaves its scope; destructor_p takes a pointer to the variable. */
#define cc_cleanup(destructor_p) __attribute__((cleanup(destructor_p)))

/* Gives a pointer away and leaves NULL behind, so that its cleanup does nothing. */
#define cc_take(pointer)                                                                                               \
    __extension__({                                                                                                    \
        __typeof__(pointer) *_taken = &(pointer);                                                                      \
        __typeof__(pointer) _value = *_taken;                                                                          \
        *_taken = 0;                                                                                                   \
        _value;                                                                                                        \
    })

/* Drops a result on purpose; the reason is for the reader. */
#define cc_ignore(expression, reason)                                                                                  \
    do {                                                                                                               \
        __typeof__(expression) _ignored CC_UNUSED = (expression);                                                      \
        static const char _reason[] CC_UNUSED = reason;                                                                \
    } while (0)

#define CC_ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#define cc_container_of(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* Defines name##_p(T **) for cc_cleanup from a destructor that takes T *. */
#define CC_DEFINE_CLEANUP(type, destructor)                                                                            \
    static inline CC_UNUSED void destructor##_p(type **pointer) {                                                      \
        destructor(*pointer);                                                                                          \
        *pointer = 0;                                                                                                  \
    }

#endif

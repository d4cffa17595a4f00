#include "aio/aio_internal.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define CC_UNPOISON(address, bytes) __asan_unpoison_memory_region((address), (bytes))
#else
#define CC_UNPOISON(address, bytes) ((void)(address))
#endif

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#ifndef VALGRIND_STACK_REGISTER
#define VALGRIND_STACK_REGISTER(start, end) 0u
#define VALGRIND_STACK_DEREGISTER(id) ((void)(id))
#endif

#define STACK_PAGES_MAX (CC_FIBER_STACK_BYTES / 4096)

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

static struct cc_stack *stack_map(void) {
    size_t guard = page_bytes();
    char *mapping = mmap(NULL, CC_FIBER_STACK_BYTES + guard, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (mapping == MAP_FAILED)
        return NULL;
    /* The stack grows down into this page: an overflow is a fault and never a silent write into a neighbour. */
    if (mprotect(mapping, guard, PROT_NONE) != 0) {
        munmap(mapping, CC_FIBER_STACK_BYTES + guard);
        return NULL;
    }
    struct cc_stack *stack = CC_NEW(struct cc_stack);
    stack->base = mapping + guard;
    stack->valgrind_id = VALGRIND_STACK_REGISTER(stack->base, stack->base + CC_FIBER_STACK_BYTES);
    return stack;
}

static void stack_unmap(struct cc_stack *stack) {
    VALGRIND_STACK_DEREGISTER(stack->valgrind_id);
    CC_UNPOISON(stack->base, CC_FIBER_STACK_BYTES);
    munmap(stack->base - page_bytes(), CC_FIBER_STACK_BYTES + page_bytes());
    free(stack);
}

/* Pages below the deepest one that was ever touched are not resident, and asking does not touch them. */
static size_t stack_used(const struct cc_stack *stack) {
    unsigned char resident[STACK_PAGES_MAX];
    size_t page = page_bytes(), pages = CC_FIBER_STACK_BYTES / page;
    if (mincore(stack->base, CC_FIBER_STACK_BYTES, resident) != 0)
        return 0;
    size_t lowest = 0;
    while (lowest < pages && !(resident[lowest] & 1))
        lowest++;
    return (pages - lowest) * page;
}

struct cc_stack *cc_stack_get(struct cc_stack_cache *cache) {
    struct cc_stack *stack = cache->idle;
    if (!stack)
        return stack_map();
    cache->idle = stack->next;
    cache->count--;
    stack->next = NULL;
    return stack;
}

size_t cc_stack_put(struct cc_stack_cache *cache, struct cc_stack *stack) {
    size_t used = stack_used(stack);
    if (cache->count >= CC_STACKS_CACHED_MAX) {
        stack_unmap(stack);
        return used;
    }
    /* The frame that ended the fiber never returned, so ASan still holds its variables as poisoned. */
    CC_UNPOISON(stack->base, CC_FIBER_STACK_BYTES);
    if (used > CC_STACK_KEPT_BYTES)
        (void)madvise(stack->base, CC_FIBER_STACK_BYTES - CC_STACK_KEPT_BYTES, MADV_DONTNEED);
    stack->next = cache->idle;
    cache->idle = stack;
    cache->count++;
    return used;
}

void cc_stack_cache_done(struct cc_stack_cache *cache) {
    while (cache->idle) {
        struct cc_stack *stack = cache->idle;
        cache->idle = stack->next;
        stack_unmap(stack);
    }
    cache->count = 0;
}

#include "pods/failures.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "aio/loop.h"
#include "base/alloc.h"

struct failure {
    char *key, *told; /* told: the message of the last event, NULL = none yet */
    struct cc_mono since, told_at;
    UT_hash_handle hh;
};

struct op_failures {
    struct failure *entries;
};

struct op_failures *op_failures_new(void) {
    return CC_NEW(struct op_failures);
}

static void drop(struct op_failures *failures, struct failure *entry) {
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): its neighbours in the table are alive */
    HASH_DEL(failures->entries, entry);
    free(entry->key);
    free(entry->told);
    free(entry);
}

void op_failures_free(struct op_failures *failures) {
    if (!failures)
        return;
    struct failure *entry;
    struct failure *next;
    HASH_ITER (hh, failures->entries, entry, next) {
        drop(failures, entry);
    }
    free(failures);
}

static struct failure *find(const struct op_failures *failures, const char *key) {
    struct failure *entry = NULL;
    HASH_FIND_STR(failures->entries, key, entry);
    return entry;
}

void op_failures_clear(struct op_failures *failures, const char *key) {
    struct failure *entry = find(failures, key);
    if (entry)
        drop(failures, entry);
}

static bool is_due(const struct failure *entry, const struct cc_err *err, struct cc_mono now) {
    if (cc_code_is_transient(err->code) && cc_mono_diff_ms(now, entry->since) < OP_FAILURE_PATIENCE_MS)
        return false;
    return !entry->told || strcmp(entry->told, err->msg) != 0 ||
           cc_mono_diff_ms(now, entry->told_at) >= OP_FAILURE_REPEAT_MS;
}

bool op_failures_note(struct op_failures *failures, const char *key, const struct cc_err *err) {
    if (err->code == CC_CANCELED || err->code == CC_CONFLICT)
        return false;
    struct cc_mono now = cc_now_mono();
    struct failure *entry = find(failures, key);
    if (!entry) {
        entry = CC_NEW(struct failure);
        entry->key = cc_xstrdup(key);
        entry->since = now;
        HASH_ADD_KEYPTR(hh, failures->entries, entry->key, strlen(entry->key), entry);
    }
    if (!is_due(entry, err, now))
        return false;
    free(entry->told);
    entry->told = cc_xstrdup(err->msg);
    entry->told_at = now;
    return true;
}

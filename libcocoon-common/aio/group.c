#include <stdlib.h>

#include "aio/aio_internal.h"
#include "aio/sync.h"
#include "aio/waitlist.h"
#include "base/alloc.h"
#include "base/assert.h"

struct cc_group_member {
    struct cc_group *group;
    struct cc_fiber *fiber;
    cc_group_fn fn;
    void *arg;
    struct cc_mono deadline; /* of the scope that started it */
    struct cc_group_member *previous, *next;
};

void cc_group_init(struct cc_group *group, size_t limit) {
    *group = (struct cc_group){.limit = limit};
}

static bool has_failed(const struct cc_group *group) {
    return group->first_error.code != 0 && !group->keep_going;
}

static bool has_place(const void *object, const struct cc_waiter *waiter CC_UNUSED) {
    const struct cc_group *group = object;
    return has_failed(group) || group->limit == 0 || group->running < group->limit;
}

static bool is_empty(const void *object, const struct cc_waiter *waiter CC_UNUSED) {
    const struct cc_group *group = object;
    return group->running == 0;
}

void cc_group_cancel(struct cc_group *group) {
    for (struct cc_group_member *member = group->members; member; member = member->next)
        cc_fiber_cancel(member->fiber);
}

static void note_error(struct cc_group *group, const struct cc_err *error) {
    if (group->first_error.code != 0)
        return;
    group->first_error = *error;
    if (!group->keep_going)
        cc_group_cancel(group);
}

static void unlink_member(struct cc_group_member *member) {
    struct cc_group *group = member->group;
    if (member->previous)
        member->previous->next = member->next;
    else
        group->members = member->next;
    if (member->next)
        member->next->previous = member->previous;
    group->running--;
}

static void member_main(void *arg) {
    struct cc_group_member *member = arg;
    struct cc_group *group = member->group;
    struct cc_err error = {0};
    struct cc_scope scope;
    cc_scope_open_at(&scope, member->deadline, false);
    int rc = member->fn(member->arg, &error);
    cc_scope_close(&scope);
    unlink_member(member);
    if (rc != 0) {
        /* A function may fail without a word. */
        if (error.code != rc)
            cc_err_set(&error, (enum cc_code)rc, "%s failed", cc_fiber_name(member->fiber));
        note_error(group, &error);
    }
    free(member);
    /* The group's owner may return, and the group with it, once it has run: nothing touches the group after this. */
    cc_waitlist_release_all(&group->waiting);
}

static int refuse(struct cc_group *group, const struct cc_err *error, struct cc_err *err) {
    note_error(group, error);
    if (err)
        *err = *error;
    return error->code;
}

int cc_group_go(struct cc_group *group, const char *name, cc_group_fn fn, void *arg, struct cc_err *err) {
    struct cc_err error = {0};
    int rc;
    do {
        rc = cc_waitlist_wait(&group->waiting, has_place, group, 0, "a place in a group", &error);
    } while (rc == 0 && !has_place(group, NULL));
    if (rc != 0)
        return refuse(group, &error, err);
    if (has_failed(group))
        return refuse(group, &group->first_error, err);
    struct cc_group_member *member = CC_NEW(struct cc_group_member);
    *member = (struct cc_group_member){.group = group, .fn = fn, .arg = arg, .deadline = cc_deadline()};
    member->fiber = cc_fiber_start(cc_loop_current(), name, member_main, member);
    if (!member->fiber) {
        free(member);
        cc_err_set(&error, CC_LIMIT, "no more than %d fibers", CC_FIBERS_MAX);
        return refuse(group, &error, err);
    }
    cc_fiber_detach(member->fiber);
    member->next = group->members;
    if (member->next)
        member->next->previous = member;
    group->members = member;
    group->running++;
    return 0;
}

int cc_group_wait(struct cc_group *group, struct cc_err *err) {
    struct cc_err error = {0};
    while (group->running > 0) {
        int rc = cc_waitlist_wait(&group->waiting, is_empty, group, 0, "the members of a group", &error);
        if (rc == 0)
            continue;
        /* Members borrow from the caller, so it stays until the last one has unwound. */
        bool failed_before = group->first_error.code != 0;
        cc_group_cancel(group);
        struct cc_scope scope;
        cc_scope_open_at(&scope, CC_MONO_NEVER, true);
        while (group->running > 0)
            cc_ignore(cc_waitlist_wait(&group->waiting, is_empty, group, 0, "the members of a group", NULL),
                      "a shielded wait without a deadline cannot fail");
        cc_scope_close(&scope);
        /* That they were cancelled is our doing; the cause is the caller's deadline or cancellation. */
        if (!failed_before && group->first_error.code == CC_CANCELED)
            group->first_error = error;
    }
    if (group->first_error.code != 0 && err)
        *err = group->first_error;
    return group->first_error.code;
}

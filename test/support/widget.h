/* A small custom kind for tests of lists, watches and caches: Widget in widgets.cocoonstack.example/v1. spec.size must
 * be an integer, else the object is malformed. */
#ifndef CC_TEST_WIDGET_H
#define CC_TEST_WIDGET_H

#include "kube/object.h"
#include "support/fake_kube.h"

struct widget {
    struct cc_object base;
    int64_t size;
    const char *group; /* label "group" */
};

extern const struct cc_kube_resource widget_resource;
static inline const struct widget *widget_of(const struct cc_object *object) {
    return (const struct widget *)object;
}

void widget_register(struct fake_kube *kube);
/* Creates or changes one in namespace "ns"; group may be NULL. */
void widget_put(struct fake_kube *kube, const char *name, int size, const char *group);
/* One whose spec.size is a text. */
void widget_put_malformed(struct fake_kube *kube, const char *name);
int widget_decode(const json_t *json, struct cc_object **ret, struct cc_err *err);

#endif

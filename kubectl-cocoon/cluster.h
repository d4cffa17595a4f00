/* Reading sets, pods and CocoonHibernations for `kubectl cocoon`. */
#ifndef KC_CLUSTER_H
#define KC_CLUSTER_H

#include "api/cocoonset.h"
#include "app.h"
#include "kube/client.h"
#include "kube/watch_cache.h"

/* All objects of a kind in the namespace ("" = everywhere). An object that cannot be read is left out and said on
 * app->progress. Caller cc_object_list_done()s. label_selector may be NULL. */
CC_YIELDS CC_MUST_USE int kc_list(struct kc_app *app, const struct cc_kube_resource *resource,
                                  const char *label_selector, struct cc_object_list *ret, struct cc_err *err);
/* One object, typed; caller cc_object_unref()s. */
CC_YIELDS CC_MUST_USE int kc_get(struct kc_app *app, const struct cc_kube_resource *resource, const char *name,
                                 const struct cc_object **ret, struct cc_err *err);
CC_YIELDS CC_MUST_USE int kc_get_set(struct kc_app *app, const char *name, const struct cc_cocoonset **ret,
                                     struct cc_err *err);
/* Reference to an object of app->namespace. */
struct cc_kube_ref kc_ref(const struct kc_app *app, const struct cc_kube_resource *resource, const char *name);

#endif

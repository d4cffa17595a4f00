/* `kubectl cocoon hibernate POD [--wake]`: the pod's CocoonHibernation is made, or its desire flipped. */
#include "app.h"

#include "aio/fiber.h"
#include "api/cocoonhibernation.h"
#include "base/json.h"
#include "base/text.h"
#include "cluster.h"
#include "wait.h"

struct goal {
    struct kc_app *app;
    const char *name, *phase;
    int64_t generation;
};

CC_YIELDS static int probe(void *ctx, struct kc_progress *ret, struct cc_err *err) {
    struct goal *goal = (struct goal *)ctx;
    const struct cc_object *object = NULL;
    int rc = kc_get(goal->app, &cc_cocoonhibernation_resource, goal->name, &object, err);

    if (rc != 0)
        return rc;
    const struct cc_cocoonhibernation *hibernation = cc_cocoonhibernation_of(object);
    const struct cc_condition *ready =
        cc_condition_find(hibernation->conditions, hibernation->condition_count, "Ready");
    bool is_seen = hibernation->observed_generation >= goal->generation;
    const char *why = is_seen && ready && !cc_text_equal(ready->message, hibernation->phase) ? ready->message : "";
    snprintf(ret->text, sizeof ret->text, "%s: %s%s%s", goal->name,
             is_seen ? cc_text_or(hibernation->phase, "Pending") : "waiting for the operator", *why ? ", " : "", why);
    ret->is_done = is_seen && cc_text_equal(hibernation->phase, goal->phase);
    if (object->meta.generation > goal->generation && !ret->is_done)
        rc = cc_err_set(err, CC_INVALID, "%s was changed by somebody else meanwhile", goal->name);
    cc_object_unref(object);
    return rc;
}

/* The pod's object under whatever name it has; *ret "" when there is none. */
CC_YIELDS static int find(struct kc_app *app, const char *pod, const char **ret, struct cc_err *err) {
    struct cc_object_list list = {0};
    int rc = kc_list(app, &cc_cocoonhibernation_resource, NULL, &list, err);

    *ret = "";
    for (size_t i = 0; rc == 0 && i < list.count; i++) {
        if (cc_text_equal(cc_cocoonhibernation_of(list.items[i])->pod_name, pod))
            *ret = cc_arena_strdup(&app->arena, list.items[i]->meta.name);
    }
    cc_object_list_done(&list);
    return rc;
}

CC_YIELDS static int create(struct kc_app *app, const char *pod, const char *desire, json_t **ret, struct cc_err *err) {
    struct cc_kube_ref pod_ref = kc_ref(app, &cc_pod_resource, pod);
    struct cc_kube_ref ref = kc_ref(app, &cc_cocoonhibernation_resource, pod);
    json_t *object cc_cleanup(cc_json_decref_p) = json_pack(
        "{s:s, s:s, s:{s:s}, s:{s:{s:s}, s:s}}", "apiVersion", cc_cocoonhibernation_resource.api_version, "kind",
        cc_cocoonhibernation_resource.kind, "metadata", "name", pod, "spec", "podRef", "name", pod, "desire", desire);
    /* A misspelt name would wait for its pod for ever. */
    int rc = cc_kube_get(&app->kube, &pod_ref, NULL, err);

    return rc ? rc : cc_kube_create(&app->kube, &ref, object, ret, err);
}

CC_YIELDS static int flip(struct kc_app *app, const char *name, const char *desire, json_t **ret, struct cc_err *err) {
    struct cc_kube_ref ref = kc_ref(app, &cc_cocoonhibernation_resource, name);
    json_t *patch cc_cleanup(cc_json_decref_p) = json_pack("{s:{s:s}}", "spec", "desire", desire);

    return cc_kube_patch(&app->kube, &ref, CC_PATCH_MERGE, patch, ret, err);
}

int kc_hibernate(struct kc_app *app, struct cc_err *err) {
    const char *pod = app->arguments.names[0];
    const char *desire = app->arguments.wake ? "Wake" : "Hibernate";
    struct goal goal = {.app = app, .phase = app->arguments.wake ? "Active" : "Hibernated"};
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    int rc = find(app, pod, &goal.name, err);

    if (rc == 0)
        rc = *goal.name ? flip(app, goal.name, desire, &answer, err) : create(app, pod, desire, &answer, err);
    if (rc != 0)
        return rc;
    goal.name = *goal.name ? goal.name : pod;
    goal.generation = cc_json_int(cc_json_member(answer, "metadata"), "generation", 0);
    if (app->arguments.wait)
        rc = kc_wait(app, probe, &goal, err);
    if (rc != 0)
        return rc;
    if (app->arguments.json)
        kc_print_json(app, answer);
    else
        fprintf(app->out, "cocoonhibernation.cocoonset.cocoonstack.io/%s %s\n", goal.name,
                app->arguments.wait ? (app->arguments.wake ? "woken" : "hibernated")
                                    : (app->arguments.wake ? "is being woken" : "is being hibernated"));
    return 0;
}

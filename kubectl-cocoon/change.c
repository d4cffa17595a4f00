/* `kubectl cocoon suspend`, `wake`, `migrate`: one patch of a set's spec, then --wait. */
#include "app.h"

#include "aio/fiber.h"
#include "api/cocoonset.h"
#include "api/node.h"
#include "base/json.h"
#include "base/text.h"
#include "cluster.h"
#include "meta/vm_name.h"
#include "wait.h"

/* What is waited for: the phase at the generation of our own write, and where the main agent is. */
struct goal {
    struct kc_app *app;
    const char *set, *phase;
    const char *node; /* NULL = anywhere */
    int64_t generation;
};

CC_YIELDS static int main_is_there(const struct goal *goal, bool *ret, struct cc_err *err) {
    const struct cc_object *pod = NULL;
    const char *name = cc_agent_pod_name(goal->set, 0, &goal->app->arena);
    int rc = kc_get(goal->app, &cc_pod_resource, name, &pod, err);

    *ret = rc == 0 && cc_text_equal(cc_pod_of(pod)->node_name, goal->node) && !cc_object_is_deleting(&pod->meta);
    cc_object_unref(pod);
    return rc == CC_NOT_FOUND ? 0 : rc;
}

CC_YIELDS static int probe(void *ctx, struct kc_progress *ret, struct cc_err *err) {
    struct goal *goal = (struct goal *)ctx;
    const struct cc_cocoonset *set = NULL;
    int rc = kc_get_set(goal->app, goal->set, &set, err);

    if (rc != 0)
        return rc;
    const struct cc_cocoonset_status *status = &set->status;
    bool is_seen = status->observed_generation >= goal->generation;
    snprintf(ret->text, sizeof ret->text, "%s: %s, %d/%d agents and %d/%d toolboxes ready", goal->set,
             is_seen ? cc_text_or(status->phase, "Pending") : "waiting for the operator", status->ready_agents,
             status->desired_agents, status->ready_toolboxes, status->desired_toolboxes);
    ret->is_done = is_seen && cc_text_equal(status->phase, goal->phase);
    /* Somebody else's later change: our goal may never come. */
    if (set->base.meta.generation > goal->generation && !ret->is_done)
        rc = cc_err_set(err, CC_INVALID, "%s was changed by somebody else meanwhile", goal->set);
    cc_object_unref(&set->base);
    if (rc == 0 && ret->is_done && goal->node)
        rc = main_is_there(goal, &ret->is_done, err);
    return rc;
}

CC_YIELDS static int patch_set(struct kc_app *app, const json_t *spec, const char *done, struct goal *goal,
                               struct cc_err *err) {
    struct cc_kube_ref ref = kc_ref(app, &cc_cocoonset_resource, goal->set);
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    json_t *patch cc_cleanup(cc_json_decref_p) = json_object();

    cc_json_set_new(patch, "spec", json_incref((json_t *)spec));
    int rc = cc_kube_patch(&app->kube, &ref, CC_PATCH_MERGE, patch, &answer, err);
    if (rc != 0)
        return rc;
    goal->app = app;
    goal->generation = cc_json_int(cc_json_member(answer, "metadata"), "generation", 0);
    if (app->arguments.wait)
        rc = kc_wait(app, probe, goal, err);
    if (rc == 0 && app->arguments.json && app->arguments.wait)
        rc = cc_kube_get(&app->kube, &ref, (cc_json_decref_p(&answer), &answer), err);
    if (rc != 0)
        return rc;
    if (app->arguments.json)
        kc_print_json(app, answer);
    else
        fprintf(app->out, "cocoonset.cocoonset.cocoonstack.io/%s %s\n", goal->set, done);
    return 0;
}

int kc_suspend(struct kc_app *app, bool suspend, struct cc_err *err) {
    struct goal goal = {.set = app->arguments.names[0], .phase = suspend ? "Suspended" : "Running"};
    json_t *spec cc_cleanup(cc_json_decref_p) = json_object();
    const char *done =
        app->arguments.wait ? (suspend ? "suspended" : "woken") : (suspend ? "is being suspended" : "is being woken");

    cc_json_set_bool(spec, "suspend", suspend);
    return patch_set(app, spec, done, &goal, err);
}

/* A misspelt node would leave the main agent without a seat: better said before. Who may not read nodes goes on. */
CC_YIELDS static int check_node(struct kc_app *app, const char *node, struct cc_err *err) {
    struct cc_kube_ref ref = {.resource = &cc_node_resource, .name = node};
    struct cc_err why = {0};
    int rc = cc_kube_get(&app->kube, &ref, NULL, &why);

    if (rc == 0 || rc == CC_DENIED)
        return 0;
    *err = why;
    return rc;
}

int kc_migrate(struct kc_app *app, struct cc_err *err) {
    struct goal goal = {.set = app->arguments.names[0], .phase = "Running", .node = app->arguments.names[1]};
    json_t *spec cc_cleanup(cc_json_decref_p) = json_object();
    const struct cc_cocoonset *set = NULL;
    int rc = check_node(app, goal.node, err);

    if (rc == 0)
        rc = kc_get_set(app, goal.set, &set, err);
    if (rc != 0)
        return rc;
    if (set->suspend) /* it moves when it wakes */
        goal = (struct goal){.set = goal.set, .phase = "Suspended"};
    cc_object_unref(&set->base);
    cc_json_set_text(spec, "nodeName", app->arguments.names[1]);
    return patch_set(app, spec, app->arguments.wait ? "migrated" : "is being migrated", &goal, err);
}

/* `kubectl cocoon status [SET]`. */
#include "app.h"

#include <stdlib.h>

#include "aio/fiber.h"
#include "api/cocoonhibernation.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "cluster.h"
#include "meta/keys.h"
#include "tree.h"

struct reading {
    struct cc_object_list sets, pods, hibernations;
};

static void done(struct reading *reading) {
    cc_object_list_done(&reading->sets);
    cc_object_list_done(&reading->pods);
    cc_object_list_done(&reading->hibernations);
}

CC_YIELDS static int read_sets(struct kc_app *app, struct cc_object_list *ret, struct cc_err *err) {
    if (app->arguments.name_count == 0)
        return kc_list(app, &cc_cocoonset_resource, NULL, ret, err);
    const struct cc_object *set = NULL;
    int rc = kc_get(app, &cc_cocoonset_resource, app->arguments.names[0], &set, err);
    if (rc != 0)
        return rc;
    ret->items = cc_xmalloc(sizeof(*ret->items));
    ret->items[0] = set;
    ret->count = 1;
    return 0;
}

static void show(struct kc_app *app, const struct reading *reading) {
    struct kc_view view = {
        .sets = reading->sets.items,
        .set_count = reading->sets.count,
        .pods = reading->pods.items,
        .pod_count = reading->pods.count,
        .hibernations = reading->hibernations.items,
        .hibernation_count = reading->hibernations.count,
        .now = cc_now_wall(),
        .with_namespace = app->arguments.all_namespaces,
    };
    struct kc_lines lines;

    kc_tree_build(&view, &app->arena, &lines);
    if (app->arguments.json) {
        json_t *json cc_cleanup(cc_json_decref_p) = kc_tree_json(&lines);
        kc_print_json(app, json);
    } else if (lines.count == 0) {
        fprintf(app->progress, "No CocoonSets found%s%s%s.\n", app->arguments.all_namespaces ? "" : " in ",
                app->arguments.all_namespaces ? "" : app->namespace, app->arguments.all_namespaces ? "" : " namespace");
    } else {
        kc_tree_print(&lines, app->out);
    }
}

int kc_status(struct kc_app *app, struct cc_err *err) {
    struct reading reading = {0};
    const char *selector = app->arguments.name_count > 0
                               ? cc_arena_printf(&app->arena, "%s=%s", CC_KEY_SET_NAME, app->arguments.names[0])
                               : CC_KEY_SET_NAME;
    int rc = read_sets(app, &reading.sets, err);

    if (rc == 0)
        rc = kc_list(app, &cc_pod_resource, selector, &reading.pods, err);
    if (rc == 0)
        rc = kc_list(app, &cc_cocoonhibernation_resource, NULL, &reading.hibernations, err);
    if (rc == 0)
        show(app, &reading);
    done(&reading);
    return rc;
}

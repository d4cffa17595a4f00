/* `kubectl cocoon snapshots SET`: the registry's tags of each VM of the set. It is asked from here, with the caller's
 * own credentials. */
#include "app.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "api/cocoonset.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "cluster.h"
#include "meta/vm_name.h"
#include "oci/http_registry.h"
#include "oci/reference.h"

struct table {
    struct kc_app *app;
    json_t *rows;
};

CC_YIELDS static int look_at_tag(struct table *table, const struct cc_registry *registry, const char *pod,
                                 const char *vm, const char *tag, struct cc_err *err) {
    char digest[CC_DIGEST_BYTES] = "";
    bool is_present = false, is_found = false;
    const char *image = "";
    int rc = registry->ops->has_manifest(registry->ctx, vm, tag, &is_present, digest, NULL, err);

    if (rc != 0 || !is_present)
        return rc;
    struct cc_err why = {0};
    if (cc_registry_base_image(registry, vm, tag, &table->app->arena, &is_found, &image, &why) != 0)
        image = cc_arena_printf(&table->app->arena, "? %s", why.msg);
    json_t *row = json_object();
    cc_json_set_text(row, "pod", pod);
    cc_json_set_text(row, "repository", vm);
    cc_json_set_text(row, "tag", tag);
    cc_json_set_text_nonempty(row, "digest", digest);
    cc_json_set_text_nonempty(row, "image", image);
    cc_json_append_new(table->rows, row);
    return 0;
}

CC_YIELDS static int look_at_vm(struct table *table, const struct cc_registry *registry, const char *pod,
                                const char *vm, struct cc_err *err) {
    struct cc_strlist tags = {0};
    int rc = registry->ops->list_tags(registry->ctx, vm, &table->app->arena, &tags, err);

    for (size_t i = 0; rc == 0 && i < tags.count; i++)
        rc = look_at_tag(table, registry, pod, vm, tags.items[i], err);
    return rc;
}

CC_YIELDS static int look_at_set(struct table *table, const struct cc_registry *registry,
                                 const struct cc_cocoonset *set, struct cc_err *err) {
    struct cc_arena *arena = &table->app->arena;
    const char *namespace = set->base.meta.namespace, *name = set->base.meta.name;
    int rc = 0;

    for (int32_t slot = 0; rc == 0 && slot <= set->agent.replicas && slot <= CC_REPLICAS_MAX; slot++)
        rc = look_at_vm(table, registry, cc_agent_pod_name(name, slot, arena),
                        cc_agent_vm_name(namespace, name, slot, arena), err);
    for (size_t i = 0; rc == 0 && i < set->toolbox_count; i++) {
        const char *pod = cc_toolbox_pod_name(name, set->toolboxes[i].name, arena);
        rc = look_at_vm(table, registry, pod, cc_vm_name(namespace, pod, arena), err);
    }
    return rc;
}

static int wider(int width, const char *text) {
    int length = (int)strlen(text);

    return length > width ? length : width;
}

static void print(const struct table *table) {
    size_t i;
    const json_t *row;
    int pod = 3, repository = 10, tag = 3;

    json_array_foreach (table->rows, i, row) {
        pod = wider(pod, cc_json_text(row, "pod"));
        repository = wider(repository, cc_json_text(row, "repository"));
        tag = wider(tag, cc_json_text(row, "tag"));
    }
    fprintf(table->app->out, "%-*s   %-*s   %-*s   %-19s   IMAGE\n", pod, "POD", repository, "REPOSITORY", tag, "TAG",
            "DIGEST");
    json_array_foreach (table->rows, i, row) {
        fprintf(table->app->out, "%-*s   %-*s   %-*s   %-19.19s   %s\n", pod, cc_json_text(row, "pod"), repository,
                cc_json_text(row, "repository"), tag, cc_json_text(row, "tag"),
                cc_text_or(cc_json_text(row, "digest"), "-"), cc_text_or(cc_json_text(row, "image"), "-"));
    }
}

CC_YIELDS static int open_registry(struct kc_app *app, struct cc_http_registry **ret, struct cc_err *err) {
    const char *base = app->arguments.registry ? app->arguments.registry : getenv("OCI_REGISTRY");
    struct cc_http_registry_options options = {.user_agent = "kubectl-cocoon"};

    if (cc_text_is_empty(base))
        return cc_err_set(err, CC_INVALID,
                          "where are the snapshots? Set OCI_REGISTRY or --registry to what the daemons use");
    if (cc_text_equal(base, "none"))
        return cc_err_set(err, CC_INVALID, "there is no registry (none): snapshots are on the nodes");
    int rc = cc_registry_base_parse(base, &app->arena, &options.base, err);
    return rc ? rc : cc_http_registry_new(app->loop, &options, ret, err);
}

int kc_snapshots(struct kc_app *app, struct cc_err *err) {
    struct table table = {.app = app, .rows = json_array()};
    struct cc_http_registry *registry = NULL;
    const struct cc_cocoonset *set = NULL;
    int rc = open_registry(app, &registry, err);

    if (rc == 0)
        rc = kc_get_set(app, app->arguments.names[0], &set, err);
    if (rc == 0) {
        struct cc_registry port = cc_http_registry_port(registry);
        rc = look_at_set(&table, &port, set, err);
        cc_object_unref(&set->base);
    }
    if (rc == 0 && app->arguments.json) {
        json_t *json cc_cleanup(cc_json_decref_p) = json_object();
        cc_json_set_new(json, "snapshots", json_incref(table.rows));
        kc_print_json(app, json);
    } else if (rc == 0 && json_array_size(table.rows) == 0) {
        fprintf(app->progress, "The registry holds no snapshot of %s.\n", app->arguments.names[0]);
    } else if (rc == 0) {
        print(&table);
    }
    cc_http_registry_free(registry);
    json_decref(table.rows);
    return rc;
}

#include "support/widget.h"

#include "base/alloc.h"
#include "base/json.h"

int widget_decode(const json_t *json, struct cc_object **ret, struct cc_err *err) {
    struct widget *widget = CC_NEW(struct widget);
    const json_t *size = cc_json_path(json, "spec", "size", NULL);

    widget->base.references = 1;
    int rc = cc_object_meta_decode(json, &widget->base.arena, &widget->base.meta, err);
    if (rc == 0 && !json_is_integer(size))
        rc = cc_err_set(err, CC_INVALID, "spec.size: not an integer");
    if (rc) {
        cc_object_unref(&widget->base);
        return rc;
    }
    widget->size = json_integer_value(size);
    widget->group = cc_strmap_text(&widget->base.meta.labels, "group");
    *ret = &widget->base;
    return 0;
}

const struct cc_kube_resource widget_resource = {"widgets.cocoonstack.example/v1", "Widget", "widgets", true,
                                                 widget_decode};

void widget_register(struct fake_kube *kube) {
    fake_kube_add_resource(kube, widget_resource.api_version, widget_resource.kind, widget_resource.plural, true);
}

static void put(struct fake_kube *kube, const char *name, const char *group, json_t *size) {
    json_t *widget = json_pack("{s:s,s:s,s:{s:s,s:s,s:{}},s:{s:o}}", "apiVersion", widget_resource.api_version, "kind",
                               "Widget", "metadata", "namespace", "ns", "name", name, "labels", "spec", "size", size);

    cc_json_set_text_nonempty(cc_json_path(widget, "metadata", "labels", NULL), "group", group);
    fake_kube_put(kube, widget);
    json_decref(widget);
}

void widget_put(struct fake_kube *kube, const char *name, int size, const char *group) {
    put(kube, name, group, json_integer(size));
}

void widget_put_malformed(struct fake_kube *kube, const char *name) {
    put(kube, name, NULL, json_string("two"));
}

/* Objects, their history, and the watches that read it. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/json.h"
#include "base/text.h"
#include "support/fake_kube_internal.h"

/* 2026-08-30T12:00:00Z, for fakes without a loop. */
#define FIXED_TIME_S INT64_C(1788091200)
#define TEXT_BYTES_MAX ((size_t)64 * 1024 * 1024)

struct cc_wall fake_now(const struct fake_kube *kube) {
    if (!kube->loop)
        return (struct cc_wall){FIXED_TIME_S * CC_NS_PER_S};
    return cc_loop_now_wall(kube->loop);
}

json_t *fake_time(const struct fake_kube *kube, int64_t plus_s) {
    char text[CC_RFC3339_BYTES];
    struct cc_wall time = fake_now(kube);

    time.ns += plus_s * CC_NS_PER_S;
    return json_string(cc_rfc3339_seconds(time, text));
}

const struct fake_resource *fake_resource_find(const struct fake_kube *kube, const char *api_version,
                                               const char *plural) {
    for (size_t i = 0; i < kube->resource_count; i++) {
        const struct fake_resource *resource = kube->resources[i];

        if (!resource->removed && strcmp(resource->plural, plural) == 0 &&
            (!api_version || strcmp(resource->api_version, api_version) == 0))
            return resource;
    }
    return NULL;
}

const struct fake_resource *fake_resource_of_kind(const struct fake_kube *kube, const char *api_version,
                                                  const char *kind) {
    for (size_t i = 0; i < kube->resource_count; i++) {
        const struct fake_resource *resource = kube->resources[i];

        if (cc_text_equal(resource->kind, kind) && cc_text_equal(resource->api_version, api_version))
            return resource;
    }
    return NULL;
}

/* --- objects ------------------------------------------------------------------------------------------------------ */

static int compare(const struct fake_object *object, const struct fake_resource *resource, const char *namespace,
                   const char *name) {
    int order = strcmp(object->resource->plural, resource->plural);

    if (order == 0)
        order = strcmp(object->namespace, namespace);
    return order != 0 ? order : strcmp(object->name, name);
}

/* Index of the object, or of the place where it belongs. */
static size_t place_of(const struct fake_kube *kube, const struct fake_resource *resource, const char *namespace,
                       const char *name, bool *ret_found) {
    size_t low = 0, high = kube->object_count;

    *ret_found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(kube->objects[middle], resource, namespace, name);

        if (order == 0) {
            *ret_found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct fake_object *fake_store_find(const struct fake_kube *kube, const struct fake_resource *resource,
                                    const char *namespace, const char *name) {
    bool found;
    size_t place = place_of(kube, resource, resource->namespaced ? cc_text_or(namespace, "") : "", name, &found);

    return found ? kube->objects[place] : NULL;
}

/* The text of a member that is the same in an earlier version of the object is taken from there. */
static void put_member(struct fake_text *text, struct cc_buf *into, const char *key, const json_t *member,
                       const struct fake_text *earlier) {
    char *made cc_cleanup(cc_free_p) = NULL;
    size_t start, known = 0;

    cc_buf_printf(into, "%s\"%s\":", into->len > 1 ? "," : "", key);
    start = into->len;
    while (earlier && known < earlier->part_count && earlier->parts[known].member != member)
        known++;
    if (earlier && known < earlier->part_count) {
        cc_buf_append(into, earlier->bytes + earlier->parts[known].start, earlier->parts[known].count);
    } else {
        made = cc_json_dump(member);
        cc_buf_puts(into, made);
    }
    if (text->part_count < FAKE_TEXT_PARTS) {
        text->parts[text->part_count].member = member;
        text->parts[text->part_count].start = start;
        text->parts[text->part_count++].count = into->len - start;
    }
}

/* earlier: NULL or the text of an object whose members are still there. */
static struct fake_text *text_of(const json_t *json, const struct fake_text *earlier) {
    struct fake_text *text = CC_NEW(struct fake_text);
    struct cc_buf bytes;
    const char *key;
    json_t *member;

    text->references = 1;
    cc_buf_init(&bytes, TEXT_BYTES_MAX);
    cc_buf_putc(&bytes, '{');
    json_object_foreach ((json_t *)json, key, member)
        put_member(text, &bytes, key, member, earlier);
    cc_buf_putc(&bytes, '}');
    cc_assert(!bytes.overflown);
    text->count = bytes.len;
    text->bytes = cc_buf_steal(&bytes);
    return text;
}

struct fake_text *fake_text_ref(struct fake_text *text) {
    if (text)
        text->references++;
    return text;
}

void fake_text_unref(struct fake_text *text) {
    if (!text || --text->references > 0)
        return;
    free(text->bytes);
    free(text);
}

static void free_object(struct fake_object *object) {
    json_decref(object->json);
    fake_text_unref(object->text);
    free(object->namespace);
    free(object->name);
    free(object);
}

static void insert(struct fake_kube *kube, struct fake_object *object) {
    bool found;
    size_t place = place_of(kube, object->resource, object->namespace, object->name, &found);

    cc_assert(!found);
    if (kube->object_count == kube->object_capacity) {
        kube->object_capacity = kube->object_capacity ? kube->object_capacity * 2 : 64;
        kube->objects = cc_xrealloc(kube->objects, kube->object_capacity * sizeof *kube->objects);
    }
    memmove(kube->objects + place + 1, kube->objects + place, (kube->object_count - place) * sizeof *kube->objects);
    kube->objects[place] = object;
    kube->object_count++;
}

static void record(struct fake_kube *kube, const struct fake_resource *resource, json_t *old_json, json_t *new_json,
                   struct fake_text *text) {
    if (kube->history_count == kube->history_capacity) {
        kube->history_capacity = kube->history_capacity ? kube->history_capacity * 2 : 256;
        kube->history = cc_xrealloc(kube->history, kube->history_capacity * sizeof *kube->history);
    }
    kube->history[kube->history_count++] = (struct fake_change){
        .resource_version = kube->resource_version,
        .resource = resource,
        .old_json = json_incref(old_json),
        .new_json = json_incref(new_json),
        .text = fake_text_ref(text),
    };
    fake_store_wake(kube);
}

static void stamp(struct fake_kube *kube, json_t *json) {
    char *text cc_cleanup(cc_free_p) = cc_xasprintf("%lld", (long long)++kube->resource_version);
    json_t *metadata = json_copy(json_object_get(json, "metadata"));

    /* The metadata may be shared with the previous version of the object. */
    cc_json_set_text(metadata, "resourceVersion", text);
    cc_json_set_new(json, "metadata", metadata);
}

json_t *fake_store_write(struct fake_kube *kube, const struct fake_resource *resource, struct fake_object *old,
                         json_t *take_json) {
    json_t *metadata = json_object_get(take_json, "metadata");

    stamp(kube, take_json);
    metadata = json_object_get(take_json, "metadata");
    struct fake_text *text = text_of(take_json, old ? old->text : NULL);
    if (old) {
        record(kube, resource, old->json, take_json, text);
        json_decref(old->json);
        fake_text_unref(old->text);
        old->json = take_json;
        old->text = text;
        return take_json;
    }
    struct fake_object *object = CC_NEW(struct fake_object);
    object->resource = resource;
    object->namespace = cc_xstrdup(resource->namespaced ? cc_text_or(cc_json_text(metadata, "namespace"), "") : "");
    object->name = cc_xstrdup(cc_text_or(cc_json_text(metadata, "name"), ""));
    object->json = take_json;
    object->text = text;
    insert(kube, object);
    record(kube, resource, NULL, take_json, text);
    return take_json;
}

void fake_store_remove(struct fake_kube *kube, struct fake_object *object, json_t *take_last) {
    bool found;
    size_t place = place_of(kube, object->resource, object->namespace, object->name, &found);

    cc_assert(found && kube->objects[place] == object);
    stamp(kube, take_last);
    memmove(kube->objects + place, kube->objects + place + 1, (kube->object_count - place - 1) * sizeof *kube->objects);
    kube->object_count--;
    record(kube, object->resource, take_last, NULL, NULL);
    json_decref(take_last);
    free_object(object);
}

/* --- watches ------------------------------------------------------------------------------------------------------ */

void fake_store_wake(struct fake_kube *kube) {
    for (struct fake_stream *stream = kube->streams; stream; stream = stream->next)
        cc_event_set(&stream->changed);
}

static void put_text(struct fake_stream *stream, const char *type, const char *text, size_t count) {
    cc_buf_puts(&stream->out, "{\"type\":\"");
    cc_buf_puts(&stream->out, type);
    cc_buf_puts(&stream->out, "\",\"object\":");
    cc_buf_append(&stream->out, text, count);
    cc_buf_puts(&stream->out, "}\n");
}

static void put_frame(struct fake_stream *stream, const char *type, const json_t *object) {
    char *text cc_cleanup(cc_free_p) = cc_json_dump(object);

    put_text(stream, type, text, strlen(text));
}

/* An object that starts or stops to match the selection is ADDED or DELETED for this stream. */
static bool put_change(struct fake_stream *stream, const struct fake_change *change) {
    if (change->resource != stream->resource)
        return false;
    bool was = fake_select(change->old_json, stream->namespace, stream->label_selector, stream->field_selector);
    bool is = fake_select(change->new_json, stream->namespace, stream->label_selector, stream->field_selector);

    if (!was && !is)
        return false;
    if (is) {
        put_text(stream, was ? "MODIFIED" : "ADDED", change->text->bytes, change->text->count);
        return true;
    }
    /* The deleted state carries the version of the deletion, also when only the selection was left. */
    json_t *last = json_copy(change->old_json);
    json_t *metadata = json_copy(json_object_get(last, "metadata"));
    char *version cc_cleanup(cc_free_p) = cc_xasprintf("%lld", (long long)change->resource_version);
    cc_json_set_text(metadata, "resourceVersion", version);
    cc_json_set_new(last, "metadata", metadata);
    put_frame(stream, "DELETED", last);
    json_decref(last);
    return true;
}

void fake_stream_begin(struct fake_stream *stream) {
    struct fake_kube *kube = stream->kube;

    for (size_t i = 0; i < kube->object_count; i++)
        if (kube->objects[i]->resource == stream->resource &&
            fake_select(kube->objects[i]->json, stream->namespace, stream->label_selector, stream->field_selector))
            put_frame(stream, "ADDED", kube->objects[i]->json);
    stream->position = kube->history_count;
}

void fake_stream_fill(struct fake_stream *stream) {
    struct fake_kube *kube = stream->kube;

    while (stream->position < kube->history_count && (!kube->hold || stream->steps > 0)) {
        if (put_change(stream, &kube->history[stream->position++]) && kube->hold)
            stream->steps--;
    }
}

void fake_kube_hold_watches(struct fake_kube *kube, bool hold) {
    kube->hold = hold;
    for (struct fake_stream *stream = kube->streams; stream; stream = stream->next)
        stream->steps = 0;
    fake_store_wake(kube);
}

void fake_kube_step_watches(struct fake_kube *kube, size_t count) {
    for (struct fake_stream *stream = kube->streams; stream; stream = stream->next)
        stream->steps += count;
    fake_store_wake(kube);
}

static bool is_stream_of(const struct fake_stream *stream, const char *plural) {
    return !plural || strcmp(stream->resource->plural, plural) == 0;
}

void fake_kube_bookmark(struct fake_kube *kube, const char *plural) {
    char *version cc_cleanup(cc_free_p) = cc_xasprintf("%lld", (long long)kube->resource_version);

    for (struct fake_stream *stream = kube->streams; stream; stream = stream->next) {
        if (!is_stream_of(stream, plural) || kube->hold || !stream->wants_bookmarks)
            continue;
        fake_stream_fill(stream);
        json_t *object = json_pack("{s:s,s:s,s:{s:s}}", "kind", stream->resource->kind, "apiVersion",
                                   stream->resource->api_version, "metadata", "resourceVersion", version);
        put_frame(stream, "BOOKMARK", object);
        json_decref(object);
    }
    fake_store_wake(kube);
}

void fake_kube_end_watches(struct fake_kube *kube, const char *plural, int status) {
    for (struct fake_stream *stream = kube->streams; stream; stream = stream->next) {
        if (!is_stream_of(stream, plural))
            continue;
        if (status != 0) {
            struct fake_answer answer =
                fake_api_status(status, status == 410 ? "Expired" : NULL, "watch ended by the test");
            put_frame(stream, "ERROR", answer.body);
            fake_answer_done(&answer);
        }
        stream->ended = true;
    }
    fake_store_wake(kube);
}

void fake_kube_inject(struct fake_kube *kube, const char *plural, const char *bytes) {
    for (struct fake_stream *stream = kube->streams; stream; stream = stream->next) {
        if (is_stream_of(stream, plural))
            cc_buf_puts(&stream->out, bytes);
    }
    fake_store_wake(kube);
}

size_t fake_kube_watch_count(const struct fake_kube *kube, const char *plural) {
    size_t count = 0;

    for (const struct fake_stream *stream = kube->streams; stream; stream = stream->next)
        count += is_stream_of(stream, plural);
    return count;
}

void fake_kube_compact(struct fake_kube *kube) {
    struct fake_page *page;

    kube->compacted_to = kube->resource_version;
    while ((page = kube->pages)) {
        kube->pages = page->next;
        json_decref(page->items);
        free(page);
    }
}

int64_t fake_kube_resource_version(const struct fake_kube *kube) {
    return kube->resource_version;
}

void fake_store_done(struct fake_kube *kube) {
    for (size_t i = 0; i < kube->object_count; i++)
        free_object(kube->objects[i]);
    for (size_t i = 0; i < kube->history_count; i++) {
        json_decref(kube->history[i].old_json);
        json_decref(kube->history[i].new_json);
        fake_text_unref(kube->history[i].text);
    }
    fake_kube_compact(kube);
    free(kube->objects);
    free(kube->history);
}

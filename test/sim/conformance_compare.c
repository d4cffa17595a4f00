/* What two servers may differ in is replaced; everything else must be the same. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "conformance.h"

#define LINES_MAX 8 /* of one operation */
#define UUID_LENGTH 36

void conf_print_normalised(void) {
    puts("normalised before the comparison:\n"
         "  uid, also within texts            its number in order of appearance\n"
         "  metadata.resourceVersion          its rank among all versions of objects that were seen\n"
         "  creationTimestamp, deletionTimestamp, times set by controllers: that there is one\n"
         "  metadata.managedFields            left out\n"
         "  continue, remainingItemCount      the token: that there is one\n"
         "  message, details                  of 400, 415 and 500, which are Go's own words: left out; of others the "
         "first line\n"
         "  details.causes                    sorted, each once; the message of a refusal with several is left out\n"
         "  message of an unschedulable pod   that there is one\n"
         "  too old resource version: 1 (2)   without the oldest version that is left\n"
         "  bookmarks                         of a watch that runs to its end: that there is one, not older than what "
         "came before");
}

/* --- uids -----------------------------------------------------------------------------------------------------------
 */

struct names {
    char **texts;
    size_t count;
};

static size_t number_of(struct names *names, const char *text) {
    for (size_t i = 0; i < names->count; i++)
        if (strncmp(names->texts[i], text, UUID_LENGTH) == 0)
            return i;
    names->texts = cc_xrealloc(names->texts, (names->count + 1) * sizeof *names->texts);
    names->texts[names->count] = cc_xstrndup(text, UUID_LENGTH);
    return names->count++;
}

static bool is_uuid(const char *text) {
    for (size_t i = 0; i < UUID_LENGTH; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
            return false;
    }
    return true;
}

/* --- versions -------------------------------------------------------------------------------------------------------
 */

struct versions {
    int64_t *values;
    size_t count;
};

static void add_version(struct versions *versions, const json_t *metadata) {
    int64_t value;

    if (!cc_json_text(metadata, "name") ||
        !cc_parse_int64(cc_json_text(metadata, "resourceVersion"), 1, INT64_MAX, &value))
        return;
    versions->values = cc_xrealloc(versions->values, (versions->count + 1) * sizeof *versions->values);
    versions->values[versions->count++] = value;
}

static void collect_versions(const json_t *value, struct versions *into) {
    const char *key;
    json_t *item;
    size_t i;

    json_object_foreach ((json_t *)value, key, item) {
        if (strcmp(key, "metadata") == 0)
            add_version(into, item);
        collect_versions(item, into);
    }
    json_array_foreach (value, i, item)
        collect_versions(item, into);
}

static int by_value(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static void sort_versions(struct versions *versions) {
    size_t kept = 0;

    if (versions->count == 0)
        return;
    qsort(versions->values, versions->count, sizeof *versions->values, by_value);
    for (size_t i = 0; i < versions->count; i++)
        if (kept == 0 || versions->values[i] != versions->values[kept - 1])
            versions->values[kept++] = versions->values[i];
    versions->count = kept;
}

/* How many versions of objects are not newer: also lists and bookmarks, whose version is that of the whole server, have
 * such a place. */
static size_t rank_of(const struct versions *versions, int64_t value) {
    size_t low = 0, high = versions->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (versions->values[middle] <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* --- normalisation --------------------------------------------------------------------------------------------------
 */

struct normaliser {
    struct names uids;
    struct versions versions;
};

/* "(123)" within a text is a version of the server's. */
static size_t put_version_in_text(struct normaliser *normaliser, const char *text, struct cc_buf *out) {
    size_t digits = strspn(text + 1, "0123456789");
    char *number cc_cleanup(cc_free_p) = cc_xstrndup(text + 1, digits);
    int64_t value;

    if (digits == 0 || text[1 + digits] != ')' || !cc_parse_int64(number, 100, INT64_MAX, &value))
        return 0;
    cc_buf_printf(out, "(version-%zu)", rank_of(&normaliser->versions, value));
    return digits + 2;
}

static json_t *plain_text(struct normaliser *normaliser, const char *text) {
    struct cc_buf out;
    size_t length = strcspn(text, "\n");

    if (cc_text_starts_with(text, "too old resource version"))
        length = strcspn(text, "(");

    cc_buf_init(&out, 1 << 20);
    for (size_t i = 0; i < length;) {
        size_t used = 0;

        if (length - i >= UUID_LENGTH && is_uuid(text + i)) {
            cc_buf_printf(&out, "uid-%zu", number_of(&normaliser->uids, text + i));
            used = UUID_LENGTH;
        } else if (text[i] == '(') {
            used = put_version_in_text(normaliser, text + i, &out);
        }
        if (used == 0) {
            cc_buf_putc(&out, text[i]);
            used = 1;
        }
        i += used;
    }
    json_t *json = json_stringn_nocheck(out.len > 0 ? out.data : "", out.len);
    cc_buf_done(&out);
    return json;
}

static bool is_time(const char *key) {
    return strcmp(key, "creationTimestamp") == 0 || strcmp(key, "deletionTimestamp") == 0;
}

static int by_text(const void *a, const void *b) {
    char *left cc_cleanup(cc_free_p) = cc_json_dump_sorted(*(json_t *const *)a);
    char *right cc_cleanup(cc_free_p) = cc_json_dump_sorted(*(json_t *const *)b);

    return strcmp(left, right);
}

/* The server finds them in the random order of Go's maps. */
static void sort_causes(json_t *status) {
    json_t *details = cc_json_member(status, "details"), *causes = cc_json_member(details, "causes"), *item;
    size_t count = json_array_size(causes), i, kept;
    json_t **items = cc_xcalloc(count + 1, sizeof *items), *sorted = json_array();

    json_array_foreach (causes, i, item)
        items[i] = item;
    qsort(items, count, sizeof *items, by_text);
    for (i = 0; i < count; i++)
        if (i == 0 || by_text(&items[i - 1], &items[i]) != 0)
            json_array_append(sorted, items[i]);
    kept = json_array_size(sorted);
    if (count > 1) {
        json_object_set(details, "causes", sorted);
        if (kept > 1)
            json_object_del(status, "message");
    } else if (details && json_object_size(details) == 0) {
        json_object_del(status, "details");
    }
    json_decref(sorted);
    free(items);
}

static json_t *normalised(struct normaliser *normaliser, const char *key, const json_t *value) {
    const char *text = json_string_value(value);
    int64_t version;

    if (json_is_object(value)) {
        json_t *result = json_object();
        size_t count = json_object_size(value), i = 0;
        const char **keys = cc_xcalloc(count + 1, sizeof *keys), *member;
        json_t *item;

        json_object_foreach ((json_t *)value, member, item)
            keys[i++] = member;
        /* In the same order on both sides, so that uids get the same numbers. */
        for (i = 1; i < count; i++)
            for (size_t k = i; k > 0 && strcmp(keys[k], keys[k - 1]) < 0; k--) {
                const char *other = keys[k];
                keys[k] = keys[k - 1];
                keys[k - 1] = other;
            }
        for (i = 0; i < count; i++)
            if (strcmp(keys[i], "managedFields") != 0)
                cc_json_set_new(result, keys[i], normalised(normaliser, keys[i], json_object_get(value, keys[i])));
        free(keys);
        return result;
    }
    if (json_is_array(value)) {
        json_t *result = json_array(), *item;
        size_t i;

        json_array_foreach (value, i, item)
            cc_json_append_new(result, normalised(normaliser, "", item));
        return result;
    }
    if (!text)
        return json_incref((json_t *)value);
    if (is_time(key) || (strcmp(key, "lastTransitionTime") == 0 && !cc_text_starts_with(text, "2026-01-01T")))
        return json_string("<time>");
    if (strcmp(key, "message") == 0 && strstr(text, "nodes are available"))
        return json_string("<why>");
    if (strcmp(key, "continue") == 0 && *text)
        return json_string("<token>");
    if (strcmp(key, "resourceVersion") == 0 && cc_parse_int64(text, 1, INT64_MAX, &version)) {
        char *rank cc_cleanup(cc_free_p) = cc_xasprintf("version-%zu", rank_of(&normaliser->versions, version));
        return json_string(rank);
    }
    return plain_text(normaliser, text);
}

static int64_t version_of(const json_t *frame) {
    int64_t version = 0;

    cc_ignore(cc_parse_int64(cc_json_text(cc_json_path(frame, "object", "metadata", NULL), "resourceVersion"), 0,
                             INT64_MAX, &version),
              "0");
    return version;
}

/* Servers are free in how far a bookmark reaches, but what came before it is behind it. */
static void plain_bookmark(json_t *bookmark, const json_t *frames) {
    json_t *frame;
    size_t i;

    json_array_foreach (frames, i, frame)
        if (version_of(frame) > version_of(bookmark))
            return;
    cc_json_set_text(cc_json_path(bookmark, "object", "metadata", NULL), "resourceVersion", "<not older>");
}

/* Bookmarks come when a server likes. */
static json_t *without_bookmarks(const json_t *frames, bool keep_last) {
    json_t *result = json_array(), *item, *bookmark = NULL;
    size_t i;

    json_array_foreach (frames, i, item) {
        if (cc_text_equal(cc_json_text(item, "type"), "BOOKMARK"))
            bookmark = item;
        else
            json_array_append(result, item);
    }
    if (bookmark && keep_last) {
        plain_bookmark(bookmark, frames);
        json_array_append(result, bookmark);
    }
    return result;
}

void conf_normalise(struct conf_run *run) {
    struct normaliser normaliser = {0};

    for (size_t i = 0; i < run->count; i++)
        collect_versions(run->records[i].body, &normaliser.versions);
    sort_versions(&normaliser.versions);
    for (size_t i = 0; i < run->count; i++) {
        struct conf_record *record = &run->records[i];

        if (record->body && cc_text_starts_with(record->what, "WATCH ")) {
            json_t *frames = without_bookmarks(record->body, strstr(record->what, "timeoutSeconds=") != NULL);
            json_decref(record->body);
            record->body = frames;
        }
        if (record->status == 400 || record->status == 415 || record->status == 500) {
            json_object_del(record->body, "message");
            json_object_del(record->body, "details");
        }
        sort_causes(record->body);
        if (record->body) {
            json_t *plain = normalised(&normaliser, "", record->body);
            json_decref(record->body);
            record->body = plain;
        }
    }
    for (size_t i = 0; i < normaliser.uids.count; i++)
        free(normaliser.uids.texts[i]);
    free(normaliser.uids.texts);
    free(normaliser.versions.values);
}

/* --- differences ----------------------------------------------------------------------------------------------------
 */

struct difference {
    const char *what;
    size_t number, lines;
};

static void print_line(struct difference *difference, const char *path, const json_t *simulated, const json_t *real) {
    if (difference->lines == 0)
        printf("\n%zu. %s\n", difference->number, difference->what);
    if (difference->lines++ >= LINES_MAX)
        return;
    char *left cc_cleanup(cc_free_p) = simulated ? cc_json_dump(simulated) : cc_xstrdup("(absent)");
    char *right cc_cleanup(cc_free_p) = real ? cc_json_dump(real) : cc_xstrdup("(absent)");
    printf("  %s\n    simulated %.600s\n    real      %.600s\n", *path ? path : "/", left, right);
}

static void compare_values(struct difference *difference, const char *path, const json_t *simulated,
                           const json_t *real) {
    const char *key;
    json_t *item;
    size_t i;

    if (simulated && real && json_equal((json_t *)simulated, (json_t *)real))
        return;
    if (json_is_object(simulated) && json_is_object(real)) {
        json_object_foreach ((json_t *)simulated, key, item) {
            char *below cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s", path, key);
            compare_values(difference, below, item, json_object_get(real, key));
        }
        json_object_foreach ((json_t *)real, key, item) {
            char *below cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s", path, key);
            if (!json_object_get(simulated, key))
                print_line(difference, below, NULL, item);
        }
        return;
    }
    if (json_is_array(simulated) && json_is_array(real) && json_array_size(simulated) == json_array_size(real)) {
        json_array_foreach (simulated, i, item) {
            char *below cc_cleanup(cc_free_p) = cc_xasprintf("%s/%zu", path, i);
            compare_values(difference, below, item, json_array_get(real, i));
        }
        return;
    }
    print_line(difference, path, simulated, real);
}

size_t conf_compare(const struct conf_run *simulated, const struct conf_run *real) {
    size_t differing = 0;

    for (size_t i = 0; i < simulated->count || i < real->count; i++) {
        struct difference difference = {.number = i + 1};

        if (i >= simulated->count || i >= real->count) {
            printf("\n%zu. was played on one server only\n", i + 1);
            differing++;
            continue;
        }
        const struct conf_record *left = &simulated->records[i], *right = &real->records[i];
        difference.what = left->what;
        if (left->status != right->status) {
            json_t *a = json_integer(left->status), *b = json_integer(right->status);
            print_line(&difference, "status", a, b);
            json_decref(a);
            json_decref(b);
            print_line(&difference, "", left->body, right->body);
        } else {
            compare_values(&difference, "", left->body, right->body);
        }
        differing += difference.lines > 0;
    }
    return differing;
}

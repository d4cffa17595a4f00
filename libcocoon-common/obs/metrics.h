/* Prometheus metrics: counters, gauges, histograms with labels; text exposition 0.0.4. Series appear on first use. */
#ifndef CC_OBS_METRICS_H
#define CC_OBS_METRICS_H

#include <stddef.h>

#include "base/attributes.h"
#include "base/buf.h"

struct cc_metrics; /* a registry */
struct cc_metric;  /* one family */

#define CC_METRIC_LABELS_MAX 6
#define CC_METRIC_SERIES_MAX 20000 /* per family; a further series is counted into one labelled "overflow" */

struct cc_metrics *cc_metrics_new(void);
void cc_metrics_free(struct cc_metrics *metrics);

/* label_names: NULL-terminated, borrowed for ever (literals). Declaring a name twice aborts. The family is owned by the
 * registry. */
struct cc_metric *cc_metrics_counter(struct cc_metrics *metrics, const char *name, const char *help,
                                     const char *const *label_names);
struct cc_metric *cc_metrics_gauge(struct cc_metrics *metrics, const char *name, const char *help,
                                   const char *const *label_names);
/* bounds: ascending upper bounds without +Inf, borrowed for ever. */
struct cc_metric *cc_metrics_histogram(struct cc_metrics *metrics, const char *name, const char *help,
                                       const char *const *label_names, const double *bounds, size_t bound_count);

/* A family that was declared before, NULL when there is none: for modules that share one, such as work queues. */
struct cc_metric *cc_metrics_find(const struct cc_metrics *metrics, const char *name);

/* Label values in the order of label_names; as many as names. A NULL metric is ignored, so that tests may leave it out.
 *   cc_metric_add(m->reconcile_total, 1, (const char *[]){"cocoonset", "success"}); */
void cc_metric_add(struct cc_metric *metric, double value, const char *const *label_values);
void cc_metric_set(struct cc_metric *metric, double value, const char *const *label_values);
void cc_metric_observe(struct cc_metric *metric, double value, const char *const *label_values);
/* Removes one series. */
void cc_metric_remove(struct cc_metric *metric, const char *const *label_values);
/* Counter and gauge: value; histogram: count. 0 when absent. For tests. */
double cc_metric_value(const struct cc_metric *metric, const char *const *label_values);

/* Called before each exposition, to set gauges that are computed on demand. */
void cc_metrics_on_collect(struct cc_metrics *metrics, void (*collect)(void *ctx), void *ctx);
/* Undoes it, for modules that end before the registry. */
void cc_metrics_off_collect(struct cc_metrics *metrics, void (*collect)(void *ctx), void *ctx);
/* process_* families: CPU seconds, resident and virtual bytes, open descriptors and their limit, start time. */
void cc_metrics_add_process(struct cc_metrics *metrics);
/* `name`{version, revision} 1: what is running. */
void cc_metrics_add_build(struct cc_metrics *metrics, const char *name, const char *version, const char *revision);
/* Appends the exposition: families by name, series by label values, one HELP and TYPE line each. */
void cc_metrics_write(struct cc_metrics *metrics, struct cc_buf *into);

#endif

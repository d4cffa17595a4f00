#include "kube/work_queue_internal.h"

struct cc_metric *cc_queue_counter(struct cc_metrics *metrics, const char *name, const char *help,
                                   const char *const *label_names) {
    struct cc_metric *metric = cc_metrics_find(metrics, name);

    return metric || !metrics ? metric : cc_metrics_counter(metrics, name, help, label_names);
}

struct cc_metric *cc_queue_gauge(struct cc_metrics *metrics, const char *name, const char *help,
                                 const char *const *label_names) {
    struct cc_metric *metric = cc_metrics_find(metrics, name);

    return metric || !metrics ? metric : cc_metrics_gauge(metrics, name, help, label_names);
}

struct cc_metric *cc_queue_histogram(struct cc_metrics *metrics, const char *name, const char *help,
                                     const char *const *label_names, const double *bounds, size_t bound_count) {
    struct cc_metric *metric = cc_metrics_find(metrics, name);

    return metric || !metrics ? metric : cc_metrics_histogram(metrics, name, help, label_names, bounds, bound_count);
}

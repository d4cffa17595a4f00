/* Lists with selectors and pages, watches from a version, bookmarks, versions that are too old; nodes, leases, events.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "conformance.h"
#include "http/url.h"

#define NO_UID "00000000-0000-4000-8000-0000000000ff"
#define MEMBERS 7

CC_YIELDS static void pages(struct conf_run *run, const char *collection, int limit, int count) {
    char target[1024];
    char *token cc_cleanup(cc_free_p) = cc_xstrdup("");

    for (int page = 0; page < count; page++) {
        snprintf(target, sizeof target, "%s?limit=%d%s%s", collection, limit, *token ? "&continue=" : "", token);
        const json_t *answer = conf_get(run, target);
        /* The token is the server's own: the records must not show it. */
        free(run->records[run->count - 1].what);
        run->records[run->count - 1].what = cc_xasprintf("GET %s?limit=%d, page %d", collection, limit, page);
        free(token);
        token = cc_xstrdup(cc_text_or(cc_json_text(cc_json_member(answer, "metadata"), "continue"), ""));
    }
}

CC_YIELDS static void lists(struct conf_run *run) {
    static const char *const queries[] = {
        "configmaps?labelSelector=t%3Dl",
        "configmaps?labelSelector=t%3D%3Dl%2Cn%3D1",
        "configmaps?labelSelector=n%20in%20%281%2C2%29",
        "configmaps?labelSelector=n%20notin%20%281%2C2%29%2Ct",
        "configmaps?labelSelector=n%21%3D1%2Ct%3Dl",
        "configmaps?labelSelector=%21n",
        "configmaps?labelSelector=n",
        "configmaps?labelSelector=absent",
        "configmaps?fieldSelector=metadata.name%3Dl1",
        "configmaps?fieldSelector=metadata.name%21%3Dl1%2Cmetadata.namespace%3Dconformance",
        "configmaps?fieldSelector=data.k%3D1",
        "configmaps?limit=100&labelSelector=t%3Dl",
        "configmaps?continue=nonsense",
        "configmaps?resourceVersion=nonsense",
        "configmaps?limit=nonsense",
        "pods?fieldSelector=spec.nodeName%3Dn1",
        "pods?fieldSelector=spec.nodeName%3D",
        "pods?fieldSelector=status.phase%3DPending%2Cspec.nodeName%21%3Dn1",
        "pods?fieldSelector=status.podIP%3D",
        "pods?fieldSelector=spec.hostname%3Dx",
        "/api/v1/pods?labelSelector=t%3Dl",
        "/api/v1/namespaces/absent/pods",
        "/api/v1/namespaces/conformance/gadgets",
    };
    char target[64];

    for (int i = 0; i < MEMBERS; i++)
        conf_post(
            run, "configmaps",
            "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'l%d','labels':{'t':'l','n':'%d'}},'data':{'k':"
            "'v'}}",
            i, i);
    for (int i = 0; i < 3; i++)
        conf_post(
            run, "pods",
            "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'l%d','labels':{'t':'l'}},'spec':{'schedulerName':"
            "'nobody',%s'containers':[{'name':'a','image':'i:1'}]}}",
            i, i == 0 ? "'nodeName':'n1'," : "");
    for (int i = 0; i < 3; i++)
        conf_post(
            run, "cocoonsets",
            "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'name':'l%d','labels':{'n':"
            "'%d'}},'spec':{'agent':{'image':'i'}}}",
            i, i);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(queries); i++)
        conf_get(run, queries[i]);
    pages(run, "configmaps", 3, 3);
    pages(run, "pods", 1, 3);
    pages(run, "cocoonsets", 2, 2);
    conf_get(run, "cocoonsets?labelSelector=n%3D1");
    conf_get(run, "cocoonsets?fieldSelector=metadata.name%3Dl2");
    conf_get(run, "cocoonsets?fieldSelector=spec.suspend%3Dtrue");
    for (int i = 0; i < 3; i++) {
        snprintf(target, sizeof target, "cocoonsets/l%d", i);
        conf_delete(run, target);
        snprintf(target, sizeof target, "pods/l%d", i);
        conf_delete_with(run, target, "{'gracePeriodSeconds':0}");
    }
}

CC_YIELDS static void watches(struct conf_run *run) {
    char target[256];
    char *begin cc_cleanup(cc_free_p) = cc_xstrdup(conf_version(run, "configmaps/l0"));

    for (int i = 0; i < MEMBERS; i++) {
        snprintf(target, sizeof target, "configmaps/l%d", i);
        if (i % 2 == 0)
            conf_merge(run, target, "{'metadata':{'labels':{'n':'%d'}},'data':{'k':'changed'}}", i + 1);
        else
            conf_delete(run, target);
    }
    /* What happened since a version; labels that start or stop to match. */
    snprintf(target, sizeof target, "configmaps?resourceVersion=%s&timeoutSeconds=2", begin);
    conf_watch_whole(run, target);
    snprintf(target, sizeof target, "configmaps?labelSelector=n%%3D1&resourceVersion=%s&timeoutSeconds=2", begin);
    conf_watch_whole(run, target);
    snprintf(target, sizeof target, "configmaps?labelSelector=n%%3D0&resourceVersion=%s&timeoutSeconds=2", begin);
    conf_watch_whole(run, target);
    /* A bookmark comes two seconds before the end, when something was written since the watch began. */
    conf_watch_begin(run, "maps", "configmaps?timeoutSeconds=6&allowWatchBookmarks=true");
    conf_watch_begin(run, "sets", "cocoonsets?timeoutSeconds=6&allowWatchBookmarks=true");
    conf_watch_begin(run, "plain", "configmaps?timeoutSeconds=6");
    conf_merge(run, "configmaps/l0", "{'data':{'k':'once more'}}");
    conf_post(run, "cocoonsets",
              "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'name':'m'},'spec':{'agent':"
              "{'image':'i'}}}");
    conf_delete(run, "cocoonsets/m");
    conf_watch_await(run, "maps");
    conf_watch_await(run, "sets");
    conf_watch_await(run, "plain");
    /* The real server has seen nothing of our kinds before their CRDs came. */
    conf_forget(run);
    conf_watch_whole(run, "cocoonsets?resourceVersion=1");
    conf_watch_whole(run, "cocoonhibernations?resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=60");
    for (int i = 0; i < MEMBERS; i += 2) {
        snprintf(target, sizeof target, "configmaps/l%d", i);
        conf_delete(run, target);
    }
}

CC_YIELDS static void nodes(struct conf_run *run) {
    conf_watch_begin(run, "nodes", "nodes");
    conf_post(
        run, "nodes",
        "{'apiVersion':'v1','kind':'Node','metadata':{'name':'m1','labels':{'type':'virtual-kubelet'}},'spec':{'taints'"
        ":"
        "[{'key':'virtual-kubelet.io/provider','value':'cocoon','effect':'NoSchedule'}]},'status':{'phase':'Running',"
        "'capacity':{'cpu':'4','memory':'8Gi','pods':'10'},'allocatable':{'cpu':'4','memory':'8Gi','pods':'10'},"
        "'conditions':[{'type':'Ready','status':'True','lastTransitionTime':'2026-01-01T00:00:00Z',"
        "'lastHeartbeatTime':'2026-01-01T00:00:00Z'}],'addresses':[{'type':'InternalIP','address':'10.0.0.1'}],"
        "'daemonEndpoints':{'kubeletEndpoint':{'Port':10250}},'nodeInfo':{'architecture':'amd64','bootID':'b',"
        "'containerRuntimeVersion':'c','kernelVersion':'k','kubeProxyVersion':'','kubeletVersion':'v1.36.0','machineID'"
        ":"
        "'m','operatingSystem':'linux','osImage':'o','systemUUID':'s'}}}");
    conf_post(run, "nodes", "{'apiVersion':'v1','kind':'Node','metadata':{'name':'m1'}}");
    conf_get(run, "nodes/m1");
    conf_get(run, "nodes/absent");
    conf_merge(run, "nodes/m1", "{'metadata':{'labels':{'cocoonstack.io/pool':'default'},'annotations':{'a':'b'}}}");
    conf_merge(run, "nodes/m1", "{'metadata':{'labels':{'Bad Label':'x'}}}");
    conf_merge(run, "nodes/m1", "{'status':{'phase':'Terminated'}}");
    conf_strategic(
        run, "nodes/m1/status",
        "{'status':{'conditions':[{'type':'Ready','status':'False','reason':'R','lastHeartbeatTime':"
        "'2026-01-01T00:00:01Z','lastTransitionTime':'2026-01-01T00:00:01Z'},{'type':'DiskPressure','status':"
        "'False','lastHeartbeatTime':'2026-01-01T00:00:01Z','lastTransitionTime':'2026-01-01T00:00:01Z'}]}}");
    conf_strategic(run, "nodes/m1/status", "{'status':{'capacity':{'pods':'20'},'allocatable':{'pods':'20'}}}");
    conf_strategic(run, "nodes/m1/status", "{'status':{'addresses':[{'type':'InternalIP','address':'10.0.0.2'}]}}");
    conf_strategic(run, "nodes/m1/status", "{'metadata':{'labels':{'via':'status'}},'spec':{'unschedulable':true}}");
    conf_strategic(run, "nodes/m1", "{'spec':{'taints':[{'key':'a','effect':'NoSchedule'}]}}");
    conf_merge(run, "nodes/m1", "{'spec':{'taints':[{'key':'a','effect':'Never'}]}}");
    conf_merge(run, "nodes/m1", "{'spec':{'unschedulable':true}}");
    conf_merge(run, "nodes/m1", "{'spec':{'taints':null,'unschedulable':null}}");
    conf_merge(run, "nodes/m1", "{'metadata':{'uid':'" NO_UID "'}}");
    conf_get(run, "nodes?labelSelector=type%3Dvirtual-kubelet");
    conf_get(run, "nodes?fieldSelector=metadata.name%3Dm1");
    conf_delete(run, "nodes/m1");
    conf_delete(run, "nodes/m1");
    conf_watch_end(run, "nodes");
}

CC_YIELDS static void leases(struct conf_run *run) {
    conf_watch_begin(run, "leases", "leases");
    conf_post(
        run, "leases",
        "{'apiVersion':'coordination.k8s.io/v1','kind':'Lease','metadata':{'name':'e'},'spec':{'holderIdentity':'a',"
        "'leaseDurationSeconds':15,'acquireTime':'2026-01-01T00:00:00.000000Z','renewTime':"
        "'2026-01-01T00:00:00.000000Z','leaseTransitions':0}}");
    json_t *body cc_cleanup(cc_json_decref_p) = json_deep_copy(conf_get(run, "leases/e"));
    cc_json_set_text(json_object_get(body, "spec"), "renewTime", "2026-01-01T00:00:02.000000Z");
    conf_put(run, "leases/e", body);
    conf_put(run, "leases/e", body);
    conf_merge(run, "leases/e", "{'spec':{'renewTime':'2026-01-01T00:00:04.123456Z'}}");
    conf_merge(run, "leases/e", "{'spec':{'leaseDurationSeconds':0}}");
    conf_merge(run, "leases/e", "{'spec':{'leaseTransitions':-1}}");
    conf_merge(run, "leases/e", "{'spec':{'holderIdentity':'','leaseDurationSeconds':1}}");
    conf_merge(run, "leases/e", "{'metadata':{'resourceVersion':'1'},'spec':{'holderIdentity':'b'}}");
    conf_get(run, "leases/absent");
    conf_get(run, "leases");
    conf_delete(run, "leases/e");
    conf_watch_end(run, "leases");
}

CC_YIELDS static void events(struct conf_run *run) {
    conf_watch_begin(run, "events", "events");
    conf_post(
        run, "events",
        "{'apiVersion':'v1','kind':'Event','metadata':{'name':'x.1'},'involvedObject':{'apiVersion':'v1','kind':'Pod',"
        "'namespace':'conformance','name':'x'},'reason':'R','message':'m','type':'Normal','source':{'component':'c'},"
        "'reportingComponent':'c','reportingInstance':'','firstTimestamp':'2026-01-01T00:00:00Z','lastTimestamp':"
        "'2026-01-01T00:00:00Z','count':1}");
    conf_strategic(run, "events/x.1", "{'count':2,'lastTimestamp':'2026-01-01T00:00:05Z','message':'m2'}");
    conf_merge(run, "events/x.1", "{'count':3}");
    conf_post(run, "events",
              "{'apiVersion':'v1','kind':'Event','metadata':{'name':'x.2'},'involvedObject':{'kind':'Pod','namespace':'"
              "other',"
              "'name':'x'},'reason':'R','message':'m','type':'Normal'}");
    conf_post(run, "events",
              "{'apiVersion':'v1','kind':'Event','metadata':{'name':'x.1'},'involvedObject':{'kind':'Pod','namespace':"
              "'conformance','name':'x'},'reason':'R'}");
    conf_get(run, "events?fieldSelector=involvedObject.name%3Dx%2Cinvolvedobject.kind%3DPod");
    conf_get(run, "events?fieldSelector=involvedObject.name%3Dx%2CinvolvedObject.kind%3DPod");
    conf_get(run, "events?fieldSelector=reason%3DR%2Ctype%3DNormal");
    conf_strategic(run, "events/absent", "{'count':2}");
    conf_delete(run, "events/x.1");
    conf_watch_end(run, "events");
}

void conf_lists(struct conf_run *run) {
    lists(run);
    watches(run);
}

void conf_others(struct conf_run *run) {
    nodes(run);
    leases(run);
    events(run);
}

/* What controllers do, as far as there is only one way: garbage collection by owner, the scheduler with one fitting
 * node. The objects are compared when a controller has done its part. */
#include "base/json.h"
#include "conformance.h"

#define NO_UID "00000000-0000-4000-8000-0000000000ff"

CC_YIELDS static void owned_pod(struct conf_run *run, const char *name, const char *owner, const char *uid) {
    conf_post(
        run, "pods",
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s','ownerReferences':[{'apiVersion':"
        "'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','name':'%s','uid':'%s','controller':true,"
        "'blockOwnerDeletion':true}]},'spec':{'schedulerName':'nobody','containers':[{'name':'a','image':'i:1'}]}}",
        name, owner, uid);
}

CC_YIELDS static void garbage(struct conf_run *run) {
    conf_watch_begin(run, "garbage", "pods?labelSelector=%21absent");
    conf_post(run, "cocoonsets",
              "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'name':'o'},'spec':{'agent':"
              "{'image':'i'}}}");
    owned_pod(run, "o-0", "o", conf_uid(run, "cocoonsets/o"));
    conf_get(run, "pods/o-0");
    conf_delete_with(run, "cocoonsets/o", "{'propagationPolicy':'Background'}");
    conf_await_absent(run, "pods/o-0");
    owned_pod(run, "o-1", "o", NO_UID);
    conf_await_absent(run, "pods/o-1");
    conf_watch_end(run, "garbage");
}

CC_YIELDS static void scheduling(struct conf_run *run) {
    static const char pod[] =
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s'},'spec':{%s'containers':[{'name':'a',"
        "'image':'i:1'}]}}";
    static const char node[] =
        "{'apiVersion':'v1','kind':'Node','metadata':{'name':'%s','labels':{'kubernetes.io/"
        "hostname':'%s','pool':'%s'}},"
        "'spec':{%s},'status':{'capacity':{'cpu':'4','memory':'8Gi','pods':'10'},'allocatable':{'cpu':'4','memory':'"
        "8Gi',"
        "'pods':'10'},'conditions':[{'type':'Ready','status':'True','lastTransitionTime':'2026-01-01T00:00:00Z',"
        "'lastHeartbeatTime':'2026-01-01T00:00:00Z'}]}}";

    conf_post(run, "nodes", node, "k1", "k1", "a", "");
    conf_post(run, "nodes", node, "k2", "k2", "b",
              "'taints':[{'key':'virtual-kubelet.io/provider','value':'cocoon','effect':'NoSchedule'}]");
    conf_post(run, "pods", pod, "k-a", "'nodeSelector':{'pool':'a'},");
    conf_await_member(run, "pods/k-a", "spec/nodeName");
    /* The other node needs a toleration. */
    conf_post(
        run, "pods", pod, "k-b",
        "'nodeSelector':{'pool':'b'},'tolerations':[{'key':'virtual-kubelet.io/provider','operator':'Equal','value':"
        "'cocoon','effect':'NoSchedule'}],");
    conf_await_member(run, "pods/k-b", "spec/nodeName");
    conf_post(
        run, "pods", pod, "k-c",
        "'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[{"
        "'matchExpressions':[{'key':'kubernetes.io/hostname','operator':'In','values':['k2']}]}]}}},'tolerations':"
        "[{'key':'virtual-kubelet.io/provider','operator':'Exists'}],");
    conf_await_member(run, "pods/k-c", "spec/nodeName");
    conf_post(run, "pods", pod, "k-d", "'nodeSelector':{'pool':'nowhere'},");
    conf_await_member(run, "pods/k-d", "status/conditions");
    conf_delete_with(run, "pods/k-a", "{'gracePeriodSeconds':0}");
    conf_delete_with(run, "pods/k-b", "{'gracePeriodSeconds':0}");
    conf_delete_with(run, "pods/k-c", "{'gracePeriodSeconds':0}");
    conf_delete_with(run, "pods/k-d", "{'gracePeriodSeconds':0}");
    conf_delete(run, "nodes/k1");
    conf_delete(run, "nodes/k2");
}

void conf_cluster(struct conf_run *run) {
    garbage(run);
    scheduling(run);
}

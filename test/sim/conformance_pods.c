/* Pods: creation, patches of object and status, preconditions, deletion with grace and finalizers, bindings. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/json.h"
#include "conformance.h"

#define SPEC "'spec':{'schedulerName':'x','containers':[{'name':'agent','image':'i:1'}]}"
#define BOUND                                                                                                          \
    "'spec':{'nodeName':'n1','containers':[{'name':'agent','image':'i:1'}],'terminationGracePeriodSeconds':30}"
#define NO_UID "00000000-0000-4000-8000-0000000000ff"

CC_YIELDS static void pod(struct conf_run *run, const char *name, const char *metadata, const char *spec) {
    conf_post(run, "pods", "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s'%s},%s}", name, metadata, spec);
}

CC_YIELDS static void creates(struct conf_run *run) {
    static const char *const specs[] = {
        SPEC,
        BOUND,
        "'spec':{'schedulerName':'x','containers':[{'name':'agent','image':'i'}],'restartPolicy':'Never'}",
        "'spec':{'schedulerName':'x','containers':[{'name':'agent','image':'i:latest','imagePullPolicy':'Never'}],'"
        "hostname':'h'}",
        "'spec':{'schedulerName':'x','containers':[{'name':'a','image':'repo/i@sha256:"
        "0000000000000000000000000000000000000000000000000000000000000000'}],'nodeSelector':{'a':'b'}}",
        "'spec':{'schedulerName':'x','containers':[{'name':'a','image':'host:5000/"
        "i','resources':{'limits':{'cpu':'1','memory':'1Gi'}}}]}",
        "'spec':{'schedulerName':'x','containers':[{'name':'a','image':'i:2','resources':{'limits':{'cpu':'2','memory':"
        "'1Gi','ephemeral-"
        "storage':'10Gi'},'requests':{'cpu':'500m'}}}]}",
        "'spec':{'schedulerName':'x','containers':[{'name':'a','image':'i:2','resources':{'requests':{'cpu':'500m'}}}]"
        "}",
        "'spec':{'schedulerName':'x','containers':[{'name':'a','image':'i:2','env':[{'name':'A','value':'1'},{'name':'"
        "B','valueFrom':"
        "{'fieldRef':{'fieldPath':'metadata.name'}}}],'envFrom':[{'configMapRef':{'name':'c'}}]}]}",
        "'spec':{'schedulerName':'x','containers':[{'name':'a','image':'i:2','ports':[{'containerPort':22,'name':'ssh'}"
        "]}]}",
        "'spec':{'schedulerName':'x','containers':[{'name':'a','image':'i:2'}],'tolerations':[{'key':'virtual-kubelet."
        "io/provider',"
        "'operator':'Equal','value':'cocoon','effect':'NoSchedule'}]}",
        "'spec':{'schedulerName':'x','containers':[{'name':'a','image':'i:2'}],'tolerations':[{'key':'node.kubernetes."
        "io/not-ready',"
        "'operator':'Exists','effect':'NoExecute'}]}",
        "'spec':{'schedulerName':'x','containers':[{'name':'a','image':'i:2'}],'affinity':{'nodeAffinity':{"
        "'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[{'matchExpressions':[{'key':"
        "'kubernetes.io/hostname','operator':'In','values':['n1']}]}]}}}}",
        "'spec':{'schedulerName':'x','containers':[{'name':'a','image':'i:2'}],'terminationGracePeriodSeconds':0}",
        "'spec':{'schedulerName':'x','containers':[{'name':'a','image':'i:2'}],'serviceAccountName':'default'}",
        "'spec':{'schedulerName':'x','containers':[{'name':'a','image':'i:2'}]},'status':{'phase':'Running','podIP':'1."
        "2.3.4'}",
    };
    char name[32];

    conf_watch_begin(run, "creates", "pods?labelSelector=t%3Dc");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(specs); i++) {
        snprintf(name, sizeof name, "c%zu", i);
        pod(run, name, ",'labels':{'t':'c'}", specs[i]);
    }
    pod(run, "c-meta",
        ",'uid':'" NO_UID "','generation':7,'creationTimestamp':'2020-01-01T00:00:00Z','labels':{'t':'c'},"
        "'annotations':{'a':'b'},'finalizers':['x.io/f']",
        SPEC);
    conf_merge(run, "pods/c-meta", "{'metadata':{'finalizers':null}}");
    conf_get(run, "pods/c0");
    conf_get(run, "pods/c1");
    conf_get(run, "pods/absent");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(specs); i++) {
        snprintf(name, sizeof name, "pods/c%zu", i);
        conf_delete_with(run, name, "{'gracePeriodSeconds':0}");
    }
    conf_delete_with(run, "pods/c-meta", "{'gracePeriodSeconds':0}");
    conf_watch_end(run, "creates");
}

CC_YIELDS static void refuses(struct conf_run *run) {
    static const char *const bodies[] = {
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'r1'},'spec':{'schedulerName':'x','containers':[]}}",
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'r1'}}",
        "{'apiVersion':'v1','kind':'Pod','metadata':{}," SPEC "}",
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'Bad_Name'}," SPEC "}",
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'r1','namespace':'other'}," SPEC "}",
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'r1','resourceVersion':'1'}," SPEC "}",
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'r0','labels':{'a b':'c'}}," SPEC "}",
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'r0','labels':{'a':'b c'}}," SPEC "}",
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'r0','annotations':{'a b':'c'}}," SPEC "}",
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'r1'},'spec':{'schedulerName':'x','containers':[{'name':'"
        "Agent','image':'i'}]}}",
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'r1'},'spec':{'schedulerName':'x','containers':[{'name':'a'"
        "}]}}",
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'r1'},'spec':{'schedulerName':'x','restartPolicy':'"
        "Sometimes','containers':"
        "[{'name':'a','image':'i'}]}}",
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'r1'},'spec':{'schedulerName':'x','"
        "terminationGracePeriodSeconds':-1,"
        "'containers':[{'name':'a','image':'i'}]}}",
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'r1'},'spec':{'schedulerName':'x','containers':[{'name':'a'"
        ",'image':'i',"
        "'resources':{'limits':{'cpu':'1'},'requests':{'cpu':'2'}}}]}}",
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'r1'},'spec':{'schedulerName':'x','containers':[{'name':'a'"
        ",'image':'i'},{'name'"
        ":'a','image':'i'}]}}",
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(bodies); i++)
        conf_post(run, "pods", "%s", bodies[i]);
    pod(run, "r0", "", SPEC);
    pod(run, "r0", "", SPEC);
    conf_delete(run, "pods/r0");
    conf_delete(run, "pods/r0");
    conf_delete(run, "pods/absent");
    conf_merge(run, "pods/absent", "{'metadata':{'labels':{'a':'b'}}}");
    conf_merge(run, "pods/absent/status", "{'status':{'phase':'Running'}}");
    conf_get(run, "pods/absent/status");
}

CC_YIELDS static void patches(struct conf_run *run) {
    conf_watch_begin(run, "patches", "pods?fieldSelector=metadata.name%3Dp1");
    pod(run, "p1", ",'annotations':{'a':'1','b':'2'},'labels':{'l':'1'}", BOUND);
    conf_merge(run, "pods/p1", "{'metadata':{'uid':'%s','annotations':{'b':null,'c':'3'}}}", conf_uid(run, "pods/p1"));
    conf_merge(run, "pods/p1", "{'metadata':{'uid':'%s','annotations':{'b':null,'c':'3'}}}", conf_uid(run, "pods/p1"));
    conf_merge(run, "pods/p1", "{'metadata':{'uid':'" NO_UID "','annotations':{'d':'4'}}}");
    conf_merge(run, "pods/p1", "{'metadata':{'resourceVersion':'1','annotations':{'d':'4'}}}");
    conf_merge(run, "pods/p1", "{'metadata':{'resourceVersion':'%s','annotations':{'d':'4'}}}",
               conf_version(run, "pods/p1"));
    conf_merge(run, "pods/p1", "{'metadata':{'name':'other'}}");
    conf_merge(run, "pods/p1", "{'metadata':{'namespace':'other'}}");
    conf_merge(run, "pods/p1", "{'metadata':{'generation':9,'creationTimestamp':'2020-01-01T00:00:00Z'}}");
    conf_merge(run, "pods/p1", "{'metadata':{'deletionTimestamp':'2020-01-01T00:00:00Z'}}");
    conf_merge(run, "pods/p1", "{'metadata':{'annotations':null}}");
    conf_merge(run, "pods/p1", "{'metadata':{'annotations':{'x':'y'},'labels':{'l':'2','m':null}}}");
    conf_merge(run, "pods/p1", "{'metadata':{'annotations':{'Bad Key':'y'}}}");
    conf_merge(run, "pods/p1", "{'metadata':{'labels':{'l':'not valid'}}}");
    conf_merge(run, "pods/p1", "{'spec':{'schedulerName':'x','containers':[{'name':'agent','image':'i:2'}]}}");
    conf_strategic(run, "pods/p1", "{'spec':{'schedulerName':'x','containers':[{'name':'agent','image':'i:3'}]}}");
    conf_strategic(run, "pods/p1", "{'metadata':{'uid':'%s','annotations':{'s':'1','x':null}}}",
                   conf_uid(run, "pods/p1"));
    conf_strategic(run, "pods/p1", "{'metadata':{'uid':'" NO_UID "','annotations':{'s':'2'}}}");
    conf_merge(run, "pods/p1", "{'spec':{'nodeName':'n2'}}");
    conf_merge(run, "pods/p1", "{'spec':{'terminationGracePeriodSeconds':5}}");
    conf_merge(run, "pods/p1", "{'spec':{'tolerations':[{'key':'k','operator':'Exists'}]}}");
    conf_strategic(run, "pods/p1", "{'spec':{'activeDeadlineSeconds':100}}");
    conf_merge(run, "pods/p1", "{'status':{'phase':'Failed'}}");
    conf_raw(run, "PATCH", "pods/p1", "application/merge-patch+json", "[1]");
    conf_raw(run, "PATCH", "pods/p1", "application/merge-patch+json", "{");
    conf_raw(run, "PATCH", "pods/p1", "text/plain", "{}");
    conf_merge(run, "pods/p1", "{}");
    conf_strategic(run, "pods/p1", "{}");
    conf_get(run, "pods/p1");
    conf_delete_with(run, "pods/p1", "{'gracePeriodSeconds':0}");
    conf_watch_end(run, "patches");
}

CC_YIELDS static void statuses(struct conf_run *run) {
    conf_watch_begin(run, "statuses", "pods?fieldSelector=metadata.name%3Ds1");
    pod(run, "s1", ",'labels':{'l':'1'}", BOUND);
    conf_strategic(
        run, "pods/s1/status",
        "{'metadata':{'uid':'%s'},'status':{'phase':'Running','podIP':'10.0.0.1','podIPs':[{'ip':'10.0.0.1'}],"
        "'hostIP':'10.0.0.9','startTime':'2026-01-01T00:00:00Z','conditions':[{'type':'Ready','status':'True',"
        "'lastTransitionTime':'2026-01-01T00:00:00Z'},{'type':'Initialized','status':'True'}],'containerStatuses':"
        "[{'name':'agent','ready':true,'restartCount':0,'image':'i:1','imageID':'x','state':{'running':{'startedAt':"
        "'2026-01-01T00:00:00Z'}}}]}}",
        conf_uid(run, "pods/s1"));
    conf_strategic(run, "pods/s1/status", "{'metadata':{'uid':'" NO_UID "'},'status':{'phase':'Failed'}}");
    conf_strategic(run, "pods/s1/status",
                   "{'metadata':{'uid':'%s'},'status':{'conditions':[{'type':'Ready','status':'False','reason':'X'}]}}",
                   conf_uid(run, "pods/s1"));
    conf_strategic(
        run, "pods/s1/status",
        "{'status':{'containerStatuses':[{'name':'agent','ready':false,'restartCount':1,'image':'','imageID':'',"
        "'state':{'waiting':{'reason':'Hibernated','message':'m'}}}]}}");
    conf_strategic(run, "pods/s1/status", "{'status':{'podIPs':[{'ip':'10.0.0.2'}],'podIP':'10.0.0.2'}}");
    conf_strategic(run, "pods/s1/status", "{'status':{'podIP':'10.0.0.3'}}");
    conf_strategic(run, "pods/s1/status", "{'status':{'podIP':null}}");
    conf_strategic(run, "pods/s1/status", "{'status':{'podIPs':null,'podIP':null}}");
    conf_strategic(run, "pods/s1/status", "{'status':{'podIP':'10.0.0.4'}}");
    conf_strategic(run, "pods/s1/status",
                   "{'status':{'podIPs':[{'$patch':'delete','ip':'10.0.0.4'},{'ip':'10.0.0.5'}],"
                   "'podIP':'10.0.0.5'}}");
    conf_strategic(run, "pods/s1/status", "{'status':{'conditions':[{'$patch':'delete','type':'Initialized'}]}}");
    conf_strategic(run, "pods/s1/status", "{'status':{'message':'m','reason':'r'}}");
    conf_strategic(run, "pods/s1/status", "{'status':{'message':'m','reason':'r'}}");
    conf_strategic(run, "pods/s1/status", "{'metadata':{'annotations':{'a':'b'},'labels':{'l':'2'}}}");
    conf_merge(run, "pods/s1/status", "{'spec':{'activeDeadlineSeconds':7},'status':{'reason':'R'}}");
    conf_merge(run, "pods/s1/status", "{'status':{'phase':'Odd'}}");

    conf_merge(run, "pods/s1/status", "{'status':{'conditions':[{'type':'Ready','status':'True'}]}}");
    conf_strategic(run, "pods/s1/status",
                   "{'status':{'$setElementOrder/conditions':[{'type':'PodScheduled'},{'type':"
                   "'Ready'}],'conditions':[{'type':'PodScheduled','status':'True'}]}}");
    conf_merge(run, "pods/s1/status", "{'status':{'phase':'Failed','reason':'Evicted'}}");
    conf_merge(run, "pods/s1/status", "{'status':{'phase':'Running'}}");
    conf_get(run, "pods/s1/status");
    conf_get(run, "pods/s1");
    conf_delete_with(run, "pods/s1", "{'gracePeriodSeconds':0}");
    conf_watch_end(run, "statuses");
}

CC_YIELDS static void updates(struct conf_run *run) {
    pod(run, "u1", ",'labels':{'l':'1'}", BOUND);
    json_t *body cc_cleanup(cc_json_decref_p) = json_deep_copy(conf_get(run, "pods/u1"));
    json_t *metadata = json_object_get(body, "metadata");

    conf_put(run, "pods/u1", body);
    cc_json_set_text(json_object_get(metadata, "labels"), "l", "2");
    conf_put(run, "pods/u1", body);
    conf_put(run, "pods/u1", body); /* its version is old now */
    json_object_del(metadata, "resourceVersion");
    conf_put(run, "pods/u1", body);
    cc_json_set_text(metadata, "uid", NO_UID);
    conf_put(run, "pods/u1", body);
    json_object_del(metadata, "uid");
    cc_json_set_text(metadata, "name", "u2");
    conf_put(run, "pods/u1", body);
    conf_put(run, "pods/u2", body);
    cc_json_set_text(metadata, "name", "u1");
    cc_json_set_text(json_object_get(body, "status"), "phase", "Running");
    conf_put(run, "pods/u1/status", body);
    conf_put(run, "pods/u1", body);
    conf_raw(run, "PUT", "pods/u1", "application/json", "[]");
    conf_raw(run, "PUT", "pods/u1", "application/json", "{}");
    conf_delete_with(run, "pods/u1", "{'gracePeriodSeconds':0}");
}

CC_YIELDS static void deletes(struct conf_run *run) {
    conf_watch_begin(run, "deletes", "pods");
    /* Grace: the node confirms with grace 0 and the uid. */
    pod(run, "d1", "", BOUND);
    conf_delete_with(run, "pods/d1", "{'preconditions':{'uid':'" NO_UID "'}}");
    conf_delete_with(run, "pods/d1", "{'preconditions':{'resourceVersion':'1'}}");
    conf_delete_with(run, "pods/d1", "{'preconditions':{'uid':'%s'}}", conf_uid(run, "pods/d1"));
    conf_get(run, "pods/d1");
    conf_delete_with(run, "pods/d1", "{'gracePeriodSeconds':60}");
    conf_delete(run, "pods/d1");
    conf_delete_with(run, "pods/d1", "{'gracePeriodSeconds':5}");
    conf_merge(run, "pods/d1", "{'metadata':{'annotations':{'a':'b'}}}");
    conf_merge(run, "pods/d1", "{'metadata':{'deletionTimestamp':null,'deletionGracePeriodSeconds':null}}");
    conf_strategic(run, "pods/d1/status", "{'status':{'phase':'Succeeded'}}");
    pod(run, "d1", "", BOUND);
    conf_delete_with(run, "pods/d1", "{'gracePeriodSeconds':0,'preconditions':{'uid':'" NO_UID "'}}");
    conf_delete_with(run, "pods/d1", "{'gracePeriodSeconds':0,'preconditions':{'uid':'%s'}}", conf_uid(run, "pods/d1"));
    conf_get(run, "pods/d1");
    conf_delete_with(run, "pods/d1", "{'gracePeriodSeconds':0,'preconditions':{'uid':'%s'}}", conf_uid(run, "pods/d1"));
    /* Nobody runs it, or it has ended, or force: gone at once. */
    pod(run, "d2", "", SPEC);
    conf_delete(run, "pods/d2");
    conf_get(run, "pods/d2");
    pod(run, "d3", "", BOUND);
    conf_merge(run, "pods/d3/status", "{'status':{'phase':'Failed'}}");
    conf_delete(run, "pods/d3");
    conf_get(run, "pods/d3");
    pod(run, "d4", "", BOUND);
    conf_delete_with(run, "pods/d4", "{'gracePeriodSeconds':0}");
    conf_get(run, "pods/d4");
    pod(run, "d5", "",
        "'spec':{'nodeName':'n1','containers':[{'name':'a','image':'i'}],'terminationGracePeriodSeconds':0}");
    conf_delete(run, "pods/d5");
    conf_get(run, "pods/d5");
    pod(run, "d6", "", BOUND);
    conf_delete_with(run, "pods/d6", "{'gracePeriodSeconds':-1}");
    conf_delete_with(run, "pods/d6", "{'gracePeriodSeconds':0,'propagationPolicy':'Background'}");
    pod(run, "d7", "", BOUND);
    conf_delete(run, "pods/d7?gracePeriodSeconds=0");
    conf_get(run, "pods/d7");
    conf_delete_with(run, "pods/d7", "{'propagationPolicy':'Sideways'}");
    pod(run, "d8", "", SPEC);
    conf_delete_with(run, "pods/d8", "{'propagationPolicy':'Sideways'}");
    conf_delete_with(run, "pods/d8", "{'preconditions':{'uid':'%s','resourceVersion':'%s'}}", conf_uid(run, "pods/d8"),
                     conf_version(run, "pods/d8"));
    conf_watch_end(run, "deletes");
}

CC_YIELDS static void finalizers(struct conf_run *run) {
    conf_watch_begin(run, "finalizers", "pods");
    pod(run, "f1", ",'finalizers':['x.io/f']", BOUND);
    conf_delete_with(run, "pods/f1", "{'gracePeriodSeconds':0}");
    conf_get(run, "pods/f1");
    conf_delete_with(run, "pods/f1", "{'gracePeriodSeconds':0}");
    conf_merge(run, "pods/f1", "{'metadata':{'finalizers':['x.io/f','x.io/g']}}");
    conf_merge(run, "pods/f1", "{'metadata':{'finalizers':[]}}");
    conf_get(run, "pods/f1");
    pod(run, "f2", ",'finalizers':['x.io/f','x.io/g']", BOUND);
    conf_delete_with(run, "pods/f2", "{'gracePeriodSeconds':30}");
    conf_merge(run, "pods/f2", "{'metadata':{'finalizers':['x.io/g']}}");
    conf_merge(run, "pods/f2", "{'metadata':{'finalizers':null}}");
    conf_get(run, "pods/f2");
    conf_delete_with(run, "pods/f2", "{'gracePeriodSeconds':0}");
    conf_get(run, "pods/f2");
    pod(run, "f3", ",'finalizers':['bad finalizer']", BOUND);
    pod(run, "f3", ",'finalizers':['nodomain']", BOUND);
    pod(run, "f4", "", SPEC);
    conf_strategic(run, "pods/f4", "{'metadata':{'finalizers':['x.io/a']}}");
    conf_strategic(run, "pods/f4", "{'metadata':{'finalizers':['x.io/b']}}");
    conf_strategic(run, "pods/f4", "{'metadata':{'$deleteFromPrimitiveList/finalizers':['x.io/a']}}");
    conf_delete(run, "pods/f4");
    conf_merge(run, "pods/f4", "{'metadata':{'finalizers':null,'resourceVersion':'1'}}");
    conf_merge(run, "pods/f4", "{'metadata':{'finalizers':null,'resourceVersion':'%s'}}", conf_version(run, "pods/f4"));
    conf_get(run, "pods/f4");
    conf_watch_end(run, "finalizers");
}

CC_YIELDS static void bindings(struct conf_run *run) {
    conf_watch_begin(run, "bindings", "pods");
    pod(run, "b1", "", "'spec':{'schedulerName':'x','containers':[{'name':'agent','image':'i:1'}]}");
    conf_post(run, "pods/b1/binding",
              "{'apiVersion':'v1','kind':'Binding','metadata':{'name':'b1'},'target':{'kind':'Node','name':'n7'}}");
    conf_get(run, "pods/b1");
    conf_post(run, "pods/b1/binding",
              "{'apiVersion':'v1','kind':'Binding','metadata':{'name':'b1'},'target':{'kind':'Node','name':'n8'}}");
    conf_post(run, "pods/absent/binding",
              "{'apiVersion':'v1','kind':'Binding','metadata':{'name':'absent'},'target':{'kind':'Node','name':'n8'}}");
    conf_delete_with(run, "pods/b1", "{'gracePeriodSeconds':0}");
    conf_watch_end(run, "bindings");
}

void conf_pods(struct conf_run *run) {
    creates(run);
    refuses(run);
    patches(run);
    statuses(run);
    updates(run);
    deletes(run);
    finalizers(run);
    bindings(run);
}

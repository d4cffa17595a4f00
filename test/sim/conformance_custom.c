/* CocoonSets and CocoonHibernations: defaults, schema, CEL rules, generations, status, finalizers. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/json.h"
#include "conformance.h"

#define NO_UID "00000000-0000-4000-8000-0000000000ff"

CC_YIELDS static void set(struct conf_run *run, const char *name, const char *spec) {
    conf_post(run, "cocoonsets",
              "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'name':'%s'},'spec':{%s}}",
              name, spec);
}

CC_YIELDS static void accepted_sets(struct conf_run *run) {
    static const char *const specs[] = {
        "'agent':{'image':'i'}",
        "'agent':{'image':'i','replicas':3,'mode':'run','os':'windows','backend':'firecracker'}",
        "'agent':{'image':'i'},'toolboxes':[{'name':'tb'},{'name':'tc','mode':'static','staticIP':'1.2.3.4'}]",
        "'agent':{'image':'i','envFrom':[{'configMapRef':{}},{'secretRef':{'name':'s','optional':true},'prefix':'P'}]}",
        ("'agent':{'image':'i','storage':'10Gi','resources':{'limits':{'cpu':1,'memory':'1Gi'},'requests':{'cpu':'500m'"
         "}"
         "}}"),
        "'agent':{'image':'i','storage':1073741824}",
        "'agent':{'image':'i','unknown':'pruned','probePort':22},'also':{'unknown':1}",
        "'agent':{'image':'i'},'snapshotCompatibilityClass':'c-1','nodePool':'p','nodeName':'n','suspend':true",
        "'agent':{'image':'i'},'hibernatePolicy':'release','snapshotPolicy':'never'",
        "'agent':{'image':'i','replicas':0},'hibernatePolicy':'release','toolboxes':[]",
        "'agent':{'image':'i','network':'n','forcePull':true,'noDirectIO':false,'connType':'vnc'}",
        "'agent':{'image':'i','resources':{'claims':[{'name':'c'},{'name':'d','request':'r'}]}}",
        "'agent':{'image':'i','replicas':null,'mode':null},'snapshotPolicy':null",
    };
    char name[40];

    conf_watch_begin(run, "sets", "cocoonsets");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(specs); i++) {
        snprintf(name, sizeof name, "a%zu", i);
        set(run, name, specs[i]);
    }
    conf_get(run, "cocoonsets/a0");
    conf_get(run, "cocoonsets/absent");
    conf_get(run, "cocoonsets");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(specs); i++) {
        snprintf(name, sizeof name, "cocoonsets/a%zu", i);
        conf_delete(run, name);
    }
    conf_watch_end(run, "sets");
}

CC_YIELDS static void refused_sets(struct conf_run *run) {
    static const char *const specs[] = {
        "",
        "'agent':{}",
        "'agent':'text'",
        "'agent':null",
        "'agent':{'image':''}",
        "'agent':{'image':7}",
        "'agent':{'image':'i','replicas':-1}",
        "'agent':{'image':'i','replicas':'2'}",
        "'agent':{'image':'i','replicas':2147483648}",
        "'agent':{'image':'i','mode':'dance'}",
        "'agent':{'image':'i','os':'plan9'}",
        "'agent':{'image':'i','backend':'qemu'}",
        "'agent':{'image':'i','connType':'telnet'}",
        "'agent':{'image':'i','probePort':65536}",
        "'agent':{'image':'i','probePort':-1}",
        "'agent':{'image':'i','storage':'ten'}",
        "'agent':{'image':'i','resources':{'limits':{'cpu':'many'}}}",
        "'agent':{'image':'i','forcePull':'yes'}",
        "'agent':{'image':'i'},'suspend':'true'",
        "'agent':{'image':'i'},'snapshotPolicy':'sometimes'",
        "'agent':{'image':'i'},'hibernatePolicy':'drop'",
        "'agent':{'image':'i'},'snapshotCompatibilityClass':'-bad-'",
        ("'agent':{'image':'i'},'snapshotCompatibilityClass':"
         "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"),
        "'agent':{'image':'i'},'toolboxes':[{}]",
        "'agent':{'image':'i'},'toolboxes':[{'name':''}]",
        "'agent':{'image':'i'},'toolboxes':[{'name':'Tool'}]",
        "'agent':{'image':'i'},'toolboxes':[{'name':'t','mode':'walk'}]",
        "'agent':{'image':'i'},'toolboxes':[{'name':'t','vncPort':70000}]",
        "'agent':{'image':'i'},'toolboxes':{'name':'t'}",
        "'agent':{'image':'i','replicas':1},'hibernatePolicy':'release'",
        "'agent':{'image':'i'},'hibernatePolicy':'release','toolboxes':[{'name':'t'}]",
        "'agent':{'image':'','replicas':-1,'mode':'dance'},'snapshotPolicy':'x'",
        "'agent':{'image':'i','resources':{'claims':[{'name':'c'},{'name':'c'}]}}",
        "'agent':{'image':'i','resources':{'claims':[{}]}}",
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(specs); i++)
        set(run, "r", specs[i]);
    conf_post(run, "cocoonsets",
              "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'name':'r'}}");
    conf_post(run, "cocoonsets", "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'r'}}");
    conf_post(run, "cocoonsets", "{'metadata':{'name':'r'},'spec':{'agent':{'image':'i'}}}");
    conf_post(
        run, "cocoonsets",
        "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'name':'Bad'},'spec':{'agent':"
        "{'image':'i'}}}");
    conf_get(run, "cocoonsets/r");
}

CC_YIELDS static void set_changes(struct conf_run *run) {
    conf_watch_begin(run, "changes", "cocoonsets");
    conf_post(run, "cocoonsets",
              "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'name':'g1','finalizers':"
              "['x.io/f']},'spec':{'agent':{'image':'i','replicas':1}},'status':{'phase':'Running'}}");
    conf_merge(run, "cocoonsets/g1", "{'metadata':{'annotations':{'a':'b'}},'status':{'phase':'Running'}}");
    conf_merge(run, "cocoonsets/g1/status",
               "{'metadata':{'annotations':{'a':'changed'}},'spec':{'suspend':true},'status':{'phase':'Running',"
               "'observedGeneration':1,'readyAgents':2}}");
    conf_get(run, "cocoonsets/g1");
    conf_get(run, "cocoonsets/g1/status");
    conf_merge(run, "cocoonsets/g1/status", "{'status':{'phase':'Running'}}");
    conf_merge(run, "cocoonsets/g1", "{'spec':{'suspend':true}}");
    conf_merge(run, "cocoonsets/g1", "{'spec':{'suspend':true}}");
    conf_merge(run, "cocoonsets/g1", "{'spec':{'agent':{'replicas':null}}}");
    conf_merge(run, "cocoonsets/g1", "{'spec':{'agent':{'unknown':1}}}");
    conf_merge(run, "cocoonsets/g1", "{'spec':{'agent':{'replicas':-3}}}");
    conf_merge(run, "cocoonsets/g1", "{'spec':{'agent':null}}");
    conf_merge(run, "cocoonsets/g1", "{'spec':null}");
    conf_merge(run, "cocoonsets/g1", "{'spec':{'agent':{'image':'i','replicas':1}}}");
    conf_merge(run, "cocoonsets/g1", "{'spec':{'snapshotCompatibilityClass':'one'}}");
    conf_merge(run, "cocoonsets/g1", "{'spec':{'snapshotCompatibilityClass':'two'}}");
    conf_merge(run, "cocoonsets/g1", "{'spec':{'snapshotCompatibilityClass':null}}");
    conf_merge(run, "cocoonsets/g1", "{'spec':{'agent':{'replicas':2},'hibernatePolicy':'release'}}");
    conf_merge(run, "cocoonsets/g1", "{'spec':{'hibernatePolicy':'release','agent':{'replicas':0}}}");
    conf_merge(run, "cocoonsets/g1", "{'spec':{'hibernatePolicy':null}}");
    conf_merge(run, "cocoonsets/g1/status", "{'status':{'phase':'Odd'}}");
    conf_merge(run, "cocoonsets/g1/status", "{'status':{'readyAgents':'2','unknown':1}}");
    conf_merge(run, "cocoonsets/g1/status", "{'status':{'unknown':1,'readyAgents':1}}");
    conf_merge(
        run, "cocoonsets/g1/status",
        "{'status':{'conditions':[{'type':'Ready','status':'True','reason':'R','message':'',"
        "'lastTransitionTime':'2026-01-01T00:00:00Z'}],'agents':[{'slot':0,'role':'main'},{'slot':1,'role':'s'}]}}");
    conf_merge(run, "cocoonsets/g1/status", "{'status':{'conditions':[{'type':'Ready','status':'True'}]}}");
    conf_merge(run, "cocoonsets/g1/status",
               "{'status':{'conditions':[{'type':'Ready','status':'Maybe','reason':'1 R','message':'',"
               "'lastTransitionTime':'yesterday'}]}}");
    conf_merge(run, "cocoonsets/g1/status", "{'status':{'agents':[{'slot':0,'role':'a'},{'slot':0,'role':'b'}]}}");
    conf_merge(run, "cocoonsets/g1/status", "{'metadata':{'resourceVersion':'1'},'status':{'phase':'Failed'}}");
    conf_merge(run, "cocoonsets/g1/status", "{'metadata':{'uid':'" NO_UID "'},'status':{'phase':'Failed'}}");
    conf_merge(run, "cocoonsets/g1/status", "{'metadata':{'resourceVersion':'%s'},'status':{'phase':'Failed'}}",
               conf_version(run, "cocoonsets/g1"));
    conf_merge(run, "cocoonsets/g1", "{'metadata':{'resourceVersion':'1','annotations':{'a':'c'}}}");
    conf_merge(run, "cocoonsets/g1", "{'metadata':{'uid':'" NO_UID "','annotations':{'a':'c'}}}");
    conf_merge(run, "cocoonsets/g1", "{'metadata':{'uid':'%s','annotations':{'a':'c','d':null}}}",
               conf_uid(run, "cocoonsets/g1"));
    conf_merge(run, "cocoonsets/g1", "{'metadata':{'labels':{'a':'b c'}}}");
    conf_strategic(run, "cocoonsets/g1", "{'spec':{'suspend':false}}");
    conf_merge(run, "cocoonsets/absent", "{'spec':{'suspend':false}}");
    conf_merge(run, "cocoonsets/absent/status", "{'status':{'phase':'Failed'}}");
    json_t *body cc_cleanup(cc_json_decref_p) = json_deep_copy(conf_get(run, "cocoonsets/g1"));
    conf_put(run, "cocoonsets/g1", body);
    cc_json_set_bool(json_object_get(body, "spec"), "suspend", false);
    conf_put(run, "cocoonsets/g1", body);
    conf_put(run, "cocoonsets/g1", body);
    json_object_del(json_object_get(body, "metadata"), "resourceVersion");
    conf_put(run, "cocoonsets/g1", body);
    conf_delete_with(run, "cocoonsets/g1", "{'preconditions':{'uid':'" NO_UID "'}}");
    conf_delete(run, "cocoonsets/g1");
    conf_get(run, "cocoonsets/g1");
    conf_delete(run, "cocoonsets/g1");
    conf_merge(run, "cocoonsets/g1", "{'spec':{'suspend':true}}");
    conf_merge(run, "cocoonsets/g1", "{'metadata':{'finalizers':['x.io/f','x.io/g']}}");
    conf_merge(run, "cocoonsets/g1/status", "{'status':{'phase':'Pending'}}");
    conf_merge(run, "cocoonsets/g1", "{'metadata':{'resourceVersion':'%s','finalizers':null}}",
               conf_version(run, "cocoonsets/g1"));
    conf_get(run, "cocoonsets/g1");
    conf_merge(run, "cocoonsets/g1", "{'metadata':{'finalizers':null}}");
    set(run, "g1", "'agent':{'image':'i'}");
    set(run, "g1", "'agent':{'image':'i'}");
    conf_delete_with(run, "cocoonsets/g1", "{'propagationPolicy':'Background'}");
    conf_delete(run, "cocoonsets/g1");
    conf_watch_end(run, "changes");
}

CC_YIELDS static void hibernation(struct conf_run *run, const char *spec) {
    conf_post(
        run, "cocoonhibernations",
        "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonHibernation','metadata':{'name':'h'},'spec':{%s}}",
        spec);
}

CC_YIELDS static void hibernations(struct conf_run *run) {
    static const char *const refused[] = {"",
                                          "'podRef':{'name':'p'}",
                                          "'desire':'Wake'",
                                          "'podRef':{},'desire':'Wake'",
                                          "'podRef':{'name':''},'desire':'Wake'",
                                          "'podRef':{'name':'p'},'desire':'Sleep'"};

    conf_watch_begin(run, "hibernations", "cocoonhibernations");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(refused); i++)
        hibernation(run, refused[i]);
    hibernation(run, "'podRef':{'name':'p'},'desire':'Hibernate','more':1");
    conf_merge(run, "cocoonhibernations/h", "{'spec':{'podRef':{'name':'q'}}}");
    conf_merge(run, "cocoonhibernations/h", "{'spec':{'desire':'Wake'}}");
    conf_merge(run, "cocoonhibernations/h", "{'spec':{'desire':'Sleep'}}");
    conf_merge(run, "cocoonhibernations/h/status",
               "{'status':{'phase':'Hibernated','vmName':'v','observedGeneration':2}}");
    conf_merge(run, "cocoonhibernations/h/status", "{'status':{'phase':'Asleep'}}");
    conf_merge(run, "cocoonhibernations/h/status",
               "{'status':{'conditions':[{'type':'Ready','status':'False','reason':'Pending','message':'m',"
               "'observedGeneration':-1,'lastTransitionTime':'2026-01-01T00:00:00Z'}]}}");
    conf_merge(run, "cocoonhibernations/h/status",
               "{'status':{'conditions':[{'type':'Ready','status':'False','reason':'Pending','message':'m',"
               "'observedGeneration':1,'lastTransitionTime':'2026-01-01T00:00:00Z'}]}}");
    conf_get(run, "cocoonhibernations");
    conf_merge(run, "cocoonhibernations/h", "{'metadata':{'finalizers':['x.io/f']}}");
    conf_delete(run, "cocoonhibernations/h");
    conf_merge(run, "cocoonhibernations/h", "{'metadata':{'finalizers':null}}");
    conf_get(run, "cocoonhibernations/h");
    conf_watch_end(run, "hibernations");
}

void conf_custom(struct conf_run *run) {
    accepted_sets(run);
    refused_sets(run);
    set_changes(run);
    hibernations(run);
}

#!/usr/bin/env python3
"""The Helm chart on a real control plane: its rules and defaults, its rights, and kubectl-cocoon. No kubelet here: the daemons
run beside the cluster with the tokens of the chart's own service accounts, and the audit log shows what they asked for.
Prints `N passed, M failed`.

usage: test/integration/test_chart.py [NAME]     VARIANT=release|asan; CHART_UPDATE_DOCS=1 writes docs/kubectl-cocoon.md anew"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import ssl

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from cluster import REPO, Cluster, Daemon, Mismatch, Node, enter_namespace, free_ports, http_get, wait  # noqa: E402
from scenario import Scenario, describe_failure, expect  # noqa: E402

CHART = REPO / "charts/cocoon"
EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
OPERATOR, AGENT = "system:serviceaccount:cocoon-system:cocoon-operator", "system:serviceaccount:cocoon-node:vk-cocoon"
# Rights that the flows below do not use, each with the reason for granting it.
UNUSED = {
    (OPERATOR, "cocoonsets/finalizers", "update"): "asked by OwnerReferencesPermissionEnforcement inside the API server, which "
                                                   "is on here: without the right no pod is created",
    (OPERATOR, "leases", "create"): "leader election, which needs a Pod: make e2e",
    (OPERATOR, "leases", "get"): "the same",
    (OPERATOR, "leases", "update"): "the same",
    (OPERATOR, "events", "patch"): "repeats of an event; they come under load",
    (AGENT, "events", "patch"): "the same",
    (AGENT, "pods", "get"): "before a tracked pod that the cache lacks is torn down (decision 41): test/sim",
    (AGENT, "certificatesigningrequests", "create"): "VK_SERVING_CSR: test_kubelet_serving",
    (AGENT, "certificatesigningrequests", "get"): "the same",
    (AGENT, "cocoonsets", "get"): "deleting a sleeping pod without a registry (decision 52): test/sim",
    (AGENT, "nodes", "list"): "peers (decisions 26, 68)",
    (AGENT, "nodes", "watch"): "the same",
}


def helm(*words, check=True, env=None):
    program = subprocess.run([REPO / "hack/kube", "helm"], check=True, capture_output=True, text=True).stdout.strip()
    done = subprocess.run([program, *map(str, words)], env=env, capture_output=True, text=True, timeout=180)
    if check and done.returncode:
        raise Mismatch(f"helm {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done


class ChartCluster(Cluster):
    """The daemons run as who the chart says they are."""

    def start_daemons(self):
        admin = self.kubeconfig
        self.metrics_port, self.health_port = free_ports(2)
        self.operator = Daemon("cocoon-operator",
                               [self.build / "cocoon-operator", "--leader-elect=false",
                                f"--metrics-bind-address=127.0.0.1:{self.metrics_port}",
                                f"--health-probe-bind-address=127.0.0.1:{self.health_port}"],
                               dict(self.env, OCI_REGISTRY=self.oci_registry,
                                    KUBECONFIG=str(self.kubeconfig_of("cocoon-system", "cocoon-operator"))),
                               self.dir / "cocoon-operator.log").start()
        self.kubeconfig = self.kubeconfig_of("cocoon-node", "vk-cocoon")
        self.nodes = [Node(self, number) for number in range(1, self.node_count + 1)]
        self.kubeconfig = admin
        for node in self.nodes:
            node.start()
        wait("the operator's /readyz", 20, lambda: http_get(f"http://127.0.0.1:{self.health_port}/readyz"))
        for node in self.nodes:
            wait(f"node {node.name} Ready", 30, lambda node=node: self.node_is_ready(node.name))

    def kubeconfig_of(self, namespace, account):
        token = self.kubectl("create", "token", account, "-n", namespace, "--duration=2h").strip()
        path = self.dir / f"{account}.kubeconfig"
        path.write_text(re.sub(r"token: \".*?\"", f'token: "{token}"', (self.dir / "kube/kubeconfig").read_text()))
        path.chmod(0o600)
        return path


class Suite:
    def __init__(self, cluster):
        self.cluster = cluster
        self.audit = cluster.dir / "audit.log"

    def helm(self, *words, check=True):
        return helm(*words, check=check, env=self.cluster.env)

    def rejected(self, what, *settings):
        done = helm("template", "c", CHART, *settings, check=False)
        if not done.returncode:
            raise Mismatch(f"{what}: accepted")
        return done.stderr

    # --- without a cluster --------------------------------------------------------------------------------------------
    def test_examples_lint_and_render(self):
        for example in EXAMPLES:
            done = helm("lint", CHART, "-f", example)
            if "0 chart(s) failed" not in done.stdout:
                raise Mismatch(done.stdout)
            text = helm("template", "c", CHART, "-f", example).stdout
            if "kind: Deployment" not in text or "<no value>" in text:
                raise Mismatch(f"{example}: {text}")

    def test_wrong_values_fail_with_the_schemas_words(self):
        ok = ("--set", "registry.url=none")
        for setting, words in (("registry.url=", "/registry/url"), ("registry.url=https://x.example/y", "/registry/url"),
                               ("registry.url=x.example/y/", "/registry/url"), ("registry.url=nodots/y", "/registry/url"),
                               ("operator.replicas=0", "minimum: got 0, want 1"), ("operator.logLevel=loud", "/operator/logLevel"),
                               ("node.orphanPolicy=kill", "'alert', 'keep', 'destroy'"), ("node.kubeletPort=70000", "/node/kubeletPort"),
                               ("node.nameSuffix=", "/node"), ("node.pool=a b", "/node/pool"), ("node.rootDirectory=x", "/node/rootDirectory"),
                               ("admission.policies=maybe", "/admission/policies"), ("operator.replica=2", "additional properties 'replica'"),
                               ("operator.image.digest=sha256:1", "/operator/image/digest")):
            error = self.rejected(setting, *ok, "--set", setting)
            if words not in error:
                raise Mismatch(f"{setting}: {words!r} is not in: {error}")
        for good in ("localhost:5000/a", "10.0.0.5:5000", "registry.example/a/b-c", "[fd00::1]:5000/x"):
            helm("template", "c", CHART, "--set", f"registry.url={good}")

    def test_alerts_and_dashboard_use_what_the_daemons_export(self):
        """Names, and the values of labels, by docs/observability.md, which is held to the source."""
        rows = {}
        for line in (REPO / "docs/observability.md").read_text().splitlines():
            if found := re.match(r"\| `([a-z_]+)`(?:, `([a-z_]+)`)* \|", line):
                rows[found.group(1)] = line
        problems = []
        for file in sorted((CHART / "files").iterdir()):
            text = file.read_text().replace('\\"', '"')
            for name, labels in re.findall(r'\b((?:cocoon|controller_runtime|leader_election|rest_client)_[a-z_]+)(\{[^}]*\})?', text):
                family = next((n for n in (name, re.sub("_(bucket|count|sum)$", "", name)) if n in rows), None)
                if not family:
                    problems.append(f"{file.name}: nobody exports {name}")
                    continue
                problems += [f"{file.name}: {name} has no label {label}" for label in re.findall(r'(\w+)=~?"', labels)
                             if label not in ("job", "instance") and f"`{label}`" not in rows[family]]
        expect("alerts and dashboard", problems, [])
        promtool = shutil.which("promtool")
        if promtool:
            subprocess.run([promtool, "check", "rules", CHART / "files/alerts.yaml"], check=True, stdout=subprocess.DEVNULL)

    # --- rendered objects and the real API server -----------------------------------------------------------------------
    def test_all_objects_are_accepted_by_the_server(self):
        for example in EXAMPLES:
            monitoring = "monitoring.coreos.com" in example.read_text() or "serviceMonitor" in example.read_text()
            settings = ["--set", "monitoring.serviceMonitor.enabled=false,monitoring.podMonitor.enabled=false,"
                                 "monitoring.rules.enabled=false"] if monitoring else []
            text = helm("template", "cocoon", CHART, "-f", example, "-n", "cocoon-system", "--no-hooks",
                        "--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy", *settings).stdout
            out = self.cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=text)
            if "unchanged" not in out and "created" not in out and "configured" not in out:
                raise Mismatch(out)

    def test_pods_are_made_where_restricted_is_enforced(self):
        """The operator's in the release namespace, the agent's in its own."""
        c = self.cluster
        found = wait("two operator pods", 30, lambda: len(p := c.get("pods", "-n", "cocoon-system")["items"]) == 2 and p)
        for pod in found:
            expect("run as", pod["spec"]["securityContext"]["runAsNonRoot"], True)
        c.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "host-1", "labels": {"cocoonstack.io/vm-host": "true"}}})
        agent = wait("the agent's pod", 30, lambda: c.get("pods", "-n", "cocoon-node")["items"])[0]
        env = {e["name"]: e.get("value") for e in agent["spec"]["containers"][0]["env"]}
        expect("node name", env["VK_NODE_NAME"], "$(HOST_NODE_NAME)-cocoon")
        c.kubectl("delete", "node", "host-1")
        policies = [p["metadata"]["name"] for p in c.get("validatingadmissionpolicies")["items"]]
        expect("policies", len([p for p in policies if "cocoonstack" in p]), 7)
        expect("warnings of the type checker", [p["metadata"]["name"] for p in c.get("validatingadmissionpolicies")["items"]
                                               if p.get("status", {}).get("typeChecking", {}).get("expressionWarnings")], [])

    # --- rights -----------------------------------------------------------------------------------------------------------
    def kubelet_api(self, path):
        node = self.cluster.nodes[0]
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        token = re.search(r'token: "(.*?)"', self.cluster.kubeconfig.read_text()).group(1)
        request = urllib.request.Request(f"https://{node.subnet}.1:{node.kubelet_port}{path}",
                                         headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return answer.read().decode()

    def test_main_job_with_the_charts_rights(self):
        """The policies are on: only the operator's account may make these pods."""
        c = self.cluster
        scenario = Scenario(c, say=lambda text: None, patience=int(os.environ.get("DEMO_PATIENCE", "60")))
        scenario.create()
        self.kubelet_api("/pods")
        c.kubectl("label", "node", "cocoon-node-1", "cocoonstack.io/pool-")  # the agent puts it back
        self.plugin_flows(scenario)
        scenario.scale_up()
        scenario.scale_down()
        scenario.delete()
        wait("the agent mended its label", 60, lambda: c.get("node", "cocoon-node-1")["metadata"]["labels"].get("cocoonstack.io/pool"))

    # --- the plugin, as somebody with the role `edit` --------------------------------------------------------------------
    def plugin(self, *words, check=True, complete=False, admin=False):
        env = dict(self.cluster.env, KUBECONFIG=str(self.cluster.kubeconfig if admin else self.editor), OCI_REGISTRY=self.cluster.oci_registry,
                   PATH=f"{self.cluster.build}:{REPO}/packaging/completions:{self.cluster.env['PATH']}")
        program = ["kubectl", "__complete", "cocoon"] if complete else ["kubectl", "cocoon"]
        done = subprocess.run([*program, *words], env=env, capture_output=True, text=True, timeout=120)
        done.stderr = "".join(line for line in done.stderr.splitlines(True) if "ASan doesn't fully support makecontext" not in line)
        if check and done.returncode:
            raise Mismatch(f"kubectl cocoon {' '.join(words)}: {done.returncode} {done.stderr}")
        return done

    def plugin_flows(self, scenario):
        c = self.cluster
        c.kubectl("create", "serviceaccount", "editor", "-n", "default")
        c.kubectl("create", "rolebinding", "editor", "--clusterrole=edit", "--serviceaccount=default:editor", "-n", "default")
        self.editor = c.kubeconfig_of("default", "editor")
        wait("the roles are aggregated", 20, lambda: self.plugin("status").returncode == 0)
        texts = {"running": self.plugin("status").stdout}
        expect("errors as kubectl's", self.plugin("suspend", "nothing", check=False).stderr.strip(),
               'Error from server (NotFound): cocoonsets.cocoonset.cocoonstack.io "nothing" not found')
        expect("who may not", self.plugin("status", "-n", "kube-system", check=False).returncode, 1)
        for words, want in ((("su",), "suspend"), (("suspend", ""), "demo"), (("hibernate", "demo-"), "demo-shell"),
                            (("wake", "demo", "--"), "--wait"), (("status", "-o", ""), "json")):
            found = self.plugin(*words, complete=True).stdout
            if want not in [line.split("\t")[0] for line in found.splitlines()]:
                raise Mismatch(f"completion of {words}: {want} is not in {found!r}")
        expect("usage", self.plugin("suspend", check=False).returncode, 2)
        expect("out of time", self.plugin("suspend", "demo", "--wait", "--timeout=1s", check=False).returncode, 3)
        done = self.plugin("suspend", "demo", "--wait", "--timeout", "120s")
        if "demo: Suspended" not in done.stderr or "suspended" not in done.stdout:
            raise Mismatch(done.stderr + done.stdout)
        expect("phase", scenario.phase(), "Suspended")
        texts["suspended"] = self.plugin("status", "demo").stdout
        texts["snapshots"] = self.plugin("snapshots", "demo").stdout
        found = json.loads(self.plugin("snapshots", "demo", "-o", "json").stdout)["snapshots"]
        expect("snapshots", sorted((s["pod"], s["tag"]) for s in found), [(p, "hibernate") for p in sorted(scenario.pod_names())])
        self.plugin("wake", "demo", "--wait", "--timeout", "120s")
        scenario.check_running()  # counters go on
        self.plugin("hibernate", "demo-1", "--wait", "--timeout", "120s")
        texts["napping"] = self.plugin("status").stdout
        status = json.loads(self.plugin("status", "-o", "json").stdout)["sets"][0]
        expect("state of demo-1", [p["state"] for p in status["pods"] if p["name"] == "demo-1"], ["hibernated"])
        self.plugin("hibernate", "demo-1", "--wake", "--wait", "--timeout", "120s")
        c.kubectl("delete", "cocoonhibernation", "demo-1", "--timeout=60s")
        scenario.check_running()
        texts["busy"] = self.busy_cluster()
        self.check_document(texts)

    def busy_cluster(self):
        """Sets in many states at once: what a person sees who looks after all of them."""
        c, namespace = self.cluster, "team-a"

        def phase(name):
            return c.cocoonset(name, namespace).get("status", {}).get("phase")
        c.kubectl("create", "namespace", namespace)
        for name, spec in (("web", {"agent": {"mode": "run", "image": "ubuntu:24.04", "replicas": 1}}),
                           ("parked-seat", {"hibernatePolicy": "release", "agent": {"mode": "run", "image": "ubuntu:24.04"}}),
                           ("gpu-job", {"nodePool": "gpu", "agent": {"mode": "run", "image": "ubuntu:24.04"}})):
            c.apply({"apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonSet",
                     "metadata": {"name": name, "namespace": namespace}, "spec": {"snapshotPolicy": "never", **spec}})
        for name in ("web", "parked-seat"):
            wait(f"{name} runs", 60, lambda name=name: phase(name) == "Running", 0.2)
        for name in ("web", "parked-seat"):
            c.patch("cocoonset", name, {"spec": {"suspend": True}}, namespace)
        for name in ("web", "parked-seat"):
            wait(f"{name} sleeps", 60, lambda name=name: phase(name) == "Suspended", 0.2)
        # A released main's phase says Suspended from the moment its pod is asked to go.
        wait("the seat of parked-seat is free", 60, lambda: not c.get("pods", "-n", namespace, "--field-selector",
                                                                     "metadata.name=parked-seat-0")["items"], 0.2)
        wait("gpu-job has no seat", 30, lambda: "a seat: " in self.plugin("status", "-A", admin=True).stdout, 0.5)
        text = self.plugin("status", "-A", admin=True).stdout
        c.kubectl("delete", "cocoonset", "--all", "-n", namespace, "--timeout=60s")
        # The local copy of a released main, whose tag is gone, is kept for a day (decision 49).
        for name in c.nodes[0].snapshots():
            if name.startswith(f"vk-{namespace}-"):
                c.nodes[0].cocoon("snapshot", "rm", name)
        return text

    def check_document(self, texts):
        """docs/kubectl-cocoon.md shows what these commands print; ids, digests and ages are those of its own run."""
        path = REPO / "docs/kubectl-cocoon.md"
        document = path.read_text()
        for name, text in texts.items():
            pattern = re.compile(rf"(<!-- {name} -->\n```\n)(.*?)(```)", re.S)
            found = pattern.search(document)
            if not found:
                raise Mismatch(f"{path} has no block {name}")
            if os.environ.get("CHART_UPDATE_DOCS"):
                document = pattern.sub(lambda m, text=text: m.group(1) + text + m.group(3), document)
                continue
            have, want = ([re.sub(r"\d+[smh]\S*|sha256:\S+|\s+", " ", line).strip() for line in t.splitlines()]
                          for t in (text, found.group(2)))
            expect(f"docs/kubectl-cocoon.md, block {name} (CHART_UPDATE_DOCS=1 writes it anew)", want, have)
        if os.environ.get("CHART_UPDATE_DOCS"):
            path.write_text(document)

    # --- what was asked for, and what was granted --------------------------------------------------------------------------
    def requests(self):
        for line in self.audit.read_text().splitlines():
            record = json.loads(line)
            user = record["user"]["username"]
            if user in (OPERATOR, AGENT):
                yield user, record

    def test_no_request_was_denied(self):
        denied = [(user, r["verb"], r.get("requestURI")) for user, r in self.requests()
                  if r.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
                  or r.get("responseStatus", {}).get("code") in (401, 403)]
        expect("denied requests", denied, [])

    def test_every_right_is_used(self):
        used = set()
        for user, record in self.requests():
            reference = record.get("objectRef") or {}
            sub = reference.get("subresource")
            used.add((user, reference.get("resource", "") + (f"/{sub}" if sub else ""), record["verb"]))
        granted = set()
        for user, roles in ((OPERATOR, [("clusterrole", "cocoon-operator", None), ("role", "cocoon-operator-leader", "cocoon-system")]),
                            (AGENT, [("clusterrole", "vk-cocoon", None), ("role", "vk-cocoon", "kube-node-lease"),
                                     ("role", "vk-cocoon", "kube-system")])):
            for kind, name, namespace in roles:
                for rule in self.cluster.get(kind, name, *(["-n", namespace] if namespace else []))["rules"]:
                    granted |= {(user, resource, verb) for resource in rule["resources"] for verb in rule["verbs"]}
        expect("requests without a right of the chart", sorted(used - granted - {(u, "", v) for u, _, v in used}), [])
        expect("rights that nothing needs", sorted(granted - used - set(UNUSED)), [])
        for user, resource, verb in sorted(granted & set(UNUSED)):
            print(f"  not used here: {user.rsplit(':', 1)[1]} {verb} {resource}: {UNUSED[user, resource, verb]}")

    def test_uninstall_keeps_sets_and_definitions(self):
        c = self.cluster
        c.apply({"apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonSet", "metadata": {"name": "kept"},
                 "spec": {"agent": {"image": "x", "mode": "run"}}})
        self.helm("uninstall", "cocoon", "-n", "cocoon-system")
        expect("set", c.get("cocoonset", "kept")["metadata"].get("deletionTimestamp"), None)
        expect("definitions", len([d for d in c.get("crd")["items"] if "cocoonstack" in d["metadata"]["name"]]), 2)
        expect("roles left", [r["metadata"]["name"] for r in c.get("clusterroles")["items"] if "cocoon" in r["metadata"]["name"]], [])
        expect("policies left", c.get("validatingadmissionpolicies")["items"], [])


TESTS = [name for name in vars(Suite) if name.startswith("test_")]
OFFLINE = ("test_examples_lint_and_render", "test_alerts_and_dashboard_use_what_the_daemons_export", "test_wrong_values_fail_with_the_schemas_words")


def audit_flags(directory):
    policy = directory / "audit-policy.json"
    policy.write_text(json.dumps({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": [OPERATOR, AGENT]}, {"level": "None"}]}))
    return (f"--allow-privileged=true --audit-policy-file={policy} --audit-log-path={directory}/audit.log "
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")


def main():
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="cocoon-chart-"))
    os.environ["KUBE_APISERVER_FLAGS"] = audit_flags(directory)
    cluster = ChartCluster(directory, os.environ.get("VARIANT") or "release")
    passed = failed = 0
    try:
        suite = Suite(cluster)
        names = [name for name in TESTS if only in name]
        if any(name not in OFFLINE for name in names):
            cluster.start_servers()
            cluster.kubectl("delete", "crd", "--all")  # the chart brings them
            cluster.kubectl("create", "namespace", "cocoon-system")
            cluster.kubectl("label", "namespace", "cocoon-system", "pod-security.kubernetes.io/enforce=restricted")
            suite.helm("install", "cocoon", CHART, "-n", "cocoon-system", "--set", f"registry.url={cluster.oci_registry}")
            cluster.start_daemons()
        for name in names:
            try:
                getattr(suite, name)()
                passed += 1
                print(f"ok   {name}", flush=True)
            except Exception as problem:
                failed += 1
                print(f"FAIL {name}: {problem}", flush=True)
                if name not in OFFLINE:
                    print(describe_failure(cluster))
    except Mismatch as problem:
        failed += 1
        print(f"FAIL set-up: {problem}\n{describe_failure(cluster)}", flush=True)
    finally:
        try:
            statuses = cluster.stop(remove=False) if cluster.operator else (
                subprocess.run([REPO / "hack/kube", "stop", directory / "kube"], check=False) and {})
            for name, status in statuses.items():
                if status:
                    failed += 1
                    print(f"FAIL {name} ended with status {status}")
        except Mismatch as problem:
            failed += 1
            print(f"FAIL end: {problem}")
        if cluster.registry:
            cluster.registry.kill()
        shutil.rmtree(directory, ignore_errors=True)
    print(f"test_chart: {passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    enter_namespace()
    sys.exit(main())

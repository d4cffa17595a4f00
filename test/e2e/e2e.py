#!/usr/bin/env python3
"""The chart on a real one-node cluster: kubelet, containerd, kube-proxy, both daemons as Pods under their own service accounts,
the VM host simulated beside them. Prints the stages with their times, the pids of the VMs before and after each restart, sizes
and memory; ends with `N passed, M failed`. Where the machine cannot run a kubelet it says why and ends with 0.

E2E_KEEP=1 leaves everything running until Enter; VARIANT=release|asan"""
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from machine import HOST, VMHost, Machine, enter_machine, why_not  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from cluster import REPO, Mismatch, wait  # noqa: E402
from scenario import Scenario, describe_failure, expect  # noqa: E402

CHART = REPO / "charts/cocoon"
PREFIX, TAG = "localhost/cocoonstack", "e2e"
OPERATOR, AGENT = "system:serviceaccount:cocoon-system:cocoon-operator", "system:serviceaccount:cocoon-node:vk-cocoon"
JOBS = ["system:serviceaccount:cocoon-system:cocoon-apply-crds", "system:serviceaccount:cocoon-system:cocoon-test"]
STARTED = time.monotonic()
PATIENCE = int(os.environ.get("E2E_PATIENCE", "120"))


def say(text):
    print(f"[{time.monotonic() - STARTED:6.1f}s] {text}", flush=True)


class Walk:
    def __init__(self, machine):
        self.machine = machine
        self.scenario = Scenario(machine, lambda text: say("  " + text), PATIENCE)
        self.helm_program = subprocess.run([REPO / "hack/kube", "helm"], check=True, capture_output=True, text=True).stdout.strip()
        self.values = machine.dir / "values.json"

    def helm(self, *words):
        done = subprocess.run([self.helm_program, *map(str, words)], env=self.machine.env, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise Mismatch(f"helm {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    def pids(self):
        return {name: record["pid"] for name, record in self.machine.nodes[0].vms().items()}

    def host_node(self):
        """The real kubelet's Node without what heartbeats change."""
        node = self.machine.get("node", HOST)
        return {"uid": node["metadata"]["uid"], "labels": node["metadata"]["labels"], "spec": node["spec"]}

    def resident(self, program):
        """KiB of each process of that name."""
        found = []
        for status in pathlib.Path("/proc").glob("[0-9]*/status"):
            try:
                fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            except OSError:
                continue
            if fields.get("Name") == program[:15]:
                found.append(int(fields["VmRSS"].split()[0]))
        return found

    def pods_of(self, namespace):
        return [p for p in self.machine.get("pods", "-n", namespace)["items"] if not p["metadata"].get("deletionTimestamp")
                and p["metadata"].get("labels", {}).get("app.kubernetes.io/name") in ("cocoon-operator", "vk-cocoon")]

    # --- stages -----------------------------------------------------------------------------------------------------------
    def install(self):
        """The first installation has an older CRD, without status.toolboxes (F28)."""
        m = self.machine
        self.values.write_text(json.dumps({
            "registry": {"url": m.oci_registry}, "operator": {"image": {"repository": f"{PREFIX}/cocoon-operator", "tag": TAG}},
            "node": {"image": {"repository": f"{PREFIX}/vk-cocoon", "tag": TAG}, **m.nodes[0].chart_values()}}))
        old = m.dir / "old-chart"
        shutil.copytree(CHART, old)
        crd = old / "crds/cocoonsets.yaml"
        text = crd.read_text()
        begin = text.index("              toolboxes:\n", text.index("          status:\n"))
        crd.write_text(text[:begin] + text[text.index("              conditions:\n", begin):])
        m.kubectl("create", "namespace", "cocoon-system")
        m.kubectl("label", "namespace", "cocoon-system", "pod-security.kubernetes.io/enforce=restricted")
        begin = time.monotonic()
        self.helm("install", "cocoon", old, "-n", "cocoon-system", "-f", self.values, "--wait", "--timeout", "180s")
        say(f"  helm install --wait: {time.monotonic() - begin:.1f} s")
        for namespace in ("cocoon-system", "cocoon-node"):
            for pod in self.pods_of(namespace):
                times = {c["type"]: c["lastTransitionTime"] for c in pod["status"]["conditions"]}
                say(f"  {pod['metadata']['name']}: scheduled {times['PodScheduled'][11:19]}, ready {times['Ready'][11:19]}")
        wait("the virtual node", 30, lambda: m.node_is_ready(m.nodes[0].name))
        expect("the virtual node's address", m.get("node", m.nodes[0].name)["status"]["addresses"][0]["address"], "192.168.77.1")

    def main_job(self):
        self.scenario.create()
        self.scenario.suspend()
        self.scenario.wake()
        for program in ("cocoon-operator", "vk-cocoon"):
            say(f"  {program}: {', '.join(f'{kib / 1024:.1f} MiB' for kib in self.resident(program))} resident")

    def examples(self):
        """All of examples/ are admitted; those that the simulated host can run do run."""
        m = self.machine
        m.kubectl("create", "namespace", "examples")
        for file in sorted((REPO / "examples").glob("*.yaml")):
            m.kubectl("apply", "-n", "examples", "--dry-run=server", "-f", str(file))
        for name in ("minimal", "team", "release"):
            m.kubectl("apply", "-n", "examples", "-f", str(REPO / f"examples/{name}.yaml"))
        for name in ("minimal", "team", "release"):
            wait(f"example {name} runs", PATIENCE, lambda name=name: m.cocoonset(name, "examples").get("status", {}).get("phase") == "Running",
                 0.3)
        say(f"  {len(self.pids())} VMs run; {', '.join(sorted(m.pods('examples')))}")
        m.kubectl("delete", "namespace", "examples", "--timeout=120s")
        self.scenario.check_running()
        left = {name: tags for name, tags in super(Machine, m).tags().items() if name.startswith("vk-examples-")}
        expect("tags left", sorted(set(sum(left.values(), []))), ["latest"])

    def upgrade_of_the_schema(self):
        m = self.machine
        schema = ("spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "status", "properties")

        def members():
            found = m.get("crd", "cocoonsets.cocoonset.cocoonstack.io")
            for key in schema:
                found = found[key]
            return found
        expect("status.toolboxes of the old definition", "toolboxes" in members(), False)
        before, uids = self.pids(), {p["metadata"]["uid"] for p in self.pods_of("cocoon-node")}
        self.helm("upgrade", "cocoon", CHART, "-n", "cocoon-system", "-f", self.values, "--wait", "--timeout", "180s")
        expect("status.toolboxes of the new definition", "toolboxes" in members(), True)
        expect("pids", self.pids(), before)
        expect("the agent's pod, which nothing changed", {p["metadata"]["uid"] for p in self.pods_of("cocoon-node")}, uids)
        expect("jobs left", m.get("jobs", "-n", "cocoon-system")["items"], [])
        self.helm("test", "cocoon", "-n", "cocoon-system", "--timeout", "90s")

    def agent_restarts(self):
        m = self.machine
        before, node = self.pids(), self.host_node()
        virtual = m.get("node", m.nodes[0].name)["metadata"]["uid"]
        say(f"  VM pids before: {before}")
        m.kubectl("rollout", "restart", "daemonset/vk-cocoon", "-n", "cocoon-node")
        self.rolled_out("daemonset/vk-cocoon", "cocoon-node")
        after = self.pids()
        say(f"  VM pids after:  {after}")
        expect("pids", after, before)
        expect("the real kubelet's node", self.host_node(), node)
        expect("uid of the virtual node", m.get("node", m.nodes[0].name)["metadata"]["uid"], virtual)
        self.scenario.check_running()

    def rolled_out(self, what, namespace):
        wait(f"{what} rolled out", PATIENCE, lambda: "successfully rolled out" in self.machine.kubectl(
            "rollout", "status", what, "-n", namespace, "--timeout=30s"))

    def operator_restarts_amid_a_suspend(self):
        m = self.machine
        self.scenario.read_counters()
        m.patch("cocoonset", "demo", {"spec": {"suspend": True}})
        m.kubectl("rollout", "restart", "deployment/cocoon-operator", "-n", "cocoon-system")
        self.rolled_out("deployment/cocoon-operator", "cocoon-system")
        wait("phase Suspended", PATIENCE, lambda: self.scenario.settled("Suspended"), 0.3)
        expect("VMs", self.pids(), {})
        m.patch("cocoonset", "demo", {"spec": {"suspend": False}})
        self.scenario.check_running()  # the counters go on
        wait("the tags are reclaimed", PATIENCE, lambda: m.tags() == {}, 0.3)

    def a_node_without_the_binary(self):
        """What is wrong is said where one looks first: in the pod's status."""
        m = self.machine
        self.helm("upgrade", "cocoon", CHART, "-n", "cocoon-system", "-f", self.values, "--set", "node.cocoonBinary=/nowhere/cocoon",
                  "--timeout", "120s")

        def message():
            for pod in m.get("pods", "-n", "cocoon-node")["items"]:
                for status in pod["status"].get("containerStatuses", []):
                    for state in (status.get("state", {}), status.get("lastState", {})):
                        text = state.get("terminated", {}).get("message", "")
                        if "/nowhere/cocoon" in text:
                            return text
            return None
        say("  " + wait("the pod's status names the missing program", PATIENCE, message, 0.5).strip().splitlines()[-1][:200])
        self.helm("rollback", "cocoon", "-n", "cocoon-system", "--wait", "--timeout", "180s")
        self.scenario.check_running()

    def a_missing_secret(self):
        """The old operator goes on; an event names what is missing."""
        m = self.machine
        self.helm("upgrade", "cocoon", CHART, "-n", "cocoon-system", "-f", self.values, "--set", "registry.existingSecret=nowhere",
                  "--timeout", "120s")
        say("  " + wait("an event names the secret", PATIENCE, lambda: next(
            (e["message"] for e in m.get("events", "-n", "cocoon-system")["items"] if e["reason"] == "FailedMount"
             and "nowhere" in e["message"]), None), 0.5))
        expect("ready operators", m.get("deployment", "cocoon-operator", "-n", "cocoon-system")["status"].get("readyReplicas"), 2)
        self.helm("rollback", "cocoon", "-n", "cocoon-system", "--wait", "--timeout", "180s")
        self.scenario.check_running()

    def uninstall(self):
        m = self.machine
        before = self.pids()
        self.end_of_rights = [time.time()]
        self.helm("uninstall", "cocoon", "-n", "cocoon-system", "--wait", "--timeout", "120s")
        self.end_of_rights.append(time.time())
        expect("set", m.cocoonset("demo")["metadata"].get("deletionTimestamp"), None)
        expect("definitions", len([c for c in m.get("crd")["items"] if "cocoonstack" in c["metadata"]["name"]]), 2)
        expect("VMs", self.pids(), before)
        for name in before:
            m.nodes[0].counter(name)

    def install_again(self):
        """What was left is taken up where it was."""
        before = self.pids()
        self.helm("install", "cocoon", CHART, "-n", "cocoon-system", "-f", self.values, "--wait", "--timeout", "180s")
        self.scenario.check_running()
        expect("pids", self.pids(), before)
        self.scenario.delete()

    def no_request_was_denied(self):
        """But for the Lease, and the event about it, while the release is uninstalled: its rights go first."""
        denied, count, used = [], 0, set()
        for line in self.machine.audit.read_text().splitlines():
            record = json.loads(line)
            reference = record.get("objectRef") or {}
            count += 1
            used.add((record["user"]["username"].rsplit(":", 1)[1], record["verb"], reference.get("resource", "")))
            # Other 403s are the cluster's affairs: no new pods in a namespace that is being deleted.
            if (record.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
                    or record.get("responseStatus", {}).get("code") == 401):
                moment = datetime.datetime.fromisoformat(record["requestReceivedTimestamp"].replace("Z", "+00:00")).timestamp()
                if reference.get("resource") in ("leases", "events") and self.end_of_rights[0] <= moment <= self.end_of_rights[1] + 1:
                    continue
                denied.append((record["user"]["username"], record["verb"], record["requestURI"], record["responseStatus"].get("message")))
        expect("denied requests", denied, [])
        for verb in ("create", "get", "update"):
            expect(f"leases: {verb}", ("cocoon-operator", verb, "leases") in used, True)
        say(f"  {count} requests of the chart's accounts, none denied")


STAGES = ("install", "main_job", "examples", "upgrade_of_the_schema", "agent_restarts", "operator_restarts_amid_a_suspend",
          "a_node_without_the_binary", "a_missing_secret", "uninstall", "install_again", "no_request_was_denied")


def start(machine):
    say("etcd, kube-apiserver, controller-manager, scheduler, registry")
    machine.start_control_plane([OPERATOR, AGENT, *JOBS])
    say("containerd and the images")
    machine.start_containerd()
    for line in machine.load_images(PREFIX, TAG).splitlines():
        say("  " + line)
    say("kubelet and kube-proxy")
    machine.start_kubelet()
    machine.nodes.append(VMHost(machine).start())


def main():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="cocoon-e2e-"))
    machine = Machine(directory, os.environ.get("VARIANT") or "release")
    passed = failed = 0
    try:
        start(machine)
        walk = Walk(machine)
        for name in STAGES:
            begin = time.monotonic()
            say(name.replace("_", " "))
            getattr(walk, name)()
            passed += 1
            say(f"  ok, {time.monotonic() - begin:.1f} s")
    except (Mismatch, subprocess.SubprocessError, OSError, KeyError) as problem:
        failed += 1
        print(f"\nMISMATCH: {problem!r}\n{describe_failure(machine)}", flush=True)
    if os.environ.get("E2E_KEEP"):
        input(f"everything runs; KUBECONFIG={machine.kubeconfig}; Enter ends it: ")
    try:
        machine.end()
    except Exception as problem:
        print(f"end: {problem!r}")
    shutil.rmtree(directory, ignore_errors=True)
    print(f"e2e: {passed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    reason = "" if os.environ.get("E2E_MACHINE") else why_not()
    if reason:
        print(f"e2e was not run: {reason}\ne2e: 0 passed, 0 failed")
        sys.exit(0)
    enter_machine()
    sys.exit(main())

#!/usr/bin/env python3
"""One pod asleep and awake by CocoonHibernation, a set with hibernatePolicy release, and a migration between two nodes
by spec.nodeName, on real servers with two simulated hosts. The counter inside the guest tells a restored VM from a
fresh one: it goes on where it stopped, while a fresh boot starts at 0."""
import os
import sys
import pathlib
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from cluster import Cluster, Mismatch, enter_namespace, wait, http_get  # noqa: E402

PATIENCE = int(os.environ.get("PATIENCE", "60"))
NS = "default"


def expect(what, have, want):
    if have != want:
        raise Mismatch(f"{what}: have {have!r}, want {want!r}")


class Test:
    def __init__(self, cluster):
        self.cluster = cluster

    # --- reading ----------------------------------------------------------------------------------------------------
    def annotations(self, pod):
        return self.cluster.pods(NS)[pod]["metadata"].get("annotations", {})

    def vm_name(self, pod):
        return self.annotations(pod)["vm.cocoonstack.io/name"]

    def where(self, vm):
        """The node that runs the VM, None when none does; never two."""
        found = [node for node in self.cluster.nodes if node.vms().get(vm, {}).get("state") == "running"]
        if len(found) > 1:
            raise Mismatch(f"{vm} runs on {[n.name for n in found]}")
        return found[0] if found else None

    def counter(self, vm):
        node = wait(f"{vm} runs", PATIENCE, lambda: self.where(vm))
        return wait(f"{vm} counts", PATIENCE, lambda: node.counter(vm) + 1) - 1

    def set_phase(self, name):
        found = self.cluster.cocoonset(name, NS)
        status = found.get("status", {})
        return status.get("phase") if status.get("observedGeneration") == found["metadata"]["generation"] else None

    def wait_set(self, name, phase):
        wait(f"CocoonSet {name} is {phase}", PATIENCE, lambda: self.set_phase(name) == phase, 0.2)

    def cr(self, name):
        return self.cluster.get("cocoonhibernation", name, "-n", NS)

    def wait_cr(self, name, phase):
        def reached():
            found = self.cr(name)
            status = found.get("status", {})
            return status.get("phase") == phase and status.get("observedGeneration") == found["metadata"]["generation"]
        wait(f"CocoonHibernation {name} is {phase}", PATIENCE, reached, 0.2)

    def has_tag(self, vm):
        return "hibernate" in self.cluster.tags().get(vm, [])

    def events(self, name):
        return {e["reason"] for e in self.cluster.get("events", "-n", NS)["items"]
                if e["involvedObject"]["name"] == name}

    def metric(self, name):
        text = http_get(f"http://127.0.0.1:{self.cluster.metrics_port}/metrics")
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))

    # --- acting -----------------------------------------------------------------------------------------------------
    def apply_set(self, name, **spec):
        self.cluster.apply({"apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonSet",
                            "metadata": {"name": name, "namespace": NS},
                            "spec": {"snapshotPolicy": "never",
                                     "agent": {"replicas": 0, "image": "ubuntu:24.04", "mode": "run",
                                               "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}, **spec}})
        self.wait_set(name, "Running")
        vm = self.vm_name(name + "-0")
        # Far from 0, so that a fresh boot cannot be taken for a restored one.
        wait(f"{vm} has counted for a while", PATIENCE, lambda: self.counter(vm) >= 5, 0.2)
        return vm

    def apply_cr(self, pod, desire):
        self.cluster.apply({"apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonHibernation",
                            "metadata": {"name": pod, "namespace": NS},
                            "spec": {"podRef": {"name": pod}, "desire": desire}})

    def delete_set(self, name, vm):
        self.cluster.kubectl("-n", NS, "delete", "cocoonset", name, "--wait=false")
        wait(f"{name} is gone", PATIENCE, lambda: not any(
            s["metadata"]["name"] == name for s in self.cluster.get("cocoonsets", "-n", NS)["items"]), 0.2)
        expect("tags of the deleted set", self.has_tag(vm), False)
        wait(f"{vm} is off all hosts", PATIENCE, lambda: not any(vm in n.vms() for n in self.cluster.nodes))

    # --- cases ------------------------------------------------------------------------------------------------------
    def single_pod(self):
        vm = self.apply_set("one")
        before = self.counter(vm)
        self.apply_cr("one-0", "Hibernate")
        self.wait_cr("one-0", "Hibernated")
        expect("tag", self.has_tag(vm), True)
        wait("the VM is off the host", PATIENCE, lambda: not any(vm in n.vms() for n in self.cluster.nodes))
        expect("vmName", self.cr("one-0")["status"]["vmName"], vm)
        self.apply_cr("one-0", "Wake")
        self.wait_cr("one-0", "Active")
        after = self.counter(vm)
        print(f"  CocoonHibernation: counter {before} -> {after}")
        if after < before:
            raise Mismatch(f"the guest of one-0 went back: {before} -> {after}")
        wait("the tag is dropped", PATIENCE, lambda: not self.has_tag(vm), 0.2)
        self.wait_set("one", "Running")
        wait("events", PATIENCE, lambda: {"Hibernated", "WokenActive"} <= self.events("one-0"))
        expect("durations", self.metric('cocoon_operator_hibernate_phase_duration_seconds_count{result="ok"}'), 1)
        # Deleting the CR of a sleeping pod gives the pod back to its set, which wakes it.
        self.apply_cr("one-0", "Hibernate")
        self.wait_cr("one-0", "Hibernated")
        self.cluster.kubectl("-n", NS, "delete", "cocoonhibernation", "one-0")
        again = self.counter(vm)
        print(f"  deletion of the CocoonHibernation: counter {after} -> {again}")
        if again < after:
            raise Mismatch(f"the guest of one-0 went back: {after} -> {again}")
        wait("the tag is reclaimed", PATIENCE, lambda: not self.has_tag(vm), 0.2)
        self.delete_set("one", vm)

    def release(self):
        vm = self.apply_set("seat", hibernatePolicy="release")
        node = self.where(vm)
        before = self.counter(vm)
        self.cluster.patch("cocoonset", "seat", {"spec": {"suspend": True}}, NS)
        self.wait_set("seat", "Suspended")
        wait("the pod is gone", PATIENCE, lambda: "seat-0" not in self.cluster.pods(NS), 0.2)
        expect("tag", self.has_tag(vm), True)
        annotations = self.cluster.cocoonset("seat", NS)["metadata"]["annotations"]
        hint = annotations["cocoonset.cocoonstack.io/hibernated-on-node"]
        expect("hint", hint, node.name)
        self.cluster.patch("cocoonset", "seat", {"spec": {"suspend": False}}, NS)
        self.wait_set("seat", "Running")
        after = self.counter(vm)
        print(f"  hibernatePolicy release: counter {before} -> {after} on {self.where(vm).name}")
        if after < before:
            raise Mismatch(f"the guest of seat-0 went back: {before} -> {after}")
        expect("node", self.where(vm).name, node.name)
        wait("tag and hint are gone", PATIENCE, lambda: not self.has_tag(vm) and "hibernated-on-node" not in str(
            self.cluster.cocoonset("seat", NS)["metadata"]["annotations"]), 0.2)
        expect("wakes", self.metric("cocoon_operator_slot_release_wake_total"), 1)
        self.delete_set("seat", vm)

    def migrate(self):
        vm = self.apply_set("move")
        first = self.where(vm)
        second = next(node for node in self.cluster.nodes if node is not first)
        before = self.counter(vm)
        for source, target in ((first, second), (second, first)):
            self.cluster.patch("cocoonset", "move", {"spec": {"nodeName": target.name}}, NS)
            self.wait_set("move", "Migrating")
            self.wait_set("move", "Running")
            after = self.counter(vm)
            print(f"  migration {source.name} -> {self.where(vm).name}: counter {before} -> {after}")
            if after < before:
                raise Mismatch(f"the guest of move-0 went back: {before} -> {after}")
            expect("node", self.where(vm).name, target.name)
            expect("VMs on the source", vm in source.vms(), False)
            expect("tag", self.has_tag(vm), False)
            before = after
        # A migration of a sleeping set: it wakes on the new node.
        self.cluster.patch("cocoonset", "move", {"spec": {"suspend": True}}, NS)
        self.wait_set("move", "Suspended")
        self.cluster.patch("cocoonset", "move", {"spec": {"suspend": False, "nodeName": second.name}}, NS)
        self.wait_set("move", "Running")
        after = self.counter(vm)
        print(f"  unsuspend onto {self.where(vm).name}: counter {before} -> {after}")
        if after < before:
            raise Mismatch(f"the guest of move-0 went back: {before} -> {after}")
        expect("node", self.where(vm).name, second.name)
        wait("the tag is reclaimed", PATIENCE, lambda: not self.has_tag(vm), 0.2)
        self.delete_set("move", vm)


def main():
    enter_namespace()
    directory = tempfile.mkdtemp(prefix="cocoon-hibernation-")
    cluster = Cluster(directory, os.environ.get("VARIANT") or "release", nodes=2)
    failed, passed = None, 0
    try:
        cluster.start_servers()
        cluster.start_daemons()
        test = Test(cluster)
        for case in (test.single_pod, test.release, test.migrate):
            print(case.__name__, flush=True)
            case()
            passed += 1
    except (Mismatch, KeyError) as problem:
        failed = problem
        print(f"FAILED: {problem!r}\n{cluster.logs_tail()}", file=sys.stderr)
    finally:
        statuses = cluster.stop(remove=not failed)
    if not failed and any(statuses.values()):
        failed = f"exit statuses {statuses}"
        print(failed, file=sys.stderr)
    if failed and os.path.isdir(directory) and not os.environ.get("KEEP"):
        print(f"logs: {directory}", file=sys.stderr)
    print(f"{passed} passed, {1 if failed else 0} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""The main job as stages. Each stage changes what is asked for and then checks, by reading back from kubectl, the registry
and the host, that it has come true. Demo and kill-test walk the same stages."""
import json

from cluster import Mismatch, wait

SET = "demo"
NAMESPACE = "default"


def expect(what, have, want):
    if have != want:
        raise Mismatch(f"{what}: have {have!r}, want {want!r}")


class Scenario:
    def __init__(self, cluster, say=print, patience=60, may_leave_leases=False):
        self.cluster, self.say, self.patience = cluster, say, patience
        self.may_leave_leases = may_leave_leases
        self.replicas = 2
        self.toolboxes = ["shell"]
        self.left_nodes = set()  # where a guest moved away from: its copy there stays for a day (docs/lifecycle.md)
        self.low_water = {}  # VM name -> highest guest counter ever read; it may never be undercut
        self.boot_ids = {}   # VM name -> what its guest drew at boot; a guest that goes on keeps it
        self.stages = [("create", self.create), ("suspend", self.suspend), ("wake", self.wake),
                       ("scale up", self.scale_up), ("scale down", self.scale_down), ("delete", self.delete)]

    # --- what the world looks like ----------------------------------------------------------------------------------
    def pod_names(self):
        return [f"{SET}-{slot}" for slot in range(self.replicas + 1)] + [
            f"{SET}-{name}" for name in self.toolboxes]

    def vm_names(self):
        """pod name -> VM name, from the pods' annotations."""
        return {name: pod["metadata"]["annotations"]["vm.cocoonstack.io/name"]
                for name, pod in self.cluster.pods(NAMESPACE).items() if name.startswith(SET + "-")}

    def host_vms(self):
        found = {}
        for node in self.cluster.nodes:
            for name, record in node.vms().items():
                if name in found:
                    raise Mismatch(f"VM {name} exists on {found[name][0].name} and on {node.name}")
                found[name] = (node, record)
        return found

    def expect_no_leases(self):
        """A node agent that is killed between the remove of a VM and the release of its lease leaves it to its expiry
        (contract/07 12 step 8): nobody knows the MAC any more."""
        if not self.may_leave_leases:
            expect("leases", [lease for node in self.cluster.nodes for lease in node.leases()], [])

    def check_one_of_each(self):
        """Never two VMs of one name: the records, and the guests' processes."""
        self.host_vms()

    def read_counters(self):
        """Reads each live guest's counter; a value below one that was seen before is a lost state."""
        values = {}
        for name, (node, record) in self.host_vms().items():
            if record["state"] != "running":
                continue
            values[name], boot_id = node.counter(name), node.boot_id(name)
            if self.boot_ids.setdefault(name, boot_id) != boot_id:
                raise Mismatch(f"guest {name} was booted anew: its memory did not go on")
            if values[name] < self.low_water.get(name, 0):
                raise Mismatch(f"guest {name} went back: counter {values[name]} after {self.low_water[name]}")
            self.low_water[name] = values[name]
        return values

    def phase(self):
        return self.cluster.cocoonset(SET, NAMESPACE).get("status", {}).get("phase")

    def settled(self, phase):
        """The set reports this phase for its present generation."""
        found = self.cluster.cocoonset(SET, NAMESPACE)
        status = found.get("status", {})
        return status.get("phase") == phase and status.get("observedGeneration") == found["metadata"]["generation"] and found

    def check_running(self):
        found = wait("phase Running", self.patience, lambda: self.settled("Running"), 0.2)
        status = found["status"]
        expect("status.readyAgents", status["readyAgents"], self.replicas + 1)
        expect("status.desiredAgents", status["desiredAgents"], self.replicas + 1)
        expect("status.readyToolboxes", status.get("readyToolboxes", 0), len(self.toolboxes))
        # The status with Ready=True lands before the annotation; the set may see it first.
        wait("lifecycle ready", self.patience, lambda: all(
            p["metadata"]["annotations"].get("vm.cocoonstack.io/lifecycle-state") == "ready"
            for p in self.cluster.pods(NAMESPACE).values()), 0.2)
        pods = self.cluster.pods(NAMESPACE)
        expect("pods", sorted(pods), sorted(self.pod_names()))
        names = self.vm_names()
        vms = self.host_vms()
        expect("VMs on the hosts", sorted(vms), sorted(names.values()))
        for pod_name, vm_name in names.items():
            node, record = vms[vm_name]
            pod = pods[pod_name]
            annotations = pod["metadata"]["annotations"]
            expect(f"state of {vm_name}", record["state"], "running")
            expect(f"pod {pod_name} annotation id", annotations.get("vm.cocoonstack.io/id"), record["id"])
            leases = {lease["mac"]: lease["ip"] for lease in node.leases()}
            ip = leases.get(record["network_configs"][0]["mac"])
            expect(f"pod {pod_name} status.podIP", pod["status"].get("podIP"), ip)
            expect(f"pod {pod_name} annotation ip", annotations.get("vm.cocoonstack.io/ip"), ip)
        return self.read_counters()

    # --- stages -----------------------------------------------------------------------------------------------------
    def create(self):
        self.say("applying CocoonSet demo: a main agent, two sub-agents forked from it, and a toolbox")
        self.cluster.apply({
            "apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonSet",
            "metadata": {"name": SET, "namespace": NAMESPACE},
            "spec": {"snapshotPolicy": "never",
                     "agent": {"replicas": self.replicas, "image": "ubuntu:24.04", "mode": "run",
                               "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
                     "toolboxes": [{"name": "shell", "image": "toolbox:v1", "mode": "run"}]}})
        counters = self.check_running()
        for vm, value in sorted(counters.items()):
            self.say(f"  {vm} runs, its guest counts: {value}")

    def suspend(self):
        before = wait("the guests have counted to 50", 30, lambda: (c := self.read_counters()) and min(c.values()) >= 50 and c)
        names = self.vm_names()
        self.say("spec.suspend: true")
        self.cluster.patch("cocoonset", SET, {"spec": {"suspend": True}}, NAMESPACE)
        wait("phase Suspended", self.patience, lambda: self.settled("Suspended"), 0.2)
        expect("VMs on the hosts", sorted(self.host_vms()), [])
        self.expect_no_leases()
        tags = self.cluster.tags()
        expect("hibernate tags", sorted(r for r, t in tags.items() if "hibernate" in t), sorted(names.values()))
        for pod, vm in sorted(names.items()):
            manifest, digest = self.cluster.manifest(vm, "hibernate")
            expect(f"artifactType of {vm}:hibernate", manifest["artifactType"],
                   "application/vnd.cocoonstack.snapshot.v1+json")
            size = sum(layer["size"] for layer in manifest["layers"])
            self.say(f"  {vm}:hibernate {digest[:19]} {len(manifest['layers'])} layers, {size >> 10} KiB"
                     f" (counter was {before.get(vm, '?')})")
        expect("pods still there", sorted(self.cluster.pods(NAMESPACE)), sorted(self.pod_names()))

    def wake(self):
        before = dict(self.low_water)
        self.say("spec.suspend: false")
        self.cluster.patch("cocoonset", SET, {"spec": {"suspend": False}}, NAMESPACE)
        counters = self.check_running()
        for vm, value in sorted(counters.items()):
            self.say(f"  {vm} woke, its guest goes on: {before[vm]} -> {value}")
        wait("the hibernate tags are reclaimed", self.patience, lambda: self.cluster.tags() == {}, 0.2)

    def scale_up(self):
        self.replicas = 3
        self.say("spec.agent.replicas: 3")
        self.cluster.patch("cocoonset", SET, {"spec": {"agent": {"replicas": 3}}}, NAMESPACE)
        self.say(f"  {len(self.check_running())} guests run")

    def scale_down(self):
        self.replicas = 1
        self.say("spec.agent.replicas: 1")
        self.cluster.patch("cocoonset", SET, {"spec": {"agent": {"replicas": 1}}}, NAMESPACE)
        wait("three pods left", self.patience, lambda: sorted(self.cluster.pods(NAMESPACE)) == sorted(self.pod_names()))
        wait("three VMs left", self.patience, lambda: len(self.host_vms()) == 3)
        self.say(f"  {len(self.check_running())} guests run")

    def delete(self):
        self.say("deleting the CocoonSet")
        self.cluster.kubectl("-n", NAMESPACE, "delete", "cocoonset", SET, "--wait=false")
        wait("the set is gone", self.patience, lambda: not self.cluster.get("cocoonsets", "-A")["items"], 0.2)
        expect("pods", sorted(self.cluster.pods(NAMESPACE)), [])
        expect("VMs on the hosts", sorted(self.host_vms()), [])
        self.expect_no_leases()
        expect("registry", self.cluster.tags(), {})
        left = [name for node in self.cluster.nodes if node.name not in self.left_nodes for name in node.snapshots()]
        expect("snapshots on the hosts", left, [])
        self.say("  registry empty, no VM, no lease, no snapshot" +
                 "".join(f"; what moved away from {name} is kept there for a day" for name in sorted(self.left_nodes)))


def describe_failure(cluster):
    """What a person would look at next."""
    lines = []
    for words in (["get", "cocoonset,pods", "-A", "-o", "wide"], ["get", "events", "-A", "--sort-by=.lastTimestamp"]):
        try:
            lines.append(cluster.kubectl(*words))
        except Exception as error:
            lines.append(str(error))
    return "\n".join(lines + [cluster.logs_tail()])


__all__ = ["Scenario", "describe_failure", "json"]

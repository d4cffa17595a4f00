#!/usr/bin/env python3
"""Bad input against real servers: each case sets up a fault, then asks for a message that names the thing, for a retry
that heals it, for daemons that still run, and for guests that go on counting.

usage: test/integration/test_bad_input.py [WORD...]     only the cases whose name contains one of the words

VARIANT chooses the build (default release), KEEP=1 leaves logs and state behind. Lanes run side by side, each on a node
(and node pool) of its own, so that the faults of one are not seen by another."""
import base64
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/cluster"))
from api import Api  # noqa: E402
from cluster import Cluster, Daemon, Mismatch, Node, enter_namespace, free_ports, wait  # noqa: E402

SETS = "/apis/cocoonset.cocoonstack.io/v1/namespaces/default/cocoonsets"
PODS = "/api/v1/namespaces/default/pods"
VM = "vm.cocoonstack.io/"
SET = "cocoonset.cocoonstack.io/"
LANES = {}
PATIENCE = int(os.environ.get("PATIENCE", "60"))


def case(lane):
    def register(function):
        LANES.setdefault(lane, []).append(function)
        return function
    return register


class Lane:
    """A node, and what the cases on it share."""

    def __init__(self, world, node):
        self.world, self.node = world, node
        self.pool = node.vk.env["VK_NODE_POOL"] if node else "default"
        self.api, self.low_water, self.marks = world.api, {}, {}

    # --- sets -------------------------------------------------------------------------------------------------------
    def create(self, name, replicas=0, toolboxes=(), wait_for="Running", policy="never", image="ubuntu:24.04", **spec):
        agent = {"replicas": replicas, "image": image, "mode": "run",
                 "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
        self.api.must("POST", SETS, {
            "apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonSet", "metadata": {"name": name},
            "spec": {"snapshotPolicy": policy, "nodePool": self.pool, "agent": agent, "toolboxes": list(toolboxes), **spec}})
        if wait_for:
            self.settled(name, wait_for)

    def set(self, name):
        return self.api.get(f"{SETS}/{name}")

    def settled(self, name, phase, patience=PATIENCE):
        def probe():
            found = self.set(name)
            status = (found or {}).get("status", {})
            if status.get("phase") == phase and status.get("observedGeneration") == found["metadata"]["generation"]:
                return found
            raise Mismatch(f"{name} is {status.get('phase')}; {self.describe(name)}")
        found = wait(f"{name} {phase}", patience, probe, 0.2)
        if phase == "Running":  # the phase may still be that of before the fault: what is wrong must pass
            wait(f"guests of {name}", 20, lambda: self.check_guests(name) or True, 0.5)
        return found

    def describe(self, name):
        pods = self.api.get(PODS)["items"]
        return "; ".join(
            f"{p['metadata']['name']}: {p['metadata'].get('annotations', {}).get(VM + 'lifecycle-state')} "
            f"{p['metadata'].get('annotations', {}).get(VM + 'lifecycle-state-message', '')[:160]}"
            for p in pods if p["metadata"]["name"].startswith(name + "-"))

    def suspend(self, name, wanted=True, wait_for=None):
        self.api.merge(f"{SETS}/{name}", {"spec": {"suspend": wanted}})
        if wait_for:
            self.settled(name, wait_for)

    def pod(self, name):
        return self.api.get(f"{PODS}/{name}")

    def pods_of(self, name):
        return {p["metadata"]["name"]: p for p in self.api.get(PODS)["items"]
                if any(o["name"] == name for o in p["metadata"].get("ownerReferences", ()))}

    def vm_of(self, pod_name):
        return self.pod(pod_name)["metadata"]["annotations"][VM + "name"]

    def annotate(self, path, **annotations):
        self.api.merge(path, {"metadata": {"annotations": {k.replace("__", "/"): v for k, v in annotations.items()}}})

    def recover(self):
        """After a failed case the others of the lane still have a chance."""
        self.low_water = {}
        try:
            for found in self.api.get(SETS)["items"]:
                if found["spec"].get("nodePool") == self.pool and found["spec"].get("suspend"):
                    self.suspend(found["metadata"]["name"], False)
        except (Mismatch, OSError):
            pass

    def check_guests(self, name):
        """Each pod of the set has one VM on this node, and no guest has gone back."""
        vms = self.node.vms()
        for pod_name, pod in self.pods_of(name).items():
            vm_name = pod["metadata"]["annotations"].get(VM + "name")
            if vm_name not in vms or vms[vm_name]["state"] != "running":
                raise Mismatch(f"{pod_name} is Running and its VM {vm_name} is {vms.get(vm_name, {}).get('state')}")
            if pod["metadata"]["annotations"].get(VM + "id") != vms[vm_name]["id"]:
                raise Mismatch(f"{pod_name} names another VM than {vm_name} on the host")
            self.count(vm_name)

    def count(self, vm_name):
        value = self.node.counter(vm_name)
        if value < self.low_water.get(vm_name, 0):
            raise Mismatch(f"guest {vm_name} went back: {value} after {self.low_water[vm_name]}")
        self.low_water[vm_name] = value
        return value

    def forget_guest(self, vm_name):
        """A loss that is right (a killed guest, a new image): the next value counts from anew."""
        self.low_water.pop(vm_name, None)

    def delete(self, name, vm_names=()):
        self.api.must("DELETE", f"{SETS}/{name}")
        wait(f"{name} deleted", PATIENCE, lambda: self.set(name) is None, 0.2)
        for vm_name in vm_names:
            if vm_name in self.node.vms():
                raise Mismatch(f"VM {vm_name} is left after the delete")

    def check_alive(self):
        """The two daemons that this lane needs; other lanes stop and start theirs."""
        for daemon in [self.world.operator] + ([self.node.vk] if self.node else []):
            if not daemon.alive():
                raise Mismatch(f"{daemon.name} ended with status {daemon.process.returncode}:\n{daemon.log_tail()}")

    # --- faults -----------------------------------------------------------------------------------------------------
    def calls(self, verb):
        try:
            return (self.node.root / "sim/calls" / verb).stat().st_size
        except FileNotFoundError:
            return 0

    def fault(self, verb, action, times=1):
        """The next `times` calls of the verb go wrong."""
        first = self.calls(verb) + 1
        self.node.faults("".join(f"{verb} {first + i} {action}\n" for i in range(times)))
        return first

    def clear(self):
        self.node.faults("")

    # --- messages ---------------------------------------------------------------------------------------------------
    def mark(self):
        self.marks = {d.name: pathlib.Path(d.log).stat().st_size for d in self.world.daemons() if pathlib.Path(d.log).exists()}

    def said(self, *patterns, patience=10):
        """Waits for one log line or event since mark() that matches all the patterns; returns it."""
        def probe():
            for daemon in self.world.daemons():
                text = pathlib.Path(daemon.log).read_bytes()[self.marks.get(daemon.name, 0):].decode(errors="replace")
                for line in text.splitlines():
                    if all(re.search(p, line, re.I) for p in patterns):
                        return line
            for event in self.api.get("/api/v1/namespaces/default/events?limit=2000")["items"]:
                line = f"{event['involvedObject'].get('name')} {event.get('reason')} {event.get('message')}"
                if all(re.search(p, line, re.I) for p in patterns):
                    return line
            return None
        return wait(f"a log line or event that says {patterns}", patience, probe, 0.3)


class World(Cluster):
    """A cluster whose nodes have a pool each."""

    def start_nodes(self, lanes, first):
        self.metrics_port, self.health_port = free_ports(2)
        self.operator = Daemon("cocoon-operator",
                               [self.build / "cocoon-operator", "--leader-elect=false",
                                f"--metrics-bind-address=127.0.0.1:{self.metrics_port}",
                                f"--health-probe-bind-address=127.0.0.1:{self.health_port}"],
                               dict(self.env, OCI_REGISTRY=self.oci_registry), self.dir / "cocoon-operator.log").start()
        for number, lane in enumerate(lanes, first):
            node = Node(self, number)
            node.vk.env["VK_NODE_POOL"] = re.sub(r"[^a-z0-9]", "-", lane)
            self.nodes.append(node.start())
        for node in self.nodes:
            wait(f"node {node.name} Ready", 30, lambda node=node: self.node_is_ready(node.name))
        self.api = Api(self.dir / "kube")

    def daemons(self):
        return [self.operator] + [n.vk for n in self.nodes]



BCRYPT_OF_SECRET = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"


# --- the cocoon binary, verb by verb ---------------------------------------------------------------------------------
FAULTS = {"fail": "injected fault", "garbage": "JSON|output|archive", "skip": ".", "lie": "injected lie",
          "die": "SIGKILL", "hang 2500": None}


# A remove whose verdict was wrong is looked at and is then right; what a save or a remove prints is not read.
NEEDS_NO_MESSAGE = {("vm.rm", "lie"), ("vm.rm", "die"), ("snapshot.import", "garbage")}


def fault_name(action):
    return action.split()[0]


def settle_after_fault(lane, verb, action, name, vm_name, phase):
    """The message names the pod or its VM (a call that ended well after a delay needs none), and a retry heals it."""
    if FAULTS[action] and action != "skip" and (verb, action) not in NEEDS_NO_MESSAGE:
        lane.said(f"{name}-|{vm_name}", FAULTS[action], patience=25)
    lane.settled(name, phase)
    lane.clear()


def run_case(action):
    def run(lane):
        name = "run-" + fault_name(action)
        lane.mark()
        lane.fault("vm.run", action)
        lane.create(name, wait_for=None)
        settle_after_fault(lane, "vm.run", action, name, "vk-default-" + name, "Running")
        expect_one_vm(lane, name)
        lane.delete(name, [v for v in lane.node.vms() if name in v])
    run.__name__ = "vm_run_" + fault_name(action)
    return run


def expect_one_vm(lane, name):
    listed = json.loads(lane.node.cocoon("vm", "list", "-o", "json"))
    found = [v["config"]["name"] for v in listed if v["config"]["name"].startswith(f"vk-default-{name}-")]
    if len(found) != len(set(found)) or len(found) != len(lane.pods_of(name)):
        raise Mismatch(f"VMs {found} for pods {sorted(lane.pods_of(name))}")


def round_case(verb, action, stage):
    """Suspends and wakes the lane's one set; the fault hits in `stage`. The guest must go on where it was."""
    def run(lane):
        name = verb.replace(".", "-")
        if not lane.set(name):
            lane.create(name)
        lane.settled(name, "Running")
        vm_name = lane.vm_of(name + "-0")
        before = lane.count(vm_name)
        lane.mark()
        if stage == "suspend":
            # A name that an earlier round has taken makes a save fail before it gets half-way, and the next one counts.
            lane.fault(verb, action, times=2 if verb == "snapshot.save" and action in ("lie", "die") else 1)
            lane.suspend(name)
            settle_after_fault(lane, verb, action, name, vm_name, "Suspended")
        else:
            lane.suspend(name, wait_for="Suspended")
        expect_hibernated(lane, name)
        lane.mark()
        if stage == "import":
            for snapshot in list(lane.node.snapshots()):
                lane.node.cocoon("snapshot", "rm", snapshot)
        if stage in ("wake", "import"):
            lane.fault(verb, action)
        lane.suspend(name, False)
        if stage == "suspend":
            lane.settled(name, "Running")
        else:
            settle_after_fault(lane, verb, action, name, vm_name, "Running")
        if lane.count(vm_name) < before:
            raise Mismatch("the guest went back")
        expect_one_vm(lane, name)
        wait("the tag is reclaimed", 30, lambda: vm_name not in lane.world.tags())
    run.__name__ = f"{verb.replace('.', '_')}_{fault_name(action)}_in_{stage}"
    return run


def expect_hibernated(lane, name):
    for pod_name, pod in lane.pods_of(name).items():
        vm_name = pod["metadata"]["annotations"][VM + "name"]
        if vm_name in lane.node.vms():
            raise Mismatch(f"{name} is Suspended and VM {vm_name} is still there")
        if "hibernate" not in lane.world.tags().get(vm_name, []):
            raise Mismatch(f"{name} is Suspended and {vm_name}:hibernate is not in the registry")


for action in FAULTS:
    case("vm.run")(run_case(action))
    for verb, stage in (("vm.clone", "wake"), ("vm.rm", "suspend"), ("snapshot.save", "suspend"),
                        ("snapshot.export", "suspend"), ("snapshot.import", "import")):
        case(verb)(round_case(verb, action, stage))


def inspect_case(action):
    """A look before a delete that saves first (contract/07 12): an unclear answer keeps the VM, a clear one lets it go."""
    def run(lane):
        name = "inspect-" + fault_name(action)
        lane.create(name, policy="always")
        vm_name = lane.vm_of(name + "-0")
        lane.mark()
        if action.startswith("hang"):
            lane.fault("vm.inspect", action, times=3)
        else:
            lane.node.faults(f"vm.inspect * {action}\n")
        lane.api.must("DELETE", f"{SETS}/{name}")
        if not action.startswith("hang"):
            lane.said(f"{name}-0|{vm_name}", "inspect")
            if vm_name not in lane.node.vms():
                raise Mismatch("the VM went although nobody knew its state")
            lane.clear()
        wait("deleted", PATIENCE, lambda: lane.set(name) is None)
        lane.clear()
        if vm_name in lane.node.vms():
            raise Mismatch("VM left")
    run.__name__ = "vm_inspect_" + fault_name(action)
    return run


for action in FAULTS:
    case("vm.inspect")(inspect_case(action))


def fork_case(action):
    def run(lane):
        name = "fork-" + fault_name(action)
        lane.create(name)
        lane.mark()
        lane.fault("vm.clone", action)
        lane.api.merge(f"{SETS}/{name}", {"spec": {"agent": {"replicas": 1}}})
        settle_after_fault(lane, "vm.clone", action, name, "vk-default-" + name, "Running")
        wait("the sub-agent", PATIENCE, lambda: len(lane.pods_of(name)) == 2)
        lane.settled(name, "Running")
        expect_one_vm(lane, name)
        lane.delete(name, [v for v in lane.node.vms() if name in v])
    run.__name__ = "vm_clone_fork_" + fault_name(action)
    return run


for action in ("fail", "die", "lie"):
    case("fork")(fork_case(action))


@case("fork")
def save_fails_before_delete(lane):
    lane.create("keep", policy="always")
    vm_name = lane.vm_of("keep-0")
    lane.mark()
    lane.node.faults("snapshot.save * fail\n")
    lane.api.must("DELETE", f"{SETS}/keep")
    lane.said("keep-0", "injected fault")
    if vm_name not in lane.node.vms():
        raise Mismatch("the VM went although its snapshot could not be saved")
    lane.clear()
    wait("keep deleted", PATIENCE, lambda: lane.set("keep") is None)
    if vm_name in lane.node.vms():
        raise Mismatch("VM left")


@case("fork")
def rm_fails_in_delete(lane):
    lane.create("rmfail")
    vm_name = lane.vm_of("rmfail-0")
    lane.mark()
    lane.fault("vm.rm", "fail VM is still running", times=2)
    lane.api.must("DELETE", f"{SETS}/rmfail")
    lane.said("rmfail-0", "still running")
    wait("rmfail deleted", PATIENCE, lambda: lane.set("rmfail") is None)
    if vm_name in lane.node.vms():
        raise Mismatch("VM left")


@case("fork")
def noise_on_stderr_is_no_output(lane):
    lane.node.faults("* * noise\n")
    lane.create("noise", replicas=1)
    lane.suspend("noise", True, "Suspended")
    lane.suspend("noise", False, "Running")
    lane.delete("noise")
    lane.clear()


# --- vm list, and a binary that is no good at the start ----------------------------------------------------------------
def list_case(action):
    def run(lane):
        if not lane.set("listed"):
            lane.create("listed")
        vm_name = lane.vm_of("listed-0")
        before = lane.count(vm_name)
        lane.node.vk.stop()
        lane.mark()
        lane.fault("vm.list", action)
        lane.node.vk.start()
        if action.startswith("hang") or action == "skip":  # no text at all is an empty list (contract/06 3.1)
            wait("ready after a slow or empty list", 20, lambda: b"ok" in ready(lane.node))
        else:
            wait("the daemon gives up", 15, lambda: not lane.node.vk.alive())
            if lane.node.vk.process.returncode != 1:
                raise Mismatch(f"exit {lane.node.vk.process.returncode} instead of 1")
            lane.said("vm list|list vms", FAULTS[action])
            lane.clear()
            lane.node.vk.start()
        lane.settled("listed", "Running")
        wait("ready", 20, lambda: b"ok" in ready(lane.node))
        if lane.count(vm_name) < before or lane.vm_of("listed-0") != vm_name:
            raise Mismatch("another guest")
    run.__name__ = "vm_list_" + fault_name(action)
    return run


def ready(node):
    connection = http.client.HTTPConnection("127.0.0.1", node.metrics_port, timeout=3)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


for action in FAULTS:
    case("vm.list")(list_case(action))


@case("vm.list")
def event_stream_broken(lane):
    """`vm status` that fails at once is tried again at a pace, and exits are seen when it works again."""
    lane.node.faults("vm.status * fail\n")
    lane.node.vk.stop()
    lane.mark()
    before = lane.calls("vm.status")
    lane.node.vk.start()
    wait("ready", 20, lambda: b"ok" in ready(lane.node))
    time.sleep(5)
    calls = lane.calls("vm.status") - before
    if not 1 <= calls <= 8:
        raise Mismatch(f"{calls} tries in 5 s")
    lane.said("vm status|vm event stream|injected fault")
    lane.clear()
    vm_name = lane.vm_of("listed-0")
    time.sleep(1)
    os.kill(guest_pid(lane, vm_name), signal.SIGKILL)
    lane.forget_guest(vm_name)
    wait("the guest is started again", 60, lambda: lane.node.vms()[vm_name]["state"] == "running")
    lane.settled("listed", "Running")


@case("vm.list")
def binary_vanishes_while_running(lane):
    """The binary goes missing under a running daemon, comes back, and nothing was lost."""
    vm_name = lane.vm_of("listed-0")
    link = lane.node.dir / "cocoon-link"
    lane.node.vk.stop()
    link.symlink_to(lane.world.build / "cocoon-sim")
    lane.node.vk.env["VK_COCOON_BIN"] = str(link)
    lane.node.vk.start()
    wait("ready", 20, lambda: b"ok" in ready(lane.node))
    lane.settled("listed", "Running")
    lane.mark()
    link.unlink()
    lane.suspend("listed")
    lane.said(re.escape(str(link)), "no such file|not found|missing")
    link.symlink_to(lane.world.build / "cocoon-sim")
    lane.settled("listed", "Suspended")
    lane.suspend("listed", False, "Running")
    if lane.vm_of("listed-0") != vm_name:
        raise Mismatch("another VM name")
    lane.delete("listed", [vm_name])


# --- guests and leases ------------------------------------------------------------------------------------------------
def guest_pid(lane, vm_name):
    return lane.node.vms()[vm_name]["pid"]


@case("deaths")
def guest_dies_while_running(lane):
    lane.create("dies")
    vm_name = lane.vm_of("dies-0")
    lane.mark()
    os.kill(guest_pid(lane, vm_name), signal.SIGKILL)
    lane.forget_guest(vm_name)
    lane.said(f"dies-0|{vm_name}")
    def up():
        vm = lane.node.vms().get(vm_name)
        return vm and vm["state"] == "running" and lane.count(vm_name)
    wait("the guest is started again", 40, up)
    lane.settled("dies", "Running")


@case("deaths")
def hung_inspect_holds_up_nobody_else(lane):
    """One guest dies and the look at it hangs; another dies meanwhile and must be started all the same."""
    lane.create("slow")
    lane.create("quick")
    slow, quick = lane.vm_of("slow-0"), lane.vm_of("quick-0")
    inspects = lane.calls("vm.inspect")
    lane.fault("vm.inspect", "hang 12000")
    os.kill(guest_pid(lane, slow), signal.SIGKILL)
    wait("the look hangs", 10, lambda: lane.calls("vm.inspect") > inspects)
    os.kill(guest_pid(lane, quick), signal.SIGKILL)
    lane.forget_guest(slow)
    lane.forget_guest(quick)
    wait("the other guest runs", 8, lambda: lane.node.vms()[quick]["state"] == "running")
    lane.clear()
    wait("the slow one, too", 30, lambda: lane.node.vms()[slow]["state"] == "running")
    lane.delete("slow")
    lane.delete("quick")


@case("deaths")
def guest_dies_while_hibernating(lane):
    """It dies before it was saved: its memory is lost, said so, and the set does not hang for ever."""
    vm_name = lane.vm_of("dies-0")
    time.sleep(2)
    lane.settled("dies", "Running")
    lane.mark()
    saves = lane.calls("snapshot.save")
    lane.fault("snapshot.save", "hang 1500")
    lane.suspend("dies")
    wait("the save is under way", 10, lambda: lane.calls("snapshot.save") > saves)
    os.kill(guest_pid(lane, vm_name), signal.SIGKILL)
    lane.forget_guest(vm_name)
    lane.said(f"dies-0|{vm_name}", "not running|lost|stopped|gone|dead")
    lane.clear()
    time.sleep(1)
    lane.suspend("dies", False)
    wait("the guest runs", 45, lambda: lane.node.vms().get(vm_name, {"state": "absent"})["state"] == "running")
    lane.settled("dies", "Running", 60)
    lane.delete("dies", [vm_name])


@case("deaths")
def guest_dies_after_its_snapshot(lane):
    lane.create("late")
    vm_name = lane.vm_of("late-0")
    before = lane.count(vm_name)
    lane.fault("snapshot.export", "hang 1500")
    exports = lane.calls("snapshot.export")
    lane.suspend("late")
    wait("the export is under way", 10, lambda: lane.calls("snapshot.export") > exports)
    os.kill(guest_pid(lane, vm_name), signal.SIGKILL)
    lane.settled("late", "Suspended")
    lane.clear()
    expect_hibernated(lane, "late")
    lane.suspend("late", False, "Running")
    if lane.count(vm_name) < before:
        raise Mismatch("the guest went back")
    lane.delete("late", [vm_name])


def lease_case(label, content):
    def run(lane):
        if not lane.set("leased"):
            lane.create("leased")
        vm_name = lane.vm_of("leased-0")
        path = lane.node.root / "net/leases.json"
        good = path.read_text()
        address = lane.pod("leased-0")["status"]["podIP"]
        lane.mark()
        path.write_text(content(good))
        try:
            # A restart reads it at once; a running daemon on its next pass.
            lane.node.vk.stop()
            lane.node.vk.start()
            wait("ready", 20, lambda: b"ok" in ready(lane.node))
            lane.said("leases.json", patience=45)
            time.sleep(1)
            if lane.pod("leased-0")["status"].get("podIP") != address:
                raise Mismatch("the address was dropped over a file that cannot be read")
            lane.count(vm_name)
        finally:
            path.write_text(good)
        lane.said("lease file is readable again", patience=40)
        lane.settled("leased", "Running")
        if lane.pod("leased-0")["status"].get("podIP") != address:
            raise Mismatch("the address changed")
    run.__name__ = "lease_file_" + label
    return run


for label, content in (("torn", lambda good: good[:len(good) // 2]), ("garbage", lambda good: "\0\xff{]"),
                       ("empty", lambda good: ""), ("wrong_type", lambda good: '{"a": 1}')):
    case("leases")(lease_case(label, content))


@case("leases")
def lease_file_torn_under_a_running_daemon(lane):
    """Its next look at the addresses says so, keeps them, and finds them again."""
    path = lane.node.root / "net/leases.json"
    good = path.read_text()
    address = lane.pod("leased-0")["status"]["podIP"]
    lane.mark()
    path.write_text(good[:len(good) // 2])
    try:
        lane.said("leases.json", patience=45)
        if lane.pod("leased-0")["status"].get("podIP") != address:
            raise Mismatch("the address was dropped over a file that cannot be read")
    finally:
        path.write_text(good)
    lane.settled("leased", "Running")
    lane.delete("leased")


# --- restarts of the node daemon ----------------------------------------------------------------------------------------
@case("restarts")
def pod_replaced_while_the_daemon_is_down(lane):
    """The pod is deleted (without grace) and made anew under its name while its node's daemon is down."""
    lane.create("again")
    vm_name = lane.vm_of("again-0")
    before = lane.count(vm_name)
    lane.node.vk.stop()
    old = lane.pod("again-0")["metadata"]["uid"]
    lane.api.must("DELETE", f"{PODS}/again-0", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    wait("a new pod", 30, lambda: (lane.pod("again-0") or {"metadata": {"uid": old}})["metadata"]["uid"] != old)
    lane.node.vk.start()
    lane.settled("again", "Running")
    if lane.count(vm_name) < before:
        raise Mismatch("the guest went back")
    expect_one_vm(lane, "again")


@case("restarts")
def lifecycle_annotation_removed_while_the_daemon_is_down(lane):
    lane.node.vk.stop()
    lane.annotate(f"{PODS}/again-0", **{VM + "lifecycle-state": None, VM + "id": None, VM + "ip": None,
                                        VM + "lifecycle-observed-generation": None})
    lane.node.vk.start()
    wait("ready", 20, lambda: lane.pod("again-0")["metadata"]["annotations"].get(VM + "lifecycle-state") == "ready")
    lane.settled("again", "Running")
    expect_one_vm(lane, "again")


@case("restarts")
def set_deleted_while_the_daemon_is_down(lane):
    vm_name = lane.vm_of("again-0")
    lane.node.vk.stop()
    lane.api.must("DELETE", f"{SETS}/again")
    time.sleep(1)
    if vm_name not in lane.node.vms():
        raise Mismatch("who removed it?")
    lane.node.vk.start()
    wait("again deleted", PATIENCE, lambda: lane.set("again") is None)
    wait("its VM removed", 20, lambda: vm_name not in lane.node.vms())


@case("restarts")
def suspended_while_the_daemon_is_down(lane):
    lane.create("dark", replicas=1)
    lane.node.vk.stop()
    lane.suspend("dark")
    time.sleep(1)
    lane.node.vk.start()
    lane.settled("dark", "Suspended")
    lane.node.vk.kill()
    lane.suspend("dark", False)
    lane.node.vk.start()
    lane.settled("dark", "Running")
    lane.delete("dark")


@case("restarts")
def killed_in_a_hung_save(lane):
    lane.create("hung")
    vm_name = lane.vm_of("hung-0")
    lane.fault("snapshot.save", "hang")
    saves = lane.calls("snapshot.save")
    lane.suspend("hung")
    wait("the save hangs", 10, lambda: lane.calls("snapshot.save") > saves)
    lane.node.vk.kill()
    for line in (lane.node.root / "sim/call.log").read_text().splitlines():
        if f"snapshot.save#{saves + 1} " in line:
            os.kill(int(line.split()[1]), signal.SIGKILL)
    lane.clear()
    lane.node.vk.start()
    lane.settled("hung", "Suspended")
    lane.suspend("hung", False, "Running")
    lane.delete("hung", [vm_name])


# --- hasty users ----------------------------------------------------------------------------------------------------------
@case("haste")
def suspend_toggled_ten_times(lane):
    lane.create("toggle", replicas=1)
    for i in range(10):
        lane.suspend("toggle", i % 2 == 0)
        time.sleep((0.02, 0.4, 0.1, 0.9, 0.05)[i % 5])
    lane.settled("toggle", "Running")
    expect_one_vm(lane, "toggle")
    lane.suspend("toggle", True, "Suspended")
    expect_hibernated(lane, "toggle")
    lane.suspend("toggle", False, "Running")


@case("haste")
def scaled_and_suspended_at_once(lane):
    lane.api.merge(f"{SETS}/toggle", {"spec": {"suspend": True, "agent": {"replicas": 3}}})
    time.sleep(0.3)
    lane.api.merge(f"{SETS}/toggle", {"spec": {"agent": {"replicas": 2}}})
    lane.settled("toggle", "Suspended")
    expect_hibernated(lane, "toggle")
    lane.api.merge(f"{SETS}/toggle", {"spec": {"suspend": False, "agent": {"replicas": 1}}})
    lane.settled("toggle", "Running")
    wait("two pods", 30, lambda: len(lane.pods_of("toggle")) == 2)
    wait("two VMs", 30, lambda: len([v for v in lane.node.vms() if "toggle" in v]) == 2)
    wait("no tag", 30, lambda: not [t for t in lane.world.tags() if "toggle" in t])


@case("haste")
def deleted_during_suspend(lane):
    lane.suspend("toggle")
    time.sleep(0.3)
    vms = list(lane.node.vms())
    lane.delete("toggle")
    left = [v for v in lane.node.vms() if v in vms and "toggle" in v]
    if left or [t for t in lane.world.tags() if "toggle" in t]:
        raise Mismatch(f"left: VMs {left}, tags {lane.world.tags()}")


@case("haste")
def deleted_during_wake(lane):
    lane.create("gone", replicas=1)
    lane.suspend("gone", True, "Suspended")
    lane.fault("vm.clone", "hang 700", times=2)
    lane.suspend("gone", False)
    time.sleep(0.4)
    lane.delete("gone")
    lane.clear()
    wait("nothing left", 20, lambda: not [v for v in lane.node.vms() if "gone" in v] and
         not [t for t in lane.world.tags() if "gone" in t] and not [s for s in lane.node.snapshots() if "gone" in s])


@case("haste")
def image_edited_while_suspended(lane):
    lane.create("edit")
    vm_name = lane.vm_of("edit-0")
    lane.suspend("edit", True, "Suspended")
    lane.api.merge(f"{SETS}/edit", {"spec": {"agent": {"image": "ubuntu:25.10"}}})
    lane.mark()
    lane.forget_guest(vm_name)
    lane.suspend("edit", False)
    lane.settled("edit", "Running")
    wait("the new image", 30, lambda: lane.node.vms().get(vm_name, {"config": {}})["config"].get("image") == "ubuntu:25.10")
    lane.said("snapshot of another image|image", "edit-0")
    wait("the tag is dropped", 20, lambda: vm_name not in lane.world.tags())
    lane.delete("edit", [vm_name])


# --- what somebody does by hand to a sleeping set -------------------------------------------------------------------------
def registry_call(world, method, path, body=None, content=None):
    connection = http.client.HTTPConnection("127.0.0.1", int(world.registry_url.rsplit(":", 1)[1]), timeout=5)
    try:
        accept = "application/vnd.oci.image.manifest.v1+json"
        connection.request(method, f"/v2/{world.oci_registry.split('/', 1)[1]}/{path}", body,
                           {"Accept": accept, **({"Content-Type": content} if content else {})})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def asleep(lane, name):
    """A suspended set whose only copy is in the registry: VM name and counter."""
    if not lane.set(name):
        lane.create(name)
    lane.settled(name, "Running")
    vm_name = lane.vm_of(name + "-0")
    before = lane.count(vm_name)
    lane.suspend(name, True, "Suspended")
    expect_hibernated(lane, name)
    return vm_name, before


@case("tampering")
def tag_deleted_by_hand(lane):
    """Decision 49: the local copy is neither used nor removed, and the failure names tag and copy. The manifest put back
    heals it."""
    vm_name, before = asleep(lane, "tamper")
    status, manifest, headers = registry_call(lane.world, "GET", f"{vm_name}/manifests/hibernate")
    if status != 200:
        raise Mismatch(f"GET manifest: {status}")
    registry_call(lane.world, "DELETE", f"{vm_name}/manifests/{headers['Docker-Content-Digest']}")
    lane.mark()
    lane.api.merge(f"{PODS}/tamper-0", {"metadata": {"annotations": {VM + "hibernate": None}}})
    lane.suspend("tamper", False)
    lane.said("tamper-0", vm_name + ".*hibernate")
    if vm_name not in lane.node.snapshots():
        raise Mismatch("the local copy was removed although it is the only one")
    status, text, _ = registry_call(lane.world, "PUT", f"{vm_name}/manifests/hibernate", manifest,
                                    "application/vnd.oci.image.manifest.v1+json")
    if status != 201:
        raise Mismatch(f"PUT manifest: {status} {text!r}")
    lane.settled("tamper", "Running", 90)
    if lane.count(vm_name) < before:
        raise Mismatch("the guest went back")


@case("tampering")
def blob_torn_in_the_registry(lane):
    vm_name, before = asleep(lane, "tamper")
    for snapshot in list(lane.node.snapshots()):
        lane.node.cocoon("snapshot", "rm", snapshot)
    manifest, _ = lane.world.manifest(vm_name, "hibernate")
    digest = max(manifest["layers"], key=lambda layer: layer["size"])["digest"].split(":")[1]
    blob = lane.world.dir / f"registry/docker/registry/v2/blobs/sha256/{digest[:2]}/{digest}/data"
    good = blob.read_bytes()
    lane.mark()
    blob.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
    lane.suspend("tamper", False)
    lane.said("tamper-0", "digest|sha256")
    if "hibernate" not in lane.world.tags().get(vm_name, []):
        raise Mismatch("the tag is gone")
    blob.write_bytes(good)
    lane.settled("tamper", "Running", 90)
    if lane.count(vm_name) < before:
        raise Mismatch("the guest went back")


@case("tampering")
def pod_deleted_by_force_while_suspended(lane):
    vm_name, before = asleep(lane, "tamper")
    uid = lane.pod("tamper-0")["metadata"]["uid"]
    lane.api.must("DELETE", f"{PODS}/tamper-0?gracePeriodSeconds=0")
    time.sleep(3)
    lane.suspend("tamper", False)
    wait("a new pod", 30, lambda: (lane.pod("tamper-0") or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid)
    lane.settled("tamper", "Running", 90)
    if lane.count(vm_name) < before:
        raise Mismatch("the guest went back")
    lane.delete("tamper", [vm_name])


@case("tampering")
def node_object_deleted(lane):
    lane.create("kept")
    vm_name = lane.vm_of("kept-0")
    uid = lane.api.get(f"/api/v1/nodes/{lane.node.name}")["metadata"]["uid"]
    lane.api.must("DELETE", f"/api/v1/nodes/{lane.node.name}")
    def again():
        found = lane.api.get(f"/api/v1/nodes/{lane.node.name}")
        return found and found["metadata"]["uid"] != uid and lane.world.node_is_ready(lane.node.name)
    wait("the Node is registered again", 60, again, 0.5)
    lane.settled("kept", "Running")
    lane.count(vm_name)
    lane.suspend("kept", True, "Suspended")
    lane.suspend("kept", False, "Running")
    lane.delete("kept", [vm_name])


# --- CocoonHibernations -----------------------------------------------------------------------------------------------
HIBERNATIONS = SETS.replace("cocoonsets", "cocoonhibernations")


def hibernate_pod(lane, name, pod, desire="Hibernate"):
    lane.api.must("POST", HIBERNATIONS, {"apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonHibernation",
                                         "metadata": {"name": name}, "spec": {"podRef": {"name": pod}, "desire": desire}})


def hibernation_phase(lane, name, phase):
    def probe():
        found = lane.api.get(f"{HIBERNATIONS}/{name}") or {}
        status = found.get("status", {})
        if status.get("phase") == phase and status.get("observedGeneration") == found["metadata"]["generation"]:
            return True
        raise Mismatch(f"{name}: {status}")
    wait(f"CocoonHibernation {name} {phase}", PATIENCE, probe, 0.2)


@case("hibernations")
def hibernation_of_nothing(lane):
    """A pod that does not exist, and one that is no VM's: each says so in a condition, and goes away when deleted."""
    hibernate_pod(lane, "nothing", "no-such-pod")
    lane.api.must("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "novm"},
                                 "spec": {"nodeName": "elsewhere", "containers": [{"name": "c", "image": "x"}]}})
    hibernate_pod(lane, "novm", "novm")
    for name, word in (("nothing", "no-such-pod"), ("novm", "novm")):
        def told(name=name, word=word):
            conditions = (lane.api.get(f"{HIBERNATIONS}/{name}") or {}).get("status", {}).get("conditions", [])
            return any(c["status"] == "False" and word in c.get("message", "") for c in conditions) or conditions == [] and None
        wait(f"a condition of {name} that names the pod", 20, told)
    for name in ("nothing", "novm"):
        lane.api.must("DELETE", f"{HIBERNATIONS}/{name}")
        wait(f"{name} gone", 20, lambda name=name: lane.api.get(f"{HIBERNATIONS}/{name}") is None)
    lane.api.must("DELETE", f"{PODS}/novm?gracePeriodSeconds=0")


@case("hibernations")
def hibernation_toggled(lane):
    lane.create("single", replicas=1)
    vm_name = lane.vm_of("single-0")
    before = lane.count(vm_name)
    hibernate_pod(lane, "single-0", "single-0")
    for i in range(8):
        time.sleep((0.05, 0.5, 0.2, 0.9)[i % 4])
        lane.api.merge(f"{HIBERNATIONS}/single-0", {"spec": {"desire": ("Wake", "Hibernate")[i % 2]}})
    hibernation_phase(lane, "single-0", "Hibernated")
    if vm_name in lane.node.vms():
        raise Mismatch("Hibernated and the VM is there")
    if "hibernate" not in lane.world.tags().get(vm_name, []):
        raise Mismatch("Hibernated and there is no tag")
    lane.api.merge(f"{HIBERNATIONS}/single-0", {"spec": {"desire": "Wake"}})
    hibernation_phase(lane, "single-0", "Active")
    lane.settled("single", "Running")
    if lane.count(vm_name) < before:
        raise Mismatch("the guest went back")


@case("hibernations")
def hibernation_deleted_asleep(lane):
    """Decision 51: the tag stays while the pod is asleep on it, and the set's own step wakes the pod."""
    vm_name = lane.vm_of("single-0")
    before = lane.count(vm_name)
    lane.api.merge(f"{HIBERNATIONS}/single-0", {"spec": {"desire": "Hibernate"}})
    hibernation_phase(lane, "single-0", "Hibernated")
    lane.api.must("DELETE", f"{HIBERNATIONS}/single-0")
    wait("the CR is gone", 30, lambda: lane.api.get(f"{HIBERNATIONS}/single-0") is None)
    wait("the VM runs", 60, lambda: lane.node.vms().get(vm_name, {"state": ""})["state"] == "running")
    lane.settled("single", "Running")
    if lane.count(vm_name) < before:
        raise Mismatch("the guest went back")


@case("hibernations")
def hibernation_beside_a_suspend(lane):
    """Decision 17: the suspend wins over a Wake, and says so; both withdrawn, everything runs."""
    vm_name = lane.vm_of("single-0")
    before = lane.count(vm_name)
    hibernate_pod(lane, "single-0", "single-0")
    hibernation_phase(lane, "single-0", "Hibernated")
    lane.suspend("single", True, "Suspended")
    lane.api.merge(f"{HIBERNATIONS}/single-0", {"spec": {"desire": "Wake"}})
    def told():
        conditions = lane.api.get(f"{HIBERNATIONS}/single-0").get("status", {}).get("conditions", [])
        return any("single is suspended" in c.get("message", "") for c in conditions)
    wait("a condition that says who wins", 20, told)
    expect_hibernated(lane, "single")
    lane.suspend("single", False)
    hibernation_phase(lane, "single-0", "Active")
    lane.settled("single", "Running")
    if lane.count(vm_name) < before:
        raise Mismatch("the guest went back")
    lane.api.must("DELETE", f"{HIBERNATIONS}/single-0")
    lane.delete("single", [vm_name])
    wait("no tag", 30, lambda: not [t for t in lane.world.tags() if "single" in t])


# --- annotations and specs ---------------------------------------------------------------------------------------------
def set_annotation_case(key, value, says=None):
    def run(lane):
        if not lane.set("marked"):
            lane.create("marked", replicas=1)
        lane.settled("marked", "Running")
        lane.mark()
        lane.annotate(f"{SETS}/marked", **{SET + key: value})
        lane.suspend("marked")
        if says:
            lane.said("marked", says)
        try:
            lane.settled("marked", "Suspended", 20)
        except Mismatch:
            if not says:
                raise
            if len([v for v in lane.node.vms() if "marked" in v]) != 2:  # held, not half done
                raise
            lane.annotate(f"{SETS}/marked", **{SET + key: None})
            lane.settled("marked", "Suspended")
        expect_hibernated(lane, "marked")
        lane.suspend("marked", False, "Running")
        lane.annotate(f"{SETS}/marked", **{SET + key: None})
        wait("no tag", 40, lambda: not [t for t in lane.world.tags() if "marked" in t])
    run.__name__ = "set_annotation_" + key.replace("-", "_") + "_malformed"
    return run


case("annotations")(set_annotation_case("hibernate-reclaim", "{not json", "hibernate-reclaim"))
case("annotations")(set_annotation_case("rebuild-history", "[1, {", "rebuild-history"))
case("annotations")(set_annotation_case("suspending-since", "yesterday"))
case("annotations")(set_annotation_case("delete-vm-names", "{\x7f"))


def pod_annotation_case(key, value, says=None):
    def run(lane):
        if not lane.set("marked"):
            lane.create("marked", replicas=1)
        lane.settled("marked", "Running")
        before = lane.count(lane.vm_of("marked-0"))
        uid = lane.pod("marked-0")["metadata"]["uid"]
        lane.mark()
        lane.annotate(f"{PODS}/marked-0", **{key: value})
        time.sleep(1)
        if key.endswith("probe-port"):  # a part of what is asked for: the operator makes the pod anew
            before = 0
            lane.forget_guest(lane.vm_of("marked-0"))
            wait("a new pod", 30, lambda: (lane.pod("marked-0") or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid)
            wait("its VM", 30, lambda: lane.pod("marked-0")["metadata"]["annotations"].get(VM + "lifecycle-state") == "ready")
            lane.settled("marked", "Running")
        if says:
            lane.said("marked-0", says)
        lane.node.vk.stop()
        lane.node.vk.start()
        wait("ready", 20, lambda: b"ok" in ready(lane.node))
        lane.settled("marked", "Running")
        if lane.count(lane.vm_of("marked-0")) < before:
            raise Mismatch("the guest went back")
        lane.suspend("marked", True, "Suspended")
        expect_hibernated(lane, "marked")
        lane.suspend("marked", False, "Running")
        if lane.count(lane.vm_of("marked-0")) < before:
            raise Mismatch("the guest went back")
    run.__name__ = "pod_annotation_" + key.split("/")[1].replace("-", "_") + "_malformed"
    return run


for key, value, says in ((SET + "generation", "99999999999999999999", None), (SET + "generation", "many", None),
                         (VM + "lifecycle-state", "asleep", None), (VM + "lifecycle-state", None, None),
                         (VM + "lifecycle-observed-generation", "-", None), (VM + "probe-port", "ssh", None),
                         (VM + "id", "nobody", None), (VM + "post-clone-state", "?", None),
                         (VM + "hibernate", "perhaps", None), (VM + "ip", "::::", None)):
    case("annotations")(pod_annotation_case(key, value, says))


@case("specs")
def foreign_pod_with_our_labels(lane):
    """A pod that nobody of us owns, with all our labels: never adopted, never deleted."""
    lane.create("mine")
    set_uid = lane.set("mine")["metadata"]["uid"]
    del set_uid
    lane.api.must("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {
        "name": "mine-1", "labels": {SET + "name": "mine", SET + "role": "sub-agent", SET + "slot": "1"},
        "annotations": {VM + "name": "vk-default-mine-1-ffffff"}},
        "spec": {"nodeName": "elsewhere", "containers": [{"name": "agent", "image": "x"}]}})
    lane.mark()
    lane.api.merge(f"{SETS}/mine", {"spec": {"agent": {"replicas": 1}}})
    lane.said("mine-1", "exist|collision|own|foreign")
    if not lane.pod("mine-1"):
        raise Mismatch("the foreign pod was deleted")
    lane.api.merge(f"{SETS}/mine", {"spec": {"agent": {"replicas": 0}}})
    time.sleep(2)
    if not lane.pod("mine-1") or lane.pod("mine-1")["metadata"].get("deletionTimestamp"):
        raise Mismatch("the foreign pod was deleted")
    lane.settled("mine", "Running")
    lane.suspend("mine", True, "Suspended")
    if lane.pod("mine-1")["metadata"]["annotations"].get(VM + "hibernate"):
        raise Mismatch("the foreign pod was told to hibernate")
    lane.suspend("mine", False, "Running")
    lane.delete("mine")
    if not lane.pod("mine-1"):
        raise Mismatch("the foreign pod was deleted with the set")
    lane.api.must("DELETE", f"{PODS}/mine-1?gracePeriodSeconds=0")


@case("specs")
def foreign_pod_on_our_node(lane):
    """A plain pod bound to the node: refused by name, no VM, and it can be deleted."""
    lane.mark()
    lane.api.must("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"},
                                 "spec": {"nodeName": lane.node.name, "containers": [{"name": "c", "image": "x"}]}})
    lane.said("plain", "vm.cocoonstack.io/name")
    lane.api.must("DELETE", f"{PODS}/plain")
    wait("plain gone", 45, lambda: lane.pod("plain") is None)


@case("specs")
def pod_collides_with_a_toolbox(lane):
    lane.create("tools")
    lane.api.must("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tools-shell"},
                                 "spec": {"nodeName": "elsewhere", "containers": [{"name": "c", "image": "x"}]}})
    lane.mark()
    lane.api.merge(f"{SETS}/tools", {"spec": {"toolboxes": [{"name": "shell", "image": "toolbox:v1", "mode": "run"}]}})
    lane.said("tools-shell", "collision")
    lane.check_guests("tools")
    lane.api.must("DELETE", f"{PODS}/tools-shell?gracePeriodSeconds=0")
    wait("the toolbox", PATIENCE, lambda: "tools-shell" in lane.pods_of("tools"))
    lane.settled("tools", "Running")


@case("specs")
def two_sets_want_one_pod_name(lane):
    """Toolbox y-0 of set col and the main of set col-y are both pod col-y-0."""
    lane.create("col-y")
    lane.mark()
    lane.create("col", toolboxes=[{"name": "y-0", "image": "toolbox:v1", "mode": "run"}], wait_for=None)
    lane.said("col-y-0", "collision")
    lane.settled("col-y", "Running")
    lane.api.must("DELETE", f"{SETS}/col")
    wait("col deleted", PATIENCE, lambda: lane.set("col") is None)
    lane.settled("col-y", "Running")
    lane.delete("col-y")


@case("specs")
def duplicate_toolbox_names(lane):
    lane.mark()
    box = {"name": "shell", "image": "toolbox:v1", "mode": "run"}
    status, answer = lane.api.call("PATCH", f"{SETS}/tools", {"spec": {"toolboxes": [box, box]}},
                                   "application/merge-patch+json")
    if status < 300:
        lane.said("tools", "duplicate toolbox name .{0,2}shell")
        lane.check_guests("tools")
        lane.api.merge(f"{SETS}/tools", {"spec": {"toolboxes": [box]}})
    elif "uplicate" not in answer["message"]:
        raise Mismatch(f"refused without a reason: {answer['message']}")
    lane.settled("tools", "Running")
    lane.delete("tools")


@case("specs")
def huge_replicas(lane):
    lane.create("huge")
    lane.mark()
    status, answer = lane.api.call("PATCH", f"{SETS}/huge", {"spec": {"agent": {"replicas": 2147483647}}},
                                   "application/merge-patch+json")
    if status < 300:
        lane.said("huge", "replicas")
        lane.check_guests("huge")
        if len(lane.pods_of("huge")) > 1:
            raise Mismatch("it began to make them")
        lane.api.merge(f"{SETS}/huge", {"spec": {"agent": {"replicas": 0}}})
    lane.settled("huge", "Running")
    lane.delete("huge")


@case("specs")
def image_that_is_nowhere(lane):
    lane.mark()
    lane.create("nowhere", wait_for=None, image="no-such-repo/thing:v9")
    lane.api.merge(f"{SETS}/nowhere", {"spec": {"agent": {"mode": "clone"}}})
    lane.said("nowhere-0", "no-such-repo/thing")
    lane.api.merge(f"{SETS}/nowhere", {"spec": {"agent": {"image": "ubuntu:24.04", "mode": "run"}}})
    lane.settled("nowhere", "Running", 90)
    lane.delete("nowhere")


# --- the command line -------------------------------------------------------------------------------------------------
def refused(world, program, environment, arguments, status, *patterns, seconds=10):
    base = {"PATH": world.env["PATH"], "HOME": str(world.dir / "home"), "OCI_REGISTRY": world.oci_registry,
            "KUBECONFIG": str(world.kubeconfig), "ASAN_OPTIONS": world.env["ASAN_OPTIONS"]}
    if program == "vk-cocoon":
        root = world.dir / "refused"
        base.update(COCOON_ROOT_DIR=str(root), VK_STAGING_DIR=str(root / "staging"), VK_METRICS_ADDR="127.0.0.1:0",
                    VK_PEER_ADDR="127.0.0.1:12501",
                    VK_COCOON_BIN=str(world.build / "cocoon-sim"), VK_NODE_NAME="refused", VK_NODE_IP="127.0.0.1")
    for key, value in environment.items():
        if value is None:
            base.pop(key, None)
        else:
            base[key] = value
    try:
        done = subprocess.run([str(world.build / program), *arguments], env=base, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise Mismatch(f"{program} {environment} {arguments} went on: {(error.stdout or b'')[-600:]!r}") from error
    if done.returncode != status:
        raise Mismatch(f"{program} {environment} {arguments}: exit {done.returncode}, want {status}: {done.stdout[-600:]}")
    for pattern in patterns:
        if not re.search(pattern, done.stdout, re.I):
            raise Mismatch(f"{program} {environment} {arguments}: does not say {pattern!r}: {done.stdout[-600:]}")


OPERATOR_FLAGS = ["--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0"]
BAD_VARIABLES = [
    ("cocoon-operator", {"OCI_REGISTRY": None}, 1, ["OCI_REGISTRY"]),
    ("cocoon-operator", {"OCI_REGISTRY": "https://x/y"}, 1, ["OCI_REGISTRY"]),
    ("cocoon-operator", {"OPERATOR_LOG_LEVEL": "loud"}, 1, ["OPERATOR_LOG_LEVEL", "loud"]),
    ("cocoon-operator", {"LOG_FORMAT": "xml"}, 1, ["LOG_FORMAT", "xml"]),
    ("cocoon-operator", {"COCOONSET_CONCURRENCY": "four"}, 1, ["COCOONSET_CONCURRENCY", "four", "1000"]),
    ("cocoon-operator", {"HIBERNATION_CONCURRENCY": "0"}, 1, ["HIBERNATION_CONCURRENCY", "1000"]),
    ("vk-cocoon", {"OCI_REGISTRY": None}, 1, ["OCI_REGISTRY"]),
    ("vk-cocoon", {"OCI_REGISTRY": ""}, 1, ["OCI_REGISTRY"]),
    ("vk-cocoon", {"OCI_REGISTRY": "registry/"}, 1, ["OCI_REGISTRY", "registry/"]),
    ("vk-cocoon", {"VK_LOG_LEVEL": "loud"}, 1, ["VK_LOG_LEVEL", "loud"]),
    ("vk-cocoon", {"VK_NODE_NAME": "Not_A_Name"}, 1, ["VK_NODE_NAME", "Not_A_Name"]),
    ("vk-cocoon", {"VK_NODE_IP": "10.0.0"}, 1, ["VK_NODE_IP", "10.0.0"]),
    ("vk-cocoon", {"VK_NODE_POOL": "a b"}, 1, ["VK_NODE_POOL"]),
    ("vk-cocoon", {"VK_SNAPSHOT_CPU_CLASS": "-x-"}, 1, ["VK_SNAPSHOT_CPU_CLASS"]),
    ("vk-cocoon", {"VK_RESERVE_PERCENT": "101"}, 1, ["VK_RESERVE_PERCENT", "101", "100"]),
    ("vk-cocoon", {"VK_NODE_MEM": "lots"}, 1, ["VK_NODE_MEM", "lots"]),
    ("vk-cocoon", {"VK_NODE_CPU": "-1"}, 1, ["VK_NODE_CPU", "-1"]),
    ("vk-cocoon", {"VK_ORPHAN_POLICY": "shoot"}, 1, ["VK_ORPHAN_POLICY", "shoot", "destroy"]),
    ("vk-cocoon", {"VK_RESTORE_MODE": "fast"}, 1, ["VK_RESTORE_MODE", "fast", "ondemand"]),
    ("vk-cocoon", {"COCOON_K8S_QPS": "a"}, 1, ["COCOON_K8S_QPS"]),
    ("vk-cocoon", {"COCOON_K8S_BURST": "1e99"}, 1, ["COCOON_K8S_BURST"]),
    ("vk-cocoon", {"SNAPSHOT_ZSTD_LEVEL": "23"}, 1, ["SNAPSHOT_ZSTD_LEVEL", "22"]),
    ("vk-cocoon", {"SNAPSHOT_CHUNK_SIZE_MIB": "x"}, 1, ["SNAPSHOT_CHUNK_SIZE_MIB"]),
    ("vk-cocoon", {"SNAPSHOT_TRANSFER_CONCURRENCY": "257"}, 1, ["SNAPSHOT_TRANSFER_CONCURRENCY", "256"]),
    ("vk-cocoon", {"SNAPSHOT_PUSH_CONCURRENCY": "65"}, 1, ["SNAPSHOT_PUSH_CONCURRENCY", "64"]),
    ("vk-cocoon", {"VK_PEER_ADDR": "12501"}, 1, ["VK_PEER_ADDR"]),
    ("vk-cocoon", {"COCOON_MACOS_VNC_PASSWORD": "a b"}, 1, ["COCOON_MACOS_VNC_PASSWORD"]),
    ("vk-cocoon", {"VK_METRICS_ADDR": "nowhere"}, 1, ["VK_METRICS_ADDR"]),
    ("vk-cocoon", {"VK_COCOON_BIN": "/no/such/cocoon"}, 1, ["/no/such/cocoon"]),
    ("vk-cocoon", {"VK_COCOON_BIN": "/bin/false"}, 1, ["vm list"]),
    ("vk-cocoon", {"VK_COCOON_BIN": "/etc/passwd"}, 1, ["/etc/passwd"]),
    ("vk-cocoon", {"COCOON_ROOT_DIR": "/proc/nope"}, 1, ["/proc/nope"]),
    ("vk-cocoon", {"VK_STAGING_DIR": "/proc/nope"}, 1, ["/proc/nope"]),
    ("vk-cocoon", {"KUBECONFIG": "/no/such/config"}, 1, ["/no/such/config|KUBECONFIG|kubeconfig"]),
    ("cocoon-operator", {"KUBECONFIG": "/no/such/config"}, 1, ["/no/such/config|KUBECONFIG|kubeconfig"]),
]


@case("command line")
def bad_variables(lane):
    problems = []
    for program, environment, status, patterns in BAD_VARIABLES:
        try:
            refused(lane.world, program, environment, OPERATOR_FLAGS if program == "cocoon-operator" else [], status, *patterns)
        except Mismatch as problem:
            problems.append(str(problem))
    if problems:
        raise Mismatch("\n    ".join(problems))


@case("command line")
def bad_flags(lane):
    for program, arguments, word in (
            ("cocoon-operator", ["--no-such-flag"], "no-such-flag"), ("cocoon-operator", ["-x"], "x"),
            ("cocoon-operator", ["word"], "word"), ("cocoon-operator", ["--leader-elect=perhaps"], "leader-elect"),
            ("cocoon-operator", ["--cocoonset-concurrency"], "cocoonset-concurrency"),
            ("cocoon-operator", [*OPERATOR_FLAGS, "--cocoonset-concurrency=x"], "cocoonset-concurrency"),
            ("vk-cocoon", ["--no-such-flag"], "no-such-flag"), ("vk-cocoon", ["word"], "word"),
            ("vk-cocoon", ["--kubeconfig"], "kubeconfig")):
        refused(lane.world, program, {}, arguments, 2, re.escape(word))
    refused(lane.world, "cocoon-operator", {}, [*OPERATOR_FLAGS, "--kubeconfig=/no/such"], 1, "/no/such")
    refused(lane.world, "vk-cocoon", {}, ["--kubeconfig", "/no/such"], 1, "/no/such")
    refused(lane.world, "cocoon-operator", {}, [*OPERATOR_FLAGS[:1], "--metrics-bind-address=127.0.0.1:%d" %
            lane.world.metrics_port, "--health-probe-bind-address=0"], 1, str(lane.world.metrics_port))


@case("command line")
def bad_kubeconfigs(lane):
    good = lane.world.kubeconfig.read_text()
    path = lane.world.dir / "bad-kubeconfig"
    problems = []
    for label, text, word in (
            ("empty", "", "kubeconfig"), ("binary", "\0\x01\x02", "bad-kubeconfig"), ("torn", good[:len(good) // 3], "bad-kubeconfig|cluster|context"),
            ("tabs", good.replace("  ", "\t"), "bad-kubeconfig"), ("list", "- a\n- b\n", "bad-kubeconfig"),
            ("no context", good.replace("current-context: test", "current-context: other"), "other"),
            ("no cluster", good.replace("cluster: test, user", "cluster: gone, user"), "gone"),
            ("no user", good.replace("user: admin}", "user: nobody}"), "nobody"),
            ("bad server", good.replace("https://127.0.0.1", "gopher://x"), "gopher|server"),
            ("no ca file", re.sub(r'certificate-authority: "[^"]*"', 'certificate-authority: "/no/such.crt"', good), "/no/such.crt"),
            ("bad ca data", re.sub(r'certificate-authority: "[^"]*"', 'certificate-authority-data: "!!!"', good), "certificate-authority-data"),
            ("exec", re.sub(r"token: \"[^\"]*\"", "exec: {command: x, apiVersion: client.authentication.k8s.io/v1}", good), "exec")):
        path.write_text(text)
        for program in ("cocoon-operator", "vk-cocoon"):
            try:
                refused(lane.world, program, {"KUBECONFIG": str(path)}, OPERATOR_FLAGS if program == "cocoon-operator" else [],
                        1, word)
            except Mismatch as problem:
                problems.append(f"{label}: {problem}")
    for program in ("vk-cocoon",):
        path.write_text(re.sub(r"token: \"[^\"]*\"", 'token: "wrong"', good))
        try:
            refused(lane.world, program, {"KUBECONFIG": str(path)}, [], 1, "401|unauthori[sz]ed")
        except Mismatch as problem:
            problems.append(f"wrong token: {problem}")
        path.write_text(re.sub(r"127.0.0.1:\d+", "127.0.0.1:1", good))
        try:
            refused(lane.world, program, {"KUBECONFIG": str(path)}, [], 1, "127.0.0.1:1", seconds=40)
        except Mismatch as problem:
            problems.append(f"unreachable: {problem}")
    if problems:
        raise Mismatch("\n    ".join(problems))


@case("command line")
def a_second_daemon_on_the_host(lane):
    node = lane.world.nodes[0]
    refused(lane.world, "vk-cocoon", {"COCOON_ROOT_DIR": str(node.root)}, [], 1, "vk-cocoon.lock|COCOON_ROOT_DIR")


@case("command line")
def operator_waits_for_the_api_server(lane):
    """Wrong credentials and an unreachable server are said by name while the operator waits."""
    good = lane.world.kubeconfig.read_text()
    path = lane.world.dir / "waiting-kubeconfig"
    for text, word in ((re.sub(r"127.0.0.1:\d+", "127.0.0.1:1", good), "127.0.0.1:1"),
                       (re.sub(r"token: \"[^\"]*\"", 'token: "wrong"', good), "401|unauthori[sz]ed")):
        path.write_text(text)
        log = lane.world.dir / "waiting.log"
        log.write_text("")
        waiting = Daemon("waiting", [lane.world.build / "cocoon-operator", *OPERATOR_FLAGS],
                         dict(lane.world.env, OCI_REGISTRY="none", KUBECONFIG=str(path)), log).start()
        try:
            wait(f"the operator says {word}", 10, lambda: re.search(word, log.read_text(), re.I))
            if not waiting.alive():
                raise Mismatch(f"it did not wait: {waiting.log_tail()}")
        finally:
            waiting.stop()


# --- the API server and the registry: in a cluster of their own ---------------------------------------------------------
SERVERS = ("servers", "registry", "credentials")


def server_pid(world, name):
    return int((world.dir / f"kube/{name}.pid").read_text())


@case("servers")
def api_server_slow(lane):
    lane.create("served", replicas=1)
    lane.mark()
    pid = server_pid(lane.world, "kube-apiserver")
    lane.suspend("served")
    for _ in range(4):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.8)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.2)
    lane.settled("served", "Suspended")
    expect_hibernated(lane, "served")
    lane.suspend("served", False, "Running")


@case("servers")
def api_server_restarted(lane):
    world = lane.world
    pid = server_pid(world, "kube-apiserver")
    command = [a for a in pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0") if a]
    lane.mark()
    lane.suspend("served")
    time.sleep(0.3)
    os.kill(pid, signal.SIGKILL)
    time.sleep(4)
    lane.check_alive()
    for daemon in (world.operator, lane.node.vk):
        text = pathlib.Path(daemon.log).read_bytes()[lane.marks[daemon.name]:].decode(errors="replace")
        if not re.search(r"127\.0\.0\.1:%d|API server" % lane.api.port, text):
            raise Mismatch(f"{daemon.name} says nothing of an unreachable API server: {text[-500:]}")
    with open(world.dir / "kube/kube-apiserver.log", "ab") as log:
        again = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    (world.dir / "kube/kube-apiserver.pid").write_text(f"{again.pid}\n")
    wait("the API server", 60, lambda: lane.api.call("GET", "/readyz")[0] == 200)
    lane.settled("served", "Suspended")
    expect_hibernated(lane, "served")
    lane.suspend("served", False, "Running")


class RegistryConfig:
    """The registry started again on its port with another configuration."""

    def __init__(self, world, delete="true", readonly="false", auth=""):
        self.world = world
        port = world.registry_url.rsplit(":", 1)[1]
        self.text = (f"version: 0.1\nlog: {{level: warn}}\nstorage:\n  filesystem: {{rootdirectory: {world.dir}/registry}}\n"
                     f"  delete: {{enabled: {delete}}}\n  maintenance:\n    readonly: {{enabled: {readonly}}}\n"
                     f"http: {{addr: \"127.0.0.1:{port}\"}}\n{auth}")

    def start(self):
        self.world.registry.kill()
        (self.world.dir / "registry.yml").write_text(self.text)
        self.world.registry.start()
        def answers():
            connection = http.client.HTTPConnection("127.0.0.1", int(self.world.registry_url.rsplit(":", 1)[1]), timeout=2)
            try:
                connection.request("GET", "/v2/")
                return connection.getresponse().status in (200, 401)
            except http.client.HTTPException as error:
                raise OSError(str(error)) from error
            finally:
                connection.close()
        wait("the registry", 10, answers)


@case("servers")
def registry_stopped_in_suspend(lane):
    world = lane.world
    vm_name = lane.vm_of("served-0")
    lane.mark()
    world.registry.kill()
    lane.suspend("served")
    lane.said("served-|" + vm_name, "127.0.0.1", "refused|connect|unreachable")
    lane.check_guests("served")
    RegistryConfig(world).start()
    lane.settled("served", "Suspended")
    expect_hibernated(lane, "served")


@case("servers")
def registry_stopped_in_wake(lane):
    world = lane.world
    vm_name = lane.vm_of("served-0")
    lane.mark()
    world.registry.kill()
    lane.suspend("served", False)
    lane.said("served-|" + vm_name, "127.0.0.1", "refused|connect|unreachable")
    time.sleep(1)
    RegistryConfig(world).start()
    if "hibernate" not in world.tags().get(vm_name, []):
        raise Mismatch("the tag is gone")
    lane.settled("served", "Running")
    wait("no tag", 60, lambda: vm_name not in world.tags())


@case("servers")
def registry_slow(lane):
    pid = lane.world.registry.pid
    lane.suspend("served")
    os.kill(pid, signal.SIGSTOP)
    time.sleep(6)
    os.kill(pid, signal.SIGCONT)
    lane.settled("served", "Suspended")
    os.kill(pid, signal.SIGSTOP)
    lane.suspend("served", False)
    time.sleep(6)
    os.kill(pid, signal.SIGCONT)
    lane.settled("served", "Running")


@case("servers")
def registry_deletes_disabled(lane):
    world = lane.world
    vm_name = lane.vm_of("served-0")
    RegistryConfig(world, delete="false").start()
    lane.suspend("served", True, "Suspended")
    lane.mark()
    lane.suspend("served", False)
    lane.said("served|" + vm_name, "delete", "disabled|STORAGE_DELETE_ENABLED|enable")
    RegistryConfig(world).start()
    lane.settled("served", "Running")
    wait("no tag", 60, lambda: vm_name not in world.tags())


@case("servers")
def registry_read_only(lane):
    world = lane.world
    vm_name = lane.vm_of("served-0")
    lane.mark()
    RegistryConfig(world, readonly="true").start()
    lane.suspend("served")
    lane.said("served-|" + vm_name, "405|read.?only|UNSUPPORTED")
    lane.check_guests("served")
    RegistryConfig(world).start()
    lane.settled("served", "Suspended")
    expect_hibernated(lane, "served")
    lane.suspend("served", False, "Running")


@case("servers")
def registry_wrong_credentials(lane):
    """cocoon:secret is right; first nothing, then a wrong password, then garbage, then the right one: no restart."""
    world = lane.world
    vm_name = lane.vm_of("served-0")
    lane.settled("served", "Running")
    docker = world.dir / "docker"
    (world.dir / "htpasswd").write_text("cocoon:" + BCRYPT_OF_SECRET + "\n")
    RegistryConfig(world, auth=f"auth:\n  htpasswd: {{realm: test, path: {world.dir}/htpasswd}}\n").start()
    port = world.registry_url.rsplit(":", 1)[1]
    lane.mark()
    lane.suspend("served")
    lane.said("served-|" + vm_name, "401|unauthori[sz]ed|credential")
    login = {"auths": {f"127.0.0.1:{port}": {"auth": base64.b64encode(b"cocoon:wrong").decode()}}}
    (docker / "config.json").write_text(json.dumps(login))
    lane.mark()
    lane.said("served-|" + vm_name, "401|unauthori[sz]ed|credential", patience=40)
    (docker / "config.json").write_text("{torn")
    lane.mark()
    lane.said("served|" + vm_name, "docker/config.json", patience=70)
    lane.check_guests("served")
    login["auths"][f"127.0.0.1:{port}"] = {"username": "cocoon", "password": "secret"}
    (docker / "config.json").write_text(json.dumps(login))
    lane.settled("served", "Suspended", 150)
    lane.suspend("served", False, "Running")
    lane.delete("served", [vm_name])


# --- running them -----------------------------------------------------------------------------------------------------
class Report:
    def __init__(self):
        self.results, self.lock = [], threading.Lock()

    def add(self, lane, name, problem, seconds=0.0):
        with self.lock:
            self.results.append((name, problem))
            print(f"{'FAIL' if problem else 'ok  '} {lane}: {name} ({seconds:.1f} s)"
                  + (f"\n    {problem}" if problem else ""), flush=True)


def run_lane(world, lane_name, node, cases, report):
    lane = Lane(world, node)
    for function in cases:
        started = time.monotonic()
        problem = None
        try:
            function(lane)
            lane.check_alive()
        except Mismatch as mismatch:
            problem = str(mismatch)
        except Exception as error:  # each case must be reported
            problem = f"{type(error).__name__}: {error}"
        if node:
            lane.clear()
            if not node.vk.alive():
                node.vk.start()
        if problem:
            lane.recover()
        report.add(lane_name, function.__name__, problem, time.monotonic() - started)


def run_world(directory, lanes, first_node, report):
    """Starts a cluster with a node for each lane and runs the lanes side by side."""
    world = World(directory, os.environ.get("VARIANT") or "release")
    try:
        world.start_servers()
        (world.dir / "docker").mkdir()
        (world.dir / "home").mkdir()
        world.env["DOCKER_CONFIG"] = str(world.dir / "docker")
        with_node = [lane for lane in lanes if lane != "command line"] or ["none"]
        world.start_nodes(with_node, first_node)
        node_of = dict(zip(with_node, world.nodes))
        threads = [threading.Thread(target=run_lane, args=(world, lane, node_of.get(lane), cases, report))
                   for lane, cases in lanes.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for daemon in world.daemons():
            text = pathlib.Path(daemon.log).read_text(errors="replace")
            if "AddressSanitizer" in text or "runtime error:" in text:
                report.add("cluster", daemon.name, "a sanitizer report, see its log")
    except Exception as error:
        report.add("cluster", "start", f"{type(error).__name__}: {error}")
    try:
        if world.registry and not world.registry.alive():
            world.registry.start()
        for name, status in world.stop(remove=False).items():
            if status != 0:
                report.add("cluster", name, f"exit {status} after SIGTERM")
    except Mismatch as mismatch:
        report.add("cluster", "stop", str(mismatch))


def main():
    wanted = sys.argv[1:]
    lanes = {lane: [f for f in cases if not wanted or any(w in f.__name__ for w in wanted)] for lane, cases in LANES.items()}
    lanes = {lane: cases for lane, cases in lanes.items() if cases}
    directory = pathlib.Path(tempfile.mkdtemp(prefix="cocoon-bad-"))
    report, started = Report(), time.monotonic()
    # What is done to a whole API server or registry happens in a cluster of its own.
    groups = [("lanes", {k: v for k, v in lanes.items() if k not in SERVERS}, 1),
              ("servers", {k: v for k, v in lanes.items() if k in SERVERS}, 101)]
    threads = [threading.Thread(target=run_world, args=(directory / name, group, first, report))
               for name, group, first in groups if group]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failed = [name for name, problem in report.results if problem]
    if os.environ.get("KEEP"):
        print("left for inspection:", directory)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"{time.monotonic() - started:.0f} s" + (f"; failed: {', '.join(failed)}" if failed else ""))
    print(f"bad-input: {len(report.results) - len(failed)} passed, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    enter_namespace()
    main()

"""make demo GUEST=qemu: the main job with real guests. Two hosts; each guest is a Linux of 128 MiB that QEMU emulates. They
sleep, their memory goes into the registry, and they wake on the other host, at another address, at the count where they
were. Everything that is told was read back: from the cluster, the registry, the hosts, and the guests themselves."""
import pathlib
import socket
import subprocess
import sys

from cluster import REPO, Mismatch, http_get, wait
from scenario import NAMESPACE, SET, Scenario, expect

TITLE = "org.opencontainers.image.title"
MEMORY_LAYER = "memory-ranges"
MEMORY_BYTES_MIN = 32 << 20  # a Linux that has booted has touched more than that


def assets():
    """Environment for a cluster whose guests are real; builds or installs what is missing."""
    folder = subprocess.run([REPO / "hack/qemu-guest"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return {"COCOON_SIM_GUEST": "qemu", "COCOON_SIM_QEMU_GUEST": folder}


def kubelet_access(directory):
    """Flags with which kube-apiserver may ask the nodes for logs."""
    sys.path.insert(1, str(REPO / "test/integration"))
    from kubelet_suite import Certificates
    certificates = Certificates(pathlib.Path(directory) / "pki")
    return " ".join([f"--client-ca-file={certificates.path('ca.crt')}",
                     f"--kubelet-client-certificate={certificates.path('apiserver.crt')}",
                     f"--kubelet-client-key={certificates.path('apiserver.key')}",
                     "--kubelet-preferred-address-types=InternalIP"])


def answers_ping(address):
    return subprocess.run(["ping", "-c1", "-W1", address], check=False, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def first_line(connection):
    with connection, connection.makefile("r", newline="\n") as stream:
        return stream.readline().strip()


class RealGuests(Scenario):
    def __init__(self, cluster, say=print, patience=120):
        super().__init__(cluster, say, patience)
        self.replicas, self.toolboxes = 0, []
        self.places = {}  # VM name -> (node name, address) where it was last seen awake
        self.stages = [("create", self.create), ("talk", self.talk), ("release", self.release),
                       ("wake elsewhere", self.wake_elsewhere), ("fork", self.fork), ("suspend", self.suspend),
                       ("wake", self.wake), ("go home", self.go_home), ("delete", self.delete)]

    # --- what a guest says ------------------------------------------------------------------------------------------
    def addresses(self):
        """pod name -> (VM name, node, address) of the pods that are awake."""
        vms, found = self.host_vms(), {}
        for name, pod in self.cluster.pods(NAMESPACE).items():
            vm = pod["metadata"]["annotations"]["vm.cocoonstack.io/name"]
            found[name] = (vm, vms[vm][0], pod["status"]["podIP"])
        return found

    def counter_over_http(self, address):
        """Through the guest's own network card; None while it does not answer."""
        try:
            return int(http_get(f"http://{address}:8080/", timeout=5))
        except (OSError, ValueError):
            return None

    def check_answers(self, vm, address):
        wait(f"{vm} answers pings on {address}", 30, lambda: answers_ping(address))
        counter = wait(f"{vm} answers HTTP on {address}", 30, lambda: self.counter_over_http(address))
        if counter < self.low_water[vm]:
            raise Mismatch(f"guest {vm} went back: it says {counter} after {self.low_water[vm]}")
        self.low_water[vm] = counter
        expect(f"SSH banner of {vm}", first_line(socket.create_connection((address, 22), timeout=10)), "SSH-2.0-cocoon-guest")
        return counter

    def typed_on_console(self, node, vm, line):
        """What the guest answers on its serial console to a typed line."""
        record = node.vms()[vm]
        with socket.socket(socket.AF_UNIX) as console:
            console.settimeout(20)
            folder = node.root / "run/cloudhypervisor" / record["id"]
            # Its path may be longer than the address of a socket can be.
            subprocess.run(["ln", "-sfn", folder, node.dir / "vm"], check=True)
            console.connect(str(node.dir / "vm/console.sock"))
            console.sendall(f"\n{line}\n".encode())
            stream = console.makefile("r", newline="\n")
            return next(text.strip() for text in stream if not text.startswith("guest: "))

    def logged(self, pod, text):
        """The last line of `kubectl logs` that has the text."""
        lines = [line for line in self.cluster.kubectl("-n", NAMESPACE, "logs", pod).splitlines() if text in line]
        return lines[-1] if lines else None

    def note_places(self):
        self.places = {vm: (node.name, address) for vm, node, address in self.addresses().values()}

    def patch(self, **spec):
        self.cluster.patch("cocoonset", SET, {"spec": spec}, NAMESPACE)

    def tell_move(self, pod, before):
        """A guest that was asleep is the one that it was, where it is now."""
        vm, node, address = self.addresses()[pod]
        old_node, old_address = self.places[vm]
        counter = self.check_answers(vm, address)
        line = wait(f"kubectl logs {pod}", 30, lambda: self.logged(pod, f"guest: address {address},"))
        self.say(f"  {pod}: {old_node} -> {node.name}, {old_address} -> {address}, counter {before[vm]} -> {counter},"
                 f" boot id still {self.boot_ids[vm]}")
        self.say(f"    it answers pings, SSH and HTTP there; kubectl logs: {line!r}")

    # --- stages -----------------------------------------------------------------------------------------------------
    def create(self):
        self.say("applying CocoonSet demo: a main agent that boots a Linux under emulation")
        self.cluster.apply({
            "apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonSet",
            "metadata": {"name": SET, "namespace": NAMESPACE},
            "spec": {"snapshotPolicy": "never", "hibernatePolicy": "release", "nodeName": self.cluster.nodes[0].name,
                     "agent": {"replicas": 0, "image": "ubuntu:24.04", "mode": "run",
                               "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}}})
        counters = self.check_running()
        self.note_places()
        for pod, (vm, node, address) in sorted(self.addresses().items()):
            expect(f"node of {vm}", node.name, self.cluster.nodes[0].name)
            self.say(f"  {pod} runs on {node.name} at {address}: boot id {self.boot_ids[vm]}, counter {counters[vm]}")

    def talk(self):
        self.say("asking the guest")
        for pod, (vm, node, address) in sorted(self.addresses().items()):
            counter = self.check_answers(vm, address)
            typed = int(self.typed_on_console(node, vm, "counter"))
            if typed < counter:
                raise Mismatch(f"the console of {vm} says {typed} after {counter}")
            line = wait(f"kubectl logs {pod}", 30, lambda pod=pod: self.logged(pod, "guest: "))
            self.say(f"  {pod}: ping and SSH answer, HTTP: {counter}, serial console: {typed}, kubectl logs: {line!r}")

    def release(self):
        before = self.read_counters()
        self.say("spec.suspend: true (hibernatePolicy release: the pod gives its seat back)")
        self.patch(suspend=True)
        wait("phase Suspended", self.patience, lambda: self.settled("Suspended"), 0.2)
        wait("the pods gave their seats back", self.patience, lambda: not self.cluster.pods(NAMESPACE), 0.2)
        expect("VMs on the hosts", sorted(self.host_vms()), [])
        self.expect_no_leases()
        for vm, (node, address) in sorted(self.places.items()):
            manifest, digest = self.cluster.manifest(vm, "hibernate")
            size = sum(layer["size"] for layer in manifest["layers"]
                       if layer.get("annotations", {}).get(TITLE) == MEMORY_LAYER)
            if size < MEMORY_BYTES_MIN:
                raise Mismatch(f"the memory of {vm} in the registry has {size} bytes, a Linux has more")
            if answers_ping(address):
                raise Mismatch(f"{vm} sleeps, and {address} still answers pings")
            self.say(f"  {vm}:hibernate {digest[:19]}: {size >> 20} MiB of memory in the registry (counter was"
                     f" {before[vm]} on {node}); {address} is silent")

    def wake_elsewhere(self):
        target, before = self.cluster.nodes[1], dict(self.low_water)
        self.say(f"spec.suspend: false, spec.nodeName: {target.name}")
        self.patch(suspend=False, nodeName=target.name)
        self.check_running()
        pod = f"{SET}-0"
        expect("node", self.addresses()[pod][1].name, target.name)
        self.tell_move(pod, before)
        self.note_places()
        wait("the hibernate tags are reclaimed", self.patience, lambda: self.cluster.tags() == {}, 0.2)

    def fork(self):
        self.say("spec.hibernatePolicy: retain, spec.agent.replicas: 1 (a sub-agent, forked from the running main)")
        self.replicas = 1
        self.patch(hibernatePolicy="retain", agent={"replicas": 1})
        self.check_running()
        self.note_places()
        for pod, (vm, node, address) in sorted(self.addresses().items()):
            self.say(f"  {pod} runs on {node.name} at {address}: boot id {self.boot_ids[vm]},"
                     f" counter {self.check_answers(vm, address)}")
        expect("boot ids of the main and its fork, which is a copy of its memory", len(set(self.boot_ids.values())), 1)

    def wake(self):
        super().wake()
        for vm, _, address in self.addresses().values():
            self.check_answers(vm, address)
        self.note_places()
        self.say("  and both answer pings, SSH and HTTP")

    def go_home(self):
        self.say("spec.agent.replicas: 0")
        self.replicas = 0
        self.patch(agent={"replicas": 0})
        wait("one pod is left", self.patience, lambda: sorted(self.cluster.pods(NAMESPACE)) == self.pod_names(), 0.2)
        wait("one VM is left", self.patience, lambda: len(self.host_vms()) == 1)
        before, target = self.check_running(), self.cluster.nodes[0]
        self.note_places()
        self.say(f"spec.nodeName: {target.name} (the running main migrates)")
        self.patch(nodeName=target.name)
        wait(f"the main runs on {target.name}", self.patience,
             lambda: any(record["state"] == "running" for record in target.vms().values()), 0.2)
        self.check_running()
        self.tell_move(f"{SET}-0", before)
        self.left_nodes = {self.cluster.nodes[1].name}

#!/usr/bin/env python3
"""macOS guests and Windows guests with a static address, on real servers with a simulated host that plays cocoon,
cocoon-macos and the serial console of Windows.

A macOS guest is launched once, kept up, adopted over a restart of its node agent, refuses to sleep without harm, and goes
with its set. A Windows guest is Ready only once its static address took effect."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from cluster import Cluster, Mismatch, enter_namespace, wait  # noqa: E402

PATIENCE = int(os.environ.get("PATIENCE", "60"))
NS = "default"
ID, VNC, STATE, MESSAGE = (f"vm.cocoonstack.io/{key}" for key in ("id", "vnc-port", "lifecycle-state",
                                                                  "lifecycle-state-message"))


def expect(what, have, want):
    if have != want:
        raise Mismatch(f"{what}: have {have!r}, want {want!r}")


class Test:
    def __init__(self, cluster, binary):
        self.cluster, self.binary = cluster, binary

    @property
    def node(self):
        return self.cluster.nodes[0]

    def macos(self, *words, check=True):
        done = subprocess.run([self.binary, *words], env=self.node.env, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60)
        if check and done.returncode:
            raise Mismatch(f"cocoon-macos {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def guests(self):
        """name -> record of every macOS guest of the host."""
        records = (json.loads(path.read_text()) for path in (self.node.root / "sim/macos").glob("*.json"))
        return {record["name"]: record for record in records}

    def calls(self, verb):
        log = (self.node.root / "sim/call.log").read_text().splitlines()
        return [line for line in log if line.split()[2].split("#")[0] == verb]

    def pod(self, name):
        return self.cluster.pods(NS)[name]

    def annotation(self, pod, key):
        return self.pod(pod)["metadata"].get("annotations", {}).get(key)

    def is_ready(self, pod):
        return any(c["type"] == "Ready" and c["status"] == "True"
                   for c in self.pod(pod).get("status", {}).get("conditions", []))

    def set_phase(self, name):
        found = self.cluster.cocoonset(name, NS)
        status = found.get("status", {})
        return status.get("phase") if status.get("observedGeneration") == found["metadata"]["generation"] else None

    def apply_set(self, name, **agent):
        self.cluster.apply({"apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonSet",
                            "metadata": {"name": name, "namespace": NS},
                            "spec": {"snapshotPolicy": "never", "agent": {"replicas": 0, "mode": "run", **agent}}})

    def delete_set(self, name):
        self.cluster.kubectl("-n", NS, "delete", "cocoonset", name, "--wait=false")
        wait(f"{name} is gone", PATIENCE, lambda: name not in
             [s["metadata"]["name"] for s in self.cluster.get("cocoonsets", "-n", NS)["items"]], 0.2)

    # --- cases ------------------------------------------------------------------------------------------------------
    def launched_once(self):
        self.apply_set("mac", os="macos", image="macos:15",
                       resources={"requests": {"cpu": "3", "memory": "6000Mi"}, "limits": {"cpu": "3", "memory": "6000Mi"}})
        wait("mac is Running", PATIENCE, lambda: self.set_phase("mac") == "Running", 0.2)
        vm = self.annotation("mac-0", "vm.cocoonstack.io/name")
        expect("id", self.annotation("mac-0", ID), f"qemu-{vm}")
        expect("VNC port", self.annotation("mac-0", VNC), "5900")
        expect("podIP", self.pod("mac-0")["status"]["podIP"],
               next(lease["ip"] for lease in self.node.leases() if lease["mac"] == self.guests()[vm]["mac"]))
        run = self.calls("macos.vm.run")
        expect("launches", len(run), 1)
        expect("words", run[0].split(" ", 3)[3],
               f"--name {vm} --cpus 4 --memory 6000 --vnc 0 --vnc-password s3cret --exit-on-reboot --random-smbios "
               f"--net cni macos:15")
        for log in (self.node.vk.log,):
            if "s3cret" in pathlib.Path(log).read_text():
                raise Mismatch(f"the VNC password is in {log}")
        expect("VMs of cocoon", self.node.vms(), {})

    def repaired(self):
        vm = self.annotation("mac-0", "vm.cocoonstack.io/name")
        before = self.guests()[vm]["pid"]
        os.kill(before, signal.SIGKILL)
        wait("the guest was started again", PATIENCE, lambda: self.guests()[vm]["pid"] != before)
        wait("mac-0 is Ready", PATIENCE, lambda: self.is_ready("mac-0"), 0.2)
        expect("starts", len(self.calls("macos.vm.start")), 1)

    def adopted(self):
        vm = self.annotation("mac-0", "vm.cocoonstack.io/name")
        before = self.guests()[vm]["pid"]
        self.node.vk.kill()
        self.node.vk.start()
        wait("node Ready", PATIENCE, lambda: self.cluster.node_is_ready(self.node.name))
        wait("mac-0 is Ready", PATIENCE, lambda: self.is_ready("mac-0"), 0.2)
        expect("pid", self.guests()[vm]["pid"], before)
        expect("launches", len(self.calls("macos.vm.run")) + len(self.calls("macos.vm.start")), 2)

    def refuses_to_sleep(self):
        vm = self.annotation("mac-0", "vm.cocoonstack.io/name")
        before = self.guests()[vm]["pid"]
        self.cluster.patch("cocoonset", "mac", {"spec": {"suspend": True}}, NS)
        wait("the refusal is on the pod", PATIENCE, lambda: self.annotation("mac-0", STATE) == "failed", 0.2)
        expect("message", self.annotation("mac-0", MESSAGE), f"macOS guest {vm} does not support hibernate")
        wait("the event", PATIENCE, lambda: "HibernateUnsupported" in
             {e["reason"] for e in self.cluster.get("events", "-n", NS)["items"]}, 0.2)
        if self.set_phase("mac") == "Suspended":
            raise Mismatch("mac is called Suspended while its guest runs")
        self.cluster.patch("cocoonset", "mac", {"spec": {"suspend": False}}, NS)
        wait("mac-0 is Ready again", PATIENCE, lambda: self.is_ready("mac-0"), 0.2)
        wait("mac is Running", PATIENCE, lambda: self.set_phase("mac") == "Running", 0.2)
        expect("pid", self.guests()[vm]["pid"], before)
        expect("tags", self.cluster.tags().get(vm, []), [])

    def deleted(self):
        vm = self.annotation("mac-0", "vm.cocoonstack.io/name")
        pid = self.guests()[vm]["pid"]
        self.node.faults("macos.vm.rm 1 fail guest is busy\n")
        self.delete_set("mac")
        self.node.faults("")
        expect("guests", self.guests(), {})
        wait("its process is gone", PATIENCE, lambda: not os.path.exists(f"/proc/{pid}/fd"))
        wait("its lease is released", PATIENCE, lambda: not self.node.leases())

    def windows_static(self):
        self.apply_set("win", os="windows", image="windows:11", network="static0",
                       resources={"limits": {"cpu": "2", "memory": "4Gi"}})
        wait("win is Running", PATIENCE, lambda: self.set_phase("win") == "Running", 0.2)
        vm = self.node.vms()[self.annotation("win-0", "vm.cocoonstack.io/name")]
        address = vm["network_configs"][0]["network"]["ip"]
        nets = (self.node.root / "run/cloudhypervisor" / vm["id"] / "sac.nets").read_text()
        expect("networks of the guest", nets, f"3 {address}\n")
        expect("podIP", self.pod("win-0")["status"]["podIP"], address)
        self.delete_set("win")
        expect("VMs", self.node.vms(), {})

    def stop_guests(self):
        for name in list(self.guests()) if self.cluster.nodes else []:
            self.macos("vm", "rm", name, check=False)


def main():
    enter_namespace()
    directory = tempfile.mkdtemp(prefix="cocoon-guests-")
    cluster = Cluster(directory, os.environ.get("VARIANT") or "release")
    # The host's other CLI: the same program under its name.
    binary = pathlib.Path(directory) / "cocoon-macos"
    binary.symlink_to(cluster.build / "cocoon-sim")
    cluster.env.update(VK_COCOON_MACOS_BIN=str(binary), COCOON_MACOS_VNC_PASSWORD="s3cret")
    test, failed, passed = Test(cluster, binary), None, 0
    try:
        cluster.start_servers()
        cluster.start_daemons()
        for case in (test.launched_once, test.repaired, test.adopted, test.refuses_to_sleep, test.deleted,
                     test.windows_static):
            print(case.__name__, flush=True)
            case()
            passed += 1
    except (Mismatch, KeyError, OSError, StopIteration) as problem:
        failed = problem
        print(f"FAILED: {problem!r}\n{cluster.logs_tail()}", file=sys.stderr)
    finally:
        test.stop_guests()
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

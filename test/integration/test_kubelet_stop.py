#!/usr/bin/env python3
"""How the node agent stops: sessions get their status, node and lease stay, and hibernations that are under way finish or are
gone on with by the next start. Prints `N passed, M failed`."""
import signal
import socket
import subprocess
import sys
import time

import kubelet_suite
from kubelet_suite import POD, Mismatch, enter_namespace, expect, free_ports, wait


class Suite(kubelet_suite.Suite):
    """One story: the tests run in the order of their names."""

    def client(self, *words):
        return subprocess.Popen(["kubectl", *words], env=self.cluster.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def exports(self):
        try:
            return (self.node.root / "sim/calls/snapshot.export").stat().st_size
        except FileNotFoundError:
            return 0

    def suspend_slowly(self, export_ms):
        """Returns when a snapshot is on its way to the registry."""
        self.node.faults(f"snapshot.export * hang {export_ms}\n")
        before = self.exports()
        wait("the guests have counted", 30, lambda: min(self.scenario.read_counters().values()) >= 50)
        self.cluster.patch("cocoonset", "demo", {"spec": {"suspend": True}})
        wait("a snapshot is exported", 30, lambda: self.exports() > before)

    def check_stopped(self):
        """Nothing is lost, and to the cluster the node is there."""
        vms, tags = self.node.vms(), self.cluster.tags()
        for pod, vm in self.scenario.vm_names().items():
            if vm not in vms and "hibernate" not in tags.get(vm, []):
                raise Mismatch(f"{pod} has neither a VM nor a snapshot")
        lease = self.cluster.get("lease", "-n", "kube-node-lease", self.node.name)
        expect("holder of the lease", lease["spec"]["holderIdentity"], self.node.name)
        expect("the node is Ready", self.cluster.node_is_ready(self.node.name), True)

    def check_resumed(self):
        self.node.faults("")
        self.node.vk.start()
        wait("phase Suspended", 60, lambda: self.scenario.settled("Suspended"), 0.2)
        expect("VMs", self.node.vms(), {})
        self.scenario.wake()

    def test_1_sessions_are_told(self):
        server = self.guest_process(sys.executable, "-c", "import socket\ns = socket.create_server(('', 8099))\nkept = []\n"
                                    "while True:\n kept.append(s.accept()[0])\n kept[-1].sendall(b'x')")
        address = self.cluster.get("pod", POD)["status"]["podIP"]
        wait("the server in the guest", 10, lambda: socket.create_connection((address, 8099), timeout=1).close() or True)
        run = self.client("exec", "-i", POD, "--", "guest", "sh", "-c", "echo started; sleep 1000")
        attached = self.client("attach", "-i", POD)
        followed = self.client("logs", "-f", "--tail=1", POD)
        local = free_ports(1)[0]
        forward = self.client("port-forward", POD, f"{local}:8099")
        clients = [run, attached, followed, forward]
        try:
            expect("exec", run.stdout.readline(), b"started\n")
            expect("attach", attached.stdout.readline(), b"cocoon-sim console\r\n")
            if not followed.stdout.readline() or b"Forwarding" not in forward.stdout.readline():
                raise Mismatch("logs or port-forward do not start")
            connection = socket.create_connection(("127.0.0.1", local), timeout=10)
            expect("first byte", connection.recv(1), b"x")
            started = time.monotonic()
            expect("exit status of vk-cocoon", self.node.vk.stop(), 0)
            if time.monotonic() - started > 20:
                raise Mismatch("an idle agent takes long to stop")
            for name, client in (("exec", run), ("attach", attached)):
                code, said = client.wait(timeout=20), client.stderr.read()
                if code == 0 or b"the node agent is stopping" not in said:
                    raise Mismatch(f"{name} ended with {code}: {said}")
            followed.wait(timeout=20)
            expect("the forwarded connection", connection.recv(1), b"")
            connection.close()
        finally:
            for client in clients + [server]:
                client.kill()
                client.wait()
            for client in clients:
                for stream in (client.stdin, client.stdout, client.stderr):
                    stream.close()
        self.check_stopped()
        self.node.vk.start()
        wait("exec works again", 30, lambda: self.exec("true").returncode == 0)

    def test_2_hibernations_finish(self):
        """One signal: what is under way goes on to its end."""
        self.suspend_slowly(3000)
        expect("exit status of vk-cocoon", self.node.vk.stop(60), 0)
        tags = self.cluster.tags()
        if not any("hibernate" in tags.get(vm, []) for vm in self.scenario.vm_names().values()):
            raise Mismatch(f"no hibernation was finished: {tags}")
        self.check_stopped()
        self.check_resumed()

    def test_3_hibernations_are_resumed(self):
        """A second signal: what is under way is given up, and the next start goes on with it."""
        self.suspend_slowly(20000)
        self.node.vk.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        started = time.monotonic()
        expect("exit status of vk-cocoon", self.node.vk.stop(), 0)
        if time.monotonic() - started > 10:
            raise Mismatch("the second signal does not hasten the end")
        self.check_stopped()
        self.check_resumed()


if __name__ == "__main__":
    enter_namespace()
    sys.exit(kubelet_suite.run_suite(Suite))

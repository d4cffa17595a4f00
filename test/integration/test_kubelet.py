#!/usr/bin/env python3
"""vk-cocoon as a kubelet, through the real kube-apiserver: kubectl logs and exec, figures, WebSocket exec, and who may not.
Prints `N passed, M failed`."""
import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import time

import kubelet_suite
from kubelet_suite import POD, Mismatch, enter_namespace, expect, free_ports, http_get, same, wait

STDIN_BYTES = 16 << 20
SESSIONS = 40


class Suite(kubelet_suite.Suite):
    # --- what must hold -------------------------------------------------------------------------------------------------
    def test_logs(self):
        done = self.kubectl("logs", POD)
        expect("exit status of logs", (done.returncode, done.stderr), (0, b""))
        lines = done.stdout.decode().splitlines()
        if len(lines) < 2 or "cloud-hypervisor" not in lines[0]:
            raise Mismatch(f"logs: {lines}")
        expect("logs --tail=1", self.kubectl("logs", "--tail=1", POD).stdout.decode().splitlines(), lines[-1:])
        expect("logs --limit-bytes=5", self.kubectl("logs", "--limit-bytes=5", POD).stdout, done.stdout[:5])

    def test_logs_follow(self):
        follower = subprocess.Popen(["kubectl", "logs", "-f", POD], env=self.cluster.env, stdout=subprocess.PIPE)
        try:
            if b"cloud-hypervisor" not in follower.stdout.readline():
                raise Mismatch("logs -f gives nothing")
            time.sleep(3)
            expect("logs -f goes on", follower.poll(), None)
        finally:
            follower.kill()
            follower.wait()
            follower.stdout.close()

    def test_exec_output(self):
        done = self.exec("sh", "-c", "echo out; echo err >&2")
        expect("exec", (done.returncode, done.stdout, done.stderr), (0, b"out\n", b"err\n"))

    def test_exec_exit_code(self):
        done = self.exec("sh", "-c", "exit 7")
        expect("exit code", done.returncode, 7)
        if b"exit code 7" not in done.stderr:
            raise Mismatch(f"kubectl says {done.stderr}")

    def test_exec_old_client(self):
        """SPDY from end to end, as clients before 1.31 speak it."""
        env = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"}
        data = os.urandom(1 << 20)
        done = self.exec("sh", "-c", "sha256sum; echo err >&2; exit 5", flags=["-i"], input=data, env=env)
        expect("exec", (done.returncode, done.stdout[:64].decode(), done.stderr.splitlines()[0]),
               (5, hashlib.sha256(data).hexdigest(), b"err"))

    def test_exec_tty(self):
        for env in ({}, {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"}):
            done = self.exec("sh", "-c", "echo out; exit 4", flags=["-t"], env=env)
            expect("exec -t", (done.returncode, done.stdout), (4, b"out\n"))

    def test_exec_signal(self):
        expect("exit code of a killed command", self.exec("sh", "-c", "kill -9 $$").returncode, 137)

    def test_exec_words(self):
        done = self.exec("printf", "%s|", "a+b&c;d é", "", "--", "x y")
        expect("argv", done.stdout.decode(), "a+b&c;d é||--|x y|")

    def test_exec_early_stdin(self):
        for _ in range(5):
            started = time.monotonic()
            done = self.exec("cat", flags=["-i"], input=b"a")
            expect("cat", (done.returncode, done.stdout), (0, b"a"))
            if time.monotonic() - started > 20:
                raise Mismatch("exec of cat hangs")

    def test_exec_large_stdin(self):
        data = os.urandom(1 << 20) * (STDIN_BYTES >> 20)
        done = self.exec("sha256sum", flags=["-i"], input=data, timeout=180)
        expect("sha256sum", (done.returncode, done.stdout[:64].decode()), (0, hashlib.sha256(data).hexdigest()))

    def test_exec_large_output(self):
        done = self.exec("seq", "1", "2000000", timeout=180)
        expect("seq", (done.returncode, len(done.stdout), done.stdout[-8:]), (0, 14888896, b"2000000\n"))

    def test_exec_many(self):
        def one(number):
            done = self.exec("sh", "-c", f"echo {number}; exit {number % 5}", timeout=180)
            return done.returncode, done.stdout
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for number, have in enumerate(pool.map(one, range(SESSIONS))):
                expect(f"session {number}", have, (number % 5, f"{number}\n".encode()))

    def test_exec_canceled(self):
        """A client that goes takes its command along."""
        mark = f"{int(time.time())}77"
        client = subprocess.Popen(["kubectl", "exec", POD, "--", "guest", "sleep", mark], env=self.cluster.env)

        def running():
            return subprocess.run(["pgrep", "-f", f"^sleep {mark}$"], stdout=subprocess.PIPE, check=False).stdout
        try:
            wait("the command runs", 20, running)
        finally:
            client.kill()
            client.wait()
        wait("the command has ended", 20, lambda: not running())

    def test_audit(self):
        expect("exit code", self.exec("sh", "-c", "exit 9").returncode, 9)
        log = pathlib.Path(self.node.vk.log).read_text(errors="replace")
        lines = [line for line in log.splitlines() if "exec session" in line and "exit 9" in line]
        expect("audit lines of one session", len(lines), 1)
        if "kube-apiserver-kubelet-client" not in lines[0] or f"default/{POD}" not in lines[0]:
            raise Mismatch(f"audit: {lines[0]}")

    def test_websocket(self):
        with self.connect("apiserver") as connection:
            key = base64.b64encode(os.urandom(16)).decode()
            connection.sendall(
                f"GET /exec/default/{POD}/agent?command=guest&command=sh&command=-c&command=read+x%3B+echo+got+$x%3B+exit+3&input=1&output=1&error=1"
                f" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n".encode())
            stream = connection.makefile("rb")
            expect("status", stream.readline().split()[1], b"101")
            while stream.readline() != b"\r\n":
                pass
            message, mask = b"\0hello\n", b"\1\2\3\4"
            connection.sendall(bytes([0x82, 0x80 | len(message)]) + mask +
                               bytes(b ^ mask[i & 3] for i, b in enumerate(message)))
            channels = {}
            while True:
                opcode, length = stream.read(2)
                if length == 126:
                    length = struct.unpack(">H", stream.read(2))[0]
                payload = stream.read(length)
                if opcode == 0x88:
                    break
                if payload:
                    channels[payload[0]] = channels.get(payload[0], b"") + payload[1:]
            expect("stdout", channels.get(1), b"got hello\n")
            status = json.loads(channels[3])
            expect("status", (status["reason"], status["details"]["causes"]),
                   ("NonZeroExitCode", [{"reason": "ExitCode", "message": "3"}]))

    def test_port_forward(self):
        """An HTTP server inside the guest's own network; 50 requests, one given up in the middle."""
        pod = self.cluster.get("pod", POD)
        server = self.guest_process(sys.executable, "-m", "http.server", "8099", "--directory", self.certificates.dir)
        local = free_ports(1)[0]
        want = (self.certificates.dir / "ca.crt").read_text()
        wait("the server in the guest", 20, lambda: same(http_get(f"http://{pod['status']['podIP']}:8099/ca.crt"), want))
        client = subprocess.Popen(["kubectl", "port-forward", POD, f"{local}:8099"], env=self.cluster.env,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            if b"Forwarding from" not in client.stdout.readline():
                raise Mismatch("kubectl port-forward does not start")
            with socket.create_connection(("127.0.0.1", local), timeout=10) as given_up:
                given_up.sendall(b"GET /ca")
                given_up.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for have in pool.map(lambda _: http_get(f"http://127.0.0.1:{local}/ca.crt", 30), range(50)):
                    expect("what the guest serves", have, want)
            expect("kubectl goes on", client.poll(), None)
        finally:
            for process in (client, server):
                process.kill()
                process.wait()
            client.stdout.close()

    def test_access(self):
        exec_path = f"/exec/default/{POD}/agent?command=true&output=1"
        paths = ["/pods", "/runningpods/", f"/containerLogs/default/{POD}/agent", exec_path, f"/attach/default/{POD}/agent",
                 f"/portForward/default/{POD}", "/stats/summary", "/metrics/resource", "/healthz", "/no-such-path"]
        powerless = self.token("powerless")
        for path in paths:
            for what, options, want in (("nobody", {}, 401), ("foreign certificate", {"certificate": "foreign"}, 401),
                                        ("bad token", {"token": "nonsense"}, 401),
                                        ("certificate without right", {"certificate": "nobody"}, 403),
                                        ("token without right", {"token": powerless}, 403)):
                for method in ("GET", "POST"):
                    expect(f"{method} {path} as {what}", self.request(path, method=method, **options)[0], want)
        for path in ["/pods", "/runningpods/", f"/containerLogs/default/{POD}/agent", "/stats/summary", "/metrics/resource",
                     "/healthz"]:
            expect(path, self.request(path, "apiserver")[0], 200)
        expect("unknown path", self.request("/no-such-path", "apiserver")[0], 404)
        expect("exec without an upgrade", self.request(exec_path, "apiserver")[0], 400)

    def test_rights(self):
        """get nodes/metrics reads figures and nothing else; get nodes/proxy does not run commands (decision 67)."""
        metrics = self.token("reader", ["--verb=get", "--resource=nodes/metrics,nodes/stats"])
        expect("/metrics/resource", self.request("/metrics/resource", token=metrics)[0], 200)
        expect("/stats/summary", self.request("/stats/summary", token=metrics)[0], 200)
        expect("/pods", self.request("/pods", token=metrics)[0], 403)
        proxy = self.token("proxy", ["--verb=get", "--resource=nodes/proxy"])
        expect("/pods by proxy", self.request("/pods", token=proxy)[0], 200)
        expect("exec by get", self.request(f"/exec/default/{POD}/agent?command=true&output=1", token=proxy)[0], 403)

    def test_figures(self):
        status, text = self.request("/metrics/resource", "apiserver")
        expect("status", status, 200)
        for name in ("node_cpu_usage_seconds_total ", "node_memory_working_set_bytes ",
                     f'pod_memory_working_set_bytes{{namespace="default",pod="{POD}"}}',
                     f'container_cpu_usage_seconds_total{{namespace="default",pod="{POD}",container="agent"}}'):
            if name not in text:
                raise Mismatch(f"{name} is missing in {text}")
        own = http_get(f"http://127.0.0.1:{self.node.metrics_port}/metrics")
        for name in ("cocoon_vk_vm_memory_rss_bytes{", "cocoon_vk_vm_cpu_seconds_total{", "cocoon_vk_node_cpu_seconds_total "):
            if name not in own:
                raise Mismatch(f"{name} is missing in the daemon's own metrics")
        summary = json.loads(self.request("/stats/summary", "apiserver")[1])
        expect("node", summary["node"]["nodeName"], self.node.name)
        pod = next(p for p in summary["pods"] if p["podRef"]["name"] == POD)
        if pod["containers"][0]["memory"]["workingSetBytes"] <= 0:
            raise Mismatch(f"no memory: {pod}")
        names = sorted(p["metadata"]["name"] for p in json.loads(self.request("/pods", "apiserver")[1])["items"])
        expect("/pods", names, sorted(self.cluster.pods()))
        running = json.loads(self.request("/runningpods/", "apiserver")[1])["items"]
        expect("/runningpods/", sorted(p["metadata"]["name"] for p in running), names)

    def test_revoked(self):
        """A token of an account that is gone is nobody's."""
        token = self.token("revoked", ["--verb=get", "--resource=nodes/metrics"])
        self.cluster.kubectl("delete", "serviceaccount", "revoked")
        expect("/metrics/resource", self.request("/metrics/resource", token=token)[0], 401)

    def test_review_fails(self):
        """An API server that does not answer: nobody gets in who was not let in before."""
        pid = int((self.cluster.dir / "kube/kube-apiserver.pid").read_text())
        token = self.token("unreviewed", ["--verb=get,create", "--resource=nodes/metrics,nodes/proxy"])
        os.kill(pid, signal.SIGSTOP)
        try:
            with concurrent.futures.ThreadPoolExecutor() as pool:
                by_token = pool.submit(self.request, "/metrics/resource", token=token)
                by_certificate = pool.submit(self.request, "/pods", "apiserver", method="PATCH")
                run = pool.submit(self.request, f"/exec/default/{POD}/agent?command=guest&command=true&output=1", token=token,
                                  method="POST")
                for what, answer in (("by token", by_token), ("by certificate", by_certificate), ("exec", run)):
                    expect(what, answer.result()[0], 500)
        finally:
            os.kill(pid, signal.SIGCONT)
        wait("the API server is back", 30, lambda: self.cluster.node_is_ready(self.node.name))
        wait("reviews are back", 30, lambda: self.request("/metrics/resource", token=token)[0] == 200)

    def test_crowd(self):
        """A thousand connections: 256 are served, the others are turned away, and nothing stays behind."""
        def memory():
            text = pathlib.Path(f"/proc/{self.node.vk.pid}/status").read_text()
            return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS:")))

        before, crowd, turned_away = memory(), [], 0
        try:
            for _ in range(1000):
                connection = socket.create_connection((f"{self.node.subnet}.1", self.node.kubelet_port), timeout=10)
                crowd.append(connection)
            most = memory()

            def answered():
                try:
                    with self.connect("apiserver") as late:
                        return late.recv(100)
                except OSError:
                    return None
            turned_away = sum(1 for _ in range(3) if (answered() or b"HTTP/1.1 503").startswith(b"HTTP/1.1 503"))
        finally:
            for connection in crowd:
                connection.close()
        expect("late ones that were turned away", turned_away, 3)
        if most - before > 64 << 10:
            raise Mismatch(f"memory grew from {before} kB to {most} kB")
        wait("served again", 30, lambda: self.request("/healthz", "apiserver")[0] == 200)

    # --- facts of the API server on which the node's status rests -------------------------------------------------------
    def test_status_patch(self):
        self.cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "patched"},
                            "spec": {"nodeName": "no-such-node", "containers": [{"name": "agent", "image": "x"}]}})

        def patch(status):
            done = self.kubectl("patch", "pod", "patched", "--subresource=status", "--type=strategic", "-p",
                                json.dumps({"status": status}))
            return done.returncode, done.stderr.decode()

        def status():
            have = self.cluster.get("pod", "patched")["status"]
            return have.get("podIP"), [ip["ip"] for ip in have.get("podIPs", [])]
        expect("first", patch({"podIP": "10.0.0.1", "conditions": [{"type": "PodScheduled", "status": "True"}]})[0], 0)
        expect("changed", (patch({"podIP": "10.0.0.2", "conditions": [{"type": "Ready", "status": "True"}]})[0], status()),
               (0, ("10.0.0.2", ["10.0.0.2"])))
        kept = {c["type"] for c in self.cluster.get("pod", "patched")["status"]["conditions"]}
        expect("conditions", {"PodScheduled", "Ready"} <= kept, True)
        kubelet_suite.vector("08-10.32", "test_status_patch")
        code, text = patch({"podIP": "10.0.0.3", "podIPs": [{"ip": "10.0.0.3"}]})
        if code == 0 or "Invalid value" not in text:
            raise Mismatch(f"podIP with podIPs: {code} {text}")
        kubelet_suite.vector("08-10.33", "test_status_patch")
        expect("podIP null alone", (patch({"podIP": None})[0], status()), (0, ("10.0.0.2", ["10.0.0.2"])))
        expect("both null", (patch({"podIP": None, "podIPs": None})[0], status()), (0, (None, [])))
        kubelet_suite.vector("08-10.34", "test_status_patch")
        self.cluster.kubectl("delete", "pod", "patched", "--force", "--grace-period=0")

    def test_port(self):
        """The port that another node listens on and its Node names, for each value of VK_KUBELET_PORT."""
        for number, (value, want) in enumerate((("0", 10250), ("65536", 10250), ("-1", 10250), ("abc", 10250), ("", 10250),
                                                ("10350", 10350))):
            other = kubelet_suite.Node(self.cluster, 20 + number)
            other.vk.env["VK_KUBELET_PORT"] = value
            try:
                other.start()
                node = wait(f"node {other.name}", 20, lambda other=other: self.cluster.get("node", other.name))
                expect("advertised", node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], want)
                expect("answer", self.request("/healthz", port=want)[0], 401)
            finally:
                other.vk.stop()
                other.net.kill()
            self.cluster.kubectl("delete", "node", other.name)
        kubelet_suite.vector("08-10.1", "test_port")


if __name__ == "__main__":
    enter_namespace()
    sys.exit(kubelet_suite.run_suite(Suite))

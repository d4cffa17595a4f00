"""make bench-kubelet: what the kubelet API costs, each row with its bar and `ok` or `MISSED`; exit 1 when one is missed
(docs/performance.md). The client speaks WebSocket to the node, with kube-apiserver's certificate. The machine is shared: bars
are on CPU and memory, and generous ones on time; what is compared runs in turns."""
import base64
import json
import os
import pathlib
import re
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import kubelet_suite  # noqa: E402
from bench import cpu_seconds  # noqa: E402
from cluster import REPO, Mismatch, enter_namespace, free_ports, wait  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_EXECS", "200"))
MIB = int(os.environ.get("BENCH_FORWARD_MIB", "512"))
SESSIONS = 100
rows, missed = [], 0


def row(what, value, unit, least=None, most=None):
    global missed
    bar = f">= {least}" if least is not None else f"<= {most}" if most is not None else ""
    held = (least is None or value >= least) and (most is None or value <= most)
    verdict = "" if not bar else "ok" if held else "MISSED"
    missed += verdict == "MISSED"
    rows.append((what, f"{value:.3g}", unit, bar, verdict))
    print(f"{what:72} {value:>9.3g} {unit:8} {bar:8} {verdict}", flush=True)


class WebSocket:
    """A session that was upgraded; messages of the server are read whole."""

    def __init__(self, suite, path, context):
        raw = socket.create_connection((f"{suite.node.subnet}.1", suite.node.kubelet_port), timeout=60)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(raw)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
                            f"Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n".encode())
        self.stream = self.socket.makefile("rb", buffering=1 << 18)
        if self.stream.readline().split()[1] != b"101":
            raise Mismatch(f"{path}: not upgraded")
        while self.stream.readline() != b"\r\n":
            pass

    def message(self):
        """None at the end."""
        header = self.stream.read(2)
        if len(header) < 2 or header[0] == 0x88:
            return None
        length = header[1]
        if length == 126:
            length = struct.unpack(">H", self.stream.read(2))[0]
        elif length == 127:
            length = struct.unpack(">Q", self.stream.read(8))[0]
        return self.stream.read(length)

    def send(self, payload):
        mask = b"\1\2\3\4"
        self.socket.sendall(bytes([0x82, 0x80 | len(payload)]) + mask + bytes(b ^ mask[i & 3] for i, b in enumerate(payload)))

    def close(self):
        self.stream.close()
        self.socket.close()


class Bench(kubelet_suite.Suite):
    def __init__(self, cluster, certificates):
        super().__init__(cluster, certificates)
        self.context = certificates.context("apiserver")
        self.vm = cluster.get("pod", kubelet_suite.POD)["metadata"]["annotations"]["vm.cocoonstack.io/name"]

    def exec(self, *command, more=""):
        words = "".join(f"&command={word}" for word in command)
        return WebSocket(self, f"/exec/default/{kubelet_suite.POD}/agent?output=1&error=1{words}{more}", self.context)

    # --- exec -----------------------------------------------------------------------------------------------------------
    def one_exec(self):
        session, status = self.exec("counter"), None
        while (message := session.message()) is not None:
            if message[0] == 3 and len(message) > 1:
                status = json.loads(message[1:])
                break
        session.close()
        if not status or status["status"] != "Success":
            raise Mismatch(f"exec: {status}")

    def one_call(self):
        subprocess.run([self.node.vk.env["VK_COCOON_BIN"], "vm", "exec", self.vm, "--", "counter"], env=self.node.env,
                       stdout=subprocess.DEVNULL, check=True)

    def one_request(self):
        raw = socket.create_connection((f"{self.node.subnet}.1", self.node.kubelet_port), timeout=60)
        with self.context.wrap_socket(raw) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            if not connection.recv(1000).startswith(b"HTTP/1.1 200"):
                raise Mismatch("/healthz")

    def test_exec(self):
        times = {self.one_exec: [], self.one_call: [], self.one_request: []}
        cpu = dict.fromkeys(times, 0.0)
        for number in range(ROUNDS + 5):
            for what, taken in times.items():
                begin, used = time.monotonic(), cpu_seconds(self.node.vk.pid)
                what()
                if number >= 5:
                    taken.append((time.monotonic() - begin) * 1000)
                    cpu[what] += cpu_seconds(self.node.vk.pid) - used
        through, own, connected = (sorted(times[what]) for what in (self.one_exec, self.one_call, self.one_request))
        p99 = int(len(own) * 0.99) - 1
        row("GET /healthz over a new TLS connection with a client certificate: median", statistics.median(connected), "ms")
        row("the CLI's own exec: median", statistics.median(own), "ms")
        row("the CLI's own exec: p99", own[p99], "ms")
        row("exec through the kubelet API adds, TLS handshake included: median",
            statistics.median(through) - statistics.median(own), "ms", most=60)
        row("exec through the kubelet API adds, TLS handshake included: p99", through[p99] - own[p99], "ms", most=400)
        row("vk-cocoon's CPU for one exec, TLS handshake included", cpu[self.one_exec] / ROUNDS * 1000, "ms", most=25)

    # --- port-forward ---------------------------------------------------------------------------------------------------
    def receive(self, connection):
        total, buffer = 0, bytearray(1 << 18)
        while count := connection.recv_into(buffer):
            total += count
        return total

    def through_socat(self, port, listen):
        local = free_ports(1)[0]
        address = self.cluster.get("pod", kubelet_suite.POD)["status"]["podIP"]
        relay = subprocess.Popen([kubelet_suite.tools() / "socat", listen.format(local), f"TCP:{address}:{port},nodelay"])
        try:
            def connect():
                raw = socket.create_connection(("127.0.0.1", local), timeout=60)
                if not listen.startswith("OPENSSL"):
                    return raw
                context = ssl.create_default_context()
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                return context.wrap_socket(raw)
            connection = wait("socat", 10, connect)
            begin = time.monotonic()
            total = self.receive(connection)
            took = time.monotonic() - begin
            connection.close()
        finally:
            relay.kill()
            relay.wait()
        return self.rate(total, took)

    def rate(self, total, took):
        if total != MIB << 20:
            raise Mismatch(f"{total} bytes of {MIB} MiB came")
        return MIB / took

    def through_node(self, port):
        session = WebSocket(self, f"/portForward/default/{kubelet_suite.POD}?port={port}", self.context)
        begin, total = time.monotonic(), 0
        while (message := session.message()) is not None:
            if message[0] == 0:
                total += len(message) - 1
        took = time.monotonic() - begin
        session.close()
        return self.rate(total - 2, took)

    def through_kubectl(self, port):
        local = free_ports(1)[0]
        client = subprocess.Popen(["kubectl", "port-forward", kubelet_suite.POD, f"{local}:{port}"], env=self.cluster.env,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            client.stdout.readline()
            begin = time.monotonic()
            with socket.create_connection(("127.0.0.1", local), timeout=60) as connection:
                total = self.receive(connection)
            return self.rate(total, time.monotonic() - begin)
        finally:
            client.kill()
            client.wait()
            client.stdout.close()

    def test_forward(self):
        """A server in the guest sends so many bytes to each that connects."""
        port = 8100
        server = self.guest_process(sys.executable, "-c", (
            "import socket\ns = socket.create_server(('', %d))\nb = bytes(1 << 20)\nwhile True:\n c, _ = s.accept()\n"
            " try:\n  for _ in range(%d): c.sendall(b)\n except OSError: pass\n c.close()") % (port, MIB))
        certificate, key = (self.certificates.path(f"apiserver.{suffix}") for suffix in ("crt", "key"))
        plain, secure = "TCP-LISTEN:{},bind=127.0.0.1,reuseaddr", ("OPENSSL-LISTEN:{},bind=127.0.0.1,reuseaddr,verify=0,"
                                                                  f"cert={certificate},key={key}")
        try:
            address = self.cluster.get("pod", kubelet_suite.POD)["status"]["podIP"]
            wait("the server in the guest", 10, lambda: socket.create_connection((address, port), timeout=1).close() or True)
            rates, cpu = {"socat": [], "socat with TLS": [], "node": []}, []
            for _ in range(3):
                rates["socat"].append(self.through_socat(port, plain))
                rates["socat with TLS"].append(self.through_socat(port, secure))
                used = cpu_seconds(self.node.vk.pid)
                rates["node"].append(self.through_node(port))
                cpu.append(cpu_seconds(self.node.vk.pid) - used)
            best = {name: statistics.median(values) for name, values in rates.items()}
            row(f"socat, {MIB} MiB from a guest", best["socat"], "MiB/s")
            row("socat with TLS", best["socat with TLS"], "MiB/s")
            row("port-forward at the node (WebSocket, TLS)", best["node"], "MiB/s")
            row("  of socat with TLS", best["node"] / best["socat with TLS"], "")
            row("  vk-cocoon's CPU for a GiB", statistics.median(cpu) * 1024 / MIB, "s", most=8)
            row("port-forward by kubectl through kube-apiserver", self.through_kubectl(port), "MiB/s")
        finally:
            server.kill()
            server.wait()

    # --- memory ---------------------------------------------------------------------------------------------------------
    def test_memory(self):
        def resident():
            text = pathlib.Path(f"/proc/{self.node.vk.pid}/status").read_text()
            return int(re.search(r"^VmRSS:\s+(\d+) kB", text, re.M).group(1))

        def open_all():
            return [self.exec("guest", "sleep", "1000", more="&input=1") for _ in range(SESSIONS)]
        for session in open_all():  # what the allocator keeps is no session's
            session.close()
        time.sleep(3)
        before = resident()
        sessions = open_all()
        time.sleep(2)
        row("memory of an idle exec session (TLS, its fibers, its pipes)", (resident() - before) / SESSIONS, "KiB", most=192)
        for session in sessions:
            session.close()


if __name__ == "__main__":
    kubelet_suite.tools()  # before the network is gone
    enter_namespace()
    status = kubelet_suite.run_suite(Bench)
    (REPO / "build").mkdir(exist_ok=True)
    (REPO / "build/bench-kubelet.json").write_text(json.dumps(rows))
    print(f"bench-kubelet: {missed} bars missed")
    sys.exit(status or int(missed > 0))

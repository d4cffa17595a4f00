#!/usr/bin/env python3
"""vk-cocoon as a kubelet for the clients that people have: kubectl of today, over WebSocket and over SPDY, kubectl 1.20, and
the Python client (WebSocket v4 to the node). All through the real kube-apiserver. Prints `N passed, M failed`."""
import concurrent.futures
import fcntl
import hashlib
import os
import pathlib
import pty
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import termios
import time

import kubelet_suite
from kubelet_suite import POD, Mismatch, enter_namespace, expect, free_ports, http_get, same, wait

STDIN_BYTES = 16 << 20
SESSIONS = 20  # of one kubectl each


class Suite(kubelet_suite.Suite):
    def __init__(self, cluster, certificates):
        super().__init__(cluster, certificates)
        self.tools = kubelet_suite.tools()
        self.clients = {"kubectl": (["kubectl"], {}),
                        "kubectl over SPDY": (["kubectl"], {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false",
                                                            "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}),
                        "kubectl 1.20": ([str(self.tools / "kubectl-1.20")], {})}
        self.dir = pathlib.Path(cluster.dir) / "clients"
        self.dir.mkdir()

    def command(self, client, words):
        program, env = self.clients[client]
        return [*program, *words], dict(self.cluster.env, **env)

    def run(self, client, *words, input=b"", timeout=180):
        argv, env = self.command(client, words)
        return subprocess.run(argv, env=env, input=input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)

    def each(self, check):
        for client in self.clients:
            try:
                check(client)
            except (Mismatch, OSError, subprocess.SubprocessError) as problem:
                raise Mismatch(f"{client}: {problem}") from problem

    def python(self, case):
        done = subprocess.run([self.tools / "python", pathlib.Path(__file__).with_name("kubelet_python_client.py"), case, POD],
                              env=self.cluster.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        if done.returncode:
            raise Mismatch(f"{case}: {done.stdout[-2000:]}")

    # --- exec -----------------------------------------------------------------------------------------------------------
    def test_exec(self):
        def check(client):
            done = self.run(client, "exec", POD, "--", "guest", "sh", "-c", "echo out; echo err >&2; exit 7")
            expect("exec", (done.returncode, done.stdout, done.stderr.splitlines()[0]), (7, b"out\n", b"err"))
            expect("success", self.run(client, "exec", POD, "--", "guest", "true").returncode, 0)
        self.each(check)

    def test_large_stdin(self):
        data = os.urandom(1 << 20) * (STDIN_BYTES >> 20)

        def check(client):
            done = self.run(client, "exec", "-i", POD, "--", "guest", "sha256sum", input=data)
            expect("sha256sum", (done.returncode, done.stdout[:64].decode()), (0, hashlib.sha256(data).hexdigest()))
        self.each(check)

    def test_terminal(self):
        """kubectl on a terminal that changes its size: the command has none, but all goes on and the exit code is right."""
        def check(client):
            argv, env = self.command(client, ["exec", "-it", POD, "--", "guest", "sh", "-c",
                                              "echo ready; read x; echo got $x; read y; echo err $y >&2; exit 6"])
            pid, terminal = pty.fork()
            if pid == 0:
                os.execvpe(argv[0], argv, env)
            seen, written, end = b"", 0, time.monotonic() + 60
            try:
                while time.monotonic() < end:
                    if select.select([terminal], [], [], 0.2)[0]:
                        try:
                            seen += os.read(terminal, 4096)
                        except OSError:  # the terminal's other side is closed
                            break
                    if written < 2 and (b"ready", b"got one")[written] in seen:
                        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30 + written, 100, 0, 0))
                        os.write(terminal, (b"one\n", b"two\n")[written])
                        written += 1
            finally:
                os.close(terminal)
                _, status = os.waitpid(pid, 0)
            expect("exit code", os.waitstatus_to_exitcode(status), 6)
            if b"got one" not in seen or b"err two" not in seen:
                raise Mismatch(f"seen {seen!r}")
        self.each(check)

    def test_many(self):
        def check(client):
            def one(number):
                done = self.run(client, "exec", "-i", POD, "--", "guest", "sh", "-c", f"cat; exit {number % 5}",
                                input=b"%d" % number)
                return done.returncode, done.stdout
            with concurrent.futures.ThreadPoolExecutor(SESSIONS) as pool:
                for number, have in enumerate(pool.map(one, range(SESSIONS))):
                    expect(f"session {number}", have, (number % 5, b"%d" % number))
        self.each(check)

    # --- attach, logs, port-forward, cp -----------------------------------------------------------------------------------
    def test_attach(self):
        def check(client):
            done = self.run(client, "attach", "-i", POD, input=b"hello\ncounter\nexit\n")
            lines = done.stdout.decode().replace("\r", "").splitlines()
            expect("attach", (done.returncode, lines[:2], len(lines)), (0, ["cocoon-sim console", "console: hello"], 3))
            if int(lines[2]) <= 0:
                raise Mismatch(f"the guest's counter: {lines[2]}")
        self.each(check)

    def test_attach_to_the_end(self):
        """The end of kubectl's stdin is no end of the console: what it says still comes, until the client goes."""
        def check(client):
            argv, env = self.command(client, ["attach", "-i", POD])
            process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            try:
                expect("greeting", process.stdout.readline(), b"cocoon-sim console\r\n")
                process.stdin.write(b"bye\n")
                process.stdin.close()
                expect("answer", process.stdout.readline(), b"console: bye\r\n")
            finally:
                process.kill()
                process.wait()
                process.stdout.close()
        self.each(check)

    def test_logs(self):
        def check(client):
            done = self.run(client, "logs", POD)
            lines = done.stdout.decode().splitlines()
            expect("logs", (done.returncode, len(lines)), (0, 3))
            expect("logs --tail", self.run(client, "logs", "--tail=2", POD).stdout.decode().splitlines(), lines[1:])
            argv, env = self.command(client, ["logs", "-f", "--tail=1", POD])
            follower = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            try:
                expect("logs -f", follower.stdout.readline().decode().rstrip("\n"), lines[2])
                time.sleep(1)
                expect("logs -f goes on", follower.poll(), None)
            finally:
                follower.kill()
                follower.wait()
                follower.stdout.close()
        self.each(check)

    def test_port_forward(self):
        """An HTTP server inside the guest's own network; 50 requests, and one connection reset in the middle of them."""
        served = self.dir / "served"
        served.write_text("what the guest serves " * 1000)
        address = self.cluster.get("pod", POD)["status"]["podIP"]
        server = self.guest_process(sys.executable, "-m", "http.server", "8099", "--directory", self.dir)

        def check(client):
            local = free_ports(1)[0]
            argv, env = self.command(client, ["port-forward", POD, f"{local}:8099"])
            forward = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

            def fetch(number):
                if number == 25:
                    with socket.create_connection(("127.0.0.1", local), timeout=10) as given_up:
                        given_up.sendall(b"GET /se")
                        given_up.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return http_get(f"http://127.0.0.1:{local}/served", 30)
            try:
                if b"Forwarding from" not in forward.stdout.readline():
                    raise Mismatch("kubectl port-forward does not start")
                with concurrent.futures.ThreadPoolExecutor(8) as pool:
                    for have in pool.map(fetch, range(50)):
                        expect("what the guest serves", have, served.read_text())
                expect("kubectl goes on", forward.poll(), None)
            finally:
                forward.kill()
                forward.wait()
                forward.stdout.close()
        try:
            wait("the server in the guest", 20, lambda: same(http_get(f"http://{address}:8099/served"), served.read_text()))
            self.each(check)
        finally:
            server.kill()
            server.wait()

    def test_cp(self):
        def check(client):
            work = self.dir / re.sub(r"\W", "-", client)
            source, guest, back = work / "source", work / "guest", work / "back"
            (source / "deep").mkdir(parents=True)
            guest.mkdir()
            (source / "deep/random").write_bytes(os.urandom(3 << 20))
            (source / "text").write_text("hello\n")
            for words in ([str(source), f"{POD}:{guest}"], [f"{POD}:{guest}/source", str(back)]):
                done = self.run(client, "cp", *words)
                expect(f"cp {words}", (done.returncode, done.stderr if done.returncode else b""), (0, b""))
            for name in ("deep/random", "text"):
                expect(name, (back / name).read_bytes() == (source / name).read_bytes(), True)
            shutil.rmtree(work)
        self.each(check)

    # --- the Python client ------------------------------------------------------------------------------------------------
    def test_python_output(self):
        self.python("output")

    def test_python_large_stdin(self):
        self.python("large_stdin")

    def test_python_tty(self):
        self.python("tty")

    def test_python_many(self):
        self.python("many")
        log = pathlib.Path(self.node.vk.log).read_text(errors="replace")
        if not re.search(r"exec session.*WebSocket.*protocol.{1,3}v4\.channel\.k8s\.io", log):
            raise Mismatch("no session spoke v4.channel.k8s.io")

    def test_python_attach(self):
        self.python("attach")

    def test_python_forward(self):
        self.python("forward")


if __name__ == "__main__":
    kubelet_suite.tools()  # before the network is gone
    enter_namespace()
    sys.exit(kubelet_suite.run_suite(Suite))

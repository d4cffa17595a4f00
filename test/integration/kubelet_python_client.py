"""Runs under the Python client of Kubernetes (hack/kubelet-tools): kubelet_python_client.py CASE POD. Raises when something
is not as it must be."""
import hashlib
import os
import sys
import threading

from kubernetes import client, config
from kubernetes.stream import portforward, stream

SESSIONS = 100
STDIN_BYTES = 16 << 20


def expect(what, have, want):
    if have != want:
        raise SystemExit(f"{what}: have {have!r}, want {want!r}")


def open_exec(pod, *command, call="exec", stdin=False, tty=False, **options):
    api = client.CoreV1Api()
    options = dict(stdin=stdin, stdout=True, stderr=not tty, tty=tty, _preload_content=False, **options)
    if call == "exec":
        return stream(api.connect_get_namespaced_pod_exec, pod, "default", container="agent",
                      command=["guest", *command], **options)
    return stream(api.connect_get_namespaced_pod_attach, pod, "default", container="agent", **options)


def to_end(session):
    session.run_forever(timeout=120)
    return session.returncode, session.read_stdout(timeout=0), session.read_stderr(timeout=0)


def output(pod):
    expect("exec", to_end(open_exec(pod, "sh", "-c", "echo out; echo err >&2; exit 7")), (7, "out\n", "err\n"))
    expect("success", to_end(open_exec(pod, "true"))[0], 0)


def large_stdin(pod):
    """WebSocket v4 has no end of stdin: the command reads so many bytes."""
    data = os.urandom(1 << 20) * (STDIN_BYTES >> 20)
    session = open_exec(pod, "sh", "-c", f"head -c {len(data)} | sha256sum", stdin=True, binary=True)
    for at in range(0, len(data), 1 << 15):
        session.write_stdin(data[at:at + (1 << 15)])
    code, out, _ = to_end(session)
    expect("sha256sum", (code, out[:64].decode()), (0, hashlib.sha256(data).hexdigest()))


def tty(pod):
    session = open_exec(pod, "sh", "-c", "read x; echo got $x; echo err >&2; exit 4", stdin=True, tty=True)
    session.write_channel(4, '{"Width":80,"Height":24}')
    session.write_stdin("word\n")
    code, out, err = to_end(session)
    expect("exec with a terminal", (code, sorted(out.split("\n")), err), (4, ["", "err", "got word"], ""))


def many(pod):
    """All are open, and running, before the first one ends."""
    problems, barrier = [], threading.Barrier(SESSIONS)

    def one(number):
        try:
            session = open_exec(pod, "sh", "-c", f"echo ready; read x; echo {number} $x; exit {number % 5}", stdin=True)
            expect("first line", session.readline_stdout(timeout=60), "ready")
            barrier.wait(timeout=120)
            session.write_stdin(f"w{number}\n")
            code, out, _ = to_end(session)
            expect(f"session {number}", (code, out), (number % 5, f"{number} w{number}\n"))
        except BaseException as problem:  # a thread's SystemExit would be lost
            problems.append(f"session {number}: {problem!r} {problem}")
            barrier.abort()
    threads = [threading.Thread(target=one, args=(number,)) for number in range(SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise SystemExit("\n".join(problems[:5]))


def attach(pod):
    session = open_exec(pod, call="attach", stdin=True)
    session.write_stdin("hello\n")
    session.write_stdin("exit\n")
    code, out, _ = to_end(session)
    expect("attach", (code, out), (0, "cocoon-sim console\r\nconsole: hello\r\n"))


def forward(pod):
    """The guest of the simulator answers HTTP on port 8080."""
    ports = portforward(client.CoreV1Api().connect_get_namespaced_pod_portforward, pod, "default", ports="8080,1")
    connection = ports.socket(8080)
    connection.setblocking(True)
    connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
    answer = b""
    while chunk := connection.recv(4096):
        answer += chunk
    expect("status line", answer.split(b"\r\n")[0], b"HTTP/1.0 200 OK")
    expect("error of 8080", ports.error(8080), None)
    other = ports.socket(1)
    other.setblocking(True)
    expect("port without a server", other.recv(1), b"")
    if "error forwarding port 1 " not in (ports.error(1) or ""):
        raise SystemExit(f"error of port 1: {ports.error(1)!r}")


config.load_kube_config()
globals()[sys.argv[1]](sys.argv[2])

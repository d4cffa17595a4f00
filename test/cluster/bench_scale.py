"""make bench, the large rows: the operator with 1,000 sets and 5,000 pods on a real API server. Nodes, scheduler and guests
are played by this program, which binds each pod and reports it ready, so that what is measured is the operator.

BENCH_SCALE_SETS=n changes the number of sets (5 pods each); BENCH_PROFILE=folder records the operator with perf."""
import collections
import http.server
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from api import PersistentApi
from bench import cpu_seconds, memory, requests_by_verb
from cluster import REPO, Cluster, Daemon, Mismatch, enter_namespace, free_ports, http_get, wait

SETS = int(os.environ.get("BENCH_SCALE_SETS", "1000"))
PODS_OF_A_SET = 5
SUSPENDS = min(100, SETS)
SET_PATH = "/apis/cocoonset.cocoonstack.io/v1/namespaces/default/cocoonsets"
# From create to Running. POST: each pod. PATCH: the finalizer, the first status, and one status for each pod that became
# ready, at most. Nothing is read.
WRITES_OF_A_SET = {"POST": PODS_OF_A_SET, "PATCH": 2 + PODS_OF_A_SET, "GET": 0.05}
VM = "vm.cocoonstack.io/"
rows, missed = [], []


def row(what, value, unit, bar=None):
    verdict = "" if bar is None else "ok" if value <= bar else "MISSED"
    if verdict == "MISSED":
        missed.append(what)
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    rows.append((what, text, unit, "" if bar is None else f"<= {bar}", verdict))
    print(f"{what:72} {text:>9} {unit:8} {rows[-1][3]:10} {verdict}", flush=True)


class Registry(http.server.BaseHTTPRequestHandler):
    """Empty, and counts."""
    protocol_version = "HTTP/1.1"
    count = 0

    def answer(self):
        Registry.count += 1
        status = 200 if self.path.rstrip("/") == "/v2" else 404
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_DELETE = do_POST = answer

    def log_message(self, *words):
        pass


class FakeNodes:
    """Binds every pod, gives it an address, and reports it ready."""

    def __init__(self, cluster, workers=6):
        self.cluster, self.queue, self.local = cluster, queue.Queue(), threading.local()
        self.ready, self.lock = set(), threading.Lock()
        threading.Thread(target=self.watch, daemon=True).start()
        for _ in range(workers):
            threading.Thread(target=self.work, daemon=True).start()

    def watch(self):
        api, path = PersistentApi(self.cluster.dir / "kube"), "/api/v1/namespaces/default/pods"
        version = api.must("GET", path)["metadata"]["resourceVersion"]
        while True:
            for frame in self.frames_of(api, f"{path}?watch=true&timeoutSeconds=3600&resourceVersion={version}"):
                if frame["type"] == "ERROR":  # the server is not so far yet
                    time.sleep(0.2)
                    break
                version = frame["object"]["metadata"]["resourceVersion"]
                if frame["type"] == "ADDED":
                    self.queue.put((frame["object"]["metadata"]["name"], not frame["object"]["spec"].get("nodeName")))

    def frames_of(self, api, path):
        """Ends quietly when the server has ended."""
        try:
            yield from api.watch(path)
        except (OSError, ValueError):
            time.sleep(0.5)

    def work(self):
        api = PersistentApi(self.cluster.dir / "kube")
        while True:
            name, is_unbound = self.queue.get()
            try:
                self.bring_up(api, name, is_unbound)
            except (Mismatch, OSError) as problem:
                print("  fake node:", name, problem, flush=True)

    def bring_up(self, api, name, is_unbound):
        path = f"/api/v1/namespaces/default/pods/{name}"
        number = abs(hash(name))
        address = f"10.{number % 200 + 10}.{number // 200 % 250}.{number // 50000 % 250 + 1}"
        if is_unbound:  # sub-agents come bound to the node of their main
            api.must("POST", path + "/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                                                 "target": {"apiVersion": "v1", "kind": "Node", "name": "bench-node"}})
        api.must("PATCH", path, {"metadata": {"annotations": {
            VM + "id": f"id-{name}", VM + "ip": address, VM + "lifecycle-state": "ready"}}}, "application/merge-patch+json")
        api.must("PATCH", path + "/status", {"status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "agent", "ready": True, "restartCount": 0, "image": "i", "imageID": "",
                                   "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}},
                 "application/strategic-merge-patch+json")
        with self.lock:
            self.ready.add(name)


def manifest(number):
    return {"apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonSet", "metadata": {"name": f"bench-{number}"},
            "spec": {"agent": {"replicas": 2, "image": "ubuntu:24.04", "mode": "run",
                               "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
                     "toolboxes": [{"name": "ta", "image": "toolbox:v1"}, {"name": "tb", "image": "toolbox:v1"}]}}


def phases(api):
    return collections.Counter(s.get("status", {}).get("phase") for s in api.must("GET", SET_PATH)["items"])


def start(cluster):
    """API server and operator; no scheduler, no controllers."""
    subprocess.run([REPO / "hack/kube", "start", cluster.dir / "kube"], check=True, env=dict(
        cluster.env, KUBE_PARTS="apiserver", KUBE_APISERVER_FLAGS="--disable-admission-plugins=ServiceAccount"))
    cluster.env["PATH"] = (cluster.dir / "kube/env").read_text().splitlines()[1].split("=", 1)[1].split(":$PATH")[0] + \
        ":" + cluster.env["PATH"]
    cluster.env["KUBECONFIG"] = str(cluster.kubeconfig)
    cluster.kubectl("apply", "-f", str(REPO / "charts/cocoon/crds"))
    wait("the CRDs", 30, lambda: cluster.kubectl("get", "cocoonsets") is not None)
    registry_port, cluster.metrics_port, health_port = free_ports(3)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", registry_port), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cluster.operator = Daemon("cocoon-operator", [
        cluster.build / "cocoon-operator", "--leader-elect=false", f"--metrics-bind-address=127.0.0.1:{cluster.metrics_port}",
        f"--health-probe-bind-address=127.0.0.1:{health_port}"],
        dict(cluster.env, OCI_REGISTRY=f"127.0.0.1:{registry_port}/bench"), cluster.dir / "cocoon-operator.log").start()
    wait("the operator's /readyz", 20, lambda: http_get(f"http://127.0.0.1:{health_port}/readyz"))
    cluster.ready_url = f"http://127.0.0.1:{health_port}/readyz"


def create(cluster, api):
    nodes = FakeNodes(cluster)
    begin, cpu = time.monotonic(), cpu_seconds(cluster.operator.pid)
    before = requests_by_verb(cluster.metrics_port)
    for number in range(SETS):
        api.must("POST", SET_PATH, manifest(number))

    def running():
        found = phases(api)
        return found["Running"] == SETS or (print(f"  {int(time.monotonic() - begin)} s: {len(nodes.ready)} pods ready, "
                                                  f"{dict(found)}", flush=True) and None)
    wait(f"{SETS} sets Running", 1200, running, 10)
    took = time.monotonic() - begin
    row(f"{SETS} sets, {SETS * PODS_OF_A_SET} pods, create to Running", took, "s")
    row("  cocoon-operator: CPU", cpu_seconds(cluster.operator.pid) - cpu, "s")
    row("  cocoon-operator: peak memory", memory(cluster.operator.pid, "VmHWM"), "MiB")
    after = requests_by_verb(cluster.metrics_port)
    for verb in sorted(after):
        row(f"  cocoon-operator: {verb} requests for each set", (after[verb] - before.get(verb, 0)) / SETS, "",
            WRITES_OF_A_SET.get(verb))


def settled(cluster):
    time.sleep(15)
    cpu, sent, asked = cpu_seconds(cluster.operator.pid), sum(requests_by_verb(cluster.metrics_port).values()), Registry.count
    time.sleep(30)
    row("settled: CPU in 30 s idle", cpu_seconds(cluster.operator.pid) - cpu, "s", 0.1)
    row("settled: API requests in 30 s (no lease here)", sum(requests_by_verb(cluster.metrics_port).values()) - sent, "", 0)
    row("settled: registry requests in 30 s", Registry.count - asked, "", 0)


def restart(cluster):
    """The daemon begins with everything there: it reads 6,000 objects and must find nothing to do."""
    cluster.operator.stop()
    cluster.operator.env = dict(cluster.operator.env, LD_PRELOAD=str(probe(cluster)),
                                LATENCY_PROBE_REPORT=str(cluster.dir / "latency"))
    begin = time.monotonic()
    cluster.operator.start()
    wait("the operator's /readyz", 60, lambda: http_get(cluster.ready_url), 0.01)
    row("restart with everything there: to /readyz", (time.monotonic() - begin) * 1000, "ms")
    time.sleep(20)
    row("  resident memory", memory(cluster.operator.pid, "VmRSS"), "MiB", 40)
    row("  CPU until settled again", cpu_seconds(cluster.operator.pid), "s")
    row("  writes", sum(v for k, v in requests_by_verb(cluster.metrics_port).items() if k != "GET"), "", 0)


def probe(cluster):
    """The library that takes the times of latency(): see there."""
    library = cluster.dir / "latency_probe.so"
    subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library,
                    REPO / "test/cluster/latency_probe.c"], check=True)
    return library


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def latency(cluster, api):
    """Suspends one set after the other. The first thing that is written is the generation, onto each pod. Both ends are
    taken in the process (latency_probe.c), against the real API server with TLS."""
    subprocess.run(["renice", "-n", "-15", "-p", str(cluster.operator.pid)], check=False, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)  # what else runs on this machine shall not count
    for number in range(SUSPENDS):
        api.must("PATCH", f"{SET_PATH}/bench-{number}", {"spec": {"suspend": True}}, "application/merge-patch+json")
        wait("it is Suspending", 60, lambda path=f"{SET_PATH}/bench-{number}":
             api.must("GET", path)["status"]["phase"] == "Suspending", 0.05)
    load = os.getloadavg()[0]
    cluster.operator.stop()
    lines = [line.split() for line in (cluster.dir / "latency").read_text().splitlines()]
    if os.environ.get("BENCH_LATENCIES"):
        shutil.copy(cluster.dir / "latency", os.environ["BENCH_LATENCIES"])
    # A pass that was under way and first wrote to the set waited for that answer.
    seen = [list(map(int, line[1:6])) for line in lines if line[6] == "0"]
    if len(seen) < SUSPENDS * 0.9:
        raise Mismatch(f"only {len(seen)} of {SUSPENDS} suspends were seen whole by the probe")
    whole = [(arrived + sent) / 1000 for arrived, sent, _, _, _ in seen]
    running = [max(arrived + sent - waited, cpu) / 1000 for arrived, sent, cpu, waited, _ in seen]
    row("event to pod patch: load average meanwhile", load, "")
    row("  event in the socket to patch sent: median", percentile(whole, 0.5), "ms")
    row("  the same: p99", percentile(whole, 0.99), "ms", 10)
    row("  without waiting for a core: p99", percentile(running, 0.99), "ms")
    row("  processor time from event read to patch sent: median", percentile([s[2] / 1000 for s in seen], 0.5), "ms")
    row("  the same: p99", percentile([s[2] / 1000 for s in seen], 0.99), "ms")
    row("  TLS handshakes begun in between: cases", sum(1 for s in seen if s[4]), "")


def profile(cluster, folder):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", "-F", "499", "-g", "-p", str(cluster.operator.pid), "-o",
                             f"{folder}/operator.perf"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    directory = tempfile.mkdtemp(prefix="cocoon-scale-")
    cluster = Cluster(directory, os.environ.get("BENCH_VARIANT", "release"))
    failed, recorder = None, None
    try:
        start(cluster)
        api = PersistentApi(cluster.dir / "kube")
        if os.environ.get("BENCH_PROFILE"):
            recorder = profile(cluster, os.environ["BENCH_PROFILE"])
        create(cluster, api)
        if recorder:
            recorder.send_signal(signal.SIGINT)
            recorder.wait()
        settled(cluster)
        restart(cluster)
        latency(cluster, api)
    except (Mismatch, KeyboardInterrupt) as mismatch:
        failed = str(mismatch)
        print(f"MISMATCH: {mismatch}\n{cluster.operator.log_tail() if cluster.operator else ''}")
    if cluster.operator:
        cluster.operator.stop()
    subprocess.run([REPO / "hack/kube", "stop", cluster.dir / "kube"], check=False, env=cluster.env)
    shutil.rmtree(directory, ignore_errors=True)
    (REPO / "build").mkdir(exist_ok=True)
    (REPO / "build/bench_scale.json").write_text(json.dumps(rows))
    print(f"bench-scale: {len(missed)} bars missed{': ' + ', '.join(missed) if missed else ''}")
    sys.exit(failed or int(bool(missed)))


if __name__ == "__main__":
    enter_namespace()
    main()

"""make bench: the numbers to hold (docs/performance.md), each with its bar and `ok` or `MISSED`; exit 1 when one is missed.
Durations are real and the machine is shared: bars on time are generous, ratios are taken in one run."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from cluster import REPO, Cluster, Mismatch, enter_namespace, http_get, wait

SETS = int(os.environ.get("BENCH_SETS", "100"))
rows, missed = [], 0


def row(what, value, unit, bar=None):
    global missed
    verdict = ""
    if bar is not None:
        verdict = "ok" if value <= bar else "MISSED"
        missed += verdict == "MISSED"
    rows.append((what, f"{value:.3g}" if isinstance(value, float) else str(value), unit,
                 f"<= {bar}" if bar is not None else "", verdict))
    print(f"{what:64} {rows[-1][1]:>9} {unit:8} {rows[-1][3]:10} {verdict}", flush=True)


def memory(pid, field):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", text, re.M).group(1)) / 1024


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def requests_by_verb(port):
    """rest_client_requests_total of a daemon, summed over codes and hosts."""
    verbs = {}
    for labels, value in re.findall(r"^rest_client_requests_total\{(.*?)\} (\d+)", http_get(f"http://127.0.0.1:{port}/metrics"), re.M):
        method = re.search(r'method="(\w+)"', labels).group(1)
        verbs[method] = verbs.get(method, 0) + int(value)
    return verbs


def restart_to_ready(daemon, url):
    """Milliseconds from exec to the first 200, of the best of five starts (the machine is shared)."""
    best = None
    for _ in range(5):
        daemon.stop()
        begin = time.monotonic()
        daemon.start()
        while True:
            try:
                http_get(url, timeout=1)
                break
            except OSError:
                if time.monotonic() - begin > 10:
                    raise Mismatch(f"{daemon.name} is not ready 10 s after its start")
                time.sleep(0.001)
        took = (time.monotonic() - begin) * 1000
        best = took if best is None else min(best, took)
    return best


def idle(daemons, ports, seconds):
    before = [(cpu_seconds(d.pid), requests_by_verb(p)) for d, p in zip(daemons, ports)]
    time.sleep(seconds)
    after = [(cpu_seconds(d.pid), requests_by_verb(p)) for d, p in zip(daemons, ports)]
    return [(a[0] - b[0], {v: a[1].get(v, 0) - b[1].get(v, 0) for v in a[1]}) for a, b in zip(after, before)]


def manifest(number):
    return {"apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonSet",
            "metadata": {"name": f"bench-{number}", "namespace": "default"},
            "spec": {"agent": {"image": "ubuntu:24.04", "mode": "run"},
                     "toolboxes": [{"name": "tb", "image": "toolbox:v1", "mode": "run"}]}}


def measure(cluster):
    node = cluster.nodes[0]
    for name, bar in (("cocoon-operator", 1.5), ("vk-cocoon", 1.5)):
        stripped = cluster.dir / f"{name}.stripped"
        subprocess.run(["strip", "-o", stripped, cluster.build / name], check=True)
        row(f"{name}: binary, stripped", stripped.stat().st_size / 2**20, "MiB", bar)
    ready = f"http://127.0.0.1:{cluster.health_port}/readyz"
    row("cocoon-operator: start to first /readyz, API server up", restart_to_ready(cluster.operator, ready), "ms", 50)
    time.sleep(2)
    row("cocoon-operator, empty cluster: resident memory", memory(cluster.operator.pid, "VmRSS"), "MiB", 16)
    row("vk-cocoon, no pods: resident memory", memory(node.vk.pid, "VmRSS"), "MiB", 16)

    daemons, ports = [cluster.operator, node.vk], [cluster.metrics_port, node.metrics_port]
    before = [cpu_seconds(d.pid) for d in daemons]
    requests = [requests_by_verb(p) for p in ports]
    begin = time.monotonic()
    cluster.apply({"apiVersion": "v1", "kind": "List", "items": [manifest(i) for i in range(SETS)]})
    applied = time.monotonic() - begin

    def running():
        phases = [s.get("status", {}).get("phase") for s in cluster.get("cocoonsets")["items"]]
        return phases.count("Running") == SETS or None
    wait(f"{SETS} sets Running", 600, running, 0.5)
    took = time.monotonic() - begin
    row(f"{SETS} sets of main + toolbox, create to Running", took, "s")
    row("  of these kubectl apply", applied, "s")
    row("  sets per second", SETS / took, "1/s")
    for daemon, port, cpu, had in zip(daemons, ports, before, requests):
        row(f"  {daemon.name}: CPU", cpu_seconds(daemon.pid) - cpu, "s")
        row(f"  {daemon.name}: peak memory", memory(daemon.pid, "VmHWM"), "MiB")
        for verb, count in sorted(requests_by_verb(port).items()):
            row(f"  {daemon.name}: {verb} requests", count - had.get(verb, 0), "")
    time.sleep(35)  # probes, heartbeats and the first drift passes come to rest
    (cpu, sent), (node_cpu, _) = idle(daemons, ports, 30)
    row("cocoon-operator, settled: CPU in 30 s idle", cpu, "s", 0.1)
    row("cocoon-operator, settled: API requests in 30 s (no lease here)", sum(sent.values()), "", 0)
    row("cocoon-operator, settled: resident memory", memory(cluster.operator.pid, "VmRSS"), "MiB", 40)
    row(f"vk-cocoon, {2 * SETS} ready pods: CPU in 30 s idle with probes", node_cpu, "s", 0.5)
    row(f"vk-cocoon, {2 * SETS} ready pods: resident memory", memory(node.vk.pid, "VmRSS"), "MiB", 24)


def main():
    directory = tempfile.mkdtemp(prefix="cocoon-bench-")
    cluster = Cluster(directory, "release")
    failed = None
    try:
        cluster.start_servers()
        cluster.start_daemons()
        measure(cluster)
    except Mismatch as mismatch:
        failed = mismatch
        print(f"MISMATCH: {mismatch}\n{cluster.logs_tail()}")
    try:
        cluster.stop(remove=False)
    except Mismatch as mismatch:
        failed = failed or mismatch
    shutil.rmtree(directory, ignore_errors=True)
    (REPO / "build").mkdir(exist_ok=True)
    (REPO / "build/bench.json").write_text(json.dumps(rows))
    print(f"bench: {missed} bars missed")
    sys.exit(str(failed) if failed else int(missed > 0))


if __name__ == "__main__":
    enter_namespace()
    main()

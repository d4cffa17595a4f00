#!/usr/bin/env python3
"""What the two real daemons show while a set is put to sleep and woken: every family and every event has a row in
docs/observability.md, and the expositions are such that Prometheus takes them.

VARIANT chooses the build (default release), KEEP=1 leaves logs and state behind."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/cluster"))
from cluster import Cluster, Mismatch, enter_namespace, wait  # noqa: E402

SET = {"apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonSet", "metadata": {"name": "demo"},
       "spec": {"snapshotPolicy": "never", "agent": {"replicas": 1, "image": "ubuntu:24.04", "mode": "run",
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}}}
SAMPLE = re.compile(r'^([a-z_]+)(\{(?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"(?:,|(?=\})))*\})? (-?[0-9.e+-]+|NaN|[+-]Inf)$')
# There before anything has happened.
FROM_THE_START = [f"controller_runtime_{name}" for name in (
    "reconcile_total", "reconcile_errors_total", "terminal_reconcile_errors_total", "reconcile_panics_total",
    "reconcile_timeouts_total", "max_concurrent_reconciles", "active_workers")] + [
    f"process_{name}" for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds", "start_time_seconds")
] + ["workqueue_depth", "workqueue_adds_total", "rest_client_requests_total"]


def document():
    """{(daemon, reason)}, {(daemon, family)} of the tables, by the program that `make check` uses."""
    loader = importlib.machinery.SourceFileLoader("check_observability", str(ROOT / "hack/check-observability"))
    sys.dont_write_bytecode = True
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_observability", loader))
    loader.exec_module(module)
    events, metrics, problems = module.read_document((ROOT / "docs/observability.md").read_text())
    if problems:
        raise Mismatch("; ".join(problems))
    return events, metrics


def check_exposition(text):
    """HELP and TYPE once and before their samples, families whole, no sample twice, histograms that add up."""
    seen, family, kind, samples = set(), None, None, {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            if name in seen:
                raise Mismatch(f"{name} comes twice")
            seen.add(name)
        elif line.startswith("# TYPE "):
            family, kind = line.split()[2:4]
            if family not in seen or kind not in ("counter", "gauge", "histogram"):
                raise Mismatch(f"no HELP before, or no type: {line}")
        else:
            match = SAMPLE.match(line)
            if not match:
                raise Mismatch(f"no sample: {line}")
            base = re.sub(r"_(bucket|sum|count)$", "", match[1]) if kind == "histogram" else match[1]
            if base != family:
                raise Mismatch(f"a sample of another family below {family}: {line}")
            if (match[1], match[2]) in samples:
                raise Mismatch(f"twice: {line}")
            if kind == "counter" and float(match[3]) < 0:
                raise Mismatch(f"a negative counter: {line}")
            samples[match[1], match[2]] = float(match[3])
    for (name, labels), value in samples.items():
        if name.endswith("_bucket") and 'le="+Inf"' in labels:
            rest = re.sub(r',?le="\+Inf"', "", labels)
            total = samples.get((name[:-len("_bucket")] + "_count", rest if rest != "{}" else None))
            if total != value:
                raise Mismatch(f"{name}{labels} is {value}, its count {total}")
    return seen


class Run:
    def __init__(self, cluster):
        self.cluster, self.passed, self.failed = cluster, 0, 0

    def settled(self, phase):
        found = self.cluster.cocoonset("demo")
        status = found.get("status", {})
        return status.get("phase") == phase and status.get("observedGeneration") == found["metadata"]["generation"]

    def one(self, what, action):
        try:
            action()
        except (Mismatch, OSError) as problem:
            self.failed += 1
            print(f"FAIL {what}: {problem}", flush=True)
        else:
            self.passed += 1
            print(f"ok   {what}", flush=True)

    def daemons(self):
        return [("operator", None)] + [("node", node) for node in self.cluster.nodes]

    def starts_with(self):
        for name, daemon in self.daemons():
            missing = set(FROM_THE_START) - check_exposition(self.cluster.metrics(daemon))
            if missing:
                raise Mismatch(f"{name} does not show {', '.join(sorted(missing))}")

    def sleep_and_wake(self):
        self.cluster.apply(json.dumps(SET))
        wait("the set runs", 90, lambda: self.settled("Running"), 0.3)
        self.cluster.patch("cocoonset", "demo", {"spec": {"suspend": True}})
        wait("the set sleeps", 90, lambda: self.settled("Suspended"), 0.3)
        self.cluster.patch("cocoonset", "demo", {"spec": {"suspend": False}})
        wait("the set runs again", 90, lambda: self.settled("Running"), 0.3)
        hibernation = {"apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonHibernation",
                       "metadata": {"name": "demo-1"}, "spec": {"podRef": {"name": "demo-1"}, "desire": "Hibernate"}}
        self.cluster.apply(json.dumps(hibernation))

        def asleep(phase):
            return self.cluster.get("cocoonhibernation", "demo-1").get("status", {}).get("phase") == phase
        wait("demo-1 sleeps", 60, lambda: asleep("Hibernated"), 0.3)
        time.sleep(1.1)  # what is announced again must be later by the clock of conditions, which counts seconds (contract/04)
        self.cluster.patch("cocoonhibernation", "demo-1", {"spec": {"desire": "Wake"}})
        wait("demo-1 is awake", 60, lambda: asleep("Active"), 0.3)

    def all_documented(self):
        events, metrics = document()
        unknown = []
        for line in sorted(self.cluster.observe()):
            words = line.split(" ")
            if words[0] == "event":
                if words[2] not in events.get((words[1], words[3]), ()):
                    unknown.append(line)
            else:
                name, labels = words[2].rstrip("}").split("{")
                if metrics.get((words[1], name)) != tuple(label for label in labels.split(",") if label):
                    unknown.append(line)
        if unknown:
            raise Mismatch(f"no such row in docs/observability.md: {'; '.join(unknown)}")

    def tells_of_the_work(self):
        wanted = ["event operator Normal Hibernated", "event operator Normal WokenActive", "event node Normal Hibernated",
                  "event node Normal Woken", "event node Normal ProviderCreateSuccess",
                  "metric node cocoon_vk_hibernate_total{namespace,phase,result}", "metric node cocoon_vk_wake_total{result}",
                  "metric node cocoon_vk_snapshot_push_total{result}", "metric node cocoon_vk_vm_table_size{namespace}",
                  "metric node cocoon_vk_vm_memory_rss_bytes{vm,pod,namespace,backend}",
                  "metric operator cocoon_operator_hibernate_phase_duration_seconds{result}",
                  "metric operator cocoon_operator_wake_phase_duration_seconds{result}"]

        def all_shown():
            lines = self.cluster.observe()
            missing = [line for line in wanted if line not in lines]
            if missing:
                raise Mismatch(f"not shown: {'; '.join(missing)}")
            return True
        wait("what was done is told", 20, all_shown, 0.5)  # events follow the writes that they tell of

    def expositions_hold(self):
        for _, daemon in self.daemons():
            check_exposition(self.cluster.metrics(daemon))


def main():
    enter_namespace()
    directory = tempfile.mkdtemp(prefix="cocoon-observability.")
    cluster = Cluster(directory, os.environ.get("VARIANT", "release"), nodes=1)
    run = Run(cluster)
    try:
        cluster.start_servers()
        cluster.start_daemons()
        run.one("families that are there from the start", run.starts_with)
        run.one("a set sleeps and wakes, and one pod of it by itself", run.sleep_and_wake)
        run.one("events and metrics tell of it", run.tells_of_the_work)
        run.one("expositions hold together", run.expositions_hold)
        run.one("everything shown has a row in the document", run.all_documented)
    finally:
        keep = os.environ.get("KEEP") == "1"
        run.one("both daemons end well", lambda: check_exits(cluster.stop(remove=not keep)))
        if keep:
            print(f"kept: {directory}")
    print(f"observability on real servers: {run.passed} passed, {run.failed} failed")
    return 1 if run.failed else 0


def check_exits(statuses):
    bad = {name: status for name, status in statuses.items() if status != 0}
    if bad:
        raise Mismatch(str(bad))


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Each state machine of the operator on real servers with two simulated hosts: once plain, and once behind proxies that
break one request in five of both daemons towards API server and registry (test/cluster/fault_proxy.py). All stories run
side by side. A guest that was hibernated or moved must go on: its counter never goes back, its boot id stays.

usage: test/integration/test_faults.py [--plain|--broken] [--all | STORY...]   FAULT_SEED=n draws the same requests again

Without words all stories are played plain and four of them broken: a push that failed three times waits 30 s for its next
try, so that all of them (--all, make faults) take minutes."""
import concurrent.futures
import json
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/cluster"))
from api import Api  # noqa: E402
from cluster import Cluster, Daemon, Mismatch, enter_namespace, free_ports, wait  # noqa: E402

GROUP = "/apis/cocoonset.cocoonstack.io/v1/namespaces/default"
SETS, CRS, PODS = f"{GROUP}/cocoonsets", f"{GROUP}/cocoonhibernations", "/api/v1/namespaces/default/pods"
VM = "vm.cocoonstack.io/"
PATIENCE = int(os.environ.get("PATIENCE", "420"))  # a push that failed three times is tried again after 30 s
RATE = 0.2
# What the daemons use. A verb that never came, or was never broken, fails the test.
VERBS = {"api": ("GET", "LIST", "WATCH", "POST", "PUT", "PATCH", "DELETE"),
         "registry": ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")}


class Story:
    """One set and what is known about its guests."""

    def __init__(self, world, name):
        self.world, self.api, self.name, self.seen, self.left = world, world.api, name, {}, set()

    # --- reading ----------------------------------------------------------------------------------------------------
    def set(self):
        return self.api.get(f"{SETS}/{self.name}")

    def pods(self):
        return {p["metadata"]["name"]: p for p in self.api.get(PODS)["items"]
                if p["metadata"]["name"].startswith(self.name + "-")}

    def wait(self, what, probe):
        return wait(f"{self.name}: {what}", PATIENCE, probe, 0.3)

    def await_phase(self, phase):
        def reached():
            found = self.set()
            status = found.get("status", {})
            if status.get("phase") == phase and status.get("observedGeneration") == found["metadata"]["generation"]:
                return found
            raise Mismatch(f"phase {status.get('phase')}; " + "; ".join(
                f"{n}: {p['metadata'].get('annotations', {}).get(VM + 'lifecycle-state')}" for n, p in self.pods().items()))
        return self.wait(f"phase {phase}", reached)

    def where(self, vm_name):
        found = [n for n in self.world.nodes if n.vms().get(vm_name, {}).get("state") == "running"]
        if len(found) > 1:
            raise Mismatch(f"{vm_name} runs on {[n.name for n in found]}")
        return found[0] if found else None

    def vm_names(self):
        return {n: p["metadata"]["annotations"].get(VM + "name") for n, p in self.pods().items()
                if not p["metadata"].get("deletionTimestamp")}

    def check_guest(self, vm_name):
        """Reads the guest; it must be the one that was seen before, gone on."""
        node = self.where(vm_name)
        if not node:
            raise Mismatch(f"{vm_name} does not run")
        counter, boot_id = node.counter(vm_name), node.boot_id(vm_name)
        had, had_id = self.seen.get(vm_name, (0, boot_id))
        if boot_id != had_id:
            raise AssertionError(f"guest {vm_name} was booted anew")
        if counter < had:
            raise AssertionError(f"guest {vm_name} went back: {had} -> {counter}")
        self.seen[vm_name] = (counter, boot_id)
        return counter

    def running(self, static=()):
        """The set is Running and each of its guests goes on; gives the VM of the main agent."""
        self.await_phase("Running")
        names = self.vm_names()
        for pod, vm_name in names.items():
            if pod not in static:
                self.wait(f"guest {vm_name}", lambda vm_name=vm_name: self.check_guest(vm_name) + 1)
        return names[f"{self.name}-0"]

    def has_tag(self, vm_name):
        return "hibernate" in self.world.tags().get(vm_name, [])

    def gone(self, vm_names):
        for vm_name in vm_names:
            self.wait(f"{vm_name} is off all hosts",
                      lambda vm_name=vm_name: not any(vm_name in n.vms() for n in self.world.nodes))

    # --- acting -----------------------------------------------------------------------------------------------------
    def create(self, replicas=0, toolboxes=(), **spec):
        self.api.must("POST", SETS, {
            "apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonSet", "metadata": {"name": self.name},
            "spec": {"snapshotPolicy": "never", "toolboxes": list(toolboxes), **spec,
                     "agent": {"replicas": replicas, "image": "ubuntu:24.04", "mode": "run",
                               "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}}})
        vm_name = self.running({f"{self.name}-{t['name']}" for t in toolboxes if t.get("mode") == "static"})
        self.wait("the main guest has counted", lambda: self.check_guest(vm_name) >= 5)
        return vm_name

    def spec(self, **spec):
        self.api.merge(f"{SETS}/{self.name}", {"spec": spec})

    def cr(self, desire, phase):
        body = {"apiVersion": "cocoonset.cocoonstack.io/v1", "kind": "CocoonHibernation",
                "metadata": {"name": f"{self.name}-0"}, "spec": {"podRef": {"name": f"{self.name}-0"}, "desire": desire}}
        path = f"{CRS}/{self.name}-0"
        if self.api.get(path):
            self.api.merge(path, {"spec": {"desire": desire}})
        else:
            self.api.must("POST", CRS, body)

        def reached():
            found = self.api.get(path)
            status = found.get("status", {})
            if status.get("phase") == phase and status.get("observedGeneration") == found["metadata"]["generation"]:
                return True
            raise Mismatch(f"CocoonHibernation is {status.get('phase')}")
        self.wait(f"CocoonHibernation {phase}", reached)

    def delete(self):
        vm_names = set(self.vm_names().values()) | set(self.seen)
        self.api.must("DELETE", f"{SETS}/{self.name}")
        self.wait("deleted", lambda: self.set() is None)
        self.wait("no pods", lambda: not self.pods())
        self.gone(v for v in vm_names if v)
        for vm_name in vm_names:
            if vm_name and self.has_tag(vm_name):
                raise AssertionError(f"the tag {vm_name}:hibernate is left")


# --- the stories ---------------------------------------------------------------------------------------------------------
def retain(story):
    story.create(replicas=1, toolboxes=[{"name": "tb", "image": "toolbox:v1", "mode": "run"}])
    names = set(story.vm_names().values())
    story.spec(suspend=True)
    story.await_phase("Suspended")
    story.gone(names)
    if not all(story.has_tag(n) for n in names):
        raise AssertionError("Suspended without all tags")
    story.spec(suspend=False)
    story.running()
    for name in names:
        story.wait(f"{name}:hibernate is reclaimed", lambda name=name: not story.has_tag(name))
    story.delete()


def release(story):
    vm_name = story.create(hibernatePolicy="release")
    story.spec(suspend=True)
    story.await_phase("Suspended")
    story.wait("the pod is gone", lambda: not story.pods())
    story.gone([vm_name])
    story.spec(suspend=False)
    story.running()
    story.wait("the tag is reclaimed", lambda: not story.has_tag(vm_name))
    story.delete()


def migrate(story):
    vm_name = story.create()
    source = story.where(vm_name)
    target = next(n for n in story.world.nodes if n is not source)
    story.spec(nodeName=target.name)
    story.wait("the VM runs on the other node", lambda: story.where(vm_name) is target)
    story.running()
    if vm_name in source.vms():
        raise AssertionError(f"{vm_name} is left on {source.name}")
    story.wait("the tag is reclaimed", lambda: not story.has_tag(vm_name))
    story.delete()


def hibernation(story):
    vm_name = story.create()
    story.cr("Hibernate", "Hibernated")
    story.gone([vm_name])
    if not story.has_tag(vm_name):
        raise AssertionError("Hibernated without a tag")
    story.cr("Wake", "Active")
    story.running()
    story.api.must("DELETE", f"{CRS}/{story.name}-0")
    story.wait("the CocoonHibernation is gone", lambda: story.api.get(f"{CRS}/{story.name}-0") is None)
    story.running()
    story.delete()


def unsuspend(story):
    """The wish is taken back half-way."""
    vm_name = story.create(replicas=1)
    story.spec(suspend=True)
    story.wait("it has begun", lambda: any(
        p["metadata"]["annotations"].get(VM + "hibernate") == "true" for p in story.pods().values()))
    story.spec(suspend=False)
    story.running()
    story.wait("no tag is left", lambda: not story.has_tag(vm_name))
    story.delete()


def rebuild(story):
    vm_name = story.create(replicas=1)
    victim = story.pods()[f"{story.name}-1"]
    sub = victim["metadata"]["annotations"][VM + "name"]
    story.api.must("PATCH", f"{PODS}/{story.name}-1/status", {"status": {"phase": "Failed", "reason": "Evicted"}},
                   "application/merge-patch+json")
    story.seen.pop(sub)  # a new fork

    def replaced():
        pod = story.pods().get(f"{story.name}-1")
        return pod and pod["metadata"]["uid"] != victim["metadata"]["uid"]
    story.wait("the sub-agent is rebuilt", replaced)
    story.running()
    if vm_name not in story.seen:
        raise AssertionError("the main guest was not read")
    story.delete()


def delete_asleep(story):
    story.create(replicas=1, snapshotPolicy="always")
    story.spec(suspend=True)
    story.await_phase("Suspended")
    story.delete()


def toolboxes(story):
    run, static = {"name": "tb", "image": "toolbox:v1", "mode": "run"}, \
        {"name": "st", "mode": "static", "staticIP": "10.88.1.1", "staticVMID": "s-1"}  # the bridge answers pings
    story.create(toolboxes=[run, static])
    old = story.vm_names()[f"{story.name}-tb"]
    story.spec(toolboxes=[static, {**run, "name": "tc"}])
    story.wait("the old toolbox is gone, the new one there",
               lambda: {f"{story.name}-{n}" for n in ("0", "st", "tc")} == set(story.pods()))
    story.seen.pop(old)
    story.gone([old])
    story.running({f"{story.name}-st"})
    story.wait("two toolboxes are ready", lambda: story.set()["status"].get("readyToolboxes") == 2)
    story.delete()


STORIES = [retain, release, migrate, hibernation, unsuspend, rebuild, delete_asleep, toolboxes]
QUICK = [release, hibernation, unsuspend, rebuild]


# --- the world ---------------------------------------------------------------------------------------------------------
class Supervisor(threading.Thread):
    """A daemon that gives up at its start is started again, as a kubelet or systemd would; one that crashes fails."""

    def __init__(self, daemons):
        super().__init__(daemon=True)
        self.daemons, self.restarts, self.is_over = daemons, 0, threading.Event()
        self.crashed = []

    def run(self):
        while not self.is_over.wait(0.5):
            for daemon in self.daemons:
                if daemon.alive():
                    continue
                if daemon.process.returncode != 1:
                    self.crashed.append(f"{daemon.name} ended with status {daemon.process.returncode}")
                    return
                self.restarts += 1
                daemon.start()

    def end(self):
        self.is_over.set()
        self.join()
        return self.crashed


class World(Cluster):
    def daemons(self):
        return [self.operator] + [n.vk for n in self.nodes]

    def put_proxies(self, seed):
        """Both daemons start again, with the proxies between them and the servers."""
        for daemon in self.daemons():
            daemon.stop()
        api_port, registry_port = free_ports(2)
        secure = int((self.dir / "kube/apiserver.port").read_text())
        token = (self.dir / "kube/tokens.csv").read_text().split(",")[0]
        common = {"host": "127.0.0.1", "seed": seed, "rate": RATE}
        kinds = {"api": {"port": api_port, "upstream": secure, "ca": str(self.dir / "kube/certs/apiserver.crt"), "token": token},
                 "registry": {"port": registry_port, "upstream": int(self.registry_url.rsplit(":", 1)[1])}}
        self.proxies = {}
        for name, options in kinds.items():
            options = {"name": name, **common, **options, "report": str(self.dir / f"{name}.json")}
            self.proxies[name] = Daemon(f"proxy-{name}", [sys.executable, ROOT / "test/cluster/fault_proxy.py", json.dumps(options)],
                                        self.env, self.dir / f"proxy-{name}.log").start()
        broken = self.dir / "broken.kubeconfig"
        broken.write_text(f"""apiVersion: v1
kind: Config
clusters: [{{name: t, cluster: {{server: "http://127.0.0.1:{api_port}"}}}}]
users: [{{name: t, user: {{}}}}]
contexts: [{{name: t, context: {{cluster: t, user: t}}}}]
current-context: t
""")
        for daemon in self.daemons():
            daemon.env = dict(daemon.env, KUBECONFIG=str(broken), OCI_REGISTRY=f"127.0.0.1:{registry_port}/cocoon")
        time.sleep(0.5)
        for daemon in self.daemons():
            daemon.start()

    def reports(self):
        found = {}
        for name, proxy in self.proxies.items():
            proxy.stop()
            found[name] = json.loads((self.dir / f"{name}.json").read_text())
        return found


def play(world, stories, suffix):
    """All stories side by side; gives the names of those that failed."""
    began, failed = time.monotonic(), []
    supervisor = Supervisor(world.daemons())
    supervisor.start()

    def one(play_story):
        story = Story(world, play_story.__name__.replace("_", "-") + suffix)
        play_story(story)
        return time.monotonic() - began, story
    with concurrent.futures.ThreadPoolExecutor(len(stories)) as pool:
        futures = {pool.submit(one, s): s.__name__ for s in stories}
        for future in concurrent.futures.as_completed(futures):
            try:
                took, story = future.result()
                counters = ", ".join(f"{vm} {c}" for vm, (c, _) in sorted(story.seen.items()))
                print(f"  {futures[future]:14} {took:5.1f} s   {counters}", flush=True)
            except Exception as problem:
                print(f"  {futures[future]:14} FAILED: {problem!r}", flush=True)
                failed.append(futures[future])
    failed += supervisor.end()
    if supervisor.restarts:
        print(f"  daemons that gave up at their start and were started again: {supervisor.restarts}")
    return failed


def print_reports(reports):
    """The broken requests by verb; gives what was never broken."""
    missing = []
    for name, verbs in reports.items():
        for verb in VERBS[name]:
            entry = verbs.get(verb, {"seen": 0, "broken": {}})
            count = sum(entry["broken"].values())
            ways = ", ".join(f"{w} {c}" for w, c in sorted(entry["broken"].items()))
            print(f"  {name:8} {verb:6}  {entry['seen']:5} requests, {count:4} broken  ({ways})")
            if count == 0:
                missing.append(f"{name} {verb}")
    return missing


def main():
    words = sys.argv[1:]
    passes = [w for w in ("plain", "broken") if f"--{w}" in words] or ["plain", "broken"]
    wanted = [w for w in words if not w.startswith("--")]
    stories = [s for s in STORIES if not wanted or s.__name__ in wanted]
    seed = int(os.environ.get("FAULT_SEED") or time.time_ns() % 1000000)
    directory = tempfile.mkdtemp(prefix="cocoon-faults-")
    world = World(directory, os.environ.get("VARIANT") or "release", nodes=2)
    passed, failed = 0, []
    try:
        world.start_servers()
        world.start_daemons()
        world.api = Api(world.dir / "kube")
        for name in passes:
            print(f"{name}" + (f", one request in five broken, FAULT_SEED={seed}" if name == "broken" else ""), flush=True)
            if name == "broken":
                world.put_proxies(seed)
            chosen = QUICK if name == "broken" and not wanted and "--all" not in words else stories
            bad = play(world, chosen, "-" + name[0])
            passed, failed = passed + len(chosen) - len(bad), failed + bad
            if name == "broken":
                missing = print_reports(world.reports())
                if missing and not wanted:
                    failed.append("never broken: " + ", ".join(missing))
    except Mismatch as mismatch:
        failed.append(str(mismatch))
    try:
        world.stop(remove=False)
    except Mismatch as mismatch:
        failed.append(str(mismatch))
    if failed:
        print("FAILED:", "; ".join(failed), "\n" + world.logs_tail())
    if failed and os.environ.get("KEEP"):
        print("left for inspection:", directory)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"faults: {passed} passed, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    enter_namespace()
    main()

#!/usr/bin/env python3
"""What moves when a guest sleeps and wakes, on real servers with two simulated hosts: the registry's own access log tells
which blobs were fetched, and the counter inside the guest that nothing was lost. A blob other than the config blob of a
snapshot is guest data: a warm wake and a wake from a peer need none of it."""
import json
import os
import pathlib
import re
import sys
import tempfile
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from cluster import Cluster, Mismatch, enter_namespace, http_get, wait  # noqa: E402
from test_hibernation import NS, PATIENCE, Test, expect  # noqa: E402

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Snapshots(Test):
    def manifest(self, vm):
        url = f"{self.cluster.registry_url}/v2/cocoon/{vm}/manifests/hibernate"
        request = urllib.request.Request(url, headers={"Accept": MANIFEST})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def data_fetched(self, vm, manifest, since):
        """GETs of layers of the snapshot in the registry's access log from the position on."""
        log = pathlib.Path(self.cluster.registry.log).read_text(errors="replace")[since:]
        layers = {layer["digest"] for layer in manifest["layers"]}
        found = re.findall(rf'"GET /v2/cocoon/{vm}/blobs/(sha256:[0-9a-f]+) ', log)
        if not re.search(rf'"GET /v2/cocoon/{vm}/manifests/hibernate ', log):
            raise Mismatch("the registry keeps no access log, or nobody read the manifest")
        return [digest for digest in found if digest in layers]

    def log_position(self):
        return len(pathlib.Path(self.cluster.registry.log).read_text(errors="replace"))

    def node_metric(self, node, name):
        text = http_get(f"http://127.0.0.1:{node.metrics_port}/metrics")
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))

    def asleep(self, name):
        """A set that sleeps and has given its seat back; its VM, node, counter and manifest."""
        vm = self.apply_set(name, hibernatePolicy="release")
        node, before = self.where(vm), self.counter(vm)
        self.cluster.patch("cocoonset", name, {"spec": {"suspend": True}}, NS)
        self.wait_set(name, "Suspended")
        wait("the pod is gone", PATIENCE, lambda: f"{name}-0" not in self.cluster.pods(NS), 0.2)
        return vm, node, before, self.manifest(vm)

    def wake(self, name, vm, before, **spec):
        self.cluster.patch("cocoonset", name, {"spec": {"suspend": False, **spec}}, NS)
        self.wait_set(name, "Running")
        after = self.counter(vm)
        if after < before:
            raise Mismatch(f"the guest of {name}-0 went back: {before} -> {after}")
        print(f"  {name}: counter {before} -> {after} on {self.where(vm).name}", flush=True)
        return self.where(vm)

    # --- cases --------------------------------------------------------------------------------------------------------
    def warm(self):
        vm, node, before, manifest = self.asleep("warm")
        since = self.log_position()
        expect("node", self.wake("warm", vm, before).name, node.name)
        expect("layers fetched by a warm wake", self.data_fetched(vm, manifest, since), [])
        self.delete_set("warm", vm)

    def other(self, node):
        return next(n for n in self.cluster.nodes if n is not node)

    def peer(self):
        vm, node, before, manifest = self.asleep("peer")
        target, since = self.other(node), self.log_position()
        expect("node", self.wake("peer", vm, before, nodeName=target.name).name, target.name)
        expect("layers fetched by a wake from a peer", self.data_fetched(vm, manifest, since), [])
        expect("peer restores", self.node_metric(target, 'cocoon_vk_snapshot_peer_restore_total{result="ok"}'), 1)
        expect("staging directory", [p.name for p in (target.dir / "staging").iterdir()], ["spool"])
        # It sleeps and wakes on as any other guest.
        before = self.counter(vm)
        self.cluster.patch("cocoonset", "peer", {"spec": {"suspend": True}}, NS)
        self.wait_set("peer", "Suspended")
        self.wake("peer", vm, before)
        self.delete_set("peer", vm)

    def migration(self):
        """A running main that is pinned elsewhere takes its memory along from node to node: of the registry it asks what
        the snapshot is (a manifest and its config blob), not for the guest's data."""
        vm = self.apply_set("travel")
        source, before, since = self.where(vm), self.counter(vm), self.log_position()
        target = self.other(source)
        restored = 'cocoon_vk_snapshot_peer_restore_total{result="ok"}'
        count = self.node_metric(target, restored)
        self.cluster.patch("cocoonset", "travel", {"spec": {"nodeName": target.name}}, NS)
        self.wait_set("travel", "Migrating")
        self.wait_set("travel", "Running")
        expect("node", self.where(vm).name, target.name)
        after = self.counter(vm)
        if after < before:
            raise Mismatch(f"the guest of travel-0 went back: {before} -> {after}")
        print(f"  travel: counter {before} -> {after}, {source.name} -> {target.name}", flush=True)
        log = pathlib.Path(self.cluster.registry.log).read_text(errors="replace")[since:]
        pushed = re.findall(rf'"PUT /v2/cocoon/{vm}/blobs/uploads/', log)
        fetched = set(re.findall(rf'"GET /v2/cocoon/{vm}/blobs/(sha256:[0-9a-f]+) ', log))
        if len(pushed) < 3:
            raise Mismatch(f"a snapshot of {len(pushed)} blobs was pushed: the registry's log shows no migration")
        if len(fetched) > 1:
            raise Mismatch(f"{len(fetched)} blobs were fetched, only the config blob is needed: {sorted(fetched)}")
        expect("peer restores", self.node_metric(target, restored), count + 1)
        self.delete_set("travel", vm)

    def peer_without_the_files(self):
        vm, node, before, manifest = self.asleep("lost")
        for name in list(node.snapshots()):
            node.cocoon("snapshot", "rm", name)
        target, since = self.other(node), self.log_position()
        expect("node", self.wake("lost", vm, before, nodeName=target.name).name, target.name)
        expect("every layer fetched", sorted(set(self.data_fetched(vm, manifest, since))),
               sorted({layer["digest"] for layer in manifest["layers"]}))
        failed = 'cocoon_vk_snapshot_peer_restore_total{result="failed"}'
        expect("peer restores that failed", self.node_metric(target, failed), 1)
        expect("staging directory", [p.name for p in (target.dir / "staging").iterdir()], ["spool"])
        self.delete_set("lost", vm)

    def compressed(self):
        """The second node writes v2 from now on; the first one reads it."""
        writer, reader = self.cluster.nodes[1], self.cluster.nodes[0]
        writer.vk.stop()
        writer.vk.env.update(SNAPSHOT_ZSTD_LEVEL="3", SNAPSHOT_CHUNK_SIZE_MIB="1")
        writer.vk.start()
        wait("the node is back", PATIENCE, lambda: self.cluster.node_is_ready(writer.name))
        vm = self.apply_set("small", hibernatePolicy="release", nodeName=writer.name)
        before = self.counter(vm)
        self.cluster.patch("cocoonset", "small", {"spec": {"suspend": True}}, NS)
        self.wait_set("small", "Suspended")
        manifest = self.manifest(vm)
        types = {layer["mediaType"] for layer in manifest["layers"]}
        if "snapshot.v2+json" not in manifest["artifactType"] or not any(t.endswith("+zstd") for t in types):
            raise Mismatch(f"not compressed: {manifest['artifactType']}, {types}")
        for name in list(writer.snapshots()):
            writer.cocoon("snapshot", "rm", name)
        since = self.log_position()
        expect("node", self.wake("small", vm, before, nodeName=reader.name).name, reader.name)
        if not self.data_fetched(vm, manifest, since):
            raise Mismatch("nothing was pulled")
        self.delete_set("small", vm)


def main():
    enter_namespace()
    directory = tempfile.mkdtemp(prefix="cocoon-snapshots-")
    cluster = Cluster(directory, os.environ.get("VARIANT") or "release", nodes=2)
    failed, passed = None, 0
    try:
        cluster.start_servers()
        cluster.start_daemons()
        test = Snapshots(cluster)
        for case in (test.warm, test.peer, test.migration, test.peer_without_the_files, test.compressed):
            print(case.__name__, flush=True)
            case()
            passed += 1
    except (Mismatch, KeyError) as problem:
        failed = problem
        print(f"FAILED: {problem!r}\n{cluster.logs_tail()}", file=sys.stderr)
    finally:
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

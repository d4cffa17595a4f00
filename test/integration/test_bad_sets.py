#!/usr/bin/env python3
"""Sets that make no sense and registries that answer nonsense, against real servers: the object itself says what is wrong
(an event with the reason ReconcileFailed, or its pod's), a set beside it is not disturbed, nothing is lost, and the cure
heals it.

usage: test/integration/test_bad_sets.py [WORD...]     only the cases whose name contains one of the words

VARIANT chooses the build (default release), KEEP=1 leaves logs and state behind."""
import http.server
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "test/cluster"), str(ROOT / "test/integration")]
sys.dont_write_bytecode = True
import test_bad_input as bad  # noqa: E402
from cluster import Mismatch, enter_namespace, wait  # noqa: E402

CASES = []
SHELL = {"name": "shell", "image": "toolbox:v1", "mode": "run"}
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/cocoonsets.cocoonset.cocoonstack.io"


def case(function):
    CASES.append(function)
    return function


def told(lane, name, *patterns, reason="ReconcileFailed", patience=20):
    """An event on that object, not only a line in some log."""
    def probe():
        for event in lane.api.get("/api/v1/namespaces/default/events?limit=2000")["items"]:
            if event["involvedObject"]["name"] == name and event["reason"] == reason and \
                    all(re.search(pattern, event["message"]) for pattern in patterns):
                return event
        return None
    return wait(f"event {reason} of {name} that says {patterns}", patience, probe, 0.3)


def bystander(lane):
    """A set of its own that must go on whatever happens to the other one."""
    if not lane.set("beside"):
        lane.create("beside")
    lane.settled("beside", "Running")


def still_works(lane):
    before = lane.count(lane.vm_of("beside-0"))
    lane.suspend("beside", True, "Suspended")
    lane.suspend("beside", False, "Running")
    if lane.count(lane.vm_of("beside-0")) < before:
        raise Mismatch("the set beside it went back")


@case
def toolbox_named_by_a_number(lane):
    bystander(lane)
    lane.create("odd")
    vm_name, before = lane.vm_of("odd-0"), lane.count(lane.vm_of("odd-0"))
    status, answer = lane.api.call("PATCH", f"{bad.SETS}/odd", {"spec": {"toolboxes": [dict(SHELL, name="7")]}},
                                   "application/merge-patch+json")
    if status >= 300:
        raise Mismatch(f"the schema took it upon itself: {answer.get('message')}")
    told(lane, "odd", 'toolbox name "7"', "must not be an integer")
    still_works(lane)
    lane.api.merge(f"{bad.SETS}/odd", {"spec": {"toolboxes": [SHELL]}})
    lane.settled("odd", "Running")
    if lane.count(vm_name) < before:
        raise Mismatch("the guest went back")
    lane.delete("odd")


@case
def duplicate_toolboxes_show_on_the_set(lane):
    bystander(lane)
    lane.create("twice")
    status, answer = lane.api.call("PATCH", f"{bad.SETS}/twice", {"spec": {"toolboxes": [SHELL, SHELL]}},
                                   "application/merge-patch+json")
    if status < 300:
        told(lane, "twice", "duplicate toolbox name", "shell")
        lane.check_guests("twice")
        still_works(lane)
    elif "uplicate" not in answer["message"]:
        raise Mismatch(f"refused without a reason: {answer['message']}")
    lane.delete("twice")


@case
def a_name_too_long_for_a_label(lane):
    """The API server takes the set, but not the pods that it would need: their label would be too long."""
    bystander(lane)
    name = "long-" + "x" * 70
    lane.create(name, wait_for=None)
    told(lane, name, "63")
    still_works(lane)
    lane.delete(name)


@case
def a_colliding_pod_shows_on_the_set(lane):
    bystander(lane)
    lane.create("tools")
    lane.api.must("POST", bad.PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tools-shell"},
                                     "spec": {"nodeName": "elsewhere", "containers": [{"name": "c", "image": "x"}]}})
    lane.api.merge(f"{bad.SETS}/tools", {"spec": {"toolboxes": [SHELL]}})
    told(lane, "tools", "name collision with existing pod default/tools-shell")
    still_works(lane)
    lane.api.must("DELETE", f"{bad.PODS}/tools-shell?gracePeriodSeconds=0")
    wait("the toolbox", 60, lambda: "tools-shell" in lane.pods_of("tools"))
    lane.settled("tools", "Running")
    lane.delete("tools")


@case
def values_of_a_newer_crd(lane):
    """The CustomResourceDefinition of a later version knows policies and modes that this operator does not."""
    bystander(lane)
    crd = lane.api.get(CRD)
    before = crd["spec"]
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["hibernatePolicy"].pop("enum", None)
    spec["properties"]["snapshotPolicy"].pop("enum", None)
    spec["properties"]["agent"]["properties"]["mode"].pop("enum", None)
    crd["metadata"].pop("managedFields", None)
    lane.api.must("PUT", CRD, crd)
    try:
        def create():
            lane.create("newer", wait_for=None, policy="sometimes", hibernatePolicy="hoard")
            return True
        wait("the newer schema", 20, create, 0.5)
        lane.settled("newer", "Running")
        vm_name, count = lane.vm_of("newer-0"), lane.count(lane.vm_of("newer-0"))
        # An unknown policy keeps what there is: the pod and its seat.
        lane.suspend("newer", True, "Suspended")
        if not lane.pod("newer-0"):
            raise Mismatch("the pod was released by a policy that nobody knows")
        lane.suspend("newer", False, "Running")
        if lane.count(vm_name) < count:
            raise Mismatch("the guest went back")
        lane.create("warped", wait_for=None)
        lane.api.merge(f"{bad.SETS}/warped", {"spec": {"agent": {"mode": "warp", "image": "no-such/thing:v9"}}})
        told(lane, "warped-0", "no-such/thing", reason="CreateBringUpFailed", patience=40)
        still_works(lane)
        lane.api.merge(f"{bad.SETS}/warped", {"spec": {"agent": {"mode": "run", "image": "ubuntu:24.04"}}})
        lane.settled("warped", "Running", 90)
        lane.delete("warped")
        lane.delete("newer")
    finally:
        latest = lane.api.get(CRD)
        latest["spec"] = before
        lane.api.must("PUT", CRD, latest)


# --- registries that answer nonsense ----------------------------------------------------------------------------------
class FakeRegistry:
    """In the place of the real one, on its port, until the end of the block."""

    def __init__(self, world, status, body=b"", headers=()):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                is_ping = self.path == "/v2/"
                self.send_response(200 if is_ping else status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", "2" if is_ping else str(len(body)))
                self.send_header("Connection", "close")  # nobody stays with it once the real one is back
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(b"{}" if is_ping else body)
            do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = answer

            def log_message(self, *words):
                pass
        self.world, self.handler = world, Handler

    def __enter__(self):
        self.world.registry.kill()
        address = ("127.0.0.1", int(self.world.registry_url.rsplit(":", 1)[1]))
        http.server.ThreadingHTTPServer.allow_reuse_address = True
        self.server = http.server.ThreadingHTTPServer(address, self.handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        bad.RegistryConfig(self.world).start()


def wake_through(lane, name, *patterns, **fake):
    """A main that must be restored while its registry talks nonsense: it waits, says why, and comes back afterwards."""
    lane.create(name, hibernatePolicy="release")
    vm_name = lane.vm_of(f"{name}-0")
    before = lane.count(vm_name)
    lane.suspend(name, True, "Suspended")
    wait("the seat is released", 30, lambda: lane.pod(f"{name}-0") is None)
    with FakeRegistry(lane.world, **fake):
        lane.suspend(name, False)
        told(lane, name, vm_name, *patterns, patience=60)
        if lane.pod(f"{name}-0"):
            raise Mismatch("a pod was made without knowing whether there is a snapshot")
        if not lane.api.get("/readyz") and not lane.world.operator.alive():
            raise Mismatch("the operator ended")
    if "hibernate" not in lane.world.tags().get(vm_name, []):
        raise Mismatch("the tag is gone")
    lane.settled(name, "Running", 120)
    if lane.count(vm_name) < before:
        raise Mismatch("the guest went back")
    wait("no tag", 60, lambda: vm_name not in lane.world.tags())
    lane.delete(name)


@case
def a_registry_that_limits_the_rate(lane):
    wake_through(lane, "limited", "429", status=429, headers=[("Retry-After", "1")],
                 body=b'{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}')


@case
def a_registry_that_denies(lane):
    wake_through(lane, "denied", "403", status=403, body=b'{"errors":[{"code":"DENIED","message":"go away"}]}')


@case
def a_registry_of_garbage(lane):
    wake_through(lane, "garbled", "manifest|JSON", status=200, body=b"\x00\xff<html>" * 20,
                 headers=[("Content-Type", "text/html")])


def main():
    wanted = sys.argv[1:]
    cases = [function for function in CASES if not wanted or any(word in function.__name__ for word in wanted)]
    directory = pathlib.Path(tempfile.mkdtemp(prefix="cocoon-bad-sets-"))
    report = bad.Report()
    bad.run_world(directory / "world", {"sets": cases}, 1, report)
    failed = [name for name, problem in report.results if problem]
    if os.environ.get("KEEP"):
        print("left for inspection:", directory)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"bad-sets: {len(report.results) - len(failed)} passed, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    enter_namespace()
    main()

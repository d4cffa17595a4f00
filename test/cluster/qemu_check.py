#!/usr/bin/env python3
"""make qemu-check: cocoon-sim with real guests (test/cocoon-sim/qemu.c), without a cluster: two hosts, each a folder and a
bridge. Ends with `N passed, M failed`; no guest and no tap is left."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from cluster import REPO, Mismatch, enter_namespace, http_get, wait
from real_guests import answers_ping, assets
from scenario import expect

PATIENCE = 60


class Host:
    def __init__(self, directory, number, sim):
        self.root, self.sim, self.subnet = directory / f"host-{number}", sim, f"10.88.{number}"
        self.env = dict(os.environ, COCOON_ROOT_DIR=str(self.root), COCOON_SIM_BRIDGE=f"qemu{number}",
                        COCOON_SIM_SUBNET=self.subnet)

    def run(self, *words, **options):
        return subprocess.run([self.sim, *words], env=self.env, check=False, stderr=subprocess.PIPE, timeout=120,
                              **{"stdout": subprocess.PIPE, **options})

    def cocoon(self, *words):
        done = self.run(*words)
        if done.returncode:
            raise Mismatch(f"cocoon {' '.join(words)}: {done.stderr.decode().strip()}")
        return done.stdout.decode()

    def ask(self, vm, *words):
        return self.cocoon("vm", "exec", vm, "--", *words).strip()

    def counter(self, vm):
        return int(self.ask(vm, "counter"))

    def record(self, vm):
        return json.loads(self.cocoon("vm", "inspect", vm))

    def vms(self):
        return [vm["config"]["name"] for vm in json.loads(self.cocoon("vm", "list", "-o", "json"))]


class Check:
    """The cases build on each other, in this order."""

    def __init__(self, directory, sim):
        self.one, self.two = Host(directory, 1, sim), Host(directory, 2, sim)
        self.boot_id, self.seen = "", 0

    def goes_on(self, host, vm):
        expect(f"boot id of {vm}", host.ask(vm, "boot-id"), self.boot_id)
        counter = host.counter(vm)
        if counter < self.seen:
            raise Mismatch(f"{vm} went back: {counter} after {self.seen}")
        return counter

    def boots_and_answers(self):
        self.one.cocoon("image", "pull", "linux")
        self.one.cocoon("vm", "run", "--name", "main", "linux")
        wait("an answer to a ping", PATIENCE, lambda: answers_ping("10.88.1.10"))
        self.boot_id, self.seen = self.one.ask("main", "boot-id"), self.one.counter("main")
        if int(http_get("http://10.88.1.10:8080/")) < self.seen:
            raise Mismatch("HTTP tells an older count than the agent")

    def runs_commands_in_the_guest(self):
        expect("echo", self.one.ask("main", "echo", "a", "b"), "a b")
        expect("address", self.one.ask("main", "address"), "10.88.1.10")
        expect("exit status", self.one.run("vm", "exec", "main", "--", "exit", "7").returncode, 7)
        done = self.one.run("vm", "exec", "main", "--", "frobnicate")
        expect("unknown command", (done.returncode, done.stderr), (127, b"frobnicate: command not found\n"))

    def tells_its_console(self):
        expect("first line", self.one.cocoon("vm", "logs", "main").split("boot id ")[1].split()[0], self.boot_id)
        expect("lines of --tail 1", len(self.one.cocoon("vm", "logs", "--tail", "1", "main").splitlines()), 1)
        expect("lines of --tail 0", self.one.cocoon("vm", "logs", "--tail", "0", "main"), "")

    def is_saved_and_runs_on(self):
        self.one.cocoon("snapshot", "save", "--name", "saved", "main")
        self.seen = self.goes_on(self.one, "main")
        [folder] = (self.one.root / "snapshot/localfile").iterdir()
        expect("files of the snapshot", sorted(path.name for path in folder.iterdir()),
               ["cocoon.json", "config.json", "cow.raw", "memory-ranges", "state.json"])
        if (folder / "memory-ranges").stat().st_size < 32 << 20:
            raise Mismatch("the saved memory is smaller than a Linux that has booted")
        again = self.one.run("snapshot", "save", "--name", "saved", "main")
        expect("a name twice", (again.returncode, b"already exists" in again.stderr), (1, True))

    def forks_beside_its_source(self):
        self.seen = 0  # of an earlier moment than what the source has counted since
        self.one.cocoon("vm", "clone", "--name", "fork", "saved")
        self.goes_on(self.one, "fork")
        for vm, address in (("main", "10.88.1.10"), ("fork", "10.88.1.11")):
            expect(f"address of {vm}", self.one.ask(vm, "address"), address)
            wait(f"{vm} answers", PATIENCE, lambda address=address: answers_ping(address))
            http_get(f"http://{address}:8080/")

    def goes_on_elsewhere(self):
        self.seen = self.one.counter("main")
        self.one.cocoon("snapshot", "save", "--name", "moved", "main")
        self.one.cocoon("vm", "rm", "--force", "main")
        expect("the old address answers", answers_ping("10.88.1.10"), False)
        archive = self.one.root / "archive"
        with open(archive, "wb") as out:
            expect("export", self.one.run("snapshot", "export", "moved", "-o", "-", stdout=out).returncode, 0)
        with open(archive, "rb") as source:
            expect("import", self.two.run("snapshot", "import", "--name", "moved", stdin=source).returncode, 0)
        self.two.cocoon("vm", "clone", "--name", "main", "moved")
        self.seen = self.goes_on(self.two, "main")
        wait("the new address answers", PATIENCE, lambda: answers_ping("10.88.2.10"))
        expect("console after the wake", bool(re.search(r"guest: address 10\.88\.2\.10, counter \d+",
                                                        self.two.cocoon("vm", "logs", "main"))), True)

    def refuses_a_damaged_memory(self):
        [folder] = (self.two.root / "snapshot/localfile").iterdir()
        os.truncate(folder / "memory-ranges", 1 << 20)
        done = self.two.run("vm", "clone", "--name", "damaged", "moved")
        expect("a clone of half a memory", (done.returncode, b"cannot be restored" in done.stderr or
                                            b"does not start" in done.stderr), (1, True))
        expect("outcome", json.loads(self.two.cocoon("vm", "reconcile-stale-create", self.record_id("damaged"), "-o", "json"))
               ["outcome"], "collected")
        self.goes_on(self.two, "main")

    def record_id(self, vm):
        return self.two.record(vm)["id"]

    def is_silent_when_it_dies(self):
        os.kill(self.two.record("main")["pid"], 9)
        wait("the VM is stale", PATIENCE, lambda: self.two.record("main")["state"] == "stopped (stale)")
        expect("a dead guest answers", answers_ping("10.88.2.10"), False)
        self.two.cocoon("vm", "start", "main")
        wait("it boots anew", PATIENCE, lambda: answers_ping("10.88.2.10"))
        expect("the boot id is another", self.two.ask("main", "boot-id") == self.boot_id, False)

    def leaves_nothing(self):
        for host in (self.one, self.two):
            for vm in host.vms():
                host.cocoon("vm", "rm", "--force", vm)
        links = subprocess.run(["ip", "-br", "link"], check=True, stdout=subprocess.PIPE, text=True).stdout
        expect("taps", re.findall(r"^tap\S+", links, re.M), [])

    cases = [boots_and_answers, runs_commands_in_the_guest, tells_its_console, is_saved_and_runs_on, forks_beside_its_source,
             goes_on_elsewhere, refuses_a_damaged_memory, is_silent_when_it_dies, leaves_nothing]


def main():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="cocoon-qemu-"))
    check = Check(directory, REPO / "build" / (os.environ.get("VARIANT") or "release") / "cocoon-sim")
    passed = failed = 0
    try:
        for case in check.cases:
            try:
                case(check)
                passed += 1
                print(f"ok   {case.__name__}", flush=True)
            except (Mismatch, OSError, ValueError, LookupError, subprocess.SubprocessError) as problem:
                failed += 1
                print(f"FAIL {case.__name__}: {type(problem).__name__}: {problem}", flush=True)
                break  # the rest builds on it
    finally:
        for host in (check.one, check.two):
            for vm in host.vms():
                host.run("vm", "rm", "--force", vm)
        shutil.rmtree(directory, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if "COCOON_SIM_GUEST" not in os.environ:
        os.environ.update(assets())
    enter_namespace()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends clean as Ctrl-C does
    sys.exit(main())

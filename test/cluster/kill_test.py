"""make kill-test [KILLS=40] [NODE=1]: kill -9 of either daemon (NODE=1: of vk-cocoon only) in each stage of the main job, on
real servers. After every kill the daemon is started again, the stage must still come true, no guest's counter may go
back and no VM may exist twice.

Half of the kills of vk-cocoon strike at a drawn moment, the others in the middle of a drawn call of the CLI, so that
boots, saves, pushes (`snapshot export`), clones and removes are all hit. Each line says what was cut
off, the end how often each was."""
import collections
import os
import pathlib
import random
import shutil
import sys
import tempfile
import threading
import time

from cluster import Cluster, Mismatch, enter_namespace, wait
from scenario import Scenario, describe_failure


# Calls that change something, by the stage in which the node agent makes them.
CALLS = {"create": ("vm run", "snapshot save", "vm clone"), "suspend": ("snapshot save", "snapshot export", "vm rm"),
         "wake": ("vm clone",), "scale up": ("vm clone",),
         "scale down": ("vm rm",), "delete": ("vm rm", "snapshot rm")}
AIM_S = 8  # a call that is not made within that time is not waited for any longer


def calls_of(pid):
    """The CLI calls that a daemon has running: "snapshot export"."""
    found = []
    for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in children.read_text().split():
                words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace").split("\0")
                call = " ".join(words[1:3])
                if call and call != "vm status":  # the event stream runs all the time
                    found.append(call)
        except OSError:
            pass  # it ended under our eyes
    return found


class Killer(threading.Thread):
    """Kills one daemon a moment after its stage has begun, or in the middle of a call, and starts it again."""

    def __init__(self, number, cluster, scenario, stage, daemon, delay, pause, aim=None):
        super().__init__(daemon=True)
        self.number, self.cluster, self.scenario, self.stage = number, cluster, scenario, stage
        self.victim, self.delay, self.pause, self.aim = daemon, delay, pause, aim
        self.problem, self.hit = None, "-"

    def take_aim(self):
        """The calls that run when the one that is aimed at does."""
        end = time.monotonic() + AIM_S
        while self.aim not in (calls := calls_of(self.victim.pid)) and time.monotonic() < end:
            time.sleep(0.001)
        return calls

    def main_counter(self):
        """Counter of the main agent's guest, None when it has none right now."""
        for name, (node, record) in self.scenario.host_vms().items():
            if name.startswith("vk-default-demo-0-") and record["state"] == "running":
                try:
                    return node.counter(name)
                except (Mismatch, ValueError):
                    return None
        return None

    def run(self):
        try:
            before, old = None, self.victim.pid
            if self.aim:
                calls = self.take_aim()
            else:
                time.sleep(self.delay)
                before, calls = self.main_counter(), calls_of(old)
            if not self.victim.alive():
                raise Mismatch(f"{self.victim.name} was not running: status {self.victim.process.returncode}")
            self.hit = ", ".join(sorted(set(calls))) or "-"
            self.victim.kill()
            time.sleep(self.pause)
            self.victim.start()
            after = self.main_counter()
            print(f"kill {self.number:3}  stage {self.stage:10}  {self.victim.name:15}  pid {old} -> {self.victim.pid}  cut off: {self.hit:16}"
                  f"  guest counter {before if before is not None else '-'} -> {after if after is not None else '-'}",
                  flush=True)
            if before is not None and after is not None and after < before:
                raise Mismatch(f"the main guest went back from {before} to {after}")
        except Exception as problem:
            self.problem = problem


def one_round(cluster, scenario, numbers, random_source, hits):
    """Walks the stages with one kill each; operator and node take turns. Counts in hits what was cut off."""
    for name, stage in scenario.stages:
        number = next(numbers, None)
        killer = None
        if number is not None:
            # Six stages a round: turning the order each round gives every stage both victims.
            turn = (number + (number - 1) // len(scenario.stages)) % 2
            daemon = cluster.operator if turn and not os.environ.get("NODE") else cluster.nodes[0].vk
            delay, pause = random_source.uniform(0, 2.5), random_source.uniform(0, 0.5)
            aim = random_source.choice(CALLS[name]) if random_source.random() < 0.5 else None
            killer = Killer(number, cluster, scenario, name, daemon, delay, pause,
                            aim if daemon is not cluster.operator else None)
            killer.start()
        stage()
        if killer:
            killer.join(timeout=60)
            if killer.problem:
                raise Mismatch(f"kill {killer.number} in stage {name}: {killer.problem}")
            hits[name, killer.hit] += 1
        scenario.check_one_of_each()
        scenario.read_counters()


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    seed = int(os.environ.get("KILL_SEED") or time.time_ns() % 1000000)
    os.environ.setdefault("COCOON_SIM_MEMORY_MIB", "64")  # a push that lasts long enough to be hit
    print(f"seed {seed} (KILL_SEED={seed} draws the same moments)", flush=True)
    directory = tempfile.mkdtemp(prefix="cocoon-kill-")
    cluster = Cluster(directory, os.environ.get("VARIANT") or "release")
    random_source, numbers, rounds, failed = random.Random(seed), iter(range(1, kills + 1)), 0, None
    hits = collections.Counter()
    try:
        cluster.start_servers()
        cluster.start_daemons()
        while rounds * len(Scenario(cluster).stages) < kills:
            rounds += 1
            scenario = Scenario(cluster, lambda text: None, patience=150, may_leave_leases=True)
            one_round(cluster, scenario, numbers, random_source, hits)
            print(f"round {rounds}: the demo ended right", flush=True)
        wait("the node is Ready at the end", 30, lambda: cluster.node_is_ready(cluster.nodes[0].name))
    except Mismatch as mismatch:
        failed = mismatch
        print(f"\nMISMATCH: {mismatch}\n{describe_failure(cluster)}", flush=True)
    try:
        cluster.stop(remove=False)
    except Mismatch as mismatch:
        failed = failed or mismatch
    if failed and os.environ.get("KEEP"):
        print("left for inspection:", directory)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    for (stage, call), count in sorted(hits.items()):
        print(f"  {count:3} kills in stage {stage}, cut off: {call}")
    print(f"kill-test: {0 if failed else kills} passed, {1 if failed else 0} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    enter_namespace()
    main()

"""make demo: the main job on real servers, narrated. Every value that it prints was read back and compared; a mismatch ends
it with exit 1. KEEP=1 leaves everything running. VARIANT=asan uses the sanitizer build. GUEST=qemu: two hosts with real
guests (real_guests.py)."""
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from cluster import Cluster, Mismatch, enter_namespace
from real_guests import RealGuests, assets, kubelet_access
from scenario import Scenario, describe_failure

STATE = pathlib.Path(os.environ.get("XDG_RUNTIME_DIR", tempfile.gettempdir())) / f"cocoon-demo-{os.getuid()}"


def say(text):
    print(f"[{time.monotonic() - started:5.1f} s] {text}", flush=True)


def guests(directory):
    """(pid, start time) of the guests by the hosts' records: some were born after the demo had recorded its processes."""
    found = []
    for path in pathlib.Path(directory).glob("*/cocoon/sim/vms/*.json"):
        vm = json.loads(path.read_text())
        found.append((vm.get("pid"), str(vm.get("sim", {}).get("start_ticks"))))
    return found


def stop_kept():
    """make demo-stop: ends what `make demo KEEP=1` left, by its recorded pids."""
    try:
        kept = json.loads((STATE / "kept.json").read_text())
    except FileNotFoundError:
        return print("nothing was kept")
    for pid, start in kept["processes"] + guests(kept["dir"]):
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19] == start:
                os.kill(pid, signal.SIGKILL)
        except (OSError, IndexError):
            pass
    shutil.rmtree(kept["dir"], ignore_errors=True)
    shutil.rmtree(STATE, ignore_errors=True)
    print("ended and removed", kept["dir"])


def show_environment():
    """make demo-env: what a shell needs to talk to the kept cluster."""
    try:
        kept = json.loads((STATE / "kept.json").read_text())
    except FileNotFoundError:
        return "nothing was kept: make demo KEEP=1"
    for name, value in kept["environment"].items():
        print(f'export {name}="{value}"')
    return 0


def keep(cluster):
    kubeconfig = cluster.forward()
    processes = []
    for pid in cluster.pids():
        try:
            processes.append((pid, pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]))
        except OSError:
            pass
    STATE.mkdir(exist_ok=True)
    kubectl = cluster.env["PATH"].split(":")[0]
    environment = {"KUBECONFIG": str(kubeconfig), "PATH": f"{kubectl}:{cluster.build}:$PATH"}
    (STATE / "kept.json").write_text(json.dumps({"dir": str(cluster.dir), "processes": processes, "environment": environment}))
    print(f"""
Everything keeps running. Here or in another shell:
  eval "$(make -s demo-env)"
  kubectl get cocoonset,pods,nodes -o wide
  kubectl cocoon status
  kubectl describe cocoonset demo
  kubectl patch cocoonset demo --type=merge -p '{{"spec":{{"suspend":true}}}}'     # hibernate all of it
  kubectl patch cocoonset demo --type=merge -p '{{"spec":{{"suspend":false}}}}'    # and wake it
Logs are in {cluster.dir}. End it with: make demo-stop""")


def main():
    variant = os.environ.get("VARIANT") or "release"
    directory = tempfile.mkdtemp(prefix="cocoon-demo-")
    kept = bool(os.environ.get("KEEP"))
    real = os.environ.get("GUEST") == "qemu"
    if real:
        os.environ["KUBE_APISERVER_FLAGS"] = kubelet_access(directory)
    cluster = Cluster(directory, variant, nodes=2 if real else 1)
    failed = None
    try:
        say("starting etcd, kube-apiserver, controller-manager, scheduler and a registry")
        cluster.start_servers()
        say("starting cocoon-operator, and two VM hosts with vk-cocoon" if real else
            "starting cocoon-operator, vk-cocoon and a simulated VM host")
        cluster.start_daemons()
        patience = int(os.environ.get("DEMO_PATIENCE", "180" if real else "60"))
        scenario = (RealGuests if real else Scenario)(cluster, say, patience)
        for name, stage in scenario.stages:
            if kept and name in ("scale up", "delete"):
                break
            stage()
        for daemon in [cluster.operator] + [node.vk for node in cluster.nodes]:
            if not daemon.alive():
                raise Mismatch(f"{daemon.name} ended by itself with status {daemon.process.returncode}")
        say("the demo went right")
    except Mismatch as mismatch:
        failed = mismatch
        print(f"\nMISMATCH: {mismatch}\n", flush=True)
        print(describe_failure(cluster), flush=True)
    except KeyboardInterrupt:
        failed = "interrupted"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # what was started is ended first
    if kept and not failed:
        return keep(cluster)
    if kept:
        return sys.exit(f"left for inspection: {directory}")
    logs = {d.name: d.log for d in [cluster.operator] + [n.vk for n in cluster.nodes] if d}
    try:
        statuses = cluster.stop(remove=False)
        for name, status in statuses.items():
            if status != 0:
                failed = failed or f"{name} ended with status {status} after SIGTERM"
                print(f"{name} ended with status {status}:\n" + "\n".join(
                    pathlib.Path(logs[name]).read_text(errors="replace").splitlines()[-60:]))
    except Mismatch as mismatch:
        failed = failed or mismatch
    shutil.rmtree(directory, ignore_errors=True)
    sys.exit(f"demo failed: {failed}" if failed else 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["stop"]:
        stop_kept()
        sys.exit()
    if sys.argv[1:] == ["env"]:
        sys.exit(show_environment())
    guest = os.environ.get("GUEST") or "process"
    if guest not in ("process", "qemu"):
        sys.exit(f"GUEST={guest}: must be process or qemu")
    if guest == "qemu" and "COCOON_SIM_GUEST" not in os.environ:
        os.environ.update(assets())  # here, where the package mirror can be reached
    started = time.monotonic()
    enter_namespace()
    for number in (signal.SIGTERM, signal.SIGHUP):  # ends clean as Ctrl-C does
        signal.signal(number, signal.default_int_handler)
    main()

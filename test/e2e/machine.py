"""One machine with a real kubelet, containerd and kube-proxy, in namespaces of its own (network, mounts, processes), so that
nothing of it is seen outside and all of it goes with its first process."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from cluster import REPO, Cluster, Daemon, Mismatch, Node, wait  # noqa: E402

ADDRESS = "192.168.77.1"
HOST = "host-1"
PODS = "10.89.0.0/24"
NEEDED = ("containerd", "runc", "buildah", "iptables", "unshare", "etcd", "docker-registry")


def why_not():
    """What keeps a real kubelet from running here; "" when nothing does."""
    if os.geteuid() != 0:
        return "it needs root"
    for program in NEEDED:
        if not shutil.which(program):
            return f"{program} is missing (hack/deps e2e)"
    probe = subprocess.run(["unshare", "-n", "-m", "-p", "-f", "--mount-proc", "sh", "-c",
                            "ip link add x0 type veth peer name x1 && iptables -t nat -A OUTPUT -d 10.96.0.1 -p tcp -j DNAT --to 10.0.0.1"],
                           capture_output=True, text=True)
    if probe.returncode:
        return f"namespaces, veth or NAT are not to be had: {probe.stderr.strip()}"
    return ""


def enter_machine():
    """Runs this program again as the first process of the machine."""
    if not os.environ.get("E2E_MACHINE"):
        os.environ["E2E_MACHINE"] = "1"
        os.execvp("unshare", ["unshare", "-n", "-m", "-p", "-f", "--kill-child", "--mount-proc", sys.executable, *sys.argv])
    for words in (["link", "set", "lo", "up"], ["link", "add", "m0", "type", "veth", "peer", "name", "m1"],
                  ["addr", "add", f"{ADDRESS}/24", "dev", "m0"], ["link", "set", "m0", "up"], ["link", "set", "m1", "up"],
                  ["route", "add", "default", "dev", "m0"]):
        subprocess.run(["ip", *words], check=True)
    pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    # Mounts of the host must reach into containers.
    subprocess.run(["mount", "--make-rshared", "/"], check=True)


class VMHost(Node):
    """The VM host's side: bridge, cocoon-net and the cocoon CLI. Its vk-cocoon is a Pod."""

    def __init__(self, cluster):
        super().__init__(cluster, 1)
        self.name = f"{HOST}-cocoon"
        self.run = self.dir / "run"
        self.run.mkdir()
        self.socket = self.run / "control.sock"
        self.net = Daemon("cocoon-net-1", [cluster.build / "cocoon-sim", "net-daemon", self.socket], self.env,
                          self.dir / "cocoon-net.log")
        # Of cgroup v1 vk-cocoon moves its children in one hierarchy only: here they leave the pod in all of them, since what
        # is left in its cgroups dies with it.
        self.binary = self.dir / "cocoon-cli"
        self.binary.write_text("#!/bin/sh\nfor procs in /sys/fs/cgroup/*/cgroup.procs; do echo $$ > \"$procs\"; done 2> /dev/null\n"
                               f"export COCOON_SIM_BRIDGE={self.bridge} COCOON_SIM_SUBNET={self.subnet}\n"
                               f"exec {cluster.build / 'cocoon-sim'} \"$@\"\n")
        self.binary.chmod(0o755)

    def start(self):
        for command in (["link", "add", self.bridge, "type", "bridge"],
                        ["addr", "add", f"{self.subnet}.1/24", "dev", self.bridge], ["link", "set", self.bridge, "up"]):
            subprocess.run(["ip", *command], check=True)
        self.net.start()
        wait("cocoon-net's socket", 5, self.socket.exists)
        return self

    def chart_values(self):
        version_1 = not pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
        return {"cocoonBinary": str(self.binary), "rootDirectory": str(self.root), "networkRunDirectory": str(self.run),
                "cgroupParent": "pids/cocoon.slice" if version_1 else "cocoon.slice",
                "extraEnv": [{"name": "VK_NODE_CPU", "value": "64"}, {"name": "VK_NODE_MEM", "value": "256Gi"},
                             {"name": "VK_NODE_STORAGE", "value": "1Ti"}]}


class Machine(Cluster):
    registry_host = ADDRESS

    def __init__(self, directory, variant):
        super().__init__(directory, variant)
        self.processes, self.owned = [], []
        self.cgroups = [path for path in self.cgroup_folders() if not path.exists()]

    @staticmethod
    def cgroup_folders():
        """Where containerd and vk-cocoon put what they start: cgroups have no namespace here."""
        root = pathlib.Path("/sys/fs/cgroup")
        tops = [root] if (root / "cgroup.controllers").exists() else [path for path in root.iterdir() if path.is_dir()]
        return [top / name for top in tops for name in ("k8s.io", "cocoon.slice")]

    def run(self, name, *argv, env=None):
        daemon = Daemon(name, argv, env or self.env, self.dir / f"{name}.log").start()
        self.processes.append(daemon)
        return daemon

    def start_control_plane(self, users):
        policy = self.dir / "audit-policy.json"
        policy.write_text(json.dumps({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata", "users": users}, {"level": "None"}]}))
        self.audit = self.dir / "audit.log"
        self.env["KUBE_APISERVER_FLAGS"] = (
            f"--bind-address 0.0.0.0 --advertise-address {ADDRESS} --endpoint-reconciler-type lease --allow-privileged=true "
            f"--kubelet-preferred-address-types=InternalIP --audit-policy-file={policy} --audit-log-path={self.audit} "
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
        self.env["KUBE_CONTROLLER_FLAGS"] = f"--root-ca-file={self.dir}/kube/certs/apiserver.crt"
        self.start_servers()
        self.kubectl("delete", "crd", "--all")  # the chart brings them

    # --- the machine's own services -------------------------------------------------------------------------------------
    def own(self, path):
        """A folder of this machine instead of the real one's."""
        inner = self.dir / "root" / path.strip("/")
        inner.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--bind", inner, path], check=True)
        subprocess.run(["mount", "--make-rshared", path], check=True)
        self.owned.append(path)

    def start_containerd(self):
        for path in ("/var/lib/kubelet", "/var/log/pods", "/var/log/containers", "/var/lib/cni", "/run/containerd"):
            self.own(path)
        network = self.dir / "cni"
        network.mkdir()
        (network / "10-bridge.conflist").write_text(json.dumps({
            "cniVersion": "0.4.0", "name": "pods", "plugins": [
                {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True,
                 "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]}},
                {"type": "portmap", "capabilities": {"portMappings": True}}]}))
        plugin = 'plugins."io.containerd.grpc.v1.cri"'
        config = self.dir / "containerd.toml"
        config.write_text(f"""version = 2
root = "{self.dir}/containerd"
state = "/run/containerd/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt"]
[grpc]
address = "/run/containerd/e2e.sock"
[{plugin}]
sandbox_image = "localhost/pause:e2e"
restrict_oom_score_adj = true
[{plugin}.containerd]
snapshotter = "native"
default_runtime_name = "runc"
[{plugin}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{plugin}.containerd.runtimes.runc.options]
SystemdCgroup = false
[{plugin}.cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{network}"
""")
        self.run("containerd", shutil.which("containerd"), "-c", config)
        wait("containerd", 20, lambda: self.ctr("version"))

    def ctr(self, *words):
        done = subprocess.run(["ctr", "-a", "/run/containerd/e2e.sock", "-n", "k8s.io", *map(str, words)], capture_output=True,
                              text=True, timeout=120)
        if done.returncode:
            raise Mismatch(f"ctr {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    def load_images(self, prefix, tag):
        """Builds both images and the pause image; returns what hack/image printed."""
        out = self.dir / "images"
        env = dict(self.env, BUILD=str(self.build.relative_to(REPO)), IMAGE_TAG=tag, IMAGE_PREFIX=prefix)
        printed = subprocess.run([REPO / "hack/image", out], env=env, check=True, capture_output=True, text=True, cwd=REPO).stdout
        pause = self.dir / "pause"
        pause.mkdir()
        subprocess.run(["gcc", "-O2", "-static", "-s", "-o", pause / "pause", REPO / "test/e2e/pause.c"], check=True)
        buildah = ["buildah", "--storage-driver", "vfs", "--root", self.dir / "buildah/root", "--runroot", self.dir / "buildah/run"]

        def call(*words):
            return subprocess.run([*buildah, *words], check=True, capture_output=True, text=True,
                                  env=dict(self.env, BUILDAH_ISOLATION="chroot")).stdout.strip()
        container = call("from", "scratch")
        call("copy", "-q", container, str(pause / "pause"), "/pause")
        call("config", "--entrypoint", '["/pause"]', container)
        call("commit", "-q", "--rm", container, f"oci-archive:{out}/pause.tar:localhost/pause:e2e")
        for archive in sorted(out.glob("*.tar")):
            self.ctr("image", "import", "--snapshotter", "native", archive)
        return printed

    def start_kubelet(self):
        bin_dir = subprocess.run([REPO / "hack/kube", "build", "kubelet", "kube-proxy"], check=True, capture_output=True,
                                 text=True, env=self.env).stdout.strip()
        config = self.dir / "kubelet.json"
        config.write_text(json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "failCgroupV1": False,
            "cgroupDriver": "cgroupfs", "cgroupsPerQOS": False, "enforceNodeAllocatable": [], "localStorageCapacityIsolation": False,
            "failSwapOn": False, "containerRuntimeEndpoint": "unix:///run/containerd/e2e.sock",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"}, "evictionHard": {"memory.available": "0%"},
            "imageGCHighThresholdPercent": 100, "nodeStatusUpdateFrequency": "5s", "maxPods": 50, "registerWithTaints": []}))
        self.run("kubelet", f"{bin_dir}/kubelet", "--config", config, "--kubeconfig", self.kubeconfig, "--hostname-override", HOST,
                 "--node-ip", ADDRESS, "--node-labels", "cocoonstack.io/vm-host=true", "--root-dir", "/var/lib/kubelet",
                 "--cert-dir", self.dir / "kubelet-certs", "--v", "2")
        wait(f"node {HOST} Ready", 60, lambda: self.node_is_ready(HOST))
        self.run("kube-proxy", f"{bin_dir}/kube-proxy", "--kubeconfig", self.kubeconfig, "--hostname-override", HOST,
                 "--proxy-mode", "iptables", "--cluster-cidr", PODS, "--conntrack-max-per-core", "0", "--conntrack-min", "0",
                 "--conntrack-tcp-timeout-established", "0s", "--conntrack-tcp-timeout-close-wait", "0s", "--v", "1")
        wait("the service address answers", 30, self.service_answers)

    @staticmethod
    def service_answers():
        with socket.create_connection(("10.96.0.1", 443), timeout=2):
            return True

    def tags(self):
        """But for those that deleted examples leave behind, as their snapshotPolicy asks for."""
        return {name: tags for name, tags in super().tags().items() if not name.startswith("vk-examples-")}

    def logs_tail(self):
        parts = []
        for log in sorted(pathlib.Path("/var/log/pods").glob("*/*/*.log")):
            parts.append(f"--- {log}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-12:]))
        for daemon in self.processes:
            parts.append(f"--- {daemon.name}\n{daemon.log_tail(8)}")
        return "\n".join(parts)

    def end(self):
        """The rest goes with the first process of the namespaces; its cgroups are removed here."""
        for node in self.nodes:
            node.stop_guests()
            node.net.kill()
        for daemon in reversed(self.processes):
            if daemon.name == "kubelet" or daemon.name == "kube-proxy":
                daemon.kill()
        try:
            for task in self.ctr("task", "ls", "-q").split():
                subprocess.run(["ctr", "-a", "/run/containerd/e2e.sock", "-n", "k8s.io", "task", "rm", "-f", task], capture_output=True)
        except Mismatch:
            pass
        for daemon in self.processes:
            daemon.kill()
        for path in self.owned:
            subprocess.run(["umount", "-R", "-l", path], check=False)
        for top in self.cgroups:
            for folder, _, _ in os.walk(top, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError as problem:
                    print(f"cgroup left: {problem}")
        if self.registry:
            self.registry.kill()
        subprocess.run([REPO / "hack/kube", "stop", self.dir / "kube"], check=False, env=self.env)

"""A whole cluster on this machine for the demo and the integration tests.

Real etcd, kube-apiserver, controller-manager, scheduler and OCI registry; the two daemons under test; the VM host is
cocoon-sim. Everything lives in a network namespace of its own (enter_namespace), so that guests, bridge and servers never
meet the machine's own network. Processes are ended by pid, and only those that were started here.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

REPO = pathlib.Path(__file__).resolve().parents[2]


class Mismatch(Exception):
    """Something that was read back is not what it must be."""


def enter_namespace():
    """Runs this program again in a new network namespace. A listening socket of the outer namespace comes along as
    descriptor $CLUSTER_OUTER_FD, so that somebody outside can still reach the API server (Cluster.forward)."""
    if os.environ.get("CLUSTER_NAMESPACE"):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    outer = socket.socket()
    outer.bind(("127.0.0.1", 0))
    outer.listen(64)
    os.set_inheritable(outer.fileno(), True)
    os.environ["CLUSTER_NAMESPACE"] = "1"
    os.environ["CLUSTER_OUTER_FD"] = str(outer.fileno())
    flags = ["-n"] if os.geteuid() == 0 else ["-rn"]
    try:
        os.execvp("unshare", ["unshare", *flags, sys.executable, *sys.argv])
    except FileNotFoundError:
        sys.exit("unshare is missing (package util-linux)")


def wait(what, seconds, probe, interval=0.1):
    """Repeats probe() until it gives something true and returns that; Mismatch with the last state after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        last = None
        try:
            value = probe()
            if value:
                return value
            last = value
        except (Mismatch, subprocess.CalledProcessError, OSError) as error:
            last = error
        if time.monotonic() > end:
            raise Mismatch(f"{what}: not so within {seconds} s (last: {last})")
        time.sleep(interval)


def free_ports(count):
    """Below the range that outgoing connections draw from: a port that is free now stays free until its server binds it."""
    held = []
    while len(held) < count:
        s = socket.socket()
        try:
            s.bind(("127.0.0.1", random.randrange(10000, 30000)))
            held.append(s)
        except OSError:
            s.close()
    return [s.getsockname()[1] for s in held]


def http_get(url, timeout=5):
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return answer.read().decode()


def families(exposition):
    """family{label,names} of an exposition; the buckets' `le` is the format's."""
    found, family = {}, None
    for line in exposition.splitlines():
        if line.startswith("# TYPE "):
            family = line.split()[2]
        elif line and not line.startswith("#") and family not in found:
            labels = re.findall(r'([A-Za-z_]+)="(?:[^"\\]|\\.)*"', line)
            found[family] = ",".join(label for label in labels if label != "le")
    return {f"{name}{{{labels}}}" for name, labels in found.items()}


class Daemon:
    """A program under test or a server: started in the background, log in a file, ended by pid."""

    def __init__(self, name, argv, env, log):
        self.name, self.argv, self.env, self.log = name, [str(a) for a in argv], env, log
        self.process = None

    @property
    def pid(self):
        return self.process.pid if self.process else None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.argv, env=self.env, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self, how=signal.SIGKILL):
        if self.alive():
            self.process.send_signal(how)
        if self.process:
            self.process.wait(timeout=60)

    def stop(self, seconds=35):
        """SIGTERM; returns the exit status. SIGKILL when that takes too long."""
        if not self.process:
            return None
        if self.alive():
            self.process.terminate()
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Mismatch(f"{self.name} did not stop within {seconds} s of SIGTERM; log: {self.log}")

    def log_tail(self, lines=15):
        try:
            return "\n".join(pathlib.Path(self.log).read_text(errors="replace").splitlines()[-lines:])
        except OSError as error:
            return str(error)


class Node:
    """One VM host with its vk-cocoon."""

    def __init__(self, cluster, number):
        self.cluster, self.number, self.name = cluster, number, f"cocoon-node-{number}"
        self.dir = cluster.dir / self.name
        self.root = self.dir / "cocoon"
        self.subnet = f"10.88.{number}"
        self.bridge = f"cocoon{number}"
        (self.root / "net").mkdir(parents=True)
        self.socket = self.dir / "net.sock"
        self.metrics_port, self.kubelet_port = free_ports(2)
        self.env = dict(cluster.env, COCOON_ROOT_DIR=str(self.root), COCOON_SIM_BRIDGE=self.bridge,
                        COCOON_SIM_SUBNET=self.subnet)
        sim = cluster.build / "cocoon-sim"
        vk_env = dict(
            self.env, KUBECONFIG=str(cluster.kubeconfig), OCI_REGISTRY=cluster.oci_registry, VK_NODE_NAME=self.name,
            VK_NODE_IP=f"{self.subnet}.1", VK_COCOON_BIN=str(sim), VK_LEASES_PATH=str(self.root / "net/leases.json"),
            VK_COCOON_NET_CONTROL_SOCKET=str(self.socket), VK_STAGING_DIR=str(self.dir / "staging"),
            VK_COCOON_SNAPSHOT_DIR=str(self.root / "snapshot/localfile"), VK_KUBELET_PORT=str(self.kubelet_port),
            VK_METRICS_ADDR=f"127.0.0.1:{self.metrics_port}", VK_PEER_ADDR=f"{self.subnet}.1:12501", VK_NODE_CPU="256", VK_NODE_MEM="1Ti",
            VK_NODE_STORAGE="10Ti", VK_LOG_LEVEL=os.environ.get("VK_LOG_LEVEL", "info"))
        self.net = Daemon(f"cocoon-net-{number}", [sim, "net-daemon", self.socket], self.env, self.dir / "cocoon-net.log")
        self.vk = Daemon(f"vk-cocoon-{number}", [cluster.build / "vk-cocoon"], vk_env, self.dir / "vk-cocoon.log")

    def start(self):
        for command in (["link", "add", self.bridge, "type", "bridge"],
                        ["addr", "add", f"{self.subnet}.1/24", "dev", self.bridge], ["link", "set", self.bridge, "up"]):
            subprocess.run(["ip", *command], check=True)
        self.net.start()
        wait("cocoon-net's socket", 5, self.socket.exists)
        self.vk.start()
        return self

    def cocoon(self, *words, check=True):
        """The host's CLI, as an operator on the node would call it."""
        done = subprocess.run([self.cluster.build / "cocoon-sim", *words], env=self.env, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        if check and done.returncode:
            raise Mismatch(f"cocoon {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def vms(self):
        """name -> record of every VM that the host knows."""
        return {vm["config"]["name"]: vm for vm in json.loads(self.cocoon("vm", "list", "-o", "json"))}

    def counter(self, vm_name):
        return int(self.cocoon("vm", "exec", vm_name, "--", "counter"))

    def boot_id(self, vm_name):
        """Drawn when the guest's memory was made by a boot: it comes back with the memory, and with nothing else."""
        return self.cocoon("vm", "exec", vm_name, "--", "boot-id").strip()

    def snapshots(self):
        return {s["name"]: s for s in json.loads(self.cocoon("snapshot", "list", "-o", "json"))}

    def leases(self):
        try:
            return json.loads((self.root / "net/leases.json").read_text()) or []
        except FileNotFoundError:
            return []

    def faults(self, text):
        (self.root / "sim").mkdir(exist_ok=True)
        (self.root / "sim/faults").write_text(text)

    def stop_guests(self):
        """Ends the guests of this host, by the pids in its records."""
        for name in list(self.vms()):
            self.cocoon("vm", "rm", "--force", name, check=False)


class Cluster:
    registry_host = "127.0.0.1"

    def __init__(self, directory, variant="release", nodes=1):
        self.dir = pathlib.Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.build = REPO / "build" / variant
        self.env = dict(os.environ)
        self.env.setdefault("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=99")
        self.env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")
        for proxy in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
            self.env.pop(proxy, None)
        self.kubeconfig = self.dir / "kube/kubeconfig"
        self.registry = self.operator = None
        self.nodes, self.node_count = [], nodes
        self.forwarder = None

    # --- start and stop ---------------------------------------------------------------------------------------------
    def start_servers(self):
        subprocess.run([REPO / "hack/kube", "start", self.dir / "kube"], check=True, env=self.env)
        line = (self.dir / "kube/env").read_text().splitlines()[1]
        self.env["PATH"] = line.split("=", 1)[1].split(":$PATH")[0] + ":" + self.env["PATH"]
        self.env["KUBECONFIG"] = str(self.kubeconfig)
        port = free_ports(1)[0]
        self.registry_url, self.oci_registry = f"http://{self.registry_host}:{port}", f"{self.registry_host}:{port}/cocoon"
        config = self.dir / "registry.yml"
        config.write_text(
            f"version: 0.1\nlog: {{level: warn}}\nstorage:\n  filesystem: {{rootdirectory: {self.dir}/registry}}\n"
            f"  delete: {{enabled: true}}\nhttp: {{addr: \"{self.registry_host}:{port}\"}}\n")
        self.registry = Daemon("registry", [shutil.which("docker-registry"), "serve", config],
                               {k: v for k, v in self.env.items() if not k.startswith("REGISTRY_")},
                               self.dir / "registry.log").start()
        wait("the registry", 10, lambda: http_get(self.registry_url + "/v2/") is not None)
        self.kubectl("apply", "-f", str(REPO / "charts/cocoon/crds"))
        # kubectl wait gives up on an object that has no conditions yet, so ask it again.
        wait("the CRDs are established", 30, lambda: self.kubectl(
            "wait", "--for=condition=Established", "--timeout=10s", "crd/cocoonsets.cocoonset.cocoonstack.io",
            "crd/cocoonhibernations.cocoonset.cocoonstack.io"))

    def start_daemons(self):
        self.metrics_port, self.health_port = free_ports(2)
        env = dict(self.env, OCI_REGISTRY=self.oci_registry,
                   OPERATOR_LOG_LEVEL=os.environ.get("OPERATOR_LOG_LEVEL", "info"))
        self.operator = Daemon("cocoon-operator",
                               [self.build / "cocoon-operator", "--leader-elect=false",
                                f"--metrics-bind-address=127.0.0.1:{self.metrics_port}",
                                f"--health-probe-bind-address=127.0.0.1:{self.health_port}"],
                               env, self.dir / "cocoon-operator.log").start()
        for number in range(1, self.node_count + 1):
            self.nodes.append(Node(self, number).start())
        wait("the operator's /readyz", 20, lambda: http_get(f"http://127.0.0.1:{self.health_port}/readyz"))
        for node in self.nodes:
            wait(f"node {node.name} Ready", 30, lambda node=node: self.node_is_ready(node.name))

    def forward(self):
        """Makes the API server reachable from outside of the namespace; returns the path of a kubeconfig for it."""
        outer = int(os.environ["CLUSTER_OUTER_FD"])
        inner_port = int((self.dir / "kube/apiserver.port").read_text())
        outer_port = socket.socket(fileno=os.dup(outer)).getsockname()[1]
        self.forwarder = subprocess.Popen(
            [sys.executable, REPO / "test/cluster/forward.py", str(outer), str(inner_port)], pass_fds=[outer],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        outside = self.dir / "kubeconfig"
        outside.write_text(self.kubeconfig.read_text().replace(f"127.0.0.1:{inner_port}", f"127.0.0.1:{outer_port}"))
        outside.chmod(0o600)
        return outside

    def pids(self):
        daemons = [self.operator, self.registry] + [d for n in self.nodes for d in (n.vk, n.net)]
        pids = [d.pid for d in daemons if d and d.pid]
        pids += [int(p.read_text()) for p in (self.dir / "kube").glob("*.pid")]
        pids += [vm["pid"] for n in self.nodes for vm in n.vms().values() if vm["pid"]]
        return pids + ([self.forwarder.pid] if self.forwarder else [])

    def metrics(self, daemon):
        """The exposition of the operator (None) or of a node."""
        port = daemon.metrics_port if daemon else self.metrics_port
        return http_get(f"http://127.0.0.1:{port}/metrics")

    def observe(self):
        """What docs/observability.md is held to (hack/check-observability): lines "event <daemon> <type> <reason>" and
        "metric <daemon> <family>{<label names>}" for all that the daemons show by now. Best effort: one may be dead."""
        lines = set()
        for name, daemon in [("operator", None)] + [("node", node) for node in self.nodes]:
            try:
                lines |= {f"metric {name} {family}" for family in families(self.metrics(daemon))}
            except OSError:
                continue
        try:
            for event in self.get("events", "-A")["items"]:
                component = event.get("source", {}).get("component", "")
                name = {"cocoon-operator": "operator", "vk-cocoon": "node"}.get(component)
                if name or component.endswith("/pod-controller"):
                    lines.add(f"event {name or 'node'} {event['type']} {event['reason']}")
        except Mismatch:
            pass
        if os.environ.get("CC_OBSERVED_LOG"):
            with open(os.environ["CC_OBSERVED_LOG"], "a", encoding="utf-8") as log:
                log.write("".join(line + "\n" for line in sorted(lines)))
        return lines

    def stop(self, remove=True):
        """Ends everything. Returns {daemon: exit status} of the two programs under test."""
        statuses, problems = {}, []
        if self.operator:
            self.observe()
        for daemon in [self.operator] + [n.vk for n in self.nodes]:
            try:
                if daemon:
                    statuses[daemon.name] = daemon.stop()
            except Mismatch as problem:
                problems.append(str(problem))
        for node in self.nodes:
            try:
                node.stop_guests()
            except Exception as problem:  # the rest must still be ended
                problems.append(str(problem))
            node.net.kill()
        if self.registry:
            self.registry.kill()
        if self.forwarder:
            self.forwarder.kill()
            self.forwarder.wait()
        subprocess.run([REPO / "hack/kube", "stop", self.dir / "kube"], check=False, env=self.env)
        if remove:
            shutil.rmtree(self.dir, ignore_errors=True)
        if problems:
            raise Mismatch("; ".join(problems))
        return statuses

    # --- reading ----------------------------------------------------------------------------------------------------
    def kubectl(self, *words, input=None):
        done = subprocess.run(["kubectl", *words], env=self.env, input=input, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60)
        if done.returncode:
            raise Mismatch(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def apply(self, manifest):
        self.kubectl("apply", "-f", "-", input=manifest if isinstance(manifest, str) else json.dumps(manifest))

    def patch(self, kind, name, patch, namespace="default"):
        self.kubectl("-n", namespace, "patch", kind, name, "--type=merge", "-p", json.dumps(patch))

    def node_is_ready(self, name):
        return any(c["type"] == "Ready" and c["status"] == "True" for c in self.get("node", name)["status"]["conditions"])

    def cocoonset(self, name, namespace="default"):
        return self.get("cocoonset", name, "-n", namespace)

    def pods(self, namespace="default"):
        return {p["metadata"]["name"]: p for p in self.get("pods", "-n", namespace)["items"]}

    def tags(self):
        """repository -> tags of everything in the registry under our base that still has a manifest."""
        base = self.oci_registry.split("/", 1)[1] + "/"
        found = {}
        for repository in json.loads(http_get(self.registry_url + "/v2/_catalog?n=1000"))["repositories"]:
            try:
                listed = json.loads(http_get(f"{self.registry_url}/v2/{repository}/tags/list"))["tags"] or []
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise
                listed = []
            if listed:
                found[repository.removeprefix(base)] = sorted(listed)
        return found

    def manifest(self, repository, tag):
        url = f"{self.registry_url}/v2/{self.oci_registry.split('/', 1)[1]}/{repository}/manifests/{tag}"
        request = urllib.request.Request(url, headers={"Accept": "application/vnd.oci.image.manifest.v1+json"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.loads(answer.read()), answer.headers.get("Docker-Content-Digest")

    def logs_tail(self):
        daemons = [self.operator] + [n.vk for n in self.nodes]
        return "\n".join(f"--- {d.name} ({d.log})\n{d.log_tail()}" for d in daemons if d)

"""What the tests of the kubelet API share: certificates, a node whose guest commands are real, ways in, and the frame that
runs every test_* of a suite on a cluster of its own and prints `N passed, M failed`."""
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
import cluster as cluster_module  # noqa: E402
from cluster import REPO, Cluster, Mismatch, Node, enter_namespace, free_ports, http_get, wait  # noqa: E402, F401
from scenario import Scenario, describe_failure, expect  # noqa: E402

POD = "demo-0"


def vector(name, test):
    """Records a test vector of the contract that was proved, after its assertions."""
    log = pathlib.Path(os.environ.get("CC_VECTORS_LOG") or REPO / "build/vectors.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"{name} {pathlib.Path(sys.argv[0]).name}:{test}\n")


def tools():
    """The folder of the clients that the system does not have: hack/kubelet-tools."""
    done = subprocess.run([REPO / "hack/kubelet-tools"], stdout=subprocess.PIPE, check=True, text=True)
    return pathlib.Path(done.stdout.splitlines()[-1])


def openssl(*words, input=None):
    subprocess.run(["openssl", *map(str, words)], input=input, check=True, text=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE)


def same(have, want):
    """For wait(): a difference is shown."""
    expect("text", have, want)
    return True


class Certificates:
    """A client authority, kube-apiserver's certificate for nodes, and one of a foreign authority with the same names."""

    def __init__(self, directory):
        self.dir = pathlib.Path(directory)
        self.dir.mkdir(parents=True)
        self.authority("ca")
        self.client("ca", "apiserver", "/O=system:masters/CN=kube-apiserver-kubelet-client")
        self.client("ca", "nobody", "/CN=nobody")
        self.authority("foreign-ca")
        self.client("foreign-ca", "foreign", "/O=system:masters/CN=kube-apiserver-kubelet-client")

    def path(self, name):
        return str(self.dir / name)

    def authority(self, name):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                f"/CN={name}", "-keyout", self.path(name + ".key"), "-out", self.path(name + ".crt"))

    def client(self, authority, name, subject):
        extensions = self.dir / "client.ext"
        extensions.write_text("extendedKeyUsage=clientAuth\nkeyUsage=digitalSignature\n")
        self.sign(authority, name, subject, extensions)

    def sign(self, authority, name, subject, extensions):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject, "-keyout",
                self.path(name + ".key"), "-out", self.path(name + ".csr"))
        openssl("x509", "-req", "-in", self.path(name + ".csr"), "-CA", self.path(authority + ".crt"), "-CAkey",
                self.path(authority + ".key"), "-CAcreateserial", "-days", "2", "-extfile", extensions, "-out",
                self.path(name + ".crt"))

    def serving(self, name, node_name, address, authority="cluster-signer"):
        extensions = self.dir / "serving.ext"
        extensions.write_text(f"extendedKeyUsage=serverAuth\nkeyUsage=digitalSignature\n"
                              f"subjectAltName=DNS:{node_name},IP:{address}\n")
        self.sign(authority, name, f"/CN={name}", extensions)

    def context(self, name=None):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if name:
            context.load_cert_chain(self.path(name + ".crt"), self.path(name + ".key"))
        return context


class RealNode(Node):
    """Its CLI runs guest commands that begin with the word `guest`, and `tar` and `test` (for kubectl cp), for real, here: the simulated
    guest knows but a few."""

    more_env = {}

    def start(self):
        wrapper = self.dir / "cocoon-wrapper"
        wrapper.write_text('#!/bin/sh\ncase "$1 $2: $* " in\n"vm exec:"*" -- guest "*|"vm exec:"*" -- tar "*|"vm exec:"*" -- test "*)\n'
                           '    while [ "$1" != -- ]; do shift; done\n    shift\n    [ "$1" = guest ] && shift\n'
                           '    exec "$@" ;;\nesac\n'
                           f'exec {self.cluster.build / "cocoon-sim"} "$@"\n')
        wrapper.chmod(0o755)
        self.vk.env["VK_COCOON_BIN"] = str(wrapper)
        self.vk.env.update(self.more_env)
        return super().start()


class Suite:
    def __init__(self, cluster, certificates):
        self.cluster, self.certificates = cluster, certificates
        self.node = cluster.nodes[0]

    # --- ways in --------------------------------------------------------------------------------------------------------
    def kubectl(self, *words, input=b"", timeout=60, env=None):
        return subprocess.run(["kubectl", *words], env=dict(self.cluster.env, **(env or {})), input=input, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=timeout)

    def exec(self, *command, flags=(), **options):
        return self.kubectl("exec", *flags, POD, "--", "guest", *command, **options)

    def connect(self, certificate=None, port=None):
        raw = socket.create_connection((f"{self.node.subnet}.1", port or self.node.kubelet_port), timeout=30)
        return self.certificates.context(certificate).wrap_socket(raw)

    def request(self, path, certificate=None, token=None, method="GET", port=None):
        """Status and body, straight from the node."""
        with self.connect(certificate, port) as connection:
            bearer = f"Authorization: Bearer {token}\r\n" if token else ""
            connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n{bearer}\r\n"
                               .encode())
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()

    def guest_process(self, *command):
        """A program in the network of the pod's guest."""
        name = self.cluster.get("pod", POD)["metadata"]["annotations"]["vm.cocoonstack.io/name"]
        return subprocess.Popen(["nsenter", "-t", str(self.node.vms()[name]["pid"]), "-n", *map(str, command)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def token(self, name, *rules):
        self.kubectl("create", "serviceaccount", name)
        for number, rule in enumerate(rules):
            self.kubectl("create", "clusterrole", f"{name}-{number}", *rule)
            self.kubectl("create", "clusterrolebinding", f"{name}-{number}", f"--clusterrole={name}-{number}",
                         f"--serviceaccount=default:{name}")
        return self.kubectl("create", "token", name).stdout.decode().strip()


def run_suite(suite_class, prepare=lambda certificates, cluster: None, flags=lambda certificates: []):
    """Exit status for the program. prepare: between the servers' start and the daemons'."""
    directory = tempfile.mkdtemp(prefix="cocoon-kubelet-")
    certificates = Certificates(pathlib.Path(directory) / "pki")
    os.environ["KUBE_APISERVER_FLAGS"] = " ".join([
        f"--client-ca-file={certificates.path('ca.crt')}",
        f"--kubelet-client-certificate={certificates.path('apiserver.crt')}",
        f"--kubelet-client-key={certificates.path('apiserver.key')}", "--kubelet-preferred-address-types=InternalIP",
        *flags(certificates)])
    cluster_module.Node = RealNode
    cluster = Cluster(directory, os.environ.get("VARIANT") or "release")
    passed = failed = 0
    try:
        cluster.start_servers()
        prepare(certificates, cluster)
        cluster.start_daemons()
        scenario = Scenario(cluster, lambda text: None)
        scenario.create()
        suite = suite_class(cluster, certificates)
        suite.scenario = scenario
        wanted = sys.argv[1:]
        for name in sorted(n for n in dir(suite) if n.startswith("test_")):
            if wanted and name not in wanted:
                continue
            started = time.monotonic()
            try:
                getattr(suite, name)()
                passed += 1
                print(f"ok   {name} ({time.monotonic() - started:.1f} s)", flush=True)
            except (Mismatch, OSError, ValueError, KeyError, StopIteration, subprocess.SubprocessError) as problem:
                failed += 1
                print(f"FAIL {name}: {type(problem).__name__}: {problem}", flush=True)
        if failed:
            print(cluster.logs_tail())
    except Mismatch as mismatch:
        failed += 1
        print(f"MISMATCH: {mismatch}\n{describe_failure(cluster)}")
    finally:
        try:
            statuses = cluster.stop(remove=False)
            expect("exit statuses", set(statuses.values()), {0})
        except Mismatch as mismatch:
            failed += 1
            print(f"FAIL stop: {mismatch}")
        if not failed:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            print(f"logs: {directory}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0

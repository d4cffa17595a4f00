#!/usr/bin/env python3
"""Kubeconfigs of other people's clusters, against a real API server: the operator comes up with a credential plugin (whose
first answer is refused), through an HTTP and a SOCKS5 proxy, and under another identity.

VARIANT chooses the build (default release), KEEP=1 leaves logs and state behind."""
import json
import os
import pathlib
import shutil
import socket
import struct
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/cluster"))
from cluster import Cluster, Daemon, Mismatch, enter_namespace, free_ports, http_get, wait  # noqa: E402


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Proxy:
    """Tunnels, and counts to whom. kind: "http" answers CONNECT, "socks5" speaks SOCKS5 without authentication."""

    def __init__(self, kind):
        self.kind, self.targets = kind, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            host, port = self.http(client) if self.kind == "http" else self.socks(client)
            self.targets.append(f"{host}:{port}")
            server = socket.create_connection((host, port))
        except (OSError, ValueError):
            client.close()
            return
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n" if self.kind == "http" else b"\x05\x00\x00\x01" + bytes(6))
        threading.Thread(target=pump, args=(client, server), daemon=True).start()
        pump(server, client)

    @staticmethod
    def http(client):
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096) or b"\r\n\r\n"
        method, target = head.split(b" ")[:2]
        if method != b"CONNECT":
            raise ValueError(method)
        host, port = target.decode().rsplit(":", 1)
        return host, int(port)

    @staticmethod
    def socks(client):
        def exactly(count):
            data = b""
            while len(data) < count:
                more = client.recv(count - len(data))
                if not more:
                    raise ValueError("cut")
                data += more
            return data
        exactly(exactly(2)[1])
        client.sendall(b"\x05\x00")
        kind = exactly(4)[3]
        host = socket.inet_ntoa(exactly(4)) if kind == 1 else exactly(exactly(1)[0]).decode()
        return host, struct.unpack(">H", exactly(2))[0]

    def close(self):
        self.listener.close()


class Run:
    def __init__(self, cluster):
        self.cluster, self.passed, self.failed = cluster, 0, 0
        words = cluster.kubeconfig.read_text()
        self.base = json.loads(cluster.kubectl("config", "view", "--raw", "-o", "json"))
        self.token = (cluster.dir / "kube/tokens.csv").read_text().split(",")[0]
        if self.token not in words:
            raise Mismatch("the kubeconfig of hack/kube has no token any more")

    def operator(self, name, change, check):
        """Starts one with a changed kubeconfig, waits until its caches are full, then looks at what happened."""
        config = json.loads(json.dumps(self.base))
        change(config["clusters"][0]["cluster"], config["users"][0]["user"])
        path = self.cluster.dir / f"{name}.json"
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        health = free_ports(1)[0]
        daemon = Daemon(name, [self.cluster.build / "cocoon-operator", "--leader-elect=false",
                               "--metrics-bind-address=0", f"--health-probe-bind-address=127.0.0.1:{health}",
                               f"--kubeconfig={path}"],
                        dict(self.cluster.env, OCI_REGISTRY=self.cluster.oci_registry), self.cluster.dir / f"{name}.log")
        daemon.start()
        try:
            wait(f"{name} ready", 20, lambda: http_get(f"http://127.0.0.1:{health}/readyz"))
            check(daemon)
            if daemon.stop() != 0:
                raise Mismatch(f"{name} ended badly")
            self.passed += 1
            print(f"ok   {name}", flush=True)
        except (Mismatch, OSError) as problem:
            self.failed += 1
            print(f"FAIL {name}: {problem}\n{daemon.log_tail()}", flush=True)
            daemon.kill()

    def plugin(self):
        folder = self.cluster.dir / "plugin"
        (folder / "bin").mkdir(parents=True)
        program, log = folder / "bin/credentials", folder / "log"
        # The first answer is of yesterday: the server refuses it, and the plugin is asked again.
        program.write_text(f"""#!/bin/sh
echo "$KUBERNETES_EXEC_INFO" >>{log}
token=stale; [ "$(wc -l <{log})" -gt 1 ] && token={self.token}
printf '{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{{"token":"%s"}}}}' $token
""")
        program.chmod(0o700)

        def change(_, user):
            user.clear()
            user["exec"] = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program),
                            "interactiveMode": "Never", "provideClusterInfo": True}

        def check(_):
            runs = [json.loads(line) for line in log.read_text().splitlines()]
            if len(runs) != 2:
                raise Mismatch(f"the plugin ran {len(runs)} times, not twice")
            server = self.base["clusters"][0]["cluster"]["server"]
            if runs[0]["spec"]["cluster"]["server"] != server:
                raise Mismatch(f"the plugin was told of {runs[0]['spec']['cluster']['server']}, not {server}")
        self.operator("a credential plugin", change, check)

    def proxied(self, kind):
        proxy = Proxy(kind)
        port = self.base["clusters"][0]["cluster"]["server"].rsplit(":", 1)[1].strip("/")

        def check(_):
            if not proxy.targets or set(proxy.targets) != {f"127.0.0.1:{port}"}:
                raise Mismatch(f"the proxy was asked for {proxy.targets}")
        self.operator(f"through a proxy of kind {kind}",
                      lambda cluster, _: cluster.update({"proxy-url": f"{kind}://127.0.0.1:{proxy.port}"}), check)
        proxy.close()

    def impersonated(self):
        """The server honours every header: without the group it would refuse the lists."""
        def change(_, user):
            user.update({"as": "somebody", "as-groups": ["system:masters"], "as-uid": "7",
                         "as-user-extra": {"acme.com/team": ["blue"]}})
        self.operator("as somebody else", change, lambda daemon: None)


def main():
    enter_namespace()
    directory = tempfile.mkdtemp(prefix="cocoon-kubeconfig.")
    cluster = Cluster(directory, os.environ.get("VARIANT") or "release", nodes=0)
    run = None
    try:
        cluster.start_servers()
        run = Run(cluster)
        run.plugin()
        run.proxied("http")
        run.proxied("socks5")
        run.impersonated()
    finally:
        cluster.stop(remove=False)
        if os.environ.get("KEEP") == "1":
            print(f"kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    print(f"kubeconfigs on real servers: {run.passed} passed, {run.failed} failed")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())

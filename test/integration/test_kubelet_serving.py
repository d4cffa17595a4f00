#!/usr/bin/env python3
"""The serving certificate of the kubelet API, with a kube-apiserver that verifies it and the real signer of
kube-controller-manager: self-signed, by request, renewed, kept over a restart, ended, from files. Prints
`N passed, M failed`."""
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import kubelet_suite
from kubelet_suite import POD, Mismatch, enter_namespace, expect, openssl, wait

LIFE_S = 40  # of an issued certificate; it is renewed after 28 to 36 s


class Suite(kubelet_suite.Suite):
    """One story: the tests run in the order of their names."""

    def served(self):
        """Issuer's common name, subject and serial number of what the node shows."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection((f"{self.node.subnet}.1", self.node.kubelet_port), timeout=10) as raw, \
                context.wrap_socket(raw) as connection:
            der = connection.getpeercert(binary_form=True)
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(ssl.DER_cert_to_PEM_cert(der).encode())
            file.flush()
            text = subprocess.run(["openssl", "x509", "-noout", "-issuer", "-subject", "-serial", "-ext", "subjectAltName",
                                   "-in", file.name], stdout=subprocess.PIPE, check=True, text=True).stdout
        lines = dict(line.split("=", 1) for line in text.splitlines() if line.startswith(("issuer=", "subject=", "serial=")))
        return {"issuer": lines["issuer"], "subject": lines["subject"], "serial": lines["serial"], "text": text}

    def requests(self):
        return {r["metadata"]["name"]: r for r in self.cluster.get("csr")["items"]}

    def pending(self):
        return [name for name, r in self.requests().items() if not r.get("status", {}).get("conditions")]

    def logs(self):
        return self.kubectl("logs", POD)

    def verified(self):
        """kube-apiserver trusts only what the cluster's signer has signed."""
        done = self.logs()
        if done.returncode and b"x509" not in done.stderr and b"tls" not in done.stderr:
            raise Mismatch(f"logs: {done.stderr}")
        return done.returncode == 0

    def issued(self, but_not=""):
        have = self.served()
        return have if "cluster-signer" in have["issuer"] and have["serial"] != but_not else None

    # --- the story --------------------------------------------------------------------------------------------------------
    def test_1_self_signed_until_approved(self):
        have = self.served()
        expect("subject", have["subject"], f"CN = {self.node.name}")
        expect("issuer", have["issuer"], have["subject"])
        expect("kube-apiserver trusts it", self.verified(), False)
        names = self.pending()
        expect("requests", len(names), 1)
        spec = self.requests()[names[0]]["spec"]
        expect("request", (spec["signerName"], sorted(spec["usages"])),
               ("kubernetes.io/kubelet-serving", ["digital signature", "server auth"]))

    def test_2_approved(self):
        self.cluster.kubectl("certificate", "approve", self.pending()[0])
        have = wait("a certificate of the cluster", 30, self.issued)
        expect("subject", have["subject"], f"O = system:nodes, CN = system:node:{self.node.name}")
        for name in (f"DNS:{self.node.name}", f"IP Address:{self.node.subnet}.1", "IP Address:127.0.0.1"):
            if name not in have["text"]:
                raise Mismatch(f"{name} is missing in {have['text']}")
        wait("kube-apiserver trusts it", 10, self.verified)

    def test_3_kept_over_a_restart(self):
        have, count = self.issued(), len(self.requests())
        self.node.vk.kill(signal.SIGKILL)
        self.node.vk.start()
        wait("the certificate of before", 10, lambda: self.served()["serial"] == have["serial"])
        expect("no request more", len(self.requests()), count)

    def test_4_renewed(self):
        """A session that runs meanwhile goes on."""
        have = self.served()
        session = subprocess.Popen(["kubectl", "exec", "-i", POD, "--", "guest", "cat"], env=self.cluster.env,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        name = wait("a request for a new one", LIFE_S + 10, self.pending)[0]
        self.cluster.kubectl("certificate", "approve", name)
        wait("another certificate", 30, lambda: self.issued(have["serial"]))
        wait("kube-apiserver trusts it", 10, self.verified)
        out, _ = session.communicate(b"still there", timeout=20)
        expect("the session", (session.returncode, out), (0, b"still there"))

    def test_5_denied_and_ended(self):
        name = wait("a request for a new one", LIFE_S + 10, self.pending)[0]
        self.cluster.kubectl("certificate", "deny", name)
        wait("self-signed again", LIFE_S, lambda: f"CN = {self.node.name}" == self.served()["issuer"])
        wait("the log tells of the denial", 25, lambda: f"CertificateSigningRequest {name}: Denied" in
             pathlib.Path(self.node.vk.log).read_text(errors="replace"))

    def test_6_files(self):
        """Files before everything, and new ones without a restart."""
        for number in (1, 2):
            self.certificates.serving(f"node-{number}", self.node.name, f"{self.node.subnet}.1")
            for suffix in ("key", "crt"):
                target = pathlib.Path(self.node.vk.env["VK_TLS_CERT" if suffix == "crt" else "VK_TLS_KEY"])
                fresh = target.with_suffix(".new")
                fresh.write_bytes(pathlib.Path(self.certificates.path(f"node-{number}.{suffix}")).read_bytes())
                os.replace(fresh, target)
            wait(f"pair {number}", 25, lambda number=number: self.served()["subject"] == f"CN = node-{number}")
            wait("kube-apiserver trusts it", 10, self.verified)


def prepare(certificates, cluster):
    kubelet_suite.RealNode.more_env = {"VK_SERVING_CSR": "1", "VK_TLS_CERT": str(cluster.dir / "serving.crt"),
                                       "VK_TLS_KEY": str(cluster.dir / "serving.key")}


def flags(certificates):
    certificates.authority("cluster-signer")
    os.environ["KUBE_CONTROLLER_FLAGS"] = " ".join([
        f"--cluster-signing-cert-file={certificates.path('cluster-signer.crt')}",
        f"--cluster-signing-key-file={certificates.path('cluster-signer.key')}", f"--cluster-signing-duration={LIFE_S}s"])
    return [f"--kubelet-certificate-authority={certificates.path('cluster-signer.crt')}"]


if __name__ == "__main__":
    enter_namespace()
    sys.exit(kubelet_suite.run_suite(Suite, prepare, flags))

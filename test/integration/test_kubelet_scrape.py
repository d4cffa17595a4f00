#!/usr/bin/env python3
"""Prometheus scrapes both daemons and the node's resource endpoint; promtool has nothing to say about what they show; and
what a metrics-server would read is right for a busy and an idle VM. Prints `N passed, M failed`."""
import json
import pathlib
import re
import subprocess
import sys
import time

import kubelet_suite
from kubelet_suite import Mismatch, enter_namespace, expect, free_ports, http_get, wait


class Suite(kubelet_suite.Suite):
    def __init__(self, cluster, certificates):
        super().__init__(cluster, certificates)
        self.tools = kubelet_suite.tools()
        self.dir = pathlib.Path(cluster.dir) / "scrape"
        self.dir.mkdir()
        (self.dir / "token").write_text(self.token("scraper", ["--verb=get", "--resource=nodes/metrics,nodes/stats"]))

    def resource(self):
        status, text = self.request("/metrics/resource", token=(self.dir / "token").read_text())
        expect("status", status, 200)
        return text

    def outputs(self):
        return {"cocoon-operator": http_get(f"http://127.0.0.1:{self.cluster.metrics_port}/metrics"),
                "vk-cocoon": http_get(f"http://127.0.0.1:{self.node.metrics_port}/metrics"),
                "resource": self.resource()}

    def test_promtool(self):
        for name, text in self.outputs().items():
            done = subprocess.run([self.tools / "promtool", "check", "metrics"], input=text, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, check=False)
            expect(f"promtool about {name}", (done.returncode, done.stdout), (0, ""))

    def test_prometheus(self):
        port = free_ports(1)[0]
        jobs = [{"job_name": "operator", "static_configs": [{"targets": [f"127.0.0.1:{self.cluster.metrics_port}"]}]},
                {"job_name": "node", "static_configs": [{"targets": [f"127.0.0.1:{self.node.metrics_port}"]}]},
                {"job_name": "resource", "scheme": "https", "metrics_path": "/metrics/resource",
                 "tls_config": {"insecure_skip_verify": True}, "authorization": {"credentials_file": str(self.dir / "token")},
                 "static_configs": [{"targets": [f"{self.node.subnet}.1:{self.node.kubelet_port}"]}]}]
        (self.dir / "prometheus.yml").write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
        with open(self.dir / "prometheus.log", "wb") as log:
            server = subprocess.Popen([self.tools / "prometheus", f"--config.file={self.dir}/prometheus.yml",
                                       f"--storage.tsdb.path={self.dir}/data", f"--web.listen-address=127.0.0.1:{port}"],
                                      stdout=log, stderr=log)

        def targets():
            return json.loads(http_get(f"http://127.0.0.1:{port}/api/v1/targets"))["data"]["activeTargets"]

        def query(text):
            found = json.loads(http_get(f"http://127.0.0.1:{port}/api/v1/query?query={text}"))["data"]["result"]
            return {r["metric"].get("pod", ""): float(r["value"][1]) for r in found}
        try:
            wait("three targets up", 40, lambda: sorted(t["health"] for t in targets()) == ["up"] * 3)
            time.sleep(2)
            for target in targets():
                expect(f"{target['labels']['job']}: last error", (target["health"], target["lastError"]), ("up", ""))
            expect("VMs", sum(query("cocoon_vk_vm_table_size").values()), 4.0)
            have = query("pod_memory_working_set_bytes")
            expect("pods with memory", sorted(have), sorted(self.cluster.pods()))
            if min(have.values()) <= 0:
                raise Mismatch(f"memory: {have}")
            if query("node_cpu_usage_seconds_total").get("", 0) <= 0:
                raise Mismatch("the node has used no CPU")
        finally:
            server.terminate()
            server.wait()

    def test_families(self):
        """Names, order and labels of the resource endpoint are the kubelet's."""
        text = self.resource()
        families = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)
        expect("families", families, [
            ("node_cpu_usage_seconds_total", "counter"), ("node_memory_working_set_bytes", "gauge"),
            ("container_cpu_usage_seconds_total", "counter"), ("container_memory_working_set_bytes", "gauge"),
            ("container_cpu_cfs_throttled_seconds_total", "counter"),
            ("container_cpu_cfs_throttled_periods_total", "counter"), ("pod_cpu_usage_seconds_total", "counter"),
            ("pod_memory_working_set_bytes", "gauge"), ("container_start_time_seconds", "gauge")])
        samples = [line for line in text.splitlines() if not line.startswith("#")]
        for line in samples:
            if not re.fullmatch(r"[a-z_]+(\{[^}]*\})? \S+ \d{13}", line):
                raise Mismatch(f"no sample with a time: {line}")

    def test_node_is_not_busy_for_nothing(self):
        """CPU of the node between two looks: what was used, not what there is."""
        def cpu():
            return float(re.search(r"^node_cpu_usage_seconds_total (\S+)", self.resource(), re.M).group(1))

        def busy():
            words = pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:]
            return sum(int(words[i]) for i in (0, 1, 2, 5, 6, 7)) / 100
        first, first_busy = cpu(), busy()
        time.sleep(4)
        second, second_busy = cpu(), busy()
        if abs((second - first) - (second_busy - first_busy)) > 2.5:
            raise Mismatch(f"CPU seconds: {second - first}, the machine says {second_busy - first_busy}")


if __name__ == "__main__":
    kubelet_suite.tools()  # before the network is gone
    enter_namespace()
    sys.exit(kubelet_suite.run_suite(Suite))

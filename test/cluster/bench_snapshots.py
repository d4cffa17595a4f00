"""make bench-snapshots: a guest of 4 GiB (half compressible, a quarter sparse) to a real registry and back in the three forms
of an artifact, beside raw copies of the same bytes in the same run; each row with its bar and `ok` or `MISSED`, exit 1 when
one is missed (docs/performance.md). BENCH_SNAPSHOT_MIB makes the guest smaller, BENCH_RUNS changes the number of rounds."""
import hashlib
import io
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request

MIB = 1 << 20
REPO = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", REPO / "build/release"))
SIZE = int(os.environ.get("BENCH_SNAPSHOT_MIB", "4096"))
RUNS = int(os.environ.get("BENCH_RUNS", "3"))
STRIPE = 16 * MIB  # four of them: hole, compressible, compressible, random
FORMS = (("v1", 0, 0), ("v2 plain, 256 MiB chunks", 0, 256), ("v2 zstd 3, 256 MiB chunks", 3, 256))
rows, missed = [], 0


def row(what, value, unit, least=None, most=None):
    global missed
    bar = f">= {least}" if least is not None else f"<= {most}" if most is not None else ""
    held = (least is None or value >= least) and (most is None or value <= most)
    verdict = "" if not bar else "ok" if held else "MISSED"
    missed += verdict == "MISSED"
    rows.append((what, value, unit, bar, verdict))
    print(f"{what:66} {value:>9.3g} {unit:6} {bar:8} {verdict}", flush=True)


class Guest:
    """The packed bytes of the memory file, a MiB a read: compressible (each KiB four times) and random stripes in turn."""

    def __init__(self, size):
        self.left, self.stripe = size, 0

    def read(self, count=-1):
        count = min(count, self.left, MIB)
        kind, self.stripe = (self.stripe // (STRIPE // MIB)) % 3, self.stripe + 1
        self.left -= count
        if kind == 2:
            return os.urandom(count)
        seed = os.urandom(count // 4)
        return b"".join(seed[i:i + 1024] * 4 for i in range(0, len(seed), 1024))[:count].ljust(count, b"\0")


def make_archive(path):
    stripes = SIZE * MIB // STRIPE
    data = [i for i in range(stripes) if i % 4 != 0]
    runs = [{"o": i * STRIPE, "l": STRIPE} for i in data]
    envelope = json.dumps({"version": 1, "config": {"id": "A" * 26, "name": "vm", "hypervisor": "cloud-hypervisor"}}).encode()
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT, copybufsize=MIB) as archive:
        entry = tarfile.TarInfo("snapshot.json")
        entry.size = len(envelope)
        archive.addfile(entry, io.BytesIO(envelope))
        entry = tarfile.TarInfo("memory-ranges")
        entry.size = len(data) * STRIPE
        entry.pax_headers = {"COCOON.sparse.map": json.dumps(runs, separators=(",", ":")),
                             "COCOON.sparse.size": str(SIZE * MIB)}
        archive.addfile(entry, Guest(entry.size))
    return len(data) * STRIPE


def settle(*paths):
    """On disk and out of the page cache, so that each measurement reads what it says."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


class Registry:
    def __init__(self, directory, port):
        self.store, self.port, self.process = directory / "store", port, None
        self.config = directory / "registry.yml"
        self.config.write_text(f"version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\n"
                               f"storage: {{filesystem: {{rootdirectory: {self.store}}}}}\n"
                               f"http: {{addr: \"127.0.0.1:{port}\"}}\n")

    def start(self):
        self.process = subprocess.Popen(["docker-registry", "serve", self.config], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v2/", timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("docker-registry does not answer")

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
        shutil.rmtree(self.store, ignore_errors=True)

    def fresh(self):
        self.stop()
        self.start()

    def forget_cache(self):
        settle(*(p for p in self.store.rglob("data") if p.stat().st_size > MIB))


def timed(*words, **more):
    begin = time.monotonic()
    more.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([str(w) for w in words], check=True, stderr=subprocess.PIPE, **more)
    return time.monotonic() - begin, done


def curl_push(url, path, digest):
    """As plain as it gets: one POST, one PATCH of the whole file, one PUT."""
    begin = time.monotonic()
    curl, head = ["curl", "-sS", "-D", "-", "-o", "/dev/null", "-H", "Expect:", "-H", "Content-Type: application/octet-stream"], ""
    for method in ("POST", "PATCH", "PUT"):
        location = [line.split(": ", 1)[1].strip() for line in head.splitlines() if line.lower().startswith("location:")]
        words = {"POST": lambda: [f"{url}/v2/raw/blobs/uploads/"], "PATCH": lambda: ["-T", str(path), location[0]],
                 "PUT": lambda: [f"{location[0]}&digest={digest}"]}[method]()
        head = subprocess.run(curl + ["-X", method, *words], check=True, stdout=subprocess.PIPE, text=True).stdout
    if " 201 " not in head.splitlines()[0]:
        sys.exit(f"curl: the registry answered {head.splitlines()[0]}")
    return time.monotonic() - begin


def sync(path):
    begin = time.monotonic()
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    return time.monotonic() - begin


def transfer(registry, archive, out, spool, form):
    """One push and one pull; what the program said of each."""
    _, level, chunk = form
    tool, host = BUILD / "snapshot-bench", f"127.0.0.1:{registry.port}"
    settle(archive)
    exporter = subprocess.Popen(["cat", archive], stdout=subprocess.PIPE)
    _, done = timed(tool, "push", host, "vm", spool, level, chunk, stdin=exporter.stdout)
    exporter.stdout.close()
    if exporter.wait() != 0:
        sys.exit("the exporter failed")
    pushed = json.loads(done.stderr)
    registry.forget_cache()
    with open(out, "wb") as sink:
        _, done = timed(tool, "pull", host, "vm", spool, stdout=sink)
    return pushed, json.loads(done.stderr)


def skopeo(registry, directory):
    """The artifact of the registry to a directory and back, by the usual tool; None where it is not installed."""
    if not shutil.which("skopeo"):
        return None
    local, url = directory / "skopeo", f"docker://127.0.0.1:{registry.port}"
    registry.forget_cache()
    times = {"pull": timed("skopeo", "copy", "-q", "--src-tls-verify=false", f"{url}/vm:bench", f"dir:{local}")[0]}
    for path in local.iterdir():
        times["pull"] += sync(path)
    registry.fresh()
    settle(*local.iterdir())
    times["push"] = timed("skopeo", "copy", "-q", "--dest-tls-verify=false", f"dir:{local}", f"{url}/vm:bench")[0]
    shutil.rmtree(local)
    return times


def same_files(first, second):
    """Both archives hold the same memory (the envelope is rebuilt, with its own white space)."""
    sums = []
    for path in (first, second):
        with tarfile.open(path) as archive:
            entry = archive.getmember("memory-ranges")
        digest = hashlib.sha256()
        with open(path, "rb") as stream:
            stream.seek(entry.offset_data)
            for _ in range(entry.size // MIB):
                digest.update(stream.read(MIB))
        sums.append((entry.size, entry.pax_headers["COCOON.sparse.map"], digest.hexdigest()))
    return sums[0] == sums[1]


def measure(directory, registry):
    archive, out, copy, spool = (directory / n for n in ("archive.tar", "out.tar", "copy", "spool"))
    spool.mkdir()
    size = make_archive(archive)
    digest = "sha256:" + subprocess.run(["sha256sum", archive], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[0]
    found = {}

    def note(name, seconds):
        found.setdefault(name, []).append(seconds)

    costs = {}
    for number in range(RUNS):
        settle(archive)
        note("copy", timed("dd", f"if={archive}", f"of={copy}", "bs=1M", "conv=fsync")[0])
        copy.unlink()
        settle(archive)
        note("sha256", timed("openssl", "dgst", "-sha256", archive, stdout=subprocess.DEVNULL)[0])
        registry.fresh()
        settle(archive)
        note("curl push", curl_push(f"http://127.0.0.1:{registry.port}", archive, digest))
        registry.forget_cache()
        blob = f"http://127.0.0.1:{registry.port}/v2/raw/blobs/{digest}"
        note("curl pull", timed("curl", "-sS", "-o", copy, blob)[0] + sync(copy))
        copy.unlink()
        for form in FORMS:
            registry.fresh()
            for way, cost in zip(("push", "pull"), transfer(registry, archive, out, spool, form)):
                costs.setdefault((form[0], way), []).append(cost)
                note(f"{form[0]} {way}", cost["wall_s"])
            if number == 0 and not same_files(archive, out):
                sys.exit(f"{form[0]}: what came back is not what was sent")
            out.unlink()
            if form[0] == "v1":
                for way, seconds in (skopeo(registry, directory) or {}).items():
                    note(f"skopeo {way}", seconds)
    rate = {name: size / MIB / statistics.median(times) for name, times in found.items()}
    for name, what in (("copy", "raw copy on the same disk, with fsync"), ("sha256", "SHA-256 on one core (openssl)"),
                       ("curl push", "curl to the registry"), ("curl pull", "curl from the registry, with fsync"),
                       ("skopeo push", "skopeo copy of the v1 artifact to the registry"),
                       ("skopeo pull", "skopeo copy of the v1 artifact from the registry, with fsync")):
        if name in rate:
            row(f"raw: {what}", rate[name], "MiB/s")
    for name, _, _ in FORMS:
        for way, least in (("push", 0.7), ("pull", 0.8)):
            cost = costs[name, way]
            bar = least if "zstd" not in name else None
            row(f"{name}: {way}", rate[f"{name} {way}"], "MiB/s")
            row(f"{name}: {way} / slower of (curl {way}, SHA-256)",
                rate[f"{name} {way}"] / min(rate[f"curl {way}"], rate["sha256"]), "", least=bar)
            row(f"{name}: {way}, CPU", statistics.median(c["cpu_s"] for c in cost), "s")
            row(f"{name}: {way}, peak memory", max(c["peak_mib"] for c in cost), "MiB", most=64)
        row(f"{name}: stored", costs[name, "push"][0]["bytes"] / MIB, "MiB")


def main():
    root = os.environ.get("BENCH_DIRECTORY", "/var/tmp")
    needed = 5 * SIZE * MIB
    if shutil.disk_usage(root).free < needed:
        sys.exit(f"{root} has less than {needed >> 30} GiB free: BENCH_SNAPSHOT_MIB or BENCH_DIRECTORY")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="cocoon-bench-", dir=root))
    registry = Registry(directory, int(os.environ.get("BENCH_PORT", "15051")))
    print(f"guest of {SIZE} MiB, {SIZE * 3 // 4} MiB of data, median of {RUNS}; load average {os.getloadavg()[0]:.1f} on "
          f"{os.cpu_count()} cores\n", flush=True)
    try:
        measure(directory, registry)
    finally:
        registry.stop()
        shutil.rmtree(directory, ignore_errors=True)
    out = REPO / "build/bench-snapshots.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(rows, indent=1))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()

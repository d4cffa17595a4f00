#!/usr/bin/env python3
"""What a person sees with kubectl on a running cluster, compared with golden patterns (test/integration/golden/*.txt).

A pattern line is literal but for {name} placeholders below; runs of blanks match any run of blanks; a line `...` stands for
any lines. Claims nothing that was not read from kubectl."""
import os
import pathlib
import re
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from cluster import Cluster, Mismatch, enter_namespace, wait  # noqa: E402
from scenario import Scenario, describe_failure  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
PLACEHOLDERS = {"age": r"\d+[smh](?:\d+s)?", "ip": r"10\.88\.1\.\d{1,3}", "hash": r"[0-9a-f]{6}", "id": r"[A-Z2-7]{26}",
                "uid": r"[0-9a-f-]{36}", "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "number": r"\d+", "any": r".*",
                "version": r"\S+", "date": r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000",
                "repeats": r"\d+[smh](?:\d+s)?(?: \(x\d+ over \d+[smh](?:\d+s)?\))?"}


def line_pattern(line):
    parts = re.split(r"\{(\w+)\}", line.rstrip())
    text = "".join(PLACEHOLDERS[p] if i % 2 else re.sub(r"(?:\\?\s)+", r"\\s+", re.escape(p)) for i, p in enumerate(parts))
    return text + r"\s*"


def matches(golden, text):
    """None, or the first golden line that could not be matched."""
    have = text.rstrip("\n").split("\n")
    at, gap = 0, False
    for line in golden.rstrip("\n").split("\n"):
        if line.strip() == "...":
            gap = True
            continue
        pattern = re.compile(line_pattern(line))
        candidates = range(at, len(have)) if gap else range(at, min(at + 1, len(have)))
        found = next((i for i in candidates if pattern.fullmatch(have[i])), None)
        if found is None:
            return f"golden line {line!r} does not match {have[at] if at < len(have) else 'the end'!r}"
        at, gap = found + 1, False
    return None if gap or at == len(have) else f"unexpected line {have[at]!r}"


def self_test():
    """The comparison itself must be able to fail."""
    assert matches("A  B\n{number} x", "A B\n12   x") is None
    assert matches("A B\n12 x", "A B\n13 x")
    assert matches("A\n...\nC", "A\nB\nB\nC") is None
    assert matches("A\n...\nC", "A\nB\nC\nD")
    assert matches("A", "A\nB") and matches("A\nB", "A")
    assert matches("demo-0 {ip}", "demo-0 10.88.1.7") is None and matches("demo-0 {ip}", "demo-0 <none>")


def main():
    self_test()
    directory = tempfile.mkdtemp(prefix="cocoon-golden-")
    cluster = Cluster(directory, os.environ.get("VARIANT") or "release")
    passed = failed = 0
    try:
        cluster.start_servers()
        cluster.start_daemons()
        scenario = Scenario(cluster, lambda text: None)
        scenario.create()
        views = {"running-cocoonset": ["get", "cocoonset"], "running-category": ["get", "cocoon"],
                 "running-pods": ["get", "pods", "-o", "wide"], "running-nodes": ["get", "nodes"],
                 "running-describe": ["describe", "cocoonset", "demo"], "running-describe-pod": ["describe", "pod", "demo-0"],
                 "running-describe-node": ["describe", "node", cluster.nodes[0].name]}
        for name, words in views.items():
            passed, failed = compare(cluster, name, words, passed, failed)
        scenario.suspend()
        views = {"suspended-cocoonset": ["get", "cocoonset"], "suspended-pods": ["get", "pods", "-o", "wide"],
                 "suspended-describe": ["describe", "cocoonset", "demo"]}
        for name, words in views.items():
            passed, failed = compare(cluster, name, words, passed, failed)
        scenario.delete()
        wait("no pods", 20, lambda: not cluster.pods())
    except Mismatch as mismatch:
        failed += 1
        print(f"MISMATCH: {mismatch}\n{describe_failure(cluster)}")
    try:
        cluster.stop(remove=False)
    except Mismatch as mismatch:
        failed += 1
        print(mismatch)
    shutil.rmtree(directory, ignore_errors=True)
    print(f"golden: {passed} passed, {failed} failed")
    sys.exit(bool(failed))


def compare(cluster, name, words, passed, failed):
    text = cluster.kubectl(*words)
    golden = (GOLDEN / f"{name}.txt")
    problem = matches(golden.read_text(), text) if golden.exists() else "there is no golden file"
    if not problem:
        return passed + 1, failed
    print(f"FAIL {name} (kubectl {' '.join(words)}): {problem}\n{text}")
    return passed, failed + 1


if __name__ == "__main__":
    enter_namespace()
    main()

#!/usr/bin/env python3
"""The commands of the quick start are run as they stand there, and their output is compared; every command of the README is
one of those, or one that another suite runs. Links in the documents lead somewhere. Prints `N passed, M failed`.

VARIANT=release|asan; README_UPDATE_DOCS=1 writes the outputs of docs/quick-start.md anew."""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUICK_START = ROOT / "docs/quick-start.md"
# Commands of the README that the quick start does not run -> who does.
ELSEWHERE = {
    "make demo": "hack/check", "make check": ".ci/run", "make install": "test_make_install_puts_all_in_place here",
    "make e2e": ".ci/run", "make images": "make e2e builds the same by hack/image",
    "helm install": "test_chart, make e2e", "kubectl label node": "test_chart, make e2e", "helm test": "make e2e",
    "kubectl create namespace": "test_chart, make e2e", "kubectl patch cocoonset demo": "make demo does the same patch",
    "kubectl get cocoonset demo": "the quick start",
}
PASSED, FAILED = [], []


def check(name, problems):
    (FAILED if problems else PASSED).append(name)
    print(f"{'FAIL' if problems else 'ok  '} {name}" + "".join(f"\n  {p}" for p in problems))


def normal(text):
    """Without what differs from run to run: ages, ids, digests, ports, counts of blanks."""
    text = re.sub(r"/tmp/\S+|\b[0-9a-f]{7,40}(-dirty)?\b|\b\d+[smhd](\d+[smh])?\b|sha256:\w+|\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b|v?[0-9.]*-?\w*-g?[0-9a-f]{7}\S*", " ", text)
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def run_block(text, environment):
    """As a shell that goes on from block to block would: variables are handed on."""
    marker = "=== environment"
    done = subprocess.run(["bash", "-e", "-c", text + f"\necho '{marker}'; env -0"], cwd=ROOT, env=environment, capture_output=True,
                          timeout=300)
    out, found, rest = done.stdout.decode().partition(marker + "\n")
    if not found:
        return out + done.stderr.decode(), environment, f"exit {done.returncode}: {done.stderr.decode().strip()}"
    environment = dict(item.split("=", 1) for item in rest.split("\0") if "=" in item)
    return out + done.stderr.decode(), environment, None


def quick_start():
    document, problems = QUICK_START.read_text(), []
    environment = {k: v for k, v in os.environ.items() if k not in ("KUBECONFIG", "OCI_REGISTRY")}
    started = subprocess.run(["make", "-s", "demo", "KEEP=1", *([f"VARIANT={os.environ['VARIANT']}"] if os.environ.get("VARIANT") else [])],
                             cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    if started.returncode:
        check("make demo KEEP=1", [started.stdout[-2000:] + started.stderr[-2000:]])
        return
    check("make demo KEEP=1", [])
    pattern = re.compile(r"(<!-- run -->\n```sh\n)(.*?)(```\n```\n)(.*?)(```)", re.S)
    outputs = []
    try:
        for match in pattern.finditer(document):
            text, environment, problem = run_block(match.group(2), environment)
            outputs.append(text)
            name = "quick start: " + match.group(2).strip().splitlines()[-1][:70]
            if problem:
                check(name, [problem])
            elif os.environ.get("README_UPDATE_DOCS"):
                check(name, [])
            else:
                have, want = normal(text), normal(match.group(4))
                check(name, [] if have == want else [f"have {have}", f"want {want}"])
    finally:
        subprocess.run(["make", "-s", "demo-stop"], cwd=ROOT, capture_output=True)
    if os.environ.get("README_UPDATE_DOCS") and not FAILED:
        rest = iter(outputs)
        QUICK_START.write_text(pattern.sub(lambda m: m.group(1) + m.group(2) + m.group(3) + next(rest) + m.group(5), document))


def commands_of(document):
    for block in re.findall(r"```sh\n(.*?)```", document, re.S) + ["\n".join(re.findall(r"^    ((?:make|kubectl|helm) .*)$", document, re.M))]:
        for line in block.splitlines():
            line = line.split(" #")[0].strip()
            if line.startswith(("make", "kubectl", "helm", "eval")):
                yield line


def readme_commands():
    run = {line.split("#")[0].split(" 2>")[0].strip() for line in commands_of(QUICK_START.read_text())}
    known = sorted(run) + list(ELSEWHERE)
    check("commands of the README", [f"nobody runs: {line}" for line in commands_of((ROOT / "README.md").read_text())
                                     if not any(line.startswith(start) for start in known)])


def links():
    problems = []
    for document in sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text()):
            if "://" not in target and not (document.parent / target).exists():
                problems.append(f"{document.relative_to(ROOT)}: {target}")
    check("links", problems)


def pictures_of_values():
    """Each value of the chart that the documents name exists."""
    values = (ROOT / "charts/cocoon/values.yaml").read_text()
    top = re.findall(r"^(\w+):", values, re.M)
    problems = []
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for name in re.findall(rf"`((?:{'|'.join(top)})\.[a-zA-Z.]+)`", document.read_text()):
            leaf = name.rsplit(".", 1)[1]
            if not re.search(rf"^ +{leaf}:|[{{ ]{leaf}:", values, re.M):
                problems.append(f"{document.relative_to(ROOT)}: {name}")
    check("values of the chart", problems)


def man_pages():
    """Their options are those of the programs."""
    problems = []
    build = ROOT / "build" / (os.environ.get("VARIANT") or "release")
    for page, words in (("cocoon-operator.8", [build / "cocoon-operator", "--help"]), ("vk-cocoon.8", [build / "vk-cocoon", "--help"]),
                        ("kubectl-cocoon.1", [build / "kubectl-cocoon", "help"])):
        text = (ROOT / "packaging/man" / page).read_text().replace("\\-", "-")
        printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        problems += [f"{page} lacks {flag}" for flag in sorted(set(re.findall(r"--[a-z][a-z-]+", printed))) if flag not in text]
        problems += [f"{page} has {flag}, which the program does not know" for flag in sorted(set(re.findall(r"--[a-z][a-z-]+", text)))
                     if flag not in printed]
    check("man pages", problems)


def make_install():
    folder = ROOT / "build/install-test"
    subprocess.run(["rm", "-rf", folder], check=True)
    done = subprocess.run(["make", "-s", "install", f"DESTDIR={folder}", "PREFIX=/opt/cocoon",
                           f"VARIANT={os.environ.get('VARIANT') or 'release'}"], cwd=ROOT, capture_output=True, text=True)
    wanted = ["bin/cocoon-operator", "bin/vk-cocoon", "bin/kubectl-cocoon", "bin/kubectl_complete-cocoon", "share/man/man1/kubectl-cocoon.1",
              "share/man/man8/vk-cocoon.8", "lib/systemd/system/vk-cocoon.service", "share/cocoon/crds/cocoonsets.yaml",
              "share/bash-completion/completions/kubectl-cocoon", "share/doc/cocoon/vk-cocoon.env.example"]
    problems = [done.stderr] if done.returncode else [f"missing: {w}" for w in wanted if not (folder / "opt/cocoon" / w).exists()]
    if not problems and "/opt/cocoon/bin/vk-cocoon" not in (folder / "opt/cocoon/lib/systemd/system/vk-cocoon.service").read_text():
        problems = ["the unit starts another program"]
    subprocess.run(["rm", "-rf", folder], check=True)
    check("make install puts all in place", problems)


def main():
    steps = {"links": links, "values": pictures_of_values, "man": man_pages, "install": make_install, "commands": readme_commands,
             "quick-start": quick_start}
    for name in sys.argv[1:] or steps:
        steps[name]()
    print(f"test_readme: {len(PASSED)} passed, {len(FAILED)} failed")
    return 0 if PASSED and not FAILED else 1


sys.exit(main())

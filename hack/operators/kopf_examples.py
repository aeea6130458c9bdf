"""Runs kopf's examples as its own end-to-end tests do, on a hollow cluster and on a tenant of `vcsync up`."""

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hack.operators.cases import Case, Comparison, again, compare, results_of_pytest
from hack.operators.whole import hollow_cluster, tenant_of_up
from hack.testbed import ensure
from hack.testbed.binaries import BuildError, cache_root
from tests.real.waiting import eventually

NAME = "kopf"
VERSION = "1.45.2"
TESTS = "tests/e2e"
LIMIT_SECONDS = 1200
"""Time limit of all examples."""
EXAMPLE_SECONDS = 180
"""Time limit of one example."""
REQUIREMENTS = (
    f"kopf=={VERSION}",
    "certbuilder==0.14.2",
    "certvalidator==0.11.1",
    "freezegun==1.5.5",
    "kmock==0.8",
    "kubernetes==37.0.2",
    "looptime==0.9",
    "pykube-ng==23.6.0",
    "pytest==9.2.0",
    "pytest-aiohttp==1.1.1",
    "pytest-asyncio==1.5.0",
    "pytest-mock==3.17.0",
    "pytest-timeout==2.4.0",
)
"""Packages that the tests import, in an environment of their own."""

Progress = Callable[[str], None]


def compared(logs: Path, report: Progress) -> Comparison:
    """Run the examples on both sides. An example that differs runs a second time on a tenant.

    Raises:
        BuildError: a package cannot be installed.
    """
    folder = prepared(report)
    with hollow_cluster(logs / "bed") as kubeconfig:
        real = run(folder, kubeconfig, logs / "kube-apiserver")
    found = compare(real, _on_tenant(folder, logs / "tenant"))
    if found.worse:
        found = again(found, compare(real, _on_tenant(folder, logs / "tenant-again")))
    return found


def prepared(report: Progress) -> Path:
    """Return the folder with kopf's sources and an environment for their tests; it is made unless it is in the cache.

    Raises:
        BuildError: a package cannot be downloaded.
    """
    folder = cache_root() / f"operator-{NAME}-{VERSION}"
    if (folder / "ready").exists():
        return folder
    report(f"{NAME}: downloading {NAME}=={VERSION}")
    folder.mkdir(parents=True, exist_ok=True)
    _call(sys.executable, "-m", "venv", "--clear", str(folder / "venv"))
    python = str(folder / "venv" / "bin" / "python")
    _call(python, "-m", "pip", "install", "--quiet", *REQUIREMENTS)
    source = (
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--dest",
        str(folder),
        f"{NAME}=={VERSION}",
    )
    _call(python, "-m", "pip", *source)
    with tarfile.open(folder / f"{NAME}-{VERSION}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    (folder / f"{NAME}-{VERSION}").rename(folder / "source")
    (folder / "ready").touch()
    return folder


def run(folder: Path, kubeconfig: Path, logs: Path) -> dict[str, Case]:
    """Run the examples on a cluster and return name -> result."""
    logs.mkdir(parents=True, exist_ok=True)
    programs = logs / "bin"
    programs.mkdir(exist_ok=True)
    if not (programs / "kubectl").exists():
        (programs / "kubectl").symlink_to(ensure(("kubectl",))["kubectl"])
    source, report = folder / "source", logs / "report.xml"
    for manifest in ("examples/crd.yaml", "peering.yaml"):
        # Objects of a kind are in the same file as its definition, which must be established first.
        eventually(partial(_applied, programs / "kubectl", kubeconfig, source / manifest))
    command = [
        str(folder / "venv" / "bin" / "python"), "-m", "pytest", TESTS, "--only-e2e", "-v", f"--junitxml={report}",
        "-p", "no:cacheprovider", f"--timeout={EXAMPLE_SECONDS}",
    ]  # fmt: skip
    settings = {
        "KUBECONFIG": str(kubeconfig),
        "PATH": f"{programs}:{folder / 'venv' / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": "",
        "PYTEST_ADDOPTS": "",
    }
    with (logs / "output.log").open("wb") as output:
        subprocess.run(
            command, cwd=source, env={**os.environ, **settings}, stdout=output, stderr=subprocess.STDOUT,
            timeout=LIMIT_SECONDS, check=False,
        )  # fmt: skip
    return results_of_pytest(report.read_text(encoding="utf-8"))


def _on_tenant(folder: Path, logs: Path) -> dict[str, Case]:
    with tenant_of_up(logs) as kubeconfig:
        return run(folder, kubeconfig, logs / "run")


def _applied(kubectl: Path, kubeconfig: Path, manifest: Path) -> bool:
    command = [str(kubectl), f"--kubeconfig={kubeconfig}", "apply", "-f", str(manifest)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command[2:5])}: {(done.stderr or done.stdout).strip()[-300:]}")

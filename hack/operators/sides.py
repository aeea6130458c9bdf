"""Runs a test program on a fresh kube-apiserver, and on a fresh tenant of an embedded control plane."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hack.embedded import ControlPlane
from hack.operators.cases import Case, results
from hack.testbed import TestBed, ensure
from hack.testbed.processes import free_ports
from tests.real.waiting import eventually

LIMIT_SECONDS = 900
"""Time limit of one test program."""
SEED = 1
"""Seed of Ginkgo's order, which is the same on both sides."""
ALLOWED_WEBHOOKS = (
    "--webhook-allow-host", "127.0.0.1:*", "--webhook-allow-host", "localhost:*", "--webhook-allow-network", "127.0.0.0/8",
)  # fmt: skip
"""Allows the embedded control plane to call the webhooks that test programs serve."""


@contextmanager
def kube_apiserver(folder: Path) -> Iterator[Path]:
    """Run a kube-apiserver as envtest does, without controllers and without the plug-in ServiceAccount; yield its kubeconfig."""
    with TestBed(supers=0, tenants=0, directory=folder, without_admission=("ServiceAccount",)) as bed:
        bed.meta.pause("kube-controller-manager")
        try:
            yield bed.meta.kubeconfig
        finally:
            bed.meta.resume("kube-controller-manager")


@contextmanager
def tenant(folder: Path) -> Iterator[Path]:
    """Run an embedded control plane with a tenant without controllers, and yield the tenant's kubeconfig.

    The plug-in ServiceAccount of an embedded control plane stays on, so upstream's controller makes the accounts.
    """
    with ControlPlane(folder / "plane", arguments=ALLOWED_WEBHOOKS) as plane:
        kubeconfig = plane.create("operator", "--controllers", "external", "--nodes", "own")
        with _accounts(kubeconfig, folder):
            yield kubeconfig


@contextmanager
def _accounts(kubeconfig: Path, folder: Path) -> Iterator[None]:
    """Run the controller that makes ServiceAccounts named default."""
    programs = ensure(("kube-controller-manager", "kubectl"))
    command = [
        str(programs["kube-controller-manager"]), f"--kubeconfig={kubeconfig}", "--controllers=serviceaccount-controller",
        "--leader-elect=false", f"--secure-port={free_ports(1)[0]}", "--bind-address=127.0.0.1", f"--cert-dir={folder}",
    ]  # fmt: skip
    with (folder / "kube-controller-manager.log").open("wb") as log:
        controllers = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        account = [str(programs["kubectl"]), f"--kubeconfig={kubeconfig}", "get", "serviceaccount", "default"]
        eventually(lambda: subprocess.run(account, capture_output=True, check=False).returncode == 0)
        yield
    finally:
        controllers.terminate()
        controllers.wait()


def run(program: Path, where: Path, kubeconfig: Path, folder: Path) -> dict[str, Case]:
    """Run a test program against an existing cluster and return name -> result of its cases.

    Args:
        program: the program.
        where: its package's folder, with the files that the tests read.
        kubeconfig: the cluster's.
        folder: for `output.log` and Ginkgo's report.
    """
    log, report, home = folder / "output.log", folder / "report.xml", folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    command = [str(program), "-test.v", f"-test.timeout={LIMIT_SECONDS}s"]
    if uses_ginkgo(program):
        command += [
            f"-ginkgo.junit-report={report}",
            f"-ginkgo.timeout={LIMIT_SECONDS}s",
            f"-ginkgo.seed={SEED}",
        ]
    settings = {
        "HOME": str(home),
        "KUBECONFIG": str(kubeconfig),
        "USE_EXISTING_CLUSTER": "true",
        "KUBEBUILDER_ASSETS": str(_assets(folder)),
    }
    with log.open("wb") as output:
        try:
            subprocess.run(
                command, cwd=where, env={**os.environ, **settings}, stdout=output, stderr=subprocess.STDOUT,
                timeout=LIMIT_SECONDS + 60, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            output.write(b"\nit did not end\n")
    text = report.read_text(encoding="utf-8") if report.exists() else ""
    return results(log.read_text(encoding="utf-8", errors="replace"), text)


def uses_ginkgo(program: Path) -> bool:
    """Return whether a test program contains Ginkgo, by a flag of it."""
    return b"junit-report" in program.read_bytes()


def _assets(folder: Path) -> Path:
    """Return a folder with the programs of a control plane, for tests that start one of their own."""
    assets = folder / "assets"
    assets.mkdir(exist_ok=True)
    for name, path in ensure(("etcd", "kube-apiserver", "kubectl")).items():
        link = assets / name
        if not link.exists():
            link.symlink_to(path)
    return assets

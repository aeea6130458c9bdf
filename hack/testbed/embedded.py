"""Clusters in one embedded control plane instead of a kube-apiserver each: its command line and their files."""

import shutil
import subprocess
import sys
from pathlib import Path

from hack.testbed import servers
from hack.testbed.servers import Plan

COMMAND_SECONDS = 60.0
WITH_OWN_ROLES = ("kube-controller-manager", "kube-scheduler")
"""Components for which every control plane has roles."""


class EmbeddedError(Exception):
    """A command at the control plane failed; the text holds what it printed."""


def command(data: Path, port: int, tokens: Path, etcd: str = "") -> list[str]:
    """Return the command that serves all embedded clusters of a test bed; `etcd`: URL of where objects are kept."""
    return [
        *(sys.executable, "-m", "vcsync", "run", "controlplane"),
        *("--data", str(data), "--listen", f"127.0.0.1:{port}", "--token-file", str(tokens)),
        *(("--etcd", etcd) if etcd else ()),
    ]


def path_of(tenant: str) -> str:
    """Return what goes before every path of a tenant's requests."""
    return f"/tenants/{tenant}"


def write_tokens(path: Path, plans: list[Plan]) -> None:
    """Make every cluster's admin known by the token of its plan; the control plane reads the file anew."""
    lines = [f'{plan.admin_token},admin,admin,"vcsync:tenant-admins",{plan.name}\n' for plan in plans]
    unfinished = path.with_suffix(".unfinished")
    unfinished.touch(mode=0o600)
    unfinished.write_text("".join(lines))
    unfinished.replace(path)


def create(plan: Plan, data: Path, admin_kubeconfig: Path) -> None:
    """Make the tenant that a cluster is, and the files with which its admin and its components work.

    Raises:
        EmbeddedError: the control plane does not take it.
    """
    folder = plan.folder
    vcsync(data, "tenant", "create", plan.name)
    vcsync(data, "tenant", "export", plan.name, "--dir", str(folder / "keys"))
    shutil.copyfile(folder / "keys" / "server-ca.crt", folder / "ca.crt")
    admin = servers.kubeconfig(plan, (folder / "ca.crt").read_text(), token=plan.admin_token)
    texts = {
        admin_kubeconfig: admin,
        folder / "admin.kubeconfig": vcsync(data, "tenant", "kubeconfig", plan.name),
    }
    for component in plan.components:
        texts[folder / f"{component}.kubeconfig"] = (
            vcsync(data, "tenant", "kubeconfig", plan.name, "--user", f"system:{component}")
            if component in WITH_OWN_ROLES
            else admin
        )
    for path, text in texts.items():
        path.touch(mode=0o600)
        path.write_text(text)


def vcsync(data: Path, *arguments: str) -> str:
    """Run a vcsync command as the control plane's operator and return what it prints.

    Raises:
        EmbeddedError: it failed.
    """
    run = subprocess.run(
        [sys.executable, "-m", "vcsync", *arguments, "--data", str(data)],
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_SECONDS,
    )
    if run.returncode != 0:
        raise EmbeddedError(f"vcsync {' '.join(arguments)}: {run.stderr.strip()}")
    return run.stdout

"""Clusters in embedded control planes instead of their own kube-apiserver: command lines and files."""

import shutil
import subprocess
import sys
from pathlib import Path

from hack.testbed import servers
from hack.testbed.plan import HOLLOW, Plan

VCSYNC = (sys.executable, "-m", "vcsync")
COMMAND_SECONDS = 60.0
WITH_OWN_ROLES = ("kube-controller-manager", "kube-scheduler")
"""Components for which every control plane has bootstrap roles."""


class EmbeddedError(Exception):
    """A command of the control plane failed; the text contains its output."""


def command(data: Path, port: int, tokens: Path, etcd: str = "", pool: Path | None = None) -> list[str]:
    """Return the command of a control plane that clusters share.

    Args:
        data: its folder.
        port: its port.
        tokens: file of the administrators' tokens.
        etcd: URLs of its store; empty: a file in `data`.
        pool: kubeconfig of the role `streams`. None: Pods on super clusters are not reached.
    """
    return [
        *(*VCSYNC, "run", "controlplane"),
        *("--data", str(data), "--listen", f"127.0.0.1:{port}", "--token-file", str(tokens)),
        *(argument for url in etcd.split(",") if url for argument in ("--etcd", url)),
        *(("--pool", str(pool)) if pool is not None else ()),
    ]


def controllers(data: Path) -> list[str]:
    """Return the command of the controllers of all clusters that share a control plane."""
    # With a constant identity, a restarted process can renew its own lease immediately.
    identity = ("--identity", "controllers")
    return [*VCSYNC, "run", "controllers", "--data", str(data), "--listen", "127.0.0.1:0", *identity]


def hollow(plan: Plan) -> list[str]:
    """Return the command of a super cluster's simulated nodes, scheduler and kubelets."""
    return [
        *(*VCSYNC, "run", "hollow", "--kubeconfig", f"{plan.folder}/{HOLLOW}.kubeconfig"),
        *("--listen", f"127.0.0.1:{plan.kwok_port}", "--nodes", str(plan.nodes)),
        *("--cpu", plan.shape.cpu, "--memory", plan.shape.memory, "--pods", plan.shape.pods),
        f"--network={128 + plan.index}",
        *("--no-load-balancers", "--no-container-events"),  # as on the hollow nodes that kwok plays
    ]


def path_of(tenant: str) -> str:
    """Return the prefix of the paths of a tenant's requests."""
    return f"/tenants/{tenant}"


def write_tokens(path: Path, plans: list[Plan]) -> None:
    """Write the tokens of every cluster's administrator, from its plan; the control plane rereads the file."""
    lines = [f'{plan.admin_token},admin,admin,"vcsync:tenant-admins",{plan.name}\n' for plan in plans]
    unfinished = path.with_suffix(".unfinished")
    unfinished.touch(mode=0o600)
    unfinished.write_text("".join(lines))
    unfinished.replace(path)


def create(plan: Plan, data: Path, admin_kubeconfig: Path) -> None:
    """Create the tenant that acts as a cluster, and the files for its administrator and its components.

    Raises:
        EmbeddedError: the control plane refuses it.
    """
    folder = plan.folder
    whose = "external" if "kube-controller-manager" in plan.components else "vcsync"
    nodes = "own" if plan.role == "super" else "virtual"
    vcsync(data, "tenant", "create", plan.name, "--controllers", whose, "--nodes", nodes)
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
    """Run a vcsync command as the control plane's operator and return its standard output.

    Raises:
        EmbeddedError: it failed.
    """
    run = subprocess.run(
        [*VCSYNC, *arguments, "--data", str(data)],
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_SECONDS,
    )
    if run.returncode != 0:
        raise EmbeddedError(f"vcsync {' '.join(arguments)}: {run.stderr.strip()}")
    return run.stdout

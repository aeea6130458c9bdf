"""Writes the files that a cluster's servers need to start: certificates, credentials, configuration."""

import contextlib
import datetime
from pathlib import Path

from hack.testbed import realnode, servers
from hack.testbed.pki import Authority, KeyPair, signing_key
from hack.testbed.plan import COMPONENTS, Plan

CONTAINER_LOG = (
    "2026-01-01T00:00:00.000000000Z stdout F hollow container: started\n"
    "2026-01-01T00:00:01.000000000Z stdout F hollow container: working\n"
)
"""Log of every hollow container, in the format that kubelet reads (CRI)."""


def write_files(plan: Plan, admin_kubeconfig: Path) -> None:
    """Write a cluster's certificates, credentials and configuration files, which only their owner can read."""
    folder = plan.folder
    folder.mkdir(mode=0o700, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority(f"{plan.name}-ca", now)
    front_proxy = Authority(f"{plan.name}-front-proxy-ca", now)
    admin = authority.client("admin", "system:masters")
    pairs = {
        "ca": authority.pair,
        "server": authority.server("kube-apiserver", *plan.server_names),
        "admin": admin,
        "kubelet-client": authority.client("kube-apiserver-kubelet-client", "system:masters"),
        "front-proxy-ca": front_proxy.pair,
        "front-proxy-client": front_proxy.client("front-proxy-client"),
    }
    texts = {
        "service-accounts.key": signing_key(),
        "tokens.csv": f'{plan.admin_token},admin,admin,"system:masters"\n',
        "admin.kubeconfig": servers.kubeconfig_of_files(plan),
        "scheduler.json": servers.scheduler_configuration(plan),
        "kwok.json": servers.kwok_configuration(plan),
        "container.log": CONTAINER_LOG,
    }
    for name, pair in pairs.items():
        texts |= {f"{name}.crt": pair.certificate, f"{name}.key": pair.key}
    for component in COMPONENTS[plan.role][1:]:
        client = _component_client(authority, component)
        texts[f"{component}.kubeconfig"] = servers.kubeconfig(plan, authority.pair.certificate, client=client)
    if plan.real:
        texts |= realnode.texts(plan, authority)
    for name, text in texts.items():
        (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_private(folder / name, text)
    admin_config = servers.kubeconfig(plan, authority.pair.certificate, token=plan.admin_token)
    _write_private(admin_kubeconfig, admin_config)


def _component_client(authority: Authority, component: str) -> KeyPair:
    # They get the admin's group. With fewer permissions, every controller would need its own service account first.
    return authority.client(f"system:{component}", "system:masters")


def _write_private(path: Path, text: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    path.touch(mode=0o600)
    path.write_text(text)

"""`vcsync install`: prepares the meta cluster for registrations."""

import asyncio
import os
import time
from collections.abc import Iterable
from pathlib import Path

import click

from vcsync.api import crd, names, rbac
from vcsync.cli.command.common import meta_client, meta_kubeconfig, meta_option, note
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.kube.client import Client
from vcsync.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from vcsync.objects.envelope import untyped
from vcsync.registration.kubeconfigs import read_admin, with_token
from vcsync.registration.manifests import apply
from vcsync.registration.tokens import tokens_of

ESTABLISH_SECONDS = 30.0


@click.command(
    epilog=example(
        "vcsync install --meta meta.kubeconfig --kubeconfigs ./roles",
        "vcsync run syncer --super-cluster r1 --meta ./roles/syncer.kubeconfig",
    )
)
@meta_option
@click.option(
    "--kubeconfigs",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write one kubeconfig per role into this folder, for roles that run outside the meta cluster.",
)
def install(meta: str | None, kubeconfigs: Path | None) -> None:
    """Install the CRDs, roles, ServiceAccounts and namespaces into the meta cluster.

    You can repeat it at any time, for instance after an upgrade of vcsync. Fields that others added stay.
    """
    path = meta_kubeconfig(meta)
    if kubeconfigs is None:
        asyncio.run(_install(meta, None))
        return
    if path is None:
        raise WrongInputError("--kubeconfigs needs the meta cluster's address from a kubeconfig: give --meta")
    cluster = read_admin(Path(path)).cluster
    tokens = asyncio.run(_install(meta, names.META_ACCOUNTS))
    kubeconfigs.mkdir(mode=0o700, parents=True, exist_ok=True)
    for role, token in tokens.items():
        target = kubeconfigs / f"{role}.kubeconfig"
        user = names.service_account(role)
        write_private(target, with_token(cluster, name="meta", user=user, token=token))
        say(f"wrote {target}")


async def _install(meta: str | None, roles: Iterable[str] | None) -> dict[str, str]:
    """Install everything; return the tokens of the given roles."""
    async with meta_client(meta) as client:
        definitions = crd.crds()
        await apply(client, definitions)
        await wait_established(client, [definition["metadata"]["name"] for definition in definitions])
        say(f"{len(definitions)} custom resource definitions are established")
        manifests = rbac.meta_manifests()
        await apply(client, manifests)
        say(f"namespaces, ServiceAccounts and roles are installed ({len(manifests)} objects)")
        accounts = {role: names.service_account(role) for role in roles or ()}
        tokens = await tokens_of(
            client,
            list(accounts.values()),
            names.SYSTEM_NAMESPACE,
            again="vcsync install --kubeconfigs DIR",
            note=note,
        )
        return {role: tokens[account] for role, account in accounts.items()}


async def wait_established(client: Client, wanted: list[str]) -> None:
    """Wait until the API server serves the new resources."""
    deadline = time.monotonic() + ESTABLISH_SECONDS
    missing = list(wanted)
    while missing:
        for name in list(missing):
            envelope = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
            conditions = (untyped(envelope.status) if envelope.status else {}).get("conditions") or ()
            refusals = [c for c in conditions if c["type"] == "NamesAccepted" and c["status"] == "False"]
            if refusals:
                raise FailedError(
                    f"CustomResourceDefinition {name}: {refusals[0].get('message', 'names refused')}"
                )
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                missing.remove(name)
        if missing and time.monotonic() > deadline:
            raise FailedError(f"not established after {ESTABLISH_SECONDS:.0f} s: {', '.join(missing)}")
        if missing:
            await asyncio.sleep(0.2)


def write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically with one that only its owner can read."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    # A killed process may have left its own temporary file: in a container all processes have the same number.
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    unfinished.replace(path)

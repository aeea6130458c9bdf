"""`vcsync tenant kubeconfig`: kubeconfigs for users of a tenant, with a certificate or with a login at a provider."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import click
import yaml

from vcsync.api import names, rbac
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.cli.tenant.embedded import check_name, fetch, name_argument, reaching
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.registration import manifests
from vcsync.registration.clients import CALL_TIMEOUT, FIELD_MANAGER
from vcsync.registration.issued import ADMIN


@click.command(
    epilog=example(
        "vcsync tenant kubeconfig acme --data /var/lib/vcsync > acme.kubeconfig",
        "vcsync tenant kubeconfig acme --user alice --group developers",
        "vcsync tenant kubeconfig acme --user system:kube-controller-manager",
        "vcsync tenant kubeconfig acme --role syncer",
        "vcsync tenant kubeconfig acme --issuer https://sso.example.com --client-id vcsync",
    )
)
@name_argument
@click.option(
    "--role",
    type=click.Choice(names.ROLES),
    help="Create a kubeconfig for this role of vcsync, with only the permissions that it needs there.",
)
@click.option(
    "--user",
    default=ADMIN,
    show_default=True,
    help="User of the kubeconfig; admin may do everything there.",
)
@click.option("--group", "groups", multiple=True, help="Group of that user; may be repeated.")
@click.option(
    "--issuer",
    metavar="URL",
    help="OpenID Connect provider at which users log in with kubectl, instead of a certificate.",
)
@click.option("--client-id", metavar="ID", help="Id of the client at the provider.")
@click.option(
    "--login-arg",
    "login_arguments",
    multiple=True,
    help="Another argument of 'kubectl vcsync login' (--login-arg=--grant=device); may be repeated.",
)
@reaching
def kubeconfig(  # noqa: PLR0917  one command's options
    tenant: str,
    role: str | None,
    user: str,
    groups: tuple[str, ...],
    issuer: str | None,
    client_id: str | None,
    login_arguments: tuple[str, ...],
    data: Path | None,
    meta: str | None,
) -> None:
    """Print a kubeconfig for a user of the tenant NAME, with a certificate good for a year.

    With --role it is for the ServiceAccount of that role in vcsync-system, which is created or updated in the
    tenant, with its roles and bindings.

    With --issuer it contains no secret and is the same for all users of the tenant: kubectl has them log in at the
    provider, by its plug-in kubectl-vcsync, which is installed with vcsync.
    """
    check_name(tenant)
    if issuer or client_id or login_arguments:
        if not issuer or not client_id:
            raise WrongInputError("--issuer and --client-id belong together: give both")
        if role or groups or user != ADMIN:
            raise WrongInputError(
                "the provider names the user: give --issuer without --role, --user and --group"
            )
        content = asyncio.run(fetch(tenant, "kubeconfig?user=login&credential=none&host=name", data, meta))
        say(
            with_login(content, [f"--issuer={issuer}", f"--client-id={client_id}", *login_arguments]),
            nl=False,
        )
        return
    if role and (groups or user != ADMIN):
        raise WrongInputError("--role determines the user: give it without --user and --group")
    pairs = [("user", user), *(("group", group) for group in groups), ("host", "name")]
    if role:
        asyncio.run(_grant(tenant, role, data, meta))
        account = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(role)}"
        pairs = [("user", account)]
    say(asyncio.run(fetch(tenant, f"kubeconfig?{urlencode(pairs)}", data, meta)).decode(), nl=False)


def with_login(content: bytes, arguments: Sequence[str]) -> str:
    """Return a kubeconfig whose user logs in by kubectl's plug-in.

    Args:
        content: A kubeconfig of ours.
        arguments: Arguments of the plug-in's command `login`.
    """
    document = yaml.safe_load(content)
    document["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "kubectl-vcsync",
            "args": ["login", *arguments],
            "interactiveMode": "IfAvailable",
            "installHint": "the program kubectl-vcsync is part of vcsync",
        }
    }
    return yaml.safe_dump(document, sort_keys=False)


async def _grant(tenant: str, role: str, data: Path | None, meta: str | None) -> None:
    """Give one of vcsync's roles its permissions in a tenant."""
    admin = await fetch(tenant, f"kubeconfig?{urlencode([('user', ADMIN)])}", data, meta)
    connection = Connection.from_kubeconfig_bytes(admin)
    async with Client(connection, name=tenant, field_manager=FIELD_MANAGER, timeout=CALL_TIMEOUT) as client:
        await manifests.apply(client, [rbac.system_namespace(), *rbac.role_manifests("tenant", role)])

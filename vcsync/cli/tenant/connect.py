"""`vcsync tenant connect`: has an embedded control plane forward a tenant's requests to an external one."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import msgspec

from vcsync.api.names import InvalidName
from vcsync.api.rbac import readable_problem
from vcsync.cli.command.common import admin_client, kubeconfig_option, note
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.cli.tenant import embedded
from vcsync.kube.errors import AlreadyExists, ApiError
from vcsync.kube.kubeconfig import Cluster, server_url
from vcsync.registration.clients import CALL_TIMEOUT
from vcsync.registration.gateway import gateway_token
from vcsync.registration.issued import TENANTS
from vcsync.registration.kubeconfigs import Admin, read_admin

CONFLICT = 409


@click.command(
    epilog=example(
        "vcsync tenant connect umbrella --kubeconfig umbrella.kubeconfig --data /var/lib/vcsync",
        "vcsync tenant connect umbrella --kubeconfig umbrella.kubeconfig --group developers",
        "vcsync tenant kubeconfig umbrella --user alice --group developers",
    )
)
@embedded.name_argument
@kubeconfig_option
@click.option(
    "--group", "groups", multiple=True, help="Group that users of the tenant may have; may be repeated."
)
@click.option(
    "--extra",
    "extra",
    metavar="KEY",
    multiple=True,
    help="Key of extra that users of the tenant may have, such as a claim of an issuer; may be repeated.",
)
@click.option(
    "--readable",
    "readable",
    metavar="RESOURCE",
    multiple=True,
    help="Resource that the operator's lists and watches over all tenants include, such as pods or deployments.apps; '*': "
    "every resource; may be repeated. Without it, they leave the tenant out.",
)
@click.option(
    "--revoke", is_flag=True, help="First delete the gateway's token, which invalidates it at once."
)
@embedded.reaching
def connect(
    *,
    tenant: str,
    kubeconfig: Path,
    groups: tuple[str, ...],
    extra: tuple[str, ...],
    readable: tuple[str, ...],
    revoke: bool,
    data: Path | None,
    meta: str | None,
) -> None:
    """Serve the external control plane that the kubeconfig leads to as the tenant NAME, below /tenants/NAME/.

    Requests for it are authenticated here and forwarded to its API server, which authorizes them by its own RBAC. In
    the external control plane this creates the ServiceAccount vcsync-gateway, which may impersonate users and the
    given groups, and makes the group vcsync:tenant-admins cluster-admin. Run it again to change groups, the address
    or the token.
    """
    embedded.check_name(tenant)
    if tenant in embedded.RESERVED:
        raise InvalidName(f"{tenant!r} is no tenant name: it is reserved")
    for group in groups:
        if group.startswith("system:"):
            raise WrongInputError(f"--group {group!r}: groups of Kubernetes' own are never impersonated")
    check_readable(readable)
    admin = read_admin(kubeconfig)
    check_reachable(admin.cluster)
    asyncio.run(_connect(tenant, admin, groups, extra, readable, revoke=revoke, data=data, meta=meta))
    say(f"tenant {tenant} is served: requests are forwarded to {admin.cluster.server}")
    reached = embedded.reached_by(data, meta)
    say(f"next: vcsync tenant kubeconfig {tenant}{reached} > {tenant}.kubeconfig")


def check_reachable(cluster: Cluster) -> None:
    """Refuse an API server that the gateway does not connect to.

    Raises:
        WrongInputError: Its certificate would not be checked, or it is behind a proxy.
    """
    if not server_url(cluster.server).startswith("https://") or cluster.insecure_skip_tls_verify:
        raise WrongInputError(
            "the kubeconfig does not verify the server; the gateway sends its token only to a server whose certificate "
            "it can check: give its CA (certificate-authority-data)"
        )
    if cluster.proxy_url:
        raise WrongInputError(
            "the kubeconfig names a proxy (proxy-url); the gateway must reach the server directly"
        )


def check_readable(readable: Sequence[str]) -> None:
    """Refuse a text that is no name of a resource.

    Raises:
        WrongInputError: One is none.
    """
    for each in readable:
        if problem := readable_problem(each):
            raise WrongInputError(f"--readable {each!r}: {problem}")


def upstream_of(cluster: Cluster, token: str, readable: Sequence[str] = ()) -> Mapping[str, str | list[str]]:
    """Return the description of an API server that the operator's API takes."""
    found: dict[str, str | list[str]] = {
        "readable": list(dict.fromkeys(readable)),
        "server": server_url(cluster.server),
        "token": token,
        "authority": base64.b64decode(cluster.certificate_authority_data).decode(),
        "serverName": cluster.tls_server_name,
    }
    return {field: value for field, value in found.items() if value}


async def _connect(
    tenant: str,
    admin: Admin,
    groups: Sequence[str],
    extra: Sequence[str],
    readable: Sequence[str],
    *,
    revoke: bool,
    data: Path | None,
    meta: str | None,
) -> None:
    async with admin_client(admin.path, tenant) as there:
        token = await gateway_token(
            there,
            tenant,
            admin.cluster,
            note,
            groups=groups,
            extra=extra,
            readable=readable,
            revoke=revoke,
        )
    upstream = upstream_of(admin.cluster, token, readable)
    async with embedded.control_plane(data, meta) as client:
        body = msgspec.json.encode({"name": tenant, "upstream": upstream})
        try:
            await client.request("POST", TENANTS, body=body, timeout=CALL_TIMEOUT)
        except AlreadyExists:
            change = msgspec.json.encode({"upstream": upstream})
            try:
                await client.request("PATCH", f"{TENANTS}/{tenant}", body=change, timeout=CALL_TIMEOUT)
            except ApiError as error:
                if error.status.code != CONFLICT:
                    raise
                raise FailedError(f"tenant {tenant}: {error.status.message}") from error

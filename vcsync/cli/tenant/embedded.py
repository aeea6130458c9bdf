"""`vcsync tenant create | show | revoke`: manages tenants with embedded control planes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import msgspec

from vcsync.api import names
from vcsync.api.names import InvalidName, is_dns_label
from vcsync.cli.command.common import meta_kubeconfig, meta_option, note, output_option
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.output import print_objects
from vcsync.cli.command.terminal import say
from vcsync.cli.tenant.dns import dns_image_option, install, new_name_server, with_dns_option
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import AlreadyExists, NotFound
from vcsync.registration import issued
from vcsync.registration.clients import CALL_TIMEOUT, FIELD_MANAGER, stored_client
from vcsync.registration.issued import TENANTS
from vcsync.registration.name_server import NameServer
from vcsync.registration.registered import find

ADMIN_KUBECONFIG = "admin.kubeconfig"
RESERVED = frozenset({"all", "system"})
"""Reserved names."""

name_argument = click.argument("tenant", metavar="NAME")
data_option = click.option(
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data folder of the control plane, whose admin kubeconfig is used (instead of --meta).",
)


class _Files(msgspec.Struct):
    files: dict[str, str]


class _Listed(msgspec.Struct):
    name: str
    uid: str
    created: str
    phase: str
    controllers: str
    nodes: str = "virtual"
    server: str = ""
    aside: str = ""


class _Items(msgspec.Struct):
    items: list[_Listed]


def reaching(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select the control plane."""
    return data_option(meta_option(command))


def reached_by(data: Path | None, meta: str | None) -> str:
    """Return the options by which the next command reaches the same control plane."""
    return f" --data {data}" if data else f" --meta {meta}" if meta else ""


CONTROLLERS = click.Choice(("vcsync", "external"))


@click.command(
    epilog=example(
        "vcsync tenant create acme --data /var/lib/vcsync",
        "vcsync tenant create umbrella --controllers external",
        "vcsync tenant create initech --dns --dns-image registry.example.com/coredns:v1.14.2",
    )
)
@name_argument
@click.option(
    "--controllers",
    type=CONTROLLERS,
    default="vcsync",
    show_default=True,
    help="Its controllers: those of vcsync, or of a kube-controller-manager that you run.",
)
@click.option(
    "--nodes",
    type=click.Choice(("virtual", "own")),
    default="virtual",
    show_default=True,
    help="Its nodes: virtual nodes, as tenants have, or its own, as clusters have. "
    "DaemonSets need nodes or controllers of their own.",
)
@with_dns_option
@dns_image_option
@reaching
def create(
    *,
    tenant: str,
    controllers: str,
    nodes: str,
    with_dns: bool,
    dns_image: str | None,
    data: Path | None,
    meta: str | None,
) -> None:
    """Create the tenant NAME (a DNS label) with an embedded control plane of its own.

    With --dns, its name server runs as soon as the tenant is in a pool. If the command is interrupted, run it again.
    """
    check_name(tenant)
    if tenant in RESERVED:
        raise InvalidName(f"{tenant!r} cannot be a tenant's name: it is reserved")
    wanted = new_name_server(with_dns=with_dns, image=dns_image)
    if wanted is not None and nodes == "own":
        raise WrongInputError(
            "--dns is for tenants: a cluster with --nodes own has no super clusters that run it"
        )
    body = {"name": tenant, "controllers": controllers, "nodes": nodes}
    asyncio.run(_create(tenant, body, wanted, data, meta))
    say(f"next: vcsync tenant kubeconfig {tenant}{reached_by(data, meta)} > {tenant}.kubeconfig")
    if nodes == "virtual":
        say(f"its Pods run once it is in a pool: vcsync tenant add {tenant} --kubeconfig {tenant}.kubeconfig")


async def _create(
    tenant: str, body: Mapping[str, str], wanted: NameServer | None, data: Path | None, meta: str | None
) -> None:
    async with control_plane(data, meta) as server:
        try:
            await server.request("POST", TENANTS, body=msgspec.json.encode(body))
            say(f"tenant {tenant} is created")
        except AlreadyExists as error:
            if wanted is None:
                raise FailedError(f"tenant {tenant} exists already") from error
            note(f"tenant {tenant} exists already: only its name server is made")
        if wanted is not None:
            await _serve_names(server, tenant, wanted)


async def _serve_names(server: Client, tenant: str, wanted: NameServer) -> None:
    """Make the name server of a tenant, which may be in the pool of the server already.

    Raises:
        FailedError: the tenant has a name server of its own, or is a cluster.
        KubeError: a write was refused. Repeat the call to continue.
    """
    record = msgspec.json.decode(await server.request("GET", f"{TENANTS}/{quote(tenant)}"), type=_Listed)
    if not _is_tenant(record):
        raise FailedError(f"{tenant} is a cluster with nodes of its own: --dns is for tenants")
    try:
        registered = await find(server, tenant)
    except NotFound:  # The server is the meta cluster of no pool.
        registered = None
    kubeconfig = await issued.kubeconfig(server, tenant)
    async with stored_client(kubeconfig, f"tenant {tenant}") as its_own:
        await install(server, its_own, tenant, registered, wanted)


async def list_(form: str, data: Path, meta: str | None, *, everything: bool = False) -> None:
    """Print the tenants of a control plane; with `everything` also its other spaces, the operator's and clusters."""
    async with control_plane(data, meta) as client:
        found = msgspec.json.decode(await client.request("GET", TENANTS), type=_Items).items
    _print([each for each in found if everything or _is_tenant(each)], form)


def _is_tenant(space: _Listed) -> bool:
    """Return the kind of a space: a tenant, the operator's own space, or a cluster, which has its own nodes."""
    return space.name not in RESERVED and space.nodes == "virtual"


def _print(found: Sequence[_Listed], form: str) -> None:
    rows = [
        (each.name, names.SET_ASIDE if each.aside else each.phase, each.controllers, each.created)
        for each in found
    ]
    header = ("NAME", "PHASE", "CONTROLLERS", "CREATED")
    print_objects(
        [msgspec.to_builtins(each) for each in found],
        form,
        header,
        rows,
        names=[f"tenant/{each.name}" for each in found],
        more=(
            ("NODES", "UID", "SERVER", "WHY SET ASIDE"),
            [(each.nodes, each.uid, each.server, each.aside) for each in found],
        ),
    )


@click.command(epilog=example("vcsync tenant show acme --data /var/lib/vcsync"))
@name_argument
@output_option
@reaching
def show(tenant: str, form: str, data: Path | None, meta: str | None) -> None:
    """Show the tenant NAME of an embedded control plane: whether it is ready, and which controllers it uses."""
    check_name(tenant)
    answer = asyncio.run(_call("GET", tenant, "", data, meta, CALL_TIMEOUT))
    _print([msgspec.json.decode(answer, type=_Listed)], form)


async def change(tenant: str, wanted: Mapping[str, Any], data: Path | None, meta: str | None) -> None:
    """Change the settings of a tenant's control plane.

    Args:
        tenant: name of the tenant.
        wanted: fields of the control plane's record of it; None: the default of all tenants.
        data: data folder of the control plane.
        meta: kubeconfig of the control plane, instead of the folder.
    """
    await _call("PATCH", tenant, "", data, meta, CALL_TIMEOUT, msgspec.json.encode(wanted))


async def release(tenant: str, data: Path | None, meta: str | None) -> None:
    """Let a control plane serve a tenant again that was set aside."""
    await _call("POST", tenant, "/release", data, meta, CALL_TIMEOUT)


@click.command(
    epilog=example(
        "vcsync tenant revoke acme --user alice --data /var/lib/vcsync",
        "vcsync tenant revoke acme --serial 3A:5F:01",
    )
)
@name_argument
@click.option("--user", default="", help="User whose certificates, issued until now, are revoked.")
@click.option("--serial", default="", metavar="HEX", help="Serial number of one certificate.")
@reaching
def revoke(tenant: str, user: str, serial: str, data: Path | None, meta: str | None) -> None:
    """Immediately revoke client certificates of the tenant NAME: one of them, or all of a user.

    'vcsync tenant kubeconfig' gives the user a new one. Tokens are revoked by deleting their ServiceAccount.
    """
    check_name(tenant)
    if bool(user) == bool(serial):
        raise WrongInputError("give either --user or --serial")
    body = msgspec.json.encode({"user": user, "serial": serial})
    asyncio.run(_call("POST", tenant, "/revoke", data, meta, CALL_TIMEOUT, body))
    whose = f"of user {user}" if user else f"with serial number {serial}"
    say(f"certificates {whose} of tenant {tenant} are revoked")


async def keys(tenant: str, data: Path | None, meta: str | None) -> dict[str, str]:
    """Return the files with the keys of a tenant's control plane, by name.

    Raises:
        FailedError: the tenant does not exist, or the server has no embedded control planes.
    """
    return msgspec.json.decode(await fetch(tenant, "export", data, meta), type=_Files).files


def require_embedded(client: Client, error: NotFound) -> None:
    """Refuse a server that is not an embedded control plane.

    Raises:
        FailedError: the path was not found, rather than the tenant.
    """
    if not error.status.message.startswith("tenants "):
        raise FailedError(f"{client.name} is not an embedded control plane of vcsync") from error


def check_name(tenant: str) -> None:
    """Refuse an invalid name of a tenant.

    Raises:
        InvalidName: it is invalid.
    """
    if not is_dns_label(tenant):
        raise InvalidName(
            f"{tenant!r} is not a tenant name: use lower case letters, digits and '-', at most 63 characters"
        )


async def fetch(tenant: str, what: str, data: Path | None, meta: str | None) -> bytes:
    """Read something of a tenant from the operator's API.

    Args:
        tenant: Name of the tenant.
        what: Path below the tenant, with its query.
        data: Data folder of the control plane.
        meta: Kubeconfig of the control plane, instead of the folder.
    """
    return await _call("GET", tenant, f"/{what}", data, meta, CALL_TIMEOUT)


async def _call(  # noqa: PLR0917  one call
    method: str,
    tenant: str,
    rest: str,
    data: Path | None,
    meta: str | None,
    seconds: float,
    body: bytes | None = None,
) -> bytes:
    async with control_plane(data, meta) as client:
        try:
            path = f"{TENANTS}/{quote(tenant)}{rest}"
            return await client.request(method, path, body=body, timeout=seconds)
        except NotFound as error:
            require_embedded(client, error)
            raise FailedError(f"tenant {tenant} does not exist") from error


@asynccontextmanager
async def control_plane(data: Path | None, meta: str | None) -> AsyncIterator[Client]:
    """Open a client of the control plane, as its operator.

    Raises:
        WrongInputError: the folder has no admin kubeconfig, or both ways are given.
    """
    connection = Connection.load(kubeconfig_of(data, meta))
    name = "the control plane"
    async with Client(connection, name=name, field_manager=FIELD_MANAGER, timeout=CALL_TIMEOUT) as client:
        yield client


def kubeconfig_of(data: Path | None, meta: str | None) -> str | None:
    """Return the kubeconfig with which to reach the control plane as its operator.

    Raises:
        WrongInputError: the folder has no admin kubeconfig, or both ways are given.
    """
    if data is None:
        return meta_kubeconfig(meta)
    if meta:
        raise WrongInputError("--data and --meta both locate the control plane: give one")
    path = data / ADMIN_KUBECONFIG
    if not path.is_file():
        raise WrongInputError(f"{path} does not exist; 'vcsync run controlplane --data {data}' writes it")
    return str(path)

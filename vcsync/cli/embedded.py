"""`vcsync tenant create | show | set | kubeconfig | revoke | export`: tenants with embedded control planes."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import click
import msgspec

from vcsync.api import names, rbac
from vcsync.api.names import InvalidName, is_dns_label
from vcsync.cli import manifests
from vcsync.cli.common import CALL_TIMEOUT, FIELD_MANAGER, meta_kubeconfig, meta_option, output_option
from vcsync.cli.controlplane_limits import parse_bytes
from vcsync.cli.errors import FailedError, WrongInputError
from vcsync.cli.help import example
from vcsync.cli.output import print_objects
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import AlreadyExists, NotFound

TENANTS = "/vcsync/v1/tenants"
ADMIN = "admin"
ADMIN_KUBECONFIG = "admin.kubeconfig"
RESERVED = frozenset({"all", "system"})
"""Names that the control plane gives to nobody."""

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


class _Items(msgspec.Struct):
    items: list[_Listed]


def reaching(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that tell how to reach the control plane."""
    return data_option(meta_option(command))


def reached_by(data: Path | None, meta: str | None) -> str:
    """Return what a next command needs to reach the same control plane."""
    return f" --data {data}" if data else f" --meta {meta}" if meta else ""


_CONTROLLERS = click.Choice(("vcsync", "external"))


@click.command(
    epilog=example(
        "vcsync tenant create acme --data /var/lib/vcsync",
        "vcsync tenant create umbrella --controllers external",
    )
)
@name_argument
@click.option(
    "--controllers",
    type=_CONTROLLERS,
    default="vcsync",
    show_default=True,
    help="Whose controllers it has: ours, or those of a kube-controller-manager that you bring.",
)
@click.option(
    "--nodes",
    type=click.Choice(("virtual", "own")),
    default="virtual",
    show_default=True,
    help="Whose nodes it has: those that syncers show to a tenant, or its own, as a cluster has. "
    "DaemonSets are for spaces with nodes or controllers of their own.",
)
@reaching
def create(tenant: str, controllers: str, nodes: str, data: Path | None, meta: str | None) -> None:
    """Create the tenant NAME (a DNS label) with an embedded control plane of its own."""
    check_name(tenant)
    if tenant in RESERVED:
        raise InvalidName(f"{tenant!r} is no tenant name: it is reserved")
    body = {"name": tenant, "controllers": controllers, "nodes": nodes}
    asyncio.run(_create(tenant, body, data, meta))
    click.echo(f"tenant {tenant} is created")
    click.echo(f"next: vcsync tenant kubeconfig {tenant}{reached_by(data, meta)} > {tenant}.kubeconfig")


async def _create(tenant: str, body: Mapping[str, str], data: Path | None, meta: str | None) -> None:
    async with control_plane(data, meta) as client:
        try:
            await client.request("POST", TENANTS, body=msgspec.json.encode(body))
        except AlreadyExists as error:
            raise FailedError(f"there is a tenant {tenant} already") from error


async def list_(form: str, data: Path, meta: str | None, *, everything: bool = False) -> None:
    """Print the tenants of a control plane; with `everything` its other spaces, too: the operator's and clusters."""
    async with control_plane(data, meta) as client:
        found = msgspec.json.decode(await client.request("GET", TENANTS), type=_Items).items
    _print([each for each in found if everything or _is_tenant(each)], form)


def _is_tenant(space: _Listed) -> bool:
    """Tell tenants from the operator's own space, and from spaces with nodes of their own: those are clusters."""
    return space.name not in RESERVED and space.nodes == "virtual"


def _print(found: Sequence[_Listed], form: str) -> None:
    rows = [(each.name, each.phase, each.controllers, each.created) for each in found]
    header = ("NAME", "PHASE", "CONTROLLERS", "CREATED")
    print_objects([msgspec.to_builtins(each) for each in found], form, header, rows)


@click.command(epilog=example("vcsync tenant show acme --data /var/lib/vcsync"))
@name_argument
@output_option
@reaching
def show(tenant: str, form: str, data: Path | None, meta: str | None) -> None:
    """Show the tenant NAME of an embedded control plane: whether it is ready, and whose controllers it has."""
    check_name(tenant)
    answer = asyncio.run(_call("GET", tenant, "", data, meta, CALL_TIMEOUT))
    _print([msgspec.json.decode(answer, type=_Listed)], form)


@click.command(
    name="set",
    epilog=example(
        "vcsync tenant set acme --controllers external",
        "vcsync tenant set acme --storage 10Gi --objects default",
    ),
)
@name_argument
@click.option(
    "--controllers",
    type=_CONTROLLERS,
    help="Whose controllers it has from now on: ours, or those of a kube-controller-manager that you bring.",
)
@click.option(
    "--storage", metavar="SIZE", help="What its objects may take; 0: any size; default: what holds for all."
)
@click.option(
    "--objects", metavar="N", help="Objects that it may have; 0: any number; default: what holds for all."
)
@reaching
def set_(  # noqa: PLR0917  options
    tenant: str,
    controllers: str | None,
    storage: str | None,
    objects: str | None,
    data: Path | None,
    meta: str | None,
) -> None:
    """Change the tenant NAME of an embedded control plane, at once."""
    check_name(tenant)
    wanted: dict[str, str | int | None] = {}
    if controllers is not None:
        wanted["controllers"] = controllers
    if storage is not None:
        wanted["storageBytes"] = None if storage == "default" else parse_bytes(storage, "--storage")
    if objects is not None:
        wanted["storageObjects"] = None if objects == "default" else _number(objects)
    if not wanted:
        raise WrongInputError("say what is to change: --controllers, --storage or --objects")
    asyncio.run(_call("PATCH", tenant, "", data, meta, CALL_TIMEOUT, msgspec.json.encode(wanted)))
    for name, told in (("controllers", controllers), ("storage", storage), ("objects", objects)):
        if told is not None:
            click.echo(f"{name} of tenant {tenant}: {told}")


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise WrongInputError(f"--objects {text!r}: give a number, or default")
    return int(text)


@click.command(
    epilog=example(
        "vcsync tenant kubeconfig acme --data /var/lib/vcsync > acme.kubeconfig",
        "vcsync tenant kubeconfig acme --user alice --group developers",
        "vcsync tenant kubeconfig acme --user system:kube-controller-manager",
        "vcsync tenant kubeconfig acme --role syncer",
    )
)
@name_argument
@click.option(
    "--role",
    type=click.Choice(names.ROLES),
    help="For this program of vcsync's, with the rights that it needs there, and no others.",
)
@click.option(
    "--user",
    default=ADMIN,
    show_default=True,
    help="Who the kubeconfig is for; admin may do everything there.",
)
@click.option("--group", "groups", multiple=True, help="Group of that user; may be repeated.")
@reaching
def kubeconfig(  # noqa: PLR0917  one command's options
    tenant: str,
    role: str | None,
    user: str,
    groups: tuple[str, ...],
    data: Path | None,
    meta: str | None,
) -> None:
    """Print a kubeconfig for a user of the tenant NAME, with a certificate good for a year.

    With --role it is for the ServiceAccount of that program in vcsync-system, which is made with its roles
    and bindings, or brought up to date, in the tenant.
    """
    check_name(tenant)
    if role and (groups or user != ADMIN):
        raise WrongInputError("--role says who it is for: give it without --user and --group")
    pairs = [("user", user), *(("group", group) for group in groups)]
    if role:
        asyncio.run(_grant(tenant, role, data, meta))
        account = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(role)}"
        pairs = [("user", account)]
    click.echo(asyncio.run(_get(tenant, f"kubeconfig?{urlencode(pairs)}", data, meta)), nl=False)


async def _grant(tenant: str, role: str, data: Path | None, meta: str | None) -> None:
    """Give a program of ours its rights in a tenant."""
    admin = await _get(tenant, f"kubeconfig?{urlencode([('user', ADMIN)])}", data, meta)
    connection = Connection.from_kubeconfig_bytes(admin)
    async with Client(connection, name=tenant, field_manager=FIELD_MANAGER, timeout=CALL_TIMEOUT) as client:
        await manifests.apply(client, [rbac.system_namespace(), *rbac.role_manifests("tenant", role)])


@click.command(
    epilog=example(
        "vcsync tenant revoke acme --user alice --data /var/lib/vcsync",
        "vcsync tenant revoke acme --serial 3A:5F:01",
    )
)
@name_argument
@click.option("--user", default="", help="Whose certificates, all that were issued until now.")
@click.option("--serial", default="", metavar="HEX", help="Serial number of one certificate.")
@reaching
def revoke(tenant: str, user: str, serial: str, data: Path | None, meta: str | None) -> None:
    """Let client certificates of the tenant NAME be worthless at once: one of them, or a user's.

    'vcsync tenant kubeconfig' gives the user a new one. Tokens are revoked by deleting their ServiceAccount.
    """
    check_name(tenant)
    if bool(user) == bool(serial):
        raise WrongInputError("give either --user or --serial")
    body = msgspec.json.encode({"user": user, "serial": serial})
    asyncio.run(_call("POST", tenant, "/revoke", data, meta, CALL_TIMEOUT, body))
    whose = f"of user {user}" if user else f"with serial number {serial}"
    click.echo(f"certificates {whose} of tenant {tenant} do not count any more")


@click.command(epilog=example("vcsync tenant export acme --dir acme-keys"))
@name_argument
@click.option(
    "--dir",
    "directory",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to write them; made if it is not there.",
)
@reaching
def export(tenant: str, directory: Path, data: Path | None, meta: str | None) -> None:
    """Write the keys of the tenant NAME that a kube-controller-manager needs into files only you can read.

    ca.crt and ca.key go to its --cluster-signing-cert-file and --cluster-signing-key-file, sa.key to
    --service-account-private-key-file, server-ca.crt to --root-ca-file; its --kubeconfig is that of
    'vcsync tenant kubeconfig NAME --user system:kube-controller-manager'. Whoever has these keys can be
    anybody in that tenant.
    """
    check_name(tenant)
    files = msgspec.json.decode(asyncio.run(_get(tenant, "export", data, meta)), type=_Files).files
    _write(directory, files)
    click.echo(f"wrote {', '.join(sorted(files))} into {directory}")


def require_embedded(client: Client, error: NotFound) -> None:
    """Refuse a server that does not know what tenants are.

    Raises:
        FailedError: what was not found is not a tenant.
    """
    if not error.status.message.startswith("tenants "):
        raise FailedError(f"{client.name} is no embedded control plane of vcsync") from error


def check_name(tenant: str) -> None:
    """Refuse what cannot be a tenant's name.

    Raises:
        InvalidName: it cannot.
    """
    if not is_dns_label(tenant):
        raise InvalidName(
            f"{tenant!r} is no tenant name: use lower case letters, digits and '-', at most 63 of them"
        )


def _write(directory: Path, files: Mapping[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, content in files.items():
        if Path(name).name != name:
            raise FailedError(f"the control plane names a file {name!r}; is it one of vcsync's?")
        path = directory / name
        path.unlink(missing_ok=True)
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write(content)


async def _get(tenant: str, what: str, data: Path | None, meta: str | None) -> bytes:
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
            raise FailedError(f"there is no tenant {tenant}") from error


@asynccontextmanager
async def control_plane(data: Path | None, meta: str | None) -> AsyncIterator[Client]:
    """Open a client of the control plane, as its operator.

    Raises:
        WrongInputError: the folder has no admin kubeconfig, or both ways are given.
    """
    connection = Connection.load(_kubeconfig_of(data, meta))
    name = "the control plane"
    async with Client(connection, name=name, field_manager=FIELD_MANAGER, timeout=CALL_TIMEOUT) as client:
        yield client


def _kubeconfig_of(data: Path | None, meta: str | None) -> str | None:
    if data is None:
        return meta_kubeconfig(meta)
    if meta:
        raise WrongInputError("--data and --meta both say where the control plane is: give one")
    path = data / ADMIN_KUBECONFIG
    if not path.is_file():
        raise WrongInputError(f"there is no {path}; 'vcsync run controlplane --data {data}' writes it")
    return str(path)

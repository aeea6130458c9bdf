"""`vcsync tenant create | kubeconfig | delete | rotate | export`: tenants with embedded control planes."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import click
import msgspec

from vcsync.api.names import InvalidName, is_dns_label
from vcsync.cli.common import CALL_TIMEOUT, FIELD_MANAGER, meta_kubeconfig, meta_option
from vcsync.cli.errors import FailedError, WrongInputError
from vcsync.cli.help import example
from vcsync.cli.output import print_objects
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import AlreadyExists, NotFound

TENANTS = "/vcsync/v1/tenants"
ADMIN_KUBECONFIG = "admin.kubeconfig"
RESERVED = frozenset({"all", "system"})
"""Names that the control plane gives to nobody."""
DELETE_TIMEOUT = 600.0
"""Seconds that deleting everything of a tenant may take."""

_name = click.argument("tenant", metavar="NAME")
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


class _Items(msgspec.Struct):
    items: list[_Listed]


def _reaching(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that tell how to reach the control plane."""
    return data_option(meta_option(command))


@click.command(epilog=example("vcsync tenant create acme --data /var/lib/vcsync"))
@_name
@_reaching
def create(tenant: str, data: Path | None, meta: str | None) -> None:
    """Create the tenant NAME (a DNS label) with an embedded control plane of its own."""
    _check_name(tenant)
    if tenant in RESERVED:
        raise InvalidName(f"{tenant!r} is no tenant name: it is reserved")
    asyncio.run(_create(tenant, data, meta))
    click.echo(f"tenant {tenant} is created")
    reach = f" --data {data}" if data else f" --meta {meta}" if meta else ""
    click.echo(f"next: vcsync tenant kubeconfig {tenant}{reach} > {tenant}.kubeconfig")


async def _create(tenant: str, data: Path | None, meta: str | None) -> None:
    async with _control_plane(data, meta) as client:
        try:
            await client.request("POST", TENANTS, body=msgspec.json.encode({"name": tenant}))
        except AlreadyExists as error:
            raise FailedError(f"there is a tenant {tenant} already") from error


async def list_(form: str, data: Path, meta: str | None) -> None:
    """Print the tenants of a control plane, the operator's own space (`system`) among them."""
    async with _control_plane(data, meta) as client:
        found = msgspec.json.decode(await client.request("GET", TENANTS), type=_Items).items
    rows = [(each.name, each.phase, each.created) for each in found]
    print_objects([msgspec.to_builtins(each) for each in found], form, ("NAME", "PHASE", "CREATED"), rows)


@click.command(
    epilog=example(
        "vcsync tenant kubeconfig acme --data /var/lib/vcsync > acme.kubeconfig",
        "vcsync tenant kubeconfig acme --user alice --group developers",
        "vcsync tenant kubeconfig acme --user system:kube-controller-manager",
    )
)
@_name
@click.option(
    "--user",
    default="admin",
    show_default=True,
    help="Who the kubeconfig is for; admin may do everything there.",
)
@click.option("--group", "groups", multiple=True, help="Group of that user; may be repeated.")
@_reaching
def kubeconfig(tenant: str, user: str, groups: tuple[str, ...], data: Path | None, meta: str | None) -> None:
    """Print a kubeconfig for a user of the tenant NAME, with a certificate good for a year."""
    _check_name(tenant)
    pairs = [("user", user), *(("group", group) for group in groups)]
    click.echo(asyncio.run(_get(tenant, f"kubeconfig?{urlencode(pairs)}", data, meta)), nl=False)


@click.command(epilog=example("vcsync tenant delete acme --data /var/lib/vcsync"))
@_name
@_reaching
def delete(tenant: str, data: Path | None, meta: str | None) -> None:
    """Delete the tenant NAME and everything it has; its credentials are worthless at once.

    Cut off, the control plane goes on with it when it is started again, and so does running this again.
    """
    _check_name(tenant)
    asyncio.run(_call("DELETE", tenant, "", data, meta, DELETE_TIMEOUT))
    click.echo(f"tenant {tenant} is deleted")


@click.command(epilog=example("vcsync tenant rotate acme --data /var/lib/vcsync"))
@_name
@_reaching
def rotate(tenant: str, data: Path | None, meta: str | None) -> None:
    """Give the tenant NAME a new CA and signing key; certificates and tokens issued before are worthless."""
    _check_name(tenant)
    asyncio.run(_call("POST", tenant, "/rotate", data, meta, CALL_TIMEOUT))
    click.echo(f"tenant {tenant} has new keys; all kubeconfigs and tokens issued before are worthless")
    click.echo(f"next: vcsync tenant kubeconfig {tenant} > {tenant}.kubeconfig")


@click.command(epilog=example("vcsync tenant export acme --dir acme-keys"))
@_name
@click.option(
    "--dir",
    "directory",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to write them; made if it is not there.",
)
@_reaching
def export(tenant: str, directory: Path, data: Path | None, meta: str | None) -> None:
    """Write the keys of the tenant NAME that a kube-controller-manager needs into files only you can read.

    ca.crt and ca.key go to its --cluster-signing-cert-file and --cluster-signing-key-file, sa.key to
    --service-account-private-key-file, server-ca.crt to --root-ca-file; its --kubeconfig is that of
    'vcsync tenant kubeconfig NAME --user system:kube-controller-manager'. Whoever has these keys can be
    anybody in that tenant.
    """
    _check_name(tenant)
    files = msgspec.json.decode(asyncio.run(_get(tenant, "export", data, meta)), type=_Files).files
    _write(directory, files)
    click.echo(f"wrote {', '.join(sorted(files))} into {directory}")


def _check_name(tenant: str) -> None:
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
    method: str, tenant: str, rest: str, data: Path | None, meta: str | None, seconds: float
) -> bytes:
    async with _control_plane(data, meta) as client:
        try:
            return await client.request(method, f"{TENANTS}/{quote(tenant)}{rest}", timeout=seconds)
        except NotFound as error:
            if not error.status.message.startswith("tenants "):
                raise FailedError(f"{client.name} is no embedded control plane of vcsync") from error
            raise FailedError(f"there is no tenant {tenant}") from error


@asynccontextmanager
async def _control_plane(data: Path | None, meta: str | None) -> AsyncIterator[Client]:
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

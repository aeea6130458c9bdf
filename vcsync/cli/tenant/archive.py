"""`vcsync tenant export | import`: a tenant's objects in one file, and its keys for a kube-controller-manager."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from vcsync.archive.exporter import export as export_objects
from vcsync.archive.files import BadArchive, Header, check
from vcsync.archive.importer import Imported, Importer
from vcsync.cli.command.common import admin_client, note
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.cli.tenant import embedded
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, Gone, KubeError
from vcsync.objects.times import time_text
from vcsync.process.legible import legible
from vcsync.registration import issued
from vcsync.registration.clients import stored_client

_kubeconfig_option = click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Administrator's kubeconfig of the tenant, if its control plane is external.",
)


@click.command(
    epilog=example(
        "vcsync tenant export acme -o acme.tenant",
        "vcsync tenant export acme -o acme.tenant --with-keys",
        "vcsync tenant export umbrella -o umbrella.tenant --kubeconfig umbrella.kubeconfig",
        "vcsync tenant export acme --dir acme-keys",
    )
)
@embedded.name_argument
@click.option(
    "-o",
    "--output",
    "archive",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Archive for the tenant's objects; 'vcsync tenant import' reads it.",
)
@click.option("--with-keys", is_flag=True, help="Also export the contents of Secrets.")
@_kubeconfig_option
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the keys of the control plane instead; created if missing.",
)
@embedded.reaching
def export(
    *,
    tenant: str,
    archive: Path | None,
    with_keys: bool,
    kubeconfig: Path | None,
    directory: Path | None,
    data: Path | None,
    meta: str | None,
) -> None:
    """Export the tenant NAME: with -o all its objects into one file, with --dir the keys of its control plane.

    Only you can read the files. An archive has the contents of Secrets only with --with-keys.

    The keys are those that a kube-controller-manager needs. ca.crt and ca.key go to its --cluster-signing-cert-file and
    --cluster-signing-key-file, sa.key to --service-account-private-key-file, server-ca.crt to --root-ca-file; its
    --kubeconfig is that of 'vcsync tenant kubeconfig NAME --user system:kube-controller-manager'. Anybody with these keys
    can act as any user in that tenant.
    """
    embedded.check_name(tenant)
    if (archive is None) == (directory is None):
        raise WrongInputError("give either -o FILE for the objects or --dir DIR for the keys")
    if directory is not None:
        if with_keys or kubeconfig:
            raise WrongInputError("--with-keys and --kubeconfig belong to -o FILE")
        files = asyncio.run(embedded.keys(tenant, data, meta))
        _write(directory, files)
        say(f"wrote {', '.join(sorted(files))} into {directory}")
    elif archive is not None:
        asyncio.run(_export(tenant, archive, kubeconfig, data, meta, with_keys=with_keys))


async def _export(
    tenant: str,
    archive: Path,
    kubeconfig: Path | None,
    data: Path | None,
    meta: str | None,
    *,
    with_keys: bool,
) -> None:
    async with _administrator(tenant, kubeconfig, data, meta) as client:
        try:
            done = await export_objects(
                client,
                archive,
                tenant=tenant,
                now=time_text(datetime.now(UTC)),
                with_keys=with_keys,
                note=_note,
            )
        except Gone as error:
            raise FailedError(
                f"the export took longer than the history of the store: run it again ({error})"
            ) from error
    for reason, count in sorted(done.left_out.items()):
        _note(f"left out, since {reason}: {count}")
    for plural in done.elsewhen:
        _note(f"{plural} were listed as of another moment")
    for resource in done.unavailable:
        _note(f"left out, since their aggregated API server is not available: {resource}")
    say(f"wrote {done.written} objects of tenant {tenant} into {archive}")
    if with_keys:
        say(f"warning: {archive} has the contents of all Secrets: keep it as safe as these", err=True)


@click.command(
    name="import",
    epilog=example(
        "vcsync tenant import acme.tenant",
        "vcsync tenant import acme.tenant --name acme-copy",
        "vcsync tenant import umbrella.tenant --kubeconfig umbrella.kubeconfig",
    ),
)
@click.argument("archive", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", metavar="NAME", help="Tenant to import into. Default: the one that was exported.")
@_kubeconfig_option
@embedded.reaching
def import_(
    archive: Path, name: str | None, kubeconfig: Path | None, data: Path | None, meta: str | None
) -> None:
    """Import the objects of an archive into a tenant, which is created with an embedded control plane if it does not exist.

    What exists is never replaced. If the import is interrupted, run it again: it continues. Nothing outside the tenant is
    written, and nothing that its own administrator could not write.
    """
    try:
        header, total = check(archive)
    except BadArchive as error:
        raise FailedError(f"{archive}: {error}") from error
    tenant = name or header.tenant
    embedded.check_name(tenant)
    _note(f"{archive}: {total} objects of tenant {header.tenant}, exported {header.created}")
    done = asyncio.run(_import(archive, total, tenant, kubeconfig, data, meta))
    say(f"tenant {tenant}: {done.created} objects created, {done.existed} existed, {done.skipped} skipped")
    _hint(header)


async def _import(  # noqa: PLR0917  one command's options
    archive: Path, total: int, tenant: str, kubeconfig: Path | None, data: Path | None, meta: str | None
) -> Imported:
    if kubeconfig is None:
        await _ensure(tenant, data, meta)
    async with _administrator(tenant, kubeconfig, data, meta) as client:
        try:
            return await Importer(client, archive, total, _note).run()
        except KubeError as error:
            raise FailedError(f"the import is not complete: {error}; run it again, it continues") from error
        except BadArchive as error:
            raise FailedError(f"{archive}: {error}") from error


def _hint(header: Header) -> None:
    if not header.with_keys:
        _note("Secrets were exported without their contents: create them again, or export with --with-keys")


async def _ensure(tenant: str, data: Path | None, meta: str | None) -> None:
    """Create the tenant's control plane if it does not exist.

    Raises:
        FailedError: it is suspended, so that nothing can be written.
    """
    async with embedded.control_plane(data, meta) as server:
        try:
            await server.request("POST", issued.TENANTS, body=msgspec.json.encode({"name": tenant}))
        except AlreadyExists:
            record = msgspec.json.decode(
                await server.request("GET", f"{issued.TENANTS}/{tenant}"), type=_Record
            )
            if record.suspended:
                raise FailedError(
                    f"tenant {tenant} is suspended: resume it with 'vcsync tenant resume {tenant}' first"
                ) from None


class _Record(msgspec.Struct):
    suspended: bool = False


@asynccontextmanager
async def _administrator(
    tenant: str, kubeconfig: Path | None, data: Path | None, meta: str | None
) -> AsyncIterator[Client]:
    """Open a client with a credential of the tenant's administrator, which reaches no other tenant."""
    if kubeconfig is not None:
        async with admin_client(kubeconfig, tenant) as client:
            yield client
        return
    async with embedded.control_plane(data, meta) as server:
        content = await issued.kubeconfig(server, tenant)
    async with stored_client(content, f"tenant {tenant}") as client:
        yield client


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


def _note(text: str) -> None:
    note(legible(text))

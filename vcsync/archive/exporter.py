"""Exports the objects of a control plane into an archive, page by page and at one version of its store."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from vcsync.archive.files import VERSION, Header, Object, Writer
from vcsync.archive.selection import LEFT_OUT, archived, rank, why_left_out
from vcsync.kube.client import Client
from vcsync.kube.discovery import discover
from vcsync.kube.errors import BadRequest, KubeError, NotFound, ServerError
from vcsync.kube.resources import NAMESPACES, Resource

PAGE: Final = 250
"""Objects that are read at once."""

Note = Callable[[str], None]
"""Is told about progress, in one line."""


class _Metadata(Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(Struct):
    metadata: _Metadata = _Metadata()
    items: list[dict[str, Any]] | None = None


class Exported(Struct):
    """The result of an export.

    Attributes:
        written: number of objects in the archive.
        left_out: reason -> number of objects.
        elsewhen: resources that could only be listed as of another moment.
        unavailable: resources of aggregated API servers that do not answer, which are left out.
    """

    written: int = 0
    left_out: dict[str, int] = {}
    elsewhen: list[str] = []
    unavailable: list[str] = []


async def export(
    client: Client, path: Path, *, tenant: str, now: str, with_keys: bool, note: Note
) -> Exported:
    """Write all objects of a control plane into an archive.

    Args:
        client: client of the control plane, as an administrator.
        path: the archive.
        tenant: name of the tenant.
        now: the time, in RFC 3339.
        with_keys: whether Secrets keep their contents.
        note: is told about progress.

    Raises:
        KubeError: the control plane cannot be read. `Gone`: its history was too short for the export.
        OSError: the file cannot be written.
    """
    discovery = await discover(client)
    resources = sorted(
        (each.resource for each in discovery.resources if "list" in each.verbs and "create" in each.verbs),
        key=lambda each: (rank(each.group, each.plural), each.group, each.plural),
    )
    version = (await _page(client, NAMESPACES.path(), {"limit": "1"})).metadata.resource_version
    header = Header(
        version=VERSION, tenant=tenant, created=now, resource_version=version, with_keys=with_keys
    )
    done = Exported()
    with Writer(path, header) as writer:
        for resource in resources:
            if (resource.group, resource.plural) in LEFT_OUT:
                continue
            if resource.api_version in discovery.stale:
                done.unavailable.append(f"{resource.plural}.{resource.group}")
                continue
            before = writer.count
            async for found in _objects(client, resource, version, done):
                if reason := why_left_out(found):
                    done.left_out[reason] = done.left_out.get(reason, 0) + 1
                else:
                    writer.add(archived(found, with_keys=with_keys))
            if writer.count > before:
                note(
                    f"{resource.plural}{'.' if resource.group else ''}{resource.group}: {writer.count - before}"
                )
        done.written = writer.count
    return done


async def _objects(client: Client, resource: Resource, version: str, done: Exported) -> AsyncIterator[Object]:
    """Yield the objects of a resource."""
    path = resource.path()
    query = {"limit": str(PAGE), "resourceVersion": version, "resourceVersionMatch": "Exact"}
    try:
        page = await _page(client, path, query)
    except (BadRequest, NotFound, ServerError):
        # An aggregated API server has versions of its own, if it answers at all.
        done.elsewhen.append(resource.plural)
        query = {"limit": str(PAGE)}
        page = await _page(client, path, query)
    while True:
        for item in page.items or ():
            yield {**item, "apiVersion": resource.api_version, "kind": resource.kind}
        if not page.metadata.continue_:
            return
        page = await _page(client, path, {"limit": str(PAGE), "continue": page.metadata.continue_})


async def _page(client: Client, path: str, query: dict[str, str]) -> _Page:
    raw = await client.request("GET", path, params=query)
    try:
        return msgspec.json.decode(raw, type=_Page)
    except msgspec.MsgspecError as error:
        raise KubeError(f"{path}: the answer is no list: {error}", endpoint=client.name) from error

"""Lists over several control planes: their versions first, then their pages, one control plane after another."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from vcsync.apimachinery.errors import expired, unavailable
from vcsync.apiserver.registry.reading import TURN_SECONDS
from vcsync.apiserver.request.paging import TOO_OLD
from vcsync.gateway.all_tenants.known_objects import Budget, KnownObjects, ObjectState
from vcsync.gateway.all_tenants.pages import encoded, marker
from vcsync.gateway.all_tenants.shapes import TABLE, Malformed, Shape, Template
from vcsync.gateway.all_tenants.sources import (
    PAGE,
    Absent,
    EmbeddedSource,
    Expired,
    ExternalSource,
    Parameters,
    Unreadable,
)
from vcsync.gateway.all_tenants.versions import (
    ABSENT,
    PARTIAL,
    Position,
    Versions,
    encode_position,
    encode_versions,
)
from vcsync.process.loop_turns import turn

VERSION_SECONDS = 5.0
"""Time in which all external control planes must say their versions."""
AT_ONCE = 64
"""External control planes that are asked at the same time."""
PAGES_SECONDS = 120.0
"""Time that one list waits for the pages of one external control plane altogether: they may be endless."""
EMBEDDED_PAGE = 500
"""Objects of the embedded control planes that are read at once."""
PIECE_BYTES = 64 * 1024
"""Bytes of items that are sent at once."""
_Source = TypeVar("_Source", EmbeddedSource, ExternalSource)


class Surveyed(NamedTuple):
    """Versions of the control planes before a list begins.

    Attributes:
        versions: The version of each that can be read.
        unread: Why others cannot be read, by tenant.
    """

    versions: Versions
    unread: Mapping[str, str]


class Item(NamedTuple):
    """One item of a list.

    Attributes:
        value: The item, which names its tenant, or its JSON.
        seen: Who it is, for items of external control planes.
    """

    value: dict[str, Any] | bytes
    seen: ObjectState | None


async def survey(
    embedded: int, sources: Sequence[ExternalSource], at: Mapping[bytes, int] | None = None
) -> Surveyed:
    """Return the versions of all control planes.

    Args:
        embedded: Version of the embedded ones.
        sources: The external ones.
        at: Versions at which they must still be readable. None: the newest.

    Raises:
        Expired: One is not.
    """
    limit = asyncio.Semaphore(AT_ONCE)
    versions: dict[bytes, int] = {}
    unread: dict[str, str] = {}
    gone: list[str] = []

    async def ask(source: ExternalSource) -> None:
        async with limit:
            try:
                versions[source.id] = await version_of(source, None if at is None else at[source.id])
            except Unreadable as error:
                unread[source.tenant] = str(error)
            except Expired:
                if at is None:
                    unread[source.tenant] = "answers with the status 410"
                else:
                    gone.append(source.tenant)

    tasks = {asyncio.create_task(ask(source)): source for source in sources}
    if tasks:
        try:
            await asyncio.wait(tasks, timeout=VERSION_SECONDS)
        finally:
            late = [source for task, source in tasks.items() if task.cancel()]
            await asyncio.gather(*tasks, return_exceptions=True)
        for source in late:
            if source.id not in versions:
                unread.setdefault(source.tenant, "does not answer in time")
    if gone:
        raise Expired
    return Surveyed(Versions(embedded, versions), dict(sorted(unread.items())))


async def version_of(source: ExternalSource, at: int | None = None) -> int:
    """Return the newest version of an external control plane, or the one at which it must still be readable.

    Raises:
        Unreadable: It cannot be read.
        Expired: It no longer has that version.
    """
    if at == ABSENT:
        return at
    try:
        version = (await source.page({} if at is None else exactly(at), 1)).version
    except Absent:
        return ABSENT
    if at is not None:
        return at
    if version in (ABSENT, PARTIAL):
        raise Unreadable("sends a resource version that no list has")
    return version


def require_all(unread: Mapping[str, str]) -> None:
    """Refuse an answer without some control planes.

    Raises:
        StatusError: 503, there are some. The message names them, because only the operator's users get it.
    """
    if unread:
        named = "; ".join(f'tenant "{tenant}" {why}' for tenant, why in list(unread.items())[:3])
        more = f"; {len(unread) - 3} more" if len(unread) > 3 else ""
        raise unavailable(f"{named}{more}; use all+reachable to read the others", 1)


async def embedded_items(
    source: EmbeddedSource, version: int, token: str, most: int, ends: list[str]
) -> AsyncIterator[Item]:
    """Yield the items of the embedded control planes; see `_pages`."""
    async for page in _pages(source, version, token, most, ends, EMBEDDED_PAGE):
        since = time.perf_counter()
        for item in page.items:
            yield Item(bytes(item), None)
            if time.perf_counter() - since > TURN_SECONDS:
                await turn()
                since = time.perf_counter()


async def external_items(  # noqa: PLR0917 - one list
    source: ExternalSource,
    template: Template,
    shape: Shape,
    version: int,
    token: str = "",
    most: int = 0,
    ends: list[str] | None = None,
) -> AsyncIterator[Item]:
    """Yield the items of an external control plane; see `_pages`."""
    if version == ABSENT:
        return
    rest = [] if ends is None else ends
    async for page in _pages(source, version, token, most, rest, PAGE, PAGES_SECONDS):
        if page.more and not page.items:
            raise Unreadable("sends an empty page that is not the last")
        try:
            marked = marker(page, template, shape, source.tenant)
            since = time.perf_counter()
            for item in page.items:
                yield Item(*marked(item))
                if time.perf_counter() - since > TURN_SECONDS:
                    await turn()
                    since = time.perf_counter()
        except Malformed as error:
            raise Unreadable(f"sends what it should not: {error}") from None


async def _pages(  # noqa: PLR0917 - one list
    source: _Source,
    version: int,
    token: str,
    most: int,
    ends: list[str],
    size: int,
    seconds: float = math.inf,
) -> AsyncIterator[Any]:
    """Yield the pages of a list at a version.

    Args:
        source: The control plane.
        version: The version.
        token: Its continue token; empty: from the beginning.
        most: Most objects; 0: all.
        ends: Gets the continue token of what is left, if anything is.
        size: Objects in a page.
        seconds: Time that is waited for pages altogether.

    Raises:
        Unreadable, Expired, Absent: The control plane cannot be read.
    """
    left, waited = most, 0.0
    while True:
        parameters = {"continue": token} if token else exactly(version)
        since = time.monotonic()
        page = await source.page(parameters, min(left, size) if most else size)
        waited += time.monotonic() - since
        left -= len(page.items)
        yield page
        if page.more == token and token:
            raise Unreadable("sends the same page again and again")
        if page.more and waited > seconds:
            raise Unreadable(f"does not end its list within {seconds:g} seconds")
        token = page.more
        if not token:
            return
        if most and left <= 0:
            ends.append(token)
            return
        await turn()


def exactly(version: int) -> Parameters:
    """Return the parameters of a list of the state at a version."""
    return {"resourceVersion": str(version), "resourceVersionMatch": "Exact"}


class ListWriter:
    """Writes one list.

    Args:
        embedded: The embedded control planes.
        sources: The external ones in order. Those without a version are left out.
        template: What all parts have in common.
        shape: Shape of the answer.
        start: Where the list begins.
        limit: Most items; 0: all.
        known: What the client knows of the external control planes, by their ids; it is added to.
        budget: Counts what is remembered.
    """

    def __init__(  # noqa: PLR0917 - one list
        self,
        embedded: EmbeddedSource,
        sources: Sequence[ExternalSource],
        template: Template,
        shape: Shape,
        start: Position,
        limit: int,
        known: dict[bytes, KnownObjects],
        budget: Budget,
    ) -> None:
        self._embedded = embedded
        self._sources = [each for each in sources if each.id in start.versions.external]
        self._template = template
        self._shape = shape
        self._start = start
        self._limit = limit
        self._budget = budget
        self.known = known
        self.token = ""

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the JSON of the list in pieces. `token` is then that which the client has.

        Raises:
            StatusError: 410, the list has expired; 503, a control plane cannot be read.
        """
        columns = b""
        if self._shape.target == TABLE:
            columns = b'"columnDefinitions":%b,' % encoded(list(self._template.columns))
        yield b'{"kind":%b,"apiVersion":%b,%b"%b":[' % (
            encoded(self._template.list_kind),
            encoded(self._template.api_version),
            columns,
            b"rows" if columns else b"items",
        )
        left, between = self._limit, b""
        rest = Position(self._start.versions)
        at = self._start.source
        order: list[EmbeddedSource | ExternalSource] = [self._embedded, *self._sources]
        begin = next((number for number, each in enumerate(order) if each.id == at), len(order))
        for number, source in enumerate(order[begin:], begin):
            token = self._start.token if number == begin else ""
            ends: list[str] = []
            batch: list[bytes] = []
            size = 0
            async for item in self._items(source, token, left if self._limit else 0, ends):
                left -= 1
                batch.append(item)
                size += len(item)
                if size > PIECE_BYTES:
                    yield between + b",".join(batch)
                    batch, size, between = [], 0, b","
            if batch:
                yield between + b",".join(batch)
                between = b","
            if ends:
                rest = Position(self._start.versions, source.id, ends[0])
                break
            if self._limit and left <= 0 and number + 1 < len(order):
                rest = Position(self._start.versions, order[number + 1].id)
                break
        metadata = {"resourceVersion": encode_versions(self._start.versions)}
        self.token = metadata["resourceVersion"]
        if rest.source or rest.token:
            self.token = metadata["continue"] = encode_position(rest)
        yield b'],"metadata":%b}\n' % encoded(metadata)

    async def _items(
        self, source: EmbeddedSource | ExternalSource, token: str, most: int, ends: list[str]
    ) -> AsyncIterator[bytes]:
        versions = self._start.versions
        try:
            if isinstance(source, EmbeddedSource):
                async for item in embedded_items(source, versions.embedded, token, most, ends):
                    yield item.value if isinstance(item.value, bytes) else encoded(item.value)
                return
            version = versions.external[source.id]
            fresh = (KnownObjects.unknown if token else KnownObjects)(self._budget, source.id)
            known = self.known.setdefault(source.id, fresh)
            items = external_items(source, self._template, self._shape, version, token, most, ends)
            async for item in items:
                known.add(item.seen)
                yield encoded(item.value)
        except Expired:
            raise expired(TOO_OLD) from None
        except Absent:
            if isinstance(source, ExternalSource):
                require_all({source.tenant: "no longer has this resource"})
        except (Unreadable, Malformed) as error:
            if isinstance(source, ExternalSource):
                require_all({source.tenant: str(error)})
            raise

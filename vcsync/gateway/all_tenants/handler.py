"""Answers lists and watches over embedded and external control planes."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Self

from vcsync.apimachinery.errors import bad_request, expired, qualified, too_many_requests
from vcsync.apiserver.handlers.exchange import Embedded, Incoming
from vcsync.apiserver.request.paging import TOO_OLD
from vcsync.apiserver.request.reply import Reply, Stream
from vcsync.apiserver.request.request_info import Query, RequestInfo
from vcsync.apiserver.tenants.registry import Readable, TenantRegistry
from vcsync.gateway.all_tenants.known_objects import Budget, KnownObjects, Memories
from vcsync.gateway.all_tenants.list_request import ListRequest, list_request, list_start
from vcsync.gateway.all_tenants.listing import ListWriter, require_all, survey
from vcsync.gateway.all_tenants.sources import Expired, ExternalSource
from vcsync.gateway.all_tenants.versions import MAX_CONTROL_PLANES, PARTIAL, Position, Versions
from vcsync.gateway.all_tenants.watching import Watching
from vcsync.gateway.upstreams import Upstreams

EVERY_RESOURCE = "*"
MAX_STREAMS = 100
"""Watches over external control planes that one process serves at the same time. Each has a connection to each of them."""
WHOLE_BYTES = 2**20
"""Size in bytes up to which a list is read before the answer begins."""
SHOWN = 10
"""Tenants that a warning names."""
RETRY_SECONDS = 1


class AllTenantsHandler:
    """Answers lists and watches over all control planes.

    Args:
        upstreams: Connections to the API servers of external control planes.
        tenants: All tenants.
    """

    def __init__(self, upstreams: Upstreams, tenants: TenantRegistry) -> None:
        self._upstreams = upstreams
        self._tenants = tenants
        self._budget = Budget()
        self._memories = Memories(self._budget)
        self._streams = 0

    async def answer(
        self, incoming: Incoming, info: RequestInfo, query: Query, warnings: list[str], embedded: Embedded
    ) -> Reply | Stream:
        """Answer a request; see `filters.external.ExternalControlPlanes.all_tenants`."""
        request = list_request(incoming, info, query, embedded)
        warnings += self._left_out(request)
        if info.verb == "watch":
            return await self._watch(request, warnings)
        return await self._list(request, warnings)

    async def _list(self, request: ListRequest, warnings: list[str]) -> Reply:
        first = await request.embedded.page({}, 1)
        position, given = list_start(request.options), request.options.continue_
        sources = self.sources(request)
        known: dict[bytes, KnownObjects] = {}
        if position is None:
            found = await survey(first.version, sources)
            self.settle(request, found.unread, warnings)
            position = Position(found.versions)
        else:
            sources = _at(position.versions, sources)
            await self._still_there(position.versions, sources)
            known = self._memories.recall(request.key, given) if given else {}
        limit = max(request.options.limit, 0)
        writer = ListWriter(
            request.embedded, sources, first.template, request.shape, position, limit, known, self._budget
        )
        pieces = self._remembered(request, writer)
        begun: list[bytes] = []
        # An error is an answer of its own only before the list begins.
        while sum(map(len, begun)) < WHOLE_BYTES and (piece := await anext(pieces, None)) is not None:
            begun.append(piece)
        return Reply(200, [], "application/json", rest=_Pieces(begun, pieces, _nothing))

    @staticmethod
    async def _still_there(versions: Versions, sources: Sequence[ExternalSource]) -> None:
        """Return if a snapshot can still be read.

        Raises:
            StatusError: 410, it cannot; 503, a control plane cannot be read.
        """
        try:
            require_all((await survey(versions.embedded, sources, versions.external)).unread)
        except Expired:
            raise expired(TOO_OLD) from None

    async def _remembered(self, request: ListRequest, writer: ListWriter) -> AsyncGenerator[bytes, None]:
        """Yield a list, and then remember what the client knows."""
        whole = False
        try:
            async for piece in writer.pieces():
                whole = bool(writer.token)
                if whole:
                    self.keep(request, writer.token, writer.known)
                yield piece
        finally:
            if not whole:
                for known in writer.known.values():
                    known.release()

    async def _watch(self, request: ListRequest, warnings: list[str]) -> Stream:
        if self._streams >= MAX_STREAMS:
            raise too_many_requests(
                "too many watches over external control planes are open, please try again later",
                RETRY_SECONDS,
            )
        watching = Watching(self, request, warnings)
        # The watch counts from here on, and until its stream ends.
        self._streams += 1
        try:
            pieces = await watching.open()
        except BaseException:
            self._streams -= 1
            watching.release()
            raise

        def ended() -> None:
            self._streams -= 1
            watching.release()

        return Stream("application/json", _Pieces([], pieces, ended))

    @property
    def changes(self) -> int:
        """Number of changes of external tenants."""
        return self._tenants.external_changes

    @property
    def budget(self) -> Budget:
        """Counts what is remembered."""
        return self._budget

    def sources(self, request: ListRequest) -> list[ExternalSource]:
        """Return the external control planes that a request includes, in the order of names.

        Raises:
            StatusError: 400, there are too many.
        """
        found = [each for each in self._tenants.readable() if _includes(each, request.info)]
        if len(found) > MAX_CONTROL_PLANES:
            raise bad_request(
                f"{len(found)} external control planes are readable, and one answer can include {MAX_CONTROL_PLANES}; "
                "name one tenant after another"
            )
        return [
            ExternalSource(
                self._upstreams, each, request.info, request.query, request.shape, request.audit_id
            )
            for each in found
        ]

    def settle(self, request: ListRequest, unread: Mapping[str, str], warnings: list[str]) -> None:
        """Refuse a request because of what cannot be read, or warn if it includes only what can.

        Raises:
            StatusError: 503.
        """
        if request.beyond != "reachable":
            require_all(unread)
        elif unread:
            warnings.append(_left_out("cannot be read now", unread))

    def recall(self, request: ListRequest, token: str) -> dict[bytes, KnownObjects]:
        """Return what a client knows that has a token."""
        return self._memories.recall(request.key, token)

    def keep(self, request: ListRequest, token: str, known: Mapping[bytes, KnownObjects]) -> None:
        """Remember what a client knows that has a token."""
        self._memories.make_room()
        self._memories.keep(request.key, token, known)

    def _left_out(self, request: ListRequest) -> Iterable[str]:
        """Yield a warning if external control planes are not readable at all."""
        included = {each.tenant for each in self._tenants.readable() if _includes(each, request.info)}
        others = [each for each in self._tenants.external_names() if each not in included]
        if others:
            yield _left_out("did not let vcsync read this when they were connected (--readable)", others)


def _at(versions: Versions, sources: Sequence[ExternalSource]) -> list[ExternalSource]:
    """Return the control planes of a snapshot.

    Raises:
        StatusError: 410, one of them is no longer readable, or has been told in part.
    """
    found = {each.id for each in sources}
    if (
        not versions.embedded
        or not versions.external.keys() <= found
        or PARTIAL in versions.external.values()
    ):
        raise expired(TOO_OLD)
    return [each for each in sources if each.id in versions.external]


def _includes(readable: Readable, info: RequestInfo) -> bool:
    return EVERY_RESOURCE in readable.resources or qualified(info.resource, info.group) in readable.resources


def _left_out(why: str, tenants: Iterable[str]) -> str:
    """Return the text of a warning about tenants that an answer does not include."""
    found = list(tenants)
    shown = ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
    planes = "1 external control plane" if len(found) == 1 else f"{len(found)} external control planes"
    return f"{planes} left out: {shown} {why}"


class _Pieces:
    """Pieces of an answer, the first of which are there already.

    Args:
        begun: Those.
        pieces: The others.
        ended: Called once when the answer has ended.
    """

    def __init__(
        self, begun: Sequence[bytes], pieces: AsyncGenerator[bytes, None], ended: Callable[[], None]
    ) -> None:
        self._begun = list(begun)
        self._pieces = pieces
        self._ended: Callable[[], None] | None = ended

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return self._begun.pop(0) if self._begun else await anext(self._pieces)

    async def aclose(self) -> None:
        """End the answer."""
        ended, self._ended = self._ended, None
        try:
            await self._pieces.aclose()
        finally:
            if ended is not None:
                ended()


def _nothing() -> None:
    """Do nothing at the end of an answer."""

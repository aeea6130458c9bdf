"""Reads of one object and of lists, on stored bytes: a snapshot, selectors, pages.

Behaviour: apiserver's `storage/etcd3/store.go` GetList and Get.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace

from vcsync.controlplane import errors
from vcsync.controlplane.flow.widths import Widths
from vcsync.controlplane.resources import collection_key
from vcsync.controlplane.rest import paging
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.rest.options import ListOptions
from vcsync.controlplane.rest.requestinfo import ALL
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.rest.selection import Selection, selected
from vcsync.controlplane.rest.turns import turn
from vcsync.controlplane.store.interface import Compacted, FutureRevision, Page, Record, Store

PAGE = 200
"""Objects read at once where the client set no smaller limit."""
WHOLE = 1000
"""Objects of a list that is at hand before it is answered; what follows is read while it is sent."""
PAGE_BYTES = 2**20
"""About how much is read at once, once it is known how large objects are."""
FIRST = 8
"""Objects read at first where it is not known how large they are."""
MAX_REMEMBERED = 8192
"""Kinds of tenants of which is remembered how large objects are."""
WHOLE_BYTES = 2**20
"""Size of a list that is at hand before it is answered."""
LIMITED_BYTES = 16 * 2**20
"""Size of a list with a limit: one that would be larger is cut short, and tells how to go on."""
ENCODED_BYTES = 32 * 2**20
"""Size of a list that can only be encoded as a whole."""
TURN_SECONDS = 0.000_5
"""How long records are selected before others in the event loop get their turn."""
FRESH_SECONDS = 3.0
"""How long a read waits for a revision that is not yet."""
TOLD_LOOKS, TOLD_POLL_SECONDS = 500, 0.002
"""How often, and after what pause, a read of all tenants looks whether the newest ones are known."""
FRESH_STEP = 0.05


@dataclass(slots=True)
class Listed:
    """What a list found.

    Attributes:
        records: in key order.
        rest: the records that follow these, of the same snapshot; None: there are none.
        revision: of the snapshot.
        continue_: token of the next page, empty: there is none.
        remaining: how many objects follow; None: not known.
        tell_tenant: whether each object tells its tenant.
    """

    records: list[Record] = field(default_factory=list)
    revision: int = 0
    continue_: str = ""
    remaining: int | None = None
    tell_tenant: bool = False
    rest: AsyncIterator[list[Record]] | None = None

    async def whole(self) -> None:
        """Read the rest as well.

        Raises:
            StatusError: 410, the snapshot is gone; 413, it is more than can be encoded as a whole.
        """
        size = _size(self.records)
        if self.rest is not None:
            async for records in self.rest:
                self.records += records
                size += _size(records)
                if size > ENCODED_BYTES:
                    raise errors.too_large(
                        "the list is too large for this media type; set a limit, or ask for JSON"
                    )
            self.rest = None


class _Choice:
    """Tells which records a list takes that does not take all; others have their turn whenever that takes long."""

    __slots__ = ("_kind", "_selection", "_since")

    def __init__(self, kind: Kind, selection: Selection) -> None:
        self._kind = kind
        self._selection = selection
        self._since = time.perf_counter()

    async def takes(self, record: Record) -> bool:
        if time.perf_counter() - self._since > TURN_SECONDS:
            await turn()
            self._since = time.perf_counter()
        return await selected(self._kind, self._selection, record.key, record.value)


class Reader:
    """Reads for every kind and tenant."""

    def __init__(
        self,
        store: Store,
        tenants: Callable[[], Sequence[str]],
        widths: Widths | None = None,
        told: Callable[[], int] = lambda: 0,
    ) -> None:
        """Take the store, who the tenants are, in order, and who is told what lists read.

        `told`: the revision up to which `tenants` knows all there are; 0: it knows no such thing.
        """
        self._told = told
        self._widths = widths or Widths()
        self._store = store
        self._tenants = tenants
        self._sizes: dict[str, int] = {}

    async def get(self, scope: Scope, resource_version: str = "") -> Record:
        """Read one object, at least as new as `resource_version`.

        Raises:
            StatusError: 404, 400, 504.
        """
        version = paging.parse_version(resource_version)
        record, revision = await self._store.get(scope.key())
        if version > revision:
            await self.fresh(version)
            record, _ = await self._store.get(scope.key())
        if record is None:
            resource = scope.kind.resource
            raise errors.not_found(resource.plural, resource.group, scope.name)
        return record

    async def collection(self, scope: Scope, options: ListOptions, selection: Selection) -> Listed:
        """Read a collection or a page of it.

        Raises:
            StatusError: 400, 410, 504.
        """
        scope = narrowed(scope, selection)
        prefix = "" if scope.tenant == ALL else scope.collection
        plan = paging.plan(options, prefix)
        if plan.at_least:
            await self.fresh(plan.at_least)
        try:
            return await self._list(scope, options, selection, plan, prefix)
        except Compacted:
            raise paging.too_old(options, plan.after, prefix) from None
        except FutureRevision as error:
            raise paging.too_large(plan.revision, error.current) from None

    async def _list(
        self, scope: Scope, options: ListOptions, selection: Selection, plan: paging.Plan, prefix: str
    ) -> Listed:
        listed = Listed(tell_tenant=scope.tenant == ALL)
        if (
            selection.name is not None
            and scope.tenant != ALL
            and (scope.namespace or not scope.kind.resource.namespaced)
        ):
            return await self._single(scope, selection, plan)
        limit, size, resource = max(options.limit, 0), 0, scope.kind.resource
        choice = _Choice(scope.kind, selection)
        key, seen, read = (scope.tenant, resource.group, resource.plural, scope.namespace), 0, 0
        revision = plan.revision
        if scope.tenant == ALL and not revision:
            revision = await self._everywhere()
        pages = self._pages(scope, plan.after, limit if selection.everything else 0, revision)
        async for page in pages:
            listed.revision = page.revision
            seen, read = seen + len(page.records), read + _size(page.records)
            for at, record in enumerate(page.records):
                if not selection.everything and not await choice.takes(record):
                    continue
                listed.records.append(record)
                size += len(record.value)
                full = len(listed.records) == limit
                if limit and (full or size >= LIMITED_BYTES):
                    left = len(page.records) - at - 1
                    if left or page.more:
                        listed.continue_ = paging.encode_token(record.key, prefix, page.revision)
                        if full and selection.everything and scope.tenant != ALL:
                            listed.remaining = left + page.remaining
                    self._widths.told(key, seen, read, whole=False)
                    return listed
            if not limit and page.more and (len(listed.records) >= WHOLE or size >= WHOLE_BYTES):
                listed.rest = self._rest(scope.kind, selection, pages)
                self._widths.told(key, seen, read, whole=False)
                return listed
        if not plan.after:
            self._widths.told(key, seen, read, whole=True)
        if not listed.revision:
            listed.revision = revision or await self._store.revision()
        return listed

    @staticmethod
    async def _rest(
        kind: Kind, selection: Selection, pages: AsyncIterator[Page]
    ) -> AsyncIterator[list[Record]]:
        choice = _Choice(kind, selection)
        try:
            async for page in pages:
                yield (
                    page.records
                    if selection.everything
                    else [each for each in page.records if await choice.takes(each)]
                )
        except Compacted:
            raise errors.expired(paging.TOO_OLD) from None

    async def _single(self, scope: Scope, selection: Selection, plan: paging.Plan) -> Listed:
        name = selection.name or ""
        if not name or "/" in name:
            return Listed(revision=await self._store.revision())
        key = scope.key(name)
        record, revision = await self._store.get(key, revision=plan.revision)
        if record is None or not await selected(scope.kind, selection, key, record.value):
            return Listed(revision=revision)
        return Listed([record], revision)

    async def _pages(self, scope: Scope, after: str, limit: int, revision: int) -> AsyncIterator[Page]:
        resource = scope.kind.resource
        tenants = self._tenants() if scope.tenant == ALL else (scope.tenant,)
        here = after.partition("/")[0] if scope.tenant == ALL else ""
        for tenant in tenants:
            if tenant < here:
                continue
            prefix = collection_key(tenant, resource.key_group, resource.plural, scope.namespace)
            start, read, size = after if after.startswith(prefix) else "", 0, 0
            step = max(1, min(limit or PAGE, self._step(prefix)))
            while True:
                page = await self._store.range(
                    prefix,
                    after=start,
                    limit=step,
                    revision=revision,
                    counted=0 < limit <= read + step,
                )
                read, size = read + len(page.records), size + _size(page.records)
                left = limit - read if limit > read else PAGE
                self._remember(prefix, size // max(read, 1))
                step = max(1, min(left, PAGE, self._step(prefix)))
                revision = page.revision
                yield replace(page, more=page.more or tenant != tenants[-1])
                if not page.more or not page.records:
                    break
                start = page.records[-1].key
                await turn()

    def _step(self, prefix: str) -> int:
        """Return how many objects are read at once."""
        known = self._sizes.get(prefix)
        return FIRST if known is None else PAGE_BYTES // max(known, 1)

    def _remember(self, prefix: str, size: int) -> None:
        if size:
            if len(self._sizes) >= MAX_REMEMBERED:
                self._sizes.clear()
            self._sizes[prefix] = size

    async def _everywhere(self) -> int:
        """Return the newest revision at which all tenants are known: objects of a newer one would be left out."""
        newest = await self._store.revision()
        for _ in range(TOLD_LOOKS):
            if not 0 < self._told() < newest:
                break
            await asyncio.sleep(TOLD_POLL_SECONDS)
        return min(newest, self._told() or newest)

    async def fresh(self, revision: int) -> None:
        """Wait until the store has come as far as a revision.

        Raises:
            StatusError: 504, it did not.
        """
        waited = 0.0
        while (current := await self._store.revision()) < revision:
            if waited >= FRESH_SECONDS:
                raise paging.too_large(revision, current)
            await asyncio.sleep(FRESH_STEP)
            waited += FRESH_STEP


def _size(records: Sequence[Record]) -> int:
    return sum(len(each.value) for each in records)


def narrowed(scope: Scope, selection: Selection) -> Scope:
    """Read only the one namespace that a field selector leaves."""
    namespace = selection.namespace
    if namespace and not scope.namespace and scope.kind.resource.namespaced and "/" not in namespace:
        return replace(scope, namespace=namespace)
    return scope

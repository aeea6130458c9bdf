"""Reads objects and lists in their stored form: snapshots, selectors and pages.

Behaviour: apiserver's `storage/etcd3/store.go` GetList and Get.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace

from vcsync.apimachinery import errors
from vcsync.apimachinery.resources import collection_key
from vcsync.apiserver.flow.work_estimator import WorkEstimator
from vcsync.apiserver.registry.selection import Selection, selected
from vcsync.apiserver.request import paging
from vcsync.apiserver.request.options import ListOptions
from vcsync.apiserver.request.request_info import ALL
from vcsync.apiserver.request.resource import Kind
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Compacted, FutureRevision, Page, Record, Store
from vcsync.process.loop_turns import turn

PAGE = 200
"""Most objects in one read from the store."""
PAGE_BYTES = 2**20
"""Approximate size of one read, once the size of the objects is known."""
FIRST_PAGE = 8
"""Objects in the first read of a collection whose objects have an unknown size."""
MAX_REMEMBERED = 8192
"""Collections whose average object size is remembered."""
WHOLE_OBJECTS = 1000
"""Number of objects up to which a list is read before the response begins. The rest is read while the list is sent."""
WHOLE_BYTES = 2**20
"""Size in bytes up to which a list is read before the response begins."""
LIMITED_BYTES = 16 * 2**20
"""Most bytes of a page that a client limited. A larger page ends early and has a continue token."""
ENCODED_BYTES = 32 * 2**20
"""Most bytes of a list in a media type that cannot be encoded in pieces."""
TURN_SECONDS = 0.000_5
"""Time for which records are selected before the event loop runs other tasks."""
FRESH_SECONDS = 3.0
"""Time for which a read waits for a revision that the store has not reached."""
FRESH_POLL_SECONDS = 0.05
"""Interval in which such a read checks the revision of the store."""
TENANT_POLLS, TENANT_POLL_SECONDS = 500, 0.002
"""Number and interval of the checks whether the newest tenants are known before a list of all tenants."""


@dataclass(slots=True)
class Listed:
    """The result of a list.

    Attributes:
        records: Records in the order of their keys.
        revision: Revision of the snapshot.
        continue_: Continue token of the next page. Empty: this is the last page.
        remaining: Number of objects on later pages, or None if it is not known.
        rest: Later records of the same snapshot, in batches, or None if `records` are all.
    """

    records: list[Record] = field(default_factory=list)
    revision: int = 0
    continue_: str = ""
    remaining: int | None = None
    rest: AsyncIterator[list[Record]] | None = None

    async def whole(self) -> None:
        """Move the records of `rest` to `records`.

        Raises:
            StatusError: 410 if the snapshot has been compacted, 413 if the list exceeds `ENCODED_BYTES`.
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


class _Filter:
    """Applies the selectors of a list to records. Yields to other tasks every `TURN_SECONDS`."""

    __slots__ = ("_kind", "_selection", "_since")

    def __init__(self, kind: Kind, selection: Selection) -> None:
        self._kind = kind
        self._selection = selection
        self._since = time.perf_counter()

    async def matches(self, record: Record) -> bool:
        if time.perf_counter() - self._since > TURN_SECONDS:
            await turn()
            self._since = time.perf_counter()
        return await selected(self._kind, self._selection, record.key, record.value)


class Reader:
    """Reads objects of every kind and tenant.

    Args:
        store: The store.
        tenants: Returns the names of all tenants in order.
        work_estimator: Learns the size of lists.
        known_revision: Returns the revision up to which `tenants` includes every tenant. 0: not known.
    """

    def __init__(
        self,
        store: Store,
        tenants: Callable[[], Sequence[str]],
        work_estimator: WorkEstimator | None = None,
        known_revision: Callable[[], int] = lambda: 0,
    ) -> None:
        self._known_revision = known_revision
        self._work_estimator = work_estimator or WorkEstimator()
        self._store = store
        self._tenants = tenants
        self._sizes: dict[str, int] = {}

    async def get(self, scope: Scope, resource_version: str = "") -> Record:
        """Read one object.

        Args:
            scope: Scope of the request.
            resource_version: Oldest revision of the store that may be read. Empty: the current one.

        Raises:
            StatusError: 404 if there is no such object, 400 if the version is invalid, 504 if the store does not
                reach it in time.
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
        """Read a collection, or one page of it.

        Raises:
            StatusError: 400 if the options are invalid, 410 if the snapshot has been compacted, 504 if the store does
                not reach the requested revision in time.
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
        listed = Listed()
        if (
            selection.name is not None
            and scope.tenant != ALL
            and (scope.namespace or not scope.kind.resource.namespaced)
        ):
            return await self._single(scope, selection, plan)
        limit, size, resource = max(options.limit, 0), 0, scope.kind.resource
        selectors = _Filter(scope.kind, selection)
        key, seen, read = (scope.tenant, resource.group, resource.plural, scope.namespace), 0, 0
        revision = plan.revision
        if scope.tenant == ALL and not revision:
            revision = await self._newest_revision_of_all_tenants()
        pages = self._pages(scope, plan.after, limit if selection.everything else 0, revision)
        async for page in pages:
            listed.revision = page.revision
            seen, read = seen + len(page.records), read + _size(page.records)
            for at, record in enumerate(page.records):
                if not selection.everything and not await selectors.matches(record):
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
                    self._work_estimator.record(key, seen, read, whole=False)
                    return listed
            if not limit and page.more and (len(listed.records) >= WHOLE_OBJECTS or size >= WHOLE_BYTES):
                listed.rest = self._rest(scope.kind, selection, pages)
                self._work_estimator.record(key, seen, read, whole=False)
                return listed
        if not plan.after:
            self._work_estimator.record(key, seen, read, whole=True)
        if not listed.revision:
            listed.revision = revision or await self._store.revision()
        return listed

    @staticmethod
    async def _rest(
        kind: Kind, selection: Selection, pages: AsyncIterator[Page]
    ) -> AsyncIterator[list[Record]]:
        selectors = _Filter(kind, selection)
        try:
            async for page in pages:
                yield (
                    page.records
                    if selection.everything
                    else [each for each in page.records if await selectors.matches(each)]
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
        first_tenant = after.partition("/")[0] if scope.tenant == ALL else ""
        for tenant in tenants:
            if tenant < first_tenant:
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
        """Return how many objects of a collection make up `PAGE_BYTES`, by their remembered average size."""
        average = self._sizes.get(prefix)
        return FIRST_PAGE if average is None else PAGE_BYTES // max(average, 1)

    def _remember(self, prefix: str, size: int) -> None:
        if size:
            if len(self._sizes) >= MAX_REMEMBERED:
                self._sizes.clear()
            self._sizes[prefix] = size

    async def _newest_revision_of_all_tenants(self) -> int:
        """Return the newest revision at which all tenants are known. A newer list could omit tenants."""
        newest = await self._store.revision()
        for _ in range(TENANT_POLLS):
            if not 0 < self._known_revision() < newest:
                break
            await asyncio.sleep(TENANT_POLL_SECONDS)
        return min(newest, self._known_revision() or newest)

    async def fresh(self, revision: int) -> None:
        """Wait until the store has reached a revision.

        Raises:
            StatusError: 504 if it does not within `FRESH_SECONDS`.
        """
        waited = 0.0
        while (current := await self._store.revision()) < revision:
            if waited >= FRESH_SECONDS:
                raise paging.too_large(revision, current)
            await asyncio.sleep(FRESH_POLL_SECONDS)
            waited += FRESH_POLL_SECONDS


def _size(records: Sequence[Record]) -> int:
    return sum(len(each.value) for each in records)


def narrowed(scope: Scope, selection: Selection) -> Scope:
    """Return the scope of a list, restricted to the namespace that its field selector requires, if any."""
    namespace = selection.namespace
    if namespace and not scope.namespace and scope.kind.resource.namespaced and "/" not in namespace:
        return replace(scope, namespace=namespace)
    return scope

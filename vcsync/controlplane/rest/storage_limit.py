"""How much each tenant may keep: writes beyond it are refused, with the remedy named; deletions always go on.

What is left is remembered, so that a write costs no question to the store until it may run out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from vcsync.controlplane import errors
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.identity.caller import SYSTEM
from vcsync.controlplane.resources import collection_key
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.store.interface import Change, Store, Usage
from vcsync.controlplane.tenants.records import TENANTS, decode, record_key

MAX_BYTES = 2 * 2**30
MAX_OBJECTS = 500_000
MAX_OBJECT = 1536 * 1024
"""Bytes of one object: etcd's `--max-request-bytes`."""
MAX_REMEMBERED = 4096
"""Tenants, and kinds of theirs, of which is remembered what is left."""
PAGE = 500
_ANY = 2**62
MIB = 2**20
_ADMISSION, _RBAC, _FLOW = (
    "admissionregistration.k8s.io",
    "rbac.authorization.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)
HEEDED: Mapping[tuple[str, str], tuple[int, int]] = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): (1000, 32 * MIB),
    (_ADMISSION, "validatingwebhookconfigurations"): (500, 4 * MIB),
    (_ADMISSION, "mutatingwebhookconfigurations"): (500, 4 * MIB),
    (_ADMISSION, "validatingadmissionpolicies"): (500, 4 * MIB),
    (_ADMISSION, "mutatingadmissionpolicies"): (500, 4 * MIB),
    (_ADMISSION, "validatingadmissionpolicybindings"): (1000, 4 * MIB),
    (_ADMISSION, "mutatingadmissionpolicybindings"): (1000, 4 * MIB),
    (_FLOW, "flowschemas"): (200, MIB // 4),
    (_FLOW, "prioritylevelconfigurations"): (200, MIB // 4),
    (_RBAC, "clusterroles"): (5000, 16 * MIB),
    (_RBAC, "clusterrolebindings"): (5000, 16 * MIB),
    (_RBAC, "roles"): (10_000, 16 * MIB),
    (_RBAC, "rolebindings"): (20_000, 16 * MIB),
    ("apiregistration.k8s.io", "apiservices"): (2000, 4 * MIB),
    ("", "limitranges"): (10_000, 16 * MIB),
    ("", "resourcequotas"): (10_000, 16 * MIB),
}
"""Kinds that the server itself keeps in memory or looks at with other requests: how many, and how many bytes of them."""


@dataclass(slots=True)
class _Left:
    """What a tenant may write before the store is asked again, and what it had when it was."""

    size: int
    objects: int
    usage: Usage

    def covers(self, grown: int, before: bytes | None) -> bool:
        """Tell whether a write is within what is left."""
        return grown <= self.size and (before is not None or self.objects > 0)

    def take(self, grown: int, before: bytes | None) -> None:
        """Count a write."""
        self.size -= grown
        self.objects -= before is None


_Key = TypeVar("_Key")
_ESCAPE = b"\\u00"
"""How JSON begins a control character, of six bytes; in protobuf it is one."""


def _plain_size(scope: Scope, value: bytes) -> int:
    """Return about how large kube-apiserver stores an object: of a built-in kind as protobuf, which escapes nothing."""
    return len(value) if scope.kind.resource.custom else len(value) - 5 * value.count(_ESCAPE)


def _over(usage: Usage, grown: int, limits: tuple[int, int], *, new: bool) -> str:
    """Say which limit, of objects or bytes, a write goes beyond; empty: none."""
    for what, used, more, limit in (
        ("objects", usage.objects, int(new), limits[0]),
        ("bytes", usage.bytes, grown, limits[1]),
    ):
        if limit and more and used + more > limit:
            return f"{used} of {limit} {what}"
    return ""


def _left(usage: Usage, grown: int, limits: tuple[int, int]) -> _Left:
    """Return half of what is left, for others may write to the same store."""
    objects, size = limits
    return _Left(
        max(grown, (size - usage.bytes) // 2) if size else _ANY,
        max(1, (objects - usage.objects) // 2) if objects else _ANY,
        usage,
    )


def _remember(known: dict[_Key, _Left], key: _Key, left: _Left) -> _Left:
    if len(known) >= MAX_REMEMBERED:
        known.clear()
    known[key] = left
    return left


def _refusal(scope: Scope, why: str) -> StatusError:
    resource = scope.kind.resource
    remedy = "delete objects that are not needed, or ask the operator for more"
    return errors.forbidden(resource.plural, resource.group, scope.name, f"{why}; {remedy}")


class StorageLimit:
    """What tenants may keep, each."""

    def __init__(self, store: Store, max_bytes: int = MAX_BYTES, max_objects: int = MAX_OBJECTS) -> None:
        """Take the store, and how many bytes and objects a tenant has whose record tells nothing else; 0: any number."""
        self._store = store
        self._bytes = max_bytes
        self._objects = max_objects
        self._left: dict[str, _Left] = {}
        self._heeded: dict[tuple[str, str], _Left] = {}

    def changed(self, changes: Sequence[Change]) -> None:
        """Take note of changes of the store: of tenants' records, which may tell limits of their own."""
        for change in changes:
            if change.key.startswith(TENANTS):
                self._left.pop(change.key.removeprefix(TENANTS), None)

    def missed(self) -> None:
        """Ask anew about everybody: changes may have been missed."""
        self._left.clear()

    async def _limits(self, tenant: str) -> tuple[int, int]:
        """Return how many objects and bytes a tenant may have."""
        record, _ = await self._store.get(record_key(tenant))
        told = None if record is None else decode(record.value)
        objects, size = self._objects, self._bytes
        if told is not None:
            objects = objects if told.storage_objects is None else told.storage_objects
            size = size if told.storage_bytes is None else told.storage_bytes
        return objects, size

    async def require(self, scope: Scope, key: str, value: bytes, before: bytes | None) -> None:
        """Make sure that there is room for a write.

        Args:
            scope: of the request.
            key: of the object.
            value: what shall stand there.
            before: what stands there; None: nothing.

        Raises:
            StatusError: 500, the object is too large, in kube-apiserver's words; 403, the tenant has no room.
            StoreError: the store cannot be read.
        """
        if len(key) + len(value) > MAX_OBJECT and len(key) + _plain_size(scope, value) > MAX_OBJECT:
            raise StatusError(500, "", "etcdserver: request is too large")
        grown = len(value) - len(before) if before is not None else len(key) + len(value)
        if grown <= 0 or scope.tenant == SYSTEM:
            return
        left = self._left.get(scope.tenant)
        if left is None or not left.covers(grown, before):
            left = await self._ask(scope, grown, new=before is None)
        resource = scope.kind.resource
        heeded = HEEDED.get((resource.storage_group, resource.plural))
        if heeded is not None:
            await self._heed(scope, heeded, grown, before)
        left.take(grown, before)

    async def _ask(self, scope: Scope, grown: int, *, new: bool) -> _Left:
        usage = await self._store.usage(scope.tenant)
        limits = await self._limits(scope.tenant)
        if what := _over(usage, grown, limits, new=new):
            raise _refusal(scope, f"the control plane's storage is full: {what} are used")
        return _remember(self._left, scope.tenant, _left(usage, grown, limits))

    async def _heed(self, scope: Scope, limits: tuple[int, int], grown: int, before: bytes | None) -> None:
        """Make sure that there are not too many of a kind that costs more than its storage."""
        plural = scope.kind.resource.plural
        left = self._heeded.get((scope.tenant, plural))
        if left is None or not left.covers(grown, before):
            usage = await self._usage_of_kind(scope)
            if what := _over(usage, grown, limits, new=before is None):
                raise _refusal(scope, f"there are too many {plural}: {what} are used")
            left = _remember(self._heeded, (scope.tenant, plural), _left(usage, grown, limits))
        left.take(grown, before)

    async def _usage_of_kind(self, scope: Scope) -> Usage:
        resource = scope.kind.resource
        prefix, after = collection_key(scope.tenant, resource.key_group, resource.plural), ""
        objects = size = 0
        while True:
            page = await self._store.range(prefix, after=after, limit=PAGE)
            objects += len(page.records)
            size += sum(len(each.key) + len(each.value) for each in page.records)
            if not page.more:
                return Usage(objects, size)
            after = page.records[-1].key

    async def text(self, tenant: str) -> bytes:
        """Write what a tenant keeps and may keep, as metrics; of the system space what is remembered of everybody.

        Raises:
            StoreError: the store cannot be read.
        """
        if tenant == SYSTEM:
            found = {name: each.usage for name, each in sorted(self._left.items())}
        else:
            found = {tenant: await self._store.usage(tenant)}
        limits = {name: await self._limits(name) for name in found}
        return "\n".join([*_lines(found, limits), ""]).encode()


_SERIES: Sequence[tuple[str, str, Callable[[Usage, tuple[int, int]], int]]] = (
    ("apiserver_storage_size_bytes", "Bytes that a tenant keeps.", lambda usage, _: usage.bytes),
    ("vcsync_storage_objects", "Objects that a tenant keeps.", lambda usage, _: usage.objects),
    ("vcsync_storage_limit_bytes", "Bytes that a tenant may keep; 0: any.", lambda _, limits: limits[1]),
    ("vcsync_storage_limit_objects", "Objects that a tenant may keep; 0: any.", lambda _, limits: limits[0]),
)


def _lines(found: Mapping[str, Usage], limits: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    for name, told, value in _SERIES:
        label = "storage_cluster_id" if name.startswith("apiserver") else "tenant"
        yield f"# HELP {name} {told}"
        yield f"# TYPE {name} gauge"
        for tenant, usage in found.items():
            yield f'{name}{{{label}="{tenant}"}} {value(usage, limits[tenant])}'

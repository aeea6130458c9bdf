"""Limits how much each tenant stores. Writes beyond the limit are refused with a remedy; deletions are always allowed.

The remaining room is cached, so that a write does not query the store until the room may run out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.resources import collection_key
from vcsync.apiserver.request.caller import SYSTEM
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Change, Store, Usage
from vcsync.apiserver.tenants.quota_records import QUOTAS, decode_quota, quota_key
from vcsync.apiserver.tenants.records import TENANTS, decode, record_key
from vcsync.objects.quantity import milli
from vcsync.quota.tenants import BYTES

MAX_BYTES = 2 * 2**30
"""Default limit of the bytes of one tenant."""
MAX_OBJECTS = 500_000
"""Default limit of the objects of one tenant."""
MAX_OBJECT = 1536 * 1024
"""Size of one object in bytes: the default of etcd's `--max-request-bytes`."""
MAX_CACHED = 4096
"""Tenants, and kinds of tenants or namespaces, whose remaining room is cached."""
PAGE = 500
"""Objects in one read from the store."""
_UNLIMITED = 2**62
MIB = 2**20
_ADMISSION, _RBAC, _FLOW = (
    "admissionregistration.k8s.io",
    "rbac.authorization.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)
KIND_LIMITS: Mapping[tuple[str, str], tuple[int, int]] = {
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
"""Most objects and bytes of the kinds that the server caches or evaluates with other requests."""
NAMESPACE_LIMITS: Mapping[tuple[str, str], tuple[int, int]] = {
    ("", "limitranges"): (100, MIB // 2),
    ("", "resourcequotas"): (100, MIB // 2),
}
"""The same for kinds that the server evaluates with each write of their namespace. kube-apiserver has no such limits."""


@dataclass(slots=True)
class _Room:
    """Bytes and objects that a tenant may write before the store is queried again.

    Attributes:
        size: Remaining bytes.
        objects: Remaining objects.
        usage: Usage when the store was queried.
    """

    size: int
    objects: int
    usage: Usage

    def covers(self, grown: int, before: bytes | None) -> bool:
        """Return whether there is room for a write that adds `grown` bytes."""
        return grown <= self.size and (before is not None or self.objects > 0)

    def take(self, grown: int, before: bytes | None) -> None:
        """Count a write."""
        self.size -= grown
        self.objects -= before is None


_Key = TypeVar("_Key")
_ESCAPE = b"\\u00"
"""Start of a control character in JSON, which takes six bytes there and one byte in protobuf."""


def _plain_size(scope: Scope, value: bytes) -> int:
    """Return the approximate size of an object in kube-apiserver's store, where built-in kinds are protobuf without escapes."""
    return len(value) if scope.kind.resource.custom else len(value) - 5 * value.count(_ESCAPE)


def _over(usage: Usage, grown: int, limits: tuple[int, int], *, new: bool) -> str:
    """Return which limit a write exceeds, as a text for messages. Empty: none."""
    for what, used, more, limit in (
        ("objects", usage.objects, int(new), limits[0]),
        ("bytes", usage.bytes, grown, limits[1]),
    ):
        if limit and more and used + more > limit:
            return f"{used} of {limit} {what}"
    return ""


def _room(usage: Usage, grown: int, limits: tuple[int, int]) -> _Room:
    """Return half of the remaining room, because other processes may write to the same store."""
    objects, size = limits
    return _Room(
        max(grown, (size - usage.bytes) // 2) if size else _UNLIMITED,
        max(1, (objects - usage.objects) // 2) if objects else _UNLIMITED,
        usage,
    )


def _quota_bytes(value: bytes | None) -> int | None:
    """Return the bytes that a tenant's quota allows, at least one because 0 means unlimited. None: it does not limit them."""
    most = None if value is None else decode_quota(value).hard.get(BYTES)
    return None if most is None else max(1, milli(most) // 1000)


def _remember(known: dict[_Key, _Room], key: _Key, room: _Room) -> _Room:
    if len(known) >= MAX_CACHED:
        known.clear()
    known[key] = room
    return room


def _refusal(scope: Scope, why: str, remedy: str = "") -> StatusError:
    resource = scope.kind.resource
    remedy = remedy or "delete objects that are not needed, or ask the operator for more"
    return errors.forbidden(resource.plural, resource.group, scope.name, f"{why}; {remedy}")


class StorageLimit:
    """The limits of all tenants.

    Args:
        store: The store.
        max_bytes: Bytes of a tenant whose record sets no limit. 0: unlimited.
        max_objects: Objects of a tenant whose record sets no limit. 0: unlimited.
    """

    def __init__(self, store: Store, max_bytes: int = MAX_BYTES, max_objects: int = MAX_OBJECTS) -> None:
        self._store = store
        self._bytes = max_bytes
        self._objects = max_objects
        self._rooms: dict[str, _Room] = {}
        self._kind_rooms: dict[str, _Room] = {}

    def changed(self, changes: Sequence[Change]) -> None:
        """Apply changes of the store. The record of a tenant may set limits."""
        for change in changes:
            if change.key.startswith(TENANTS):
                self._rooms.pop(change.key.removeprefix(TENANTS), None)
            elif change.key.startswith(QUOTAS) and _quota_bytes(change.value) != _quota_bytes(
                change.previous
            ):
                self._rooms.pop(change.key.removeprefix(QUOTAS), None)

    def missed(self) -> None:
        """Drop the cache, because changes may have been missed."""
        self._rooms.clear()

    async def _limits(self, tenant: str) -> tuple[int, int]:
        """Return how many objects and bytes a tenant may store."""
        record, _ = await self._store.get(record_key(tenant))
        tenant_record = None if record is None else decode(record.value)
        objects, size = self._objects, self._bytes
        if tenant_record is not None:
            objects = objects if tenant_record.storage_objects is None else tenant_record.storage_objects
            size = size if tenant_record.storage_bytes is None else tenant_record.storage_bytes
        quota, _ = await self._store.get(quota_key(tenant))
        if quota is not None and (most := _quota_bytes(quota.value)) is not None:
            size = min(size or most, most)
        return objects, size

    async def require(self, scope: Scope, key: str, value: bytes, before: bytes | None) -> None:
        """Refuse a write that exceeds a limit.

        Args:
            scope: Scope of the request.
            key: Key of the object.
            value: The new value.
            before: The current value, or None if the object does not exist.

        Raises:
            StatusError: 500 with kube-apiserver's message if the object is too large; 403 if the tenant has no room.
            StoreError: The store cannot be read.
        """
        if len(key) + len(value) > MAX_OBJECT and len(key) + _plain_size(scope, value) > MAX_OBJECT:
            raise StatusError(500, "", "etcdserver: request is too large")
        grown = len(value) - len(before) if before is not None else len(key) + len(value)
        if grown <= 0 or scope.tenant == SYSTEM:
            return
        room = self._rooms.get(scope.tenant)
        if room is None or not room.covers(grown, before):
            room = await self._query(scope, grown, new=before is None)
        resource = scope.kind.resource
        kind = (resource.storage_group, resource.plural)
        for limits, namespace in ((KIND_LIMITS.get(kind), ""), (NAMESPACE_LIMITS.get(kind), scope.namespace)):
            if limits is not None:
                await self._require_kind(scope, namespace, limits, grown, before)
        room.take(grown, before)

    async def _query(self, scope: Scope, grown: int, *, new: bool) -> _Room:
        usage = await self._store.usage(scope.tenant)
        limits = await self._limits(scope.tenant)
        if exceeded := _over(usage, grown, limits, new=new):
            raise _refusal(scope, f"the control plane's storage is full: {exceeded} are used")
        return _remember(self._rooms, scope.tenant, _room(usage, grown, limits))

    async def _require_kind(
        self, scope: Scope, namespace: str, limits: tuple[int, int], grown: int, before: bytes | None
    ) -> None:
        """Refuse a write that exceeds the limit of its kind, in one namespace or (empty) in the tenant; see `KIND_LIMITS`."""
        resource = scope.kind.resource
        prefix = collection_key(scope.tenant, resource.key_group, resource.plural, namespace)
        room = self._kind_rooms.get(prefix)
        if room is None or not room.covers(grown, before):
            usage = await self._usage_of_kind(prefix)
            if exceeded := _over(usage, grown, limits, new=before is None):
                there, remedy = resource.plural, ""
                if namespace:
                    there, remedy = (
                        f"{there} in the namespace",
                        "delete some, or put their contents into fewer",
                    )
                raise _refusal(scope, f"there are too many {there}: {exceeded} are used", remedy)
            room = _remember(self._kind_rooms, prefix, _room(usage, grown, limits))
        room.take(grown, before)

    async def _usage_of_kind(self, prefix: str) -> Usage:
        after = ""
        objects = size = 0
        while True:
            page = await self._store.range(prefix, after=after, limit=PAGE)
            objects += len(page.records)
            size += sum(len(each.key) + len(each.value) for each in page.records)
            if not page.more:
                return Usage(objects, size)
            after = page.records[-1].key

    async def text(self, tenant: str) -> bytes:
        """Return the usage and limits of a tenant as metrics; for the system space, those of all cached tenants.

        Raises:
            StoreError: The store cannot be read.
        """
        if tenant == SYSTEM:
            found = {name: each.usage for name, each in sorted(self._rooms.items())}
        else:
            found = {tenant: await self._store.usage(tenant)}
        limits = {name: await self._limits(name) for name in found}
        return "\n".join([*_lines(found, limits), ""]).encode()


_SERIES: Sequence[tuple[str, str, Callable[[Usage, tuple[int, int]], int]]] = (
    ("apiserver_storage_size_bytes", "Bytes that a tenant stores.", lambda usage, _: usage.bytes),
    ("vcsync_storage_objects", "Objects that a tenant stores.", lambda usage, _: usage.objects),
    (
        "vcsync_storage_limit_bytes",
        "Bytes that a tenant may store; 0: unlimited.",
        lambda _, limits: limits[1],
    ),
    (
        "vcsync_storage_limit_objects",
        "Objects that a tenant may store; 0: unlimited.",
        lambda _, limits: limits[0],
    ),
)


def _lines(found: Mapping[str, Usage], limits: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    for name, help_text, value in _SERIES:
        label = "storage_cluster_id" if name.startswith("apiserver") else "tenant"
        yield f"# HELP {name} {help_text}"
        yield f"# TYPE {name} gauge"
        for tenant, usage in found.items():
            yield f'{name}{{{label}="{tenant}"}} {value(usage, limits[tenant])}'

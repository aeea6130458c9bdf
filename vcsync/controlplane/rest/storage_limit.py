"""How much each tenant may keep: writes beyond it are refused, with the remedy named; deletions always go on.

What is left is remembered, so that a write costs no question to the store until it may run out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from vcsync.controlplane import errors
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.identity.caller import SYSTEM
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.store.interface import Store, Usage

MAX_BYTES = 2 * 2**30
MAX_OBJECTS = 500_000
MAX_OBJECT = 1536 * 1024
"""Bytes of one object as it is stored: etcd's `--max-request-bytes`."""
MAX_REMEMBERED = 4096
"""Tenants of which is remembered what is left."""


@dataclass(slots=True)
class _Left:
    """What a tenant may write before the store is asked again, and what it had when it was."""

    bytes: int
    objects: int
    usage: Usage


class StorageLimit:
    """What tenants may keep, each."""

    def __init__(self, store: Store, max_bytes: int = MAX_BYTES, max_objects: int = MAX_OBJECTS) -> None:
        """Take the store, and how many bytes and objects a tenant may have; 0: any number."""
        self._store = store
        self._bytes = max_bytes
        self._objects = max_objects
        self._left: dict[str, _Left] = {}

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
        if len(key) + len(value) > MAX_OBJECT:
            raise StatusError(500, "", "etcdserver: request is too large")
        grown = len(value) - len(before) if before is not None else len(key) + len(value)
        if grown <= 0 or scope.tenant == SYSTEM:
            return
        left = self._left.get(scope.tenant)
        if left is None or grown > left.bytes or (before is None and left.objects < 1):
            left = await self._ask(scope, grown, new=before is None)
        left.bytes -= grown
        left.objects -= before is None

    async def _ask(self, scope: Scope, grown: int, *, new: bool) -> _Left:
        usage = await self._store.usage(scope.tenant)
        limits = (
            ("bytes", usage.bytes, grown, self._bytes),
            ("objects", usage.objects, int(new), self._objects),
        )
        for what, used, more, limit in limits:
            if limit and used + more > limit:
                resource = scope.kind.resource
                why = (
                    f"the control plane's storage is full: {used} of {limit} {what} are used; "
                    "delete objects that are not needed, or ask the operator for more"
                )
                raise errors.forbidden(resource.plural, resource.group, scope.name, why)
        # Half of what is left, for others may write to the same store.
        far = 2**62
        left = _Left(
            max(grown, (self._bytes - usage.bytes) // 2) if self._bytes else far,
            max(1, (self._objects - usage.objects) // 2) if self._objects else far,
            usage,
        )
        if len(self._left) >= MAX_REMEMBERED:
            self._left.clear()
        self._left[scope.tenant] = left
        return left

    async def text(self, tenant: str) -> bytes:
        """Write what a tenant keeps and may keep, as metrics; of the system space what is remembered of everybody.

        Raises:
            StoreError: the store cannot be read.
        """
        if tenant == SYSTEM:
            found = {name: each.usage for name, each in sorted(self._left.items())}
        else:
            found = {tenant: await self._store.usage(tenant)}
        return "\n".join([*self._lines(found), ""]).encode()

    def _lines(self, found: dict[str, Usage]) -> Iterator[str]:
        limits = (
            ("apiserver_storage_size_bytes", "Bytes that a tenant keeps.", lambda usage: usage.bytes),
            ("vcsync_storage_objects", "Objects that a tenant keeps.", lambda usage: usage.objects),
            ("vcsync_storage_limit_bytes", "Bytes that a tenant may keep; 0: any.", lambda _: self._bytes),
            (
                "vcsync_storage_limit_objects",
                "Objects that a tenant may keep; 0: any.",
                lambda _: self._objects,
            ),
        )
        for name, told, value in limits:
            label = "storage_cluster_id" if name.startswith("apiserver") else "tenant"
            yield f"# HELP {name} {told}"
            yield f"# TYPE {name} gauge"
            for tenant, usage in found.items():
                yield f'{name}{{{label}="{tenant}"}} {value(usage)}'

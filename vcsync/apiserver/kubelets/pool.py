"""Reads from the meta cluster which tenants are in the pool, where their namespaces are, and how to reach super clusters.

Only records that the operator's programs write are read. A tenant is recognised by the UID of its control plane, as its
syncers recognise it.
"""

import asyncio
import base64
import binascii
import time
from collections.abc import Callable

import structlog
from msgspec import Struct

from vcsync.api import names
from vcsync.api.names import InvalidName
from vcsync.api.objects import InvalidObject, NamespacePlacement, VirtualCluster, cluster_key
from vcsync.api.resources import NAMESPACE_PLACEMENTS, VIRTUAL_CLUSTERS
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import CredentialsError, Forbidden, NotFound
from vcsync.kube.resources import SECRETS
from vcsync.objects.envelope import Envelope, decode
from vcsync.tenancy.proof import recorded_uid

CALL_SECONDS = 3.0
"""Timeout of one call to the meta cluster."""
ABSENT_SECONDS = 30.0
"""Time for which a control plane that is not in the pool is remembered as such."""
_log = structlog.get_logger(__name__)


class NotInPool(Exception):
    """A tenant has no record in the pool, so none of its Pods runs on a super cluster."""


class _SecretData(Struct):
    data: dict[str, str] | None = None


class Pool:
    """The records of the pool in the meta cluster.

    Args:
        connect: Returns address and credentials of the meta cluster. It is called with the first request, since the
            kubeconfig may be written after this process has started.
        clock: Monotonic seconds.
    """

    def __init__(
        self, connect: Callable[[], Connection], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._opened: Client | None = None
        self._records: dict[str, tuple[str, str]] = {}
        self._absent: dict[str, float] = {}
        self._listing = asyncio.Lock()

    async def close(self) -> None:
        """Close all connections."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def key_of(self, tenant: str, uid: str) -> str:
        """Return the cluster key of a tenant.

        Args:
            tenant: Name of the tenant.
            uid: UID of its control plane.

        Raises:
            NotInPool: It is not in the pool.
            KubeError: The meta cluster cannot be read.
        """
        place = self._records.get(uid, (names.DEFAULT_VC_NAMESPACE, tenant))
        found = await self._record(place, uid) or await self._search(uid)
        if found is None:
            raise NotInPool(tenant)
        try:
            return cluster_key(found)
        except InvalidName as error:
            _log.warning("a tenant of the pool is malformed", tenant=tenant, error=str(error))
            raise NotInPool(tenant) from error

    async def is_placed(self, key: str, namespace: str, super_id: str) -> bool:
        """Tell whether a tenant's namespace has, or had until it is drained, slices on a super cluster.

        Raises:
            KubeError: The meta cluster cannot be read.
        """
        try:
            found = await self._client().get(NAMESPACE_PLACEMENTS, namespace, key)
            placement = NamespacePlacement.from_envelope(found)
        except (NotFound, InvalidObject):
            return False
        drains = names.drain_finalizer(super_id) in placement.finalizers
        return drains or bool(placement.status.placements.get(super_id))

    async def kubeconfig(self, super_id: str) -> bytes | None:
        """Return the kubeconfig with which Pods of a super cluster are reached, or None if there is none.

        Raises:
            KubeError: The meta cluster cannot be read.
        """
        name = names.streams_secret(super_id)
        try:
            secret = await self._client().get(SECRETS, name, names.SYSTEM_NAMESPACE)
        except (NotFound, Forbidden):
            # The right to read it is made together with it.
            return None
        text = (decode(secret.rest, _SecretData).data or {}).get(names.KUBECONFIG_KEY, "")
        try:
            return base64.b64decode(text, validate=True) or None
        except binascii.Error:
            raise CredentialsError(
                f"Secret {names.SYSTEM_NAMESPACE}/{name}, key {names.KUBECONFIG_KEY!r}: not base64; run 'vcsync super renew'"
            ) from None

    def _client(self) -> Client:
        if self._opened is None:
            self._opened = Client(self._connect(), name="meta", timeout=CALL_SECONDS)
        return self._opened

    async def _record(self, place: tuple[str, str], uid: str) -> VirtualCluster | None:
        namespace, name = place
        try:
            found = await self._client().get(VIRTUAL_CLUSTERS, name, namespace)
        except NotFound:
            return None
        return _of_control_plane(found, uid)

    async def _search(self, uid: str) -> VirtualCluster | None:
        """Look for a tenant whose record has another name than its control plane."""
        async with self._listing:
            if self._absent.get(uid, 0.0) > self._clock():
                return None
            for envelope in await self._client().list(VIRTUAL_CLUSTERS):
                found = _of_control_plane(envelope, uid)
                if found is not None:
                    self._records[uid] = (found.namespace, found.name)
                    return found
            now = self._clock()
            self._records.pop(uid, None)
            self._absent = {each: until for each, until in self._absent.items() if until > now}
            self._absent[uid] = now + ABSENT_SECONDS
            return None


def _of_control_plane(envelope: Envelope, uid: str) -> VirtualCluster | None:
    """Return a record if it is that of a control plane."""
    try:
        found = VirtualCluster.from_envelope(envelope)
    except InvalidObject:
        return None
    return found if uid and recorded_uid(found) == uid else None

"""Usage of tenants' Pods in the super clusters where they run, requested on demand and cached for seconds."""

import asyncio
import base64
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar
from urllib.parse import quote

import msgspec
import structlog
from msgspec import Raw, Struct

from vcsync.api import names
from vcsync.api.credentials import super_credentials
from vcsync.api.names import InvalidName
from vcsync.api.objects import InvalidObject, SuperCluster, VirtualCluster, cluster_key
from vcsync.api.resources import SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.controllers.framework.plan import View
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import CredentialsError, KubeError, NotFound, describe
from vcsync.kube.resources import NAMESPACES, SECRETS, Resource
from vcsync.objects.envelope import Envelope
from vcsync.tenancy.proof import recorded_uid

METRICS = "/apis/metrics.k8s.io/v1beta1"
FRESH_SECONDS = 10.0
"""Seconds for which an answer is used; metrics-server measures every 15 s."""
KNOWN_SECONDS = 60.0
"""Seconds for which the lists of tenants and super clusters, and their credentials, are used."""
TIMEOUT_SECONDS = 3.0
AT_ONCE = 4
"""Concurrent requests to one super cluster, so that a slow one delays few callers."""

_log = structlog.get_logger(__name__)
T = TypeVar("T")
Connect = Callable[[bytes, str], Client]
"""Opens a client of a super cluster from the kubeconfig of its syncer; arguments: kubeconfig and the super cluster's
id."""
KUBE_SYSTEM = "kube-system"


class _Named(Struct):
    name: str = ""


class _Item(Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)


class _Items(Struct):
    items: tuple[Raw, ...] | None = None


class _Secret(Struct):
    data: dict[str, str] | None = None


class _Super:
    """The client of one super cluster."""

    def __init__(self, kubeconfig: bytes, client: Client) -> None:
        self.kubeconfig = kubeconfig
        self.client = client
        self.turns = asyncio.Semaphore(AT_ONCE)


def connect(kubeconfig: bytes, super_id: str) -> Client:
    """Open a client of a super cluster.

    Raises:
        CredentialsError: the kubeconfig is invalid.
    """
    return Client(Connection.from_kubeconfig_bytes(kubeconfig), name=super_id, timeout=TIMEOUT_SECONDS)


class PoolMetrics:
    """Finds the usage of Pods in the super clusters of the pool that an embedded control plane's own space describes.

    Args:
        meta: client of the operator's space.
        connect: opens a client from a kubeconfig.
        clock: clock in seconds.
    """

    def __init__(
        self,
        meta: Client,
        *,
        connect: Connect = connect,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._meta = meta
        self._connect = connect
        self._clock = clock
        self._keys: tuple[float, dict[str, str]] = (-KNOWN_SECONDS, {})
        self._ids: tuple[float, frozenset[str]] = (-KNOWN_SECONDS, frozenset())
        self._supers: dict[str, tuple[float, _Super | None]] = {}
        self._answers: dict[tuple[str, str], tuple[float, dict[str, Raw] | None]] = {}
        self._learning = asyncio.Lock()

    async def of_pods(
        self, view: View, tenant: str, namespace: str, pods: Sequence[Envelope]
    ) -> list[Raw] | None:
        """Return PodMetrics for each of a tenant's Pods with known usage; None: no source measures them."""
        there = view.of[NAMESPACES].get(tenant, "", KUBE_SYSTEM)
        key = None if there is None else (await self._cluster_keys()).get(there.uid)
        if key is None:
            return None
        place = names.super_namespace(key, namespace)
        found: list[Raw] = []
        known = False
        for super_id in sorted(
            await self._super_ids() & {pod.labels.get(names.SUPER_CLUSTER) for pod in pods}
        ):
            answer = await self._ask(super_id, place)
            if answer is not None:
                known = True
                mine = (pod.name for pod in pods if pod.labels.get(names.SUPER_CLUSTER) == super_id)
                found += [answer[name] for name in mine if name in answer]
        return found if known else None

    async def close(self) -> None:
        """Close all clients."""
        for _, each in self._supers.values():
            if each is not None:
                await each.client.close()
        self._supers.clear()

    async def _cluster_keys(self) -> dict[str, str]:
        """Return the cluster keys of tenants by the UIDs of their control planes."""
        at, keys = self._keys
        if self._clock() - at < KNOWN_SECONDS:
            return keys
        keys = {}
        for envelope in await self._listed(VIRTUAL_CLUSTERS):
            try:
                vc = VirtualCluster.from_envelope(envelope)
                keys[recorded_uid(vc)] = cluster_key(vc)
            except (InvalidObject, InvalidName):
                continue
        self._keys = (self._clock(), keys)
        return keys

    async def _super_ids(self) -> frozenset[str]:
        """Return the ids of existing super clusters: a tenant may write any other id into its Pods' labels."""
        at, ids = self._ids
        if self._clock() - at >= KNOWN_SECONDS:
            ids = frozenset(envelope.name for envelope in await self._listed(SUPER_CLUSTERS))
            self._ids = (self._clock(), ids)
        return ids

    async def _listed(self, resource: Resource) -> Iterable[Envelope]:
        try:
            return await self._meta.list(resource)
        except NotFound:
            # No pool exists.
            return ()

    async def _ask(self, super_id: str, place: str) -> dict[str, Raw] | None:
        """Return the PodMetrics of a super cluster's namespace by name; None: it has none."""
        found = await self._super(super_id)
        if found is None:
            return None
        async with found.turns:
            self._answers = _fresh(self._answers, self._clock() - FRESH_SECONDS)
            if (super_id, place) in self._answers:
                return self._answers[super_id, place][1]
            if self._supers.get(super_id, (0.0, None))[1] is not found:
                # The super cluster was marked as unavailable while this request waited.
                return None
            answer: dict[str, Raw] | None = None
            try:
                raw = await found.client.request("GET", f"{METRICS}/namespaces/{quote(place)}/pods")
                items = msgspec.json.decode(raw, type=_Items).items or ()
                answer = {msgspec.json.decode(each, type=_Item).metadata.name: each for each in items}
            except (KubeError, msgspec.MsgspecError) as error:
                fields = describe(error) if isinstance(error, KubeError) else {"error": str(error)}
                _log.info("metrics.super_cluster", super_cluster=super_id, **fields)
                if not isinstance(error, NotFound):
                    # Requests for other namespaces would fail, too.
                    await self._leave(super_id, found)
            self._answers[super_id, place] = (self._clock(), answer)
            return answer

    async def _leave(self, super_id: str, found: _Super) -> None:
        """Stop using a super cluster for some time, and then use the credentials that are stored then."""
        self._supers[super_id] = (self._clock() - KNOWN_SECONDS + FRESH_SECONDS, None)
        await found.client.close()

    async def _super(self, super_id: str) -> _Super | None:
        async with self._learning:
            at, found = self._supers.get(super_id, (-KNOWN_SECONDS, None))
            if self._clock() - at < KNOWN_SECONDS:
                return found
            return await self._learn(super_id, found)

    async def _learn(self, super_id: str, found: _Super | None) -> _Super | None:
        """Return the client for a super cluster, with the currently stored credentials."""
        kubeconfig = await self._kubeconfig(super_id)
        if found is not None and kubeconfig == found.kubeconfig:
            self._supers[super_id] = (self._clock(), found)
            return found
        if found is not None:
            await found.client.close()
        made: _Super | None = None
        if kubeconfig:
            try:
                made = _Super(kubeconfig, self._connect(kubeconfig, super_id))
            except CredentialsError as error:
                _log.info("metrics.super_cluster", super_cluster=super_id, error=str(error))
        self._supers[super_id] = (self._clock(), made)
        return made

    async def _kubeconfig(self, super_id: str) -> bytes:
        """Return the kubeconfig that its syncer uses; empty: unknown."""
        try:
            super_cluster = SuperCluster.from_envelope(await self._meta.get(SUPER_CLUSTERS, super_id))
            ref = super_credentials(super_cluster)
            secret = await self._meta.get(SECRETS, ref.name, ref.namespace)
            text = (msgspec.json.decode(secret.rest or b"{}", type=_Secret).data or {}).get(ref.key, "")
            return base64.b64decode(text)
        except (NotFound, InvalidObject, ValueError):
            return b""


def _fresh(
    answers: dict[tuple[str, str], tuple[float, T]], since: float
) -> dict[tuple[str, str], tuple[float, T]]:
    return {key: value for key, value in answers.items() if value[0] > since}

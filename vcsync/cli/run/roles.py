"""Construction of each role: its credentials, its clients, its lease."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog
from msgspec.structs import replace
from prometheus_client.metrics_core import Metric
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_delay,
    wait_random_exponential,
)

from vcsync.api.names import (
    ROLE_NSSCHEDULER,
    ROLE_PODSCHEDULER,
    ROLE_SYNCER,
    ROLE_TENANTS,
    SYSTEM_NAMESPACE,
    syncer_lease,
)
from vcsync.api.objects import SuperCluster
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.api.specs import STAY, FailBack, Failover
from vcsync.cli.command.errors import FailedError
from vcsync.cli.command.status_endpoint import Listen
from vcsync.cli.command.super_kubeconfig import stored_kubeconfig
from vcsync.cli.run.kubelet_api_options import KubeletOptions
from vcsync.cli.run.supervision import MakeRole, Role
from vcsync.fairqueue import ObjectName
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import CredentialsError, KubeError, Unauthorized
from vcsync.kube.lease import LeaderElector
from vcsync.scheduling.rebalance import DEFAULT_BUDGET
from vcsync.scheduling.slices import DEFAULT_SLICE
from vcsync.status import TimelineSource
from vcsync.tenancy.brake import Releases
from vcsync.tenancy.failure import Patience

if TYPE_CHECKING:
    from vcsync.podscheduler import PodScheduler

IN_FLIGHT_SECONDS = 4.0
"""Seconds that work in progress may take at the end: less than the time after which another instance takes a lost Lease."""
CREDENTIALS_SECONDS = 60.0
"""Seconds between two reads of a super cluster's stored credentials."""
FENCE_SECONDS = 5.0
"""Seconds between two looks whether a super cluster is still fenced."""
REGISTRATION_SECONDS = 20.0
"""Seconds that a syncer tries to read its registration before it ends with the last error."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Tuning:
    """Operators' settings for decisions of roles; each role uses those that concern it. Times in seconds."""

    patrol_seconds: float = 300.0
    brake_share: float = 0.3
    memory_per_tenant: int = 256
    """MiB."""
    policy: str = "spread"
    default_slice: Mapping[str, str] = field(default_factory=lambda: DEFAULT_SLICE)
    suspect_after: float = 75.0
    lost_after: float = 300.0
    failover: Failover = STAY
    """Policy for lost super clusters of tenants that have none."""
    fail_back: FailBack = "Never"
    """Policy for the way back to them of tenants that have none."""
    move_budget: int = DEFAULT_BUDGET
    """Slices that a scheduled rebalance moves at most, and that go back at a time."""
    rebalance_every: float | None = None
    """Seconds; None: no rebalance on a schedule."""
    unschedulable_seconds: float = 60.0
    kubelet: KubeletOptions | None = None
    placement_webhook: tuple[str, int] | None = None
    """Address and port at which the Pod scheduler answers external control planes; None: nowhere."""
    placement_endpoint: str = ""
    """IP address to which the Service of the placement webhook leads while this process leads; empty: it is not written."""


@dataclass(frozen=True)
class Settings:
    """Shared settings of all roles."""

    kubeconfigs: dict[str, str | None]
    """Kubeconfig of the meta cluster by role; None for in-cluster credentials."""
    listen: Listen
    leader_elect: bool
    identity: str
    tuning: Tuning = Tuning()
    control_plane: str | None = None
    """Kubeconfig of the server with embedded control planes, for the tenant controller; None: the meta cluster."""
    per_tenant: int | None = None
    """Maximum number of one tenant's objects that syncers and the pod scheduler process at a time; None: their default."""


@asynccontextmanager
async def open_meta(settings: Settings, role: str) -> AsyncIterator[Client]:
    """Open a role's client of the meta cluster."""
    connection = Connection.load(settings.kubeconfigs[role])
    async with Client(connection, name="meta", field_manager=f"vcsync/{role}") as client:
        yield client


def make_syncer(settings: Settings, super_id: str, shard: tuple[int, int] = (1, 1)) -> MakeRole:
    """Return the factory of a super cluster's syncer."""

    @asynccontextmanager
    async def make() -> AsyncIterator[Role]:
        async with open_meta(settings, ROLE_SYNCER) as meta:
            yield SyncerRole(meta, super_id, settings, shard)

    return make


def make_nsscheduler(settings: Settings) -> MakeRole:
    """Return the factory of the namespace scheduler."""

    @asynccontextmanager
    async def make() -> AsyncIterator[Role]:
        from vcsync.nsscheduler import NamespaceScheduler  # noqa: PLC0415  each role loads its own code only
        from vcsync.nsscheduler import Settings as Own  # noqa: PLC0415

        tuning = settings.tuning
        own = Own(
            policy=tuning.policy,
            default_slice=dict(tuning.default_slice),
            brake_share=tuning.brake_share,
            patience=_patience(tuning),
            failover=tuning.failover,
            fail_back=tuning.fail_back,
            move_budget=tuning.move_budget,
            rebalance_seconds=tuning.rebalance_every,
            memory_per_tenant=tuning.memory_per_tenant << 20,
        )
        async with open_meta(settings, ROLE_NSSCHEDULER) as meta:
            yield NamespaceScheduler(
                meta, identity=settings.identity, leader_elect=settings.leader_elect, settings=own
            )

    return make


def make_podscheduler(settings: Settings) -> "Callable[[], AbstractAsyncContextManager[PodScheduler]]":
    """Return the factory of the pod scheduler."""

    @asynccontextmanager
    async def make() -> AsyncIterator["PodScheduler"]:
        from vcsync.podscheduler import PodScheduler  # noqa: PLC0415  each role loads its own code only
        from vcsync.podscheduler import Settings as Own  # noqa: PLC0415
        from vcsync.podscheduler.settings import WebhookSettings  # noqa: PLC0415

        listen = settings.tuning.placement_webhook
        own = Own(
            patience=_patience(settings.tuning),
            failover=settings.tuning.failover,
            webhook=None if listen is None else WebhookSettings(*listen, settings.tuning.placement_endpoint),
            memory_per_tenant=settings.tuning.memory_per_tenant << 20,
        )
        if settings.per_tenant is not None:
            own = replace(own, per_tenant=settings.per_tenant)
        async with open_meta(settings, ROLE_PODSCHEDULER) as meta:
            yield PodScheduler(
                meta, identity=settings.identity, leader_elect=settings.leader_elect, settings=own
            )

    return make


def make_tenants(settings: Settings, defaults: Mapping[str, Any] | None = None) -> MakeRole:
    """Return the factory of the tenant controller.

    Args:
        settings: the shared settings of all roles.
        defaults: fields of every new VirtualCluster's spec.
    """

    @asynccontextmanager
    async def make() -> AsyncIterator[Role]:
        from vcsync.tenantcontroller import Settings as Own  # noqa: PLC0415  each role loads its own code only
        from vcsync.tenantcontroller import TenantController  # noqa: PLC0415

        own = Own(defaults=dict(defaults or {}))
        async with open_meta(settings, ROLE_TENANTS) as meta, _open_server(settings, meta) as server:
            yield TenantController(
                meta,
                server,
                identity=settings.identity,
                leader_elect=settings.leader_elect,
                settings=own,
            )

    return make


@asynccontextmanager
async def _open_server(settings: Settings, meta: Client) -> AsyncIterator[Client]:
    """Open the tenant controller's client of the server with embedded control planes."""
    if settings.control_plane is None:
        yield meta
        return
    connection = Connection.load(settings.control_plane)
    async with Client(connection, name="control plane", field_manager=f"vcsync/{ROLE_TENANTS}") as client:
        yield client


def _patience(tuning: Tuning) -> Patience:
    return Patience(suspect_after=tuning.suspect_after, lost_after=tuning.lost_after)


class SyncerRole:
    """The syncer of one super cluster with its lease and its credentials, which may change while it runs.

    Args:
        meta: Client of the meta cluster.
        super_id: The super cluster.
        settings: The shared settings of all roles.
        shard: The part of the tenants to serve, and the number of parts.
    """

    def __init__(self, meta: Client, super_id: str, settings: Settings, shard: tuple[int, int]) -> None:
        self._meta = meta
        self._super_id = super_id
        self._shard = shard
        self._identity = settings.identity
        self._tuning = settings.tuning
        self._per_tenant = settings.per_tenant
        self._syncer: Role | None = None
        self._registered = False
        self._fenced = False
        self._releases = Releases()
        lease = syncer_lease(super_id, "" if shard == (1, 1) else f"{shard[0]}-{shard[1]}")
        self._elector = (
            LeaderElector(meta, lease, SYSTEM_NAMESPACE, settings.identity) if settings.leader_elect else None
        )

    async def run(self) -> None:
        """Sync while leading; ends by cancellation, after work in progress has finished.

        Raises:
            FailedError: The super cluster is not registered.
            KubeError: The meta cluster fails or refuses for longer than `REGISTRATION_SECONDS`.
        """
        # A stand-by reports a missing registration immediately, too.
        await self._registration()
        self._registered = True
        if self._elector is None:
            await self._lead()
        else:
            await self._elector.run(self._lead)

    async def _lead(self) -> None:
        while True:
            await self._wait_unfenced()
            kubeconfig = await self._registration()
            connection = Connection.from_kubeconfig_bytes(kubeconfig)
            async with Client(connection, name=self._super_id, field_manager="vcsync/syncer") as super_client:
                await self._sync_until_changed(super_client, kubeconfig)

    async def _sync_until_changed(self, super_client: Client, kubeconfig: bytes) -> None:
        """Sync until the stored credentials change, or an operator fences the super cluster."""
        from vcsync.syncer.kubelet_api.settings import KubeletSettings  # noqa: PLC0415  only a syncer loads it
        from vcsync.syncer.service import Syncer, SyncerSettings  # noqa: PLC0415

        kubelet = self._tuning.kubelet
        settings = SyncerSettings(
            kubelet=KubeletSettings(**kubelet._asdict()) if kubelet is not None else None,
            shard=self._shard,
            identity=self._identity,
            patrol_seconds=self._tuning.patrol_seconds,
            brake_share=self._tuning.brake_share,
            memory_per_tenant=self._tuning.memory_per_tenant << 20,
            patience=_patience(self._tuning),
            unschedulable_seconds=self._tuning.unschedulable_seconds,
        )
        if self._per_tenant is not None:
            settings = replace(settings, tenant_share=self._per_tenant)
        syncer = Syncer(
            meta=self._meta,
            super_client=super_client,
            super_id=self._super_id,
            settings=settings,
            releases=self._releases,
        )
        self._syncer = syncer
        work = asyncio.create_task(syncer.run(), name=f"syncer-{self._super_id}")
        rotation = asyncio.create_task(self._wait_changed(kubeconfig), name=f"credentials-{self._super_id}")
        fence = asyncio.create_task(syncer.fenced.wait(), name=f"fence-{self._super_id}")
        try:
            await asyncio.wait((work, rotation, fence), return_when=asyncio.FIRST_COMPLETED)
        finally:
            rotation.cancel()
            fence.cancel()
            if not work.done():
                await syncer.drain_work(IN_FLIGHT_SECONDS)
                work.cancel()
            await asyncio.wait((work, rotation, fence))
            self._syncer = None
        if not work.cancelled():
            work.result()
            raise FailedError(f"the syncer of {self._super_id} ended by itself")

    async def _wait_unfenced(self) -> None:
        """Wait until no operator fences the super cluster any more. Nothing is synced meanwhile."""
        while True:
            try:
                found = SuperCluster.from_envelope(await self._meta.get(SUPER_CLUSTERS, self._super_id))
            except (KubeError, ValueError) as error:
                if not self._fenced:  # the next step reports what is wrong
                    return
                _log.warning("fence cannot be read", super_cluster=self._super_id, error=str(error))
            else:
                if found.spec.fenced and not self._fenced:
                    _log.warning(
                        "super cluster is fenced, so nothing is synced", super_cluster=self._super_id
                    )
                self._fenced = found.spec.fenced
                if not self._fenced:
                    return
            await asyncio.sleep(FENCE_SECONDS)

    async def _wait_changed(self, kubeconfig: bytes) -> None:
        """Wait until the stored credentials of the super cluster change."""
        while True:
            await asyncio.sleep(CREDENTIALS_SECONDS)
            try:
                stored = await stored_kubeconfig(self._meta, self._super_id)
                if stored != kubeconfig:
                    # Unusable new credentials must not stop a working syncer.
                    Connection.from_kubeconfig_bytes(stored)
                    _log.info("credentials changed", super_cluster=self._super_id)
                    return
            except (KubeError, FailedError) as error:  # The current credentials continue to work.
                _log.warning("credentials cannot be read", super_cluster=self._super_id, error=str(error))

    async def _registration(self) -> bytes:
        """Read the super cluster's stored kubeconfig, and try again while the meta cluster starts.

        kube-apiserver answers 403 to all users outside of system:masters until it has read the RBAC objects.

        Raises:
            FailedError: It is missing; the message names the remedy.
            KubeError: Every attempt failed for `REGISTRATION_SECONDS`.
        """
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_delay(REGISTRATION_SECONDS),
            wait=wait_random_exponential(multiplier=0.2, max=2.0),
            before_sleep=self._note_failure,
            reraise=True,
        ):
            with attempt:
                return await stored_kubeconfig(self._meta, self._super_id)
        raise AssertionError("AsyncRetrying returns or raises")

    def _note_failure(self, state: RetryCallState) -> None:
        error = state.outcome and state.outcome.exception()
        _log.warning("registration cannot be read", super_cluster=self._super_id, error=str(error))

    def ready(self) -> tuple[bool, str]:
        """Return the syncer's readiness; a stand-by is ready to take over."""
        if self._syncer is not None:
            return self._syncer.ready()
        if self._registered and self._elector is not None and not self._elector.is_leader:
            return True, "stand-by: another instance holds the lease"
        if self._fenced:
            return (
                True,
                f"super cluster {self._super_id} is fenced: 'vcsync super unfence' has it synced again",
            )
        return False, "starts"

    def status(self) -> dict[str, Any]:
        """Return the syncer's state and whether it leads."""
        leads = self._elector is None or self._elector.is_leader
        own = {
            "role": ROLE_SYNCER,
            "superCluster": self._super_id,
            "identity": self._identity,
            "leader": leads,
        }
        return {**own, **(self._syncer.status() if self._syncer is not None else {})}

    def timeline(self, tenant: str, name: ObjectName) -> list[dict[str, Any]]:
        """Return the transitions of an object that the syncer remembers."""
        return self._syncer.timeline(tenant, name) if isinstance(self._syncer, TimelineSource) else []

    def metrics(self) -> Iterable[Metric]:
        """Return the syncer's metrics."""
        return self._syncer.metrics() if self._syncer is not None else ()


def _may_pass(error: BaseException) -> bool:
    """Report whether the meta cluster may soon answer differently. A restart renews an expired token."""
    return isinstance(error, KubeError) and not isinstance(error, Unauthorized | CredentialsError)

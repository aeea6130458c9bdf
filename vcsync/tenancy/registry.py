"""Runs a task with a connection of its own for each running VirtualCluster, on behalf of a role."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import StrEnum
from typing import Final

import structlog
from msgspec import Struct

from vcsync.api import names
from vcsync.api.names import InvalidName
from vcsync.api.objects import InvalidObject, VirtualCluster, cluster_key
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.api.specs import Trouble, TroubleType
from vcsync.fairqueue import Backoff
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import ApiError, CredentialsError, KubeError
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.kube.reflector import Reflector
from vcsync.objects.envelope import Envelope
from vcsync.tenancy.caches import CachesNotSynced
from vcsync.tenancy.credentials import CredentialsReader
from vcsync.tenancy.proof import WrongControlPlane, prove
from vcsync.tenancy.troubles import present

_RUNNING = "Running"
_LONGEST_MESSAGE = 500  # characters of an error that /status shows
_STABLE_SECONDS = 60.0  # a session that lasts as long resets its tenant's backoff
_SILENT_SECONDS = 2.0  # a tenant in set-up that answers nothing for as long gives its slot to another tenant
_PROVED_SECONDS = 2.0  # how long a proof of a control plane's identity is valid
_RECHECK_SECONDS = 5.0  # shortest time between two reads of credentials, however many requests are refused
# Each tenant's Secret is read at this interval times the number of tenants. After a refusal it is read immediately.
_REFRESH_SECONDS_EACH = 3.0
_REPEATED_EVENT_SECONDS = 300.0  # interval of repeated Events about credentials that remain refused

CREDENTIALS_REFUSED = "CredentialsRefused"
"""Event reason of a VirtualCluster whose control plane does not accept a role's credentials."""
CREDENTIALS_INVALID = "CredentialsInvalid"
"""Event reason of a VirtualCluster for which a role finds no usable kubeconfig."""
CACHES_NOT_SYNCED = "CachesNotSynced"
"""Event reason of a VirtualCluster whose control plane a role cannot read in time. The message names the resources."""
TENANT_TOO_LARGE: Final = "TenantTooLarge"
"""Event reason and condition of a VirtualCluster whose control plane holds more than a role has memory for."""
WRONG_CONTROL_PLANE: Final = "WrongControlPlane"
"""Event reason and condition of a VirtualCluster whose credentials lead to a control plane that was not registered."""
VIRTUAL_CLUSTER_REFUSED = "Refused"
"""Event reason of a VirtualCluster that cannot be served as it is written."""

_log = structlog.get_logger(__name__)


class TenantState(StrEnum):
    """The state of a tenant's task."""

    WAITING = "Waiting"
    """The tenant waits for a slot to connect."""
    CONNECTING = "Connecting"
    """The credentials are being read or the caches filled."""
    READY = "Ready"
    BACKOFF = "Backoff"
    """The task failed and is restarted soon."""
    REFUSED = "Refused"
    """The VirtualCluster cannot be read, or its cluster key belongs to another one."""


class TenantStatistics(Struct, frozen=True):
    """The state of a tenant in the registry.

    Attributes:
        key: cluster key; empty for a refused VirtualCluster.
        virtual_cluster: namespace and name of the VirtualCluster.
        state: the state of the tenant's task.
        since: seconds in that state.
        failures: number of sessions that failed in a row.
        last_error: text of the last error.
        last_error_age: seconds since the last error; None if there was none.
    """

    key: str
    virtual_cluster: str
    state: TenantState
    since: float
    failures: int
    last_error: str
    last_error_age: float | None


class TenantHandle:
    """Gives a role's task access to its tenant, until the task ends.

    Attributes:
        key: cluster key.
        client: client of the tenant's control plane.
        changed: set when `virtual_cluster` is replaced by a newer version. Its only waiter clears it.
        control_plane_uid: UID of the control plane at its last proof; "" before the first one.

    Args:
        tenant: the registry's record of the tenant.
        client: client of the tenant's control plane.
        on_ready: called when the tenant's caches are filled.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        tenant: "_Tenant",
        client: Client,
        on_ready: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._proved_at = float("-inf")
        self._proved_lists = 0
        self._tenant = tenant
        self._on_ready = on_ready
        self.key = tenant.key
        self.client = client
        self.changed = asyncio.Event()
        self.control_plane_uid = ""

    @property
    def virtual_cluster(self) -> VirtualCluster:
        """The newest version of the tenant's VirtualCluster."""
        return self._tenant.virtual_cluster

    def ready(self) -> None:
        """Report that the tenant's caches are filled, so that the next tenant may connect. Further calls do nothing."""
        self._on_ready()

    def refused(self) -> None:
        """Report that the control plane answered 401 Unauthorized, so that the credentials are read again soon."""
        self._tenant.refused()

    async def prove(self, lists: int = 0) -> None:
        """Check that the connection leads to the control plane that was registered for the tenant.

        Call this before a deletion that the tenant was not seen to ask for.

        Args:
            lists: number of lists that the caller has taken from the tenant. A proof is not reused after another list,
                since another control plane may have answered that list.

        Raises:
            WrongControlPlane: the connection leads to another control plane.
            KubeError: the control plane cannot be asked.
        """
        if self._clock() - self._proved_at >= _PROVED_SECONDS or lists != self._proved_lists:
            self.control_plane_uid = await prove(self.client, self.virtual_cluster)
            self._proved_at, self._proved_lists = self._clock(), lists


class _Tenant:
    """The registry's record of one tenant, which outlives its sessions.

    Attributes:
        recheck: set to read the credentials immediately.
        unauthorized: whether the present credentials were refused since they were read last.
        refusal: the error to show for that; "" if there is none.
        troubles: type of condition -> message, for the VirtualCluster's status.
        reported_at: clock seconds of the last Event about refused credentials.
    """

    def __init__(self, key: str, virtual_cluster: VirtualCluster, envelope: Envelope, now: float) -> None:
        self.key = key
        self.virtual_cluster = virtual_cluster
        self.name = envelope.key
        self.uid = envelope.uid
        self.state = TenantState.WAITING
        self.since = now
        self.failures = 0
        self.last_error = ""
        self.last_error_at: float | None = None
        self.recheck = asyncio.Event()
        self.unauthorized = False
        self.refusal = ""
        self.troubles: dict[TroubleType, str] = {}
        self.reported_at: float | None = None
        self.handle: TenantHandle | None = None
        self.task: asyncio.Task[None] | None = None

    def enter(self, state: TenantState, now: float) -> None:
        if self.state is not state:
            self.state = state
            self.since = now

    def failed(self, error: str, now: float) -> None:
        self.last_error = error[:_LONGEST_MESSAGE]
        self.last_error_at = now

    def refused(self) -> None:
        self.unauthorized = True
        self.recheck.set()

    def error(self, now: float) -> tuple[str, float | None]:
        """Return the present error of the connection, or else the last failure, and its age in seconds."""
        if self.handle is not None:
            seen = self.handle.client.statistics()
            if seen.last_error_at is not None and seen.last_error_at >= (seen.last_success_at or 0.0):
                present = self.refusal or (seen.last_error or "")[:_LONGEST_MESSAGE]
                return present, time.time() - seen.last_error_at
        return self.last_error, None if self.last_error_at is None else now - self.last_error_at


class TenantTooLarge(Exception):
    """A tenant's objects exceed a role's memory limit. The tenant is not served until it has fewer."""


class SessionEnded(Exception):
    """A role's task for a tenant returned, although it must run until it is cancelled."""


class TenantRegistry:
    """Watches VirtualClusters and keeps `run_tenant(handle)` running for each one that is Running.

    How to use it::

        async def run_tenant(tenant: TenantHandle) -> None:
            pods = Reflector(tenant.client, PODS, ...)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(pods.run())
                await wait_for_caches([pods])
                tenant.ready()                # lets the next tenant connect
                ...                           # until cancelled; `finally` forgets the tenant

        registry = TenantRegistry(meta, "syncer", run_tenant)
        await registry.run()                  # until cancelled

    `run_tenant` is cancelled when the VirtualCluster is deleted, is being deleted, is no longer Running, or has other
    credentials. In the last case it is called again with a new client. When it raises, it is called again after a
    backoff, without effect on other tenants. Two calls for one key never overlap.

    At most `connecting` tenants are in set-up at a time. Set-up begins with the first answer of the control plane and ends
    with `tenant.ready()`, with the task, after two seconds without an answer, or after `setup_seconds`. A control plane
    that does not answer takes no part in the limit.

    Credentials are read again every `refresh_seconds`, when the VirtualCluster changes, and after `tenant.refused()`. A
    tenant whose credentials cannot be read again keeps its connection.

    Attributes:
        virtual_clusters: reflector of all VirtualClusters.

    Args:
        meta: client of the meta cluster.
        role: name of the role, as in the names of its Secrets.
        run_tenant: the role's task for one tenant; runs until it is cancelled.
        accept: whether this process serves a tenant (shards); None for all.
        on_change: called with every change of a VirtualCluster, whether it is served or not.
        make_client: makes a client from a kubeconfig and a cluster key; for tests.
        connecting: number of tenants in set-up at a time.
        setup_seconds: longest set-up.
        refresh_seconds: interval at which credentials are read again, for few tenants.
        backoff: pauses after failures.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        meta: Client,
        role: str,
        run_tenant: Callable[[TenantHandle], Awaitable[None]],
        *,
        accept: Callable[[VirtualCluster], bool] | None = None,
        on_change: Callable[[Change], None] | None = None,
        make_client: Callable[[bytes, str], Client] | None = None,
        connecting: int = 16,
        setup_seconds: float = 30.0,
        refresh_seconds: float = 60.0,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.virtual_clusters = Reflector(meta, VIRTUAL_CLUSTERS, sink=self._observe)
        self._role = role
        self._run_tenant = run_tenant
        self._accept = accept
        self._on_change = on_change
        self._make_client = make_client or self._default_client
        self._credentials = CredentialsReader(meta, role)
        self._events = EventRecorder(meta, f"vcsync-{role}")
        self._setup = asyncio.Semaphore(connecting)
        self._setup_seconds = setup_seconds
        self._refresh_seconds = refresh_seconds
        self._backoff = backoff or Backoff(base=1.0, cap=60.0)
        self._clock = clock
        self._tenants: dict[str, _Tenant] = {}
        self._keys: dict[tuple[str, str], str] = {}  # VirtualCluster -> key of the tenant it is served as
        self._refused: dict[tuple[str, str], tuple[str, float]] = {}  # VirtualCluster -> (why, since)
        self._ending: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Serve tenants until cancelled; all their tasks have ended when it returns."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                for envelope in list(self.virtual_clusters.cache.items()):
                    self._apply(envelope.key)
                self._tasks.create_task(self._events.run())
                await self.virtual_clusters.run()
        finally:
            self._tasks = None
            self._tenants.clear()
            self._keys.clear()
            self._refused.clear()

    def tenants(self) -> list[str]:
        """Return the keys of all tenants that are served, in any state."""
        return list(self._tenants)

    def handle(self, key: str) -> TenantHandle | None:
        """Return the handle of a tenant; None if it has no session at present."""
        tenant = self._tenants.get(key)
        return None if tenant is None else tenant.handle

    def warn(self, name: tuple[str, str], reason: str, message: str) -> None:
        """Emit an Event about a VirtualCluster, by namespace and name. Repeats are counted."""
        envelope = self.virtual_clusters.cache.get(*name)
        if envelope is not None:
            self._emit(name, envelope.uid, reason, message)

    def troubles(self) -> list[Trouble]:
        """Return the conditions that keep tenants from being served, for the status of their VirtualClusters."""
        return [
            trouble
            for tenant in self._tenants.values()
            if tenant.troubles
            for trouble in present(tenant.key, tenant.troubles)
        ]

    def statistics(self) -> list[TenantStatistics]:
        """Return the states of all tenants and refused VirtualClusters, ordered by name."""
        now = self._clock()
        served = [
            TenantStatistics(
                tenant.key,
                "/".join(tenant.name),
                tenant.state,
                now - tenant.since,
                tenant.failures,
                *tenant.error(now),
            )
            for tenant in self._tenants.values()
        ]
        refused = [
            TenantStatistics("", "/".join(name), TenantState.REFUSED, now - since, 0, why, now - since)
            for name, (why, since) in self._refused.items()
        ]
        return sorted(served + refused, key=lambda entry: (entry.virtual_cluster, entry.key))

    # Tenants that are served

    def _observe(self, change: Change) -> None:
        subject = change.new or change.old
        if subject is not None and self._tasks is not None:
            self._apply(subject.key)
        if self._on_change is not None:
            self._on_change(change)

    def _apply(self, name: tuple[str, str]) -> None:
        """Start, update or stop the tenant of one VirtualCluster, according to the cached object."""
        envelope = self.virtual_clusters.cache.get(*name)
        if envelope is None:
            self._stop(name)
            self._refused.pop(name, None)
            return
        try:
            virtual_cluster = VirtualCluster.from_envelope(envelope)
            key = cluster_key(virtual_cluster)
        except ValueError as error:  # a tenant that is served remains so
            self._refuse(name, f"VirtualCluster {'/'.join(name)} cannot be read: {error}")
            return
        wanted = (
            virtual_cluster.status.phase == _RUNNING
            and not envelope.deleting
            and (self._accept is None or self._accept(virtual_cluster))
        )
        served = self._tenants.get(self._keys.get(name, ""))
        if served is not None and (not wanted or served.key != key or served.uid != envelope.uid):
            self._stop(name)
            served = None
        if not wanted:
            self._refused.pop(name, None)
        elif served is not None:
            self._refused.pop(name, None)
            self._update(served, virtual_cluster)
        elif key in self._tenants:
            other = "/".join(self._tenants[key].name)
            why = f"cluster key {key} belongs to VirtualCluster {other}"
            self._refuse(name, f"{why}: give it another status.clusterNamespace")
        else:
            self._refused.pop(name, None)
            self._start(key, virtual_cluster, envelope)

    def _refuse(self, name: tuple[str, str], why: str) -> None:
        if self._refused.get(name, ("",))[0] != why:
            self._refused[name] = (why[:_LONGEST_MESSAGE], self._clock())
            _log.warning("virtual cluster refused", virtual_cluster="/".join(name), error=why)
            envelope = self.virtual_clusters.cache.get(*name)
            if envelope is not None:
                self._emit(name, envelope.uid, VIRTUAL_CLUSTER_REFUSED, why)

    def _start(self, key: str, virtual_cluster: VirtualCluster, envelope: Envelope) -> None:
        if self._tasks is None:
            return
        tenant = _Tenant(key, virtual_cluster, envelope, self._clock())
        self._tenants[key] = tenant
        self._keys[envelope.key] = key
        tenant.task = self._tasks.create_task(self._supervise(tenant), name=f"tenant-{key}")

    def _update(self, tenant: _Tenant, virtual_cluster: VirtualCluster) -> None:
        tenant.virtual_cluster = virtual_cluster
        tenant.recheck.set()
        if tenant.handle is not None:
            tenant.handle.changed.set()

    def _stop(self, name: tuple[str, str]) -> None:
        key = self._keys.pop(name, None)
        tenant = None if key is None else self._tenants.pop(key)
        if tenant is None:
            return
        if tenant.task is not None and not tenant.task.done():
            self._ending.add(tenant.task)
            tenant.task.add_done_callback(self._ending.discard)
            tenant.task.cancel()
        # Another VirtualCluster may have been refused because of the key, which is free now.
        for other in list(self._refused):
            if other != name:
                self._apply(other)

    # One tenant

    async def _supervise(self, tenant: _Tenant) -> None:
        """Run the tenant's sessions one after another until cancelled."""
        predecessors = [task for task in self._ending if task.get_name() == f"tenant-{tenant.key}"]
        # The key may have belonged to another VirtualCluster whose task has not ended yet.
        if predecessors:
            await asyncio.wait(predecessors)
        while True:
            started = self._clock()
            try:
                await self._session(tenant)
                tenant.failures = 0
                tenant.reported_at = None
                continue
            except Exception as error:  # noqa: BLE001 - an error of one tenant must not affect others
                self._failed(tenant, error, started)
            delay = self._backoff.delay(tenant.key, tenant.uid, tenant.failures)
            tenant.recheck.clear()
            await _wait(tenant.recheck, delay)

    def _failed(self, tenant: _Tenant, error: Exception, started: float) -> None:
        now = self._clock()
        tenant.failures = 1 if now - started >= _STABLE_SECONDS else tenant.failures + 1
        tenant.failed(describe(error), now)
        tenant.enter(TenantState.BACKOFF, now)
        _log.warning(
            "tenant failed",
            role=self._role,
            tenant=tenant.key,
            error=tenant.last_error,
            failures=tenant.failures,
        )
        if isinstance(_leaves(error)[0], WrongControlPlane):
            tenant.troubles[WRONG_CONTROL_PLANE] = str(_leaves(error)[0])
            self._emit(tenant.name, tenant.uid, WRONG_CONTROL_PLANE, str(_leaves(error)[0]))
        elif isinstance(_leaves(error)[0], CredentialsError | InvalidObject | InvalidName):
            why = f"{self._role} cannot use the kubeconfig of this tenant: {tenant.last_error}; {self._remedy(tenant)}"
            self._emit(tenant.name, tenant.uid, CREDENTIALS_INVALID, why)
        elif isinstance(_leaves(error)[0], CachesNotSynced):
            self._emit(tenant.name, tenant.uid, CACHES_NOT_SYNCED, f"{self._role}: {tenant.last_error}")
        for leaf in _leaves(error):
            if isinstance(leaf, TenantTooLarge):
                tenant.troubles[TENANT_TOO_LARGE] = str(leaf)
                self._emit(tenant.name, tenant.uid, TENANT_TOO_LARGE, str(leaf))
                break

    def _emit(self, name: tuple[str, str], uid: str, reason: str, message: str) -> None:
        """Emit an Event about a VirtualCluster. Repeats are counted."""
        subject = ObjectRef(VIRTUAL_CLUSTERS.api_version, VIRTUAL_CLUSTERS.kind, name[1], name[0], uid)
        self._events.emit(subject, "Warning", reason, message, now=time.time())

    def _remedy(self, tenant: _Tenant) -> str:
        return (
            f"put a valid kubeconfig into Secret {tenant.key}/{names.role_secret(self._role)}, "
            f"key {names.KUBECONFIG_KEY}, of the meta cluster; it is used without a restart"
        )

    async def _session(self, tenant: _Tenant) -> None:
        """Connect and run the role's task. Return when the credentials have changed; raise when the task has ended."""
        tenant.enter(TenantState.WAITING, self._clock())
        slot = _Slot(self._setup)
        try:
            tenant.recheck.clear()
            kubeconfig = await self._credentials.read(tenant.virtual_cluster)

            def ready() -> None:
                slot.release()
                tenant.reported_at = None
                tenant.troubles.pop(TENANT_TOO_LARGE, None)
                tenant.enter(TenantState.READY, self._clock())

            async with self._make_client(kubeconfig, tenant.key) as client:
                if await self._answers(client):
                    await slot.acquire(client, self._setup_seconds)
                tenant.enter(TenantState.CONNECTING, self._clock())
                tenant.handle = TenantHandle(tenant, client, ready, self._clock)
                await _proved(tenant)
                tenant.unauthorized, tenant.refusal = False, ""
                client.on_unauthorized(tenant.refused)
                await self._serve(tenant, tenant.handle, kubeconfig)
        finally:
            tenant.handle = None
            slot.release()

    async def _answers(self, client: Client) -> bool:
        """Return whether a control plane answers at all. One that does not connects without a slot."""
        try:
            async with asyncio.timeout(self._setup_seconds):
                await client.version()
        except ApiError:
            return True
        except (KubeError, TimeoutError):
            return False
        return True

    async def _serve(self, tenant: _Tenant, handle: TenantHandle, kubeconfig: bytes) -> None:
        work = asyncio.ensure_future(self._run_tenant(handle))
        rotation = asyncio.create_task(self._watch_credentials(tenant, kubeconfig))
        try:
            await asyncio.wait((work, rotation), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = work.done()
            work.cancel()
            rotation.cancel()
            await asyncio.wait((work, rotation))
        if not work.cancelled():
            failure = work.exception()
            if failure is not None:
                raise failure
        if ended:
            raise SessionEnded(f"the {self._role} task of tenant {tenant.key} ended by itself")
        if not rotation.cancelled():
            rotation.result()

    async def _watch_credentials(self, tenant: _Tenant, present: bytes) -> None:
        """Return once the tenant's credentials differ from the present ones."""
        while True:
            seconds = max(self._refresh_seconds, _REFRESH_SECONDS_EACH * len(self._tenants))
            pause = seconds * random.uniform(0.9, 1.1)  # noqa: S311 - spreads the requests of tenants
            await _wait(tenant.recheck, pause)
            tenant.recheck.clear()
            try:
                if await self._credentials.read(tenant.virtual_cluster) != present:
                    _log.info("tenant credentials changed", role=self._role, tenant=tenant.key)
                    return
                self._report_refusal(tenant)
            except Exception as error:  # noqa: BLE001 - the present connection may still work
                tenant.failed(f"credentials cannot be re-read: {describe(error)}", self._clock())
            await _proved(tenant)
            await asyncio.sleep(_RECHECK_SECONDS)

    def _report_refusal(self, tenant: _Tenant) -> None:
        """Report refused credentials that have not been replaced, every `_REPEATED_EVENT_SECONDS`."""
        if not tenant.unauthorized:
            tenant.refusal = ""
            return
        tenant.unauthorized = False
        now = self._clock()
        why = f"its control plane refuses the credentials of {self._role} (401 Unauthorized): they expired or were revoked"
        tenant.refusal = f"{why}; {self._remedy(tenant)}"
        if tenant.reported_at is None or now - tenant.reported_at >= _REPEATED_EVENT_SECONDS:
            tenant.reported_at = now
            _log.warning("tenant credentials refused", role=self._role, tenant=tenant.key)
            self._emit(tenant.name, tenant.uid, CREDENTIALS_REFUSED, tenant.refusal)

    def _default_client(self, kubeconfig: bytes, key: str) -> Client:
        connection = Connection.from_kubeconfig_bytes(kubeconfig)
        return Client(connection, name=f"tenant/{key}", field_manager=f"vcsync/{self._role}")


class _Slot:
    """A slot of a semaphore that is released once: by its holder, or when the server stops answering or takes too long."""

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore = semaphore
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, client: Client, seconds: float) -> None:
        """Acquire the slot, for at most `seconds`, and only while the client's server answers."""
        await self._semaphore.acquire()
        self._look_again(client, seconds)

    def release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._semaphore.release()

    def _look_again(self, client: Client, seconds: float) -> None:
        answered = client.statistics().last_success_at
        pause = min(_SILENT_SECONDS, seconds)

        def look() -> None:
            if seconds > pause and client.statistics().last_success_at != answered:
                self._look_again(client, seconds - pause)
            else:
                self.release()

        self._timer = asyncio.get_running_loop().call_later(pause, look)


async def _proved(tenant: _Tenant) -> None:
    """Check the identity of a tenant's control plane. One that does not answer is checked again before deletions.

    Raises:
        WrongControlPlane: it is not the tenant's.
    """
    if tenant.handle is None:
        return
    with suppress(KubeError):
        await tenant.handle.prove()
        tenant.troubles.pop(WRONG_CONTROL_PLANE, None)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, for at most `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def describe(error: BaseException) -> str:
    """Describe an error in one line: type and text. A group is described by its first error and their number."""
    leaves = _leaves(error)
    text = f"{type(leaves[0]).__name__}: {leaves[0]}"
    return text if len(leaves) == 1 else f"{text} (and {len(leaves) - 1} more)"


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]

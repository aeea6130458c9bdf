"""One supervised task and connection per running VirtualCluster, for whichever role serves tenants."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import StrEnum

import structlog
from msgspec import Struct

from vcsync.api import names
from vcsync.api.names import InvalidName, cluster_key
from vcsync.api.objects import InvalidObject, VirtualCluster
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.fairqueue import Backoff
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import ApiError, CredentialsError, KubeError
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.kube.reflector import Reflector
from vcsync.tenancy.credentials import CredentialsReader
from vcsync.tenancy.proof import WrongControlPlane, prove

_RUNNING = "Running"
_LONGEST_MESSAGE = 500  # characters of an error kept for the operators' window
_STABLE_SECONDS = 60.0  # a session that lived so long starts its tenant's backoff anew
_PROVED_SECONDS = 2.0  # so long a control plane is believed to be the one that it just was
_RECHECK_SECONDS = 5.0  # credentials are re-read at most so often, however many requests were refused
_REFRESH_SECONDS_EACH = (
    3.0  # so many tenants, so much rarer is each one's Secret read unasked; a refusal looks at once
)
_TOLD_AGAIN_SECONDS = 300.0  # an Event about credentials that stay refused is repeated so often

CREDENTIALS_REFUSED = "CredentialsRefused"
"""Event reason on a VirtualCluster: its control plane does not accept the credentials that a role has."""
CREDENTIALS_INVALID = "CredentialsInvalid"
"""Event reason on a VirtualCluster: a role finds no kubeconfig that it can use."""
TENANT_TOO_LARGE = "TenantTooLarge"
"""Event reason on a VirtualCluster: its control plane holds more than a role has memory for."""
WRONG_CONTROL_PLANE = "WrongControlPlane"
"""Event reason on a VirtualCluster: the credentials lead to another control plane than the one that was registered."""
VIRTUAL_CLUSTER_REFUSED = "Refused"
"""Event reason on a VirtualCluster: it cannot be served as it is written."""

_log = structlog.get_logger(__name__)


class TenantState(StrEnum):
    """Where a tenant's task stands."""

    WAITING = "Waiting"  # for its turn to connect
    CONNECTING = "Connecting"  # credentials are being read, caches filled
    READY = "Ready"
    BACKOFF = "Backoff"  # its task failed and is started again soon
    REFUSED = "Refused"  # its VirtualCluster is unusable: unreadable, or its cluster key is taken


class TenantStatistics(Struct, frozen=True):
    """A tenant as the registry sees it.

    `since`: seconds in the present state. `failures`: sessions that failed in a row.
    """

    key: str
    virtual_cluster: str
    state: TenantState
    since: float
    failures: int
    last_error: str
    last_error_age: float | None


class TenantHandle:
    """What a role's task for one tenant works with; valid until that task ends.

    `key`: cluster key. `client`: connection to the tenant's control plane. `changed` is set whenever
    `virtual_cluster` was replaced by a newer one, and cleared by whoever waits for it (one waiter).
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
        self._tenant = tenant
        self._on_ready = on_ready
        self.key = tenant.key
        self.client = client
        self.changed = asyncio.Event()

    @property
    def virtual_cluster(self) -> VirtualCluster:
        """The tenant's VirtualCluster as last seen in the meta cluster."""
        return self._tenant.virtual_cluster

    def ready(self) -> None:
        """Tell that the tenant's caches are filled: the next tenant may connect. Further calls do nothing."""
        self._on_ready()

    def refused(self) -> None:
        """Tell that the tenant answered Unauthorized: its credentials are re-read soon."""
        self._tenant.refused()

    async def prove(self) -> None:
        """Make sure that the connection leads to the tenant's own control plane, as it was registered.

        To be called before something is deleted that the tenant was not seen to delete.

        Raises:
            WrongControlPlane: it does not.
            KubeError: it cannot be asked.
        """
        if self._clock() - self._proved_at >= _PROVED_SECONDS:
            await prove(self.client, self.virtual_cluster)
            self._proved_at = self._clock()


class _Tenant:
    """What the registry remembers of one tenant between its sessions."""

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
        self.recheck = asyncio.Event()  # look at the credentials now
        self.unauthorized = False  # the present credentials were refused since they were looked at last
        self.refusal = ""  # what is to be said of that
        self.told_at: float | None = None  # when an Event last said that the present credentials are refused
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
        """What is wrong with the connection at present, else what failed last; and its age in seconds."""
        if self.handle is not None:
            seen = self.handle.client.statistics()
            if seen.last_error_at is not None and seen.last_error_at >= (seen.last_success_at or 0.0):
                present = self.refusal or (seen.last_error or "")[:_LONGEST_MESSAGE]
                return present, time.time() - seen.last_error_at
        return self.last_error, None if self.last_error_at is None else now - self.last_error_at


class TenantTooLarge(Exception):
    """A tenant has more than a role keeps of one: it is not served until it has less."""


class SessionEnded(Exception):
    """A role's task for a tenant returned, although it is to run until it is cancelled."""


class TenantRegistry:
    """Watches VirtualClusters and keeps `run_tenant(handle)` running for each one that is Running.

    How to use it::

        async def run_tenant(tenant: TenantHandle) -> None:
            pods = Reflector(tenant.client, PODS, ...)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(pods.run())
                await pods.wait_synced()
                tenant.ready()                # lets the next tenant connect
                ...                           # until cancelled; `finally` forgets the tenant

        registry = TenantRegistry(meta, "syncer", run_tenant)
        await registry.run()                  # until cancelled

    `run_tenant` is cancelled when the VirtualCluster goes, is being deleted, is no longer Running, or has
    other credentials; in the last case it is called again with a new client. When it raises it is called
    again after a backoff, and no other tenant notices. Two calls for one key never overlap. At most
    `connecting` tenants are in set-up at once: from the first answer of their control plane until `tenant.ready()`,
    the end of their task, or `setup_seconds`. One that does not answer is set up beside them, when it does.

    Credentials are re-read every `refresh_seconds`, when the VirtualCluster changes and after
    `tenant.refused()`. A tenant whose credentials cannot be re-read keeps the connection it has.

    `accept(virtual_cluster)` chooses the tenants of this process (shards). `on_change` is told of every
    change of a VirtualCluster, served or not. `virtual_clusters` is the reflector behind it all, for
    look-ups.
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
        self.virtual_clusters = Reflector(meta, VIRTUAL_CLUSTERS, on_change=self._observe)
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
        """Keys of the tenants that are served, whatever their state."""
        return list(self._tenants)

    def handle(self, key: str) -> TenantHandle | None:
        """The handle of a tenant that has a session at present."""
        tenant = self._tenants.get(key)
        return None if tenant is None else tenant.handle

    def statistics(self) -> list[TenantStatistics]:
        """All tenants and all refused VirtualClusters, in order of their names."""
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

    # Who is served

    def _observe(self, change: Change) -> None:
        subject = change.new or change.old
        if subject is not None and self._tasks is not None:
            self._apply(subject.key)
        if self._on_change is not None:
            self._on_change(change)

    def _apply(self, name: tuple[str, str]) -> None:
        """Start, update or stop the tenant of one VirtualCluster, as its object in the cache demands."""
        envelope = self.virtual_clusters.cache.get(*name)
        if envelope is None:
            self._stop(name)
            self._refused.pop(name, None)
            return
        try:
            virtual_cluster = VirtualCluster.from_envelope(envelope)
            key = cluster_key(virtual_cluster)
        except ValueError as error:  # keeps being served as it was, if it was
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
                self._tell(name, envelope.uid, VIRTUAL_CLUSTER_REFUSED, why)

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
        for other in list(self._refused):  # the key is free for another VirtualCluster that asked for it
            if other != name:
                self._apply(other)

    # One tenant

    async def _supervise(self, tenant: _Tenant) -> None:
        """Run the tenant's sessions one after the other, until cancelled."""
        predecessors = [task for task in self._ending if task.get_name() == f"tenant-{tenant.key}"]
        if predecessors:  # the same key served another VirtualCluster just now
            await asyncio.wait(predecessors)
        while True:
            started = self._clock()
            try:
                await self._session(tenant)
                tenant.failures = 0
                continue
            except Exception as error:  # noqa: BLE001 - whatever a tenant causes stays with that tenant
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
            self._tell(tenant.name, tenant.uid, WRONG_CONTROL_PLANE, str(_leaves(error)[0]))
        elif isinstance(_leaves(error)[0], CredentialsError | InvalidObject | InvalidName):
            why = f"{self._role} cannot use the kubeconfig of this tenant: {tenant.last_error}; {self._remedy(tenant)}"
            self._tell(tenant.name, tenant.uid, CREDENTIALS_INVALID, why)
        for leaf in _leaves(error):
            if isinstance(leaf, TenantTooLarge):
                self._tell(tenant.name, tenant.uid, TENANT_TOO_LARGE, str(leaf))
                break

    def _tell(self, name: tuple[str, str], uid: str, reason: str, message: str) -> None:
        """Write an Event about a VirtualCluster; repeats are counted."""
        subject = ObjectRef(VIRTUAL_CLUSTERS.api_version, VIRTUAL_CLUSTERS.kind, name[1], name[0], uid)
        self._events.emit(subject, "Warning", reason, message, now=time.time())

    def _remedy(self, tenant: _Tenant) -> str:
        return (
            f"put a valid kubeconfig into Secret {tenant.key}/{names.role_secret(self._role)}, "
            f"key {names.KUBECONFIG_KEY}, of the meta cluster; it is taken up without a restart"
        )

    async def _session(self, tenant: _Tenant) -> None:
        """Connect and run the role's task; return when the credentials changed, raise when the task ended."""
        tenant.enter(TenantState.WAITING, self._clock())
        slot = _Slot(self._setup)
        timer: asyncio.TimerHandle | None = None
        try:
            tenant.recheck.clear()
            kubeconfig = await self._credentials.read(tenant.virtual_cluster)

            def ready() -> None:
                slot.release()
                tenant.enter(TenantState.READY, self._clock())

            async with self._make_client(kubeconfig, tenant.key) as client:
                if await self._answers(client):
                    await slot.acquire()
                    timer = asyncio.get_running_loop().call_later(self._setup_seconds, slot.release)
                tenant.enter(TenantState.CONNECTING, self._clock())
                tenant.handle = TenantHandle(tenant, client, ready, self._clock)
                await _proved(tenant.handle)
                tenant.unauthorized, tenant.refusal, tenant.told_at = False, "", None
                client.on_unauthorized(tenant.refused)
                await self._serve(tenant, tenant.handle, kubeconfig)
        finally:
            tenant.handle = None
            if timer is not None:
                timer.cancel()
            slot.release()

    async def _answers(self, client: Client) -> bool:
        """Whether a control plane answers anything; one that does not goes on trying without a place among those that do."""
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
            pause = seconds * random.uniform(0.9, 1.1)  # noqa: S311 - so that tenants do not ask in step
            await _wait(tenant.recheck, pause)
            tenant.recheck.clear()
            try:
                if await self._credentials.read(tenant.virtual_cluster) != present:
                    _log.info("tenant credentials changed", role=self._role, tenant=tenant.key)
                    return
                self._look_at_refusal(tenant)
            except Exception as error:  # noqa: BLE001 - the present connection may well go on working
                tenant.failed(f"credentials cannot be re-read: {describe(error)}", self._clock())
            if tenant.handle is not None:
                await _proved(tenant.handle)
            await asyncio.sleep(_RECHECK_SECONDS)

    def _look_at_refusal(self, tenant: _Tenant) -> None:
        """Say that the tenant's credentials are refused and that there are no others, now and then."""
        if not tenant.unauthorized:
            tenant.refusal = ""
            return
        tenant.unauthorized = False
        now = self._clock()
        why = f"its control plane refuses the credentials of {self._role} (401 Unauthorized): they expired or were revoked"
        tenant.refusal = f"{why}; {self._remedy(tenant)}"
        if tenant.told_at is None or now - tenant.told_at >= _TOLD_AGAIN_SECONDS:
            tenant.told_at = now
            _log.warning("tenant credentials refused", role=self._role, tenant=tenant.key)
            self._tell(tenant.name, tenant.uid, CREDENTIALS_REFUSED, tenant.refusal)

    def _default_client(self, kubeconfig: bytes, key: str) -> Client:
        connection = Connection.from_kubeconfig_bytes(kubeconfig)
        return Client(connection, name=f"tenant/{key}", field_manager=f"vcsync/{self._role}")


class _Slot:
    """One hold of a semaphore, released at most once."""

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore = semaphore
        self._held = False

    async def acquire(self) -> None:
        await self._semaphore.acquire()
        self._held = True

    def release(self) -> None:
        if self._held:
            self._held = False
            self._semaphore.release()


async def _proved(handle: TenantHandle) -> None:
    """Refuse another control plane than the tenant's; one that does not answer now has to prove it before it matters.

    Raises:
        WrongControlPlane: it is another one.
    """
    with suppress(KubeError):
        await handle.prove()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, but no longer than so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def describe(error: BaseException) -> str:
    """An error as one line: its type and text; of a group of errors the first and their number."""
    leaves = _leaves(error)
    text = f"{type(leaves[0]).__name__}: {leaves[0]}"
    return text if len(leaves) == 1 else f"{text} (and {len(leaves) - 1} more)"


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]

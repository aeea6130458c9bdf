"""Puts the parts of the embedded control plane together."""

import asyncio
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

import structlog

from vcsync.controlplane.admission.pod_security import DEFAULT
from vcsync.controlplane.admission.quotas import QuotaClaims
from vcsync.controlplane.admission.settings import Settings
from vcsync.controlplane.crd.catalogue import Catalogue
from vcsync.controlplane.crd.convert import Reach, refuse
from vcsync.controlplane.crd.establish import Establisher
from vcsync.controlplane.egress.networks import Networks
from vcsync.controlplane.flow.service import Fairness
from vcsync.controlplane.identity.service import Identity as IdentityRoom
from vcsync.controlplane.kinds.service_claims import Network
from vcsync.controlplane.kubelets.client import Kubelets
from vcsync.controlplane.lane.jobs import Setup
from vcsync.controlplane.lane.lane import Lane
from vcsync.controlplane.rest.admitting import admission
from vcsync.controlplane.rest.answers import Answers
from vcsync.controlplane.rest.claims import Claims
from vcsync.controlplane.rest.counting import Metrics
from vcsync.controlplane.rest.deletion import Deleter
from vcsync.controlplane.rest.eviction import Evictor
from vcsync.controlplane.rest.guard import Guard
from vcsync.controlplane.rest.history import History
from vcsync.controlplane.rest.hub import Doubted, Hub, Lost
from vcsync.controlplane.rest.knowledge import Knowledge
from vcsync.controlplane.rest.lasting import Lasting
from vcsync.controlplane.rest.limits import Limits
from vcsync.controlplane.rest.paths import Operator, Paths
from vcsync.controlplane.rest.reading import Reader
from vcsync.controlplane.rest.registry import Registry
from vcsync.controlplane.rest.requestinfo import ALL
from vcsync.controlplane.rest.scope import Admit
from vcsync.controlplane.rest.server import Server
from vcsync.controlplane.rest.services import ServiceClaims
from vcsync.controlplane.rest.soundness import Soundness
from vcsync.controlplane.rest.space import Spaces
from vcsync.controlplane.rest.storage_limit import StorageLimit
from vcsync.controlplane.rest.streaming import Streaming
from vcsync.controlplane.rest.subresources import Reviews, Subresources
from vcsync.controlplane.rest.verbs import Verbs
from vcsync.controlplane.rest.watching import Watches
from vcsync.controlplane.rest.way import Identity, Way
from vcsync.controlplane.store.interface import Store
from vcsync.controlplane.store.telling import Listener
from vcsync.controlplane.tenants.defaults import SERVICE_CIDR

RETRY_SECONDS = 1.0
NOWHERE = Networks()
_log = structlog.get_logger()


class Who(Identity, Reviews, Operator, Protocol):
    """Everything asked of identity; `guard.Guard` answers it."""

    def tenants(self) -> Sequence[str]:
        """Return all tenants, in order."""
        ...


class ControlPlane:
    """Everything that serves; made by `assemble` and `control_plane`."""

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        hub: Hub,
        server: Server,
        resume: Callable[[], Coroutine[Any, Any, None]],
        run: Callable[[], Coroutine[Any, Any, None]],
        others: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
        lane: Lane | None = None,
    ) -> None:
        """Take what must be started and stopped; `others` run beside it until then."""
        self._others = others
        self._lane = lane
        self._hub = hub
        self._resume = resume
        self._run = run
        self._tasks: list[asyncio.Task[None]] = []
        self.server = server

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Begin to serve; `self.server.port` tells where."""
        await self._hub.start()
        self._tasks.append(asyncio.create_task(self._hub.run(), name="hub"))
        self._tasks.append(asyncio.create_task(self._definitions(), name="definitions"))
        self._tasks.extend(asyncio.create_task(each()) for each in self._others)
        await self.server.start(host, port, tls)

    async def sound(self) -> None:
        """Wait for as long as everything runs that runs beside the server.

        Raises:
            Exception: what ended a part of it; RuntimeError if nothing did.
        """
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
            raise RuntimeError(f"a part of the control plane ended by itself: {task.get_name()}")

    async def _definitions(self) -> None:
        while True:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._run())
                    tasks.create_task(self._resume())
            except Exception:  # noqa: BLE001 - a defect over one definition must not end the work on all
                _log.exception("definitions failed")
            await asyncio.sleep(RETRY_SECONDS)

    async def stop(self) -> None:
        """End watches, answer what is in flight, stop."""
        self._hub.close()
        await self.server.stop()
        if self._lane is not None:
            await self._lane.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def control_plane(
    store: Store,
    identity: IdentityRoom,
    *,
    reach: Reach = refuse,
    limits: Limits | None = None,
    plugins: Settings = DEFAULT,
    kubelets: Networks = NOWHERE,
    slow_lane: bool = False,
) -> ControlPlane:
    """Make the control plane of a store and its identity.

    Args:
        store: keeps everything.
        identity: of all tenants.
        reach: calls webhooks, of admission and of conversion.
        limits: what there may be at most; None: the defaults.
        plugins: what the operator says of admission plug-ins.
        kubelets: in which spaces they are called, and where.
        slow_lane: whether heavy writes are done in a process of their own.
    """
    guard, catalogue, limits = Guard(identity), Catalogue(reach=reach), limits or Limits()
    admitted = admission(store, guard, catalogue, reach, plugins)
    configurations = admitted.configurations
    listeners: list[Listener] = [identity.changed, configurations.changed]
    lane = None
    if slow_lane:
        lane = Lane(store, reach, Setup(plugins, limits.storage_bytes, limits.storage_objects))
        listeners.append(lane.changed)

    async def missed() -> None:
        configurations.forget()
        if lane is not None:
            lane.forget()
        await identity.reload()

    async def doubted(tenant: str) -> None:
        configurations.forget(tenant)
        if lane is not None:
            lane.forget()
        identity.forget(tenant)

    return assemble(
        store,
        guard,
        admit=admitted.admit,
        validate=admitted.validate,
        charges=admitted.charges,
        listeners=listeners,
        missed=missed,
        doubted=doubted,
        catalogue=catalogue,
        fairness=Fairness(store, now, limits.flow),
        limits=limits,
        kubelets=Kubelets(identity.tenants, kubelets),
        lane=lane,
    )


def assemble(
    store: Store,
    who: Who,
    *,
    admit: Sequence[Admit] = (),
    validate: Sequence[Admit] = (),
    charges: Claims | None = None,
    listeners: Sequence[Listener] = (),
    missed: Lost | None = None,
    doubted: Doubted | None = None,
    catalogue: Catalogue | None = None,
    fairness: Fairness | None = None,
    limits: Limits | None = None,
    kubelets: Kubelets | None = None,
    lane: Lane | None = None,
) -> ControlPlane:
    """Make a control plane.

    Args:
        store: keeps everything.
        who: may do what.
        admit: what each write is put before, in order.
        validate: what each write is put before once its kind's rules have passed it, in order.
        charges: what writes count against; None: the quotas of their namespaces.
        listeners: who is told of all changes of the store before watches are.
        missed: called when changes may have been missed, before it goes on.
        doubted: called when a change of a tenant could not be taken, before it goes on.
        catalogue: of custom resources; None: one that calls no webhooks.
        fairness: shares out what can be served at once; None: everything is served at once.
        limits: what there may be at most.
        kubelets: calls them; None: nobody does.
        lane: does heavy writes; None: they are done here.
    """
    catalogue, establisher = catalogue or Catalogue(), Establisher(store, now)

    metrics = Metrics()
    lasting = Lasting(who.authenticate, who.exists)
    limits = limits or Limits()
    room = StorageLimit(store, limits.storage_bytes, limits.storage_objects)
    knowledge = Knowledge(
        catalogue, establisher, lasting, room, fairness, tenants=who.tenants, missed=missed, doubted=doubted
    )
    history = History(time.monotonic, limits.history_bytes)
    hub = Hub(
        store,
        (*listeners, knowledge.changed, history.changed),
        knowledge.lost,
        doubted=knowledge.doubt,
        defect=metrics.defects.inc,
    )
    spaces = Spaces(catalogue, store)
    widths = fairness.gate.widths if fairness is not None else None
    reader = Reader(store, who.tenants, widths, lambda: hub.position)
    claims = ServiceClaims(store, Network(SERVICE_CIDR))
    registry = Registry(
        store, admit, claims, validate=validate, charges=charges or QuotaClaims(store), room=room
    )
    answers = Answers() if lane is None else Answers(write=lane.written)
    deleter = Deleter(registry)
    verbs = Verbs(registry, reader, Watches(hub, reader, time.monotonic), deleter, answers, lane)
    evictor = Evictor(registry, deleter)
    streaming = Streaming(kubelets, reader, spaces) if kubelets is not None else None
    subresources = Subresources(verbs, registry, reader, answers, evictor, spaces, who, streaming)

    async def resume() -> None:
        await establisher.resume(who.tenants())

    async def told(tenant: str) -> bytes:
        fair = fairness.text(tenant) if fairness is not None else b""
        fair += history.text(tenant) if tenant != ALL else b""
        return metrics.text(tenant) + fair + (await room.text(tenant) if tenant != ALL else b"")

    soundness = Soundness(store, time.monotonic)
    paths = Paths(spaces, who, soundness.ready, told)
    gate, others = (fairness.gate, [fairness.upkeep.run]) if fairness is not None else (None, [])
    way = Way(who, spaces, verbs, subresources, paths, now, answers.error, gate, lasting, history, soundness)
    server = Server(way, metrics, limits)
    return ControlPlane(hub, server, resume, establisher.run, [lasting.run, *others], lane)


def now() -> str:
    """Return the time as objects tell it."""
    return _told(int(time.time()))


@lru_cache(1)
def _told(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

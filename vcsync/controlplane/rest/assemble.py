"""Puts the parts of the embedded control plane together."""

import asyncio
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import structlog

from vcsync.controlplane.admission import chain
from vcsync.controlplane.admission.configurations import Configurations
from vcsync.controlplane.admission.pod_security import DEFAULT
from vcsync.controlplane.admission.quotas import QuotaClaims
from vcsync.controlplane.admission.settings import Settings
from vcsync.controlplane.admission.versions import Versions
from vcsync.controlplane.admission.webhooks.dispatch import Webhooks, mutation
from vcsync.controlplane.crd.catalogue import Catalogue
from vcsync.controlplane.crd.convert import Reach, refuse
from vcsync.controlplane.crd.establish import Establisher
from vcsync.controlplane.flow.service import Fairness
from vcsync.controlplane.identity.service import Identity as IdentityRoom
from vcsync.controlplane.kinds.service_claims import Network
from vcsync.controlplane.rest.answers import Answers
from vcsync.controlplane.rest.claims import Claims
from vcsync.controlplane.rest.deletion import Deleter, begin_definition, begin_namespace
from vcsync.controlplane.rest.eviction import Evictor
from vcsync.controlplane.rest.guard import Guard
from vcsync.controlplane.rest.hub import Hub, Lost, Tap
from vcsync.controlplane.rest.limits import Limits
from vcsync.controlplane.rest.paths import Operator, Paths
from vcsync.controlplane.rest.policing import ask_of, policies, readable_params
from vcsync.controlplane.rest.reading import Reader
from vcsync.controlplane.rest.registry import Registry
from vcsync.controlplane.rest.requestinfo import ALL
from vcsync.controlplane.rest.scope import Admit
from vcsync.controlplane.rest.server import Metrics, Server
from vcsync.controlplane.rest.services import ServiceClaims
from vcsync.controlplane.rest.space import DEFINITIONS, Spaces
from vcsync.controlplane.rest.storage_limit import StorageLimit
from vcsync.controlplane.rest.subresources import Reviews, Subresources
from vcsync.controlplane.rest.verbs import Verbs
from vcsync.controlplane.rest.watching import Watches
from vcsync.controlplane.rest.way import Identity, Way
from vcsync.controlplane.store.interface import Change, Store, StoreError
from vcsync.controlplane.tenants.defaults import SERVICE_CIDR

RETRY_SECONDS = 1.0
_log = structlog.get_logger()


class Who(Identity, Reviews, Operator, Protocol):
    """Everything asked of identity; `guard.Guard` answers it."""

    def tenants(self) -> Sequence[str]:
        """Return all tenants, in order."""
        ...


class ControlPlane:
    """Everything that serves; made by `assemble` and `control_plane`."""

    def __init__(
        self,
        hub: Hub,
        server: Server,
        resume: Callable[[], Coroutine[Any, Any, None]],
        run: Callable[[], Coroutine[Any, Any, None]],
        others: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
    ) -> None:
        """Take what must be started and stopped; `others` run beside it until then."""
        self._others = others
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
) -> ControlPlane:
    """Make the control plane of a store and its identity.

    Args:
        store: keeps everything.
        identity: of all tenants.
        reach: calls webhooks, of admission and of conversion.
        limits: what there may be at most; None: the defaults.
        plugins: what the operator says of admission plug-ins.
    """
    guard, catalogue, configurations = Guard(identity), Catalogue(reach=reach), Configurations(store)
    webhooks = Webhooks(store, configurations, Versions(catalogue), reach, ask_of(guard))
    enforced = policies(store, catalogue, configurations, guard)

    async def missed() -> None:
        configurations.forget()
        await identity.reload()

    return assemble(
        store,
        guard,
        admit=(
            mutation(chain.mutation(store, guard.decide), enforced.mutate, webhooks),
            guard.check_roles,
        ),
        validate=(
            chain.validation(store, guard.decide, guard.may, plugins),
            readable_params(store, catalogue, guard),
            enforced.validate,
            webhooks.validate,
        ),
        charges=QuotaClaims(store, plugins.limited),
        taps=(identity.changed, configurations.changed),
        missed=missed,
        catalogue=catalogue,
        fairness=Fairness(store, now, limits.flow if limits else None),
        limits=limits,
    )


def assemble(
    store: Store,
    who: Who,
    *,
    admit: Sequence[Admit] = (),
    validate: Sequence[Admit] = (),
    charges: Claims | None = None,
    taps: Sequence[Tap] = (),
    missed: Lost | None = None,
    catalogue: Catalogue | None = None,
    fairness: Fairness | None = None,
    limits: Limits | None = None,
) -> ControlPlane:
    """Make a control plane.

    Args:
        store: keeps everything.
        who: may do what.
        admit: what each write is put before, in order.
        validate: what each write is put before once its kind's rules have passed it, in order.
        charges: what writes count against; None: the quotas of their namespaces.
        taps: who is told of all changes of the store before watches are.
        missed: called when changes may have been missed, before it goes on.
        catalogue: of custom resources; None: one that calls no webhooks.
        fairness: shares out what can be served at once; None: everything is served at once.
        limits: what there may be at most.
    """
    catalogue, establisher = catalogue or Catalogue(), Establisher(store, now)

    def definitions(changes: Sequence[Change]) -> None:
        for change in changes:
            catalogue.apply(change)
            establisher.observe(change)
        if fairness is not None:
            fairness.changed(changes)

    async def lost() -> None:
        if missed is not None:
            await missed()
        if fairness is not None:
            fairness.gate.changed_all()
        for tenant in who.tenants():
            catalogue.forget(tenant)
        await establisher.resume(who.tenants())

    hub = Hub(store, (*taps, definitions), lost)
    spaces = Spaces(catalogue, store)
    reader = Reader(store, who.tenants)
    claims = ServiceClaims(store, Network(SERVICE_CIDR))
    limits = limits or Limits()
    room = StorageLimit(store, limits.storage_bytes, limits.storage_objects)
    registry = Registry(
        store, admit, claims, validate=validate, charges=charges or QuotaClaims(store), room=room
    )
    answers = Answers()
    deleter = Deleter(
        registry,
        {
            ("", "namespaces"): begin_namespace,
            (DEFINITIONS, "customresourcedefinitions"): begin_definition,
        },
    )
    verbs = Verbs(registry, reader, Watches(hub, reader, time.monotonic), deleter, answers)
    evictor = Evictor(registry, deleter)
    subresources = Subresources(verbs, registry, reader, answers, evictor, spaces, who)
    metrics = Metrics()

    async def ready() -> bool:
        try:
            await store.revision()
        except StoreError:
            return False
        return True

    async def resume() -> None:
        await establisher.resume(who.tenants())

    async def told(tenant: str) -> bytes:
        fair = fairness.text(tenant) if fairness is not None else b""
        return metrics.text(tenant) + fair + (await room.text(tenant) if tenant != ALL else b"")

    paths = Paths(spaces, who, ready, told)
    gate, others = (fairness.gate, [fairness.upkeep.run]) if fairness is not None else (None, [])
    way = Way(who, spaces, verbs, subresources, paths, now, answers.error, gate)
    return ControlPlane(hub, Server(way, metrics, limits.connections), resume, establisher.run, others)


def now() -> str:
    """Return the time as objects tell it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

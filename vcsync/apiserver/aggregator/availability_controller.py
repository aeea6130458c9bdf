"""Controller of the condition Available of all tenants' APIServices that name a Service.

An APIService is checked when it or its Service changes, and repeatedly. Tenants share the checks fairly. Several processes
may run the controller: they write by compare and swap, and only where status or reason differ.

Behaviour: kube-aggregator's `pkg/controllers/status/remote`.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache

import msgspec
import structlog

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.kinds import all_kinds
from vcsync.apimachinery.patch import managed
from vcsync.apimachinery.patch.managed import Tracking
from vcsync.apimachinery.resources import object_key
from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.aggregator import availability
from vcsync.apiserver.discovery.remote_api_services import (
    GROUP,
    PLURAL,
    Condition,
    Destination,
    RemoteApiService,
    RemoteApiServices,
    Served,
)
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.services import DISCOVERY, Services
from vcsync.apiserver.storage.interface import Change, Compare, Put, Store, StoreError
from vcsync.fairqueue.queue import FairQueue
from vcsync.fairqueue.workers import WorkerPool

AGAIN_SECONDS = 30.0
"""Time between two checks of an available APIService, and the longest time between two checks of another one."""
FIRST_RETRY_SECONDS = 5.0
"""Time until an APIService that is not available is checked again. It doubles with each check, up to `AGAIN_SECONDS`."""
SETTLE_SECONDS = 0.1
"""Time for which changes are collected before an APIService is checked."""
LEAST_SECONDS = 2.0
"""Least time between two checks of an APIService, however often it changes."""
WORKERS = 32
"""APIServices that are checked at the same time."""
TENANT_WORKERS = 2
"""The same for one tenant."""
MANAGER = "kube-apiserver"
"""Field manager of the writes."""
KIND = "APIService"
_SERVICES = "/core/services/"
_SLICES = f"/{DISCOVERY}/endpointslices/"
_State = tuple[str, Destination, str, str]
"""UID and destination of an APIService, and status and reason of its condition."""
_log = structlog.get_logger(__name__)

Check = Callable[[RemoteApiService], Awaitable[Served]]
"""Asks the server of an APIService what it serves; see `discovery_check.check`."""
Ensure = Callable[[str], Awaitable[object | None]]
"""Makes the identity of a tenant's front proxy; see `operator.front_proxy.FrontProxies.ensure`. None: it can have none."""


class AvailabilityController:
    """Checks APIServices.

    Args:
        store: The store.
        remote: APIServices of tenants that name a Service.
        check: Asks their servers.
        ensure: Makes the identity by which they trust this server.
        tenants: Returns all tenants with embedded control planes.
        now: Returns the time in RFC 3339.
    """

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        store: Store,
        remote: RemoteApiServices,
        check: Check,
        ensure: Ensure,
        tenants: Callable[[], Iterable[str]],
        now: Callable[[], str],
    ) -> None:
        self._store = store
        self._services = Services(store)
        self._remote = remote
        self._check = check
        self._ensure = ensure
        self._tenants = tenants
        self._now = now
        self._failures: dict[tuple[str, str], int] = {}
        self._decided: dict[tuple[str, str], _State] = {}
        self._messages: dict[tuple[str, str], str] = {}
        self._checked: dict[tuple[str, str], float] = {}
        self._resuming = asyncio.Event()
        self._resuming.set()
        self._pool: WorkerPool[str] = WorkerPool(
            "availability",
            self.reconcile,
            workers=WORKERS,
            queue=FairQueue(limit=TENANT_WORKERS),
            on_error=_failed,
        )
        remote.on_change = self.enqueue

    def enqueue(self, tenant: str, name: str) -> None:
        """Check an APIService soon, unless the change is the one that this controller has just made."""
        service = self._remote.get(tenant, name)
        known = self._decided.get((tenant, name))
        if service is None or known != _state(service, service.condition):
            self._check_soon(tenant, name)

    def changed(self, changes: Sequence[Change]) -> None:
        """Check the APIServices whose Service or endpoints have changed. Other changes cost little."""
        for change in changes:
            for infix in (_SERVICES, _SLICES):
                tenant, found, rest = change.key.partition(infix)
                if found:
                    self._endpoints_changed(tenant, rest, whole=infix == _SERVICES)

    def _endpoints_changed(self, tenant: str, rest: str, *, whole: bool) -> None:
        namespace, _, name = rest.partition("/")
        for each in self._remote.all(tenant):
            reference = each.destination.service
            if reference.namespace == namespace and (not whole or reference.name == name):
                self._check_soon(tenant, each.name)

    def _check_soon(self, tenant: str, name: str) -> None:
        self._failures.pop((tenant, name), None)
        since = time.monotonic() - self._checked.get((tenant, name), -math.inf)
        self._pool.add_after(tenant, name, max(SETTLE_SECONDS, LEAST_SECONDS - since))

    def resume(self) -> None:
        """Read APIServices again soon that were forgotten, because changes may have been missed."""
        self._resuming.set()

    async def run(self) -> None:
        """Check APIServices until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pool.run())
            tasks.create_task(self._load())

    async def _load(self) -> None:
        """Read the APIServices of all tenants whose Services may be called; those of others are read with their requests."""
        while True:
            await self._resuming.wait()
            self._resuming.clear()
            for tenant in self._tenants():
                if self._remote.forwards(tenant) and not self._remote.loaded(tenant):
                    try:
                        await self._remote.load(tenant, self._store)
                    except StoreError as error:
                        _log.warning("APIServices cannot be read", tenant=tenant, error=str(error))
                        await asyncio.sleep(FIRST_RETRY_SECONDS)
                        self._resuming.set()
                await asyncio.sleep(0)  # there may be thousands of tenants

    async def reconcile(self, tenant: str, name: str) -> float | None:
        """Check an APIService, and write its condition if it has changed.

        Returns:
            Seconds until the next check, or None if only a change can make a difference.

        Raises:
            StatusError, StoreError: The store cannot be read or written.
        """
        service = self._remote.get(tenant, name)
        if service is None:
            self._failures.pop((tenant, name), None)
            self._decided.pop((tenant, name), None)
            self._messages.pop((tenant, name), None)
            self._checked.pop((tenant, name), None)
            return None
        self._checked[tenant, name] = time.monotonic()
        refusal = self._remote.refusal(service)
        if refusal:
            await self._write(service, availability.not_forwarded(refusal))
            return None
        if await self._ensure(tenant) is None:
            return None
        condition = await self._condition(service)
        await self._write(service, condition)
        if condition.status == "True":
            self._failures.pop((tenant, name), None)
            return AGAIN_SECONDS
        failures = self._failures[tenant, name] = self._failures.get((tenant, name), 0) + 1
        return float(min(AGAIN_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(failures - 1, 8)))

    async def _condition(self, service: RemoteApiService) -> Condition:
        """Return the condition of an APIService, after asking its server if that is necessary."""
        reference = service.destination.service
        record, _ = await self._store.get(
            object_key(service.tenant, "", "services", reference.namespace, reference.name)
        )
        found = None if record is None else msgspec.json.decode(record.value)
        slices: list[Object] = []
        if found is not None:
            own = self._services.slices(service.tenant, reference.namespace, reference.name)
            slices = [availability.outline(each) async for each in own]
        problem = availability.problem(service, found, slices)
        if problem is not None:
            self._remote.outdated(service)
            return problem
        try:
            served = await self._check(service)
        except CallFailed as error:
            self._remote.outdated(service)
            return availability.failed(str(error))
        self._remote.learn(service, served)
        return availability.PASSED

    async def _write(self, service: RemoteApiService, condition: Condition) -> None:
        """Write the condition of an APIService, unless it has changed since it was read: then it is checked again.

        Raises:
            StoreError: The store cannot be read or written.
        """
        key = object_key(service.tenant, GROUP, PLURAL, "", service.name)
        self._decided[service.tenant, service.name] = _state(service, condition)
        last = self._messages.pop((service.tenant, service.name), None)
        if condition.reason == availability.FAILED:
            self._messages[service.tenant, service.name] = condition.message
        if not availability.differs(service.condition, condition, last):
            return
        record, _ = await self._store.get(key)
        if record is None or record.revision != service.revision:
            return  # the watch of the store enqueues it again
        before = msgspec.json.decode(record.value)
        now = self._now()
        after = availability.with_condition(before, condition, now)
        track_status(before, after, now)
        outcome = await self._store.txn(
            [Compare(key, record.revision)], [Put(key, msgspec.json.encode(after))]
        )
        if outcome.done:
            _log.info(
                "availability of an APIService changed",
                tenant=service.tenant,
                name=service.name,
                status=condition.status,
                reason=condition.reason,
            )


def _state(service: RemoteApiService, condition: Condition | None) -> _State:
    status, reason = ("", "") if condition is None else (condition.status, condition.reason)
    return service.uid, service.destination, status, reason


def _failed(tenant: str, name: str, error: Exception, delay: float) -> None:
    if isinstance(error, StatusError | StoreError):
        _log.debug("an APIService cannot be checked", tenant=tenant, name=name, error=str(error), delay=delay)
    else:
        _log.error("checking an APIService failed", tenant=tenant, name=name, exc_info=error)


def track_status(before: Object, after: Object, now: str) -> None:
    """Update the managedFields of an APIService whose status has changed.

    Args:
        before: The stored APIService.
        after: The changed one; changed in place.
        now: Time of the change, in RFC 3339.
    """
    head = {"apiVersion": f"{GROUP}/v1", "kind": KIND}
    entries = managed.update({**head, **before}, {**head, **after}, MANAGER, now, _tracking())
    if entries:
        after["metadata"] = {**after["metadata"], "managedFields": entries}


@cache
def _tracking() -> Tracking:
    return Tracking(
        schema=builtin.schema(GROUP, "v1", KIND) or Schema("object", preserve_unknown=True),
        api_version=f"{GROUP}/v1",
        kind=KIND,
        subresource="status",
        reset=all_kinds.reset(GROUP, PLURAL, "status"),
        empty=managed.empty_object(GROUP, "v1", KIND),
    )

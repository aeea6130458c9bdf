"""A whole pool in memory that loses super clusters: syncers, both schedulers, tenants' controllers, and what really runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from functools import partial
from random import Random
from typing import Any

from msgspec.structs import replace

from vcsync.api.objects import to_wire
from vcsync.api.specs import STAY, Failover
from vcsync.kube.cache import Change
from vcsync.nsscheduler.departures import Waves
from vcsync.objects.envelope import Envelope, parse
from vcsync.podscheduler.accounting import Assign, PodAccounting
from vcsync.podscheduler.evictions import Evictions, Stand
from vcsync.podscheduler.pods import Pod
from vcsync.scheduling.ledger import Entry, Key, Ledger
from vcsync.scheduling.place import SliceRequest, place_slices
from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.resources import subtract, times
from vcsync.tenancy import Patience, Pool

EPOCH = 1767225600.0  # 2026-01-01T00:00:00Z
PATIENCE = Patience(suspect_after=75, lost_after=300)
BEAT = 25.0
"""Seconds between two heartbeats, and between two looks of the schedulers."""
SIZE = {"cpu": 100}
NEEDS = {"cpu": 40}
AFTER = 60
POLICIES = {
    "mover": Failover(policy="MoveAfter", after_seconds=AFTER),
    "stateless": Failover(policy="MoveStateless", after_seconds=AFTER),
    "stayer": STAY,
}
"""Tenant -> its policy."""
NAMESPACES = 12
"""Namespaces of each tenant, so that a super cluster has more of them than a wave takes."""


def text(seconds: float) -> str:
    whole = int(seconds)
    return f"2026-01-{1 + whole // 86400:02}T{whole // 3600 % 24:02}:{whole // 60 % 60:02}:{whole % 60:02}Z"


def most_at_once(count: int) -> int:
    """Return how many of so many things may leave at a time."""
    return max(10, count // 20)


class Site:
    """A super cluster as it really is.

    Attributes:
        alive: whether its syncer runs, and reaches the meta cluster.
        answers: whether its API server answers.
        fenced: whether its operator has switched it off and said so.
        good: when it last wrote that everything is well.
        failure: what the namespace scheduler has recorded of its failures.
        running: (tenant, namespace, name) -> UID of each Pod that runs there, whoever knows.
    """

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        self.alive = self.answers = True
        self.fenced = False
        self.good = 0.0
        self.reachable_since = 0.0
        self.beat = 0.0
        self.said = True
        self.failure: dict[str, Any] | None = None
        self.version = 0
        self.running: dict[tuple[str, str, str], str] = {}

    @property
    def works(self) -> bool:
        return self.alive and self.answers and not self.fenced

    def report(self, now: float) -> None:
        """Write a heartbeat."""
        if self.said != self.answers:
            self.said, self.reachable_since = self.answers, now
        self.beat = now
        if self.answers:
            self.good = now

    def envelope(self) -> Envelope:
        self.version += 1
        condition = {
            "type": "Reachable",
            "status": "True" if self.said else "False",
            "reason": "Probe",
            "lastTransitionTime": text(self.reachable_since),
        }
        body = {
            "metadata": {"name": self.name, "uid": self.name, "resourceVersion": str(self.version)},
            "spec": {"id": self.name, "fenced": self.fenced},
            "status": {
                "allocatable": {"cpu": f"{self.capacity}m"},
                "heartbeatTime": text(self.beat),
                "conditions": [condition],
                "failure": self.failure,
            },
        }
        return parse(json.dumps(body).encode())


class _Reflector:
    """A connection to the meta cluster that may be cut."""

    synced = False
    stale_since: float | None = None


class Observer:
    """What one scheduler sees of the pool, until it is restarted.

    Attributes:
        pool: its view.
        blind_for: seconds for which it saw nothing, since the beginning.
    """

    def __init__(self, world: World, *, on_change: Any = None) -> None:
        self.world = world
        self.blind_for = 0.0
        self.pool = Pool(
            object(),  # type: ignore[arg-type]  # the reflector is not run
            patience=PATIENCE,
            on_change=on_change,
            clock=lambda: world.now,
            wall_clock=lambda: EPOCH + world.now,
        )
        self.reflector = _Reflector()
        self.pool.reflector = self.reflector  # type: ignore[assignment]
        self._seen: dict[str, Envelope] = {}
        self.see()
        self.reflector.synced = True

    @property
    def blind(self) -> bool:
        return self.reflector.stale_since is not None

    def see(self) -> None:
        """Read all super clusters."""
        for name, found in self.world.stored.items():
            if self._seen.get(name) is not found:
                self.pool.observe(Change(self._seen.get(name), found))
                self._seen[name] = found

    def cut(self, *, off: bool) -> None:
        if off and not self.blind:
            self.reflector.stale_since = self.world.now
        elif not off and self.blind:
            self.reflector.stale_since = None
            self.see()
            self.pool.look()


class World:
    """Everything, with a clock of its own. `tick` lets time pass; each decision of the schedulers is checked in it.

    Attributes:
        sites: the super clusters as they are.
        moved: (what, super cluster) of everything that has moved.
        recorded: number of records of failures that were written.
    """

    def __init__(self, sites: int, spare: int, seed: int) -> None:
        self.now = 0.0
        self.chance = Random(seed)
        self.keys: list[Key] = [
            (tenant, f"ns-{number:02}") for tenant in POLICIES for number in range(NAMESPACES)
        ]
        need = 2 * len(self.keys)
        names = [f"r{number}" for number in range(1, sites + 1)]
        self.sites = {name: Site(name, (need // (sites - 1) + spare) * SIZE["cpu"]) for name in names}
        self.stored = {name: site.envelope() for name, site in self.sites.items()}
        self.ledger = Ledger()
        self.moved: list[tuple[str, str]] = []
        self.recorded = 0
        self.mass: tuple[frozenset[str], float, dict[str, float]] | None = None
        self.budget_refuses = False
        self.slow = False
        self._queue: dict[Key, None] = {}
        self._numbers = 0
        self.loop = asyncio.new_event_loop()
        self.accounts = {tenant: PodAccounting() for tenant in POLICIES}
        self.start("namespaces")
        self.start("pods")
        for key in self.keys:
            self.decide(key)
        self.controllers()

    def close(self) -> None:
        self.loop.close()

    # Processes

    def start(self, which: str) -> None:
        """Start or restart a scheduler, which knows only what its predecessor has stored."""
        if which == "namespaces":
            self.namespaces = Observer(self)
            self.waves = Waves(
                self.namespaces.pool,
                self.ledger,
                POLICIES.get,
                self.stateful,
                self.enqueue,
                self.chance,
                lambda: self.now,
            )
            self._queue.clear()
            self.namespaces.pool._on_change = self.waves.follow
        else:
            self.pods = Observer(self)
            self.evictions = Evictions(
                self.pods.pool, self.is_fenced, self.stands, self.chance, lambda: self.now
            )

    @property
    def observers(self) -> dict[str, Observer]:
        return {"slices": self.namespaces, "pods": self.pods}

    def tick(self) -> None:
        """Let everything work once, some seconds later."""
        self.now += BEAT
        for name, site in self.sites.items():
            if site.alive and not site.fenced:
                site.report(self.now)
                self.store(name)
        for observer in self.observers.values():
            if observer.blind:
                observer.blind_for += BEAT
            else:
                observer.see()
            observer.pool.look()
        self.remember()
        self.syncers()
        self.loop.run_until_complete(self.leave())
        self.loop.run_until_complete(self.evict())
        self.controllers()
        self.check()

    def remember(self) -> None:
        """Write what the namespace scheduler knows of failures."""
        for found, record in self.namespaces.pool.outdated():
            self.sites[found.name].failure = to_wire(record)
            self.store(found.name)
            self.recorded += 1
        assert not self.namespaces.pool.outdated()

    def store(self, name: str) -> None:
        """Write a SuperCluster."""
        self.stored[name] = self.sites[name].envelope()
        for observer in self.observers.values():
            if not observer.blind:
                observer.see()

    # The namespace scheduler

    def enqueue(self, key: Key) -> None:
        self._queue[key] = None

    async def stateful(self, key: Key, super_id: str) -> int:
        account = self.accounts[key[0]]
        return int(
            any(
                pod.needs.claims and pod.bound_to == super_id and pod.namespace == key[1]
                for pod in account.pods.values()
            )
        )

    async def leave(self) -> None:
        """Release waves, and decide on what is queued."""
        departures = self.waves.departures
        before = {name: dict(departures.released(name)) for name in self.sites}
        await self.waves.look()
        for name in self.sites:
            there = self.ledger.on(name)
            released = departures.released(name)
            newly = released.keys() - before[name].keys()
            assert len(newly) <= most_at_once(len(there))
            under_way = departures.under_way(self.ledger) & released.keys() - set(departures.tried(name))
            assert len(under_way) <= most_at_once(len(there))
        for key in list(self._queue)[: 3 if self.slow else None]:
            del self._queue[key]
            self.decide(key)

    def decide(self, key: Key) -> None:
        """Place a namespace's slices, as the scheduler does."""
        present = self.ledger.get(key) or Entry(SIZE, {})
        views = self.namespaces.pool.views
        request = SliceRequest(
            2,
            SIZE,
            current=present.placements,
            clearing=present.clearing,
            leaving=self.waves.departures.leaving(key),
        )
        allocated = {name: self.ledger.allocated(name, without=key) for name in views}
        decision = place_slices(views, allocated, request)
        self.waves.departures.note_tried(key)
        assert sum(decision.placements.values()) == 2
        for name, slices in present.placements.items():
            if decision.placements.get(name, 0) < slices:
                self.check_move("slices", name, key[0])
        clearing = {}
        for name in {**present.placements, **present.clearing}:
            left = subtract(present.holds(name), times(SIZE, decision.placements.get(name, 0)))
            if left["cpu"] > 0:
                clearing[name] = left
        self.put(key, Entry(SIZE, decision.placements, clearing))

    def put(self, key: Key, entry: Entry) -> None:
        self.ledger.put(key, entry)
        self.accounts[key[0]].grant(key[1], entry.size, entry.placements)

    # The Pod scheduler

    async def is_fenced(self, super_id: str) -> bool:
        return self.sites[super_id].fenced

    def stands(self) -> dict[str, Stand]:
        return {
            tenant: Stand(
                POLICIES[tenant],
                lambda account=account: list(account.pods.values()),
                account.capacities,
                partial(self.room, account),
                Remover(self, tenant),
            )
            for tenant, account in self.accounts.items()
        }

    def room(self, account: PodAccounting, namespace: str, super_id: str) -> list[Any]:
        return account.room_elsewhere(namespace, super_id, self.pods.pool.views)

    async def evict(self) -> None:
        """Send a wave of evictions."""
        before = len(self.moved)
        bound = {name: sum(pod.bound_to == name for pod in self.all_pods()) for name in self.sites}
        steps: list[Coroutine[Any, Any, None]] = []
        self.evictions.look(steps.append)
        for step in steps:
            await step
        for name, count in bound.items():
            assert self.moved[before:].count(("pods", name)) <= most_at_once(count)

    def all_pods(self) -> list[Pod]:
        return [pod for account in self.accounts.values() for pod in account.pods.values()]

    # Syncers and tenants

    def syncers(self) -> None:
        """Let the syncers that work end what has to end, and report it."""
        for tenant, account in self.accounts.items():
            for pod in list(account.pods.values()):
                site = self.sites[pod.bound_to]
                if not site.works:
                    continue
                each = (tenant, *pod.key)
                if pod.deleting or not self.stays(tenant, pod) or each not in site.running:
                    site.running.pop(each, None)
                    account.remove(pod.key)
        for name, site in self.sites.items():
            if site.works:
                self.clear(name, site)

    def stays(self, tenant: str, pod: Pod) -> bool:
        """Return whether a Pod's namespace has slices where it runs."""
        entry = self.ledger.get((tenant, pod.namespace))
        return entry is not None and pod.bound_to in entry.placements

    def clear(self, name: str, site: Site) -> None:
        """End what tenants do not have any more, and free the amounts of slices that have left."""
        for each, uid in list(site.running.items()):
            found = self.accounts[each[0]].pods.get(each[1:])
            if found is None or found.uid != uid:
                del site.running[each]
        for key in self.keys:
            entry = self.ledger.get(key)
            if entry is not None and name in entry.clearing:
                left = {other: amounts for other, amounts in entry.clearing.items() if other != name}
                self.put(key, replace(entry, clearing=left))

    def controllers(self) -> None:
        """Let tenants' controllers create the Pods that lack, if they find a place that works."""
        there: dict[Key, list[Pod]] = {key: [] for key in self.keys}
        for tenant, account in self.accounts.items():
            for pod in account.pods.values():
                there[tenant, pod.namespace].append(pod)
        for number, ((tenant, namespace), pods) in enumerate(there.items()):
            if not any(pod.name.startswith("web") and not pod.deleting for pod in pods):
                self._numbers += 1
                self.create(tenant, namespace, f"web-{self._numbers}", ())
            if not any(pod.name == "set-0" for pod in pods):
                self.create(tenant, namespace, "set-0", ("data",) if number % 2 else ())

    def create(self, tenant: str, namespace: str, name: str, claims: tuple[str, ...]) -> None:
        account = self.accounts[tenant]
        needs = PodNeeds(NEEDS)
        new = Pod(namespace, name, "", "1", needs, "", "", False, "")
        verdict = account.decide(new, self.pods.pool.views, self.now)
        if not isinstance(verdict, Assign) or not self.sites[verdict.super_id].works:
            return
        home = verdict.super_id
        self._numbers += 1
        uid = f"uid-{self._numbers}"
        bound = PodNeeds(NEEDS, node=f"n1.{home}", claims=claims)
        account.update(Pod(namespace, name, uid, "1", bound, home, home, False, ""))
        self.sites[home].running[tenant, namespace, name] = uid

    # Checks

    def check_move(self, what: str, name: str, tenant: str) -> None:
        """Note that something leaves a super cluster, and check that it may."""
        site = self.sites[name]
        self.moved.append((what, name))
        assert POLICIES[tenant].policy != "Stay"
        if not site.fenced:
            assert self.now - site.good >= PATIENCE.lost_after + AFTER, "a glitch has moved something"
        if self.mass is not None:
            _, since, blind = self.mass
            seen_for = self.now - since - (self.observers[what].blind_for - blind[what])
            assert seen_for < PATIENCE.suspect_after + BEAT, "something has moved while most was gone"

    def check(self) -> None:
        for name, site in self.sites.items():
            assert self.ledger.allocated(name).get("cpu", 0) <= site.capacity
        for key in self.keys:
            entry = self.ledger.get(key)
            assert entry is not None
            assert sum(entry.placements.values()) == 2
            homes = sum((*key, "set-0") in site.running for site in self.sites.values())
            assert homes <= 1, f"set-0 of {key} runs twice"


class Remover:
    """A tenant's control plane, as evictions use it."""

    def __init__(self, world: World, tenant: str) -> None:
        self._world = world
        self._tenant = tenant
        self._account = world.accounts[tenant]

    async def evict(self, pod: Pod, why: str) -> bool:
        del why
        self._world.check_move("pods", pod.bound_to, self._tenant)
        if not self._world.budget_refuses:
            self._account.update(replace(self._account.pods[pod.key], deleting=True))
        return not self._world.budget_refuses

    async def delete(self, pod: Pod, why: str) -> None:
        del why
        self._world.check_move("pods", pod.bound_to, self._tenant)
        self._account.update(replace(self._account.pods[pod.key], deleting=True))

    async def confirm(self, pod: Pod, why: str) -> None:
        del why
        assert pod.deleting
        assert self._world.sites[pod.bound_to].fenced, "a Pod was ended though it may run"
        self._account.remove(pod.key)

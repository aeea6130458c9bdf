"""The histories of a pool: which step may follow which, in words that a failing example repeats."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize
from hypothesis.stateful import rule as hypothesis_rule

from vcsync.objects.generated_names import ALPHABET, SUFFIX
from vcsync.scheduling.snapshot import Health

from . import adversary
from .process import Process
from .setting import SUPERS
from .wire import AT_ONCE
from .world import SIZES, World

ROLES = ("pods", *SUPERS, "slices")
NAMES = ("db-0", "db-1", "web-a", "web-b")
"""Names of Pods. Those that begin with `GENERATED` are generated."""
MOST_PODS = 6
LAGGING = ("pods", "copies", "placements", "quotas")
"""Watches of a syncer that lag by themselves. The others follow with any of them."""

GENERATED = "web-"
ORDERS: dict[str, Callable[[World, str], None]] = {
    "drain": lambda world, super_id: world.drain(super_id, draining=True),
    "end of drain": lambda world, super_id: world.drain(super_id, draining=False),
    "leave": lambda world, super_id: world.leave(super_id),
    "suspend": lambda world, _: world.suspend(suspended=True),
    "resume": lambda world, _: world.suspend(suspended=False),
    "cap 200m": lambda world, _: world.cap(200),
    "cap 400m": lambda world, _: world.cap(400),
    "no cap": lambda world, _: world.cap(0),
    "another namespace clears 200m": lambda world, _: world.clear_other(200),
    "another namespace has cleared": lambda world, _: world.clear_other(0),
    "more Pods": lambda world, super_id: world.grow(super_id),
    "to r1": lambda world, super_id: world.transfer(super_id, "r1"),
    "to r2": lambda world, super_id: world.transfer(super_id, "r2"),
}
"""What the operator orders -> how."""

number = st.integers(0, 3)
roles = st.sampled_from(ROLES)
supers = st.sampled_from(SUPERS)
passes = st.sampled_from((AT_ONCE, 0, 1, 2, 3))
healths = st.sampled_from([int(each) for each in (Health.LOST, Health.SUSPECT, Health.READY)])
which_schedulers = st.sampled_from((("pods", "slices"), ("pods",), ("slices",)))


Step = tuple[str, dict[str, Any]]
"""Name and arguments of a step of a history."""


def recorded(act: Callable[..., None]) -> Callable[..., None]:
    """Note each step in the machine's history before it is made."""

    @functools.wraps(act)
    def step(self: Pool, **arguments: Any) -> None:
        self.history.append((act.__name__, arguments))
        act(self, **arguments)

    return step


def rule(**arguments: Any) -> Callable[[Callable[..., None]], Any]:
    return lambda act: hypothesis_rule(**arguments)(recorded(act))


def suffix(count: int) -> str:
    """Return the characters by which an API server makes a name unique."""
    return "".join(ALPHABET[count // len(ALPHABET) ** place % len(ALPHABET)] for place in range(SUFFIX))


def pick(choices: list[Any], which: int) -> Any:
    """Return one of the choices; None if there are none."""
    return choices[which % len(choices)] if choices else None


class Pool(RuleBasedStateMachine):
    """A pool in which everything happens in any order."""

    world: World
    last: ClassVar[list[Step]] = []
    """The steps of the machine that was made last."""

    def __init__(self) -> None:
        super().__init__()
        self.history = Pool.last = []

    @initialize(
        bound_status=st.booleans(),
        moves=st.booleans(),
        skews=st.fixed_dictionaries({}, optional={role: st.sampled_from((-320.0, 320.0)) for role in ROLES}),
    )
    @recorded
    def begin(self, bound_status: bool, moves: bool, skews: dict[str, float]) -> None:
        self.world = World(bound_status=bound_status, moves=moves, skews=skews)
        self.look()

    def look(self) -> None:
        self.world.watchdog.look()

    def process(self, role: str) -> Process | None:
        return {"pods": self.world.pods, "slices": self.world.slices, **self.world.syncers}.get(role)

    # The tenant

    @rule(name=st.sampled_from(NAMES), cpu=st.sampled_from((50, 100, 20)), placed=st.booleans())
    def create(self, name: str, cpu: int, placed: bool) -> None:
        """Create a Pod, which the Pod scheduler may see at once."""
        if len(self.world.tenants_pods()) >= MOST_PODS:
            return
        generated = name.startswith(GENERATED)
        full_name = GENERATED + suffix(len(self.world.setting.tenant.log)) if generated else name
        self.world.create(full_name, cpu, generated=generated)
        if placed:
            self.world.pods.work()

    @rule(which=number, force=st.booleans())
    def delete(self, which: int, force: bool) -> None:
        pod = pick(self.world.tenants_pods(), which)
        if pod is not None:
            self.world.delete(pod, force=force)
            self.look()

    @rule(
        slices=st.sampled_from((4, 1, 2, 0, 6, 9)), size=st.sampled_from(("", *SIZES)), decided=st.booleans()
    )
    def set_quota(self, slices: int, size: str, decided: bool) -> None:
        """Change the quota, which the namespace scheduler may see at once."""
        self.world.order(slices, size)
        if decided:
            self.world.slices.work()

    @rule(which=number, super_id=supers, what=st.sampled_from(tuple(adversary.WAYS)))
    def lie(self, which: int, super_id: str, what: str) -> None:
        if (pod := pick(self.world.tenants_pods(), which)) is not None:
            adversary.WAYS[what](self.world, pod, super_id)

    # The operator, and what schedulers believe

    @rule(super_id=supers, what=st.sampled_from(tuple(ORDERS)), decided=st.booleans())
    def order(self, super_id: str, what: str, decided: bool) -> None:
        """Give an order, which the namespace scheduler may carry out at once."""
        ORDERS[what](self.world, super_id)
        if decided:
            self.world.slices.work()

    @rule(super_id=supers, what=st.sampled_from(("fence", "hear_fence", "unfence")))
    def fence(self, super_id: str, what: str) -> None:
        getattr(self.world, what)(super_id)
        self.look()

    @rule(super_id=supers, health=healths, which=which_schedulers)
    def judge(self, super_id: str, health: int, which: Sequence[str]) -> None:
        for each in which:
            self.world.judge(each, super_id, Health(health))

    @rule(passes=passes)
    def evict(self, passes: int) -> None:
        self.world.pods.evict(passes)
        self.look()

    @rule(connected=st.booleans())
    def connect(self, connected: bool) -> None:
        self.world.slices.connected = connected

    # Super clusters

    @rule(super_id=supers)
    def run(self, super_id: str) -> None:
        """Let the scheduler and the kubelets of a super cluster do all there is to do."""
        self.world.supers[super_id].work()
        self.look()

    @rule(super_id=supers, which=number, what=st.sampled_from(("schedule", "start", "stop", "end")))
    def run_one(self, super_id: str, which: int, what: str) -> None:
        there = self.world.supers[super_id]
        if (copy := pick(there.copies(), which)) is not None:
            getattr(there, what)(copy)
            self.look()

    @rule(super_id=supers, full=st.booleans())
    def fill(self, super_id: str, full: bool) -> None:
        self.world.supers[super_id].full = full
        if not full:
            self.world.pods.capacity_changed(super_id)

    # Processes and the network

    @rule(super_id=supers)
    def sync(self, super_id: str) -> None:
        """Let a syncer catch up and work everything off."""
        self.work_of(super_id)

    @rule()
    def place(self) -> None:
        """Let both schedulers catch up and work everything off."""
        self.work_of("slices")
        self.work_of("pods")

    def work_of(self, role: str) -> None:
        if (process := self.process(role)) is not None:
            process.work()
            self.look()

    @rule(role=roles, feed=st.sampled_from(LAGGING), events=st.sampled_from((1, 2, AT_ONCE)))
    def hear(self, role: str, feed: str, events: int) -> None:
        """Let some events of one watch arrive."""
        process = self.process(role)
        if process is not None and feed in process.feeds:
            process.feeds[feed].deliver(events)
            for name, other in process.feeds.items():
                if name not in LAGGING:
                    other.deliver(AT_ONCE)

    @rule(role=roles, which=number, passes=passes, catch_up=st.booleans())
    def handle(self, role: str, which: int, passes: int, catch_up: bool) -> None:
        """Let a role work on one item, until a request waits."""
        process = self.process(role)
        if process is None:
            return
        if catch_up:
            process.catch_up()
        if (item := pick(process.due(), which)) is not None:
            process.begin(item, passes)
            self.look()

    @rule(which=number, what=st.sampled_from(("reply", "execute", "lose", "arrive")), passes=passes)
    def network(self, which: int, what: str, passes: int) -> None:
        """Let something happen to a request on its way, or let one be executed whose caller waits no more."""
        wire = self.world.setting.wire
        if (request := pick(wire.late if what == "arrive" else wire.waiting, which)) is None:
            return
        if what == "arrive":
            wire.late.remove(request)
            request.execute()
        else:
            getattr(request, what)()
            self.world.setting.settle(passes)
        self.look()

    @rule(role=roles)
    def restart(self, role: str) -> None:
        self.world.restart(role)
        self.look()

    @rule(seconds=st.sampled_from((1.0, 15.0, 61.0, 700.0)))
    def wait(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    # Rest

    @rule()
    def rest(self) -> None:
        """Let everything work without failures, and look at what is left."""
        self.world.heal()
        self.world.settle()
        self.world.watchdog.look_at_rest()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.rest()
        finally:
            self.world.close()

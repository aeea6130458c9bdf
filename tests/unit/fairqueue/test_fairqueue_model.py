"""Random operations on the fair queue, compared with a simple model that satisfies all of its guarantees."""

import math
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from vcsync.fairqueue import Backoff, FairQueue

GROUPS = st.sampled_from(["a", "b", "c"])
ITEMS = st.integers(0, 3)
DELAYS = st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0])


@dataclass
class Item:
    """Model of an item. `due` is the time at which it is to be handled (None: never), also while it is in process."""

    due: float | None = None
    in_process: bool = False
    attempts: int = 0
    failed: bool = False
    dropped: bool = False

    def want(self, due):
        self.due = due if self.due is None else min(self.due, due)


class FairQueueMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.backoff = Backoff(base=1.0, cap=8.0, jitter=0.5)
        self.now = 0.0
        self.model = {}
        self.limits = {}
        self.passed_over = {}
        self.charged = set()

    @initialize(quantum=st.integers(1, 2))
    def start(self, quantum):
        self.quantum = quantum
        self.queue = FairQueue(quantum=quantum, backoff=self.backoff)

    # The model's view

    def wanted(self, group, item):
        return self.model.setdefault((group, item), Item())

    def in_process(self, group=None):
        return [key for key, it in self.model.items() if it.in_process and group in (None, key[0])]

    def ready(self):
        return [
            (group, item)
            for (group, item), it in self.model.items()
            if not it.in_process
            and it.due is not None
            and it.due <= self.now
            and len(self.in_process(group)) < self.limits.get(group, math.inf)
        ]

    # Operations of producers

    @rule(group=GROUPS, item=ITEMS, priority=st.booleans())
    def add(self, group, item, priority):
        self.queue.add(group, item, now=self.now, priority=priority)
        it = self.wanted(group, item)
        it.want(self.now)
        it.dropped = False

    @rule(group=GROUPS, item=ITEMS, delay=DELAYS)
    def add_after(self, group, item, delay):
        self.queue.add_after(group, item, delay, now=self.now)
        it = self.wanted(group, item)
        it.want(self.now + delay)
        it.dropped = False

    @rule(group=GROUPS, item=ITEMS)
    def forget(self, group, item):
        self.queue.forget(group, item)
        self.wanted(group, item).attempts = 0

    @rule(group=GROUPS)
    def forget_group(self, group):
        self.queue.forget_group(group)
        self.passed_over.pop(group, None)
        self.limits.pop(group, None)
        for key in [key for key in self.model if key[0] == group]:
            if self.model[key].in_process:
                self.model[key] = Item(in_process=True, dropped=True)
            else:
                del self.model[key]

    @rule(group=GROUPS, limit=st.none() | st.integers(0, 3))
    def set_limit(self, group, limit):
        self.queue.set_limit(group, limit)
        self.limits[group] = math.inf if limit is None else limit
        self.passed_over.pop(group, None)

    @rule(group=GROUPS, weight=st.integers(1, 3))
    def set_weight(self, group, weight):
        self.queue.set_weight(group, weight)

    # Operations of handlers

    @rule()
    def pop(self):
        ready = self.ready()
        popped = self.queue.pop(now=self.now)
        if not ready:
            assert popped is None
            return
        assert popped in ready  # never one in process, too early, beyond its limit, or not asked for
        it = self.model[popped]
        it.in_process, it.due, it.failed = True, None, False
        for group in {group for group, _ in ready} - {popped[0]}:
            self.passed_over[group] = self.passed_over.get(group, 0) + 1
            if group not in self.charged:
                assert self.passed_over[group] <= 2 * 3 * self.quantum  # two other groups of weight 3 or less
        for group in {"a", "b", "c"} - {group for group, _ in ready} | {popped[0]}:
            self.passed_over.pop(group, None)

    @precondition(lambda self: self.in_process())
    @rule(data=st.data())
    def retry(self, data):
        group, item = data.draw(st.sampled_from(self.in_process()))
        it = self.model[group, item]
        delay = self.queue.retry(group, item, now=self.now)
        if it.dropped:
            assert delay == math.inf
            return
        it.attempts += 1
        it.failed = True
        assert delay == self.backoff.delay(group, item, it.attempts)
        it.want(self.now + delay)

    @precondition(lambda self: self.in_process())
    @rule(data=st.data(), items=st.integers(0, 20))
    def charge(self, data, items):
        """A group that owes gives up turns to others. It still has one while no other group has."""
        group, item = data.draw(st.sampled_from(self.in_process()))
        self.queue.charge(group, item, items)
        if items and not self.model[group, item].dropped:
            self.charged.add(group)

    @precondition(lambda self: self.in_process())
    @rule(data=st.data(), delay=DELAYS)
    def again(self, data, delay):
        group, item = data.draw(st.sampled_from(self.in_process()))
        self.queue.again(group, item, delay, now=self.now)
        if not self.model[group, item].dropped:
            self.model[group, item].want(self.now + delay)

    @precondition(lambda self: self.in_process())
    @rule(data=st.data())
    def done(self, data):
        group, item = data.draw(st.sampled_from(self.in_process()))
        self.queue.done(group, item, now=self.now)
        it = self.model[group, item]
        it.in_process = False
        if not it.failed:
            it.attempts = 0
        it.failed = it.dropped = False

    @rule(step=st.sampled_from([0.25, 1.0, 5.0, 60.0]))
    def advance(self, step):
        self.now += step

    # Invariants

    @invariant()
    def sizes_and_deadlines_agree(self):
        if not hasattr(self, "queue"):
            return
        live = {key: it for key, it in self.model.items() if it.in_process or it.due is not None}
        statistics = self.queue.statistics()
        assert statistics.in_process == len(self.in_process())
        assert statistics.queued + statistics.delayed == len(live) - statistics.in_process
        assert statistics.groups == len({group for group, _ in live})
        for group in "abc":
            waiting = [key for key, it in live.items() if key[0] == group and not it.in_process]
            assert self.queue.depth(group) == len(waiting)
        for key, it in live.items():
            assert self.queue.attempts(*key) == it.attempts
        later = [it.due for it in live.values() if not it.in_process and it.due > self.now]
        deadline = self.queue.next_deadline()
        if deadline is None or deadline > self.now:
            assert deadline == min(later, default=None)

    def teardown(self):
        """Nothing is lost: with all finished and limits lifted, every item asked for is popped once."""
        if not hasattr(self, "queue"):
            return
        for group in "abc":
            self.queue.set_limit(group, None)
        for group, item in self.in_process():
            self.queue.done(group, item, now=self.now)
            self.model[group, item].in_process = False
        expected = sorted(key for key, it in self.model.items() if it.due is not None)
        popped = []
        while (pair := self.queue.pop(now=self.now + 1e6)) is not None:
            popped.append(pair)
            self.queue.done(*pair, now=self.now + 1e6)
        assert sorted(popped) == expected
        assert self.queue.statistics() == FairQueue().statistics()


TestFairQueueAgainstModel = FairQueueMachine.TestCase
TestFairQueueAgainstModel.settings = settings(max_examples=30, stateful_step_count=40)

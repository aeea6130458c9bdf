"""Requests to move slices in any order of events: waves are bounded, and slow or silent tenants hold nobody back for long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from vcsync.kube.errors import Unreachable
from vcsync.nsscheduler.transfers import Transfers
from vcsync.scheduling.drain_waves import UNDER_WAY_SECONDS
from vcsync.scheduling.failover import SMALLEST_WAVE, wave_size
from vcsync.scheduling.ledger import Entry, Key

from .test_transfers import SIZE, Stage

TENANTS = ("k-day", "k-silent", "k-quick")
"""Tenants whose Pods take a day to end, whose control plane may not answer, and with neither."""
NAMESPACES = SMALLEST_WAVE + 4
LONGEST_SECONDS = 6 * UNDER_WAY_SECONDS
"""Time within which every request is answered, whatever slow and silent tenants do. Waves of two tenants follow each other."""
STEP_SECONDS = 30.0
tenants = st.sampled_from(TENANTS)


class Waves(RuleBasedStateMachine):
    """Three tenants, the leader's waves, and syncers that clear what has left at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(r1=500, r2=500)
        self.stage.connected = set(TENANTS)
        self.keys = [
            self.stage.put(f"n{number:02}", tenant=tenant, r1=2)
            for tenant in TENANTS
            for number in range(NAMESPACES)
        ]
        self.silent = False
        self.since: dict[Key, float] = {}
        """Namespace that leaves a super cluster -> when that was decided, of the present leader."""

    @staticmethod
    def now(step: Coroutine[Any, Any, None]) -> None:
        asyncio.run(step)

    def open(self) -> list[Key]:
        return [key for key in self.stage.annotations if not self.stage.refused(key)]

    @rule(tenant=tenants, count=st.sampled_from((1, 3, NAMESPACES)))
    def ask(self, tenant: str, count: int) -> None:
        asked = [key for key in self.keys if key[0] == tenant and key not in self.stage.annotations]
        for key in [each for each in asked if self.stage.placed(each).get("r1")][:count]:
            slices = self.stage.placed(key)["r1"]
            self.stage.ask(key, ("r1", "r2", slices), order=len(self.stage.annotations))

    @rule()
    def look(self) -> None:
        """Let the leader look. What it begins, and what is under way, is no more than a wave."""
        late = self.stage.time - UNDER_WAY_SECONDS
        before = {key for key, since in self.since.items() if since > late and self.leaves(key)}
        self.now(self.stage.transfers.look())
        ordered = {key for key in self.keys if self.stage.transfers.of(key)}
        assert len(before | ordered) <= wave_size(len(self.keys)), "a wave is too large"
        assert all(key[0] in self.stage.connected for key in self.stage.added)

    def leaves(self, key: Key) -> bool:
        entry = self.stage.ledger.get(key)
        return entry is not None and bool(entry.clearing)

    @rule(drained=st.booleans())
    def decide(self, drained: bool) -> None:
        """Let the namespace scheduler decide, and syncers clear at once; never those of the tenant whose Pods take a day."""
        queued = list(self.stage.added)
        for quick in (True, False):
            self.stage.added[:] = [key for key in queued if (key[0] != "k-day" and drained) == quick]
            for key in self.stage.decide(drained=quick):
                if self.leaves(key):
                    self.since[key] = self.stage.time

    @rule(tenant=tenants)
    def clear(self, tenant: str) -> None:
        for key in self.keys:
            if key[0] == tenant and self.leaves(key):
                self.stage.ledger.put(key, Entry(SIZE, self.stage.placed(key), {}))

    @rule(silent=st.booleans())
    def silence(self, silent: bool) -> None:
        self.silent = silent
        for key in self.keys:
            if key[0] == "k-silent":
                self.stage.claims[key, "r1"] = Unreachable("cut") if silent else 0

    @rule(tenant=tenants, connected=st.booleans())
    def connect(self, tenant: str, connected: bool) -> None:
        (self.stage.connected.add if connected else self.stage.connected.discard)(tenant)

    @rule(seconds=st.sampled_from((1.0, 59.0, UNDER_WAY_SECONDS - 1, UNDER_WAY_SECONDS)))
    def wait(self, seconds: float) -> None:
        self.stage.time += seconds

    @rule()
    def change_leader(self) -> None:
        """Let another leader begin, which knows the stored ledger alone."""
        stage = self.stage
        stage.added.clear()
        self.since.clear()
        stage.transfers = Transfers(
            stage.views,
            stage.ledger,
            "spread",
            stage,
            stage.connected.__contains__,
            stage._stateful,
            stage.added.append,
            lambda: stage.time,
            lambda: stage.now,
        )

    @invariant()
    def slices_are_neither_lost_nor_doubled(self) -> None:
        assert all(sum(self.stage.placed(key).values()) == 2 for key in self.keys)

    def teardown(self) -> None:
        """Every request is answered in time, though some tenants' Pods take a day to end and others do not answer."""
        until = self.stage.time + LONGEST_SECONDS
        self.stage.connected.add("k-quick")
        while self.open() and self.stage.time < until:
            self.stage.time += STEP_SECONDS
            self.look()
            self.decide(drained=True)
        self.look()
        assert not self.open(), "requests stand still"


TestWaves = Waves.TestCase
TestWaves.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)

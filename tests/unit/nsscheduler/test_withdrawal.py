"""A placement goes at a word of its tenant; without one only a few do at once, and only if the control plane is the tenant's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope
from vcsync.nsscheduler.withdrawal import PLACEMENTS, Withdrawal
from vcsync.tenancy.brake import Braked, Gate
from vcsync.tenancy.proof import WrongControlPlane


class Bench:
    """A tenant of which the test says what is lost."""

    def __init__(self, lost: int, placed: int) -> None:
        self.own = True
        self.gate = Gate(0.3, small=3, released=lambda _: None, clock=lambda: 0.0)

        async def prove() -> None:
            if not self.own:
                raise WrongControlPlane("it is another one")

        async def count() -> tuple[int, int]:
            return lost, placed

        handle: Any = SimpleNamespace(key="acme", prove=prove)
        self.withdrawal = Withdrawal(handle, self.gate, count)

    async def asks(self, what: str, *hards: dict[str, str]) -> None:
        placement = SimpleNamespace(spec=SimpleNamespace(namespace_uid="ns-1"))
        facts: Any = SimpleNamespace(key=("acme", "shop"), placement=placement, hards=hards)
        await self.withdrawal.require(facts, what)


def namespace() -> Envelope:
    return Envelope("shop", "", "ns-1", "5")


def quota(spec: bytes = b"{}") -> Envelope:
    return Envelope("all", "shop", "q-1", "5", spec=spec)


@pytest.mark.parametrize("what", ["namespace", "quota"])
async def test_many_at_once_wait_for_an_operator(what: str) -> None:
    bench = Bench(lost=10, placed=10)

    with pytest.raises(Braked, match="vcsync brake release acme"):
        await bench.asks(what)


async def test_a_few_may_go_while_nobody_watched() -> None:
    await Bench(lost=3, placed=3).asks("namespace")


async def test_a_namespace_that_was_seen_to_end_takes_its_placement_along() -> None:
    bench = Bench(lost=10, placed=10)
    bench.withdrawal.namespace_changed(Change(namespace(), None, reported=True))
    await bench.asks("namespace")


async def test_one_that_a_list_lacks_was_not_seen_to_end() -> None:
    bench = Bench(lost=10, placed=10)
    bench.withdrawal.namespace_changed(Change(namespace(), None))
    with pytest.raises(Braked):
        await bench.asks("namespace")


@pytest.mark.parametrize(
    "change",
    [
        Change(quota(), None, reported=True),
        Change(quota(b'{"hard":{"cpu":"1"}}'), quota(b'{"hard":{"cpu":"0"}}')),
    ],
)
async def test_a_quota_that_was_seen_to_go_or_change_takes_the_placement_along(change: Change) -> None:
    bench = Bench(lost=10, placed=10)
    bench.withdrawal.quota_changed(change)
    await bench.asks("quota")


@pytest.mark.parametrize(
    "before",
    [
        Change(None, quota()),
        Change(Envelope("other", "shop", "q-2", "4"), None, reported=True),
        Change(quota(b'{"hard":{"cpu":"1"}}'), quota(b'{"hard":{"cpu":"2"}}')),
    ],
    ids=["it appeared", "another went", "it changed"],
)
async def test_a_quota_that_a_list_lacks_was_not_seen_to_go(before: Change) -> None:
    bench = Bench(lost=10, placed=10)
    bench.withdrawal.quota_changed(before)
    bench.withdrawal.quota_changed(Change(quota(), None))
    with pytest.raises(Braked):
        await bench.asks("quota")


async def test_a_quota_of_nothing_is_a_word_of_the_tenant() -> None:
    await Bench(lost=10, placed=10).asks("quota", {"cpu": "0"})


async def test_another_control_plane_takes_nothing() -> None:
    bench = Bench(lost=1, placed=10)
    bench.own = False
    bench.withdrawal.namespace_changed(Change(namespace(), None, reported=True))
    with pytest.raises(WrongControlPlane):
        await bench.asks("namespace")


async def test_a_namespace_that_keeps_its_placement_lets_the_brake_go() -> None:
    bench = Bench(lost=10, placed=10)
    with pytest.raises(Braked):
        await bench.asks("namespace")
    bench.withdrawal.settled("shop")
    assert not bench.gate.is_braked("acme", PLACEMENTS)

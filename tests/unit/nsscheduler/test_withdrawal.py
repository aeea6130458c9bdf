"""Placements are removed after an observed request; without one only a few are, after a proof of the control plane."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from vcsync.api import names
from vcsync.kube.cache import Change
from vcsync.nsscheduler.withdrawal import PLACEMENTS, Withdrawal
from vcsync.objects.envelope import Envelope
from vcsync.tenancy.brake import Braked, DeletionLimiter, Releases
from vcsync.tenancy.proof import WrongControlPlane


class Bench:
    """A tenant of which the test says what is lost."""

    def __init__(self, lost: int, placed: int) -> None:
        self.own = True
        self.limiter = DeletionLimiter(
            0.3, small=3, released=lambda _: None, releases=Releases(), clock=lambda: 0.0
        )

        async def prove(lists: int) -> None:
            assert lists == 2
            if not self.own:
                raise WrongControlPlane("it is another one")

        async def count() -> tuple[int, int]:
            return lost, placed

        handle: Any = SimpleNamespace(key="acme", prove=prove)
        self.withdrawal = Withdrawal(handle, self.limiter, count, lambda: 2)

    async def asks(self, what: str, *hards: dict[str, str]) -> None:
        placement = SimpleNamespace(spec=SimpleNamespace(namespace_uid="ns-1"))
        inputs: Any = SimpleNamespace(key=("acme", "shop"), placement=placement, hards=hards)
        await self.withdrawal.require(inputs, what)


def namespace() -> Envelope:
    return Envelope("shop", "", "ns-1", "5")


def quota(spec: bytes = b"{}") -> Envelope:
    return Envelope("all", "shop", "q-1", "5", spec=spec)


@pytest.mark.parametrize("what", ["namespace", "quota"])
async def test_many_removals_wait_for_an_operator(what: str) -> None:
    bench = Bench(lost=10, placed=10)

    with pytest.raises(Braked, match="vcsync brake release acme"):
        await bench.asks(what)


async def test_few_removals_need_no_observed_request() -> None:
    await Bench(lost=3, placed=3).asks("namespace")


async def test_an_observed_deletion_of_a_namespace_removes_its_placement() -> None:
    bench = Bench(lost=10, placed=10)
    bench.withdrawal.namespace_changed(Change(namespace(), None, reported=True))
    await bench.asks("namespace")


async def test_a_namespace_missing_from_a_list_was_not_observed_to_be_deleted() -> None:
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
async def test_an_observed_deletion_or_change_of_a_quota_removes_the_placement(change: Change) -> None:
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
async def test_a_quota_missing_from_a_list_was_not_observed_to_be_deleted(before: Change) -> None:
    bench = Bench(lost=10, placed=10)
    bench.withdrawal.quota_changed(before)
    bench.withdrawal.quota_changed(Change(quota(), None))
    with pytest.raises(Braked):
        await bench.asks("quota")


async def test_opting_out_of_the_default_quota_is_a_request_of_the_tenant() -> None:
    bench = Bench(lost=10, placed=10)
    out = replace(namespace(), annotations={names.WITHOUT_DEFAULT_QUOTA: "true"})
    bench.withdrawal.namespace_changed(Change(namespace(), out))
    await bench.asks("quota")


async def test_a_namespace_that_has_opted_out_before_and_lost_its_quota_waits() -> None:
    bench = Bench(lost=10, placed=10)
    out = replace(namespace(), annotations={names.WITHOUT_DEFAULT_QUOTA: "true"})
    bench.withdrawal.namespace_changed(Change(out, replace(out, resource_version="6")))
    with pytest.raises(Braked):
        await bench.asks("quota")


async def test_a_quota_of_zero_is_a_request_of_the_tenant() -> None:
    await Bench(lost=10, placed=10).asks("quota", {"cpu": "0"})


async def test_a_wrong_control_plane_removes_nothing() -> None:
    bench = Bench(lost=1, placed=10)
    bench.own = False
    bench.withdrawal.namespace_changed(Change(namespace(), None, reported=True))
    with pytest.raises(WrongControlPlane):
        await bench.asks("namespace")


async def test_a_namespace_that_keeps_its_placement_releases_the_brake() -> None:
    bench = Bench(lost=10, placed=10)
    with pytest.raises(Braked):
        await bench.asks("namespace")
    bench.withdrawal.settled("shop")
    assert not bench.limiter.is_braked("acme", PLACEMENTS)

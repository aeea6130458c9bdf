"""Usage is read once in ten seconds, and a super cluster that tells none is left alone for as long."""

import asyncio

import msgspec
import pytest

from vcsync.apiserver.kubelets.pool import NotInPool
from vcsync.apiserver.kubelets.super_clusters import NotMeasured, TenantPods
from vcsync.apiserver.resourcemetrics.pod_usage import AT_ONCE, FRESH_SECONDS, PodUsage

SHOP, BLOG = TenantPods("acme", "cp-1", "shop"), TenantPods("acme", "cp-1", "blog")


def answer(*names: str) -> bytes:
    items = [{"metadata": {"name": name}, "timestamp": "t", "window": "15s"} for name in names]
    return msgspec.json.encode({"items": items})


class World:
    """Super clusters with one answer for everything, and a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.answer: bytes | Exception = answer("web")
        self.asked: list[tuple[str, str]] = []
        self.open = self.most = 0
        self.made = PodUsage(self, lambda: self.now)  # type: ignore[arg-type]

    async def usage(self, pods: TenantPods, super_id: str) -> bytes:
        self.asked.append((pods.namespace, super_id))
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0.001)
        self.open -= 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_an_answer_is_used_for_ten_seconds() -> None:
    world = World()
    for _ in range(3):
        assert list(await world.made.of(SHOP, "r1")) == ["web"]
    assert len(world.asked) == 1
    await world.made.of(BLOG, "r1")
    await world.made.of(SHOP, "r2")
    assert world.asked == [("shop", "r1"), ("blog", "r1"), ("shop", "r2")]
    world.now += FRESH_SECONDS
    await world.made.of(SHOP, "r1")
    assert len(world.asked) == 4
    assert len(world.made._answers) == 1


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (NotMeasured("r1 has no metrics server", anybody=True), 1),
        (NotMeasured("not permitted"), 2),
        (NotInPool("acme"), 2),
    ],
)
async def test_a_super_cluster_that_tells_nothing_is_left_alone(error: Exception, asked: int) -> None:
    world = World()
    world.answer = error
    for pods in (SHOP, BLOG, SHOP):
        assert await world.made.of(pods, "r1") == {}
    assert len(world.asked) == asked
    world.now += FRESH_SECONDS
    world.answer = answer("web")
    assert list(await world.made.of(BLOG, "r1")) == ["web"]


async def test_what_is_no_list_counts_as_nothing() -> None:
    world = World()
    world.answer = b"<html>"
    assert await world.made.of(SHOP, "r1") == {}


async def test_few_requests_are_open_at_once() -> None:
    world = World()
    many = [TenantPods("acme", "cp-1", f"n{number}") for number in range(30)]
    await asyncio.gather(*(world.made.of(pods, "r1") for pods in many))
    assert (len(world.asked), world.most) == (30, AT_ONCE)


async def test_ids_that_a_tenant_makes_up_leave_nothing_and_are_asked_few_at_a_time() -> None:
    world = World()
    world.answer = NotMeasured("not placed")
    await asyncio.gather(*(world.made.of(SHOP, f"r{number}") for number in range(300)))
    assert world.most == AT_ONCE
    world.now += FRESH_SECONDS
    await world.made.of(SHOP, "r1")
    assert (len(world.made._turns), len(world.made._answers), world.made._silent) == (0, 1, {})

"""The namespace scheduler's waves: who leaves a lost super cluster, when, and which slices must stay."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from memory_cluster import MemoryCluster, endless_pages

from vcsync.api import names
from vcsync.api.specs import STAY, Failover
from vcsync.kube.errors import Forbidden, KubeError, Status
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from vcsync.nsscheduler import departures
from vcsync.nsscheduler.departures import RETRY_SECONDS, Waves
from vcsync.nsscheduler.stateful import stateful_slices
from vcsync.scheduling.ledger import Entry, Ledger

SIZE = {"cpu": 1000}
SHOP = ("acme", "shop")
MOVE = Failover(policy="MoveAfter", after_seconds=60)
STATELESS = Failover(policy="MoveStateless", after_seconds=60)


class Stage:
    """A pool of which r2 is lost, and a namespace with two slices there."""

    def __init__(self) -> None:
        self.now = 0.0
        self.held = False
        self.losses = {"r2": 60.0}
        self.policy: Failover | None = MOVE
        self.stay: int | Exception = 0
        self.asked = 0
        self.added: list[tuple[str, str]] = []
        self.ledger = Ledger()
        self.ledger.put(SHOP, Entry(SIZE, {"r1": 1, "r2": 2}))
        self.waves = Waves(
            self,  # type: ignore[arg-type]
            self.ledger,
            lambda _tenant: self.policy,
            self.stateful,
            self.added.append,
            Random(7),
            lambda: self.now,
        )

    def lost(self) -> dict[str, float]:
        return self.losses

    async def stateful(self, _key: tuple[str, str], _super_id: str) -> int:
        self.asked += 1
        if isinstance(self.stay, Exception):
            raise self.stay
        return self.stay

    @property
    def leaving(self) -> dict[str, int]:
        return self.waves.departures.leaving(SHOP)


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_a_namespace_leaves_when_its_super_cluster_has_been_lost_for_long_enough(stage: Stage) -> None:
    stage.losses = {"r2": 59.0}
    await stage.waves.look()
    assert (stage.leaving, stage.added) == ({}, [])
    stage.losses = {"r2": 60.0}
    await stage.waves.look()
    assert (stage.leaving, stage.added) == ({"r2": 0}, [SHOP])


async def test_a_namespace_is_released_once(stage: Stage) -> None:
    await stage.waves.look()
    await stage.waves.look()
    assert stage.added == [SHOP]


@pytest.mark.parametrize("policy", [STAY, None])
async def test_without_a_policy_that_moves_nothing_leaves(stage: Stage, policy: Failover | None) -> None:
    stage.policy = policy
    await stage.waves.look()
    assert stage.leaving == {}


async def test_nothing_leaves_while_most_of_the_pool_is_out_of_touch(stage: Stage) -> None:
    stage.held = True
    await stage.waves.look()
    assert stage.added == []
    stage.held = False
    await stage.waves.look()
    assert stage.leaving == {"r2": 0}
    stage.held = True
    stage.waves.follow()
    assert stage.leaving == {}


async def test_a_return_keeps_what_has_not_left(stage: Stage) -> None:
    await stage.waves.look()
    stage.losses = {}
    stage.waves.follow()
    assert stage.leaving == {}


async def test_a_change_of_the_pool_enqueues_those_that_found_no_room(stage: Stage) -> None:
    await stage.waves.look()
    stage.waves.follow()
    assert stage.added == [SHOP, SHOP]
    stage.ledger.put(SHOP, Entry(SIZE, {"r1": 3}))
    stage.waves.follow()
    assert stage.added == [SHOP, SHOP]


async def test_slices_of_pods_with_claims_stay_if_the_policy_says_so(stage: Stage) -> None:
    stage.policy, stage.stay = STATELESS, 1
    await stage.waves.look()
    assert stage.leaving == {"r2": 1}


async def test_slices_stay_while_it_is_not_known_what_has_claims(stage: Stage) -> None:
    stage.policy, stage.stay = STATELESS, Forbidden(Status(403, message="old roles"))
    for _ in range(3):
        await stage.waves.look()
    assert (stage.leaving, stage.asked) == ({}, 1)
    stage.stay, stage.now = 0, RETRY_SECONDS
    await stage.waves.look()
    assert stage.leaving == {"r2": 0}


async def test_a_tenant_that_does_not_answer_is_put_aside_with_all_its_namespaces(stage: Stage) -> None:
    """Those that answer leave with the same wave, and do not wait for it."""
    stage.ledger.drop(SHOP)
    silent = [("silent", f"n{number:02}") for number in range(40)]
    quiet = [("quiet", f"n{number}") for number in range(3)]
    for key in [*silent, *quiet]:
        stage.ledger.put(key, Entry(SIZE, {"r2": 1}))
    stage.policy = STATELESS
    asked: list[tuple[str, str]] = []
    answer = asyncio.Event()

    async def stateful(key: tuple[str, str], _super_id: str) -> int:
        asked.append(key)
        if key[0] == "silent":
            await answer.wait()
            raise KubeError("cut")
        return 0

    stage.waves._stateful = stateful
    look = asyncio.create_task(stage.waves.look())
    while len(asked) < 10:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sorted(stage.added) == quiet, "tenants take turns, and nobody waits for the one that is silent"
    answer.set()
    await look
    asked.clear()
    await stage.waves.look()
    assert asked == []
    stage.now = RETRY_SECONDS
    await stage.waves.look()
    assert {tenant for tenant, _ in asked} == {"silent"}


async def test_the_first_wave_of_a_term_does_not_follow_the_last_one_of_another_at_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[tuple[float, int]] = []

    async def sleep(seconds: float) -> None:
        waits.append((seconds, len(stage.added)))
        if len(waits) > 1:
            raise asyncio.CancelledError

    monkeypatch.setattr(departures.asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await stage.waves.run()
    assert waits == [(departures.LOOK_SECONDS, 0), (departures.LOOK_SECONDS, 1)]


def on(super_id: str) -> dict[str, Any]:
    return {"labels": {names.SUPER_CLUSTER: super_id}}


def add_pod(tenant: MemoryCluster, name: str, super_id: str, *claims: str) -> None:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    container = {"name": "c", "resources": {"requests": {"cpu": "700m"}}}
    tenant.put(
        PODS, name, "shop", metadata=on(super_id), spec={"containers": [container], "volumes": volumes}
    )


@pytest.mark.parametrize(
    ("pods", "slices"),
    [
        ({}, 1),
        ({"a": ("r2",)}, 1),
        ({"a": ("r2", "data")}, 1),
        ({"a": ("r2", "data"), "b": ("r2", "data")}, 2),
        ({"a": ("r2", "data"), "b": ("r1", "data"), "c": ("r2",)}, 1),
    ],
)
async def test_slices_with_a_claim_stay_for_the_pods_that_use_claims(
    pods: dict[str, tuple[str, ...]], slices: int
) -> None:
    tenant = MemoryCluster("tenant")
    tenant.put(PERSISTENT_VOLUME_CLAIMS, "data", "shop", metadata=on("r2"))
    for name, rest in pods.items():
        add_pod(tenant, name, *rest)
    assert await stateful_slices(tenant, "shop", "r2", SIZE) == slices  # type: ignore[arg-type]


async def test_a_list_of_pods_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = MemoryCluster("tenant")
    tenant.put(PERSISTENT_VOLUME_CLAIMS, "data", "shop", metadata=on("r2"))
    monkeypatch.setattr(tenant, "pages", endless_pages)
    with pytest.raises(KubeError, match="more than 200 pages"):
        await stateful_slices(tenant, "shop", "r2", SIZE)  # type: ignore[arg-type]


async def test_no_slice_stays_where_no_claim_is() -> None:
    tenant = MemoryCluster("tenant")
    tenant.put(PERSISTENT_VOLUME_CLAIMS, "data", "shop", metadata=on("r1"))
    add_pod(tenant, "a", "r2")
    assert await stateful_slices(tenant, "shop", "r2", SIZE) == 0  # type: ignore[arg-type]

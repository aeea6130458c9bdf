"""The values that a syncer reports: capacity, distributed amounts, drift and troubles."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from engine_paper import PaperApi
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from vcsync.api.objects import SuperCluster, to_wire
from vcsync.api.specs import SuperClusterSpec, SuperClusterStatus, Trouble
from vcsync.kube.errors import Status, Unauthorized
from vcsync.objects.envelope import Envelope, parse
from vcsync.objects.merge_patch import merge_patch
from vcsync.syncer.heartbeat import NOT_PUBLISHED, Heartbeat, capacity, reports_patch, status_patch
from vcsync.syncer.service import Syncer, in_shard


def node(name: str, *, cpu: str = "4", ready: str = "True", **spec: Any) -> Envelope:
    body = {
        "metadata": {"name": name},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }
    return parse(json.dumps(body).encode())


def test_only_ready_schedulable_nodes_count() -> None:
    seen = capacity(
        [node("a"), node("b", cpu="2500m"), node("c", ready="Unknown"), node("d", unschedulable=True)]
    )
    assert seen.allocatable["cpu"] == 6_500
    assert seen.largest_node["cpu"] == 4_000
    assert (seen.ready, seen.total) == (2, 4)


def test_the_version_of_nodes_changes_with_what_scheduling_depends_on() -> None:
    def version(*nodes: Envelope) -> str:
        return capacity(nodes).version

    a, b = node("a"), node("b")
    tainted = replace(a, spec=b'{"taints":[{"key":"only","value":"others","effect":"NoSchedule"}]}')
    labelled = replace(a, labels={"zone": "east"})
    versions = [
        version(*nodes) for nodes in ((a,), (a, b), (tainted, b), (labelled, b), (node("a", cpu="5"), b))
    ]
    assert len(set(versions)) == len(versions)
    assert version(a, b) == version(b, a) == version(a, b, node("c", ready="False"))
    heartbeat = replace(a, annotations={"seen": "now"}, resource_version="8")
    assert version(heartbeat, b) == version(a, b), "what does not matter causes no write"


def test_an_invalid_quantity_counts_as_zero() -> None:
    assert capacity([node("a", cpu="lots")]).allocatable.get("cpu", 0) == 0


def written(
    current: SuperCluster, nodes: list[Envelope], allocated: dict[str, int], *, reachable: bool = True
) -> dict[str, Any]:
    return status_patch(
        current,
        capacity(nodes),
        allocated=allocated,
        reachable=reachable,
        why_unreachable="refused",
        identity="me",
        version="v1.36.3",
        now="2026-05-01T12:00:00Z",
    )


def test_definitions_that_tenants_do_not_get_are_reported_until_they_are_published() -> None:
    def reported(unpublished: dict[str, str], conditions: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
        patch = status_patch(
            SuperCluster(
                name="r1",
                spec=SuperClusterSpec(id="r1"),
                status=msgspec.convert({"conditions": conditions}, SuperClusterStatus),
            ),
            capacity([]),
            allocated={},
            reachable=True,
            why_unreachable="",
            identity="me",
            version="v1.36.3",
            now="2026-05-01T12:00:00Z",
            unpublished=unpublished,
        )
        found: list[dict[str, Any]] = patch["status"]["conditions"]
        return found

    def last(conditions: list[dict[str, Any]]) -> tuple[str, str, str] | None:
        found = next((each for each in conditions if each["type"] == NOT_PUBLISHED), None)
        return found and (found["status"], found["reason"], found.get("message", ""))

    assert last(reported({})) is None, "only operators that publish definitions see it"
    told = reported({"b.example.com": "spec.group: no", "a.example.com": "spec: no"})
    assert last(told) == ("True", "Refused", "a.example.com: spec: no; b.example.com: spec.group: no")
    assert last(reported({}, tuple(told))) == ("False", "AllPublished", "")


def test_a_super_cluster_that_does_not_answer_is_not_ready_with_the_reason() -> None:
    current = SuperCluster(name="r1", generation=7, spec=SuperClusterSpec(id="r1"))
    patch = written(current, [node("a")], {"cpu": 5_000}, reachable=False)
    conditions = {c["type"]: (c["status"], c.get("message")) for c in patch["status"]["conditions"]}
    assert conditions["Reachable"] == ("False", "refused")
    assert conditions["Ready"][0] == "False"
    decided_on = {c["observedGeneration"] for c in patch["status"]["conditions"]}
    assert decided_on == {7}, "kubectl wait ignores what was said of an older generation"
    assert patch["status"]["free"]["cpu"] == "0", "never less than nothing"


@pytest.mark.parametrize(
    ("headroom", "overcommit", "free"),
    [
        ({}, {}, {"cpu": "3", "memory": "8589934592", "pods": "110"}),
        ({"cpu": "25%"}, {}, {"cpu": "2", "memory": "8589934592", "pods": "110"}),
        (
            {"cpu": "25%"},
            {"cpu": "200%", "pods": "150%"},
            {"cpu": "5", "memory": "8589934592", "pods": "165"},
        ),
        ({"cpu": "much"}, {}, {}),
    ],
)
def test_free_amounts_can_still_be_distributed(
    headroom: dict[str, str], overcommit: dict[str, str], free: dict[str, str]
) -> None:
    spec = SuperClusterSpec(id="r1", headroom=headroom, overcommit=overcommit)
    patch = written(SuperCluster(name="r1", spec=spec), [node("a")], {"cpu": 1_000})
    assert patch["status"]["free"] == free


def test_a_resource_that_no_node_has_is_removed_from_the_status() -> None:
    before = SuperClusterStatus(
        allocatable={"cpu": "8", "example.com/gpu": "2"},
        allocated={"cpu": "1"},
        free={"cpu": "7", "example.com/gpu": "2"},
        largest_node={"cpu": "8", "example.com/gpu": "2"},
    )
    current = SuperCluster(name="r1", spec=SuperClusterSpec(id="r1"), status=before)
    status = merge_patch(to_wire(before), written(current, [node("a")], {})["status"])
    for field in ("allocatable", "free", "largestNode"):
        assert status[field] == {"cpu": "4", "memory": "8589934592", "pods": "110"}
    assert status["allocated"] == {}


def test_the_last_amounts_remain_while_no_node_is_ready() -> None:
    before = SuperClusterStatus(allocatable={"cpu": "8"}, free={"cpu": "8"}, largest_node={"cpu": "4"})
    current = SuperCluster(name="r1", spec=SuperClusterSpec(id="r1"), status=before)
    status = merge_patch(
        to_wire(before), written(current, [node("a", ready="False")], {"cpu": 3_000})["status"]
    )
    assert (status["allocatable"], status["largestNode"]) == ({"cpu": "8"}, {"cpu": "4"})
    assert (status["free"], status["nodes"]) == ({"cpu": "5"}, {"ready": 0, "total": 1})


class _Refusing:
    """A super cluster that knows us no more, and a meta cluster that takes note."""

    def __init__(self) -> None:
        self.patches: list[dict[str, Any]] = []

    async def version(self) -> dict[str, Any]:
        raise Unauthorized(Status(401, "Unauthorized", "Unauthorized"), request="GET /version")

    async def get(self, *_: Any) -> Envelope:
        return parse(b'{"metadata":{"name":"r1"},"spec":{"id":"r1"}}')

    async def patch(self, _resource: Any, _name: str, patch: dict[str, Any], **_: Any) -> None:
        self.patches.append(patch)


async def test_a_super_cluster_that_refuses_our_credentials_is_shown_with_the_remedy() -> None:
    api = _Refusing()
    beat = Heartbeat(
        meta=api,  # type: ignore[arg-type]
        super_client=api,  # type: ignore[arg-type]
        super_id="r1",
        nodes=list,
        stale=lambda: False,
        entries=list,
        identity="test",
    )
    task = asyncio.create_task(beat.run())
    async with asyncio.timeout(5):
        while not api.patches:
            await asyncio.sleep(0)
    task.cancel()
    [reachable] = [c for c in api.patches[0]["status"]["conditions"] if c["type"] == "Reachable"]
    assert reachable["status"] == "False"
    assert "401" in reachable["message"]
    assert "put a valid kubeconfig into the Secret of spec.kubeconfigSecretRef" in reachable["message"]
    assert "vcsync-system/super-r1" in reachable["message"]


@given(st.text(min_size=1), st.integers(1, 16))
def test_every_tenant_belongs_to_exactly_one_shard(key: str, count: int) -> None:
    assert [in_shard(key, (which, count)) for which in range(1, count + 1)].count(True) == 1


def test_shards_share_the_tenants() -> None:
    keys = [f"vcsync-{number:06x}-tenant" for number in range(400)]
    sizes = [sum(in_shard(key, (which, 4)) for key in keys) for which in (1, 2, 3, 4)]
    assert sum(sizes) == 400
    assert min(sizes) > 50


def trouble(tenant: str) -> Trouble:
    return Trouble(tenant=tenant, type="Braked", message="25 of 25 pods")


@pytest.mark.parametrize(
    ("current", "troubles", "shard", "patch"),
    [
        ({}, (), (1, 1), None),
        ({}, ("a",), (1, 1), {"1/1": ["a"]}),
        ({"1/1": ("a",)}, ("a",), (1, 1), None),
        ({"1/1": ("a",)}, (), (1, 1), {"1/1": None}),
        ({"1/1": ("a",)}, ("b",), (1, 2), {"1/2": ["b"], "1/1": None}),
        ({"1/1": ("a",), "1/2": ()}, ("b",), (2, 2), {"2/2": ["b"]}),
    ],
)
def test_each_shard_reports_and_the_first_removes_former_reports(
    current: dict[str, tuple[str, ...]],
    troubles: tuple[str, ...],
    shard: tuple[int, int],
    patch: dict[str, Any] | None,
) -> None:
    before = {key: tuple(map(trouble, tenants)) for key, tenants in current.items()}
    found = reports_patch(before, tuple(map(trouble, troubles)), shard)
    shown = found and {
        key: troubles and [each["tenant"] for each in troubles] for key, troubles in found.items()
    }
    assert shown == patch


def test_delayed_items_are_not_counted_as_queued() -> None:
    api: Any = PaperApi("any")
    syncer = Syncer(meta=api, super_client=api, super_id="r1")
    syncer._tenants["acme"] = SimpleNamespace(
        objects=SimpleNamespace(tenant_caches=SimpleNamespace(all=tuple))
    )  # type: ignore[assignment]
    syncer._pool.add("acme", ("pods", "shop", "now"))
    for name in ("a", "b"):
        syncer._pool.add_after("acme", ("pods", "shop", name), 60.0)
    values = {family.name: [sample.value for sample in family.samples] for family in syncer.metrics()}
    assert values["vcsync_syncer_tenant_queued"] == [1.0]
    assert values["vcsync_syncer_tenant_delayed"] == [2.0]


async def test_every_shard_reports_its_tenants_and_reads_the_operators_settings() -> None:
    api, read = _Refusing(), list[SuperClusterSpec]()
    beat = Heartbeat(
        meta=api,  # type: ignore[arg-type]
        super_client=api,  # type: ignore[arg-type]
        super_id="r1",
        nodes=list,
        stale=lambda: False,
        entries=list,
        identity="test",
        troubles=lambda: [trouble("acme")],
        shard=(2, 2),
        settings=read.append,
    )
    task = asyncio.create_task(beat.run())
    async with asyncio.timeout(5):
        while not api.patches:
            await asyncio.sleep(0)
    task.cancel()
    expected = {"tenant": "acme", "type": "Braked", "message": "25 of 25 pods"}
    assert api.patches == [{"status": {"reports": {"2/2": [expected]}}}]
    assert [each.id for each in read] == ["r1"]

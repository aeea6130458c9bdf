"""The figures a syncer tells: capacity, what the ledger dealt out, drift, and when a patrol is not believed."""

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from vcsync.kube.envelope import Envelope, parse
from vcsync.kube.errors import Status, Unauthorized
from vcsync.syncer.drift import fields
from vcsync.syncer.heartbeat import Heartbeat, capacity, status_patch
from vcsync.syncer.service import in_shard


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


def test_only_ready_nodes_that_take_pods_count() -> None:
    seen = capacity(
        [node("a"), node("b", cpu="2500m"), node("c", ready="Unknown"), node("d", unschedulable=True)]
    )
    assert seen.allocatable["cpu"] == 6_500
    assert seen.largest_node["cpu"] == 4_000
    assert (seen.ready, seen.total) == (2, 4)


def test_a_quantity_nobody_can_read_counts_as_nothing() -> None:
    assert capacity([node("a", cpu="lots")]).allocatable.get("cpu", 0) == 0


def test_a_super_cluster_that_does_not_answer_is_not_ready_and_says_why() -> None:
    patch = status_patch(
        capacity([node("a")]),
        allocated={"cpu": 5_000},
        reachable=False,
        why_unreachable="refused",
        conditions=(),
        identity="me",
        version="v1.36.3",
        generation=7,
        now="2026-05-01T12:00:00Z",
    )
    told = {c["type"]: (c["status"], c.get("message")) for c in patch["status"]["conditions"]}
    assert told["Reachable"] == ("False", "refused")
    assert told["Ready"][0] == "False"
    decided_on = {c["observedGeneration"] for c in patch["status"]["conditions"]}
    assert decided_on == {7}, "kubectl wait ignores what was said of an older generation"
    assert patch["status"]["free"]["cpu"] == "0", "never less than nothing"


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


def test_drift_names_fields_without_their_values_or_preconditions() -> None:
    patch = {
        "metadata": {"uid": "u", "labels": {"app": "x"}},
        "data": {"password": "c2VjcmV0"},
        "spec": {"a": None},
    }
    assert fields(patch) == ["data.password", "metadata.labels.app", "spec.a"]


@given(st.text(min_size=1), st.integers(1, 16))
def test_every_tenant_belongs_to_exactly_one_shard(key: str, count: int) -> None:
    assert [in_shard(key, (which, count)) for which in range(1, count + 1)].count(True) == 1


def test_shards_share_the_tenants() -> None:
    keys = [f"vcsync-{number:06x}-tenant" for number in range(400)]
    sizes = [sum(in_shard(key, (which, 4)) for key in keys) for which in (1, 2, 3, 4)]
    assert sum(sizes) == 400
    assert min(sizes) > 50

"""Usage of Pods is read in the super clusters where they run; a slow super cluster does not delay others."""

import asyncio
import base64
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from controllers_world import NAMESPACE, TENANT, Shelf

from vcsync.api import names
from vcsync.api.resources import SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.controllers.framework.mirror import placed
from vcsync.controllers.framework.plan import View
from vcsync.controllers.hpa.pool_metrics import AT_ONCE, PoolMetrics
from vcsync.kube.errors import CredentialsError, KubeError, NotFound, Status, Unreachable
from vcsync.kube.resources import NAMESPACES, SECRETS, Resource
from vcsync.objects.envelope import Envelope, encode, parse

PLACE = names.super_namespace("vcsync-acme-root", NAMESPACE)


def body(kind: dict[str, Any]) -> Envelope:
    return parse(encode({**kind, "metadata": {"uid": "u", "resourceVersion": "1", **kind["metadata"]}}))


class Meta:
    """The operator's space: one tenant, two super clusters."""

    def __init__(self) -> None:
        self.pool = True
        self.read = 0
        self.looked_up: list[str] = []
        self.kubeconfigs = {"r1": b"one", "r2": b"two"}

    async def list(self, resource: Resource) -> list[Envelope]:
        if not self.pool:
            raise NotFound(Status(404))
        if resource == SUPER_CLUSTERS:
            return [body({"metadata": {"name": name}, "spec": {"id": name}}) for name in self.kubeconfigs]
        assert resource == VIRTUAL_CLUSTERS
        self.read += 1
        annotations = {names.CONTROL_PLANE_UID: "uid-of-acme"}
        whole = {"metadata": {"name": "acme", "namespace": "vcsync", "annotations": annotations}}
        status = {"phase": "Running", "clusterNamespace": "vcsync-acme-root"}
        return [body({**whole, "spec": {"tenant": "acme"}, "status": status})]

    async def get(self, resource: Resource, name: str, _namespace: str = "") -> Envelope:
        self.looked_up.append(name)
        await asyncio.sleep(0)
        if resource == SUPER_CLUSTERS and name in self.kubeconfigs:
            return body({"metadata": {"name": name}, "spec": {"id": name}})
        if resource == SECRETS:
            found = {names.super_secret(each): text for each, text in self.kubeconfigs.items()}
            data = {names.KUBECONFIG_KEY: base64.b64encode(found[name]).decode()}
            return body({"metadata": {"name": name}, "data": data})
        raise NotFound(Status(404))


class Super:
    """A super cluster's API: `pods` by namespace, or the error that it fails with."""

    def __init__(self, *pods: str) -> None:
        self.pods = {PLACE: pods}
        self.error: KubeError | None = None
        self.asked: list[str] = []
        self.closed = 0

    async def request(self, _method: str, path: str) -> bytes:
        self.asked.append(path)
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        [place] = [
            each for each in self.pods if path == f"/apis/metrics.k8s.io/v1beta1/namespaces/{each}/pods"
        ]
        return msgspec.json.encode({"items": [{"metadata": {"name": name}} for name in self.pods[place]]})

    async def close(self) -> None:
        self.closed += 1


class World:
    """Super clusters r1 and r2, and the requests to them."""

    def __init__(self) -> None:
        self.meta = Meta()
        self.supers = {"r1": Super("a", "b", "of-nobody"), "r2": Super("c")}
        self.connected: list[tuple[bytes, str]] = []
        self.now = 0.0
        self.metrics = PoolMetrics(self.meta, connect=self.connect, clock=lambda: self.now)  # type: ignore[arg-type]
        shelf = Shelf()
        shelf.bodies["", "kube-system"] = {
            "metadata": {"name": "kube-system", "uid": "uid-of-acme", "resourceVersion": "1"}
        }
        self.view = View({NAMESPACES: shelf}, datetime(2026, 1, 1, tzinfo=UTC), lambda: "")

    def connect(self, kubeconfig: bytes, super_id: str) -> Any:
        self.connected.append((kubeconfig, super_id))
        return self.supers[super_id]

    async def of(self, **places: str) -> list[str] | None:
        pods = []
        for name, place in places.items():
            labels = {names.SUPER_CLUSTER: place} if place else {}
            pods.append(
                placed(body({"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}}), TENANT)
            )
        found = await self.metrics.of_pods(self.view, TENANT, NAMESPACE, pods)
        return None if found is None else [msgspec.json.decode(each)["metadata"]["name"] for each in found]


async def test_usage_is_requested_where_a_pod_runs() -> None:
    world = World()
    assert await world.of(a="r1", b="r1", c="r2", waits="") == ["a", "b", "c"]
    assert await world.of(a="r2") == []
    assert world.connected == [(b"one", "r1"), (b"two", "r2")]


async def test_answers_are_cached_for_seconds_and_the_pool_for_a_minute() -> None:
    world = World()
    for _ in range(5):
        await world.of(a="r1")
    assert (len(world.supers["r1"].asked), world.meta.read) == (1, 1)
    world.now += 11
    await world.of(a="r1")
    assert (len(world.supers["r1"].asked), world.meta.read) == (2, 1)
    world.now += 60
    await world.of(a="r1")
    assert world.meta.read == 2
    assert len(world.connected) == 1
    world.meta.kubeconfigs["r1"] = b"renewed"
    world.now += 61
    await world.of(a="r1")
    assert world.connected[-1] == (b"renewed", "r1")
    assert world.supers["r1"].closed == 1


async def test_concurrent_callers_share_one_request() -> None:
    world = World()
    found = await asyncio.gather(*(world.of(a="r1", b="r1") for _ in range(10)))
    assert found == [["a", "b"]] * 10
    assert len(world.connected) == 1
    assert len(world.supers["r1"].asked) <= AT_ONCE


async def test_without_a_pool_or_its_metrics_no_source_measures() -> None:
    world = World()
    world.meta.pool = False
    assert await world.of(a="r1") is None
    world = World()
    world.supers["r1"].error = NotFound(Status(404))
    assert await world.of(a="r1") is None
    assert await world.of(a="r1", c="r2") == ["c"]
    assert await world.of(a="unknown") is None


async def test_a_label_with_an_unknown_super_cluster_causes_no_request() -> None:
    world = World()
    assert await world.of(a="r1", **{f"x{number}": f"made-up-{number}" for number in range(50)}) == ["a"]
    assert world.meta.looked_up == ["r1", names.super_secret("r1")]
    assert set(world.metrics._supers) == {"r1"}


async def test_a_silent_super_cluster_is_not_asked_for_a_while() -> None:
    world = World()
    lost = world.supers["r1"]
    lost.error = Unreachable("lost")
    assert await world.of(a="r1", c="r2") == ["c"]
    world.now += 5
    assert await world.of(b="r1", c="r2") == ["c"]
    assert (len(lost.asked), lost.closed) == (1, 1)
    lost.error = None
    world.now += 11
    assert await world.of(a="r1", c="r2") == ["a", "c"]


async def test_invalid_credentials_count_as_no_super_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()

    def refuse(*_: Any) -> Any:
        raise CredentialsError("no kubeconfig")

    monkeypatch.setattr(world.metrics, "_connect", refuse)
    assert await world.of(a="r1") is None


async def test_close_closes_all_clients() -> None:
    world = World()
    await world.of(a="r1", c="r2")
    await world.metrics.close()
    assert [each.closed for each in world.supers.values()] == [1, 1]

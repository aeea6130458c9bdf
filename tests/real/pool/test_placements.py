"""Changes of the ledger take effect immediately, a lost placement is drained in order, and an idle system writes nothing."""

from __future__ import annotations

import json

import pytest
from pool_kit import (
    TWO_SLICES,
    Json,
    Pool,
    Space,
    annotation,
    condition,
    container,
    deployment,
    is_running,
    pod,
    quota,
    read,
    still_kubelets,
    super_of,
)

from tests.real.waiting import eventually
from vcsync.api import names
from vcsync.objects.quantity import milli

NODE_PORTS = "services.nodeports"


def test_a_new_placement_gets_all_objects_immediately(pool: Pool) -> None:
    """Existing objects of the namespace are synced to its new super cluster."""
    with pool.space() as space:
        space.pin(r1=2)
        eventually(lambda: space.placements() == {"r1": 2})
        eventually(lambda: space.stands_on() == {"r1"})
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "early"}, "data": {"a": "b"}}
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "early"},
            "spec": {"selector": {"app": "early"}, "ports": [{"port": 80}]},
        }
        space.apply(config, service)
        eventually(lambda: space.there("r1", "configmaps", "early"))
        assert space.there("r2", "configmaps", "early") is None

        space.pin(r1=1, r2=1)

        eventually(lambda: space.placements() == {"r1": 1, "r2": 1})
        eventually(lambda: space.there("r2", "configmaps", "early"))
        eventually(lambda: space.there("r2", "services", "early"))
        eventually(lambda: space.there("r2", "serviceaccounts", "default"))


@pytest.mark.core
def test_losing_a_placement_drains_pods_first_then_the_rest_then_the_finalizer(pool: Pool) -> None:
    with pool.space() as space:
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "needed"}, "data": {"a": "b"}}
        mount = [{"name": "needed", "mountPath": "/needed"}]
        volume = [{"name": "needed", "configMap": {"name": "needed"}}]
        space.apply(
            config,
            pod(
                "worker",
                on="r2",
                containers=[container(volumeMounts=mount)],
                volumes=volume,
                terminationGracePeriodSeconds=60,
            ),
        )
        space.running("worker")
        with still_kubelets(pool.supers["r2"]):
            space.pin(r1=2)
            # The Pod is deleted with its own grace period, which the tenant sees.
            standing = eventually(lambda: _deleting(space.there("r2", "pods", "worker")))
            assert standing["metadata"]["deletionGracePeriodSeconds"] == 60
            mine = eventually(lambda: _deleting(space.get("pods", "worker")))
            assert mine["metadata"]["deletionGracePeriodSeconds"] == 60
            (event,) = eventually(lambda: space.events("worker", "SlicesLost"))
            assert "has no slices on super cluster r2 any more" in event["message"]
            assert event["involvedObject"]["uid"] == mine["metadata"]["uid"]
            # Until it has stopped, the objects that it needs and the line of the ledger remain.
            assert space.there("r2", "configmaps", "needed")
            assert "deletionTimestamp" not in (_super_namespace(space, "r2") or {})["metadata"]
            assert names.drain_finalizer("r2") in (space.ledger() or {})["metadata"]["finalizers"]
            assert (space.ledger() or {})["status"]["placements"] == {"r1": 2}
        eventually(lambda: _super_namespace(space, "r2") is None)
        eventually(lambda: (space.ledger() or {})["metadata"]["finalizers"] == [names.drain_finalizer("r1")])
        eventually(lambda: space.get("pods", "worker") is None)


def _deleting(found: Json | None) -> Json | None:
    return found if found is not None and "deletionTimestamp" in found["metadata"] else None


def _super_namespace(space: Space, super_id: str) -> Json | None:
    return read(space.pool.supers[super_id], f"/api/v1/namespaces/{space.super_name}")


@pytest.mark.core
def test_a_cordoned_super_cluster_keeps_its_slices_and_gets_no_new_ones(pool: Pool) -> None:
    with pool.space() as space:
        space.apply(deployment("web", 2))
        assert {super_of(each) for each in space.all_running("web", 2)} == {"r1", "r2"}
        pool.system.vcsync("super", "cordon", "r2")
        try:
            with pool.space_unplaced() as later:
                eventually(lambda: later.placements() == {"r1": 2})
            assert space.placements() == {"r1": 1, "r2": 1}
        finally:
            pool.system.vcsync("super", "uncordon", "r2")


@pytest.mark.core
def test_a_namespace_without_a_quota_waits_with_a_reason(pool: Pool) -> None:
    space = pool.new_space()
    space.create()
    try:
        (event,) = eventually(lambda: _namespace_events(space, "NoQuota"))
        assert "ResourceQuota" in event["message"]
        eventually(space.has_account)
        space.apply(pod("early"))
        found = eventually(lambda: condition(space.get("pods", "early"), "PodScheduled"))
        assert found["status"] == "False"
        assert "ResourceQuota" in found["message"]
        assert space.placements() == {}
        assert space.ledger() is None
        # The moment the quota comes, all of it goes on. Pods need no second look by their owner.
        space.apply(quota(TWO_SLICES))
        space.running("early")
    finally:
        space.delete()


def _namespace_events(space: Space, reason: str) -> list[Json]:
    query = f"/api/v1/events?fieldSelector=involvedObject.kind%3DNamespace,involvedObject.name%3D{space.name}"
    found: list[Json] = (read(space.tenant, query) or {}).get("items", [])
    return [each for each in found if each["reason"] == reason]


@pytest.mark.core
def test_the_operators_default_quota_applies_and_is_visible(pool: Pool) -> None:
    with pool.configured("umbrella", defaultQuota=TWO_SLICES):
        space = pool.new_space("umbrella")
        space.create()
        try:
            eventually(lambda: space.placements() == {"r1": 1, "r2": 1})
            shown = json.loads(annotation(space.namespace(), names.DEFAULT_QUOTA) or "{}")
            assert shown == TWO_SLICES
            refused = f"{names.WITHOUT_DEFAULT_QUOTA}=true"
            space.kubectl("annotate", "namespace", space.name, refused)
            eventually(lambda: not space.placements())
            space.kubectl("annotate", "namespace", space.name, f"{names.WITHOUT_DEFAULT_QUOTA}-")
            eventually(lambda: space.placements() == {"r1": 1, "r2": 1})
            eventually(space.has_account)
            space.apply(pod("one"))
            space.running("one")
        finally:
            space.delete()


def test_placement_annotations_are_restored_after_a_tenants_change(pool: Pool, space: Space) -> None:
    forged = {
        "metadata": {
            "annotations": {names.PLACEMENTS: '{"r1":50}'},
            "labels": {names.placement_label("r1"): "50"},
        }
    }
    space.kubectl("patch", "namespace", space.name, "--type=merge", "-p", json.dumps(forged))
    eventually(lambda: space.placements() == {"r1": 1, "r2": 1})
    eventually(lambda: (space.namespace() or {})["metadata"]["labels"][names.placement_label("r1")] == "1")
    slices = eventually(lambda: space.there("r1", "resourcequotas", names.SUPER_QUOTA_NAME))
    assert slices["spec"]["hard"]["requests.cpu"] == "500m"


@pytest.mark.core
@pytest.mark.parametrize("plural", ["configmaps", "pods", "resourcequotas"])
def test_changes_in_a_super_cluster_are_reverted(pool: Pool, space: Space, plural: str) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fixed"}, "data": {"a": "b"}}
    space.apply(config, pod("fixed", on="r1", labels={"app": "fixed"}))
    space.running("fixed")
    eventually(lambda: space.there("r1", "configmaps", "fixed"))
    name, patch, right = {
        "configmaps": ("fixed", {"data": {"a": "tampered"}}, lambda found: found["data"] == {"a": "b"}),
        "pods": (
            "fixed",
            {"metadata": {"labels": {"app": "tampered"}}},
            lambda found: found["metadata"]["labels"]["app"] == "fixed",
        ),
        "resourcequotas": (
            names.SUPER_QUOTA_NAME,
            {"spec": {"hard": {"requests.cpu": "100"}}},
            lambda found: found["spec"]["hard"]["requests.cpu"] == "500m",
        ),
    }[plural]
    r1 = pool.supers["r1"]
    r1.kubectl("-n", space.super_name, "patch", plural, name, "--type=merge", "-p", json.dumps(patch))
    eventually(lambda: right(space.there("r1", plural, name) or {}))


def test_only_changed_objects_are_written(pool: Pool, space: Space) -> None:
    """A change of one of many objects causes one write of it in each super cluster, and no other."""
    many = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c-{n}"}, "data": {"a": "b"}}
        for n in range(10)
    ]
    space.apply(*many)
    for super_id in pool.supers:
        eventually(lambda super_id=super_id: len(_ours(space, super_id)) == 10)  # type: ignore[misc]
    before = {super_id: _ours(space, super_id) for super_id in pool.supers}

    space.kubectl("patch", "configmap", "c-3", "-p", '{"data":{"a":"c"}}')

    for super_id in pool.supers:
        eventually(lambda super_id=super_id: _ours(space, super_id) != before[super_id])  # type: ignore[misc]
        after = _ours(space, super_id)
        assert {name for name in after if after[name] != before[super_id][name]} == {"c-3"}


def _ours(space: Space, super_id: str) -> dict[str, str]:
    """Return the versions of the tenant's own ConfigMaps in a super cluster."""
    return {
        each["metadata"]["name"]: each["metadata"]["resourceVersion"]
        for each in space.all_there(super_id, "configmaps")
        if each["metadata"]["name"].startswith("c-")
    }


@pytest.mark.core
def test_a_namespace_has_no_more_pods_than_its_slices_though_they_request_nothing(pool: Pool) -> None:
    nothing = {"requests": {"cpu": "0", "memory": "0"}}
    idle = [container(resources=nothing)]
    with pool.space() as space:
        room = int((space.ledger() or {})["spec"]["sliceSize"]["pods"])
        space.apply(deployment("idle", 2 * room + 2, containers=idle))
        waiting = eventually(lambda: _waiting(space, 2))
        for each in waiting:
            message = condition(each, "PodScheduled")["message"]
            assert f"r1: pods 1 asked, 0 of {room} free; r2: pods 1 asked, 0 of {room} free" in message
        eventually(lambda: sum(map(is_running, space.pods("idle"))) == 2 * room)
        # A Pod that the tenant assigns to a super cluster by itself is refused by the quota there.
        space.apply(pod("pushy", labels={names.SUPER_CLUSTER: "r1"}, containers=idle))
        syncer = pool.system.endpoint("syncer-r1").removeprefix("http://")
        asked = ("explain", "pod", f"acme/{space.name}/pushy", "--endpoint", syncer)
        eventually(lambda: "exceeded quota" in pool.system.vcsync(*asked))
        assert _used(space, "r1", "pods") == (str(room), str(room))
        space.kubectl("delete", "pod", "pushy")
        first = next(each for each in space.pods("idle") if super_of(each) == "r2")
        space.kubectl("delete", "pod", first["metadata"]["name"], "--wait=false")
        eventually(lambda: space.get("pods", first["metadata"]["name"]) is None)
        eventually(lambda: sum(map(is_running, space.pods("idle"))) == 2 * room)


@pytest.mark.core
def test_node_ports_are_limited_by_slices_and_a_service_above_the_limit_gets_an_event(pool: Pool) -> None:
    def service(name: str, ports: int) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {
                "type": "NodePort",
                "selector": {"app": name},
                "ports": [{"name": f"p{n}", "port": 80 + n} for n in range(ports)],
            },
        }

    with pool.space() as space:
        room = int((space.ledger() or {})["spec"]["sliceSize"][NODE_PORTS])
        space.apply(service("some", room))
        eventually(lambda: all(space.there(super_id, "services", "some") for super_id in ("r1", "r2")))
        space.apply(service("more", 1))
        (event,) = eventually(lambda: space.events("more", "FailedCreate")[:1])
        assert "exceeded quota" in event["message"]
        assert "remove another Service, or have the namespace hold more slices" in event["message"]
        space.apply(quota({"cpu": "2", "memory": "2Gi"}))
        # Four slices have 15 together: 3.75 each.
        eventually(lambda: [_used(space, each, NODE_PORTS)[1] for each in ("r1", "r2")] == ["8", "7"])
        space.kubectl("annotate", "service", "more", "looked-at=again")
        eventually(lambda: all(space.there(super_id, "services", "more") for super_id in ("r1", "r2")))


BALANCERS = "services.loadbalancers"


def test_tiny_slices_give_a_namespace_no_more_objects_and_pods(pool: Pool) -> None:
    """A tenant chooses the size of its slices. Each once had one Pod and one of each object at least."""
    with pool.space(slice_size={"cpu": "2m", "memory": "2Mi"}) as tiny:

        def allowed(name: str) -> int:
            return sum(int(_hard(tiny, super_id)[name]) for super_id in ("r1", "r2"))

        eventually(
            lambda: (allowed(NODE_PORTS), allowed(BALANCERS)) == (8, 2)
        )  # as two slices of pool.space()
        # A Pod for each slice. As many small ones became one as have a Pod by their share of the pool.
        eventually(lambda: 8 <= sum(tiny.placements().values()) == allowed("pods") <= 12)
        tiny.apply(pod("web"))
        tiny.running("web")


def test_a_service_is_refused_where_its_namespace_has_no_load_balancer(pool: Pool) -> None:
    """A namespace that has one in all has it on one super cluster."""
    spec = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
    small = {"cpu": "110m", "memory": "220Mi"}
    with pool.space(hard={"cpu": "220m", "memory": "440Mi"}, slice_size=small) as space:
        eventually(lambda: [_hard(space, each)[BALANCERS] for each in ("r1", "r2")] == ["1", "0"])
        space.apply(service)
        eventually(lambda: space.there("r1", "services", "web"))
        (event,) = eventually(lambda: space.events("web", "FailedCreate")[:1])
        assert (
            "services.loadbalancers=1, used: services.loadbalancers=0, limited: services.loadbalancers=0"
            in event["message"]
        )
        assert space.there("r2", "services", "web") is None


def test_bytes_are_limited_by_slices_and_an_object_above_the_limit_gets_an_event(pool: Pool) -> None:
    def config(name: str) -> str:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"a": "b" * 900_000},
        }
        return json.dumps(body)

    with pool.space() as space:
        room = milli((space.ledger() or {})["spec"]["sliceSize"]["object-bytes"]) // 1000
        some = [f"some-{n}" for n in range(room // 910_000)]
        for name in some:
            space.kubectl("create", "-f", "-", input=config(name))
        for super_id in ("r1", "r2"):
            eventually(
                lambda super_id=super_id: all(space.there(super_id, "configmaps", each) for each in some)
            )
        space.kubectl("create", "-f", "-", input=config("more"))
        (event,) = eventually(lambda: space.events("more", "FailedCreate")[:1])
        assert "that its slices have room for" in event["message"]
        assert (
            "remove objects or make them smaller, or have the namespace hold more slices" in event["message"]
        )
        # Objects that do not grow are still written, and Pods are created.
        space.kubectl("label", "configmap", "some-0", "looked=at")
        space.apply(pod("small"))
        space.running("small")
        space.kubectl("delete", "configmap", "some-1")
        for super_id in ("r1", "r2"):
            eventually(lambda super_id=super_id: space.there(super_id, "configmaps", "some-1") is None)
        space.kubectl("label", "configmap", "more", "looked=again")
        for super_id in ("r1", "r2"):
            eventually(lambda super_id=super_id: space.there(super_id, "configmaps", "more"))


def _waiting(space: Space, count: int) -> list[Json]:
    found = [each for each in space.pods() if condition(each, "PodScheduled").get("status") == "False"]
    assert len(found) == count, [each["metadata"]["name"] for each in found]
    return found


def _used(space: Space, super_id: str, resource: str) -> tuple[str, str]:
    """Return the used and the hard amount of a resource, from the super cluster's ResourceQuota."""
    status = (space.there(super_id, "resourcequotas", names.SUPER_QUOTA_NAME) or {})["status"]
    return status["used"][resource], status["hard"][resource]


def _hard(space: Space, super_id: str) -> dict[str, str]:
    """Return what the super cluster's ResourceQuota limits."""
    found = space.there(super_id, "resourcequotas", names.SUPER_QUOTA_NAME)
    assert found is not None
    hard: dict[str, str] = found["spec"]["hard"]
    return hard

"""What the controllers of a tenant's Pods want, as a drain reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vcsync.kube.errors import ApiError, Forbidden, NotFound, ServerError, Status
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope, parse
from vcsync.syncer.pod_controllers import PodControllers


class Tenant:
    """A control plane that has the given objects, and fails on demand."""

    def __init__(self) -> None:
        self.pods: list[dict[str, Any]] = []
        self.controllers: dict[tuple[str, str], dict[str, Any]] = {}
        self.failure: ApiError | None = None
        self.fails_for = ""

    async def list(self, resource: Resource, namespace: str, *, most_pages: int) -> list[Envelope]:
        assert (resource.plural, namespace) == ("pods", "shop")
        assert most_pages
        self._fail("pods")
        return [parse(json.dumps(each).encode()) for each in self.pods]

    async def get(self, resource: Resource, name: str, namespace: str) -> Envelope:
        assert namespace == "shop"
        self._fail(resource.plural)
        if (found := self.controllers.get((resource.plural, name))) is None:
            raise NotFound(Status(404))
        return parse(json.dumps(found).encode())

    def _fail(self, what: str) -> None:
        if self.failure is not None and self.fails_for in (what, ""):
            raise self.failure

    def run(
        self, name: str, owner: str = "", kind: str = "ReplicaSet", *, ready: bool = True, **status: Any
    ) -> None:
        group = {"ReplicationController": "v1", "Job": "batch/v1", "Rollout": "argoproj.io/v1"}
        api_version = group.get(kind, "apps/v1")
        owners = [
            {
                "apiVersion": api_version,
                "kind": kind,
                "name": owner,
                "uid": f"uid-{owner}",
                "controller": True,
            }
        ]
        self.pods.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "namespace": "shop",
                    "uid": f"uid-{name}",
                    "labels": {"app": "web"},
                    "ownerReferences": owners if owner else [],
                },
                "status": {"conditions": [{"type": "Ready", "status": str(ready)}]} | status,
            }
        )

    def control(self, plural: str, name: str, owner: str = "", uid: str = "", **spec: Any) -> None:
        owners = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": f"uid-{owner}"}]
        meta: dict[str, Any] = {"name": name, "namespace": "shop", "uid": uid or f"uid-{name}"}
        if owner:
            meta["ownerReferences"] = [owners[0] | {"controller": True}]
        self.controllers[plural, name] = {"metadata": meta, "spec": spec}

    async def leaving(self) -> list[str]:
        """Return the Pods that leave in one step of a drain."""
        step, left = PodControllers(self, "shop"), []  # type: ignore[arg-type]
        for name in [each["metadata"]["name"] for each in self.pods]:
            if not await step.why_stay(name, f"uid-{name}"):
                step.note_left(name)
                left.append(name)
        return left


@pytest.fixture
def tenant() -> Tenant:
    return Tenant()


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("ReplicaSet", "replicasets"),
        ("StatefulSet", "statefulsets"),
        ("ReplicationController", "replicationcontrollers"),
    ],
)
async def test_pods_of_a_controller_leave_one_at_a_time(tenant: Tenant, kind: str, plural: str) -> None:
    for name in ("a", "b", "c"):
        tenant.run(name, "web", kind)
    tenant.control(plural, "web", replicas=3)
    assert await tenant.leaving() == ["a"]
    tenant.pods[0]["metadata"]["deletionTimestamp"] = "2026-05-01T12:00:00Z"
    assert await tenant.leaving() == ["a"], "it has left already"
    del tenant.pods[0]
    assert await tenant.leaving() == [], "its controller has not replaced it yet"


@pytest.mark.parametrize(("unavailable", "leave"), [(2, 2), ("50%", 2), ("25%", 1), (0, 1), (None, 1)])
async def test_a_deployment_misses_no_more_pods_than_it_tolerates(
    tenant: Tenant, unavailable: int | str | None, leave: int
) -> None:
    for number in range(4):
        tenant.run(f"pod-{number}", f"web-{number % 2}")
    for number in range(2):
        tenant.control("replicasets", f"web-{number}", "web", replicas=2)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable}}
    selector = {"matchLabels": {"app": "web"}}
    tenant.control(
        "deployments",
        "web",
        replicas=4,
        selector=selector,
        strategy=strategy if unavailable is not None else {"type": "Recreate"},
    )
    assert len(await tenant.leaving()) == leave, "over both ReplicaSets"


async def test_what_is_gone_needs_no_pods(tenant: Tenant) -> None:
    for name in ("a", "b"):
        tenant.run(name, "gone")
    for name in ("c", "d"):
        tenant.run(name, "again")
    tenant.control("replicasets", "again", uid="another", replicas=2)
    for name in ("e", "f"):
        tenant.run(name, "orphan")
    tenant.control("replicasets", "orphan", "gone", replicas=2)
    assert await tenant.leaving() == ["a", "b", "c", "d", "e", "f"]


async def test_jobs_and_pods_without_a_controller_may_leave_at_any_time(tenant: Tenant) -> None:
    tenant.run("a", "job", "Job")
    tenant.run("b", "job", "Job")
    tenant.run("c")
    tenant.run("d")
    assert await tenant.leaving() == ["a", "b", "c", "d"]


async def test_a_pod_that_the_tenant_has_replaced_may_leave(tenant: Tenant) -> None:
    tenant.run("a", "web", ready=True)
    tenant.run("b", "web", ready=False)
    tenant.control("replicasets", "web", replicas=2)
    step = PodControllers(tenant, "shop")  # type: ignore[arg-type]
    assert await step.why_stay("a", "uid-a") == "ReplicaSet web has 1 of 2 Pods ready"
    assert await step.why_stay("a", "an earlier one") == ""
    assert await step.why_stay("nowhere", "uid-nowhere") == ""


async def test_pods_that_have_ended_are_not_counted(tenant: Tenant) -> None:
    tenant.run("a", "web")
    tenant.run("b", "web", phase="Failed")
    tenant.control("replicasets", "web", replicas=2)
    assert await tenant.leaving() == ["b"]


@pytest.mark.parametrize("kind", ["Rollout", "ReplicaSet"])
async def test_of_a_controller_that_cannot_be_read_one_pod_leaves_at_a_time(
    tenant: Tenant, kind: str
) -> None:
    """Roles of an earlier version must not read controllers, and no role reads those of tenants' own kinds."""
    tenant.failure, tenant.fails_for = Forbidden(Status(403)), "replicasets"
    for name in ("a", "b", "c"):
        tenant.run(name, "web", kind)
    assert await tenant.leaving() == ["a"]


async def test_a_control_plane_that_does_not_answer_keeps_the_pods(tenant: Tenant) -> None:
    tenant.run("a", "web")
    tenant.failure = ServerError(Status(500, message="etcd is down"))
    step = PodControllers(tenant, "shop")  # type: ignore[arg-type]
    reason = await step.why_stay("a", "uid-a")
    assert reason.startswith("its control plane did not say which Pods are ready: ")
    assert "etcd is down" in reason
    tenant.failure = None
    assert await step.why_stay("a", "uid-a") == reason, "it is not asked again in the same step"


async def test_malformed_answers_keep_the_pods(tenant: Tenant) -> None:
    tenant.run("a", "web")
    tenant.control("replicasets", "web", replicas="many")
    assert await tenant.leaving() == []

"""Type checks of policies against the schemas of the tenant's API server, written to the status once."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from controllers_world import World

from vcsync.controllers.framework.plan import Controller
from vcsync.controllers.framework.worker import ReconcileContext
from vcsync.controllers.policystatus.policystatus_controller import Typed, type_checking
from vcsync.kube.errors import NotFound, Status
from vcsync.kube.resources import VALIDATING_ADMISSION_POLICIES, Resource

APPS = {
    "resources": [{"name": "deployments", "kind": "Deployment"}, {"name": "deployments/status", "kind": "X"}]
}
CORE = {"resources": [{"name": "pods", "kind": "Pod"}, {"name": "secrets", "kind": "Secret"}]}


def schema(group: str, kind: str) -> dict[str, Any]:
    return {"x-kubernetes-group-version-kind": [{"group": group, "version": "v1", "kind": kind}]}


class Server:
    """A tenant's API as the controller uses it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.asked: list[str] = []
        documents = {"Deployment": schema("apps", "Deployment"), "Other": {}}
        core = {"Pod": schema("", "Pod"), "Secret": schema("", "Secret")}
        self.answers: dict[str, Any] = {
            "/apis/apps/v1": APPS,
            "/api/v1": CORE,
            "/openapi/v3/apis/apps/v1": {"components": {"schemas": documents}},
            "/openapi/v3/api/v1": {"components": {"schemas": core}},
        }

    async def request(self, verb: str, path: str) -> bytes:
        assert verb == "GET"
        self.asked.append(path)
        if path not in self.answers:
            raise NotFound(Status(404))
        return msgspec.json.encode(self.answers[path])

    async def patch(self, resource: Resource, name: str, patch: dict[str, Any], *, subresource: str) -> None:
        assert subresource == "status"
        assert patch["metadata"]["uid"] == self.world.body(resource, name)["metadata"]["uid"]
        self.world.change(resource, name, {"status": patch["status"]})


class Scene:
    """One policy, its controller, and the requested checks."""

    def __init__(self) -> None:
        self.checked: list[tuple[Mapping[str, Any], Sequence[Typed], Typed | None]] = []
        worker = type_checking(self._check)
        self._work = worker.work
        self.world = World([Controller(worker.name, worker.watches, plan=lambda *_: pytest.fail("no plan"))])
        self.server = Server(self.world)

    def _check(
        self, spec: Mapping[str, Any], kinds: Sequence[Typed], params: Typed | None
    ) -> list[dict[str, str]]:
        self.checked.append((spec, kinds, params))
        return [{"fieldRef": "spec.validations[0].expression", "warning": "no"}]

    def put(self, *rules: dict[str, Any], **spec: Any) -> None:
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "p"},
            "spec": {"matchConstraints": {"resourceRules": list(rules)}, **spec},
        }
        self.world.put(VALIDATING_ADMISSION_POLICIES, body)

    def work(self) -> None:
        context = ReconcileContext(self.world.view(), self.server)  # type: ignore[arg-type]
        asyncio.run(self._run(context))

    async def _run(self, context: ReconcileContext) -> None:
        await self._work(context, self.world.key("", "p"))

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.world.body(VALIDATING_ADMISSION_POLICIES, "p").get("status", {})
        return found

    @property
    def kinds(self) -> list[str]:
        return [kinds for kinds, *_ in self.checked[-1][1]]


def rule(group: str, *resources: str, version: str = "v1") -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": [version], "resources": list(resources)}


def test_a_policy_is_checked_once_and_again_when_it_changes() -> None:
    scene = Scene()
    scene.put(rule("apps", "deployments"))
    scene.work()
    scene.work()
    warnings = [{"fieldRef": "spec.validations[0].expression", "warning": "no"}]
    assert scene.status == {"observedGeneration": 1, "typeChecking": {"expressionWarnings": warnings}}
    assert len(scene.checked) == 1
    scene.world.change(VALIDATING_ADMISSION_POLICIES, "p", {"spec": {"failurePolicy": "Ignore"}})
    scene.work()
    assert scene.status["observedGeneration"] == 2


def test_matched_kinds_are_passed_in_order_with_schemas() -> None:
    scene = Scene()
    scene.put(rule("apps", "deployments"), rule("", "secrets", "pods", "pods/status"))
    scene.work()
    assert scene.kinds == ["/v1, Kind=Pod", "/v1, Kind=Secret", "apps/v1, Kind=Deployment"]
    _, schemas, name = scene.checked[0][1][0]
    assert schemas[name] == schema("", "Pod")
    assert sorted(scene.server.asked) == sorted(scene.server.answers)  # each once


@pytest.mark.parametrize(
    "unknown",
    [
        rule("*", "deployments"),
        rule("apps", "*"),
        rule("apps", "deployments", version="*"),
        rule("apps", "deployments/status"),
        rule("apps", "others"),
        rule("example.com", "widgets"),
        rule("..", "deployments", version=".."),
        rule("apps/v1/../../../../system/apis/apps", "deployments"),
    ],
)
def test_unknown_kinds_are_not_checked(unknown: dict[str, Any]) -> None:
    scene = Scene()
    scene.put(unknown)
    scene.work()
    assert scene.kinds == []
    assert not any(".." in path for path in scene.server.asked)


def test_a_known_kind_of_parameters_is_passed() -> None:
    scene = Scene()
    scene.put(paramKind={"apiVersion": "v1", "kind": "Secret"})
    scene.work()
    assert (scene.checked[0][2] or ("",))[0] == "/v1, Kind=Secret"
    unknown = {"apiVersion": "example.com/v1", "kind": "Widget"}
    scene.world.change(VALIDATING_ADMISSION_POLICIES, "p", {"spec": {"paramKind": unknown}})
    scene.work()
    assert scene.checked[1][2] is None


def test_a_deleted_or_terminating_policy_is_not_checked() -> None:
    scene = Scene()
    scene.work()
    scene.put(rule("apps", "deployments"))
    gone = {"deletionTimestamp": scene.world.time(), "finalizers": ["example.com/wait"]}
    scene.world.change(VALIDATING_ADMISSION_POLICIES, "p", {"metadata": gone})
    scene.work()
    assert scene.checked == []

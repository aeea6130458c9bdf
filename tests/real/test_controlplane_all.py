"""Lists and watches over all tenants of a running process, which only system callers may use."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from plane_kit import MERGE, Caller, calling, first

from hack.embedded import ControlPlane
from hack.testbed import ensure

PODS = "/api/v1/pods"
EVERYWHERE = "/api/v1/tenants/all/pods"
ANNOTATION = "tenancy.x-k8s.io/tenant"
IN_DEFAULT = "/api/v1/namespaces/default/pods"
SYNCER = "syncer-r1"
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "patch"]}]


def summaries(events: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [
        (each["type"], each["object"]["metadata"]["tenant"], each["object"]["metadata"]["name"])
        for each in events
    ]


def pod(name: str, **labels: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "nginx"}]
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": containers}}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("all")) as plane:
        yield plane


@pytest.fixture
async def operator(plane: ControlPlane) -> AsyncIterator[Caller]:
    async with calling(plane, plane.data / "admin.kubeconfig") as caller:
        yield caller


@pytest.fixture(scope="module")
def tenants(plane: ControlPlane) -> list[str]:
    """Two tenants in which Pods can be created without a controller manager."""
    names = ["acme", "umbrella"]
    for name in names:
        plane.create(name)
    return names


@pytest.fixture
async def ready(operator: Caller, tenants: list[str]) -> list[str]:
    for name in tenants:
        await account(operator, name)
    return tenants


async def account(operator: Caller, tenant: str) -> None:
    path = f"/tenants/{tenant}/api/v1/namespaces/default/serviceaccounts"
    status, _ = await operator("POST", path, {"metadata": {"name": "default"}})
    assert status in (201, 409)


async def make(operator: Caller, tenant: str, body: dict[str, Any]) -> None:
    status, answer = await operator("POST", f"/tenants/{tenant}{IN_DEFAULT}", body)
    assert status == 201, answer


async def test_one_watch_reports_every_tenant_including_later_ones(
    plane: ControlPlane, operator: Caller, ready: list[str]
) -> None:
    acme, umbrella = ready
    _, listed = await operator("GET", EVERYWHERE)
    start = listed["metadata"]["resourceVersion"]
    async with operator.watch(f"{EVERYWHERE}?watch=1&resourceVersion={start}") as events:
        await make(operator, acme, pod("same"))
        await make(operator, umbrella, pod("same"))
        patch = {"metadata": {"labels": {"seen": "yes"}}}
        await operator("PATCH", f"/tenants/{acme}{IN_DEFAULT}/same", patch, MERGE)
        await asyncio.to_thread(plane.create, "later")
        await account(operator, "later")
        await make(operator, "later", pod("new"))
        await operator("DELETE", f"/tenants/{umbrella}{IN_DEFAULT}/same?gracePeriodSeconds=0")
        assert summaries(await first(events, 6)) == [
            ("ADDED", acme, "same"),
            ("ADDED", umbrella, "same"),
            ("MODIFIED", acme, "same"),
            ("ADDED", "later", "new"),
            ("MODIFIED", umbrella, "same"),  # with its deletion timestamp
            ("DELETED", umbrella, "same"),
        ]


async def test_lists_of_all_tenants_can_be_paged(operator: Caller, ready: list[str]) -> None:
    for tenant in ready:
        for number in range(3):
            await make(operator, tenant, pod(f"paged-{number}", paged="yes"))
    path, found = f"{EVERYWHERE}?labelSelector=paged&limit=2", []
    more = ""
    while True:
        status, page = await operator("GET", path + more)
        assert (status, len(page["items"]) <= 2) == (200, True)
        found += [(each["metadata"]["tenant"], each["metadata"]["name"]) for each in page["items"]]
        token = page["metadata"].get("continue")
        if not token:
            break
        more = f"&continue={token}"
    assert found == [(tenant, f"paged-{number}") for tenant in ready for number in range(3)]


async def test_a_watch_with_a_label_selector_reports_objects_that_begin_and_cease_to_match(
    operator: Caller, ready: list[str]
) -> None:
    acme, umbrella = ready
    label, mine = "scheduler.example/superCluster", "labelSelector=scheduler.example%2FsuperCluster%3Dr1"
    for tenant in ready:
        await make(operator, tenant, pod("placed"))
    _, listed = await operator("GET", EVERYWHERE)
    start = listed["metadata"]["resourceVersion"]
    async with operator.watch(f"{EVERYWHERE}?watch=1&resourceVersion={start}&{mine}") as events:
        for tenant, value in ((acme, "r2"), (umbrella, "r1"), (acme, "r1"), (umbrella, None)):
            await operator(
                "PATCH",
                f"/tenants/{tenant}{IN_DEFAULT}/placed",
                {"metadata": {"labels": {label: value}}},
                MERGE,
            )
        assert summaries(await first(events, 3)) == [
            ("ADDED", umbrella, "placed"),
            ("ADDED", acme, "placed"),
            ("DELETED", umbrella, "placed"),
        ]


async def test_a_tenant_cannot_claim_that_its_object_belongs_to_another(
    operator: Caller, ready: list[str]
) -> None:
    acme, umbrella = ready
    forged = pod("forged", forged="yes")
    forged["metadata"] |= {"tenant": umbrella, "annotations": {ANNOTATION: umbrella, "own": "kept"}}
    await make(operator, acme, forged)
    _, listed = await operator("GET", f"{EVERYWHERE}?labelSelector=forged")
    assert [each["metadata"]["tenant"] for each in listed["items"]] == [acme]
    _, listed = await operator("GET", f"/tenants/all{PODS}?labelSelector=forged")
    assert [each["metadata"]["annotations"][ANNOTATION] for each in listed["items"]] == [acme]
    _, own = await operator("GET", f"/tenants/{acme}{IN_DEFAULT}/forged")
    assert "tenant" not in own["metadata"]
    assert own["metadata"]["annotations"] == {"own": "kept"}


async def test_kubectl_reads_all_tenants_and_writes_back_what_it_has_read(
    plane: ControlPlane, operator: Caller, ready: list[str]
) -> None:
    acme, _ = ready
    await make(operator, acme, pod("read", read="yes"))
    kubectl = ensure(["kubectl"])["kubectl"]

    async def run(*arguments: str, text: str = "") -> dict[str, Any]:
        config = ("--kubeconfig", str(plane.data / "admin.kubeconfig"))
        process = await asyncio.create_subprocess_exec(
            kubectl, *config, *arguments, "-o", "json", stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        output, errors = await process.communicate(text.encode())
        assert process.returncode == 0, errors
        answer: dict[str, Any] = json.loads(output)
        return answer

    listed = await run("--server", f"{plane.url}/tenants/all", "get", "pods", "-A", "-l", "read=yes")
    (found,) = listed["items"]
    assert found["metadata"]["annotations"] == {ANNOTATION: acme}
    found["metadata"] |= {"tenant": acme, "labels": {"read": "twice"}}
    there = ("--server", f"{plane.url}/tenants/{acme}")
    for verb in (("replace",), ("apply", "--server-side", "--force-conflicts"), ("apply",)):
        found["metadata"].pop("managedFields", None)
        found["metadata"].pop("resourceVersion", None)
        written = await run(*there, *verb, "--validate=strict", "-f", "-", text=json.dumps(found))
        assert written["metadata"]["labels"] == {"read": "twice"}
        assert ANNOTATION not in written["metadata"].get("annotations", {})


async def test_a_system_caller_has_its_rights_from_the_system_space(
    plane: ControlPlane, operator: Caller, ready: list[str]
) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    await operator("POST", f"{rbac}/clusterroles", {"metadata": {"name": SYNCER}, "rules": RULES})
    binding = {
        "metadata": {"name": SYNCER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": SYNCER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": SYNCER}],
    }
    status, answer = await operator("POST", f"{rbac}/clusterrolebindings", binding)
    assert status == 201, answer
    await make(operator, ready[0], pod("for-the-syncer"))
    kubeconfig = await asyncio.to_thread(lambda: plane.kubeconfig("system", user=SYNCER))
    async with calling(plane, kubeconfig) as syncer:
        async with syncer.watch(f"{EVERYWHERE}?watch=1&resourceVersion=0") as events:
            assert (await first(events, 1))[0]["type"] == "ADDED"
        patch = {"metadata": {"labels": {"by": "syncer"}}}
        one = f"/tenants/{ready[0]}{IN_DEFAULT}/for-the-syncer"
        assert (await syncer("PATCH", one, patch, MERGE))[0] == 200
        for verb, path in (
            ("GET", "/tenants/all/api/v1/secrets"),
            ("GET", "/tenants/all/api/v1/secrets?watch=1"),
            ("GET", f"/tenants/{ready[0]}/api/v1/secrets"),
            ("DELETE", one),
            ("DELETE", f"/tenants/all{IN_DEFAULT}"),
        ):
            status, answer = await syncer(verb, path)
            assert (status, answer["reason"]) == (403, "Forbidden"), (verb, path)


async def test_requests_for_all_tenants_can_neither_write_nor_get_by_name(
    operator: Caller, ready: list[str]
) -> None:
    await make(operator, ready[0], pod("single"))
    for verb, path, body in (
        ("POST", f"/tenants/all{IN_DEFAULT}", pod("x")),
        ("DELETE", f"/tenants/all{IN_DEFAULT}", None),
        ("GET", f"/tenants/all{IN_DEFAULT}/single", None),
        ("DELETE", f"/tenants/all{IN_DEFAULT}/single", None),
        ("PUT", f"/tenants/all{IN_DEFAULT}/single", pod("single")),
    ):
        status, _ = await operator(verb, path, body)
        assert status in (404, 405), (verb, path, status)
    assert (await operator("GET", f"/tenants/{ready[0]}{IN_DEFAULT}/single"))[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        PODS,
        f"{PODS}?watch=1",
        "/api/v1/watch/pods",
        f"{IN_DEFAULT}/x",
        "/api/v1/namespaces",
        "/apis",
        "/version",
        "/nonsense",
    ],
)
async def test_a_tenants_user_is_refused_as_by_a_missing_tenant(
    plane: ControlPlane, ready: list[str], path: str
) -> None:
    kubeconfig = await asyncio.to_thread(plane.kubeconfig, ready[0])
    async with calling(plane, kubeconfig) as tenant:
        answers = [
            await tenant("GET", f"/tenants/{name}{path}") for name in ("all", ready[1], "no-such", "system")
        ]
        assert answers[0][0] == 403
        assert answers == [answers[0]] * 4


async def test_the_watch_continues_after_a_restart(
    tmp_path: Path,
) -> None:
    def begin() -> ControlPlane:
        plane = ControlPlane(tmp_path)
        plane.start()
        for name in ("a", "b"):
            plane.create(name)
        return plane

    plane = await asyncio.to_thread(begin)
    try:
        async with calling(plane, plane.data / "admin.kubeconfig") as operator:
            for name in ("a", "b"):
                await account(operator, name)
            _, listed = await operator("GET", EVERYWHERE)
            start = listed["metadata"]["resourceVersion"]
            await make(operator, "a", pod("before"))
        await asyncio.to_thread(plane.stop)
        await asyncio.to_thread(plane.start)
        async with calling(plane, plane.data / "admin.kubeconfig") as operator:
            path = f"{EVERYWHERE}?watch=1&resourceVersion={start}"
            async with operator.watch(path) as events:
                await make(operator, "b", pod("after"))
                assert summaries(await first(events, 2)) == [
                    ("ADDED", "a", "before"),
                    ("ADDED", "b", "after"),
                ]
    finally:
        await asyncio.to_thread(plane.stop)

"""Lists and watches over embedded and external control planes, which are real kube-apiservers, in one answer."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gateway_kit import Door
from plane_kit import MERGE, Caller, calling

from hack.embedded import ControlPlane
from hack.testbed import TestBed, ensure
from hack.testbed.faults import expired, watches
from tests.real.waiting import eventually, limit

ALL = "/tenants/all+external"
ANNOTATION = "tenancy.x-k8s.io/tenant"
UNREACHABLE = "tenancy.x-k8s.io/unreachable"
INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
Event = dict[str, Any]


class Scene:
    """The operator's client, the tenant acme with an embedded control plane, and the external umbrella and initech."""

    def __init__(self, bed: TestBed, door: Door, operator: Caller) -> None:
        self.bed = bed
        self.door = door
        self.operator = operator
        self.namespace = f"all-{uuid.uuid4().hex[:8]}"
        self.maps = f"/api/v1/namespaces/{self.namespace}/configmaps"
        self.path = f"{ALL}{self.maps}"

    async def create(self, tenant: str, name: str, **labels: str) -> None:
        await self.call(
            "POST", tenant, self.maps, {"metadata": {"name": name, "labels": labels}, "data": {"k": "1"}}, 201
        )

    async def change(self, tenant: str, name: str, value: str) -> None:
        if tenant == "acme":
            status, answer = await self.operator(
                "PATCH", f"/tenants/acme{self.maps}/{name}", {"data": {"k": value}}, MERGE
            )
            assert status == 200, answer
            return
        there = self.bed.tenants[tenant]
        await asyncio.to_thread(
            there.kubectl, "patch", "configmap", name, "-n", self.namespace, "--type=merge",
            "-p", msgspec.json.encode({"data": {"k": value}}).decode(),
        )  # fmt: skip

    async def delete(self, tenant: str, name: str) -> None:
        await self.call("DELETE", tenant, f"{self.maps}/{name}", None, 200)

    async def call(self, verb: str, tenant: str, path: str, body: Any, expected: int) -> Any:
        if tenant == "acme":
            status, answer = await self.operator(verb, f"/tenants/acme{path}", body)
        else:
            status, answer = await asyncio.to_thread(self.bed.tenants[tenant].call, verb, path, body)
        assert status == expected, answer
        return answer

    async def listed(self, query: str = "", path: str = "") -> Any:
        status, answer = await self.operator("GET", f"{path or self.path}?{query}")
        assert status == 200, answer
        return answer

    @asynccontextmanager
    async def watch(self, query: str) -> AsyncIterator[AsyncIterator[Event]]:
        async with self.operator.watch(f"{self.path}?watch=1&{query}") as events:
            yield events


def own(obj: Any) -> str:
    return str(obj["metadata"]["annotations"][ANNOTATION])


def named(listed: Any) -> list[tuple[str, str]]:
    return [(own(each), each["metadata"]["name"]) for each in listed["items"] if own(each) != "system"]


def told(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(each["type"], own(each["object"]), each["object"]["metadata"]["name"]) for each in events]


async def changes(events: AsyncIterator[Event], count: int) -> list[Event]:
    """Return the next events that are no bookmarks, without those of the ConfigMap that each namespace gets."""
    found: list[Event] = []
    async with asyncio.timeout(limit(60)):
        while len(found) < count:
            event = await anext(events)
            assert event["type"] != "ERROR", event
            if event["type"] != "BOOKMARK" and event["object"]["metadata"]["name"] != "kube-root-ca.crt":
                found.append(event)
    return found


async def bookmark(events: AsyncIterator[Event]) -> str:
    async with asyncio.timeout(limit(60)):
        async for event in events:
            assert event["type"] != "ERROR", event
            if event["type"] == "BOOKMARK":
                return str(event["object"]["metadata"]["resourceVersion"])
    raise AssertionError("the watch has ended")


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBed]:
    with TestBed(
        supers=0, nodes=0, tenants=("umbrella", "initech"), directory=tmp_path_factory.mktemp("all")
    ) as bed:
        yield bed


@pytest.fixture(scope="module")
def door(bed: TestBed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with ControlPlane(tmp_path_factory.mktemp("door")) as plane:
        door = Door(plane)
        for name, cluster in bed.tenants.items():
            door.connect(name, cluster.kubeconfig, "--readable", "*")
        plane.create("acme")
        yield door
        assert "Traceback" not in plane.log.read_text()


@pytest.fixture
async def scene(bed: TestBed, door: Door) -> AsyncIterator[Scene]:
    async with calling(door.plane, door.plane.data / "admin.kubeconfig") as operator:
        scene = Scene(bed, door, operator)
        for tenant in ("acme", *bed.tenants):
            await scene.call(
                "POST", tenant, "/api/v1/namespaces", {"metadata": {"name": scene.namespace}}, 201
            )
        yield scene
        for cluster in bed.tenants.values():
            await asyncio.to_thread(cluster.kubectl, "delete", "namespace", scene.namespace, "--wait=false")


async def test_a_list_has_the_objects_of_embedded_and_external_control_planes(scene: Scene) -> None:
    for tenant in ("umbrella", "acme", "initech"):
        await scene.create(tenant, "same", mine="yes")
        await scene.create(tenant, "other")
    listed = await scene.listed("labelSelector=mine")
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert named(listed) == [("acme", "same"), ("initech", "same"), ("umbrella", "same")]
    listed = await scene.listed("fieldSelector=metadata.name%3Dother")
    assert named(listed) == [("acme", "other"), ("initech", "other"), ("umbrella", "other")]
    arktos = await scene.listed(
        "labelSelector=mine", f"/api/v1/tenants/all+external/namespaces/{scene.namespace}/configmaps"
    )
    assert [each["metadata"]["tenant"] for each in arktos["items"]] == ["acme", "initech", "umbrella"]
    # What vcsync's own controllers read is as it was.
    embedded = await scene.listed("labelSelector=mine", f"/tenants/all{scene.maps}")
    assert named(embedded) == [("acme", "same")]
    assert embedded["metadata"]["resourceVersion"].isdigit()


async def test_an_external_tenant_cannot_say_that_its_object_belongs_to_another(scene: Scene) -> None:
    body = {"metadata": {"name": "forged", "annotations": {ANNOTATION: "acme", "own": "kept"}}}
    await scene.call("POST", "umbrella", scene.maps, body, 201)
    (found,) = (await scene.listed("fieldSelector=metadata.name%3Dforged"))["items"]
    assert found["metadata"]["annotations"] == {ANNOTATION: "umbrella", "own": "kept"}


async def test_a_list_can_be_paged(scene: Scene) -> None:
    expected = []
    for tenant in ("acme", "initech", "umbrella"):
        for number in range(3):
            await scene.create(tenant, f"paged-{number}", paged="yes")
            expected.append((tenant, f"paged-{number}"))
    found, more = [], ""
    while True:
        page = await scene.listed(f"labelSelector=paged&limit=2{more}")
        found.append(named(page))
        await scene.create("umbrella", f"later-{len(found)}", paged="yes")  # is in no page
        token = page["metadata"].get("continue")
        if not token:
            break
        more = f"&continue={token}"
    assert [each for page in found for each in page] == expected
    assert max(map(len, found)) == 2
    status, answer = await scene.operator("GET", f"{scene.path}?limit=2&continue=nonsense")
    assert (status, answer["reason"]) == (400, "BadRequest")


async def test_a_watch_continues_the_list_and_then_itself(scene: Scene) -> None:
    await scene.create("umbrella", "first")
    listed = await scene.listed()
    start = listed["metadata"]["resourceVersion"]
    async with scene.watch(f"resourceVersion={start}&allowWatchBookmarks=true") as events:
        for tenant in ("umbrella", "acme", "initech"):
            await scene.create(tenant, "second")
            (event,) = await changes(events, 1)
            assert told([event]) == [("ADDED", tenant, "second")]
            assert event["object"]["kind"] == "ConfigMap"
            assert event["object"]["metadata"][
                "resourceVersion"
            ].isdigit()  # its own, by which it can be written
        await scene.change("umbrella", "first", "2")
        assert told(await changes(events, 1)) == [("MODIFIED", "umbrella", "first")]
        reached = await bookmark(events)
    await scene.delete("initech", "second")
    await scene.change("acme", "second", "2")
    async with scene.watch(f"resourceVersion={reached}&allowWatchBookmarks=true") as events:
        found = told(await changes(events, 2))
    assert sorted(found) == [("DELETED", "initech", "second"), ("MODIFIED", "acme", "second")]


async def test_a_client_without_bookmarks_continues_from_the_last_object(scene: Scene) -> None:
    async with scene.watch("") as events:
        await scene.create("umbrella", "a")
        await scene.create("acme", "b")
        found = await changes(events, 2)
        assert sorted(told(found)) == [("ADDED", "acme", "b"), ("ADDED", "umbrella", "a")]
        last = found[-1]["object"]["metadata"]["resourceVersion"]
    await scene.delete("umbrella", "a")
    async with scene.watch(f"resourceVersion={last}") as events:
        assert told(await changes(events, 1)) == [("DELETED", "umbrella", "a")]
    one = (await scene.listed("fieldSelector=metadata.name%3Db"))["items"][0]["metadata"]["resourceVersion"]
    async with scene.operator._session.get(
        f"{scene.operator.url}{scene.path}?watch=1&resourceVersion={one}"
    ) as answer:
        assert answer.status == 410


async def test_a_watch_can_begin_with_all_that_is_there(scene: Scene) -> None:
    for tenant in ("umbrella", "acme"):
        await scene.create(tenant, "there")
    async with scene.watch(f"{INITIAL}&labelSelector=") as events:
        assert told(await changes(events, 2)) == [("ADDED", "acme", "there"), ("ADDED", "umbrella", "there")]
        async with asyncio.timeout(limit(30)):
            end = await anext(each async for each in events if each["type"] == "BOOKMARK")
        assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await scene.create("initech", "new")
        assert told(await changes(events, 1)) == [("ADDED", "initech", "new")]


@pytest.mark.parametrize("as_event", [False, True])
@pytest.mark.parametrize("begun", ["by the watch", "by a list"])
async def test_a_control_plane_that_fell_behind_is_listed_again_alone(
    scene: Scene, tmp_path: Path, as_event: bool, begun: str
) -> None:
    proxy = scene.bed.tenants["initech"].proxy(tmp_path)
    async with proxy:
        await asyncio.to_thread(scene.door.connect, "behind", proxy.kubeconfig, "--readable", "configmaps")
        try:
            for name in ("kept", "changed", "deleted", "replaced"):
                await scene.create("initech", name)
            query = INITIAL
            if begun == "by a list":
                start = (await scene.listed())["metadata"]["resourceVersion"]
                query = f"resourceVersion={start}&allowWatchBookmarks=true"
            async with scene.watch(query) as events:
                await scene.create("acme", "mark")
                await follow(events, "acme", "mark")
                await asyncio.to_thread(eventually, lambda: proxy.connections > 0)
                seen = len(proxy.requests)
                proxy.refuse()
                proxy.cut()
                await scene.change("initech", "changed", "2")
                await scene.delete("initech", "deleted")
                await scene.delete("initech", "replaced")
                await scene.create("initech", "replaced")
                await scene.create("initech", "created")
                proxy.inject(expired(as_event=as_event), watches, times=1)
                await proxy.accept()
                found = [each for each in told(await behind(events, 5)) if each[1] == "behind"]
                assert sorted(found) == [
                    ("ADDED", "behind", "created"),
                    ("ADDED", "behind", "replaced"),
                    ("DELETED", "behind", "deleted"),
                    ("DELETED", "behind", "replaced"),
                    ("MODIFIED", "behind", "changed"),
                ]
                assert found.index(("DELETED", "behind", "replaced")) < found.index(
                    ("ADDED", "behind", "replaced")
                )
                assert len(proxy.requests) > seen
                await scene.create("initech", "after")
                assert told(await behind(events, 1)) == [("ADDED", "behind", "after")]
        finally:
            await asyncio.to_thread(scene.door.plane.vcsync, "tenant", "delete", "behind")


async def follow(events: AsyncIterator[Event], tenant: str, name: str) -> None:
    """Read events until one is about an object."""
    async with asyncio.timeout(limit(60)):
        async for event in events:
            assert event["type"] != "ERROR", event
            if event["type"] != "BOOKMARK" and told([event])[0][1:] == (tenant, name):
                return


async def behind(events: AsyncIterator[Event], count: int) -> list[Event]:
    found: list[Event] = []
    while len(found) < count:
        found += [each for each in await changes(events, 1) if own(each["object"]) == "behind"]
    return found


async def test_a_resumed_watch_that_knows_nothing_of_a_lost_past_is_listed_again_as_a_whole(
    scene: Scene, tmp_path: Path
) -> None:
    """Another process has told the client its objects, so that nobody knows which ones are gone."""
    proxy = scene.bed.tenants["initech"].proxy(tmp_path)
    async with proxy:
        await asyncio.to_thread(scene.door.connect, "forgotten", proxy.kubeconfig, "--readable", "configmaps")
        try:
            start = (await scene.listed())["metadata"]["resourceVersion"]
            await asyncio.to_thread(scene.door.plane.stop)
            await asyncio.to_thread(scene.door.plane.start)
            async with calling(scene.door.plane, scene.door.plane.data / "admin.kubeconfig") as operator:
                path = f"{scene.path}?watch=1&resourceVersion={start}&allowWatchBookmarks=true"
                async with operator.watch(path) as events:
                    await scene.create("initech", "goes-on")
                    await follow(events, "forgotten", "goes-on")
                proxy.inject(expired(), watches, times=1)
                async with operator.watch(path) as events, asyncio.timeout(limit(60)):
                    last = [each async for each in events][-1]
            assert (last["type"], last["object"]["code"]) == ("ERROR", 410)
        finally:
            await asyncio.to_thread(scene.door.plane.vcsync, "tenant", "delete", "forgotten")


async def test_an_unreachable_control_plane_is_named_and_costs_the_others_nothing(
    scene: Scene, tmp_path: Path
) -> None:
    proxy = scene.bed.tenants["initech"].proxy(tmp_path, tcp=True)
    async with proxy:
        await asyncio.to_thread(scene.door.connect, "broken", proxy.kubeconfig, "--readable", "configmaps")
        try:
            await scene.create("initech", "there")
            async with scene.watch(INITIAL) as events:
                await follow(events, "broken", "there")
                proxy.refuse()
                proxy.cut()
                status, answer = await scene.operator("GET", scene.path)
                assert (status, answer["reason"]) == (503, "ServiceUnavailable")
                assert 'tenant "broken"' in answer["message"]
                partly = await warned(scene, f"/tenants/all+reachable{scene.maps}")
                assert "1 external control plane left out: broken cannot be read now" in partly
                await scene.create("umbrella", "meanwhile")
                await follow(events, "umbrella", "meanwhile")
                await scene.create("initech", "unseen")
                lost = await anext(
                    each["object"]["metadata"]["annotations"][UNREACHABLE]
                    async for each in events
                    if each["type"] == "BOOKMARK"
                    and UNREACHABLE in each["object"]["metadata"].get("annotations", {})
                )
                assert lost == "broken"
                await proxy.accept()
                await follow(events, "broken", "unseen")
        finally:
            await asyncio.to_thread(scene.door.plane.vcsync, "tenant", "delete", "broken")


async def test_a_control_plane_that_hangs_is_503_within_seconds(scene: Scene, tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))  # accepts nothing
    port = listener.getsockname()[1]
    umbrella = scene.bed.tenants["umbrella"]
    await asyncio.to_thread(scene.door.connect, "hanging", umbrella.kubeconfig, "--readable", "*")
    upstream = {"server": f"https://127.0.0.1:{port}", "token": "t", "readable": ["*"]}
    try:
        status, answer = await scene.operator(
            "PATCH", "/vcsync/v1/tenants/hanging", {"upstream": upstream}, MERGE
        )
        assert status == 200, answer
        began = asyncio.get_running_loop().time()
        status, answer = await scene.operator("GET", scene.path)
        assert (status, 'tenant "hanging"' in answer["message"]) == (503, True)
        assert asyncio.get_running_loop().time() - began < limit(8)
        assert named(await scene.listed(path=f"/tenants/all+reachable{scene.maps}")) is not None
    finally:
        await asyncio.to_thread(scene.door.plane.vcsync, "tenant", "delete", "hanging")
        listener.close()


async def warned(scene: Scene, path: str) -> str:
    async with scene.operator._session.get(f"{scene.operator.url}{path}") as answer:
        assert answer.status == 200, await answer.read()
        return ", ".join(answer.headers.getall("Warning", []))


async def test_what_has_not_opted_in_is_left_out_and_named(scene: Scene) -> None:
    reachable = f"/tenants/all+reachable{scene.maps}"
    umbrella = scene.bed.tenants["umbrella"]
    await asyncio.to_thread(scene.door.connect, "private", umbrella.kubeconfig)
    try:
        assert umbrella.call("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/vcsync:reader")[0] == 404
        assert "1 external control plane left out: private" in await warned(scene, reachable)
        await asyncio.to_thread(
            scene.door.connect, "private", umbrella.kubeconfig, "--readable", "configmaps"
        )
        assert "private" in [tenant for tenant, _ in named(await scene.listed())]
        assert "private" in await warned(scene, "/tenants/all+reachable/api/v1/secrets")
        assert "private" not in await warned(scene, reachable)
        # The gateway itself can still read nothing: only the user that it acts as can.
        role = umbrella.kubectl("get", "clusterrole", "vcsync-gateway", "-o", "jsonpath={.rules[*].verbs}")
        assert "list" not in role
    finally:
        await asyncio.to_thread(scene.door.plane.vcsync, "tenant", "delete", "private")
        await asyncio.to_thread(scene.door.connect, "umbrella", umbrella.kubeconfig, "--readable", "*")


async def test_control_planes_come_and_go_during_a_watch(scene: Scene) -> None:
    initech = scene.bed.tenants["initech"]
    await scene.create("initech", "there")
    async with scene.watch(INITIAL) as events:
        await bookmark(events)
        await asyncio.to_thread(scene.door.connect, "later", initech.kubeconfig, "--readable", "*")
        await follow(events, "later", "there")
        await asyncio.to_thread(scene.door.plane.vcsync, "tenant", "delete", "later")
        async with asyncio.timeout(limit(60)):
            gone = await anext(
                each async for each in events if each["type"] == "DELETED" and own(each["object"]) == "later"
            )
        assert gone["object"]["metadata"]["name"] in {"there", "kube-root-ca.crt"}
        reached = await bookmark(events)
    async with scene.watch(f"resourceVersion={reached}&allowWatchBookmarks=true") as events:
        await scene.create("umbrella", "after")
        assert told(await changes(events, 1)) == [("ADDED", "umbrella", "after")]


def kubectl_vcsync(door: Door, *arguments: str) -> subprocess.CompletedProcess[str]:
    kubectl = ensure(["kubectl"])["kubectl"]
    environment = {
        **os.environ,
        "PATH": f"{kubectl.parent}:{os.environ['PATH']}",
        "KUBECACHEDIR": str(door.plane.directory),
    }
    code = "from vcsync.cli.kubectl.plugin import main; main()"
    config = ("--kubeconfig", str(door.plane.data / "admin.kubeconfig"))
    return subprocess.run(
        [sys.executable, "-c", code, "--all-tenants", *arguments, *config],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


async def test_kubectl_shows_all_tenants_in_one_table(scene: Scene) -> None:
    for tenant in ("umbrella", "acme"):
        await scene.create(tenant, "shown")
    done = await asyncio.to_thread(
        kubectl_vcsync,
        scene.door,
        "--external",
        "get",
        "configmaps",
        "-A",
        "--field-selector=metadata.name=shown",
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["NAMESPACE", "TENANT", "NAME", "DATA", "AGE"], done
    assert [line[:4] for line in lines[1:]] == [
        [scene.namespace, "acme", "shown", "1"],
        [scene.namespace, "umbrella", "shown", "1"],
    ]
    whole = await asyncio.to_thread(
        kubectl_vcsync, scene.door, "--external", "get", "configmap", "-n", scene.namespace, "-o", "yaml"
    )
    assert whole.returncode == 0, whole.stderr


async def test_kubectl_follows_all_tenants_in_one_table(scene: Scene) -> None:
    for tenant in ("umbrella", "acme"):
        await scene.create(tenant, "there", shown="yes")
    kubectl = ensure(["kubectl"])["kubectl"]
    config = (
        "--kubeconfig",
        str(scene.door.plane.data / "admin.kubeconfig"),
        f"--server={scene.door.plane.url}{ALL}",
    )
    process = await asyncio.create_subprocess_exec(
        kubectl, *config, "get", "configmaps", "-A", "-l", "shown", "--watch",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None

    async def line() -> list[str]:
        assert process.stdout is not None
        async with asyncio.timeout(limit(60)):
            return (await process.stdout.readline()).decode().split()[:4]

    try:
        assert await line() == ["NAMESPACE", "TENANT", "NAME", "DATA"]
        for tenant in ("acme", "umbrella"):
            assert await line() == [scene.namespace, tenant, "there", "1"]
        for tenant in ("initech", "acme", "umbrella"):
            await scene.create(tenant, "new", shown="yes")
            assert await line() == [scene.namespace, tenant, "new", "1"]
        await scene.delete("umbrella", "there")
        assert (await line())[:3] == [scene.namespace, "umbrella", "there"]
    finally:
        process.terminate()
        await process.communicate()


async def test_a_tenants_user_is_refused_as_by_a_missing_tenant(scene: Scene) -> None:
    for tenant in ("acme", "umbrella"):
        kubeconfig = await asyncio.to_thread(scene.door.plane.kubeconfig, tenant)
        async with calling(scene.door.plane, kubeconfig) as caller:
            for path in (scene.maps, f"{scene.maps}?watch=1", "/version"):
                answers = [
                    await caller("GET", f"/tenants/{name}{path}")
                    for name in ("all+external", "all+reachable", "no-such")
                ]
                assert answers[0][0] == 403
                assert answers == [answers[0]] * 3

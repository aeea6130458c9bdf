"""Two control plane processes on one etcd serve the same tenants concurrently, and each works without the other."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from plane_kit import MERGE, Caller, calling, first

from hack.embedded import ControlPlane
from hack.etcd import Etcd
from tests.real.waiting import soon

TENANT = "/tenants/acme"
CORE = f"{TENANT}/api/v1/namespaces/default"
CONFIG_MAPS = f"{CORE}/configmaps"
CLIENTS = 4
"""At each process."""


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture(scope="module")
def planes(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ControlPlane]]:
    folder = tmp_path_factory.mktemp("planes")
    with (
        ControlPlane(folder / "one", etcd=etcd.url) as one,
        ControlPlane(folder / "other", etcd=etcd.url) as other,
    ):
        one.create("acme")
        yield [one, other]


@pytest.fixture
async def callers(planes: list[ControlPlane]) -> AsyncIterator[list[Caller]]:
    """The tenant's admin at each process, with credentials from one of them."""
    kubeconfig = await asyncio.to_thread(planes[0].kubeconfig, "acme")
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(calling(plane, kubeconfig)) for plane in planes]


async def at_both(callers: list[Caller], work: Callable[[Caller, int], Awaitable[Any]]) -> list[Any]:
    """Let all clients of all processes work concurrently."""
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(work(caller, which * CLIENTS + number))
            for which, caller in enumerate(callers)
            for number in range(CLIENTS)
        ]
    return [each.result() for each in running]


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def version(caller: Caller) -> str:
    _, listed = await caller("GET", f"{CONFIG_MAPS}?limit=1")
    return str(listed["metadata"]["resourceVersion"])


async def test_each_process_serves_the_writes_of_the_other(callers: list[Caller]) -> None:
    one, other = callers
    status, made = await one("POST", CONFIG_MAPS, config_map("seen", k="v"))
    assert status == 201
    assert await other("GET", f"{CONFIG_MAPS}/seen") == (200, made)
    status, _ = await other("DELETE", f"{CONFIG_MAPS}/seen")
    assert status == 200
    assert (await one("GET", f"{CONFIG_MAPS}/seen"))[0] == 404


async def test_concurrent_writers_do_not_overwrite_each_other(callers: list[Caller]) -> None:
    await callers[0]("POST", CONFIG_MAPS, config_map("counter", n="0"))

    async def count(caller: Caller, _: int) -> int:
        conflicts = 0
        for _ in range(3):
            while True:
                _, found = await caller("GET", f"{CONFIG_MAPS}/counter")
                found["data"]["n"] = str(int(found["data"]["n"]) + 1)
                status, answer = await caller("PUT", f"{CONFIG_MAPS}/counter", found)
                if status == 200:
                    break
                assert (status, answer["reason"]) == (409, "Conflict"), answer
                conflicts += 1
        return conflicts

    conflicts = await at_both(callers, count)
    _, found = await callers[1]("GET", f"{CONFIG_MAPS}/counter")
    assert found["data"]["n"] == str(3 * 2 * CLIENTS)
    assert sum(conflicts) > 0


async def test_patches_of_different_fields_all_take_effect(callers: list[Caller]) -> None:
    await callers[0]("POST", CONFIG_MAPS, config_map("shared"))

    async def patch(caller: Caller, number: int) -> None:
        change = {"data": {f"key-{number}": "v"}}
        while True:
            status, answer = await caller("PATCH", f"{CONFIG_MAPS}/shared", change, MERGE)
            if status == 200:
                return
            # Both sides retry a few times. A client whose attempts all conflict gets a conflict and tries again.
            assert status == 409, answer

    await at_both(callers, patch)
    _, found = await callers[1]("GET", f"{CONFIG_MAPS}/shared")
    assert sorted(found["data"]) == sorted(f"key-{number}" for number in range(2 * CLIENTS))


async def test_a_quota_is_kept_by_both_processes(callers: list[Caller]) -> None:
    space = f"{TENANT}/api/v1/namespaces/limited"
    await callers[0]("POST", f"{TENANT}/api/v1/namespaces", {"metadata": {"name": "limited"}})
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "3"}}}
    await callers[0]("POST", f"{space}/resourcequotas", quota)
    status = {"status": {"hard": {"count/configmaps": "3"}, "used": {"count/configmaps": "0"}}}
    answered, body = await callers[0]("PATCH", f"{space}/resourcequotas/few/status", status, MERGE)
    assert answered == 200, body

    async def create(caller: Caller, number: int) -> int:
        answered, body = await caller("POST", f"{space}/configmaps", config_map(f"c-{number}"))
        assert answered in (201, 403), body
        return answered

    answers = await at_both(callers, create)
    assert answers.count(201) == 3
    _, listed = await callers[1]("GET", f"{space}/configmaps")
    assert len(listed["items"]) == 3


async def test_nothing_is_created_in_a_namespace_that_the_other_process_has_deleted(
    callers: list[Caller],
) -> None:
    for number in range(3):
        space = f"{TENANT}/api/v1/namespaces/ending-{number}"
        await callers[0]("POST", f"{TENANT}/api/v1/namespaces", {"metadata": {"name": f"ending-{number}"}})
        created: list[int] = []
        many = asyncio.Event()

        async def create(caller: Caller, client: int) -> None:
            answered, name = 201, 0
            while answered == 201:
                name += 1
                answered, body = await caller("POST", f"{space}/configmaps", config_map(f"c-{client}-{name}"))  # noqa: B023
                if answered == 201:
                    created.append(int(body["metadata"]["resourceVersion"]))  # noqa: B023
                    if len(created) > 20:  # noqa: B023
                        many.set()  # noqa: B023
            assert (answered, body["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")

        async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
            creating = tasks.create_task(at_both(callers, create))
            await many.wait()
            answered, ended = await callers[number % 2]("DELETE", space)
            assert answered == 200, ended
            await creating
        assert max(created) < int(ended["metadata"]["resourceVersion"])


async def test_addresses_and_ports_are_allocated_once(callers: list[Caller]) -> None:
    async def create(caller: Caller, number: int) -> tuple[str, int]:
        spec = {"type": "NodePort", "ports": [{"port": 80}], "selector": {"a": "b"}}
        body = {"metadata": {"name": f"s-{number}"}, "spec": spec}
        status, made = await caller("POST", f"{CORE}/services", body)
        assert status == 201, made
        return made["spec"]["clusterIP"], made["spec"]["ports"][0]["nodePort"]

    given = await at_both(callers, create)
    assert len({address for address, _ in given}) == len({port for _, port in given}) == 2 * CLIENTS


async def test_watches_of_both_report_the_same_events_in_the_same_order(callers: list[Caller]) -> None:
    start = await version(callers[0])
    path = f"{CONFIG_MAPS}?watch=1&resourceVersion={start}"

    async def write(caller: Caller, number: int) -> None:
        for turn in range(3):
            await caller("POST", CONFIG_MAPS, config_map(f"w-{number}-{turn}"))

    async with callers[0].watch(path) as here, callers[1].watch(path) as there:
        await at_both(callers, write)
        seen = [await first(each, 3 * 2 * CLIENTS) for each in (here, there)]
    assert seen[0] == seen[1]
    versions = [int(each["object"]["metadata"]["resourceVersion"]) for each in seen[0]]
    assert versions == sorted(set(versions))


async def test_each_process_knows_rights_kinds_and_tenants_of_the_other(
    planes: list[ControlPlane], callers: list[Caller]
) -> None:
    one, other = planes
    rbac = f"{TENANT}/apis/rbac.authorization.k8s.io/v1"
    kubeconfig = await asyncio.to_thread(lambda: one.kubeconfig("acme", user="reader"))
    async with calling(other, kubeconfig) as reader:

        async def may_read() -> bool:
            return (await reader("GET", CONFIG_MAPS))[0] == 200

        assert not await may_read()
        binding = {
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
        }
        assert (await callers[0]("POST", f"{rbac}/clusterrolebindings", binding))[0] == 201
        await soon(may_read)
        await callers[0]("DELETE", f"{rbac}/clusterrolebindings/reader")

        async def may_not() -> bool:
            return not await may_read()

        await soon(may_not)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"metadata": {"name": "things.example.com"}, "spec": spec}
    definitions = f"{TENANT}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await callers[0]("POST", definitions, definition))[0] == 201
    things = f"{TENANT}/apis/example.com/v1/namespaces/default/things"

    async def served() -> bool:
        try:
            return (await callers[1]("GET", things))[0] == 200
        # The 404 of an unknown path is plain text.
        except ValueError:
            return False

    await soon(served)
    kubeconfig = await asyncio.to_thread(other.create, "umbrella")
    async with calling(one, kubeconfig) as admin:

        async def let_in() -> bool:
            try:
                return (await admin("GET", "/tenants/umbrella/api/v1/namespaces"))[0] == 200
            except aiohttp.ClientError:
                return False

        await soon(let_in)


async def test_when_one_is_killed_the_other_continues_and_watches_resume_there(
    etcd: Etcd, planes: list[ControlPlane], callers: list[Caller], tmp_path: Path
) -> None:
    kubeconfig = await asyncio.to_thread(planes[1].kubeconfig, "acme")
    third = ControlPlane(tmp_path, etcd=etcd.url)
    await asyncio.to_thread(third.start)
    start = await version(callers[1])
    path = f"{CONFIG_MAPS}?watch=1&resourceVersion="
    acknowledged: list[str] = []
    tried: list[str] = []
    seen: list[tuple[str, str]] = []

    async with calling(third, kubeconfig) as doomed:

        async def write(number: int) -> None:
            for turn in range(1000):
                name = f"k-{number}-{turn}"
                tried.append(name)
                status, _ = await doomed("POST", CONFIG_MAPS, config_map(name))
                assert status == 201
                acknowledged.append(name)

        async def watch() -> None:
            async with doomed.watch(path + start) as events:
                async for event in events:
                    metadata = event["object"]["metadata"]
                    seen.append((metadata["name"], metadata["resourceVersion"]))

        working = [asyncio.create_task(write(number)) for number in range(CLIENTS)]
        watching = asyncio.create_task(watch())
        async with asyncio.timeout(60):
            while len(seen) < 20:
                await asyncio.sleep(0.01)
        await asyncio.to_thread(third.stop, signal.SIGKILL)
        ended = await asyncio.gather(*working, watching, return_exceptions=True)
    assert all(isinstance(each, aiohttp.ClientError) for each in ended), ended
    status, last = await callers[1]("POST", CONFIG_MAPS, config_map("k-last"))
    assert status == 201
    async with callers[1].watch(path + seen[-1][1]) as events:
        async with asyncio.timeout(60):
            async for event in events:
                metadata = event["object"]["metadata"]
                seen.append((metadata["name"], metadata["resourceVersion"]))
                if metadata["name"] == "k-last":
                    break
    names = [name for name, _ in seen]
    assert len(names) == len(set(names))
    assert set(acknowledged) <= set(names) <= {*tried, "k-last"}
    assert seen[-1][1] == last["metadata"]["resourceVersion"]


async def test_default_objects_of_a_tenant_are_restored_once(callers: list[Caller]) -> None:
    one, other = callers
    endpoints = f"{CORE}/endpoints/kubernetes"
    _, before = await one("GET", endpoints)
    assert (await one("DELETE", endpoints))[0] == 200

    async def restored() -> bool:
        return (await other("GET", endpoints))[0] == 200

    await soon(restored)
    _, now = await other("GET", endpoints)
    # They share the machine's address and have different ports, either of which is correct.
    assert now["subsets"][0]["addresses"] == before["subsets"][0]["addresses"]
    assert now["metadata"]["uid"] != before["metadata"]["uid"]
    # Both have reconciled by then.
    await asyncio.sleep(2)
    assert await one("GET", endpoints) == (200, now)

"""Limits of requests with kubectl and raw HTTP: by one process, by two over etcd, embedded and external."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Awaitable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hack.embedded import ControlPlane
from hack.etcd import Etcd
from hack.parity import sides
from hack.testbed import TestBed, ensure
from tests.real.plane_kit import Caller
from tests.real.up_kit import Up
from tests.real.waiting import eventually, soon
from vcsync.kube.connector import Connector

KUBECTL = str(ensure(["kubectl"])["kubectl"])
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECONDS = 60.0
"""For what happens soon, on a slow machine."""


class Client(Caller):
    """Counts the answers to requests."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        super().__init__(session, url)
        self.session = session

    async def many(
        self, count: int, verb: str = "GET", path: str = CONFIG_MAPS
    ) -> list[tuple[int, Any, str]]:
        """Send requests at once, and return their statuses, bodies, and Retry-After headers."""

        async def one(number: int) -> tuple[int, Any, str]:
            body = {"metadata": {"generateName": "cm-"}} if verb == "POST" else None
            async with self.session.request(verb, self.url + path, json=body) as answer:
                return answer.status, await answer.json(), answer.headers.get("Retry-After", "")

        return await asyncio.gather(*(one(number) for number in range(count)))

    async def passed(self, count: int, verb: str = "GET") -> int:
        return [status for status, *_ in await self.many(count, verb)].count(200 if verb == "GET" else 201)


async def client(stack: AsyncExitStack, plane: ControlPlane, kubeconfig: Path) -> Client:
    context = next(iter(sides.side("", kubeconfig).users.values())).context
    session = aiohttp.ClientSession(connector=Connector(ssl=context, limit=0), read_bufsize=2**20)
    await stack.enter_async_context(session)
    return Client(session, plane.url)


def limit(plane: ControlPlane, tenant: str, limits: str, user: str = "") -> None:
    plane.vcsync("tenant", "set", tenant, "--limits", limits, "--user-limits", user)


def kubectl(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [KUBECTL, f"--kubeconfig={kubeconfig}", *arguments],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "HOME": str(kubeconfig.parent)},
    )  # fmt: skip


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("plane")) as plane:
        yield plane
        assert "Traceback" not in plane.log.read_text()


@pytest.fixture
async def stack() -> Any:
    async with AsyncExitStack() as stack:
        yield stack
    await asyncio.sleep(0)


@pytest.mark.core
async def test_a_tenant_over_its_rate_gets_429_which_names_the_limit(
    plane: ControlPlane, stack: AsyncExitStack
) -> None:
    kubeconfig = plane.create("acme")
    acme = await client(stack, plane, kubeconfig)
    assert await acme.passed(60) == 60
    # The rates are so low that a slow machine does not let a whole further request through by mistake for long.
    limit(plane, "acme", "readsPerSecond=1,readBurst=20,writesPerSecond=1,writeBurst=5")
    began = time.monotonic()
    answers = await acme.many(60)
    passed = sum(status == 200 for status, *_ in answers)
    assert 20 <= passed <= 21 + time.monotonic() - began
    refused = next(answer for answer in answers if answer[0] == 429)
    assert refused[1]["reason"] == "TooManyRequests"
    assert refused[1]["details"]["retryAfterSeconds"] == int(refused[2]) >= 1
    assert 'tenant "acme" has reached its limit of 1 reads per second' in refused[1]["message"]
    assert 5 <= await acme.passed(20, "POST") <= 7 + time.monotonic() - began
    text = kubectl(plane.data / "admin.kubeconfig", "get", "--raw", "/metrics").stdout
    assert (
        'vcsync_tenant_refused_requests_total{holder="tenant",limit="readsPerSecond",tenant="acme"}' in text
    )
    assert "refused_requests" not in kubectl(kubeconfig, "get", "--raw", "/metrics").stdout
    # kubectl waits as Retry-After says, and tries again.
    assert kubectl(kubeconfig, "get", "--raw", CONFIG_MAPS).returncode == 0
    plane.vcsync("tenant", "set", "acme", "--limits", "")
    assert await acme.passed(60) == 60


async def test_one_user_of_a_tenant_does_not_starve_the_others_and_no_name_evades_the_limit(
    plane: ControlPlane, stack: AsyncExitStack
) -> None:
    admin = await client(stack, plane, plane.create("users"))
    plane.kubeconfig("users", user="bob")
    bob = await client(stack, plane, plane.kubeconfig("users", user="bob"))
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "bob"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}],
    }
    assert (await admin("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", role))[0] == 201
    limit(plane, "users", "readsPerSecond=1,readBurst=50", "readsPerSecond=1,readBurst=10")
    began = time.monotonic()

    async def invented(number: int) -> int:
        headers = {"Impersonate-User": f"somebody-{number}", "Impersonate-Group": "cluster-admins"}
        async with bob.session.get(bob.url + CONFIG_MAPS, headers=headers) as answer:
            return answer.status

    statuses = await asyncio.gather(*(invented(number) for number in range(60)))
    assert statuses.count(429) >= 60 - 11 - (time.monotonic() - began)
    assert 'user \\"bob\\"' in json.dumps([body for status, body, _ in await bob.many(30) if status == 429])
    assert await admin.passed(5) == 5


async def test_watches_over_the_limit_are_refused_and_open_ones_stay(
    plane: ControlPlane, stack: AsyncExitStack
) -> None:
    watcher = await client(stack, plane, plane.create("watcher"))
    limit(plane, "watcher", "watches=3")
    opened = [
        await stack.enter_async_context(watcher.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion=0"))
        for _ in range(3)
    ]
    status, body = await watcher("GET", f"{CONFIG_MAPS}?watch=true")
    assert (status, body["reason"]) == (429, "TooManyRequests")
    assert "limit of 3 open watches" in body["message"]
    limit(plane, "watcher", "watches=1")
    assert (await watcher("POST", CONFIG_MAPS, {"metadata": {"name": "seen"}}))[0] == 201
    for events in opened:
        async with asyncio.timeout(SECONDS):
            while (await anext(events))["object"]["metadata"]["name"] != "seen":
                pass
    assert (await watcher("GET", f"{CONFIG_MAPS}?watch=true"))[0] == 429


async def test_a_greedy_tenant_takes_nothing_from_another(plane: ControlPlane, stack: AsyncExitStack) -> None:
    greedy = await client(stack, plane, plane.create("greedy"))
    modest = await client(stack, plane, plane.create("modest"))
    limit(plane, "greedy", "readsPerSecond=1,readBurst=1,concurrentRequests=2")
    storm = asyncio.create_task(greedy.many(300))
    assert await modest.passed(30) == 30
    assert sum(status == 429 for status, *_ in await storm) > 200


async def test_anonymous_and_operator(plane: ControlPlane, stack: AsyncExitStack) -> None:
    acme = await client(stack, plane, plane.create("quiet"))
    limit(plane, "quiet", "readsPerSecond=1,readBurst=1")
    operator = await client(stack, plane, plane.data / "admin.kubeconfig")
    answers = await operator.many(40, path=f"/tenants/quiet{CONFIG_MAPS}")
    assert [status for status, *_ in answers] == [200] * 40
    async with aiohttp.ClientSession(connector=Connector(ssl=False)) as stranger:
        for tenant in ("quiet", "no-such"):
            for _ in range(20):
                async with stranger.get(f"{plane.url}/tenants/{tenant}{CONFIG_MAPS}") as answer:
                    assert answer.status in (401, 403)
    assert await acme.passed(1) == 1


async def test_bytes_are_paid_for_by_later_requests(plane: ControlPlane, stack: AsyncExitStack) -> None:
    heavy = await client(stack, plane, plane.create("heavy"))
    body = {"metadata": {"name": "large"}, "data": {"k": secrets.token_hex(200_000)}}
    assert (await heavy("POST", CONFIG_MAPS, body))[0] == 201
    limit(plane, "heavy", "bytesPerSecond=1Ki")
    assert (await heavy("GET", f"{CONFIG_MAPS}/large"))[0] == 200
    (status, answer, retry), *_ = await heavy.many(1)
    assert status == 429
    assert "bytes per second" in answer["message"]
    assert int(retry) > 60


async def open_watches(client: Client) -> int:
    """Return how many of six watches may be open at once, and close them."""
    async with AsyncExitStack() as opened:
        answers = [
            await opened.enter_async_context(client.session.get(f"{client.url}{CONFIG_MAPS}?watch=true"))
            for _ in range(6)
        ]
        return sum(answer.status == 200 for answer in answers)


async def test_two_processes_share_the_limit(tmp_path: Path, stack: AsyncExitStack) -> None:
    with (
        Etcd(tmp_path / "etcd") as etcd,
        ControlPlane(tmp_path / "one", etcd=etcd.url) as one,
        ControlPlane(tmp_path / "other", etcd=etcd.url) as other,
    ):
        kubeconfig = one.create("acme")
        here, there = await client(stack, one, kubeconfig), await client(stack, other, kubeconfig)
        limit(one, "acme", "watches=4")
        await soon(lambda: equal(open_watches(here), 2))
        await soon(lambda: equal(open_watches(there), 2))
        # The other process knows the new limits when it refuses writes, which take nothing from the reads.
        limit(one, "acme", "readsPerSecond=1,readBurst=40,writesPerSecond=1,writeBurst=2")
        await soon(lambda: refuses(there))
        began = time.monotonic()
        passed = sum(await asyncio.gather(here.passed(60), there.passed(60)))
        assert 40 <= passed <= 42 + time.monotonic() - began
        # One that ends hands its share over.
        other.stop(signal.SIGTERM)
        limit(one, "acme", "watches=4")
        await soon(lambda: equal(open_watches(here), 4))


async def equal(asked: Awaitable[int], wanted: int) -> bool:
    return await asked == wanted


async def refuses(client: Client) -> bool:
    return any(status == 429 for status, *_ in await client.many(5, "POST"))


async def test_an_external_tenant_is_limited_at_the_door(
    plane: ControlPlane, testbed: TestBed, stack: AsyncExitStack
) -> None:
    kubeconfig = testbed.supers["r1"].kubeconfig
    plane.vcsync("tenant", "connect", "outside", "--kubeconfig", str(kubeconfig))
    outside = await client(stack, plane, plane.kubeconfig("outside"))
    assert await outside.passed(20) == 20
    limit(plane, "outside", "readsPerSecond=1,readBurst=10,watches=1,concurrentRequests=5")
    began = time.monotonic()
    assert await outside.passed(40) <= 11 + time.monotonic() - began
    plane.vcsync("tenant", "delete", "outside")


@pytest.mark.timeout(390)
def test_limits_of_a_tenant_object_reach_its_control_plane_and_its_status(tmp_path: Path) -> None:
    up = Up(tmp_path)
    tenant = {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "Tenant",
        "metadata": {"name": "umbrella"},
        "spec": {
            "limits": {"readsPerSecond": 1, "watches": 7, "bytesPerSecond": "10Mi", "user": {"watches": 2}}
        },
    }
    try:
        up.start("--tenants", "")
        admin = str(up.data / "admin.kubeconfig")

        def operator(script: str) -> str:
            return up.type(script, KUBECONFIG=admin, VCSYNC_META=admin)

        operator(f"kubectl apply -f - <<< '{json.dumps(tenant)}'")
        operator("kubectl wait --for=condition=Ready te/umbrella --timeout=60s")
        status = "kubectl get te umbrella -o jsonpath='{.status.limits}'"
        eventually(lambda: json.loads(operator(status) or "{}").get("watches") == 7)
        shown = json.loads(operator(status))
        assert shown == {
            "readsPerSecond": 1,
            "readBurst": 2,
            "watches": 7,
            "bytesPerSecond": "10485760",
            "user": {"watches": 2},
        }
        described = operator("kubectl describe te umbrella")
        assert "Reads Per Second:" in described
        operator(f"vcsync tenant kubeconfig umbrella > {up.data}/umbrella.kubeconfig")
        watch = f"kubectl --kubeconfig {up.data}/umbrella.kubeconfig get --raw '{CONFIG_MAPS}?watch=1&timeoutSeconds=20'"
        up.type(f"for n in 1 2 3 4 5; do timeout 30 {watch} & done; wait; true")
        reached = (
            "kubectl get te umbrella -o jsonpath='{.status.conditions[?(@.type==\"WithinLimits\")].reason}'"
        )
        eventually(lambda: operator(reached) == "LimitsReached")
        operator("vcsync tenant set umbrella --weight 5")
        record = "kubectl get --raw /vcsync/v1/tenants/umbrella"
        eventually(lambda: json.loads(operator(record))["weight"] == 5)
        operator("vcsync tenant set umbrella --limits watches=3")
        eventually(lambda: json.loads(operator(status) or "{}") == {"watches": 3})
        operator("vcsync tenant set umbrella --limits ''")
        eventually(lambda: not operator(status))
    finally:
        if up.begun and up.alive:
            up.end(signal.SIGKILL)

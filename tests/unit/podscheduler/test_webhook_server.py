"""The placement webhook over TLS: who is answered, with which super cluster, and what ends slow, large and many calls."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from memory_cluster import until
from test_admission_reviews import SPEC, patch_of, review
from test_podscheduler_whole import ROOT, Stage

from vcsync.api import names
from vcsync.apiserver.tenants.pki import issue_serving, new_authority
from vcsync.kube.resources import PODS, SECRETS
from vcsync.podscheduler import PodScheduler, Settings, webhook_callers, webhook_server, webhook_service
from vcsync.podscheduler.settings import WebhookSettings

TOKEN = "a" * 43
PATH = f"{names.PLACEMENT_PATH}{TOKEN}"
SECRET = {"namespace": ROOT, "name": names.PLACEMENT_SECRET}
TLS = {"namespace": names.SYSTEM_NAMESPACE, "name": names.PLACEMENT_TLS_SECRET}


def encoded(**data: str) -> dict[str, str]:
    return {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}


class Hook:
    """A pod scheduler that serves the webhook, and a client of it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.authority = new_authority("test", time.time())
        self.scheduler: PodScheduler
        self.http: aiohttp.ClientSession
        self.url = ""

    def serve_as(self, *hosts: str) -> None:
        pair = issue_serving(self.authority, hosts or ["127.0.0.1"], time.time())
        data = encoded(**{"tls.crt": pair.certificate, "tls.key": pair.key})
        self.stage.meta.put(SECRETS, **TLS, data=data)

    def token(self, token: str = TOKEN) -> None:
        self.stage.meta.put(SECRETS, **SECRET, data=encoded(token=token))

    @asynccontextmanager
    async def running(self, *, leads: bool = True) -> AsyncIterator[None]:
        self.scheduler = PodScheduler(
            self.stage.meta,  # type: ignore[arg-type]
            identity="me",
            leader_elect=False,
            settings=Settings(webhook=WebhookSettings("127.0.0.1", 0)),
            make_client=lambda _kubeconfig, _key: self.stage.tenant,  # type: ignore[arg-type,return-value]
        )
        service = self.scheduler.webhook
        assert service is not None
        task = asyncio.create_task(self.scheduler.run() if leads else service.run())
        context = ssl.create_default_context(cadata=self.authority.certificate)
        connector = aiohttp.TCPConnector(ssl=context)
        try:
            async with aiohttp.ClientSession(connector=connector) as self.http:
                await until(lambda: service.server.port)
                self.url = f"https://127.0.0.1:{service.server.port}"
                if leads:
                    await until(lambda: self.term is not None and len(self.term.callers))
                yield
        finally:
            task.cancel()
            await asyncio.wait((task,))

    @property
    def term(self) -> Any:
        return self.scheduler._terms.current

    async def call(self, body: bytes, path: str = PATH) -> tuple[int, bytes]:
        async with self.http.post(f"{self.url}{path}", data=body) as found:
            return found.status, await found.read()

    def promised(self) -> int:
        found: int = self.scheduler.status()["tenants"][ROOT]["promised"]
        return found

    def count(self, outcome: str) -> int:
        found: int = self.term.callers.counts[outcome]
        return found


@pytest.fixture
async def hook() -> Hook:
    found = Hook(Stage())
    found.serve_as()
    found.token()
    return found


async def test_a_new_pod_gets_its_super_cluster_and_its_room(hook):
    async with hook.running():
        status, body = await hook.call(review())
        assert status == 200
        assert patch_of(body)[0]["value"] == {names.SUPER_CLUSTER: "r1"}
        assert hook.promised() == 1
        labels = {names.SUPER_CLUSTER: "r1"}
        hook.stage.tenant.put(
            PODS, "p", "shop", metadata={"labels": labels, "annotations": labels}, spec=SPEC
        )
        await until(lambda: not hook.promised())
        assert hook.count("placed") == 1


async def test_the_same_review_gets_the_same_answer_and_promises_once(hook):
    async with hook.running():
        assert len({await hook.call(review()) for _ in range(3)}) == 1
        assert (hook.promised(), hook.count("placed"), hook.count("repeated")) == (1, 1, 2)
        assert hook.term.promise_counts["placed"] == 1


async def test_pods_that_do_not_fit_are_allowed_without_a_super_cluster(hook):
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]}
    async with hook.running():
        status, body = await hook.call(review({"metadata": {"name": "p"}, "spec": spec}))
        assert (status, json.loads(body)["response"]) == (200, {"uid": "u", "allowed": True})
        status, body = await hook.call(review(namespace="elsewhere", uid="v"))
        assert (status, json.loads(body)["response"]) == (200, {"uid": "v", "allowed": True})
        assert hook.promised() == 1, "the turn of the first one"


@pytest.mark.parametrize("path", [PATH[:-1], f"{PATH}/", f"{PATH}%20", names.PLACEMENT_PATH, "/"])
async def test_who_has_no_token_is_refused(hook, path):
    async with hook.running():
        assert (await hook.call(review(), path))[0] == 404
        assert hook.promised() == 0


async def test_a_token_is_replaced_and_removed(hook, monkeypatch):
    monkeypatch.setattr(webhook_callers, "READ_SECONDS", 0.01)
    monkeypatch.setattr(webhook_callers, "READ_SECONDS_EACH", 0.0)
    other = "b" * 43

    async def refused() -> None:
        while (await hook.call(review(dryRun=True)))[0] != 404:
            await asyncio.sleep(0.01)

    async with hook.running(), asyncio.timeout(20):
        hook.token(other)
        await refused()
        assert (await hook.call(review(), f"{names.PLACEMENT_PATH}{other}"))[0] == 200
        hook.token("short")
        hook.token(TOKEN)
        while (await hook.call(review(dryRun=True)))[0] != 200:
            await asyncio.sleep(0.01)


async def test_a_process_that_does_not_lead_allows_every_pod(hook):
    async with hook.running(leads=False):
        status, body = await hook.call(review())
        assert (status, json.loads(body)["response"]) == (200, {"uid": "u", "allowed": True})
        async with hook.http.get(f"{hook.url}/leader") as found:
            assert found.status == 503


@pytest.mark.parametrize("leads", [True, False])
async def test_only_the_leader_keeps_connections_open(hook, leads):
    """A Service leads new connections to the leader, and leaves those as they are that were opened to a former one."""
    async with hook.running(leads=leads), hook.http.post(f"{hook.url}{PATH}", data=review()) as found:
        assert found.status == 200
        assert (found.headers.get("Connection") == "close") is not leads


async def test_load_balancers_can_find_the_leader(hook):
    async with hook.running(), hook.http.get(f"{hook.url}/leader") as found:
        assert found.status == 200


async def test_bodies_have_a_limit_and_a_time(hook, monkeypatch):
    monkeypatch.setattr(webhook_server, "BODY_SECONDS", 0.05)

    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    async with hook.running():
        assert (await hook.call(b"{}"))[0] == 400
        async with hook.http.post(f"{hook.url}{PATH}", data=slow()) as found:
            assert found.status == 408
        headers = {"Content-Length": str(webhook_server.MAX_BODY + 1)}
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            hook.scheduler.webhook.server.port,
            ssl=ssl.create_default_context(cadata=hook.authority.certificate),
        )
        lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
        writer.write(f"POST {PATH} HTTP/1.1\r\nHost: h\r\n{lines}\r\n".encode())
        assert b" 413 " in await reader.readline()
        writer.close()
        assert hook.count("refused") == 3


async def test_calls_of_one_tenant_are_limited(hook, monkeypatch):
    monkeypatch.setattr(webhook_server, "MOST_CALLS", 0)
    async with hook.running():
        assert (await hook.call(review()))[0] == 429
        assert (hook.promised(), hook.count("limited"), hook.count("refused")) == (0, 1, 0)


async def test_a_tenant_that_calls_all_the_time_gets_few_answers_in_a_second(hook, monkeypatch):
    monkeypatch.setattr(webhook_server, "CALLS_AT_ONCE", 2)
    monkeypatch.setattr(webhook_server, "CALLS_PER_SECOND", 0.001)
    async with hook.running():
        assert [(await hook.call(review()))[0] for _ in range(4)] == [200, 200, 429, 429]


async def test_slow_calls_of_one_tenant_leave_room_for_others(hook, monkeypatch):
    monkeypatch.setattr(webhook_server, "MAX_CALLS", 4)
    async with hook.running():
        calls = hook.scheduler.webhook.server._calls
        while calls.take(ROOT):
            pass
        assert (await hook.call(review()))[0] == 429
        assert calls.take("umbrella")


async def test_a_malformed_body_ends_without_a_defect_in_the_log(hook, capsys):
    async with hook.running():
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            hook.scheduler.webhook.server.port,
            ssl=ssl.create_default_context(cadata=hook.authority.certificate),
        )
        writer.write(f"POST {PATH} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        writer.write(b"1\r\n{\r\n")
        await writer.drain()
        await until(lambda: hook.scheduler.webhook.server._calls._used)
        writer.write(b"zz\r\n")
        async with asyncio.timeout(20):
            assert (await reader.readline()).startswith(b"HTTP/1.1 4")
        writer.close()
        assert hook.promised() == 0
    assert "Traceback" not in capsys.readouterr().out


async def test_a_late_decision_promises_nothing(hook):
    async with hook.running():
        [caller] = hook.term.callers._by_digest.values()
        ask = caller.ask

        def slowly(*arguments: Any) -> Any:
            found = ask(*arguments)
            hook.scheduler.webhook.server._clock = lambda: time.monotonic() + 60
            return found

        caller.ask = slowly
        status, body = await hook.call(review())
        assert (status, json.loads(body)["response"]) == (200, {"uid": "u", "allowed": True})
        assert (hook.promised(), hook.count("late")) == (0, 1)


async def test_a_new_certificate_is_used_without_a_restart(hook, monkeypatch):
    monkeypatch.setattr(webhook_service, "READ_SECONDS", 0.01)
    async with hook.running():
        port = hook.scheduler.webhook.server.port
        hook.serve_as("127.0.0.1", "localhost")
        context = ssl.create_default_context(cadata=hook.authority.certificate)
        async with asyncio.timeout(20):
            while True:
                try:
                    _, writer = await asyncio.open_connection(
                        "127.0.0.1", port, ssl=context, server_hostname="localhost"
                    )
                    break
                except ssl.SSLCertVerificationError:
                    await asyncio.sleep(0.01)
        writer.close()
        hook.stage.meta.put(SECRETS, **TLS, data={"tls.crt": "!"})
        await until(lambda: hook.scheduler.webhook.state.startswith("served with the former certificate"))
        assert (await hook.call(review()))[0] == 200
        hook.serve_as()
        await until(lambda: hook.scheduler.webhook.state.startswith("served at"))


async def test_without_a_certificate_the_state_names_the_remedy():
    hook = Hook(Stage())
    service = webhook_service.WebhookService(
        hook.stage.meta,  # type: ignore[arg-type]
        WebhookSettings("127.0.0.1", 0),
        lambda: None,
    )
    task = asyncio.create_task(service.run())
    await until(lambda: "--placement-webhook HOST:PORT" in service.state)
    task.cancel()
    await asyncio.wait((task,))

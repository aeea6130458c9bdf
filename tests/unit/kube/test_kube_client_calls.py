"""Requests of a client, its handling of responses, and its retries."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientTimeout, web
from kube_standin import StandIn, hang_up, kubeconfig, refuse, status

from vcsync.kube import client as client_module
from vcsync.kube import errors, stream_limiter, transport
from vcsync.kube.breaker import BreakerState
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.lines import LineSplitter
from vcsync.kube.resources import CONFIG_MAPS, PODS, SERVICE_ACCOUNTS

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Echo:
    """A handler that keeps the last request, and responds with an object."""

    def __init__(self, **metadata: object) -> None:
        self.metadata = {"name": "one", "namespace": "a", "resourceVersion": "7", **metadata}
        self.request: web.Request
        self.body = b""

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.request = request
        self.body = await request.read()
        return web.json_response({"kind": "ConfigMap", "metadata": self.metadata, "data": {"k": "v"}})

    @property
    def json(self) -> object:
        return msgspec.json.decode(self.body)


async def test_a_get_returns_an_envelope_and_carries_the_token(server: StandIn, client: Client) -> None:
    echo = Echo()
    server.always("GET", echo)
    item = await client.get(CONFIG_MAPS, "one", "a")
    assert (item.key, item.version, item.rest) == (("a", "one"), 7, b'{"data":{"k": "v"}}')
    assert echo.request.path == "/api/v1/namespaces/a/configmaps/one"
    assert echo.request.headers["Authorization"] == "Bearer t0ken"
    assert echo.request.headers["Accept"] == "application/json"


async def test_a_created_object_gets_its_type_from_the_resource(server: StandIn, client: Client) -> None:
    echo = Echo()
    server.always("POST", echo)
    await client.create(CONFIG_MAPS, {"metadata": {"name": "one"}}, "a")
    assert echo.json == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    assert echo.request.query["fieldManager"] == "vcsync"


async def test_a_body_that_has_a_type_is_sent_as_it_is(server: StandIn, client: Client) -> None:
    echo = Echo()
    server.always("POST", echo)
    body = {"apiVersion": "v2", "kind": "Other", "metadata": {"name": "one"}}
    await client.create(CONFIG_MAPS, body, "a")
    assert echo.json == body
    await client.create(CONFIG_MAPS, b'{"metadata":{}}', "a")
    assert echo.json == {"metadata": {}}
    await client.create(CONFIG_MAPS, {"kind": "Other", "metadata": {}}, "a")
    assert echo.json == {"kind": "Other", "metadata": {}}


async def test_a_replaced_object_and_its_status_get_their_type_from_the_resource(
    server: StandIn, client: Client
) -> None:
    echo = Echo()
    server.always("PUT", echo)
    body = {"metadata": {"name": "one"}}
    typed = {"apiVersion": "v1", "kind": "Pod", **body}
    for subresource, path, sent in (
        ("", "/api/v1/namespaces/a/pods/one", typed),
        ("status", "/api/v1/namespaces/a/pods/one/status", typed),
        ("approval", "/api/v1/namespaces/a/pods/one/approval", body),
    ):
        item = await client.replace(PODS, "one", body, "a", subresource=subresource)
        assert (item.name, echo.request.path, echo.json) == ("one", path, sent)
        assert echo.request.query["fieldManager"] == "vcsync"


async def test_requests_have_a_user_agent(server: StandIn, client: Client) -> None:
    echo = Echo()
    server.always("GET", echo)
    await client.get(CONFIG_MAPS, "one", "a")
    assert echo.request.headers["User-Agent"].startswith("vcsync/")


async def test_a_metadata_only_view_requests_partial_object_metadata(server: StandIn, client: Client) -> None:
    echo = Echo()
    server.always("GET", echo)
    await client.metadata_only().get(CONFIG_MAPS, "one", "a")
    assert echo.request.headers["Accept"] == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


async def test_a_response_without_a_name_is_an_error_with_the_request(
    server: StandIn, client: Client
) -> None:
    server.always("GET", Echo(name=""))
    with pytest.raises(errors.KubeError, match=r"/api/v1/namespaces/a/configmaps/one.*it has no name"):
        await client.get(CONFIG_MAPS, "one", "a")


async def test_a_view_sends_requests_below_its_prefix(server: StandIn, client: Client) -> None:
    echo = Echo(tenant="acme")
    server.always("GET", echo)
    item = await client.below("/tenants").below("/acme").get(CONFIG_MAPS, "one", "a")
    assert echo.request.path == "/tenants/acme/api/v1/namespaces/a/configmaps/one"
    assert item.tenant == "acme"


async def test_subresources_can_be_created(server: StandIn, client: Client) -> None:
    echo = Echo()
    server.always("POST", echo)
    await client.create_raw(SERVICE_ACCOUNTS, {"kind": "TokenRequest"}, "a", name="sa", subresource="token")
    assert echo.request.path == "/api/v1/namespaces/a/serviceaccounts/sa/token"
    assert echo.json == {"kind": "TokenRequest"}


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("merge", "application/merge-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
        ("json", "application/json-patch+json"),
        ("apply", "application/apply-patch+yaml"),
    ],
)
async def test_a_patch_has_the_content_type_of_its_kind(
    server: StandIn, client: Client, kind: str, content_type: str
) -> None:
    echo = Echo()
    server.always("PATCH", echo)
    patch = [] if kind == "json" else {"data": {"k": "v"}}
    await client.patch(CONFIG_MAPS, "one", patch, "a", kind=kind, field_manager="me", force=True)  # type: ignore[arg-type]
    assert echo.request.headers["Content-Type"] == content_type
    assert echo.request.query["fieldManager"] == "me"
    assert ("force" in echo.request.query) == (kind == "apply")


async def test_patches_in_bytes_are_sent_unchanged_and_apply_patches_get_their_type(
    server: StandIn, client: Client
) -> None:
    echo = Echo()
    server.always("PATCH", echo)
    item = await client.patch(CONFIG_MAPS, "one", b'{"data":null}', "a", subresource="status")
    assert (item.name, echo.json) == ("one", {"data": None})
    assert echo.request.path == "/api/v1/namespaces/a/configmaps/one/status"
    assert dict(echo.request.query) == {"fieldManager": "vcsync"}
    await client.patch(CONFIG_MAPS, "one", {"data": {}}, "a", kind="apply")
    assert echo.json == {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}
    await client.patch(CONFIG_MAPS, "one", b"{}", "a", kind="apply")
    assert echo.json == {}


async def test_a_delete_sends_its_preconditions(server: StandIn, client: Client) -> None:
    echo = Echo(deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=30)
    server.always("DELETE", echo)
    left = await client.delete(
        PODS, "one", "a", uid="u", resource_version="3", grace_seconds=30, propagation="Orphan"
    )
    assert left is not None
    assert left.deleting
    assert echo.json == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "3"},
        "gracePeriodSeconds": 30,
        "propagationPolicy": "Orphan",
    }


async def test_a_delete_without_preconditions_sends_none(server: StandIn, client: Client) -> None:
    echo = Echo()
    server.always("DELETE", echo)
    assert await client.delete(PODS, "one", "a") is None
    assert (echo.request.path, echo.json) == (
        "/api/v1/namespaces/a/pods/one",
        {"apiVersion": "v1", "kind": "DeleteOptions"},
    )


@pytest.mark.parametrize("propagation", ["Background", "Orphan"])
async def test_a_collection_is_deleted_with_one_request(
    server: StandIn, client: Client, propagation: Any
) -> None:
    echo = Echo()
    server.always("DELETE", echo)
    if propagation == "Background":
        await client.delete_collection(PODS, "a")
    else:
        await client.delete_collection(PODS, "a", propagation=propagation)
    assert echo.request.path == "/api/v1/namespaces/a/pods"
    assert echo.json == {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}


@pytest.mark.parametrize(
    ("metadata", "stands"),
    [
        ({}, False),
        ({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 0}, False),
        ({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 0, "finalizers": ["f"]}, True),
        ({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 30}, True),
        ({"deletionTimestamp": "t"}, True),
    ],
)
async def test_a_delete_returns_the_object_if_it_still_exists(
    server: StandIn, client: Client, metadata: dict[str, object], stands: bool
) -> None:
    server.always("DELETE", Echo(**metadata))
    assert (await client.delete(PODS, "one", "a") is not None) == stands


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Gone", errors.Gone),
        (413, "RequestEntityTooLarge", errors.TooLarge),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerError),
        (503, "ServiceUnavailable", errors.ServerError),
        (418, "Teapot", errors.ApiError),
    ],
)
async def test_each_error_status_has_an_exception_type(
    server: StandIn, client: Client, code: int, reason: str, kind: type[errors.ApiError]
) -> None:
    server.always("POST", refuse(code, reason))
    with pytest.raises(errors.ApiError) as caught:
        await client.create(CONFIG_MAPS, {}, "a")
    assert type(caught.value) is kind
    assert (caught.value.status.code, caught.value.status.reason) == (code, reason)
    assert caught.value.endpoint == "standin"
    assert "POST /api/v1/namespaces/a/configmaps" in str(caught.value)


async def test_errors_have_the_causes_of_the_status(server: StandIn, client: Client) -> None:
    causes = [{"reason": "FieldValueInvalid", "message": "no", "field": "spec.x"}]
    server.always("POST", refuse(422, "Invalid", causes=causes))
    with pytest.raises(errors.Invalid) as caught:
        await client.create(CONFIG_MAPS, {}, "a")
    assert caught.value.status.causes[0].field == "spec.x"


async def test_a_patch_of_another_objects_uid_is_a_conflict(server: StandIn, client: Client) -> None:
    causes = [{"reason": "FieldValueInvalid", "message": "immutable", "field": "metadata.uid"}]
    server.always("PATCH", refuse(422, "Invalid", causes=causes))
    with pytest.raises(errors.Conflict):
        await client.patch(CONFIG_MAPS, "one", {"metadata": {"uid": "u"}}, "a")


async def test_a_body_that_is_not_a_status_is_not_in_the_message(server: StandIn, client: Client) -> None:
    async def proxy_page(_: web.Request) -> web.StreamResponse:
        return web.Response(status=502, text="<html>password=hunter2</html>")

    server.always("POST", proxy_page)
    with pytest.raises(errors.ServerError) as caught:
        await client.create(CONFIG_MAPS, {}, "a")
    assert "hunter2" not in str(caught.value)


async def test_a_response_that_is_not_an_object_is_an_error(server: StandIn, client: Client) -> None:
    async def html(_: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>")

    server.always("GET", html)
    with pytest.raises(errors.KubeError, match="not a Kubernetes object"):
        await client.get(CONFIG_MAPS, "one", "a")


INVALID = {
    "not text": b'{"kind":"Status","message":"\xff","metadata":{"name":"\xff"},"type":"ADDED"}',
    "endless depth": b'{"a":' * 10_000,
}


def nonsense(kind: str, code: int = 200) -> Handler:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(status=code, body=INVALID[kind] + b"\n")

    return handle


@pytest.mark.parametrize("kind", INVALID)
async def test_any_response_raises_only_errors_of_the_client(
    server: StandIn, client: Client, kind: str
) -> None:
    for verb in ("GET", "WATCH"):
        server.always(verb, nonsense(kind))
    with pytest.raises(errors.KubeError):
        await client.get(CONFIG_MAPS, "one", "a")
    with pytest.raises(errors.KubeError):
        await client.version()
    with pytest.raises(errors.KubeError):
        await client.list(CONFIG_MAPS, "a")
    with pytest.raises(errors.KubeError):
        async for _ in client.watch(CONFIG_MAPS, resource_version="1"):
            pass
    server.always("POST", nonsense(kind, code=422))
    with pytest.raises(errors.Invalid):
        await client.create(CONFIG_MAPS, {}, "a")


async def test_responses_of_another_type_are_errors(server: StandIn, client: Client) -> None:
    async def maintenance(_: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "maintenance"})

    server.always("GET", maintenance)
    with pytest.raises(errors.KubeError, match="not a Kubernetes object"):
        await client.get(CONFIG_MAPS, "one", "a")
    with pytest.raises(errors.KubeError, match="not a Kubernetes object"):
        await client.list(CONFIG_MAPS, "a")


async def test_a_version_that_is_not_an_object_is_an_error(server: StandIn, client: Client) -> None:
    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(text="[]")

    server.always("GET", page)
    with pytest.raises(
        errors.KubeError,
        match=r"^standin: /version: the answer is not a Kubernetes object: Expected `object`",
    ):
        await client.version()


async def test_the_version_of_the_server_is_returned(server: StandIn, client: Client) -> None:
    async def say(_: web.Request) -> web.StreamResponse:
        return web.json_response({"major": "1", "gitVersion": "v1.36.0"})

    server.always("GET", say)
    assert await client.version() == {"major": "1", "gitVersion": "v1.36.0"}
    assert server.requests[-1].path == "/version"


async def test_a_redirect_is_not_followed(server: StandIn, client: Client) -> None:
    async def away(_: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    server.once("GET", away)
    with pytest.raises(errors.ApiError):
        await client.get(CONFIG_MAPS, "one", "a")
    assert len(server.requests) == 1


async def test_a_write_with_a_lost_response_is_not_retried(server: StandIn, client: Client) -> None:
    server.once("POST", hang_up)
    with pytest.raises(errors.Unreachable) as caught:
        await client.create(CONFIG_MAPS, {}, "a")
    assert caught.value.sent
    assert server.seen["POST"] == 1


@pytest.mark.parametrize("fault", [hang_up, refuse(503, "ServiceUnavailable"), refuse(500)])
async def test_a_failed_read_is_retried(server: StandIn, client: Client, fault: Handler) -> None:
    server.once("GET", fault)
    server.always("GET", Echo())
    assert (await client.get(CONFIG_MAPS, "one", "a")).name == "one"


async def test_a_write_refused_with_429_is_retried_after_retry_after(server: StandIn, client: Client) -> None:
    server.once("POST", refuse(429, headers={"Retry-After": "0"}))
    server.always("POST", Echo())
    await client.create(CONFIG_MAPS, {}, "a")
    assert server.seen["POST"] == 2
    assert client.statistics().retries == 1


async def test_an_eviction_refused_with_429_is_not_retried(server: StandIn, client: Client) -> None:
    server.always("POST", refuse(429, headers={"Retry-After": "0"}))
    with pytest.raises(errors.TooManyRequests) as caught:
        await client.create(PODS, {"kind": "Eviction"}, "a", name="p", subresource="eviction")
    assert caught.value.retry_after == 0
    assert server.seen["POST"] == 1


async def test_a_call_with_a_long_retry_after_is_not_retried(server: StandIn, client: Client) -> None:
    server.always("GET", refuse(429, headers={"Retry-After": "60"}))
    with pytest.raises(errors.TooManyRequests) as caught:
        await client.get(CONFIG_MAPS, "one", "a")
    assert caught.value.retry_after == 60


async def test_a_slow_answer_is_a_timeout(server: StandIn, client: Client) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        raise AssertionError

    server.always("GET", hang)
    with pytest.raises(errors.Timeout):
        await client.request("GET", "/version", timeout=0.05)


async def test_calls_to_a_dead_endpoint_fail_fast_until_it_is_back(server: StandIn, client: Client) -> None:
    states: list[BreakerState] = []
    client.on_state(states.append)
    for _ in range(5):
        server.once("POST", hang_up)
        with pytest.raises(errors.Unreachable):
            await client.create(CONFIG_MAPS, {}, "a")
    with pytest.raises(errors.CircuitOpen) as caught:
        await client.create(CONFIG_MAPS, {}, "a")
    assert 0 < caught.value.retry_after < 3
    assert server.seen["POST"] == 5
    client._transport._breaker._opens_until = 0.0
    server.always("POST", Echo())
    await client.create(CONFIG_MAPS, {}, "a")
    assert states == [BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED]


async def test_a_probe_that_ends_with_a_defect_is_followed_by_another(
    server: StandIn, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaker = client._transport._breaker
    for _ in range(5):
        breaker.failed(0.0)
    breaker._opens_until = 0.0

    def defect(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(client._transport, "_send", defect)
        with pytest.raises(ZeroDivisionError):
            await client.create(CONFIG_MAPS, {}, "a")
    server.always("POST", Echo())
    await client.create(CONFIG_MAPS, {}, "a")
    assert breaker.state is BreakerState.CLOSED


async def test_refusals_do_not_open_the_circuit(server: StandIn, client: Client) -> None:
    server.always("POST", refuse(500))
    for _ in range(8):
        with pytest.raises(errors.ServerError):
            await client.create(CONFIG_MAPS, {}, "a")
    assert client.statistics().breaker is BreakerState.CLOSED


async def test_retries_end_with_the_budget(server: StandIn, client: Client) -> None:
    server.always("GET", refuse(500))
    client._transport._budget._tokens = 2.0
    client._transport._budget._floor = 0.0
    with pytest.raises(errors.ServerError):
        await client.get(CONFIG_MAPS, "one", "a")
    assert server.seen["GET"] == 3


async def test_watches_can_open_while_all_connections_for_calls_are_in_use(server: StandIn) -> None:
    connection = Connection.from_kubeconfig_bytes(kubeconfig(server.url))
    release = asyncio.Event()

    async def wait(_: web.Request) -> web.StreamResponse:
        await release.wait()
        return web.json_response({"metadata": {"name": "one"}})

    server.always("GET", wait)
    async with Client(connection, name="narrow", max_connections=1) as client:
        call = asyncio.create_task(client.get(CONFIG_MAPS, "one", "a"))
        for _ in range(3):
            batches = client.watch_batches(PODS, resource_version="100")
            assert await anext(batches) == ()
            await batches.aclose()
        release.set()
        await call


@asynccontextmanager
async def silent_server() -> AsyncIterator[StandIn]:
    """Serve watches without ever responding."""
    silent, never = StandIn(), asyncio.Event()

    async def say_nothing(_: web.Request) -> web.StreamResponse:
        await never.wait()
        raise AssertionError

    silent.always("WATCH", say_nothing)
    await silent.start()
    yield silent
    await silent.stop()


async def watch(client: Client) -> None:
    async with aclosing(client.watch_batches(PODS, resource_version="100")) as batches:
        await anext(batches)


async def test_unresponsive_endpoints_do_not_block_watches_of_others(
    server: StandIn, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_limiter, "MAX_OPENING", 2)
    monkeypatch.setattr(stream_limiter, "SLOW_SECONDS", 0.01)
    async with silent_server() as silent, AsyncExitStack() as stack:
        stuck: list[asyncio.Task[None]] = []
        for _ in range(3):  # more streams than slots, with a time limit beyond that of the test
            connection = Connection.from_kubeconfig_bytes(kubeconfig(silent.url))
            hung = await stack.enter_async_context(Client(connection, name="silent", timeout=1000))
            stuck += [
                asyncio.create_task(watch(hung)) for _ in range(2 * stream_limiter.MAX_OPENING_PER_SERVER)
            ]
        async with asyncio.timeout(20):
            await watch(client)
        assert not any(each.done() for each in stuck)
        for each in stuck:
            each.cancel()
        await asyncio.wait(stuck)


async def test_an_endpoint_that_responds_again_takes_slots_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_limiter, "MAX_OPENING", 1)
    monkeypatch.setattr(stream_limiter, "SLOW_SECONDS", 0.0)
    own, other = stream_limiter.StreamLimiter(), stream_limiter.StreamLimiter()

    async def open_fast(endpoint: stream_limiter.StreamLimiter) -> None:
        async with endpoint.slot():
            pass

    async with own.slot():
        await asyncio.sleep(0.01)  # it is slow, so its slot is released
        async with asyncio.timeout(20):
            await open_fast(other)
    monkeypatch.setattr(stream_limiter, "SLOW_SECONDS", 1000)
    async with other.slot():  # all slots are in use
        async with asyncio.timeout(20):
            await open_fast(own)
        waiting = asyncio.create_task(open_fast(own))
        await asyncio.sleep(0.01)
        assert not waiting.done(), "it responded in time, so it needs a slot again"
    async with asyncio.timeout(20):
        await waiting


async def test_watches_of_an_unresponsive_endpoint_time_out() -> None:
    async with silent_server() as silent:
        connection = Connection.from_kubeconfig_bytes(kubeconfig(silent.url))
        async with Client(connection, name="silent", timeout=0.05) as hung:
            with pytest.raises(errors.Timeout):
                await watch(hung)


async def test_statistics_count_responses_by_verb_and_class(server: StandIn, client: Client) -> None:
    server.once("GET", Echo())
    await client.get(CONFIG_MAPS, "one", "a")
    server.once("GET", refuse(404))
    with pytest.raises(errors.NotFound):
        await client.get(CONFIG_MAPS, "one", "a")
    statistics = client.statistics()
    assert statistics.requests == {("GET", "2xx"): 1, ("GET", "4xx"): 1}
    assert statistics.last_success_at is not None
    assert statistics.last_error is None


async def test_statistics_count_attempts_without_response_and_server_errors(
    server: StandIn, client: Client
) -> None:
    server.once("POST", refuse(500, message="it broke"))
    with pytest.raises(errors.ServerError):
        await client.create(CONFIG_MAPS, {}, "a")
    assert client.statistics().last_success_at is None
    assert "500 it broke" in (client.statistics().last_error or "")
    server.once("POST", hang_up)
    with pytest.raises(errors.Unreachable):
        await client.create(CONFIG_MAPS, {}, "a")
    statistics = client.statistics()
    assert statistics.requests == {("POST", "5xx"): 1, ("POST", "error"): 1}
    assert (statistics.last_success_at, statistics.retries) == (None, 0)
    assert "POST /api/v1/namespaces/a/configmaps: the server closed the connection" in (
        statistics.last_error or ""
    )
    assert statistics.last_error_at is not None


async def test_calls_one_after_another_share_a_connection(server: StandIn, client: Client) -> None:
    server.always("GET", Echo())
    peers = []
    for _ in range(3):
        await client.get(CONFIG_MAPS, "one", "a")
        peers.append(server.peers[-1])
    assert len(set(peers)) == 1


@pytest.mark.parametrize("longest", [7, 8, 9])
async def test_an_endless_response_is_an_error(
    server: StandIn, client: Client, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def eight(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b"12345678")

    monkeypatch.setattr(transport, "_LONGEST_ANSWER", longest)
    server.always("POST", eight)
    if longest >= 8:
        assert await client.request("POST", "/x") == b"12345678"
    else:
        with pytest.raises(errors.Unreachable):
            await client.request("POST", "/x")


async def test_an_answer_that_names_other_choices_is_no_answer(server: StandIn, client: Client) -> None:
    server.always("POST", refuse(300))
    with pytest.raises(errors.ApiError):
        await client.request("POST", "/x")


async def test_calls_of_a_closed_client_raise(client: Client) -> None:
    await client.close()
    with pytest.raises(RuntimeError, match="closed"):
        await client.version()


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"resource_version": ""}, {}),
        ({"resource_version": "7"}, {"resourceVersion": "7"}),
        (
            {"resource_version": "", "send_initial_events": True},
            {"resourceVersion": "", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
        ),
        (
            {"resource_version": "7", "label_selector": "a=b", "field_selector": "c=d", "timeout_seconds": 9},
            {"resourceVersion": "7", "labelSelector": "a=b", "fieldSelector": "c=d", "timeoutSeconds": "9"},
        ),
    ],
)
async def test_a_watch_sends_its_version_and_selectors(
    server: StandIn, client: Client, options: dict[str, Any], asked: dict[str, str]
) -> None:
    async with aclosing(client.watch_batches(CONFIG_MAPS, "a", **options)) as batches:
        await anext(batches)
    usual = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "300"}
    assert dict(server.requests[-1].query) == {**usual, **asked}


async def test_watches_and_calls_are_counted(server: StandIn, client: Client) -> None:
    for _ in range(3):
        async with aclosing(client.watch_batches(CONFIG_MAPS, "a", resource_version="")) as batches:
            await anext(batches)
            assert client.statistics().watches == 1
    assert client.statistics().watches == 0


async def test_calls_are_rate_limited(server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    server.always("GET", Echo())
    slept: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    connection = Connection.from_kubeconfig_bytes(kubeconfig(server.url, token="t0ken"))
    async with Client(connection, name="standin", qps=0.001) as client:
        monkeypatch.setattr(transport.asyncio, "sleep", noted)
        for _ in range(20):
            await client.get(CONFIG_MAPS, "one", "a")
        monkeypatch.undo()
    assert [each for each in slept if each > 1]


async def test_errors_of_credentials_name_the_endpoint(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(kubeconfig("http://127.0.0.1:9", tokenFile="gone"))
    async with Client(Connection.from_kubeconfig_file(path), name="standin") as client:
        with pytest.raises(errors.CredentialsError, match="gone") as caught:
            await client.get(CONFIG_MAPS, "one", "a")
        assert caught.value.endpoint == "standin"
        assert str(tmp_path / "gone") in (client.statistics().last_error or "")


async def test_a_refused_token_is_read_again_and_the_call_retried_once(
    server: StandIn, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    echo = Echo()

    async def rotated(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer new":
            return await echo(request)
        path.write_text("new")
        return web.json_response(status(401, "Unauthorized"), status=401)

    server.always("GET", rotated)
    (tmp_path / "config").write_bytes(kubeconfig(server.url, tokenFile="token"))
    async with Client(Connection.from_kubeconfig_file(tmp_path / "config"), name="standin") as client:
        assert (await client.get(CONFIG_MAPS, "one", "a")).name == "one"
    assert len(server.requests) == 2


async def test_a_watch_yields_events_one_by_one(server: StandIn, client: Client) -> None:
    server.put("a", "one")
    events = client.watch(CONFIG_MAPS, resource_version="1")
    first = await anext(events)
    assert (first.type, first.object.name) == ("ADDED", "one")
    await events.aclose()
    assert client.statistics().watches == 0


async def test_events_before_an_error_are_delivered(server: StandIn, client: Client) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        line = msgspec.json.encode({"type": "ADDED", "object": {"metadata": {"name": "n"}}}) + b"\n"
        error = msgspec.json.encode({"type": "ERROR", "object": status(410, "Expired")}) + b"\n"
        return web.Response(body=line + error)

    server.once("WATCH", answer)
    events = client.watch(CONFIG_MAPS, resource_version="1")
    assert (await anext(events)).object.name == "n"
    with pytest.raises(errors.Gone):
        await anext(events)


async def test_a_silent_watch_by_event_times_out(
    client: Client,
) -> None:
    with pytest.raises(errors.Timeout, match="no data arrived for too long"):
        async for _ in client.watch(CONFIG_MAPS, "a", resource_version="", silence=0.05):
            pass


async def test_a_watch_by_event_sends_its_arguments(server: StandIn, client: Client) -> None:
    server.put("a", "one", {"a": "b"})
    events = client.watch(
        CONFIG_MAPS,
        "a",
        resource_version="7",
        label_selector="a=b",
        field_selector="c=d",
        timeout_seconds=9,
        send_initial_events=True,
    )
    assert (await anext(events)).object.name == "one"
    await events.aclose()
    assert server.requests[-1].path == "/api/v1/namespaces/a/configmaps"
    assert dict(server.requests[-1].query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "resourceVersionMatch": "NotOlderThan",
        "labelSelector": "a=b",
        "fieldSelector": "c=d",
        "timeoutSeconds": "9",
        "sendInitialEvents": "true",
    }


async def test_endless_and_incomplete_events_are_lost_connections(
    server: StandIn, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b'{"type":"ADD')

    server.always("WATCH", cut)
    with pytest.raises(errors.Unreachable, match="WATCH /api/v1/configmaps: cut in the middle") as caught:
        await anext(client.watch(CONFIG_MAPS, resource_version="1"))
    assert caught.value.endpoint == "standin"
    monkeypatch.setattr(client_module, "LineSplitter", partial(LineSplitter, 10))
    with pytest.raises(errors.Unreachable, match="WATCH /api/v1/configmaps: a line of more than") as caught:
        await anext(client.watch(CONFIG_MAPS, resource_version="1"))
    assert caught.value.endpoint == "standin"
    assert client.statistics().watches == 0


async def test_a_huge_event_has_no_line_limit(server: StandIn, client: Client) -> None:
    server.put("a", "big", blob="x" * 3_000_000)
    events = client.watch(CONFIG_MAPS, resource_version="1")
    assert len((await anext(events)).object.rest) > 3_000_000
    await events.aclose()


async def test_a_page_larger_than_the_limit_is_yielded_in_pages(server: StandIn, client: Client) -> None:
    async def everything(_: web.Request) -> web.StreamResponse:
        items = [{"metadata": {"name": str(number)}} for number in range(5)]
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": items})

    server.always("LIST", everything)
    sizes = [len(page.items) async for page in client.pages(CONFIG_MAPS, limit=2)]
    assert sizes == [2, 2, 1]


async def test_a_list_sends_its_arguments_with_every_page(server: StandIn, client: Client) -> None:
    for number in range(3):
        server.put("a", f"n{number}", {"a": "b"})
    items = await client.list(
        CONFIG_MAPS, "a", label_selector="a=b", field_selector="c=d", limit=2, resource_version="7"
    )
    assert [item.name for item in items] == ["n0", "n1", "n2"]
    selection = {"labelSelector": "a=b", "fieldSelector": "c=d", "limit": "2"}
    first, second = (dict(request.query) for request in server.requests)
    assert first == {**selection, "resourceVersion": "7", "resourceVersionMatch": "NotOlderThan"}
    assert second == {**selection, "continue": second["continue"]}


async def test_an_endless_list_ends_after_the_pages_that_are_wanted(server: StandIn, client: Client) -> None:
    async def endless(_: web.Request) -> web.StreamResponse:
        metadata = {"resourceVersion": "9", "continue": "more"}
        return web.json_response({"metadata": metadata, "items": [{"metadata": {"name": "a"}}]})

    server.always("LIST", endless)
    assert len(await client.list(CONFIG_MAPS, most_pages=3)) == 3
    assert len(server.requests) == 3


async def test_a_list_without_a_limit_requests_everything(server: StandIn, client: Client) -> None:
    for number in range(3):
        server.put("a", f"n{number}")
    pages = [page async for page in client.pages(CONFIG_MAPS, "a", limit=0)]
    assert [(len(page.items), page.remaining) for page in pages] == [(3, None)]
    assert dict(server.requests[-1].query) == {}


async def test_an_empty_collection_is_one_empty_page(client: Client) -> None:
    assert [page.items async for page in client.pages(CONFIG_MAPS)] == [[]]


async def test_the_proxy_of_the_environment_is_used(
    server: StandIn, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    connection = Connection.from_kubeconfig_bytes(kubeconfig("http://cluster.example:8080"))
    server.always("GET", Echo())
    async with Client(connection, name="proxied") as proxied:
        assert (await proxied.get(CONFIG_MAPS, "one", "a")).name == "one"
    assert server.requests[-1].headers["Host"] == "cluster.example:8080"


ASKED = transport.Request("GET", "/api/v1/pods?limit=1", ClientTimeout())
WRITTEN = transport.Request("POST", "/api/v1/namespaces/a/pods?x=y", ClientTimeout())
EVICTED = transport.Request("POST", "/api/v1/namespaces/a/pods/p/eviction?x=y", ClientTimeout())


def refused(kind: type[errors.ApiError], retry_after: float | None = None) -> errors.ApiError:
    return kind(errors.Status(), retry_after=retry_after)


@pytest.mark.parametrize(
    ("ask", "error", "pause"),
    [
        (ASKED, refused(errors.ServerError), 0.1),
        (WRITTEN, refused(errors.ServerError), None),
        (ASKED, refused(errors.ServerError, 3.0), 3.1),
        (ASKED, refused(errors.ServerError, 10.0), 10.1),
        (ASKED, refused(errors.ServerError, 10.5), None),
        (ASKED, refused(errors.NotFound), None),
        (WRITTEN, refused(errors.TooManyRequests, 2.0), 2.1),
        (WRITTEN, refused(errors.TooManyRequests), None),
        (EVICTED, refused(errors.TooManyRequests, 2.0), None),
        (ASKED, errors.Unreachable("x"), 0.1),
        (WRITTEN, errors.Unreachable("x"), None),
        (WRITTEN, errors.Unreachable("x", sent=False), 0.1),
        (ASKED, errors.Timeout("x"), None),
        (ASKED, errors.CircuitOpen("x", retry_after=1.0), None),
        (ASKED, errors.KubeError("x"), None),
    ],
)
def test_retries_and_their_pauses_depend_on_the_error(
    ask: transport.Request, error: errors.KubeError, pause: float | None
) -> None:
    assert transport.retry_pause(ask, error, 0, 1.0) == pause


def test_pauses_between_attempts_grow_to_two_seconds() -> None:
    error = errors.Unreachable("x")
    pauses = [transport.retry_pause(ASKED, error, attempt, 1.0) for attempt in range(7)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("77", 77.0),
        ("1.5", None),
        ("-1", None),
        ("", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("999999999", 999_999_999.0),
        ("9999999999", None),
    ],
)
def test_retry_after_is_in_seconds(header: str | None, seconds: float | None) -> None:
    assert transport._seconds(header) == seconds


def test_the_text_of_a_request_is_its_verb_and_path() -> None:
    stream = transport.Request("GET", "/api/v1/pods?watch=true", ClientTimeout(), stream=True)
    assert (str(ASKED), str(stream)) == ("GET /api/v1/pods", "WATCH /api/v1/pods")

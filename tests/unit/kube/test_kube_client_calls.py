"""What a client sends, what it makes of answers, and what it repeats."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import msgspec
import pytest
from aiohttp import web
from kube_standin import StandIn, hang_up, kubeconfig, refuse, status

from vcsync.kube import errors, transport
from vcsync.kube.breaker import BreakerState
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.resources import CONFIG_MAPS, PODS, SERVICE_ACCOUNTS

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Echo:
    """Remembers the last request and answers with an object."""

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


async def test_a_view_speaks_to_the_same_server_below_its_prefix(server: StandIn, client: Client) -> None:
    echo = Echo(tenant="acme")
    server.always("GET", echo)
    item = await client.below("/tenants").below("/acme").get(CONFIG_MAPS, "one", "a")
    assert echo.request.path == "/tenants/acme/api/v1/namespaces/a/configmaps/one"
    assert item.tenant == "acme"


async def test_a_subresource_is_posted_to_as_it_is(server: StandIn, client: Client) -> None:
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
async def test_a_patch_says_of_which_kind_it_is(
    server: StandIn, client: Client, kind: str, content_type: str
) -> None:
    echo = Echo()
    server.always("PATCH", echo)
    patch = [] if kind == "json" else {"data": {"k": "v"}}
    await client.patch(CONFIG_MAPS, "one", patch, "a", kind=kind, field_manager="me", force=True)  # type: ignore[arg-type]
    assert echo.request.headers["Content-Type"] == content_type
    assert echo.request.query["fieldManager"] == "me"
    assert ("force" in echo.request.query) == (kind == "apply")


async def test_a_delete_names_its_preconditions(server: StandIn, client: Client) -> None:
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
async def test_a_delete_tells_whether_the_object_still_stands(
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
async def test_each_refusal_has_its_type(
    server: StandIn, client: Client, code: int, reason: str, kind: type[errors.ApiError]
) -> None:
    server.always("POST", refuse(code, reason))
    with pytest.raises(errors.ApiError) as caught:
        await client.create(CONFIG_MAPS, {}, "a")
    assert type(caught.value) is kind
    assert (caught.value.status.code, caught.value.status.reason) == (code, reason)
    assert caught.value.endpoint == "standin"
    assert "POST /api/v1/namespaces/a/configmaps" in str(caught.value)


async def test_the_causes_of_a_refusal_are_kept(server: StandIn, client: Client) -> None:
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


async def test_a_body_that_is_no_status_is_not_repeated(server: StandIn, client: Client) -> None:
    async def proxy_page(_: web.Request) -> web.StreamResponse:
        return web.Response(status=502, text="<html>password=hunter2</html>")

    server.always("POST", proxy_page)
    with pytest.raises(errors.ServerError) as caught:
        await client.create(CONFIG_MAPS, {}, "a")
    assert "hunter2" not in str(caught.value)


async def test_an_answer_that_is_no_object_is_an_error(server: StandIn, client: Client) -> None:
    async def html(_: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>")

    server.always("GET", html)
    with pytest.raises(errors.KubeError, match="not a Kubernetes object"):
        await client.get(CONFIG_MAPS, "one", "a")


NONSENSE = {
    "not text": b'{"kind":"Status","message":"\xff","metadata":{"name":"\xff"},"type":"ADDED"}',
    "endless depth": b'{"a":' * 10_000,
}


def nonsense(kind: str, code: int = 200) -> Handler:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(status=code, body=NONSENSE[kind] + b"\n")

    return handle


@pytest.mark.parametrize("kind", NONSENSE)
async def test_whatever_a_server_answers_is_one_of_our_errors(
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


async def test_an_answer_of_something_else_is_no_object_and_no_empty_list(
    server: StandIn, client: Client
) -> None:
    async def maintenance(_: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "maintenance"})

    server.always("GET", maintenance)
    with pytest.raises(errors.KubeError, match="not a Kubernetes object"):
        await client.get(CONFIG_MAPS, "one", "a")
    with pytest.raises(errors.KubeError, match="not a Kubernetes object"):
        await client.list(CONFIG_MAPS, "a")


async def test_a_version_that_is_no_object_is_an_error(server: StandIn, client: Client) -> None:
    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(text="[]")

    server.always("GET", page)
    with pytest.raises(errors.KubeError):
        await client.version()


async def test_a_redirect_is_not_followed(server: StandIn, client: Client) -> None:
    async def away(_: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    server.once("GET", away)
    with pytest.raises(errors.ApiError):
        await client.get(CONFIG_MAPS, "one", "a")
    assert len(server.requests) == 1


async def test_a_write_whose_answer_was_lost_is_not_repeated(server: StandIn, client: Client) -> None:
    server.once("POST", hang_up)
    with pytest.raises(errors.Unreachable) as caught:
        await client.create(CONFIG_MAPS, {}, "a")
    assert caught.value.sent
    assert server.seen["POST"] == 1


@pytest.mark.parametrize("fault", [hang_up, refuse(503, "ServiceUnavailable"), refuse(500)])
async def test_a_read_is_repeated(server: StandIn, client: Client, fault: Handler) -> None:
    server.once("GET", fault)
    server.always("GET", Echo())
    assert (await client.get(CONFIG_MAPS, "one", "a")).name == "one"


async def test_a_write_refused_with_429_is_repeated_after_the_time_asked_for(
    server: StandIn, client: Client
) -> None:
    server.once("POST", refuse(429, headers={"Retry-After": "0"}))
    server.always("POST", Echo())
    await client.create(CONFIG_MAPS, {}, "a")
    assert server.seen["POST"] == 2
    assert client.statistics().retries == 1


async def test_an_eviction_refused_with_429_is_the_callers_affair(server: StandIn, client: Client) -> None:
    server.always("POST", refuse(429, headers={"Retry-After": "0"}))
    with pytest.raises(errors.TooManyRequests) as caught:
        await client.create(PODS, {"kind": "Eviction"}, "a", name="p", subresource="eviction")
    assert caught.value.retry_after == 0
    assert server.seen["POST"] == 1


async def test_a_long_retry_after_is_the_callers_affair(server: StandIn, client: Client) -> None:
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


async def test_a_dead_endpoint_fails_fast_after_a_few_calls_and_is_found_again(
    server: StandIn, client: Client
) -> None:
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


async def test_a_probe_that_ends_in_a_defect_is_not_the_last_one(
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


async def test_watches_open_while_all_connections_for_calls_are_taken(server: StandIn) -> None:
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


async def test_endpoints_that_accept_and_say_nothing_leave_others_turns_to_open_watches(
    server: StandIn, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_SETUPS", 2)
    silent, never = StandIn(), asyncio.Event()

    async def say_nothing(_: web.Request) -> web.StreamResponse:
        await never.wait()
        raise AssertionError

    silent.always("WATCH", say_nothing)
    await silent.start()
    connection = Connection.from_kubeconfig_bytes(kubeconfig(silent.url))

    async def watch(any_client: Client) -> None:
        async with aclosing(any_client.watch_batches(PODS, resource_version="100")) as batches:
            await anext(batches)

    async with Client(connection, name="silent", timeout=0.2) as hung:
        stuck = [asyncio.create_task(watch(hung)) for _ in range(2)]
        async with asyncio.timeout(5):
            await asyncio.sleep(0.05)
            await watch(client)
        for each in stuck:
            with pytest.raises(errors.Timeout):
                await each
    await silent.stop()


async def test_statistics_count_answers_by_verb_and_class(server: StandIn, client: Client) -> None:
    server.once("GET", Echo())
    await client.get(CONFIG_MAPS, "one", "a")
    server.once("GET", refuse(404))
    with pytest.raises(errors.NotFound):
        await client.get(CONFIG_MAPS, "one", "a")
    statistics = client.statistics()
    assert statistics.requests == {("GET", "2xx"): 1, ("GET", "4xx"): 1}
    assert statistics.last_success_at is not None
    assert statistics.last_error is None


async def test_a_closed_client_says_so(client: Client) -> None:
    await client.close()
    with pytest.raises(RuntimeError, match="closed"):
        await client.version()


async def test_a_watch_gives_events_one_by_one(server: StandIn, client: Client) -> None:
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


async def test_a_huge_event_has_no_line_limit(server: StandIn, client: Client) -> None:
    server.put("a", "big", blob="x" * 3_000_000)
    events = client.watch(CONFIG_MAPS, resource_version="1")
    assert len((await anext(events)).object.rest) > 3_000_000
    await events.aclose()


async def test_a_page_larger_than_asked_for_is_passed_on_in_portions(server: StandIn, client: Client) -> None:
    async def everything(_: web.Request) -> web.StreamResponse:
        items = [{"metadata": {"name": str(number)}} for number in range(5)]
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": items})

    server.always("LIST", everything)
    sizes = [len(page.items) async for page in client.pages(CONFIG_MAPS, limit=2)]
    assert sizes == [2, 2, 1]


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

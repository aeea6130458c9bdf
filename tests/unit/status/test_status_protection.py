"""A status endpoint that other machines reach: HTTPS, names for those who may read them, and health for everybody."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import pytest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from structlog.testing import capture_logs

from vcsync.apiserver.tenants.pki import issue_serving, new_authority
from vcsync.status import StatusServer
from vcsync.status.access import ALLOWED, NO_ANSWER, NOBODY, TOO_MANY, Access, Decision
from vcsync.status.certificate import ServingCertificate
from vcsync.status.server import Protection, is_loopback

AUTHORITY = new_authority("test", time.time())
TENANT, FAULT = "acme-of-the-operator", "the volume of acme is gone"
FORBIDDEN = Decision(403, "forbidden")
DECISIONS: Mapping[tuple[str, str], Decision] = {
    ("Bearer operator", "/status"): ALLOWED,
    ("Bearer operator", "/timeline"): ALLOWED,
    ("Bearer operator", "/metrics"): ALLOWED,
    ("Bearer prometheus", "/status"): FORBIDDEN,
    ("Bearer prometheus", "/timeline"): FORBIDDEN,
    ("Bearer prometheus", "/metrics"): ALLOWED,
    ("Bearer late", "/status"): NO_ANSWER,
    ("Bearer guess", "/status"): TOO_MANY,
}


class Answers:
    """Stands in for the meta cluster's decisions."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []

    async def decide(self, authorization: str, path: str, source: str) -> Decision:
        self.asked.append((authorization, path, source))
        return DECISIONS.get((authorization, path), NOBODY)


class Role:
    """A role whose every answer names a tenant and a fault."""

    is_ready = False

    def ready(self) -> tuple[bool, str]:
        return self.is_ready, FAULT

    def status(self) -> dict[str, Any]:
        return {"tenants": {TENANT: {"lastError": FAULT}}}

    def metrics(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("vcsync_queue_depth", "Items waiting", labels=["tenant"])
        family.add_metric([TENANT], 1.0)
        return [family]


def identity(*names: str) -> bytes:
    pair = issue_serving(AUTHORITY, names or ("127.0.0.1",), time.time())
    return (pair.certificate + pair.key).encode()


@asynccontextmanager
async def protected(
    answers: Answers | None = None, listen: str = "0.0.0.0:0", role: Role | None = None
) -> AsyncIterator[StatusServer]:
    access = None if answers is None else cast("Access", answers)
    made = identity()
    protection = Protection(access, ServingCertificate(lambda: made))
    async with StatusServer(listen, {"syncer/r1": role or Role()}, protection=protection) as server:
        yield server


async def get(
    server: StatusServer, path: str, token: str = "", method: str = "GET"
) -> tuple[int, str, Mapping[str, str]]:
    port = server.address.rpartition(":")[2]
    trust = ssl.create_default_context(cadata=AUTHORITY.certificate)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"https://127.0.0.1:{port}{path}", headers=headers, ssl=trust) as answer,
    ):
        return answer.status, await answer.text(), answer.headers


TIMELINE = "/timeline?tenant=acme&object=pods/default/web-0"


@pytest.mark.parametrize(
    ("token", "codes"),
    [
        ("operator", {"/": 200, "/status": 200, TIMELINE: 200, "/metrics": 200}),
        ("prometheus", {"/": 403, "/status": 403, TIMELINE: 403, "/metrics": 200}),
        ("somebody", {"/": 401, "/status": 401, TIMELINE: 401, "/metrics": 401}),
        ("", {"/": 401, "/status": 401, TIMELINE: 401, "/metrics": 401}),
    ],
)
async def test_who_may_read_what(token: str, codes: dict[str, int]) -> None:
    async with protected(Answers()) as server:
        found = {path: await get(server, path, token) for path in codes}
    assert {path: code for path, (code, _, _) in found.items()} == codes
    for code, text, _ in found.values():
        if code != 200:
            assert TENANT not in text
            assert FAULT not in text


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz?verbose"])
@pytest.mark.parametrize("is_ready", [True, False])
async def test_everybody_may_ask_for_health_which_has_no_names(path: str, is_ready: bool) -> None:
    role, answers = Role(), Answers()
    role.is_ready = is_ready
    async with protected(answers, role=role) as server:
        code, text, headers = await get(server, path)
    fine = is_ready or not path.startswith("/readyz")
    assert (code, text) == ((200, "ok\n") if fine else (503, "not ready: /status says why\n"))
    assert headers["Connection"] == "close"
    assert answers.asked == []


@pytest.mark.parametrize(
    ("path", "method", "code"),
    [("/nowhere", "GET", 404), ("/status", "POST", 405), ("/status/", "GET", 404)],
)
async def test_other_requests_ask_nobody(path: str, method: str, code: int) -> None:
    answers = Answers()
    async with protected(answers) as server:
        assert (await get(server, path, "operator", method))[0] == code
    assert answers.asked == []


@pytest.mark.parametrize(
    ("token", "code", "header", "value"),
    [
        ("", 401, "WWW-Authenticate", "Bearer"),
        ("guess", 429, "Retry-After", "1"),
        ("late", 503, "Retry-After", "5"),
    ],
)
async def test_a_refusal_says_what_to_do_and_ends_the_connection(
    token: str, code: int, header: str, value: str
) -> None:
    async with protected(Answers()) as server:
        found, text, headers = await get(server, "/status", token)
    assert (found, headers[header], headers["Connection"]) == (code, value, "close")
    assert text.endswith("\n")


async def test_the_address_of_the_caller_is_what_its_share_counts_on() -> None:
    answers = Answers()
    async with protected(answers) as server:
        await get(server, "/", "operator")
    assert answers.asked == [("Bearer operator", "/status", "127.0.0.1")]


async def test_plain_http_is_not_served_to_other_machines() -> None:
    async with protected(Answers()) as server:
        port = server.address.rpartition(":")[2]
        assert server.url == f"https://0.0.0.0:{port}"
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://127.0.0.1:{port}/healthz")


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "status.example:0"])
def test_nobody_serves_other_machines_without_deciding_who_may_read(listen: str) -> None:
    made = identity()
    open_to_all = Protection(None, ServingCertificate(lambda: made))
    for protection in (None, open_to_all):
        with pytest.raises(ValueError, match="decide who may read it"):
            StatusServer(listen, {}, protection=protection)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True),
        ("0.0.0.0", False), ("::", False), ("10.0.0.7", False), ("localhost.example", False), ("127.1", False), ("", False),
    ],
)  # fmt: skip
def test_only_this_machine_reaches_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


async def test_loopback_may_have_a_certificate_and_still_asks_nobody() -> None:
    async with protected(None, "127.0.0.1:0") as server:
        code, text, _ = await get(server, "/status")
        assert code == 200
        assert TENANT in text
        assert (await get(server, "/readyz"))[1] == f"[-] syncer/r1: {FAULT}\n"


async def serial(server: StatusServer) -> str:
    trust = ssl.create_default_context(cadata=AUTHORITY.certificate)
    _, writer = await asyncio.open_connection("127.0.0.1", int(server.address.rpartition(":")[2]), ssl=trust)
    found = str(writer.get_extra_info("peercert")["serialNumber"])
    writer.close()
    return found


async def test_a_renewed_certificate_is_used_and_a_broken_one_is_not() -> None:
    pairs = [issue_serving(AUTHORITY, ["127.0.0.1"], time.time()) for _ in range(3)]
    present = (pairs[0].certificate + pairs[0].key).encode()
    certificate = ServingCertificate(lambda: present)
    protection = Protection(None, certificate)
    async with StatusServer("127.0.0.1:0", {}, protection=protection) as server:
        first = await serial(server)
        present = (pairs[1].certificate + pairs[0].key).encode()
        with capture_logs() as logs:
            certificate.refresh()
            certificate.refresh()
        assert [each["event"] for each in logs] == [
            "the certificate of the status endpoint cannot be renewed"
        ]
        assert await serial(server) == first
        present = (pairs[2].certificate + pairs[2].key).encode()
        certificate.refresh()
        assert await serial(server) != first


async def test_the_certificate_is_read_again_while_the_server_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vcsync.status.server.RENEWAL_SECONDS", 0.0)
    reads, made = 0, identity()

    def read() -> bytes:
        nonlocal reads
        reads += 1
        return made

    async with StatusServer(
        "127.0.0.1:0", {}, protection=Protection(None, ServingCertificate(read))
    ) as server:
        await get(server, "/healthz")
    assert reads > 1

"""The status endpoint: its responses, and that one failing role does not hide others."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from vcsync.fairqueue import ObjectName
from vcsync.status import StatusServer
from vcsync.status import sources as sources_module
from vcsync.status.plain import plain
from vcsync.status.server import ListenAddressError, parse_listen
from vcsync.status.sources import STEP_ITEMS


class Role:
    """A source with a settable state."""

    def __init__(self, *, is_ready: bool = True, reason: str = "", series: int = 1) -> None:
        self.is_ready = is_ready
        self.reason = reason
        self.series = series

    def ready(self) -> tuple[bool, str]:
        return self.is_ready, self.reason

    def status(self) -> dict[str, Any]:
        return {"tenants": {"acme": {"synced": True}}}

    def metrics(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("vcsync_queue_depth", "Items waiting", labels=["tenant"])
        for number in range(self.series):
            family.add_metric([f"t{number}"], float(number))
        return [family]


class RememberingRole(Role):
    """A source with a transition of one object."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when = when

    def timeline(self, tenant: str, name: ObjectName) -> list[dict[str, Any]]:
        if (tenant, name) != ("acme", ObjectName("pods", "default", "web-0")):
            return []
        return [
            {"time": self.when, "controller": "c", "reconcile": "ab-1", "what": "created", "version": "17"}
        ]


class BrokenRole(Role):
    def status(self) -> dict[str, Any]:
        raise RuntimeError("no state yet")

    def metrics(self) -> Iterable[Metric]:
        raise RuntimeError("no figures yet")


async def get(server: StatusServer, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{server.address}{path}") as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        (":0", ("127.0.0.1", 0)),
        ("[::1]:10550", ("::1", 10550)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
    ],
)
def test_listen_addresses_are_split(text: str, expected: tuple[str, int]) -> None:
    assert parse_listen(text) == expected


@pytest.mark.parametrize("text", ["", "8080", "host:", "host:http", "host:65536", "::1:80", "host:-1", "h:²"])
def test_malformed_listen_addresses_are_refused(text: str) -> None:
    with pytest.raises(ListenAddressError, match="listen address"):
        parse_listen(text)


async def test_readiness_is_that_of_all_sources_with_reasons() -> None:
    role = Role(is_ready=False, reason="caches of 2 tenants fill")
    async with StatusServer("127.0.0.1:0", {"syncer/r1": role, "nsscheduler": Role()}) as server:
        assert await get(server, "/healthz") == (200, "ok\n")
        assert await get(server, "/readyz") == (
            503,
            "[+] nsscheduler\n[-] syncer/r1: caches of 2 tenants fill\n",
        )
        role.is_ready, role.reason = True, ""
        assert (await get(server, "/readyz"))[0] == 200


async def test_sources_can_be_added_and_removed_while_the_server_runs() -> None:
    sources = {"syncer/r1": Role()}
    async with StatusServer("127.0.0.1:0", sources) as server:
        sources["syncer/r2"] = Role()
        del sources["syncer/r1"]
        assert (await get(server, "/readyz"))[1] == "[+] syncer/r2\n"


async def test_status_contains_all_roles_even_if_one_fails() -> None:
    async with StatusServer("127.0.0.1:0", {"a": Role(), "b": BrokenRole()}) as server:
        document = json.loads((await get(server, "/status"))[1])
    assert document["roles"]["a"] == {"ready": True, "reason": "", "tenants": {"acme": {"synced": True}}}
    assert document["roles"]["b"]["ready"] is False
    assert "no state yet" in document["roles"]["b"]["reason"]


class Colour(Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    name: str = ""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({("GET", "2xx"): 3, 5: None}, {"GET/2xx": 3, "5": None}),
        ((1, {2.5}, Colour.RED), [1, [2.5], "red"]),
        ([Point(1), b"x"], [{"x": 1, "name": ""}, "eA=="]),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
    ],
)
def test_all_values_have_a_json_form(value: object, expected: object) -> None:
    assert plain(value) == expected


async def test_metrics_of_roles_are_merged_with_a_source_label() -> None:
    async with StatusServer("127.0.0.1:0", {"a": Role(), "b": Role(), "c": BrokenRole()}) as server:
        text = (await get(server, "/metrics"))[1]
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert [s.labels for s in families["vcsync_queue_depth"].samples] == [
        {"tenant": "t0", "source": "a"},
        {"tenant": "t0", "source": "b"},
    ]
    failed = {s.labels["source"]: s.value for s in families["vcsync_status_failed_source"].samples}
    assert failed == {"a": 0.0, "b": 0.0, "c": 1.0}
    assert "process_resident_memory_bytes" in families


async def test_series_beyond_the_bound_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "MAX_SERIES_PER_FAMILY", 3)
    async with StatusServer("127.0.0.1:0", {"a": Role(series=5)}) as server:
        text = (await get(server, "/metrics"))[1]
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert len(families["vcsync_queue_depth"].samples) == 3
    assert [s.value for s in families["vcsync_status_dropped_series"].samples] == [2.0]


async def test_an_address_in_use_is_refused_with_the_remedy() -> None:
    async with StatusServer("127.0.0.1:0", {}) as server:
        with pytest.raises(ListenAddressError, match="--listen"):
            async with StatusServer(server.address, {}):
                pass
        with pytest.raises(ListenAddressError, match="choose another with --status"):
            async with StatusServer(server.address, {}, option="--status"):
                pass


async def test_other_paths_and_methods_are_refused() -> None:
    async with StatusServer("127.0.0.1:0", {}) as server:
        assert (await get(server, "/nowhere"))[0] == 404
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://{server.address}/status") as answer,
        ):
            assert answer.status == 405


async def test_the_page_is_html_with_a_content_security_policy() -> None:
    async with (
        StatusServer("127.0.0.1:0", {"syncer/r1": Role(), "broken": BrokenRole()}) as server,
        aiohttp.ClientSession() as session,
        session.get(f"http://{server.address}/") as answer,
    ):
        text = await answer.text()
    assert answer.status == 200
    assert answer.content_type == "text/html"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "syncer/r1" in text
    assert "state is unknown: RuntimeError: no state yet" in text


async def test_a_long_state_is_converted_in_steps() -> None:
    taken, most = 0, 0

    class LongRole(Role):
        def status(self) -> dict[str, Any]:
            def tenants() -> Iterator[dict[str, int]]:
                nonlocal taken, most
                for number in range(10 * STEP_ITEMS):
                    taken += 1
                    most = max(most, taken)
                    yield {"number": number}

            return {"tenants": tenants()}

    async def other() -> None:
        nonlocal taken
        while True:
            taken = 0
            await asyncio.sleep(0)

    turns = asyncio.create_task(other())
    states = await sources_module.statuses({"syncer": LongRole()})
    turns.cancel()
    assert [each["number"] for each in states["syncer"]["tenants"]] == list(range(10 * STEP_ITEMS))
    assert 1 < most <= STEP_ITEMS + 1


async def test_the_timeline_of_an_object_is_merged_from_all_roles() -> None:
    sources = {"one": RememberingRole("2026-01-02"), "two": RememberingRole("2026-01-01"), "three": Role()}
    async with StatusServer("127.0.0.1:0", sources) as server:
        code, text = await get(server, "/timeline?tenant=vc-acme&tenant=acme&object=pods/default/web-0")
        _, of_another = await get(server, "/timeline?tenant=acme&object=pods/default/web-1")

    transitions = json.loads(text)["transitions"]
    assert code == 200
    assert [(each["source"], each["time"]) for each in transitions] == [
        ("two", "2026-01-01"),
        ("one", "2026-01-02"),
    ]
    assert json.loads(of_another) == {"transitions": []}


@pytest.mark.parametrize("query", ["", "?tenant=acme", "?object=pods/default/web", "?tenant=acme&object=web"])
async def test_a_timeline_without_tenant_or_object_is_refused_with_the_parameters(query: str) -> None:
    async with StatusServer("127.0.0.1:0", {"one": RememberingRole("2026-01-01")}) as server:
        code, text = await get(server, f"/timeline{query}")

    assert code == 400
    assert text.startswith("give tenant=NAME and object=")

"""A tenant whose work stalls the server again and again is set aside, until the operator releases it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.apiserver.identity.conftest import Clock
from tests.unit.apiserver.operator.test_operator_admin import ask
from vcsync.api import names
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.assembly.identity import Identity
from vcsync.apiserver.assembly.identity_filters import IdentityFilters
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.filters.set_aside import blamed_tenant, refuse_set_aside
from vcsync.apiserver.operator.lifecycle import Endpoint
from vcsync.apiserver.request.caller import UNAUTHENTICATED, Caller
from vcsync.apiserver.request.request_info import parse_path, parse_query, request_info
from vcsync.apiserver.storage.interface import Change
from vcsync.apiserver.storage.sqlite import SqliteStore, open_sqlite
from vcsync.apiserver.tenants import records
from vcsync.apiserver.tenants.stalls import Stall, recent, why_aside

ENDPOINT = Endpoint("https://cp.example:6443", "192.0.2.1", 6443)
BASE = "/vcsync/v1/tenants"
DAY = 86_400
TOLD = b'{"work":"request","sure":true}'


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    found = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield found
    await found.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def identity(store: SqliteStore, clock: Clock) -> Identity:
    return await Identity.open(store, ENDPOINT, clock=clock)


async def controllers(store: SqliteStore, tenant: str) -> str:
    """Return who runs the controllers of a tenant, as vcsync's controllers read it."""
    found, _ = await store.get(f"system/core/configmaps/kube-system/{tenant}.controllers")
    label = msgspec.json.decode(found.value)["metadata"]["labels"] if found else {}
    return "others" if label.get(names.EXTERNAL_CONTROLLERS) == tenant else "vcsync"


def refusal(
    identity: Identity, tenant: str, *groups: str, path: str = "/api/v1/pods", **caller: Any
) -> StatusError | None:
    info = request_info("GET", parse_path(path), parse_query(""))
    asking = Caller(User("someone", groups=groups), tenant, **caller)
    try:
        refuse_set_aside(IdentityFilters(identity), asking, info, tenant)
    except StatusError as error:
        return error
    return None


async def test_a_tenant_is_set_aside_after_its_second_stall_within_a_day(
    identity: Identity, store: SqliteStore
) -> None:
    for tenant in ("acme", "other"):
        await identity.lifecycle.create(tenant)
    first = await ask(identity, "POST", f"{BASE}/acme/stalls", TOLD)
    assert (first["aside"], [each["work"] for each in first["stalls"]]) == ("", ["request"])
    assert refusal(identity, "acme") is None
    second = await ask(identity, "POST", f"{BASE}/acme/stalls", TOLD)
    assert "2 times within a day" in second["aside"]
    refused = refusal(identity, "acme")
    assert refused is not None
    assert (refused.code, refused.reason, refused.retry_after) == (503, "ServiceUnavailable", None)
    assert "vcsync tenant release acme" in refused.message
    assert second["aside"] in refused.message
    assert (await controllers(store, "acme"), await controllers(store, "other")) == ("others", "vcsync")
    assert refusal(identity, "other") is None
    assert refusal(identity, "acme", system=True) is None, "the operator removes the cause"


async def test_anonymous_callers_do_not_learn_that_a_tenant_is_set_aside(identity: Identity) -> None:
    await identity.lifecycle.create("acme")
    for _ in range(2):
        await identity.lifecycle.stalled("acme", "request", sure=True)
    refused = refusal(identity, "acme", UNAUTHENTICATED)
    assert refused is not None
    assert (refused.code, "aside" in refused.message) == (403, False)
    assert refusal(identity, "acme", UNAUTHENTICATED, path="/version") is None


async def test_requests_of_known_callers_to_existing_tenants_are_blamed(identity: Identity) -> None:
    await identity.lifecycle.create("acme")
    filters = IdentityFilters(identity)
    user, anonymous = User("alice"), User("system:anonymous", groups=(UNAUTHENTICATED,))
    assert blamed_tenant(filters, Caller(user, "acme"), "acme") == "acme"
    assert blamed_tenant(filters, Caller(user, "system", system=True), "acme") == "acme"
    assert blamed_tenant(filters, Caller(anonymous, "acme"), "acme") == ""
    assert blamed_tenant(filters, Caller(user, "nobody"), "nobody") == ""


async def test_stalls_of_another_day_do_not_count(identity: Identity, clock: Clock) -> None:
    await identity.lifecycle.create("acme")
    for _ in range(3):
        record = await identity.lifecycle.stalled("acme", "request", sure=True)
        assert (record.aside, len(record.stalls)) == ("", 1)
        clock.now += DAY + 1


async def test_the_operator_releases_a_tenant_which_has_its_controllers_again(
    identity: Identity, store: SqliteStore
) -> None:
    await identity.lifecycle.create("acme")
    for _ in range(2):
        await identity.lifecycle.stalled("acme", "deployment", sure=True)
    await identity.lifecycle.set_controllers("acme", "vcsync")
    assert await controllers(store, "acme") == "others", "none while it is set aside"
    released = await ask(identity, "POST", f"{BASE}/acme/release")
    assert (released["aside"], released["stalls"]) == ("", [])
    assert refusal(identity, "acme") is None
    assert await controllers(store, "acme") == "vcsync"
    assert (await identity.lifecycle.stalled("acme", "request", sure=True)).aside == "", "it begins anew"


async def test_all_processes_know_who_is_set_aside(identity: Identity, store: SqliteStore) -> None:
    await identity.lifecycle.create("acme")
    other = await Identity.open(store, ENDPOINT, clock=Clock())
    for _ in range(2):
        await identity.lifecycle.stalled("acme", "request", sure=True)
    found, _ = await store.get(records.record_key("acme"))
    assert found is not None
    other.tenants.changed(
        [Change(found.revision, records.record_key("acme"), found.value, None, found.revision)]
    )
    for each in (identity, other, await Identity.open(store, ENDPOINT, clock=Clock())):
        assert each.tenants.why_aside("acme")
    await identity.lifecycle.release("acme")
    assert not identity.tenants.why_aside("acme")


async def test_a_metric_of_the_operator_counts_the_tenants_that_are_set_aside(
    identity: Identity, store: SqliteStore
) -> None:
    plane = assemble(store, IdentityFilters(identity))
    await identity.lifecycle.create("acme")
    for _ in range(2):
        await identity.lifecycle.stalled("acme", "request", sure=True)
    metrics = plane.server._metrics
    assert b"vcsync_tenants_set_aside 1.0" in metrics.text("system")
    assert b"vcsync_tenants_set_aside" not in metrics.text("acme")
    await identity.lifecycle.release("acme")
    assert b"vcsync_tenants_set_aside 0.0" in metrics.text("system")


async def test_the_operators_space_and_clusters_are_never_set_aside(identity: Identity) -> None:
    await identity.lifecycle.create("r1", nodes="own")
    for name in ("system", "r1"):
        for _ in range(3):
            record = await identity.lifecycle.stalled(name, "request", sure=True)
        assert record.aside == ""
    with pytest.raises(StatusError, match="not found"):
        await identity.lifecycle.stalled("nobody", "request", sure=True)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"work":1,"sure":true}', b'{"work":"x","sure":true,"more":1}']
)
async def test_malformed_reports_of_stalls_are_refused(identity: Identity, body: bytes) -> None:
    await identity.lifecycle.create("acme")
    with pytest.raises(StatusError) as error:
        await ask(identity, "POST", f"{BASE}/acme/stalls", body)
    assert error.value.code == 400


def stall(day: int, *, sure: bool = True) -> Stall:
    return Stall(f"2026-01-{day:02}T00:00:00Z", "request", sure)


@pytest.mark.parametrize(
    ("stalls", "aside"),
    [
        ([], False),
        ([stall(1)], False),
        ([stall(1), stall(1)], True),
        ([stall(1, sure=False), stall(1)], True),
        # A bystander is under suspicion as often as others stall, but never alone.
        ([stall(1, sure=False)] * 5, False),
    ],
)
def test_a_bystander_is_not_set_aside(stalls: list[Stall], aside: bool) -> None:
    assert bool(why_aside(stalls)) is aside


def test_the_number_of_remembered_stalls_is_bounded() -> None:
    assert len(recent([stall(2, sure=False)] * 1000, "2026-01-02T12:00:00Z")) < 10
    assert recent([stall(1), stall(3)], "2026-01-03T12:00:00Z") == (stall(3),)

"""The quotas of tenants in the operator's API: who may have one, what is refused, and what is shown."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from asked_plane import holding

from tests.unit.apiserver.identity.conftest import Clock
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.assembly.identity import Identity
from vcsync.apiserver.operator.lifecycle import Endpoint
from vcsync.apiserver.operator.tenant_quota import set_quota
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.storage.interface import Put
from vcsync.apiserver.storage.sqlite import open_sqlite
from vcsync.apiserver.tenants.quota_records import QuotaRecord, encode_quota, quota_key

OPERATOR = Caller(User("admin", groups=("system:masters", "system:authenticated")), "system", system=True)
BASE = "/vcsync/v1/tenants"
UPSTREAM = {"server": "https://192.0.2.7:6443", "token": "t"}


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    found = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield found
    await found.close()


@pytest.fixture
async def identity(store: Any) -> Any:
    return await Identity.open(store, Endpoint("https://cp.example:6443", "192.0.2.1", 6443), clock=Clock())


async def ask(identity: Identity, method: str, name: str, body: Any = None) -> Any:
    path = f"{BASE}/{name}" if name else BASE
    sent = holding(b"" if body is None else msgspec.json.encode(body))
    return msgspec.json.decode((await identity.admin.handle(OPERATOR, method, path, {}, sent)).body)


async def test_a_quota_is_set_shown_changed_and_removed(identity: Identity, store: Any) -> None:
    await ask(identity, "POST", "", {"name": "acme"})
    assert (await ask(identity, "GET", "acme"))["quota"] is None
    await ask(identity, "PATCH", "acme", {"quota": {"pods": "3", "cpu": "2", "bytes": "1Gi"}})
    shown = (await ask(identity, "GET", "acme"))["quota"]
    assert shown["hard"] == {"pods": "3", "cpu": "2", "bytes": "1Gi"}
    assert set(shown["used"]) == set(shown["free"]) == {"bytes"}
    assert int(shown["used"]["bytes"]) == (await store.usage("acme")).bytes
    record = QuotaRecord({"pods": "3"}, {"pods": "1"}, {"pods": 9})
    await store.txn([], [Put(quota_key("acme"), encode_quota(record))])
    await ask(identity, "PATCH", "acme", {"quota": {"pods": "2"}})
    assert (await ask(identity, "GET", "acme"))["quota"] == {
        "hard": {"pods": "2"},
        "used": {"pods": "1"},
        "free": {"pods": "1"},
    }
    revision = await store.revision()
    await ask(identity, "PATCH", "acme", {"quota": {"pods": "2"}})
    assert await store.revision() == revision
    await ask(identity, "PATCH", "acme", {"quota": None})
    await ask(identity, "PATCH", "acme", {"quota": None})
    assert (await ask(identity, "GET", "acme"))["quota"] is None
    assert "quota" not in (await ask(identity, "GET", ""))["items"][0]


async def test_a_quota_is_deleted_with_its_tenant(identity: Identity, store: Any) -> None:
    await ask(identity, "POST", "", {"name": "acme"})
    await ask(identity, "PATCH", "acme", {"quota": {"pods": "0"}})
    await ask(identity, "DELETE", "acme")
    assert (await store.get(quota_key("acme")))[0] is None


@pytest.mark.parametrize(
    ("name", "quota", "code", "said"),
    [
        ("acme", {"podz": "1"}, 400, "quota[podz]: there is no such resource"),
        ("acme", {"pods": 1}, 400, "Expected `str`"),
        ("acme", {"pods": "-1"}, 400, "use 0 to allow none"),
        ("nobody", {"pods": "1"}, 404, 'tenants "nobody" not found'),
        ("system", {"pods": "1"}, 403, "the operator's own space has no quota"),
        ("outside", {"pods": "1"}, 409, "its control plane is external"),
    ],
)
async def test_who_cannot_have_which_quota(
    identity: Identity, name: str, quota: Any, code: int, said: str
) -> None:
    await ask(identity, "POST", "", {"name": "acme"})
    await ask(identity, "POST", "", {"name": "outside", "upstream": UPSTREAM})
    with pytest.raises(StatusError) as refused:
        await ask(identity, "PATCH", name, {"quota": quota})
    assert refused.value.code == code
    assert said in refused.value.message


async def test_a_quota_waits_for_a_tenant_that_is_being_deleted_and_for_busy_writers(
    identity: Identity, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(identity, "POST", "", {"name": "acme"})
    transact, writes = store.txn, []

    async def txn(compares: Any, operations: Any) -> Any:
        if len(writes) < 2:
            writes.append(operations)
            record = QuotaRecord({"pods": "1"}, {"pods": str(len(writes))}, {"pods": 1})
            await transact([], [Put(quota_key("acme"), encode_quota(record))])
        return await transact(compares, operations)

    monkeypatch.setattr(store, "txn", txn)
    await set_quota(store, "acme", {"pods": "5"})
    shown = (await ask(identity, "GET", "acme"))["quota"]
    assert (shown["hard"], shown["used"]) == ({"pods": "5"}, {"pods": "2"})
    monkeypatch.undo()
    await ask(identity, "PATCH", "acme", {"quota": None})

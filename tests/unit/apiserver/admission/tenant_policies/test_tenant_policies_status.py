"""The status of TenantPolicies: how many tenants, and whether they are in force."""

import msgspec
import pytest

from vcsync.api.policy_specs import TenantPolicyStatus
from vcsync.apiserver.admission.tenant_policies.compiled import TenantPolicy
from vcsync.apiserver.admission.tenant_policies.following import POLICIES, TenantPolicies
from vcsync.apiserver.admission.tenant_policies.status import TenantPolicyStatuses, status_of
from vcsync.apiserver.storage.interface import Change, Put
from vcsync.apiserver.storage.sqlite import open_sqlite
from vcsync.apiserver.tenants.records import TENANTS

NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("broken", "status", "reason"), [("", "True", "Enforced"), ("`$.spec` is odd", "False", "Broken")]
)
def test_the_condition_says_whether_a_policy_is_in_force(broken, status, reason):
    found = status_of(TenantPolicy("p", broken=broken), 3, TenantPolicyStatus(), 7, NOW)
    [condition] = found.conditions
    assert (condition.type, condition.status, condition.reason) == ("Accepted", status, reason)
    assert broken in condition.message
    assert (found.selected_tenants, found.observed_generation) == (3, 7)
    assert status_of(TenantPolicy("p", broken=broken), 3, found, 7, "later") == found


async def test_tenants_are_counted_and_nothing_is_written_twice(tmp_path):
    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    policies = TenantPolicies(store)
    statuses = TenantPolicyStatuses(store, policies, lambda: NOW)

    async def put(key, value):
        encoded = msgspec.json.encode(value)
        outcome = await store.txn([], [Put(key, encoded)])
        change = Change(outcome.revision, key, encoded, None, outcome.revision)
        policies.changed([change])
        statuses.changed([change])

    for name in ("system", "a", "b", "r1"):
        await put(f"{TENANTS}{name}", {"name": name, "nodes": "own" if name == "r1" else "virtual"})
    await put(f"{TENANTS}away", {"name": "away", "upstream": {"server": "https://x", "token": "t"}})
    await put(f"{POLICIES}all", {"metadata": {"uid": "1", "generation": 2}, "spec": {}})
    await put(f"{POLICIES}one", {"metadata": {"uid": "2"}, "spec": {"tenants": {"names": ["b", "c"]}}})
    await put(f"{POLICIES}odd", {"metadata": {"uid": "3"}, "spec": {"tenants": 1}})
    await statuses.write()
    shown = {}
    for name in ("all", "one", "odd"):
        record, _ = await store.get(POLICIES + name)
        shown[name] = msgspec.json.decode(record.value)["status"]
    assert {name: each["selectedTenants"] for name, each in shown.items()} == {"all": 2, "one": 1, "odd": 2}
    assert shown["all"]["observedGeneration"] == 2
    assert shown["odd"]["conditions"][0]["status"] == "False"
    revision = await store.revision()
    await statuses.write()
    assert await store.revision() == revision
    await store.close()

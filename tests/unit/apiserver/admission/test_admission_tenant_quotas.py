"""Quotas of tenants on a store: usage is exact with concurrent writes and processes, and corrected after deletions."""

import asyncio
from collections import Counter
from types import SimpleNamespace

import msgspec
import pytest

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.admission import chain, tenant_quotas
from vcsync.apiserver.admission.quotas import QuotaClaims
from vcsync.apiserver.admission.tenant_quotas import TenantQuotas
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.operator.tenant_quota import set_quota, shown_quota
from vcsync.apiserver.request.caller import Caller, Decision
from vcsync.apiserver.request.claims import AllClaims
from vcsync.apiserver.storage.interface import Delete, Put, StoreError
from vcsync.apiserver.storage.sqlite import open_sqlite
from vcsync.apiserver.tenants.quota_records import QuotaRecord, decode_quota, encode_quota, quota_key
from vcsync.apiserver.tenants.records import TenantRecord, encode, record_key

MAPS = "/api/v1/namespaces/{}/configmaps"
MERGE = "application/merge-patch+json"


class Anybody:
    """Authorizes everything in one tenant."""

    async def authenticate(self, certificate, authorization, tenant):
        return Caller(User("tester", groups=("system:masters",)), "a", True)

    def exists(self, tenant):
        return tenant == "a"

    def is_suspended(self, tenant):
        return False

    def why_aside(self, tenant):
        return ""

    def aside(self):
        return 0

    def tenants(self):
        return ["a"]

    async def impersonate(self, caller, headers, tenant, info):
        return caller

    async def authorize(self, caller, info, audit):
        return None


async def everybody(caller, verb, signer):
    return True


async def anything(caller, attributes):
    return Decision(True)


class Process:
    """One process on a store, and a client of it. `sees` feeds it the changes of the store, as its watch does."""

    def __init__(self, store):
        self.quotas = TenantQuotas(store)
        self._store = store
        self._plane = assemble(
            store,
            Anybody(),
            admit=(chain.mutation(store, anything),),
            validate=(chain.validation(store, anything, everybody),),
            charges=AllClaims(QuotaClaims(store), self.quotas),
        )
        self._chain = self._plane.server.chain
        self._seen = 0

    async def sees(self):
        now = await self._store.revision()
        if now > self._seen:
            async for batch in self._store.watch("", self._seen, progress=0.01):
                self.quotas.changed(batch)
                if batch.revision >= now:
                    break
            self._seen = now

    async def __call__(self, method, path, body=None, content="application/json"):
        async def read(_):
            return b"" if body is None else msgspec.json.encode(body)

        route, _, query = path.partition("?")
        headers = {"Content-Type": content, "Accept": "application/json"}
        outgoing = await self._chain.handle(Incoming(method, route, query, headers, None, read))
        answer = outgoing.answer
        return SimpleNamespace(status=answer.status, body=msgspec.json.decode(b"".join(answer.body)))


@pytest.fixture
async def store(tmp_path, monkeypatch):
    monkeypatch.setattr(tenant_quotas, "PAUSE_FACTOR", 0.0)  # the pace depends on the speed of the machine
    opened = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    await opened.txn([], [Put(record_key("a"), encode(TenantRecord("a", "u", "2026-01-01T00:00:00Z")))])
    yield opened
    await opened.close()


@pytest.fixture
async def api(store):
    found = Process(store)
    for name in ("one", "two"):
        made = await found("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert made.status == 201, made.body
        account = await found("POST", f"/api/v1/namespaces/{name}/serviceaccounts", named("default"))
        assert account.status == 201, account.body
    await found.sees()
    return found


async def limit(store, *processes, **hard):
    """Set the quota; `__` in a name stands for a slash."""
    await set_quota(store, "a", {name.replace("__", "/"): amount for name, amount in hard.items()})
    for process in processes:
        await process.sees()


async def used(store):
    record, _ = await store.get(quota_key("a"))
    return decode_quota(record.value).used


def named(name, **content):
    return {"metadata": {"name": name}, **content}


def pod(name, cpu="500m", **more):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return named(name, spec={"containers": [container]}, **more)


async def fill(processes, count):
    answers = await asyncio.gather(
        *(
            processes[each % len(processes)]("POST", MAPS.format(("one", "two")[each % 2]), named(f"m{each}"))
            for each in range(count)
        )
    )
    return Counter(each.status for each in answers)


async def test_concurrent_creations_in_two_namespaces_do_not_exceed_a_quota(api, store):
    await limit(store, api, configmaps="10")
    assert await fill([api], 40) == {201: 10, 403: 30}
    assert await used(store) == {"configmaps": "10"}


async def test_three_processes_together_do_not_exceed_a_quota(api, store):
    processes = [api, Process(store), Process(store)]
    await limit(store, *processes, configmaps="10")
    assert await fill(processes, 45) == {201: 10, 403: 35}
    assert await used(store) == {"configmaps": "10"}


async def test_a_refusal_names_the_quota_and_what_was_requested_used_and_limited(api, store):
    await limit(store, api, **{"requests.cpu": "1", "pods": "5"})
    assert (await api("POST", "/api/v1/namespaces/one/pods", pod("p1", "800m"))).status == 201
    refused = await api("POST", "/api/v1/namespaces/two/pods", pod("p2", "300m"))
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert refused.body["message"] == (
        'pods "p2" is forbidden: exceeded quota: tenant quota of a, requested: requests.cpu=300m, '
        "used: requests.cpu=800m, limited: requests.cpu=1"
    )
    bare = named("p3", spec={"containers": [{"name": "c", "image": "i"}]})
    refused = await api("POST", "/api/v1/namespaces/two/pods", bare)
    assert refused.body["message"].endswith(
        "failed quota: tenant quota of a: must specify requests.cpu for: c"
    )


async def test_objects_that_exist_count_when_a_quota_is_set(api, store):
    await fill([api], 4)
    await limit(store, api, configmaps="5", namespaces="2")
    assert await fill([api], 8) == {201: 1, 403: 3, 409: 4}
    refused = await api("POST", "/api/v1/namespaces", named("three"))
    assert "used: namespaces=2, limited: namespaces=2" in refused.body["message"]


async def test_a_dry_run_is_refused_but_not_charged(api, store):
    await limit(store, api, configmaps="1")
    path = MAPS.format("one") + "?dryRun=All"
    assert (await api("POST", path, named("m1"))).status == 201
    assert await fill([api], 1) == {201: 1}
    assert (await api("POST", path, named("m2"))).status == 403
    assert await used(store) == {"configmaps": "1"}


async def test_what_was_deleted_can_be_used_again_at_once(api, store):
    await limit(store, api, configmaps="2")
    await fill([api], 2)
    assert (await api("DELETE", MAPS.format("one") + "/m0")).status == 200
    await api.sees()
    assert (await api("POST", MAPS.format("two"), named("new"))).status == 201
    assert (await api("POST", MAPS.format("two"), named("newer"))).status == 403


async def test_pods_that_ended_count_no_longer(api, store):
    await limit(store, api, pods="1", **{"requests.cpu": "1", "count__pods": "2"})
    path = "/api/v1/namespaces/one/pods"
    assert (await api("POST", path, pod("p1"))).status == 201
    assert (await api("POST", path, pod("p2"))).status == 403
    ended = await api("PATCH", f"{path}/p1/status", {"status": {"phase": "Succeeded"}}, MERGE)
    assert ended.status == 200, ended.body
    await api.sees()
    assert (await api("POST", path, pod("p2"))).status == 201
    assert await used(store) == {"pods": "1", "requests.cpu": "500m", "count/pods": "2"}


async def test_a_service_that_becomes_larger_is_charged_and_one_that_shrinks_is_freed_at_once(api, store):
    await limit(store, api, **{"services": "2", "services.nodeports": "1"})
    path = "/api/v1/namespaces/one/services"
    spec = {"ports": [{"port": 80}], "type": "ClusterIP"}
    for name in ("s1", "s2"):
        assert (await api("POST", path, named(name, spec=spec))).status == 201
    patch = {"spec": {"type": "NodePort"}}
    assert (await api("PATCH", f"{path}/s1", patch, MERGE)).status == 200
    refused = await api("PATCH", f"{path}/s2", patch, MERGE)
    assert "requested: services.nodeports=1, used: services.nodeports=1" in refused.body["message"]
    shrunk = {"spec": {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": None}]}}
    assert (await api("PATCH", f"{path}/s1", shrunk, MERGE)).status == 200
    assert (await api("PATCH", f"{path}/s2", patch, MERGE)).status == 200


async def test_shrinking_writes_succeed_beyond_a_limit_that_was_lowered(api, store):
    await limit(store, api, **{"services.nodeports": "2"})
    path = "/api/v1/namespaces/one/services"
    spec = {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}], "type": "NodePort"}
    assert (await api("POST", path, named("s", spec=spec))).status == 201
    await limit(store, api, **{"services.nodeports": "0"})
    assert (
        await api("PUT", f"{path}/s", named("s", spec={**spec, "ports": spec["ports"][:1]}))
    ).status == 200
    assert await used(store) == {"services.nodeports": "1"}


async def test_each_resource_of_its_own_is_counted(api, store):
    names = ("customresourcedefinitions", "webhookconfigurations", "namespaces")
    await limit(store, api, **dict.fromkeys(names, "3"), **{"count__roles.rbac.authorization.k8s.io": "1"})
    path = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
    for kind in ("validating", "mutating"):
        assert (await api("POST", path.format(kind), named("w"))).status == 201
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles"
    assert [(await api("POST", roles.format(each), named("r"))).status for each in ("one", "two")] == [
        201,
        403,
    ]
    await api.quotas._count("a", names)
    assert (await shown_quota(store, "a"))["free"] == {
        "customresourcedefinitions": "3",
        "webhookconfigurations": "1",
        "namespaces": "1",
        "count/roles.rbac.authorization.k8s.io": "0",
    }


async def test_custom_objects_are_counted_and_their_deletion_by_the_server_frees_them(api, store):
    await limit(store, api, **{"count__things.example.com": "2"})
    key = "a/custom:example.com/things/one/"
    await store.txn([], [Put(f"{key}{each}", msgspec.json.encode(named(each))) for each in ("x", "y")])
    await api.sees()
    await api.quotas._count("a", ["count/things.example.com"])
    assert await used(store) == {"count/things.example.com": "2"}
    await store.txn([], [Delete(f"{key}x")])
    await api.sees()
    assert await api.quotas._count_stale("a", ["count/things.example.com"])
    assert await used(store) == {"count/things.example.com": "1"}


async def test_a_count_corrects_what_a_crash_left_while_writes_continue(api, store, monkeypatch):
    await limit(store, api, configmaps="10")
    await fill([api], 4)
    record, _ = await store.get(quota_key("a"))
    wrong = msgspec.structs.replace(decode_quota(record.value), used={"configmaps": "9"})
    await store.txn([], [Put(record.key, encode_quota(wrong))])
    restarted = Process(store)
    running = asyncio.create_task(restarted.quotas.run())
    writing = asyncio.create_task(fill([restarted], 6))
    async with asyncio.timeout(60):
        while await used(store) != {"configmaps": "6"}:
            await asyncio.sleep(0.01)
        assert await writing == {201: 2, 409: 4}
    running.cancel()


async def test_counts_of_deletions_by_another_process_are_not_repeated(api, store, monkeypatch):
    other = Process(store)
    await limit(store, api, other, configmaps="10")
    await fill([api], 2)
    await api("DELETE", MAPS.format("one") + "/m0")
    await api.sees()
    await other.sees()
    assert await api.quotas._count_stale("a", ["configmaps"])
    counts = []

    async def counted(*arguments):
        counts.append(arguments)
        return True

    monkeypatch.setattr(tenant_quotas, "count", counted)
    assert await other.quotas._count_stale("a", ["configmaps"])
    assert not counts
    assert not await other.quotas._count_stale("a", ["configmaps"])


async def test_a_quota_that_is_removed_limits_nothing(api, store):
    await limit(store, api, configmaps="0")
    assert await fill([api], 1) == {403: 1}
    await set_quota(store, "a", None)
    assert await fill([api], 1) == {201: 1}
    await api.sees()
    assert await shown_quota(store, "a") is None


async def test_a_tenant_without_a_quota_costs_no_read(api, store, monkeypatch):
    await fill([api], 1)
    reads = []
    read = store.get_cached

    async def get_cached(key):
        reads.append(key)
        return await read(key)

    monkeypatch.setattr(store, "get_cached", get_cached)
    before = await store.revision()
    assert (await api("POST", MAPS.format("two"), named("more"))).status == 201
    assert await store.revision() == before + 1
    assert quota_key("a") not in reads


async def test_limits_that_change_apply_with_the_next_write_of_every_process(api, store):
    other = Process(store)
    await limit(store, api, other, configmaps="1")
    await set_quota(store, "a", {"configmaps": "3", "bytes": "1Gi"})
    assert await fill([other], 5) == {201: 3, 403: 2}
    record, _ = await store.get(quota_key("a"))
    assert decode_quota(record.value) == QuotaRecord(
        {"configmaps": "3", "bytes": "1Gi"}, {"configmaps": "3"}, decode_quota(record.value).counted
    )
    assert decode_quota(record.value).counted["configmaps"]


async def test_a_count_that_fails_for_one_tenant_is_repeated_and_does_not_stop_the_others(
    api, store, monkeypatch
):
    monkeypatch.setattr(tenant_quotas, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(tenant_quotas, "GATHER_SECONDS", 0.01)
    for tenant in ("b", "c"):
        record = QuotaRecord({"pods": "1", "bytes": "1"}, {"pods": "7"}, {"pods": 1})
        await store.txn([], [Put(quota_key(tenant), encode_quota(record))])
    only_bytes = QuotaRecord({"bytes": "1"}, {}, {})
    await store.txn([], [Put(quota_key("d"), encode_quota(only_bytes))])
    failures = [StoreError("the store is away"), RuntimeError("a defect")]
    count = tenant_quotas.count

    async def failing(of, tenant, names):
        if tenant == "b" and failures:
            raise failures.pop()
        return await count(of, tenant, names)

    monkeypatch.setattr(tenant_quotas, "count", failing)
    process = Process(store)
    running = asyncio.create_task(process.quotas.run())
    async with asyncio.timeout(60):
        for tenant in ("c", "b"):
            while decode_quota((await store.get(quota_key(tenant)))[0].value).used != {"pods": "0"}:
                await asyncio.sleep(0.01)
        while process.quotas._stale:
            await asyncio.sleep(0.01)
    assert not failures
    running.cancel()


async def test_a_new_limit_is_counted_again_when_every_process_knows_it(api, store, monkeypatch):
    monkeypatch.setattr(tenant_quotas, "LAG_SECONDS", 0.2)
    monkeypatch.setattr(tenant_quotas, "GATHER_SECONDS", 0.01)
    await limit(store, api, configmaps="5")
    running = asyncio.create_task(api.quotas.run())
    async with asyncio.timeout(60):
        while decode_quota((await store.get(quota_key("a")))[0].value).uncounted():
            await asyncio.sleep(0.01)
        # Another process that does not know of the quota yet writes without a charge.
        await store.txn([], [Put("a/core/configmaps/one/late", msgspec.json.encode(named("late")))])
        while await used(store) != {"configmaps": "1"}:
            await asyncio.sleep(0.01)
    running.cancel()


async def test_everything_is_counted_from_time_to_time(api, store, monkeypatch):
    monkeypatch.setattr(tenant_quotas, "AGAIN_SECONDS", 0.1)
    monkeypatch.setattr(tenant_quotas, "GATHER_SECONDS", 0.01)
    await limit(store, api, configmaps="5")
    await fill([api], 1)
    running = asyncio.create_task(api.quotas.run())
    await store.txn([], [Put("a/core/configmaps/one/unseen", msgspec.json.encode(named("unseen")))])
    async with asyncio.timeout(60):
        while await used(store) != {"configmaps": "2"}:
            await asyncio.sleep(0.01)
    running.cancel()


async def test_quotas_are_read_again_when_changes_were_missed(api, store):
    await limit(store, api, configmaps="5")
    await set_quota(store, "a", None)
    api.quotas.missed()
    assert await fill([api], 6) == {201: 6}
    assert not api.quotas._names

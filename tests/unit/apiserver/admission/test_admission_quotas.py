"""Quotas on a store: usage is exact with concurrent writes, and only successful writes are charged."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.admission import chain
from vcsync.apiserver.admission.quotas import QuotaClaims
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.request.caller import Caller, Decision
from vcsync.apiserver.storage.sqlite import open_sqlite

MAPS, QUOTA = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/resourcequotas/q"


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


class Asks:
    """A client of one process on a store."""

    def __init__(self, store):
        plane = assemble(
            store,
            Anybody(),
            admit=(chain.mutation(store, anything),),
            validate=(chain.validation(store, anything, everybody),),
        )
        self._chain = plane.server.chain

    async def __call__(self, method, path, body=None, content="application/json"):
        async def read(_):
            return b"" if body is None else msgspec.json.encode(body)

        route, _, query = path.partition("?")
        headers = {"Content-Type": content, "Accept": "application/json"}
        outgoing = await self._chain.handle(Incoming(method, route, query, headers, None, read))
        answer = outgoing.answer
        return SimpleNamespace(status=answer.status, body=msgspec.json.decode(b"".join(answer.body)))


@pytest.fixture
async def store(tmp_path):
    opened = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield opened
    await opened.close()


@pytest.fixture
async def api(store):
    found = Asks(store)
    made = await found("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    assert made.status == 201, made.body
    return found


async def limit(api, **hard):
    hard = {name.replace("__", "/"): amount for name, amount in hard.items()}
    path = QUOTA.rpartition("/")[0]
    made = await api("POST", path, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    assert made.status == 201, made.body
    status = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
    made = await api("PATCH", f"{QUOTA}/status", status, "application/merge-patch+json")
    assert made.status == 200, made.body


async def used(api):
    return (await api("GET", QUOTA)).body["status"]["used"]


def config_map(name, **content):
    return {"metadata": {"name": name}, **content}


async def test_fifty_concurrent_creations_do_not_exceed_a_quota(api):
    await limit(api, configmaps="10")
    answers = await asyncio.gather(*(api("POST", MAPS, config_map(f"m{each}")) for each in range(50)))
    assert sorted(each.status for each in answers) == [201] * 10 + [403] * 40
    assert len((await api("GET", MAPS)).body["items"]) == 10
    assert await used(api) == {"configmaps": "10"}


async def test_usage_is_exact_across_processes(api, store):
    await limit(api, configmaps="10")
    other = Asks(store)
    answers = await asyncio.gather(
        *((api, other)[each % 2]("POST", MAPS, config_map(f"m{each}")) for each in range(50))
    )
    assert sorted(each.status for each in answers) == [201] * 10 + [403] * 40
    assert len((await api("GET", MAPS)).body["items"]) == 10
    assert await used(api) == {"configmaps": "10"}


async def test_objects_with_generated_names_are_charged(api):
    await limit(api, configmaps="3")
    bodies = [{"metadata": {"generateName": "m-"}} for _ in range(8)]
    answers = await asyncio.gather(*(api("POST", MAPS, each) for each in bodies))
    assert sorted(each.status for each in answers) == [201] * 3 + [403] * 5


NOT_WRITTEN = [
    (f"{MAPS}?dryRun=All", config_map("new"), 201),
    (MAPS, config_map("there"), 409),
    (MAPS, config_map("Bad Name"), 422),
    (MAPS, config_map("new", immutable="yes"), 400),
]


@pytest.mark.parametrize(("path", "body", "status"), NOT_WRITTEN)
async def test_writes_that_fail_are_not_charged(api, path, body, status):
    await limit(api, configmaps="5")
    assert (await api("POST", MAPS, config_map("there"))).status == 201
    assert (await api("POST", path, body)).status == status
    assert await used(api) == {"configmaps": "1"}


async def test_an_invalid_object_is_reported_as_invalid_even_if_the_quota_is_full(api):
    await limit(api, configmaps="0")
    assert (await api("POST", MAPS, config_map("Bad Name"))).status == 422
    refused = await api("POST", MAPS, config_map("m"))
    assert refused.body["message"] == (
        'configmaps "m" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=0, '
        "limited: configmaps=0"
    )
    assert (await api("POST", f"{MAPS}?dryRun=All", config_map("m"))).status == 403


async def test_updates_of_objects_with_constant_usage_are_not_charged(api):
    await limit(api, configmaps="1")
    assert (await api("POST", MAPS, config_map("m"))).status == 201
    assert (await api("PUT", f"{MAPS}/m", config_map("m", data={"a": "b"}))).status == 200
    assert (await api("DELETE", f"{MAPS}/m")).status == 200
    # What is deleted is counted anew by the tenant's controller, as with kube-apiserver.
    assert await used(api) == {"configmaps": "1"}


async def test_the_server_is_the_field_manager_of_usage(api):
    await limit(api, configmaps="5")
    await api("POST", MAPS, config_map("m"))
    entries = (await api("GET", QUOTA)).body["metadata"]["managedFields"]
    (own,) = [each for each in entries if each["manager"] == "kube-apiserver"]
    assert own["fieldsV1"] == {"f:status": {"f:used": {"f:configmaps": {}}}}
    assert own["subresource"] == "status"


async def test_quotas_apply_to_their_own_namespace(api):
    await limit(api, configmaps="0")
    await api("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    assert (await api("POST", "/api/v1/namespaces/other/configmaps", config_map("m"))).status == 201


async def test_namespaces_without_quotas_do_not_wait_for_each_other(store):
    claims = QuotaClaims(store)
    resource = SimpleNamespace(storage_group="", plural="pods")
    kind = SimpleNamespace(resource=resource)
    scope = SimpleNamespace(tenant="a", namespace="free", subresource="", exists=False, kind=kind)
    async with claims.turn(scope), claims.turn(scope):
        pass

"""Expensive writes run in another process; responses do not show where a write ran."""

import asyncio
import os
import signal

import pytest
import yaml
from asked_plane import Everybody, ask

from vcsync.apiserver.apiextensions.conversion import refuse
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.handlers.create import create_object
from vcsync.apiserver.handlers.verbs import WRITE_HANDLERS
from vcsync.apiserver.offload import parent, worker
from vcsync.apiserver.offload.jobs import Setup
from vcsync.apiserver.offload.link import LinkLost
from vcsync.apiserver.offload.parent import OffloadProcess
from vcsync.apiserver.storage.sqlite import open_sqlite
from vcsync.process import watchdog
from vcsync.process.stall_report import Suspects

NAMESPACES = "/api/v1/namespaces"
MAPS = f"{NAMESPACES}/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MANY = {f"key-{n}": "value" for n in range(2000)}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"


class CountingOffloadProcess(OffloadProcess):
    """Counts the writes that it is given."""

    jobs = 0

    async def write(self, request, body):
        self.jobs += 1
        return await super().write(request, body)


class Api:
    """Asks a control plane."""

    def __init__(self, plane, offload):
        self._chain = plane.server.chain
        self.offload = offload

    async def __call__(self, method, path, body=None, content="application/json", accept="application/json"):
        told = await ask(self._chain, method, path, body, content_type=content, accept=accept)
        return told.status, told.body, told.warnings


@pytest.fixture
async def api(tmp_path):
    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    process = CountingOffloadProcess(store, refuse, Setup())
    plane = assemble(store, Everybody(), offload=process, listeners=[process.changed])
    await plane.start("127.0.0.1", 0, None)
    found = Api(plane, process)
    status, body, _ = await found("POST", NAMESPACES, {"metadata": {"name": "default"}})
    assert status == 201, body
    yield found
    await plane.stop()
    await store.close()


def deployment(count, **more):
    containers = [{"name": f"c{n}", "image": "i", **more} for n in range(count)]
    return {"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": containers}}}}


def definition():
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "example.org", "names": names, "scope": "Cluster", "versions": [version]}
    return {"metadata": {"name": "things.example.org"}, "spec": spec}


async def served(api, path):
    async with asyncio.timeout(30):
        while (await api("GET", path))[0] != 200:
            await asyncio.sleep(0.01)


async def test_expensive_writes_are_offloaded_and_cheap_ones_are_not(api):
    status, made, _ = await api("POST", MAPS, {"metadata": {"name": "large"}, "data": MANY})
    assert (status, made["metadata"]["resourceVersion"].isdigit(), len(made["data"])) == (201, True, 2000)
    assert api.offload.jobs == 1
    # A small patch of a large object is as expensive.
    status, patched, _ = await api("PATCH", f"{MAPS}/large", {"data": {"new": "x"}}, MERGE)
    assert (status, len(patched["data"]), api.offload.jobs) == (200, 2001, 2)
    status, body, _ = await api("PUT", f"{MAPS}/large", {**made, "data": MANY})
    assert (status, body["reason"]) == (409, "Conflict")
    status, _, _ = await api("PUT", f"{MAPS}/large", {**patched, "data": MANY})
    assert status == 200
    offloaded = api.offload.jobs
    status, _, _ = await api("POST", MAPS, {"metadata": {"name": "light"}, "data": {"a": "b"}})
    assert (status, api.offload.jobs) == (201, offloaded)

    status, body, warnings = await api("POST", DEPLOYMENTS, deployment(800, bogus=1))
    assert (status, body["reason"], api.offload.jobs) == (422, "Invalid", offloaded + 1)
    assert warnings[0] == 'unknown field "spec.template.spec.containers[0].bogus"'


@pytest.mark.parametrize(
    "accept", ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
)
async def test_long_refusals_are_equal_from_both_processes(api, accept, monkeypatch):
    wrong = deployment(800, env=[{"name": "="}])
    there = await ask(api._chain, "POST", DEPLOYMENTS, wrong, accept=accept)
    assert (there.status, api.offload.jobs) == (422, 1)
    assert len(there.raw) > 64 * 1024
    monkeypatch.setattr(api._chain._dispatcher._verbs, "_offload", None)
    here = await ask(api._chain, "POST", DEPLOYMENTS, wrong, accept=accept)
    assert (here.raw, here.headers, here.warnings) == (there.raw, there.headers, there.warnings)


async def test_deletions_of_large_objects_are_offloaded(api):
    status, made, _ = await api("POST", MAPS, {"metadata": {"name": "large"}, "data": MANY})
    assert (status, api.offload.jobs) == (201, 1)
    status, body, _ = await api("DELETE", f"{MAPS}/large", {"preconditions": {"uid": "other"}})
    assert (status, body["reason"], api.offload.jobs) == (409, "Conflict", 2)
    status, body, _ = await api("DELETE", f"{MAPS}/large")
    uid = made["metadata"]["uid"]
    assert (status, body["details"]) == (200, {"name": "large", "kind": "configmaps", "uid": uid})
    assert api.offload.jobs == 3
    status, body, _ = await api("DELETE", f"{MAPS}/large")
    assert (status, body["reason"], api.offload.jobs) == (404, "NotFound", 3)

    large = {"metadata": {"name": "n", "annotations": {f"example.org/{key}": "v" for key in MANY}}}
    assert (await api("POST", NAMESPACES, large))[0] == 201
    status, body, _ = await api("DELETE", f"{NAMESPACES}/n")
    assert (status, body["status"]["phase"], api.offload.jobs) == (200, "Terminating", 5)


async def test_the_offload_process_knows_the_latest_changes(api):
    status, _, _ = await api("POST", MAPS, {"metadata": {"name": "first"}, "data": MANY})
    assert status == 201
    status, body, _ = await api("POST", CRDS, definition())
    assert status == 201, body
    await served(api, "/apis/example.org/v1/things")
    thing = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": MANY}
    status, body, _ = await api("POST", "/apis/example.org/v1/things", thing)
    assert (status, api.offload.jobs) == (201, 2), body
    status, body, _ = await api("POST", "/apis/example.org/v1/things", thing)
    assert (status, body["reason"]) == (409, "AlreadyExists")


async def test_writes_like_a_slow_one_are_offloaded_at_once(api, monkeypatch):
    made = definition()
    slow = {
        "type": "array",
        "maxItems": 200,
        "items": {"type": "string", "maxLength": 50},
        "x-kubernetes-validations": [{"rule": "self.all(a, self.exists(b, b == a))"}],
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"texts": slow}}}}
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    status, body, _ = await api("POST", CRDS, made)
    assert status == 201, body
    await served(api, "/apis/example.org/v1/things")
    tried = []

    async def counted(backend, request, body):
        tried.append(1)
        return await create_object(backend, request, body)

    monkeypatch.setitem(WRITE_HANDLERS, "create", counted)

    async def create(name, count):
        texts = [f"{number:050}" for number in range(count)]
        thing = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": name}}
        return (await api("POST", "/apis/example.org/v1/things", {**thing, "spec": {"texts": texts}}))[0]

    jobs = api.offload.jobs
    assert [await create("a", 150), api.offload.jobs - jobs, len(tried)] == [201, 1, 1]
    assert [await create("b", 150), api.offload.jobs - jobs, len(tried)] == [201, 2, 1]
    assert [await create("c", 1), api.offload.jobs - jobs, len(tried)] == [201, 2, 2]


async def test_long_lists_are_encoded_as_yaml_in_the_offload_process(api):
    for number in range(3):
        status, _, _ = await api("POST", MAPS, {"metadata": {"name": f"m{number}"}, "data": MANY})
        assert status == 201
    _, told, _ = await api("GET", MAPS, accept="application/yaml")
    assert [each["metadata"]["name"] for each in yaml.safe_load(told)["items"]] == ["m0", "m1", "m2"]


async def test_a_large_object_is_encoded_as_yaml_in_the_offload_process(api, monkeypatch):
    monkeypatch.setattr(worker, "PIECE", 1000)
    monkeypatch.setattr(parent, "PIECE", 1000)
    wanted = []
    monkeypatch.setattr(api.offload, "_call", noted(api.offload._call, wanted))
    status, _, _ = await api(
        "POST", MAPS, {"metadata": {"name": "many"}, "data": MANY, "binaryData": {"a": "YQ=="}}
    )
    assert status == 201
    _, told, _ = await api("GET", f"{MAPS}/many", accept="application/yaml")
    _, plain, _ = await api("GET", f"{MAPS}/many")
    assert yaml.safe_load(told) == plain
    assert wanted == ["write", "encode"]
    _, told, _ = await api("GET", f"{NAMESPACES}/default", accept="application/yaml")
    assert (yaml.safe_load(told)["metadata"]["name"], len(wanted)) == ("default", 2)
    assert not api.offload._transfers


async def test_long_bodies_and_responses_are_transferred_in_pieces(api, monkeypatch):
    monkeypatch.setattr(parent, "PIECE", 1000)
    status, body, _ = await api("POST", MAPS, {"metadata": {"name": "many"}, "data": MANY})
    assert (status, body["data"], api.offload.jobs) == (201, MANY, 1)
    large = {"a": "x" * 500_000, "b": "y" * 300_000}
    status, body, _ = await api("PUT", f"{MAPS}/many", {"metadata": {"name": "many"}, "data": large})
    assert (status, body["data"], api.offload.jobs) == (200, large, 2)
    status, body, _ = await api("POST", MAPS, {"metadata": {"name": "A"}, "data": large})
    assert (status, body["reason"], api.offload.jobs) == (422, "Invalid", 3)
    assert not api.offload._transfers


def noted(ask, into):
    async def asked(what, *arguments):
        into.append(what)
        return await ask(what, *arguments)

    return asked


async def test_after_the_process_died_the_next_write_starts_another(api, monkeypatch):
    started = []
    make = asyncio.create_subprocess_exec

    async def noted(*arguments, **options):
        started.append(await make(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    for name in ("one", "two"):
        status, body, _ = await api("POST", MAPS, {"metadata": {"name": name}, "data": MANY})
        assert status == 201, body
        os.kill(started[-1].pid, signal.SIGKILL)
        async with asyncio.timeout(30):
            await started[-1].wait()
            while api.offload._link is not None:
                await asyncio.sleep(0.01)
    assert len(started) == 2


PLANTED = """
from vcsync.apiserver.handlers.verbs import Verbs

real = Verbs.write

async def write(self, request):
    while request.scope.name == "endless":
        pass
    return await real(self, request)

Verbs.write = write
"""


async def test_a_write_that_stalls_the_process_ends_it_and_its_tenant_is_told(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(watchdog.LIMITS, "end", 1.0)
    monkeypatch.setattr(watchdog.LIMITS, "folder", tmp_path / "stalls")
    told: asyncio.Future[Suspects] = asyncio.get_running_loop().create_future()

    async def stalled(found):
        told.set_result(found)

    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    process = CountingOffloadProcess(store, refuse, Setup(), stalled)
    plane = assemble(store, Everybody(), offload=process, listeners=[process.changed])
    await plane.start("127.0.0.1", 0, None)
    call = Api(plane, process)
    await call("POST", NAMESPACES, {"metadata": {"name": "default"}})
    assert (await call("POST", MAPS, {"metadata": {"name": "long"}, "data": MANY}))[0] == 201
    with pytest.raises(LinkLost):
        await call("PUT", f"{MAPS}/endless", {"metadata": {"name": "endless"}, "data": MANY})
    async with asyncio.timeout(60):
        found = await told
    assert (found.tenants, found.mark.kind) == ({"a"}, "request")
    assert (await call("PUT", f"{MAPS}/long", {"metadata": {"name": "long"}, "data": MANY}))[0] == 200
    await plane.stop()
    await store.close()

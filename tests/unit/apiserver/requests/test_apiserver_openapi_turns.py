"""OpenAPI documents of one tenant are built one at a time and once, and long documents are made on threads."""

import asyncio
import threading

import pytest
from served_definitions import until

from vcsync.apimachinery.wire import protobuf
from vcsync.apiserver.discovery import documents as discovery
from vcsync.apiserver.handlers import non_resource
from vcsync.apiserver.openapi import documents

V2, V3 = "/openapi/v2", "/openapi/v3/apis/example.org/v1"


@pytest.mark.parametrize(("path", "maker"), [(V2, "_swagger"), (V3, "_document")])
async def test_one_tenant_has_one_document_built_at_a_time(api, gadgets, monkeypatch, path, maker):
    free, building, most, made = threading.Event(), [], [], []
    plain = getattr(documents, maker)

    def slow(custom, *rest):
        building.append(1)
        most.append(len(building))
        if len(made) == 0:
            free.wait(20)
        made.append(len(custom))
        building.pop()
        return plain(custom, *rest)

    monkeypatch.setattr(documents, "_kept", documents.KeptDocuments())
    monkeypatch.setattr(documents, maker, slow)
    waiting = [asyncio.ensure_future(api("GET", path)) for _ in range(8)]
    await until(lambda: asyncio.sleep(0, bool(building)))
    # Answers of others are compressed by the threads that all share.
    await asyncio.gather(*(asyncio.to_thread(int) for _ in range(8)))
    assert (await api("GET", "/openapi/v3/api/v1")).status == 200
    assert most == [1]
    free.set()
    answers = await asyncio.gather(*waiting)
    assert {each.status for each in answers} == {200}
    assert len(made) == 1
    assert (await api("GET", path)).status == 200
    assert len(made) == 1


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
        ("/apis", "application/json"),
        ("/apis", "application/yaml"),
        ("/apis/example.org", "application/json"),
        ("/apis/example.org/v1", "application/json"),
    ],
)
async def test_discovery_documents_of_many_resources_are_made_on_a_thread(
    api, gadgets, monkeypatch, path, accept
):
    plain, used = discovery._encoded, set()

    def encoded(document):
        used.add(threading.current_thread())
        return plain(document)

    monkeypatch.setattr(discovery, "_encoded", encoded)
    at_once = await api("GET", path, Accept=accept)
    assert used == {threading.main_thread()}
    used.clear()
    monkeypatch.setattr(non_resource, "MANY_RESOURCES", 1)
    assert (await api("GET", path, Accept=accept)).raw == at_once.raw
    assert used
    assert threading.main_thread() not in used


async def test_a_large_object_is_not_encoded_as_protobuf_on_the_event_loop(api, monkeypatch):
    used = set()
    plain = protobuf.encode
    data = {f"k{at}": "v" for at in range(2000)}
    maps = "/api/v1/namespaces/default/configmaps"
    assert (await api("POST", maps, {"metadata": {"name": "large"}, "data": data})).status == 201
    assert (await api("POST", maps, {"metadata": {"name": "small"}, "data": {"k": "v"}})).status == 201

    def encode(obj):
        used.add(threading.current_thread())
        return plain(obj)

    monkeypatch.setattr(protobuf, "encode", encode)
    accept = "application/vnd.kubernetes.protobuf"
    answer = await api("GET", f"{maps}/large", Accept=accept)
    assert protobuf.decode(answer.raw)["data"] == data
    assert used
    assert threading.main_thread() not in used
    used.clear()
    small = protobuf.decode((await api("GET", f"{maps}/small", Accept=accept)).raw)
    assert (small["kind"], small["data"], used) == ("ConfigMap", {"k": "v"}, set())

"""Deletions of many large objects: they are decoded on a thread, and never copied as a whole."""

import threading

import pytest

from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.crd.custom_resource import Compiled
from vcsync.apiserver.registry import deletion
from vcsync.apiserver.registry import store as registry_store

CORE = "/api/v1/namespaces/default"
LARGE = {f"key-{number}": "x" * 10 for number in range(2_000)}
POD = {"metadata": {"name": "p", "annotations": LARGE}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture
def decoding_threads(monkeypatch):
    """The threads on which stored objects are decoded, in order."""
    found: list[threading.Thread] = []
    unpack = registry_store.stored.unpack

    def noted(*args):
        found.append(threading.current_thread())
        return unpack(*args)

    monkeypatch.setattr(registry_store.stored, "unpack", noted)
    return found


@pytest.fixture
def copies(monkeypatch):
    """The number of fields that deletions copy, for each copy."""
    found: list[int] = []

    def noted(value):
        found.append(str(value).count(":"))
        return copied(value)

    monkeypatch.setattr(deletion, "copied", noted)
    return found


async def test_a_collection_of_large_objects_is_not_decoded_on_the_event_loop(api, decoding_threads, copies):
    for number in range(4):
        made = await api(
            "POST", f"{CORE}/configmaps", {"metadata": {"name": f"large-{number}"}, "data": LARGE}
        )
        assert made.status == 201, made.body
    decoding_threads.clear()
    response = await api("DELETE", f"{CORE}/configmaps?fieldSelector=metadata.namespace%3Ddefault")
    assert response.status == 200
    assert len(decoding_threads) >= 4
    assert threading.main_thread() not in decoding_threads
    assert copies == []


async def test_small_objects_are_deleted_without_a_thread(api, config_map, decoding_threads):
    await api("POST", f"{CORE}/configmaps", config_map("small"))
    decoding_threads.clear()
    assert (await api("DELETE", f"{CORE}/configmaps/small")).status == 200
    assert decoding_threads == [threading.main_thread()]


async def test_a_large_custom_resource_is_converted_on_a_thread(api, gadgets, monkeypatch):
    path, found, decode = gadgets["v1"], [], Compiled.decode

    def noted(self, obj, **how):
        found.append(threading.current_thread())
        return decode(self, obj, **how)

    annotations = {f"example.org/{key}": value for key, value in LARGE.items()}
    body = {
        "apiVersion": "example.org/v1", "kind": "Gadget",
        "metadata": {"name": "g", "annotations": annotations}, "spec": {"size": 1},
    }  # fmt: skip
    made = await api("POST", path, body)
    assert made.status == 201, made.body
    monkeypatch.setattr(Compiled, "decode", noted)
    assert (await api("DELETE", f"{path}/g")).status == 200
    assert found
    assert threading.main_thread() not in found


async def test_the_eviction_of_a_large_pod_is_not_decoded_on_the_event_loop(api, decoding_threads):
    annotations = {f"example.org/{key}": value for key, value in LARGE.items()}
    pod = {**POD, "metadata": {"name": "p", "annotations": annotations}}
    assert (await api("POST", f"{CORE}/pods", pod)).status == 201
    decoding_threads.clear()
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert (await api("POST", f"{CORE}/pods/p/eviction", eviction)).status == 201
    assert decoding_threads
    assert threading.main_thread() not in decoding_threads

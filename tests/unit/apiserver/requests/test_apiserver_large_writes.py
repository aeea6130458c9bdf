"""The stored form of large objects is made on a thread, and that of small ones at once."""

import threading

import pytest

from vcsync.apimachinery.crd.custom_resource import Compiled
from vcsync.apimachinery.patch import managed
from vcsync.apiserver.registry import binding, deletion
from vcsync.apiserver.registry import store as registry_store
from vcsync.apiserver.request import resource

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LARGE = {f"key-{number}": "x" * 10 for number in range(4_000)}
FINALIZERS = {"name": "large", "finalizers": ["example.org/kept"]}
MERGE = {"content_type": "application/merge-patch+json"}


@pytest.fixture
def threads(monkeypatch):
    """The threads on which objects are brought to their stored form, encoded, compared with it, or copied by deletions."""
    found: list[threading.Thread] = []

    def noting(module, name):
        plain = getattr(module, name)

        def noted(*args, **how):
            found.append(threading.current_thread())
            return plain(*args, **how)

        monkeypatch.setattr(module, name, noted)

    noting(registry_store.stored, "pack")
    noting(registry_store.stored, "same")
    noting(resource.walk, "normalize")
    noting(Compiled, "complete")
    noting(deletion, "copied")
    noting(binding, "copied")
    return found


def on_a_thread(threads):
    found = threads.copy()
    threads.clear()
    return bool(found) and threading.main_thread() not in found


async def test_large_objects_are_stored_by_a_thread(api, threads):
    made = await api("POST", CONFIG_MAPS, {"metadata": FINALIZERS, "data": LARGE})
    assert made.status == 201, made.body
    assert on_a_thread(threads)
    path = f"{CONFIG_MAPS}/large"
    for patch in ({"data": {"key-0": "y"}}, {"metadata": {"labels": {"a": "b"}}}):
        assert (await api("PATCH", path, patch, **MERGE)).status == 200
        assert on_a_thread(threads)
    for _ in range(2):
        assert (await api("DELETE", path)).status == 200
        assert on_a_thread(threads)
    assert (await api("PATCH", path, {"metadata": {"finalizers": None}}, **MERGE)).status == 200
    assert on_a_thread(threads)


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_large_custom_resources_are_stored_by_a_thread(api, gadgets, threads, version):
    annotations = {f"example.org/{key}": value for key, value in LARGE.items()}
    body = {
        "apiVersion": f"example.org/{version}", "kind": "Gadget",
        "metadata": {"name": "g", "annotations": annotations}, "spec": {"size": 1},
    }  # fmt: skip
    threads.clear()
    made = await api("POST", gadgets[version], body)
    assert made.status == 201, made.body
    assert on_a_thread(threads)
    assert (await api("PATCH", f"{gadgets[version]}/g", {"spec": {"size": 1}}, **MERGE)).status == 200
    assert on_a_thread(threads)


async def test_the_deletion_of_a_large_definition_does_not_copy_it_on_the_event_loop(api, threads):
    columns = [{"name": f"c{number}", "type": "string", "jsonPath": ".a"} for number in range(2_000)]
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": schema,
        "additionalPrinterColumns": columns,
    }
    names = {"plural": "wides", "singular": "wide", "kind": "Wide", "listKind": "WideList"}
    spec = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = await api("POST", definitions, {"metadata": {"name": "wides.example.org"}, "spec": spec})
    assert made.status == 201, made.body
    threads.clear()
    assert (await api("DELETE", f"{definitions}/wides.example.org")).status == 200
    assert on_a_thread(threads)


async def test_a_large_pod_is_bound_by_a_thread(api, threads):
    annotations = {f"example.org/{key}": value for key, value in LARGE.items()}
    pods = "/api/v1/namespaces/default/pods"
    pod = {
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    made = await api("POST", pods, pod)
    assert made.status == 201, made.body
    managed.empty_object("", "v1", "Binding")  # made once in a process
    threads.clear()
    bound = await api(
        "POST", f"{pods}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    )
    assert bound.status == 201, bound.body
    assert on_a_thread(threads)


async def test_small_objects_are_stored_without_a_thread(api, threads):
    threads.clear()
    assert (await api("POST", CONFIG_MAPS, {"metadata": {"name": "small"}, "data": {"a": "b"}})).status == 201
    assert set(threads) == {threading.main_thread()}

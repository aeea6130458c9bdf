"""Sizes, numbers and depths at which requests are refused."""

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.request.paging import parse_version
from vcsync.apiserver.request.request_info import parse_path, parse_query
from vcsync.apiserver.storage.interface import Change
from vcsync.apiserver.watch import cacher
from vcsync.apiserver.watch.cacher import CacheWatcher, Event

BASE = "/api/v1/namespaces/default/configmaps"
JSON_PATCH = {"Content-Type": "application/json-patch+json"}


@pytest.mark.parametrize(
    ("text", "version"),
    [("", 0), ("0", 0), ("18446744073709551615", 2**64 - 1), ("0" * 5000 + "7", 7)],
)
def test_a_version_is_a_number_of_64_bits(text, version):
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("18446744073709551616", "value out of range"),
        ("9" * 10_000, "value out of range"),
        ("-1", "invalid syntax"),
    ],
)
def test_invalid_resource_versions_are_refused(text, why):
    with pytest.raises(StatusError, match=why) as refused:
        parse_version(text, listed=True)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("parse", "text", "code"),
    [
        (parse_path, "/" + "x" * 9000, 414),
        (parse_query, "a=" + "x" * 17_000, 414),
        (parse_query, "&".join(f"p{number}=v" for number in range(101)), 400),
    ],
)
def test_the_length_of_urls_is_limited(parse, text, code):
    with pytest.raises(StatusError) as refused:
        parse(text)
    assert refused.value.code == code


async def test_the_size_of_patches_is_limited(api, config_map):
    await api("POST", BASE, config_map("one"))
    many = [{"op": "test", "path": "/data/k", "value": "v"}] * 10_001
    response = await api("PATCH", f"{BASE}/one", many, **JSON_PATCH)
    assert (response.status, response.body["reason"]) == (413, "RequestEntityTooLarge")
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/k{number}"} for number in range(40)]
    assert (await api("PATCH", f"{BASE}/one", doubling, **JSON_PATCH)).status == 422


@pytest.mark.parametrize("kind", ["application/json", "application/yaml"])
async def test_the_depth_of_objects_is_limited(api, kind):
    deep = b'{"metadata":' + b'{"a":' * 10_001 + b"1" + b"}" * 10_001 + b"}"
    response = await api("POST", BASE, deep, **{"Content-Type": kind})
    assert (response.status, response.body["reason"]) == (400, "BadRequest")


async def test_an_object_that_patches_make_too_large_is_refused(api):
    rules = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    role = {"metadata": {"name": "r"}, "rules": []}
    await api("POST", rules, role)
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["x" * 1000]}
    large = {"rules": [rule] * 1600}
    response = await api("PATCH", f"{rules}/r", large, **{"Content-Type": "application/merge-patch+json"})
    assert (response.status, response.body["message"]) == (500, "etcdserver: request is too large")


def event(size):
    return Event(Change(1, "a/core/configmaps/default/one", b"x" * size, None, 1), "a")


def test_the_bytes_of_queued_events_are_limited(monkeypatch):
    monkeypatch.setattr(cacher, "MAX_WAITING_BYTES", 10_000)
    watcher = CacheWatcher(0, lambda _: None)
    for _ in range(5):
        watcher.put(event(2000))
    assert watcher.closed == ""
    for _ in range(5):
        watcher.put(event(2000))
    assert (watcher.closed, watcher.take()) == ("slow", [])


def test_a_single_event_of_any_size_is_queued(monkeypatch):
    monkeypatch.setattr(cacher, "MAX_WAITING_BYTES", 1000)
    watcher = CacheWatcher(0, lambda _: None)
    watcher.put(event(5000))
    assert (watcher.closed, len(watcher.take())) == ("", 1)


async def test_the_refusal_of_a_patch_without_a_kind_names_the_kind_of_the_object(api, config_map):
    await api("POST", BASE, config_map("one"))
    patch = {"kind": None, "metadata": {"labels": {"x" * 64: "v"}}}
    response = await api("PATCH", f"{BASE}/one", patch, **{"Content-Type": "application/merge-patch+json"})
    assert (response.status, response.body["message"].partition(" is invalid")[0]) == (422, 'ConfigMap "one"')

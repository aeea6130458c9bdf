"""Sizes, numbers and depths at which requests are refused."""

import pytest

from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.rest import hub
from vcsync.controlplane.rest.hub import Event, Watcher
from vcsync.controlplane.rest.paging import parse_version
from vcsync.controlplane.rest.requestinfo import parse_path, parse_query
from vcsync.controlplane.store.interface import Change

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
def test_what_is_no_version_is_refused(text, why):
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
def test_urls_are_bounded(parse, text, code):
    with pytest.raises(StatusError) as refused:
        parse(text)
    assert refused.value.code == code


async def test_patches_are_bounded(api, config_map):
    await api("POST", BASE, config_map("one"))
    many = [{"op": "test", "path": "/data/k", "value": "v"}] * 10_001
    told = await api("PATCH", f"{BASE}/one", many, **JSON_PATCH)
    assert (told.status, told.body["reason"]) == (413, "RequestEntityTooLarge")
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/k{number}"} for number in range(40)]
    assert (await api("PATCH", f"{BASE}/one", doubling, **JSON_PATCH)).status == 422


@pytest.mark.parametrize("kind", ["application/json", "application/yaml"])
async def test_nesting_is_bounded(api, kind):
    deep = b'{"metadata":' + b'{"a":' * 10_001 + b"1" + b"}" * 10_001 + b"}"
    told = await api("POST", BASE, deep, **{"Content-Type": kind})
    assert (told.status, told.body["reason"]) == (400, "BadRequest")


async def test_an_object_that_patches_make_too_large_is_refused(api):
    rules = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    role = {"metadata": {"name": "r"}, "rules": []}
    await api("POST", rules, role)
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["x" * 1000]}
    large = {"rules": [rule] * 1600}
    told = await api("PATCH", f"{rules}/r", large, **{"Content-Type": "application/merge-patch+json"})
    assert (told.status, told.body["message"]) == (500, "etcdserver: request is too large")


def event(size):
    return Event(Change(1, "a/core/configmaps/default/one", b"x" * size, None, 1), "a")


def test_what_waits_for_a_watch_is_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(hub, "MAX_WAITING_BYTES", 10_000)
    watcher = Watcher(0, lambda _: None)
    for _ in range(5):
        watcher.put(event(2000))
    assert watcher.closed == ""
    for _ in range(5):
        watcher.put(event(2000))
    assert (watcher.closed, watcher.take()) == ("slow", [])


def test_one_event_waits_however_large_it_is(monkeypatch):
    monkeypatch.setattr(hub, "MAX_WAITING_BYTES", 1000)
    watcher = Watcher(0, lambda _: None)
    watcher.put(event(5000))
    assert (watcher.closed, len(watcher.take())) == ("", 1)


async def test_a_patch_that_takes_the_kind_away_is_refused_as_what_the_object_is(api, config_map):
    await api("POST", BASE, config_map("one"))
    patch = {"kind": None, "metadata": {"labels": {"x" * 64: "v"}}}
    told = await api("PATCH", f"{BASE}/one", patch, **{"Content-Type": "application/merge-patch+json"})
    assert (told.status, told.body["message"].partition(" is invalid")[0]) == (422, 'ConfigMap "one"')

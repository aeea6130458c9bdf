"""The encoded forms of events have a limit in bytes, however many forms clients ask for."""

import gc
from types import SimpleNamespace

import msgspec
import pytest

from vcsync.apimachinery.tenant_marks import TenantMark
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.apiserver.discovery.served import builtin_kinds
from vcsync.apiserver.handlers.responses import ResponseEncoder
from vcsync.apiserver.handlers.watch_encoder import WatchEncoder
from vcsync.apiserver.storage.interface import Change
from vcsync.apiserver.watch import forms
from vcsync.apiserver.watch.cacher import Cacher
from vcsync.apiserver.watch.watcher import WatchEvent

KIND = builtin_kinds()["", "v1", "configmaps"]
FORMS = [
    Representation(format_, pretty=pretty, target=target, version=version)
    for format_ in ("json", "protobuf")
    for pretty in (False, True)
    for target, version in (("", ""), ("PartialObjectMetadata", "v1"), ("PartialObjectMetadata", "v1beta1"))
]
TEXT = "x" * 5_000


def change(number, labels=()):
    name = f"c{number}"
    metadata = {"name": name, "namespace": "n", "annotations": {"a": TEXT}, "labels": dict(labels)}
    obj = {"metadata": metadata, "data": {"a": TEXT}}
    return Change(number, f"a/core/configmaps/n/{name}", msgspec.json.encode(obj), None, number)


@pytest.fixture
def published(monkeypatch):
    """The cacher, and the events of 50 changes."""
    monkeypatch.setattr(forms, "FORMS_BYTES", 200_000)
    cacher = Cacher(SimpleNamespace())
    cacher._publish([change(number) for number in range(50)])
    return cacher


def kept_bytes(cacher):
    """The bytes of all forms that can be reached from the cacher."""
    seen, found, waiting = set(), 0, [cacher]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type) or callable(each):
            continue
        seen.add(id(each))
        found += len(each) if isinstance(each, bytes) else 0
        waiting += gc.get_referents(each)
        waiting += [getattr(each, name, None) for name in getattr(type(each), "__slots__", ())]
    return found


async def test_forms_of_all_clients_together_have_a_limit(published):
    plain = kept_bytes(published)
    for event in published._recent:
        for form in FORMS:
            for mark in (TenantMark.NONE, TenantMark.FIELD):
                watch = WatchEncoder(ResponseEncoder(), KIND, form, {}, mark)
                item = WatchEvent(
                    "ADDED", event.change.value, event.change.revision, "a", event.change.key, event
                )
                assert await watch.event(item)
    assert 100_000 < kept_bytes(published) - plain < 210_000


async def test_watches_of_one_event_share_its_form(published):
    event = published._recent[-1]
    item = WatchEvent("ADDED", event.change.value, event.change.revision, "a", event.change.key, event)
    one, two = (WatchEncoder(ResponseEncoder(), KIND, FORMS[0], {}, TenantMark.NONE) for _ in range(2))
    assert await one.event(item) is await two.event(item)


def test_labels_have_a_part_in_the_limit(monkeypatch):
    monkeypatch.setattr(forms, "FORMS_BYTES", 100_000)
    cacher = Cacher(SimpleNamespace())
    many = {f"k{number}": "" for number in range(200)}
    cacher._publish([change(number, many) for number in range(20)])
    for event in cacher._recent:
        assert event.labels(before=False) == many
        assert event.labels(before=True) == {}
    assert cacher._forms.used <= 100_000
    assert len(cacher._forms) < 10

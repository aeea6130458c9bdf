"""Large objects are cached as digests, and read when they are written."""

from __future__ import annotations

from typing import Any

import pytest
from engine_paper import PaperApi
from hypothesis import given
from hypothesis import strategies as st
from test_engine_reconcile import KEY, MAP, PLACE, Scene

from vcsync.api import names
from vcsync.kube.errors import Unreachable
from vcsync.kube.resources import CONFIG_MAPS, SECRETS
from vcsync.objects.envelope import Envelope
from vcsync.syncer.caches import TenantCaches
from vcsync.syncer.digests import WHOLE_BYTES, digest, is_digest, with_digest
from vcsync.syncer.kinds import KINDS
from vcsync.syncer.kinds.plan import EMPTY, Create, Kind, Plan

LARGE = b'{"data":{"a":"%b"}}' % (b"x" * WHOLE_BYTES)


def envelope(**fields: Any) -> Envelope:
    return Envelope("settings", "shop", "u", "7", **fields)


def test_small_objects_are_cached_unchanged() -> None:
    small = envelope(rest=b'{"data":{"a":"b"}}', labels={"app": "web"})
    assert with_digest(small) == small
    assert not is_digest(small)


@pytest.mark.parametrize(
    "large",
    [
        envelope(rest=LARGE),
        envelope(annotations={"a": "x" * WHOLE_BYTES}),
        envelope(labels={"a": "x" * WHOLE_BYTES}),
    ],
)
def test_large_objects_are_cached_as_digests(large: Envelope) -> None:
    kept = with_digest(large)
    assert is_digest(kept)
    assert (kept.key, kept.uid, kept.resource_version) == (large.key, "u", "7")
    assert len(kept.rest) < 40
    assert not kept.labels
    assert not kept.annotations
    assert digest(kept) == digest(large)


texts = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)


@given(st.binary(max_size=5), texts, texts, st.binary(max_size=5), texts, texts)
def test_digests_differ_exactly_where_objects_do(
    rest: bytes,
    labels: dict[str, str],
    annotations: dict[str, str],
    other_rest: bytes,
    other_labels: dict[str, str],
    other_annotations: dict[str, str],
) -> None:
    one = envelope(rest=b"{" + rest, labels=labels, annotations=annotations)
    other = envelope(rest=b"{" + other_rest, labels=other_labels, annotations=other_annotations)
    same = (one.rest, labels, annotations) == (other.rest, other_labels, other_annotations)
    assert (digest(one) == digest(other)) is same


@pytest.mark.parametrize("resource", [CONFIG_MAPS, SECRETS])
async def test_a_tenants_caches_contain_no_large_objects(resource: Any) -> None:
    caches = TenantCaches(
        PaperApi("tenant"),  # type: ignore[arg-type]
        tenant=KEY,
        super_id="r1",
        kinds=KINDS,
        is_placed=lambda *_: True,
        enqueue=lambda *_: None,
        wake=lambda *_: None,
        on_pod=lambda _: None,
    )
    caches.reflectors[resource].observe(envelope(rest=LARGE))
    kept = caches.get(resource, "shop", "settings")
    assert kept is not None
    assert is_digest(kept)


class Digested(Scene):
    """A scene whose ConfigMaps are large."""

    def __init__(self) -> None:
        super().__init__()
        kind = self.objects.kinds["configmaps"]
        kinds = dict(self.objects.kinds)
        kinds["configmaps"] = Kind(name=kind.name, resource=kind.resource, plan=kind.plan, digested=True)
        self.objects.kinds = kinds
        self.seen: list[bytes] = []
        self.plans["configmaps"] = self.plan
        observe = self.tenant_caches.reflectors[CONFIG_MAPS].observe
        self.tenant_caches.reflectors[CONFIG_MAPS].observe = lambda found: observe(with_digest(found))  # type: ignore[method-assign]

    def plan(self, v: Envelope | None, p: Envelope | None) -> Plan:
        assert v is not None
        self.seen.append(v.rest)
        if p is not None:
            return EMPTY
        annotations = {names.CLUSTER: KEY, names.NAMESPACE: "shop", names.UID: v.uid}
        body = {"metadata": {"name": "settings", "annotations": annotations}}
        return Plan((Create("super", CONFIG_MAPS, PLACE, body),))

    def large(self, text: str = "x") -> Envelope:
        body = {
            "metadata": {"name": "settings", "namespace": "shop", "uid": "v"},
            "data": {"a": text * WHOLE_BYTES},
        }
        stored = self.tenant.put(CONFIG_MAPS, body)
        self.tenant_caches.reflectors[CONFIG_MAPS].observe(stored)
        return stored

    def reads(self) -> int:
        return sum(call[0] == "get" for call in self.tenant.calls)


@pytest.fixture
def scene() -> Digested:
    return Digested()


async def test_a_large_object_is_read_only_when_it_is_written(
    scene: Digested,
) -> None:
    stored = scene.large()
    await scene.reconciler.reconcile(MAP)
    assert scene.seen == [stored.rest]
    assert scene.super.has(CONFIG_MAPS, "settings", PLACE)
    await scene.reconciler.reconcile(MAP)
    await scene.reconciler.reconcile(MAP)
    assert scene.reads() == 1
    scene.large()
    await scene.reconciler.reconcile(MAP)
    assert scene.reads() == 1, "another version of the same content"
    changed = scene.large("y")
    await scene.reconciler.reconcile(MAP)
    assert scene.reads() == 2
    assert scene.seen[-1] == changed.rest


async def test_a_change_in_the_super_cluster_is_compared_with_the_whole_object(scene: Digested) -> None:
    scene.large()
    await scene.reconciler.reconcile(MAP)
    scene.super_caches.reflectors[CONFIG_MAPS].observe(
        scene.super.put(CONFIG_MAPS, scene.super.objects[CONFIG_MAPS.plural, PLACE, "settings"])
    )
    await scene.reconciler.reconcile(MAP)
    assert scene.reads() == 2


async def test_an_item_is_retried_while_the_content_cannot_be_read(scene: Digested) -> None:
    scene.large()
    scene.tenant.failures["get configmaps"] = Unreachable("cut", endpoint="tenant")  # type: ignore[assignment]
    with pytest.raises(Unreachable):
        await scene.reconciler.reconcile(MAP)
    assert scene.seen == []
    assert scene.super.writes() == []


async def test_a_deleted_large_object_waits_for_the_report_of_the_watch(scene: Digested) -> None:
    scene.large()
    del scene.tenant.objects[CONFIG_MAPS.plural, "shop", "settings"]
    scene.plans["configmaps"] = lambda v, p: pytest.fail("nothing can be planned of it")
    assert await scene.reconciler.reconcile(MAP) == 2.0
    assert scene.tenant_caches.get(CONFIG_MAPS, "shop", "settings") is not None

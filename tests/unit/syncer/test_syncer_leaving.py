"""A tenant that is being removed: its Pods are kept while its session lasts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from test_syncer_whole import KEY, PLACE, Stage, stage

from vcsync.api import names
from vcsync.api.objects import VirtualCluster
from vcsync.api.resources import NAMESPACE_PLACEMENTS, VIRTUAL_CLUSTERS
from vcsync.kube.resources import PODS
from vcsync.syncer.service import DRAIN, Syncer
from vcsync.syncer.waiting import Item

__all__ = ["stage"]


async def draining(stage: Stage) -> Syncer:
    """A syncer with a session of the tenant, whose namespace has lost its slices while Pod web stands there."""
    stage.grant({"r2": 1})
    annotations = {names.CLUSTER: KEY, names.NAMESPACE: "shop", names.UID: "uid-of-web"}
    labels = {names.CONTROLLED: names.TRUE}
    stage.below.put(PODS, "web", PLACE, metadata={"annotations": annotations, "labels": labels}, spec={})
    syncer = Syncer(meta=stage.meta, super_client=stage.below, super_id="r1")  # type: ignore[arg-type]
    syncer.ledger.reflector.observe(await stage.meta.get(NAMESPACE_PLACEMENTS, "shop", KEY))
    syncer.caches.reflectors[PODS].observe(await stage.below.get(PODS, "web", PLACE))
    known = VirtualCluster.from_envelope(await stage.meta.get(VIRTUAL_CLUSTERS, "acme", "vcsync"))
    session: Any = SimpleNamespace(
        handle=SimpleNamespace(virtual_cluster=known),
        ready=False,
        report_drained=lambda _: None,
        world=SimpleNamespace(enqueue=lambda *_: None),
    )
    syncer._tenants[KEY] = session
    return syncer


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"uid": "uid-acme", "deletionTimestamp": "2026-01-01T00:00:00Z"}, id="is-being-deleted"),
        pytest.param({"uid": "another"}, id="another-of-that-name"),
        pytest.param(None, id="is-gone"),
    ],
)
async def test_pods_of_a_removed_tenant_are_kept_until_its_session_has_ended(
    stage: Stage, metadata: dict[str, Any] | None
) -> None:
    syncer = await draining(stage)
    if metadata is None:
        stage.meta.remove(VIRTUAL_CLUSTERS, "acme", "vcsync")
    else:
        stage.meta.put(VIRTUAL_CLUSTERS, "acme", "vcsync", metadata=metadata)
    assert await syncer._handle(KEY, Item(DRAIN, "shop", ""))
    assert stage.here(PODS, "web")
    del syncer._tenants[KEY]
    await syncer._handle(KEY, Item(DRAIN, "shop", ""))
    assert stage.here(PODS, "web") is None


async def test_pods_of_an_existing_tenant_are_deleted_with_their_slices(stage: Stage) -> None:
    syncer = await draining(stage)
    await syncer._handle(KEY, Item(DRAIN, "shop", ""))
    assert stage.here(PODS, "web") is None

"""Deletions that a watch reported: only those are not counted by the brake."""

from __future__ import annotations

from typing import Any

import pytest
from engine_paper import PaperApi
from test_engine_tenant import Session, session

from vcsync.api import names
from vcsync.kube.resources import CONFIG_MAPS, PODS
from vcsync.objects.envelope import Envelope
from vcsync.syncer.caches import SuperCaches
from vcsync.syncer.kinds import KINDS

__all__ = ["session"]


def standing_for(uid: str, version: str) -> Envelope:
    """A Pod of the super cluster."""
    return Envelope(
        "web",
        "key-shop",
        "below",
        version,
        labels={names.CONTROLLED: names.TRUE},
        annotations={names.UID: uid, names.CLUSTER: "acme"},
    )


async def test_only_a_deletion_reported_by_the_watch_is_a_departure_in_the_super_cluster() -> None:
    asked: list[Any] = []
    client: Any = PaperApi("r1")
    here = SuperCaches(
        client,
        KINDS,
        enqueue=lambda *what: asked.append(what),
        wake=lambda *_: None,
        on_node=lambda _: None,
    )
    pods = here.reflectors[PODS]
    pods.observe(standing_for("uid-web", "7"))
    pods.observe(standing_for("uid-web", "8"))
    assert not here.departure_seen("acme", "uid-web"), "it has changed"
    pods._replace_cache([], "9")
    assert not here.departure_seen("acme", "uid-web"), "that a list lacks it may mean that the server lost it"
    pods.observe(standing_for("uid-web", "10"))
    pods._observe_deleted(standing_for("uid-web", "11"))
    assert here.departure_seen("acme", "uid-web")
    assert not here.departure_seen("acme", "uid-other")
    assert not here.departure_seen("umbrella", "uid-web"), "external control planes choose their UIDs"


@pytest.mark.parametrize(
    ("resource", "deleting", "certain"),
    [
        pytest.param(CONFIG_MAPS, False, True, id="any-object"),
        pytest.param(PODS, True, True, id="a-pod-that-was-ending"),
        pytest.param(PODS, False, False, id="a-pod-that-may-have-been-relabelled"),
    ],
)
async def test_a_deletion_in_the_tenant_is_observed_when_it_is_certain(
    session: Session, resource: Any, deleting: bool, certain: bool
) -> None:
    tenant, _ = session()
    theirs = tenant.objects.tenant_caches
    labels = {names.SUPER_CLUSTER: "r1"}

    def at(version: str) -> Envelope:
        return Envelope(
            "web",
            "shop",
            "u",
            version,
            labels=labels,
            deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None,
        )

    theirs.reflectors[resource].observe(at("7"))
    theirs.reflectors[resource]._observe_deleted(at("8"))
    assert theirs.departure_seen(resource, "shop", "web", "u")
    assert theirs.deletion_seen(resource, "shop", "web", "u") is certain

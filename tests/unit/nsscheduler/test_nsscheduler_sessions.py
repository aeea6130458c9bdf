"""The changes of a tenant that enqueue its namespaces."""

from __future__ import annotations

from types import SimpleNamespace

from vcsync.api.objects import VirtualCluster
from vcsync.api.specs import VirtualClusterSpec
from vcsync.nsscheduler.definition_texts import DefinitionTexts
from vcsync.nsscheduler.session import TenantSession
from vcsync.objects.envelope import Envelope
from vcsync.tenancy.brake import DeletionLimiter, Releases
from vcsync.tenancy.memory import TENANT_MEMORY_BYTES

NO_DEFINITIONS = DefinitionTexts(SimpleNamespace())  # type: ignore[arg-type]


def test_a_changed_quota_enqueues_its_namespace() -> None:
    looked: list[tuple[str, str]] = []
    handle = SimpleNamespace(key="acme", client=SimpleNamespace(name="acme"))
    session = TenantSession(
        handle,  # type: ignore[arg-type]
        lambda key, namespace: looked.append((key, namespace)),
        limiter=DeletionLimiter(0.3, released=lambda _: None, releases=Releases(), clock=lambda: 0.0),
        definitions=NO_DEFINITIONS,
        placed=lambda _: {},
        memory=TENANT_MEMORY_BYTES,
    )

    def seen(version: str, spec: bytes, status: bytes) -> int:
        before = len(looked)
        session.quotas.observe(Envelope("all", "shop", "uid", version, spec=spec, status=status))
        return len(looked) - before

    assert seen("1", b'{"hard":{"cpu":"1"}}', b"") == 1
    assert seen("2", b'{"hard":{"cpu":"1"}}', b'{"used":{"cpu":"100m"}}') == 0
    assert seen("3", b'{"hard":{"cpu":"2"}}', b'{"used":{"cpu":"100m"}}') == 1
    assert session.hards("shop") == ({"cpu": "2"},)
    session.quotas.observe_gone("shop", "all", "uid")
    assert looked == [("acme", "shop")] * 3


def envelope(name: str, *, deleting: bool = False) -> Envelope:
    ended = "2026-01-01T00:00:00Z" if deleting else None
    return Envelope(name, "", f"uid-{name}", "1", deletion_timestamp=ended)


async def test_placements_whose_reason_was_lost_are_counted() -> None:
    namespaces = {
        "whole": 1,
        "without-quota": 1,
        "leaving": 1,
        "missing": 0,
        "default-quota": 2,
        "drained": 0,
    }
    owner = VirtualCluster(
        name="vc",
        namespace="vcsync",
        uid="u",
        spec=VirtualClusterSpec(default_quota={"cpu": "1"}),
    )
    for virtual_cluster, lost in ((VirtualCluster(name="vc", namespace="vcsync", uid="u"), 3), (owner, 1)):
        handle = SimpleNamespace(
            key="acme", client=SimpleNamespace(name="acme"), virtual_cluster=virtual_cluster
        )
        session = TenantSession(
            handle,  # type: ignore[arg-type]
            lambda *_: None,
            limiter=DeletionLimiter(0.3, released=lambda _: None, releases=Releases(), clock=lambda: 0.0),
            definitions=NO_DEFINITIONS,
            placed=lambda key: namespaces if key == "acme" else {},
            memory=TENANT_MEMORY_BYTES,
        )
        for name in ("whole", "without-quota", "default-quota", "drained"):
            session.namespaces.observe(envelope(name))
        session.namespaces.observe(envelope("leaving", deleting=True))
        spec = b'{"hard":{"cpu":"1"}}'
        session.quotas.observe(Envelope("all", "whole", "uid", "1", spec=spec))
        assert await session._count() == (lost, len(namespaces))


async def test_a_changed_or_deleted_namespace_is_enqueued() -> None:
    looked: list[tuple[str, str]] = []
    handle = SimpleNamespace(key="acme", client=SimpleNamespace(name="acme"))
    session = TenantSession(
        handle,  # type: ignore[arg-type]
        lambda key, namespace: looked.append((key, namespace)),
        limiter=DeletionLimiter(0.3, released=lambda _: None, releases=Releases(), clock=lambda: 0.0),
        definitions=NO_DEFINITIONS,
        placed=lambda _: {},
        memory=TENANT_MEMORY_BYTES,
    )
    session.namespaces.observe(envelope("shop"))
    session.namespaces.observe_gone("", "shop", "uid-shop")
    assert looked == [("acme", "shop")] * 2

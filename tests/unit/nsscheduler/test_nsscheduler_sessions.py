"""What of a tenant makes its namespaces be looked at."""

from __future__ import annotations

from types import SimpleNamespace

from vcsync.kube.envelope import Envelope
from vcsync.nsscheduler.session import TenantSession
from vcsync.tenancy.brake import Gate


def test_a_quota_that_limits_something_else_has_its_namespace_looked_at() -> None:
    looked: list[tuple[str, str]] = []
    handle = SimpleNamespace(key="acme", client=SimpleNamespace(name="acme"))
    session = TenantSession(
        handle,  # type: ignore[arg-type]
        lambda key, namespace: looked.append((key, namespace)),
        gate=Gate(0.3, released=lambda _: None, clock=lambda: 0.0),
        placed=lambda _: [],
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

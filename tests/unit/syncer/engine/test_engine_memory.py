"""A tenant with more objects than a syncer's memory limit is not synced."""

from __future__ import annotations

import asyncio

import pytest
from engine_paper import PaperApi

from vcsync.kube.resources import SERVICES
from vcsync.objects.envelope import Envelope
from vcsync.syncer.caches import TenantCaches, _Side
from vcsync.syncer.kinds import KINDS
from vcsync.tenancy.memory import OVERHEAD_BYTES
from vcsync.tenancy.registry import TenantTooLarge


def service(name: str) -> Envelope:
    return Envelope(name, "shop", f"uid-{name}", "1")


async def test_a_tenant_that_is_too_large_ends_its_session_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caches = TenantCaches(
        PaperApi("tenant"),  # type: ignore[arg-type]
        tenant="key",
        super_id="r1",
        kinds=KINDS,
        is_placed=lambda *_: True,
        enqueue=lambda *_: None,
        wake=lambda *_: None,
        on_pod=lambda _: None,
        memory=10 * OVERHEAD_BYTES,
    )
    began = asyncio.Event()

    async def never(_: object) -> None:
        began.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(_Side, "run", never)
    run = asyncio.create_task(caches.run())
    await began.wait()
    for number in range(10):
        caches.reflectors[SERVICES].observe(service(str(number)))
    assert not run.done()
    caches.reflectors[SERVICES].observe(service("one more"))
    with pytest.raises(ExceptionGroup) as raised:
        await run
    assert raised.group_contains(TenantTooLarge)

"""The limit on the memory that one tenant's objects take in a syncer."""

from __future__ import annotations

import asyncio

import pytest
from engine_paper import PaperApi
from hypothesis import given
from hypothesis import strategies as st

from vcsync.kube.cache import Cache, Change
from vcsync.kube.resources import CONFIG_MAPS, SERVICES
from vcsync.objects.envelope import Envelope
from vcsync.syncer.caches import TenantCaches, _Side
from vcsync.syncer.kinds import KINDS
from vcsync.syncer.memory import LISTED_TIMES, OVERHEAD_BYTES, MemoryLimit, size
from vcsync.tenancy.registry import TenantTooLarge


def service(name: str, version: int = 1, spec: int = 0) -> Envelope:
    return Envelope(name, "shop", f"uid-{name}", str(version), spec=b"x" * spec)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 50)), max_size=30))
def test_the_bytes_of_cached_objects_are_counted_through_any_changes(changes: list[tuple[str, int]]) -> None:
    memory, cache = MemoryLimit(1 << 30), Cache()
    for version, (name, spec) in enumerate(changes, 1):
        old = cache.get("shop", name)
        if spec == 0 and old is not None:
            change: Change | None = cache.observe_gone("shop", name, old.uid)
        else:
            change = cache.observe(service(name, version, spec)) if old or spec else None
        if change is not None:
            assert memory.count_change(SERVICES, change)
    assert memory.kept == sum(size(envelope) for envelope in cache.items())


def test_the_error_names_the_limit_and_the_remedy() -> None:
    memory = MemoryLimit(2 << 20)
    assert memory.count_change(SERVICES, Change(None, service("a", spec=2 << 20))) is False
    assert "2 MiB" in str(memory.too_large())
    assert "--memory-per-tenant" in str(memory.too_large())


def test_a_list_that_is_too_large_is_not_read_to_its_end() -> None:
    memory = MemoryLimit(10 * OVERHEAD_BYTES)
    for number in range(10 * LISTED_TIMES):
        memory.count_listed(SERVICES, service(str(number)))
    memory.count_listed(CONFIG_MAPS, service("other"))
    with pytest.raises(TenantTooLarge):
        memory.count_listed(SERVICES, service("one more"))


def test_a_repeated_list_is_not_counted_twice() -> None:
    memory, cache = MemoryLimit(10 * OVERHEAD_BYTES), Cache()
    for version in range(1, 6):
        for number in range(8):
            memory.count_listed(SERVICES, service(str(number), version))
        for number in range(8):
            change = cache.observe(service(str(number), version))
            assert change is not None
            assert memory.count_change(SERVICES, change)


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

"""The limit on the memory that one tenant's objects take in a role."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from vcsync.kube.cache import Cache, Change
from vcsync.kube.resources import CONFIG_MAPS, SERVICES
from vcsync.objects.envelope import Envelope, OwnerReference
from vcsync.tenancy.memory import LISTED_TIMES, OVERHEAD_BYTES, MemoryLimit, TenantMemory, size
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


async def test_the_error_names_the_limit_the_effect_and_the_remedy() -> None:
    memory = TenantMemory(2 << 20, "syncer", "they are not synced")
    taken: list[Change] = []
    change = Change(None, service("a", spec=2 << 20))
    memory.counted(SERVICES, taken.append)(change)
    assert taken == [change]
    with pytest.raises(
        TenantTooLarge, match=r"2 MiB of a syncer's memory.*they are not synced.*--memory-per-tenant"
    ):
        await memory.exceeded()


async def test_the_objects_of_all_reflectors_count_together() -> None:
    memory = TenantMemory(10 * OVERHEAD_BYTES, "syncer", "they are not synced")
    ended = asyncio.ensure_future(memory.exceeded())
    for resource in (SERVICES, CONFIG_MAPS):
        for number in range(5):
            memory.count(resource, Change(None, service(str(number))))
    await asyncio.sleep(0)
    assert not ended.done()
    memory.count(SERVICES, Change(None, service("one more")))
    with pytest.raises(TenantTooLarge):
        await ended


async def test_a_list_without_end_ends_the_session_and_is_not_kept() -> None:
    memory = TenantMemory(10 * OVERHEAD_BYTES, "syncer", "they are not synced")
    project = memory.projection(SERVICES, lambda each: replace(each, spec=b""))
    for number in range(10 * LISTED_TIMES):
        assert project(service(str(number), spec=1000)).spec == b""
    with pytest.raises(TenantTooLarge):
        project(service("one more"))
    with pytest.raises(TenantTooLarge):
        await memory.exceeded()


def test_a_list_that_is_too_large_is_not_read_to_its_end() -> None:
    memory = MemoryLimit(10 * OVERHEAD_BYTES)
    for number in range(10 * LISTED_TIMES):
        assert memory.count_listed(SERVICES, service(str(number)))
    assert memory.count_listed(CONFIG_MAPS, service("other"))
    assert not memory.count_listed(SERVICES, service("one more"))


def test_a_repeated_list_is_not_counted_twice() -> None:
    memory, cache = MemoryLimit(10 * OVERHEAD_BYTES), Cache()
    for version in range(1, 6):
        for number in range(8):
            assert memory.count_listed(SERVICES, service(str(number), version))
        for number in range(8):
            change = cache.observe(service(str(number), version))
            assert change is not None
            assert memory.count_change(SERVICES, change)


@pytest.mark.parametrize(
    "large",
    [
        {"name": "x" * 10_000},
        {"uid": "x" * 10_000},
        {"finalizers": ("x" * 10_000,)},
        {"owners": (OwnerReference(uid="x" * 10_000),)},
        {"annotations": {"a": "x" * 10_000}},
        {"spec": b"x" * 10_000},
    ],
)
def test_no_field_of_a_hostile_server_is_free(large: dict[str, Any]) -> None:
    assert size(replace(service("a"), **large)) >= 10_000
    assert size(service("a")) == OVERHEAD_BYTES

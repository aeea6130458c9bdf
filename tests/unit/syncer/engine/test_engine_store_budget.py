"""The bytes that a tenant's namespaces may write into a super cluster."""

from __future__ import annotations

import json

import pytest
from engine_paper import PaperApi
from hypothesis import given
from hypothesis import strategies as st

from vcsync.api import names
from vcsync.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, RESOURCE_QUOTAS, SECRETS
from vcsync.objects.envelope import Envelope
from vcsync.syncer.caches import SuperCaches
from vcsync.syncer.kinds import KINDS
from vcsync.syncer.kinds.plan import Action, Bind, Create, Delete, Patch
from vcsync.syncer.store_budget import (
    COMPACTION_SECONDS,
    FREE_POD_BYTES,
    NO_DEMAND,
    OVERHEAD_BYTES,
    REWRITES,
    SHORTEST_WAIT_SECONDS,
    Demand,
    OverBudget,
    StoreBudget,
    WritesTooFast,
    demand_of,
    stored_bytes,
)

PLACE = "t-shop"
MAPS = KINDS["configmaps"]


class Yard:
    """A room, what it holds and its clock."""

    def __init__(self, whole: int = 1000) -> None:
        self.held, self.whole, self.now = 0, whole, 0.0
        self.budget = StoreBudget(
            stored=lambda _: self.held, tenant_limit=lambda: self.whole, clock=lambda: self.now
        )

    def write(self, written: int, growth: int = 0, room: int = 1000) -> None:
        with self.budget.reserve(PLACE, room, Demand(growth, written)):
            self.held += growth


def test_growth_beyond_the_limit_is_refused_with_the_amounts() -> None:
    yard = Yard(8 << 20)
    yard.write(3 << 20, 3 << 20, room=4 << 20)
    with pytest.raises(OverBudget, match=r"take 3.0 MiB of the 4.0 MiB .* this would take 1.5 MiB more"):
        yard.write(3 << 19, 3 << 19, room=4 << 20)
    yard.write(1 << 20, 1 << 20, room=4 << 20)


def test_writes_without_growth_are_allowed_beyond_the_limit() -> None:
    yard = Yard()
    yard.held = 5000
    yard.write(100)
    with pytest.raises(OverBudget):
        yard.write(100, 1)


def test_concurrent_writes_do_not_use_the_same_bytes() -> None:
    yard = Yard()
    with yard.budget.reserve(PLACE, 1000, Demand(600, 1)):
        with pytest.raises(OverBudget):
            yard.write(1, 600)
        with yard.budget.reserve("t-other", 1000, Demand(600, 1)):
            pass
    yard.write(1, 600)


def test_a_failed_write_frees_its_bytes() -> None:
    yard = Yard()
    with pytest.raises(OSError, match="cut"), yard.budget.reserve(PLACE, 1000, Demand(1000, 1)):
        raise OSError("cut")
    yard.write(1, 1000)


def test_the_rate_of_overwrites_is_limited() -> None:
    yard = Yard()
    for _ in range(10 * REWRITES):
        yard.write(100)
    with pytest.raises(WritesTooFast) as refused:
        yard.write(100)
    assert refused.value.after == pytest.approx(COMPACTION_SECONDS / (10 * REWRITES))
    yard.now += refused.value.after
    yard.write(100)


def test_small_writes_have_a_shortest_wait() -> None:
    yard = Yard()
    yard.write(1000 * REWRITES)
    with pytest.raises(WritesTooFast) as refused:
        yard.write(1)
    assert refused.value.after == SHORTEST_WAIT_SECONDS


def test_a_large_write_is_allowed_when_the_rate_is_unused() -> None:
    yard = Yard()
    yard.write(5000)
    with pytest.raises(WritesTooFast):
        yard.write(1)
    yard.now += 5 * COMPACTION_SECONDS
    yard.write(5000)


@given(
    steps=st.lists(
        st.tuples(st.floats(0, 400, allow_nan=False), st.integers(1, 900)), min_size=1, max_size=60
    )
)
def test_the_written_bytes_are_limited_in_each_period(
    steps: list[tuple[float, int]],
) -> None:
    yard, written = Yard(), 0
    for pause, size in steps:
        yard.now += pause
        try:
            yard.write(size)
        except WritesTooFast as refused:
            yard.now += refused.after + 1e-6
            yard.write(size)
        written += size
        assert written <= 1000 * REWRITES * (1 + yard.now / COMPACTION_SECONDS) + 1


def config(data: str, *, annotations: dict[str, str] | None = None, **meta: str) -> Envelope:
    return Envelope("c", "shop", rest=data.encode(), annotations=annotations or {}, **meta)  # type: ignore[arg-type]


def create(body_of: str = "super") -> Create:
    return Create(body_of, CONFIG_MAPS, PLACE, {})  # type: ignore[arg-type]


def patch(**metadata: object) -> Patch:
    return Patch("super", CONFIG_MAPS, PLACE, "c", "u", {"metadata": metadata, "data": {}})


@pytest.mark.parametrize(
    ("action", "v", "p", "demand"),
    [
        (create(), config("x" * 100), None, Demand(OVERHEAD_BYTES + 100, OVERHEAD_BYTES + 100)),
        (patch(), config("x" * 100), config("x" * 70), Demand(30, OVERHEAD_BYTES + 100)),
        (patch(), config("x" * 70), config("x" * 100), Demand(0, OVERHEAD_BYTES + 100)),
        (
            patch(annotations={"a": "12345", "b": None}),
            config("x"),
            config("x", annotations={"a": "1", "b": "2"}),
            Demand(3, OVERHEAD_BYTES + 5),
        ),
        (patch(labels={"l": "123"}), config("x"), config("x"), Demand(3, OVERHEAD_BYTES + 1)),
        (patch(), None, config("x"), NO_DEMAND),
        (create("tenant"), config("x"), None, NO_DEMAND),
        (Delete("super", CONFIG_MAPS, PLACE, "c", "u"), config("x"), config("x"), NO_DEMAND),
        (Create("super", SECRETS, PLACE, {}), config("x"), None, NO_DEMAND),
        (Bind("shop", "p", "u", "7", "n"), config("x"), None, NO_DEMAND),
    ],
)
def test_the_demand_of_a_write(
    action: Action, v: Envelope | None, p: Envelope | None, demand: Demand
) -> None:
    assert demand_of(MAPS, action, v, p) == demand


@given(text=st.text(st.sampled_from("<\\u003cx\x01\u00e9")))
def test_escapes_count_as_their_characters(text: str) -> None:
    written = json.dumps(text, ensure_ascii=False).replace("<", "\\u003c")
    weighed = stored_bytes(Envelope("c", rest=written.encode())) - OVERHEAD_BYTES
    assert len(text.encode()) + 2 <= weighed <= len(written.encode())
    if "\\" not in text:
        assert weighed == len(text.encode()) + 2


def test_only_large_pods_count_as_written() -> None:
    action = Create("super", PODS, PLACE, {})
    small = Envelope("p", "shop", spec=b"x" * 1000, status=b"x" * 1000)
    assert demand_of(KINDS["pods"], action, small, None) == Demand(OVERHEAD_BYTES + 1000, 0)
    huge = Envelope("p", "shop", spec=b"x" * 10**6)
    assert demand_of(KINDS["pods"], action, huge, None).written == OVERHEAD_BYTES + 10**6 - FREE_POD_BYTES


def test_annotations_count_by_bytes() -> None:
    plain, wide = (
        stored_bytes(Envelope("c", annotations={"a": letter * 100})) for letter in ("x", "\U0001f600")
    )
    assert wide - plain == 300


def test_namespaces_count_in_themselves() -> None:
    action = Create("super", NAMESPACES, "", {})
    namespace = Envelope("shop", annotations={"a": "x" * 99})
    assert demand_of(KINDS["namespaces"], action, namespace, None) == Demand(
        OVERHEAD_BYTES + 100, OVERHEAD_BYTES + 100
    )


def test_caches_count_the_bytes_of_a_namespace() -> None:
    here = SuperCaches(
        PaperApi("r1"),  # type: ignore[arg-type]
        KINDS,
        enqueue=lambda *_: None,
        wake=lambda *_: None,
        on_node=lambda _: None,
    )

    def stands(name: str, version: str, size: int) -> Envelope:
        return Envelope(
            name,
            PLACE,
            name,
            version,
            rest=b"x" * size,
            labels={names.CONTROLLED: names.TRUE},
        )

    first, second = stands("a", "1", 100), stands("b", "2", 50)
    here.reflectors[CONFIG_MAPS].observe(first)
    here.reflectors[SECRETS].observe(second)
    here.reflectors[RESOURCE_QUOTAS].observe(stands("q", "3", 50))
    assert here.bytes_in(PLACE) == stored_bytes(first) + stored_bytes(second) > 2 * OVERHEAD_BYTES + 150
    here.reflectors[CONFIG_MAPS].observe(stands("a", "4", 100))
    assert here.bytes_in(PLACE) == stored_bytes(first) + stored_bytes(second)
    here.reflectors[CONFIG_MAPS].observe(stands("a", "5", 10))
    assert here.bytes_in(PLACE) == stored_bytes(first) + stored_bytes(second) - 90
    here.reflectors[CONFIG_MAPS].observe_gone(PLACE, "a", "a")
    here.reflectors[SECRETS].observe_gone(PLACE, "b", "b")
    assert here.bytes_in(PLACE) == 0
    itself = Envelope(PLACE, "", "n", "5", labels={names.CONTROLLED: names.TRUE})
    here.reflectors[NAMESPACES].observe(itself)
    assert here.bytes_in(PLACE) == stored_bytes(itself)

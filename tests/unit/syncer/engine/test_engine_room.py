"""What a tenant's namespaces may write into a super cluster, in bytes."""

from __future__ import annotations

import json

import pytest
from engine_paper import PaperApi
from hypothesis import given
from hypothesis import strategies as st

from vcsync.api import names
from vcsync.kube.envelope import Envelope
from vcsync.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, RESOURCE_QUOTAS, SECRETS
from vcsync.syncer.caches import SuperCaches
from vcsync.syncer.kinds import KINDS
from vcsync.syncer.kinds.plan import Action, Bind, Create, Delete, Patch
from vcsync.syncer.room import (
    NOTHING,
    OVERHEAD,
    PAUSE,
    PERIOD,
    POD_FREE,
    TIMES,
    Demand,
    NoRoom,
    Room,
    TooFast,
    demand_of,
    weight,
)

PLACE = "t-shop"
MAPS = KINDS["configmaps"]


class Yard:
    """A room, what it holds and its clock."""

    def __init__(self, whole: int = 1000) -> None:
        self.held, self.whole, self.now = 0, whole, 0.0
        self.room = Room(held=lambda _: self.held, whole=lambda: self.whole, clock=lambda: self.now)

    def write(self, written: int, growth: int = 0, room: int = 1000) -> None:
        with self.room.taking(PLACE, room, Demand(growth, written)):
            self.held += growth


def test_what_grows_beyond_the_room_is_refused_with_what_is_taken() -> None:
    yard = Yard(8 << 20)
    yard.write(3 << 20, 3 << 20, room=4 << 20)
    with pytest.raises(NoRoom, match=r"take 3.0 MiB of the 4.0 MiB .* this would take 1.5 MiB more"):
        yard.write(3 << 19, 3 << 19, room=4 << 20)
    yard.write(1 << 20, 1 << 20, room=4 << 20)


def test_who_has_too_much_already_may_write_what_does_not_grow() -> None:
    yard = Yard()
    yard.held = 5000
    yard.write(100)
    with pytest.raises(NoRoom):
        yard.write(100, 1)


def test_two_at_a_time_do_not_get_the_same_room() -> None:
    yard = Yard()
    with yard.room.taking(PLACE, 1000, Demand(600, 1)):
        with pytest.raises(NoRoom):
            yard.write(1, 600)
        with yard.room.taking("t-other", 1000, Demand(600, 1)):
            pass
    yard.write(1, 600)


def test_a_write_that_fails_leaves_the_room_to_others() -> None:
    yard = Yard()
    with pytest.raises(OSError, match="cut"), yard.room.taking(PLACE, 1000, Demand(1000, 1)):
        raise OSError("cut")
    yard.write(1, 1000)


def test_the_same_may_be_written_over_only_as_often_as_it_is_cleared_away() -> None:
    yard = Yard()
    for _ in range(10 * TIMES):
        yard.write(100)
    with pytest.raises(TooFast) as refused:
        yard.write(100)
    assert refused.value.after == pytest.approx(PERIOD / (10 * TIMES))
    yard.now += refused.value.after
    yard.write(100)


def test_small_writes_that_wait_are_not_tried_again_all_the_time() -> None:
    yard = Yard()
    yard.write(1000 * TIMES)
    with pytest.raises(TooFast) as refused:
        yard.write(1)
    assert refused.value.after == PAUSE


def test_one_that_is_larger_than_the_room_is_written_when_nothing_else_was() -> None:
    yard = Yard()
    yard.write(5000)
    with pytest.raises(TooFast):
        yard.write(1)
    yard.now += 5 * PERIOD
    yard.write(5000)


@given(
    steps=st.lists(
        st.tuples(st.floats(0, 400, allow_nan=False), st.integers(1, 900)), min_size=1, max_size=60
    )
)
def test_no_more_is_written_than_the_room_at_once_and_again_in_each_period(
    steps: list[tuple[float, int]],
) -> None:
    yard, written = Yard(), 0
    for pause, size in steps:
        yard.now += pause
        try:
            yard.write(size)
        except TooFast as refused:
            yard.now += refused.after + 1e-6
            yard.write(size)
        written += size
        assert written <= 1000 * TIMES * (1 + yard.now / PERIOD) + 1


def config(data: str, *, annotations: dict[str, str] | None = None, **meta: str) -> Envelope:
    return Envelope("c", "shop", rest=data.encode(), annotations=annotations or {}, **meta)  # type: ignore[arg-type]


def create(body_of: str = "super") -> Create:
    return Create(body_of, CONFIG_MAPS, PLACE, {})  # type: ignore[arg-type]


def patch(**metadata: object) -> Patch:
    return Patch("super", CONFIG_MAPS, PLACE, "c", "u", {"metadata": metadata, "data": {}})


@pytest.mark.parametrize(
    ("action", "v", "p", "demand"),
    [
        (create(), config("x" * 100), None, Demand(OVERHEAD + 100, OVERHEAD + 100)),
        (patch(), config("x" * 100), config("x" * 70), Demand(30, OVERHEAD + 100)),
        (patch(), config("x" * 70), config("x" * 100), Demand(0, OVERHEAD + 100)),
        (
            patch(annotations={"a": "12345", "b": None}),
            config("x"),
            config("x", annotations={"a": "1", "b": "2"}),
            Demand(3, OVERHEAD + 5),
        ),
        (patch(labels={"l": "123"}), config("x"), config("x"), Demand(3, OVERHEAD + 1)),
        (patch(), None, config("x"), NOTHING),
        (create("tenant"), config("x"), None, NOTHING),
        (Delete("super", CONFIG_MAPS, PLACE, "c", "u"), config("x"), config("x"), NOTHING),
        (Create("super", SECRETS, PLACE, {}), config("x"), None, NOTHING),
        (Bind("shop", "p", "u", "n"), config("x"), None, NOTHING),
    ],
)
def test_what_a_write_asks_for(
    action: Action, v: Envelope | None, p: Envelope | None, demand: Demand
) -> None:
    assert demand_of(MAPS, action, v, p) == demand


@given(text=st.text(st.sampled_from("<\\u003cx\x01\u00e9")))
def test_escapes_weigh_what_they_stand_for_and_nobody_makes_text_weigh_less(text: str) -> None:
    written = json.dumps(text, ensure_ascii=False).replace("<", "\\u003c")
    weighed = weight(Envelope("c", rest=written.encode())) - OVERHEAD
    assert len(text.encode()) + 2 <= weighed <= len(written.encode())
    if "\\" not in text:
        assert weighed == len(text.encode()) + 2


def test_pods_wear_only_what_makes_them_huge() -> None:
    action = Create("super", PODS, PLACE, {})
    small = Envelope("p", "shop", spec=b"x" * 1000, status=b"x" * 1000)
    assert demand_of(KINDS["pods"], action, small, None) == Demand(OVERHEAD + 1000, 0)
    huge = Envelope("p", "shop", spec=b"x" * 10**6)
    assert demand_of(KINDS["pods"], action, huge, None).written == OVERHEAD + 10**6 - POD_FREE


def test_annotations_weigh_their_bytes_not_their_characters() -> None:
    plain, wide = (weight(Envelope("c", annotations={"a": letter * 100})) for letter in ("x", "\U0001f600"))
    assert wide - plain == 300


def test_namespaces_ask_for_room_in_themselves() -> None:
    action = Create("super", NAMESPACES, "", {})
    namespace = Envelope("shop", annotations={"a": "x" * 99})
    assert demand_of(KINDS["namespaces"], action, namespace, None) == Demand(OVERHEAD + 100, OVERHEAD + 100)


def test_caches_know_what_a_namespace_holds() -> None:
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
    assert here.bytes_in(PLACE) == weight(first) + weight(second) > 2 * OVERHEAD + 150
    here.reflectors[CONFIG_MAPS].observe(stands("a", "4", 100))
    assert here.bytes_in(PLACE) == weight(first) + weight(second)
    here.reflectors[CONFIG_MAPS].observe(stands("a", "5", 10))
    assert here.bytes_in(PLACE) == weight(first) + weight(second) - 90
    here.reflectors[CONFIG_MAPS].observe_gone(PLACE, "a", "a")
    here.reflectors[SECRETS].observe_gone(PLACE, "b", "b")
    assert here.bytes_in(PLACE) == 0
    itself = Envelope(PLACE, "", "n", "5", labels={names.CONTROLLED: names.TRUE})
    here.reflectors[NAMESPACES].observe(itself)
    assert here.bytes_in(PLACE) == weight(itself)

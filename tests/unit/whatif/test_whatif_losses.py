"""The failure machine on a snapshot: which super clusters of a question are lost, and whether anything may move."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from whatif_pools import super_cluster

from vcsync.tenancy.failure import PATIENCE, Patience
from vcsync.whatif.losses import lose, lost_for, nothing_moves

GONE = int(PATIENCE.lost_after)


def pool(*states):
    """A pool of super clusters r1, r2, ... with (health, seconds out of touch)."""
    return tuple(
        replace(super_cluster(f"r{number}"), health=health, out_of_touch_seconds=seconds)
        for number, (health, seconds) in enumerate(states, 1)
    )


READY, UNREADY, SILENT = ("Ready", None), ("Suspect", None), ("Suspect", 100)
LOST, LOST_LONG, HELD = ("Lost", 400), ("Lost", None), ("Suspect", 400)
UNKNOWN = ("Unknown", None)


@pytest.mark.parametrize(
    ("states", "held"),
    [
        ((READY,), False),
        ((LOST,), False),
        ((SILENT,), True),
        ((READY, SILENT), False),
        ((READY, SILENT, SILENT), True),
        ((READY, HELD, HELD), True),
        ((READY, LOST, LOST), False),
        ((READY, UNREADY, UNREADY), False),
        ((SILENT, LOST_LONG, LOST_LONG), True),
        ((READY, READY, LOST_LONG), False),
        ((UNKNOWN, UNKNOWN, READY, LOST), False),
    ],
)
def test_nothing_moves_while_most_of_what_is_not_lost_is_out_of_touch(states, held):
    assert nothing_moves(pool(*states)) is held


@pytest.mark.parametrize(
    ("states", "gone", "health"),
    [
        ((READY,), ("r1",), ["Lost"]),
        ((READY, READY), ("r1",), ["Lost", "Ready"]),
        ((READY, READY), ("r1", "r2"), ["Suspect", "Suspect"]),
        ((READY, READY, READY, READY), ("r1", "r2"), ["Lost", "Lost", "Ready", "Ready"]),
        ((UNREADY, READY, READY), ("r1",), ["Lost", "Ready", "Ready"]),
        ((UNKNOWN, READY, READY), ("r1",), ["Lost", "Ready", "Ready"]),
        ((LOST, READY, READY), ("r2",), ["Lost", "Lost", "Ready"]),
        ((LOST_LONG, READY, READY), ("r2",), ["Lost", "Lost", "Ready"]),
        ((SILENT, READY, READY), ("r2",), ["Suspect", "Suspect", "Ready"]),
        ((LOST, READY), ("r1",), ["Lost", "Ready"]),
    ],
)
def test_those_that_vanish_are_lost_unless_they_are_most_of_the_pool(states, gone, health):
    found = lose(pool(*states), gone, ())
    assert [each.health for each in found] == health
    assert {each.out_of_touch_seconds for each in found if each.id in gone} <= {GONE, 401 + GONE}


def test_a_fence_is_noted():
    found = lose(pool(READY, READY, LOST), (), ("r1", "r3"))
    assert [(each.health, each.fenced) for each in found] == [
        ("Lost", True),
        ("Ready", False),
        ("Lost", True),
    ]


def test_the_time_of_a_loss_begins_when_it_counts_as_lost():
    [lost, long_ago] = pool(LOST, LOST_LONG)
    assert lost_for(lost) == 400 - PATIENCE.lost_after
    assert lost_for(long_ago) == lost_for(replace(lost, fenced=True)) == float("inf")


@pytest.mark.parametrize("patience", [Patience(10, 60), Patience(75, 1800)])
def test_the_limits_of_silence_are_those_of_the_schedulers(patience):
    [gone, long_ago, *_] = lose(pool(READY, LOST, READY, READY), ("r1",), (), patience)
    assert (gone.health, gone.out_of_touch_seconds) == ("Lost", int(patience.lost_after))
    assert lost_for(gone, patience) == 0
    assert lost_for(long_ago, patience) == 400 + 1
    assert gone.reason == f"no heartbeat for {'60s' if patience.lost_after == 60 else '30m'}"


@given(
    st.lists(st.sampled_from([READY, UNREADY, SILENT, LOST, LOST_LONG, UNKNOWN]), min_size=1, max_size=6),
    st.sets(st.sampled_from([f"r{number}" for number in range(1, 7)]), min_size=1),
)
def test_those_that_stay_keep_their_health_and_a_held_pool_moves_nothing(states, gone):
    before = pool(*states)
    after = lose(before, gone, ())
    for old, new in zip(before, after, strict=True):
        if new.id not in gone:
            assert (new.health, new.fenced) == (old.health, old.fenced)
        elif new.health != "Lost":
            assert new.health == "Suspect"
            assert nothing_moves(after)

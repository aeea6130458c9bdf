"""Moves that make the pool better: what they promise on any pool, and what they do on pools that people know."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from vcsync.scheduling.ledger import Entry, Ledger
from vcsync.scheduling.rebalance import Board, Move, rebalance, returning, takes_part
from vcsync.scheduling.resources import times
from vcsync.scheduling.scores import FULL, POLICIES
from vcsync.scheduling.snapshot import Health, SuperView, Taint

SIZE = {"cpu": 1000, "memory": 1000}


def view(super_id, slices=10, **fields):
    fields.setdefault("health", Health.READY)
    return SuperView(super_id, capacity=times(SIZE, slices), **fields)


def pool(*views):
    return {each.id: each for each in views}


def entry(**placements):
    return Entry(SIZE, placements)


def key(name):
    return "k-acme", name


def solve(views, entries, *, policy="spread", budget=100, stay=None, away=None, supers=()):
    """Return the result for namespaces by name."""
    named = {key(name): each for name, each in entries.items()}
    movable = {each: (stay or {}).get(each[1], {}) for each in named}
    gone = {key(name): each for name, each in (away or {}).items()}
    return rebalance(Board(views, named, policy, supers), movable, budget, gone)


def shown(found):
    return [(move.key[1], move.source, move.target, move.slices) for move in found.moves]


# What people know


def test_an_empty_super_cluster_gets_slices_of_full_ones():
    entries = {f"n{number}": entry(r1=1, r2=1) for number in range(6)}
    found = solve(pool(view("r1"), view("r2"), view("r3")), entries)
    moved = sum(move.slices for move in found.moves)
    assert {move.target for move in found.moves} == {"r3"}
    assert moved == 4
    assert found.before.balance == FULL - 400_000
    assert found.after == replace(found.after, total=FULL, balance=FULL, grouping=FULL)


def test_a_pool_that_is_even_moves_nothing():
    found = solve(pool(view("r1"), view("r2")), {"shop": entry(r1=2, r2=2), "web": entry(r1=1, r2=1)})
    assert found.moves == ()
    assert found.before == found.after


def test_use_counts_by_capacity_rather_than_by_slices():
    found = solve(pool(view("r1", 20), view("r2", 10)), {f"n{number}": entry(r1=1) for number in range(6)})
    assert sum(move.slices for move in found.moves) == 2


def test_spread_takes_the_slices_of_a_namespace_apart_and_pack_puts_them_together():
    views = pool(view("r1"), view("r2"))
    apart, together = {"shop": entry(r1=4)}, {"shop": entry(r1=3, r2=1), "web": entry(r2=4)}
    assert shown(solve(views, apart)) == [("shop", "r1", "r2", 2)]
    assert shown(solve(views, together, policy="pack")) == [("shop", "r2", "r1", 1)]


def test_pack_moves_whole_namespaces_to_an_empty_super_cluster():
    entries = {f"n{number}": entry(r1=2) for number in range(4)}
    found = solve(pool(view("r1"), view("r2")), entries, policy="pack")
    assert shown(found) == [("n0", "r1", "r2", 2), ("n1", "r1", "r2", 2)]
    assert found.after.grouping == FULL


def test_cheap_gives_up_balance_for_a_price_that_saves_more():
    dear, cheap = view("r1", price={"cpu": 40_000}), view("r2", price={"cpu": 10_000})
    assert shown(solve(pool(dear, cheap), {"shop": entry(r1=1, r2=1)}, policy="cheap")) == [
        ("shop", "r1", "r2", 1)
    ]
    assert not solve(pool(dear, replace(dear, id="r2")), {"shop": entry(r1=1, r2=1)}, policy="cheap").moves


def test_the_budget_bounds_the_moved_slices_and_the_next_run_goes_on():
    entries = {f"n{number}": entry(r1=1) for number in range(8)}
    views = pool(view("r1"), view("r2"))
    assert sum(move.slices for move in solve(views, entries, budget=3).moves) == 3
    assert sum(move.slices for move in solve(views, entries, budget=0).moves) == 0


def test_only_the_named_super_clusters_have_a_part():
    entries = {f"n{number}": entry(r1=1) for number in range(6)}
    found = solve(pool(view("r1"), view("r2"), view("r3")), entries, supers=("r1", "r3"))
    assert {(move.source, move.target) for move in found.moves} == {("r1", "r3")}


@pytest.mark.parametrize(
    "fields",
    [
        {"health": Health.LOST},
        {"health": Health.SUSPECT},
        {"health": Health.RECOVERING},
        {"health": Health.UNKNOWN},
        {"cordoned": True},
        {"draining": True},
        {"fenced": True},
        {"taints": (Taint("a"),)},
        {"taints": (Taint("a", effect="PreferNoSchedule"),)},
    ],
    ids=str,
)
def test_a_super_cluster_that_takes_no_new_slices_neither_gets_nor_gives_any(fields):
    full, empty = {"shop": entry(r1=4)}, {"shop": entry(r2=4)}
    views = pool(view("r1"), view("r2", **fields))
    assert takes_part(views["r1"])
    assert not takes_part(views["r2"])
    assert solve(views, full).moves == solve(views, empty).moves == ()


def test_slices_that_must_stay_are_left():
    views = pool(view("r1"), view("r2"))
    assert shown(solve(views, {"shop": entry(r1=4)}, stay={"shop": {"r1": 3}})) == [("shop", "r1", "r2", 1)]
    assert solve(views, {"shop": entry(r1=4)}, stay={"shop": {"r1": 4}}).moves == ()


def test_what_is_being_cleared_holds_its_room():
    held = {key("old"): Entry(SIZE, {}, {"r2": times(SIZE, 10)}), key("shop"): entry(r1=4)}
    board = Board(pool(view("r1"), view("r2")), held, "spread")
    assert rebalance(board, {key("shop"): {}}, 10).moves == ()


def test_a_namespace_that_may_not_move_counts_and_stays():
    views = pool(view("r1"), view("r2"))
    entries = {key("fixed"): entry(r1=6), key("shop"): entry(r1=1)}
    found = rebalance(Board(views, entries, "spread"), {key("shop"): {}}, 10)
    assert [move.key for move in found.moves] == [key("shop")]


def test_slices_larger_than_the_largest_node_do_not_go_there():
    small = replace(view("r2"), largest_node={"cpu": 500, "memory": 500})
    assert solve(pool(view("r1"), small), {"shop": entry(r1=4)}).moves == ()


# Back after a loss


def test_slices_go_back_where_they_were_as_long_as_that_is_no_worse():
    views = pool(view("r1"), view("r2"))
    entries = {"shop": entry(r2=1), "web": entry(r1=1)}
    assert shown(solve(views, entries, away={"shop": {"r1": 1}})) == []
    even = {"shop": entry(r2=2), "web": entry(r1=1, r2=1)}
    assert shown(solve(views, even, away={"shop": {"r1": 1}})) == [("shop", "r2", "r1", 1)]


def test_slices_go_back_within_the_budget_and_no_more_than_have_left():
    views = pool(view("r1"), view("r2"))
    entries = {key(f"n{number}"): entry(r2=2) for number in range(4)}
    away = {each: {"r1": 1} for each in entries}
    board = Board(views, entries, "spread")
    moves = returning(board, {each: {} for each in entries}, 3, away)
    assert [(move.source, move.target, move.slices) for move in moves] == [("r2", "r1", 1)] * 3


@pytest.mark.parametrize(
    ("move", "reason"),
    [
        (Move(key("shop"), "r1", "r2", 1), ""),
        (Move(key("shop"), "r1", "r2", 3), "r1 has fewer slices of the namespace by now"),
        (Move(key("gone"), "r1", "r2", 1), "r1 has fewer slices of the namespace by now"),
        (Move(key("shop"), "r1", "r3", 1), "r3 takes no new slices"),
        (Move(key("shop"), "r1", "r4", 2), "r4 has no room for 2 slices"),
    ],
)
def test_a_move_that_cannot_be_made_says_why(move, reason):
    views = pool(view("r1"), view("r2"), view("r3", cordoned=True), view("r4", 1))
    assert Board(views, {key("shop"): entry(r1=2)}, "spread").refuses(move) == reason


# What holds on any pool

IDS = ("r1", "r2", "r3", "r4")
SIZES = (SIZE, {"cpu": 500, "memory": 2000}, {"cpu": 2000, "memory": 500})


@st.composite
def situations(draw):
    views = {
        super_id: view(
            super_id,
            draw(st.integers(0, 12)),
            health=draw(st.sampled_from([Health.READY, Health.READY, Health.READY, *Health])),
            cordoned=draw(st.integers(0, 9)) == 0,
            draining=draw(st.integers(0, 9)) == 0,
            fenced=draw(st.integers(0, 9)) == 0,
            price={"cpu": draw(st.sampled_from([0, 10_000, 40_000]))},
        )
        for super_id in draw(st.lists(st.sampled_from(IDS), min_size=1, unique=True))
    }
    few = st.dictionaries(st.sampled_from(IDS), st.integers(1, 3), max_size=3)
    amounts = st.fixed_dictionaries({"cpu": st.integers(1, 3000), "memory": st.integers(1, 3000)})
    entries = {
        key(f"n{number}"): Entry(
            draw(st.sampled_from(SIZES)),
            draw(few),
            draw(st.dictionaries(st.sampled_from(IDS), amounts, max_size=1)),
        )
        for number in range(draw(st.integers(0, 7)))
    }
    movable = {each: draw(few) for each in entries if draw(st.booleans())}
    away = {each: draw(few) for each in entries if draw(st.integers(0, 3)) == 0}
    return views, entries, movable, draw(st.sampled_from(sorted(POLICIES))), draw(st.integers(0, 12)), away


def after(entries, moves):
    """Return the placements when the moves have been made."""
    placed = {each: dict(found.placements) for each, found in entries.items()}
    for move in moves:
        placed[move.key][move.source] -= move.slices
        placed[move.key][move.target] = placed[move.key].get(move.target, 0) + move.slices
    return placed


@given(situations())
def test_moves_keep_all_promises(situation):
    views, entries, movable, policy, budget, away = situation
    found = rebalance(Board(views, entries, policy), movable, budget)
    placed = after(entries, found.moves)

    assert found.after.total > found.before.total if found.moves else found.after == found.before
    assert sum(move.slices for move in found.moves) <= budget
    for move in found.moves:
        assert move.slices > 0
        assert move.key in movable
        assert takes_part(views[move.target])
        assert takes_part(views[move.source])
    for each in entries:
        assert sum(placed[each].values()) == sum(entries[each].placements.values())
        assert min(placed[each].values(), default=0) >= 0
        for super_id, slices in movable.get(each, {}).items():
            had = entries[each].placements.get(super_id, 0)
            assert placed[each].get(super_id, 0) >= min(had, slices)

    # Never over capacity, even while all that has moved is still held where it was.
    ledger = Ledger()
    for each, stored in entries.items():
        ledger.put(each, stored)
    for super_id in {move.target for move in found.moves}:
        held = ledger.allocated(super_id)
        for move in found.moves:
            if move.target == super_id:
                for name, amount in times(entries[move.key].size, move.slices).items():
                    held[name] = held.get(name, 0) + amount
        assert all(held.get(name, 0) <= amount for name, amount in views[super_id].capacity.items())

    # The score that is shown is the score of what the moves lead to.
    moved = {each: replace(entries[each], placements=placed[each]) for each in entries}
    assert Board(views, moved, policy).score() == found.after

    with_returns = rebalance(Board(views, entries, policy), movable, budget, away)
    assert with_returns.after.total >= with_returns.before.total
    assert sum(move.slices for move in with_returns.moves) <= budget


@given(situations(), st.randoms(use_true_random=False))
def test_the_order_in_which_the_pool_is_given_has_no_effect(situation, chance):
    views, entries, movable, policy, budget, away = situation

    def shuffled(mapping):
        items = list(mapping.items())
        chance.shuffle(items)
        return dict(items)

    found = rebalance(Board(views, entries, policy), movable, budget, away)
    again = rebalance(
        Board(shuffled(views), shuffled(entries), policy), shuffled(movable), budget, shuffled(away)
    )
    assert again == found


@given(situations())
def test_a_rebalanced_pool_moves_nothing(situation):
    views, entries, movable, policy, _, _ = situation
    for _ in range(60):
        found = rebalance(Board(views, entries, policy), movable, 1000)
        if not found.moves:
            break
        placed = after(entries, found.moves)
        entries = {
            each: replace(
                entries[each],
                placements={super_id: slices for super_id, slices in placed[each].items() if slices},
            )
            for each in entries
        }
    assert rebalance(Board(views, entries, policy), movable, 1000).moves == ()

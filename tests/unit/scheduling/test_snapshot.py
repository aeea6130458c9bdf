import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.scheduling.ledger import Entry, Ledger
from vcsync.scheduling.snapshot import InvalidHeadroom, distributable


@pytest.mark.parametrize(
    ("headroom", "capacity"),
    [
        ({}, {"cpu": 4000, "memory": 1001}),
        ({"cpu": "10%"}, {"cpu": 3600, "memory": 1001}),
        ({"memory": "10%"}, {"cpu": 4000, "memory": 900}),
        ({"cpu": "500m", "gpu": "1"}, {"cpu": 3500, "memory": 1001}),
        ({"cpu": "9"}, {"cpu": 0, "memory": 1001}),
        ({"cpu": "100%"}, {"cpu": 0, "memory": 1001}),
    ],
)
def test_headroom_is_subtracted(headroom, capacity):
    assert distributable({"cpu": 4000, "memory": 1001}, headroom, {}) == capacity


def test_overcommit_multiplies_the_amounts_without_headroom():
    allocatable = {"cpu": 4000, "pods": 110_000}
    dealt = distributable(allocatable, {"pods": "10"}, {"pods": "250%"})
    assert dealt == {"cpu": 4000, "pods": 250_000}


@pytest.mark.parametrize("text", ["x%", "much", "-1", "-5%"])
def test_bad_headroom_names_the_field(text):
    with pytest.raises(InvalidHeadroom, match=r"spec.headroom.cpu"):
        distributable({"cpu": 4000}, {"cpu": text}, {})


entries = st.builds(
    Entry,
    size=st.fixed_dictionaries({"cpu": st.integers(1, 9)}, optional={"memory": st.integers(1, 9)}),
    placements=st.dictionaries(st.sampled_from(["r1", "r2", "r3"]), st.integers(0, 9)),
    clearing=st.dictionaries(
        st.sampled_from(["r1", "r2", "r3"]), st.fixed_dictionaries({"cpu": st.integers(0, 9)})
    ),
)
keys = st.tuples(st.sampled_from(["t1", "t2"]), st.sampled_from(["a", "b", "c"]))


@given(st.lists(st.tuples(keys, entries | st.none()), max_size=20))
def test_the_ledgers_sums_are_those_of_its_entries(changes):
    ledger, model = Ledger(), {}
    for key, entry in changes:
        if entry is None:
            assert ledger.drop(key) == (key in model)
            model.pop(key, None)
        else:
            assert ledger.put(key, entry) == (model.get(key) != entry)
            model[key] = entry
    assert len(ledger) == len(model)
    for left_out in (None, *model):
        others = {key: entry for key, entry in model.items() if key != left_out}
        for super_id in ("r1", "r2", "r3"):
            total = sum(
                entry.placements.get(super_id, 0) * entry.size["cpu"]
                + entry.clearing.get(super_id, {"cpu": 0})["cpu"]
                for entry in others.values()
            )
            assert ledger.allocated(super_id, without=left_out).get("cpu", 0) == total
        for tenant in ("t1", "t2"):
            used = sum(
                sum(entry.placements.values()) * entry.size.get("memory", 0)
                for key, entry in others.items()
                if key[0] == tenant
            )
            assert ledger.used_by(tenant, without=left_out).get("memory", 0) == used
            clearing = sum(
                amounts["cpu"]
                for key, entry in others.items()
                if key[0] == tenant
                for amounts in entry.clearing.values()
            )
            assert ledger.cleared_by(tenant, without=left_out).get("cpu", 0) == clearing

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vcsync.scheduling.objects import dealt, slice_objects, whole_of
from vcsync.scheduling.resources import from_quantities, times
from vcsync.scheduling.slices import DEFAULT_SLICE, MAX_SLICES, OBJECTS, slices_for

MI = 1024 * 1024 * 1000
DEFAULT = from_quantities(DEFAULT_SLICE)
COMPUTE = {"cpu": 2000, "memory": 4096 * MI}


def wholes(quota, size=COMPUTE, *references):
    """Return how many objects of each kind a namespace has with slices of a size."""
    slices = slices_for(quota, size)
    found = slice_objects(quota, size, slices, *(references or (DEFAULT,)))
    return {name: whole_of(amount, slices) for name, amount in found.items()}


@pytest.mark.parametrize(
    ("quota", "size", "balancers"),
    [
        pytest.param({"cpu": 2000, "memory": 4096 * MI}, COMPUTE, 5, id="one slice"),
        pytest.param({"cpu": 500, "memory": 512 * MI}, COMPUTE, 5, id="less than one slice"),
        pytest.param({"cpu": 2000, "memory": 8192 * MI}, COMPUTE, 10, id="two slices because of the memory"),
        pytest.param({"cpu": 8000}, COMPUTE, 20, id="no quota of memory"),
        pytest.param(
            {"cpu": 8000, "memory": 16384 * MI}, {"cpu": 8, "memory": 17_179_870_000}, 20, id="tiny slices"
        ),
        pytest.param({"cpu": 8000, "memory": 16384 * MI}, {"cpu": 500, "memory": 1024 * MI}, 20, id="small"),
        pytest.param({"cpu": 8000, "memory": 16384 * MI}, {"cpu": 8, "memory": 16384 * MI}, 20, id="uneven"),
        pytest.param({"cpu": 500, "memory": 512 * MI}, {"cpu": 500, "memory": 512 * MI}, 1, id="one small"),
        pytest.param({"cpu": 2, "memory": 4 * MI}, {"cpu": 1, "memory": MI}, 1, id="never none"),
    ],
)
def test_a_namespace_has_objects_in_proportion_to_its_quota_whatever_slices_it_chooses(
    quota, size, balancers
):
    assert wholes(quota, size)["services.loadbalancers"] == balancers


def test_slices_of_the_operators_size_have_whole_numbers() -> None:
    found = slice_objects({"cpu": 6000, "memory": 4096 * MI}, COMPUTE, 3, DEFAULT)
    assert found == {name: amount for name, amount in DEFAULT.items() if name in OBJECTS}


def test_the_tenants_own_slice_takes_precedence_for_objects() -> None:
    own = {"cpu": 1000, "memory": 2048 * MI, "services": 7000}
    common = DEFAULT | {"services": 100_000, "secrets": 10_000, "gpu": 1000}
    found = slice_objects(COMPUTE, {"cpu": 1000, "memory": 2048 * MI}, 2, own, common)
    assert (found["services"], found["secrets"], "gpu" in found) == (7000, 5000, False)
    assert slice_objects(COMPUTE, COMPUTE, 1, COMPUTE) == {}


sizes = st.builds(
    lambda cpu, memory: {"cpu": cpu, "memory": memory * MI}, st.integers(1, 64_000), st.integers(1, 2**17)
)


@given(sizes, sizes)
def test_no_size_of_slices_gives_a_namespace_more_objects(quota, size):
    assume(max(slices_for(quota, size), slices_for(quota, COMPUTE)) <= MAX_SLICES)
    usual, found = wholes(quota), wholes(quota, size)
    assert all(1 <= found[name] <= usual[name] for name in usual)


@given(sizes, sizes, st.integers(1, 5))
def test_a_larger_quota_gives_no_fewer_objects(quota, size, factor):
    assume(slices_for(times(quota, factor), size) <= MAX_SLICES)
    small, large = wholes(quota, size), wholes(times(quota, factor), size)
    assert all(small[name] <= large[name] for name in small)


@given(st.integers(1, 10**12), st.integers(1, 1000))
def test_what_slices_stand_for_adds_up_to_the_whole(whole, slices):
    amount = -(-whole * 1000 // slices)
    assert whole_of(amount, slices) == whole


@pytest.mark.parametrize(
    ("whole", "placements", "waiting", "found"),
    [
        pytest.param(10, {"r1": 1, "r2": 1}, 0, {"r1": 5, "r2": 5}, id="even"),
        pytest.param(5, {"r1": 500, "r2": 500}, 0, {"r1": 3, "r2": 2}, id="the odd one to the first"),
        pytest.param(1, {"r1": 1, "r2": 2}, 0, {"r1": 0, "r2": 1}, id="the only one to the larger"),
        pytest.param(
            5, {"r1": 1, "r2": 1, "r3": 998}, 0, {"r1": 0, "r2": 0, "r3": 5}, id="none to small ones"
        ),
        pytest.param(20, {"r1": 1}, 3, {"r1": 5}, id="what waits keeps its share back"),
        pytest.param(5, {"r1": 1}, 1, {"r1": 3}, id="the odd one to what is placed"),
        pytest.param(5, {}, 4, {}, id="nothing is placed"),
        pytest.param(5, {}, 0, {}, id="there is nothing"),
        pytest.param(0, {"r1": 1}, 0, {"r1": 0}, id="no objects"),
    ],
)
def test_objects_are_distributed_like_slices(whole, placements, waiting, found):
    assert dealt(whole, placements, waiting) == found


placed = st.dictionaries(st.sampled_from(["r1", "r2", "r3", "r4", "r5"]), st.integers(1, 300), min_size=1)
wholes_dealt = st.one_of(st.integers(0, 50), st.integers(0, 10**12))


@given(wholes_dealt, placed, st.integers(0, 500))
def test_all_super_clusters_together_have_the_whole_and_each_its_share_at_least(whole, placements, waiting):
    found, total = dealt(whole, placements, waiting), sum(placements.values()) + waiting
    assert found.keys() == placements.keys()
    assert sum(found.values()) <= whole
    assert waiting or sum(found.values()) == whole
    assert all(found[each] >= whole * slices // total for each, slices in placements.items())


@given(wholes_dealt, placed, st.integers(0, 500))
def test_a_larger_whole_takes_no_object_away(whole, placements, waiting):
    less, more = dealt(whole, placements, waiting), dealt(whole + 1, placements, waiting)
    assert all(less[each] <= more[each] <= less[each] + 1 for each in placements)


@given(wholes_dealt, placed, st.integers(1, 300), st.data())
def test_placed_slices_take_no_object_away_from_their_super_cluster(whole, placements, more, data):
    each = data.draw(st.sampled_from(sorted(placements)))
    before = dealt(whole, placements, more)
    after = dealt(whole, placements | {each: placements[each] + more})
    assert before[each] <= after[each]


@given(st.integers(0, 10**6), placed)
def test_whole_numbers_for_each_slice_never_leave_their_slices(objects, placements):
    """So nothing changes for slices of the operator's size, wherever others go."""
    found = dealt(objects * sum(placements.values()), placements)
    assert found == {each: objects * slices for each, slices in placements.items()}


@given(st.integers(1, 50), placed, st.integers(1, 5))
def test_the_order_of_super_clusters_and_a_common_factor_do_not_matter(whole, placements, factor):
    found = dealt(whole, placements)
    assert dealt(whole, dict(reversed(placements.items()))) == found
    assert dealt(whole, {each: slices * factor for each, slices in placements.items()}) == found

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.scheduling.resources import show, times
from vcsync.scheduling.slices import (
    FEW_SLICES,
    MAX_SLICES,
    InvalidQuota,
    InvalidSlice,
    enlargement,
    proportional_pods,
    quota_from_hards,
    slice_count,
    slice_from_annotation,
    slice_pods,
    slices_for,
    whole_pods,
)

MI = 1024 * 1024 * 1000  # thousandths of bytes in a MiB
DEFAULT = {"cpu": 2000, "memory": 4096 * MI}


@pytest.mark.parametrize(
    ("hards", "quota"),
    [
        pytest.param([], {}, id="no quota"),
        pytest.param([{"pods": "10"}], {}, id="no compute in it"),
        pytest.param([{"cpu": "200m", "memory": "200Mi"}], {"cpu": 200, "memory": 200 * MI}, id="plain"),
        pytest.param(
            [{"requests.cpu": "2", "requests.memory": "1Gi"}],
            {"cpu": 2000, "memory": 1024 * MI},
            id="requests",
        ),
        pytest.param([{"limits.cpu": "3"}], {"cpu": 3000}, id="limits bound requests"),
        pytest.param(
            [{"cpu": "4", "requests.cpu": "2", "limits.cpu": "3"}], {"cpu": 2000}, id="tightest key"
        ),
        pytest.param([{"cpu": "4"}, {"cpu": "1"}, {"cpu": "2"}], {"cpu": 1000}, id="tightest object"),
        pytest.param([{"cpu": "1"}, {"memory": "1Mi"}], {"cpu": 1000, "memory": MI}, id="combined"),
        pytest.param([{"cpu": "0"}], {"cpu": 0}, id="nothing allowed"),
    ],
)
def test_several_resource_quotas_combine_to_the_tightest(hards, quota):
    assert quota_from_hards(hards) == quota


def test_default_quota_fills_only_missing_dimensions():
    default = {"cpu": "1", "memory": "1Mi", "pods": "7"}
    assert quota_from_hards([{"cpu": "200m"}], default) == {"cpu": 200, "memory": MI}
    assert quota_from_hards([], default) == {"cpu": 1000, "memory": MI}


def test_a_bad_quota_is_named():
    with pytest.raises(InvalidQuota, match=r"quota limits.cpu: 'many' is not a quantity"):
        quota_from_hards([{"limits.cpu": "many"}])
    with pytest.raises(InvalidQuota, match=r"defaultQuota.memory: '-1' is negative"):
        quota_from_hards([], {"memory": "-1"})


def test_slice_size_comes_from_the_annotation_and_leaves_the_default_alone():
    default = dict(DEFAULT)
    assert slice_from_annotation('{"cpu":"100m","memory":"100Mi"}', default) == {
        "cpu": 100,
        "memory": 100 * MI,
    }
    size = slice_from_annotation(None, default)
    assert size == DEFAULT
    size["cpu"] = 1
    assert default == DEFAULT


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deep"),
        ("\ud800", "not JSON"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ("{}", "field 'cpu' is missing"),
        ('{"cpu":"1"}', "field 'memory' is missing"),
        ('{"cpu":1,"memory":"1Gi"}', "field 'cpu' must be a string"),
        ('{"cpu":"x","memory":"1Gi"}', "field 'cpu': 'x' is not a quantity"),
        ('{"cpu":"0","memory":"1Gi"}', "field 'cpu': '0' must be more than zero"),
        ('{"cpu":"1","memory":"-1Gi"}', "field 'memory': '-1Gi' must be more than zero"),
        ('{"cpu":"1","memory":"1Gi","gpu":"1"}', "unknown field 'gpu'"),
        (json.dumps({"cpu": "9" * 100_000 + "x", "memory": "1"}), "is not a quantity"),
    ],
)
def test_a_bad_annotation_names_field_and_remedy(text, says):
    with pytest.raises(InvalidSlice) as caught:
        slice_from_annotation(text, DEFAULT)
    message = str(caught.value)
    assert says in message
    assert message.startswith("annotation scheduler.virtualcluster.io/slice: ")
    assert 'write it like {"cpu":"2","memory":"4Gi"}' in message
    assert len(message) < 400


@pytest.mark.parametrize(
    ("quota", "size", "count"),
    [
        pytest.param((200, 200 * MI), (100, 100 * MI), 2, id="walk-through"),
        pytest.param((500, 100 * MI), (100, 100 * MI), 5, id="cpu decides"),
        pytest.param((1500, 1024 * MI), (500, 1024 * MI), 3, id="no rounding to whole CPUs"),
        pytest.param((100, 4100 * MI), (100, 100 * MI), 41, id="memory decides"),
        pytest.param((50, 50 * MI), (100, 100 * MI), 1, id="smaller than a slice"),
        pytest.param((101, 1), (100, 100 * MI), 2, id="a fraction more"),
        pytest.param((0, 0), (100, 100 * MI), 0, id="nothing"),
        pytest.param((MAX_SLICES, 1), (1, 1), MAX_SLICES, id="as many as are allowed"),
    ],
)
def test_slice_count_is_exact(quota, size, count):
    named = [dict(zip(("cpu", "memory"), pair, strict=True)) for pair in (quota, size)]
    assert slice_count(*named) == count


def test_a_dimension_without_quota_needs_no_slices():
    assert slice_count({"cpu": 500}, {"cpu": 100, "memory": MI}) == 5
    assert slice_count({}, {"cpu": 100, "memory": MI}) == 0


def test_too_many_slices_are_refused_with_a_size_that_is_allowed():
    with pytest.raises(InvalidSlice, match=r"needs 1500 slices .* at least cpu 3, memory 1Mi") as caught:
        slice_count({"cpu": 3_000_000, "memory": 1000 * MI}, {"cpu": 2000, "memory": MI})
    assert "slice" in str(caught.value)
    assert slice_count({"cpu": 3_000_000, "memory": 1000 * MI}, {"cpu": 3000, "memory": MI}) == 1000


amounts = st.integers(0, 10**15)
quantities = st.integers(0, 10**9).map(lambda thousandths: f"{thousandths}m")


@given(
    st.lists(st.dictionaries(st.sampled_from(["cpu", "requests.cpu", "limits.cpu"]), quantities), max_size=5)
)
def test_the_quota_is_at_most_each_limit(hards):
    bounds = [int(text[:-1]) for hard in hards for text in hard.values()]
    assert quota_from_hards(hards).get("cpu") == (min(bounds) if bounds else None)


@given(amounts, amounts, st.integers(1, 10**15), st.integers(1, 10**15))
def test_the_number_of_slices_is_the_smallest_that_holds_the_quota(cpu, memory, cpu_size, memory_size):
    quota, size = {"cpu": cpu, "memory": memory}, {"cpu": cpu_size, "memory": memory_size}
    try:
        count = slice_count(quota, size)
    except InvalidSlice:
        assert any(quota[name] > MAX_SLICES * size[name] for name in size)
        return
    assert all(count * size[name] >= quota[name] for name in size)
    assert count == 0 or any((count - 1) * size[name] < quota[name] for name in size)


@given(st.text(max_size=200))
def test_any_annotation_text_is_read_or_refused(text):
    try:
        size = slice_from_annotation(text, DEFAULT)
    except InvalidSlice:
        return
    assert set(size) == {"cpu", "memory"}
    assert all(amount > 0 for amount in size.values())


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 150, "150m"),
        ("cpu", 2000, "2"),
        ("cpu", 0, "0"),
        ("cpu", 1024_000, "1024"),
        ("memory", 100 * MI, "100Mi"),
        ("memory", 4096 * MI, "4Gi"),
        ("memory", 1500_000, "1500"),
        ("memory", 1, "1m"),
        ("count/volumesnapshots.snapshot.storage.k8s.io", 1024_000, "1024"),
    ],
)
def test_amounts_are_shown_as_quantities(name, amount, text):
    assert show(name, amount) == text


WHOLE = {"cpu": 64_000, "memory": 64 * 4096 * MI, "pods": 440_000}


@pytest.mark.parametrize(
    ("size", "pods"),
    [
        pytest.param({"cpu": 2000, "memory": 8192 * MI}, 13, id="a 32nd of both"),
        pytest.param({"cpu": 4000, "memory": 0}, 13, id="a 16th of one"),
        pytest.param({"cpu": 1, "memory": 1}, 1, id="never none"),
    ],
)
def test_a_slice_has_room_for_its_share_of_the_pods(size, pods):
    assert slice_pods(size, WHOLE) == {"pods": pods * 1000}


@pytest.mark.parametrize("missing", ["cpu", "memory", "pods"])
def test_without_all_amounts_of_the_whole_the_share_of_pods_is_unknown(missing):
    whole = {name: amount for name, amount in WHOLE.items() if name != missing}
    assert slice_pods(DEFAULT, whole) == {}
    assert slice_pods(DEFAULT, whole | {missing: 0}) == {}


@pytest.mark.parametrize(("kept", "pods"), [(None, 13), (12, 12), (16, 16), (10, 13), (18, 13), (1, 13)])
def test_a_slice_keeps_its_number_of_pods_within_a_quarter(kept, pods):
    size = {"cpu": 2000, "memory": 8192 * MI}
    assert slice_pods(size, WHOLE, kept and kept * 1000) == {"pods": pods * 1000}


QUOTA = {"cpu": 8000, "memory": 16384 * MI}
POOL = {"cpu": 64_000, "memory": 64 * 4096 * MI, "pods": 736_000}


def pods_of(quota, size, operators, whole, present=None):
    """Return how many slices a namespace has, and the Pods of all of them."""
    size = times(size, enlargement(quota, size, operators, whole, present))
    slices = slices_for(quota, size)
    most = whole_pods(quota, operators, whole)
    assert most is not None
    return slices, slices * slice_pods(size, whole, most=most // slices)["pods"] // 1000


@pytest.mark.parametrize(
    ("size", "found"),
    [
        pytest.param({"cpu": 2000, "memory": 4096 * MI}, (4, 68), id="the operator's size"),
        pytest.param({"cpu": 500, "memory": 1024 * MI}, (16, 64), id="a quarter of it"),
        pytest.param({"cpu": 8, "memory": 17_179_870_000}, (67, 67), id="a thousand tiny ones"),
        pytest.param({"cpu": 8, "memory": 16384 * MI}, (67, 67), id="tiny in one dimension"),
        pytest.param({"cpu": 8000, "memory": 16384 * MI}, (1, 68), id="one"),
    ],
)
def test_small_slices_have_no_more_pods_than_those_of_the_operators_size(size, found):
    assert pods_of(QUOTA, size, DEFAULT, POOL) == found


def test_slices_that_make_one_stay_while_the_pods_of_the_pool_change_little():
    size = {"cpu": 100, "memory": 200 * MI}
    factors = []
    present = None
    for pods in (736_000, 700_000, 1_000_000, 1_200_000, 900_000, 700_000, 600_000):
        factors.append(enlargement(QUOTA, size, DEFAULT, POOL | {"pods": pods}, present))
        present = times(size, factors[-1])
    assert factors == [2, 2, 2, 1, 1, 1, 2]


def test_a_few_small_slices_have_a_pod_each():
    """The name server of a tenant has three, in slices of its own size."""
    size = {"cpu": 100, "memory": 70 * MI}
    scarce = POOL | {"pods": 110_000}
    assert pods_of({"cpu": 300, "memory": 210 * MI}, size, DEFAULT, scarce) == (3, 3)
    assert pods_of({"cpu": 3000, "memory": 2100 * MI}, size, DEFAULT, scarce) == (10, 10)


def test_a_present_slice_of_another_size_has_no_say():
    size = {"cpu": 10, "memory": 20 * MI}
    first = enlargement(QUOTA, size, DEFAULT, POOL)
    for present in ({"cpu": 20, "memory": 30 * MI}, {"cpu": 15, "memory": 30 * MI}, {"cpu": 20}):
        assert enlargement(QUOTA, size, DEFAULT, POOL, present) == first


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**12),
    st.integers(1, 10**6),
    st.integers(1, 10**12),
    st.integers(1, 10**5),
)
def test_no_size_of_slices_gives_a_namespace_more_pods(cpu, memory, small_cpu, small_memory, pods):
    quota, whole = {"cpu": cpu, "memory": memory}, POOL | {"pods": pods * 1000}
    most = whole_pods(quota, DEFAULT, whole)
    assert most is not None
    slices, found = pods_of(quota, {"cpu": small_cpu, "memory": small_memory}, DEFAULT, whole)
    assert 1 <= slices <= found <= max(most // 1000, FEW_SLICES)


@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(1, 100)), min_size=1, max_size=20),
    st.integers(1, 500),
)
def test_all_parts_of_a_whole_have_no_more_pods_than_the_whole(parts, pods):
    cpu, memory = (sum(amounts) for amounts in zip(*parts, strict=True))
    whole = {"cpu": cpu, "memory": memory, "pods": pods * 1000}
    assert sum(proportional_pods({"cpu": each[0], "memory": each[1]}, whole) for each in parts) <= pods * 1000
    assert proportional_pods(whole, whole) == pods * 1000

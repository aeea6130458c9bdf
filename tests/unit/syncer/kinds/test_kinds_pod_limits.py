"""Limits of containers in a super cluster, and their changes."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds_bench import CONTEXT

from vcsync.api.specs import PodPolicy
from vcsync.objects.quantity import milli
from vcsync.scheduling.slices import DEFAULT_SLICE
from vcsync.syncer.kinds.plan import Placement
from vcsync.syncer.kinds.pod_limits import LEAST, bounds, changed, with_limits

Json = dict[str, Any]

SLICES = Placement({"r1": 2}, {}, {"requests.cpu": "4", "requests.memory": "8Gi"})
SMALL = Placement({"r1": 1}, {}, {"requests.cpu": "500m", "requests.memory": "5Gi"})
MOST = bounds(CONTEXT, SLICES)


@pytest.mark.parametrize(
    ("placement", "cpu", "memory"),
    [
        pytest.param(SLICES, "4", "8Gi", id="its slices"),
        pytest.param(SMALL, "2", "5Gi", id="at least a default slice"),
        pytest.param(Placement({"r1": 1}, {}, {}), "2", "4Gi", id="nothing is known"),
        pytest.param(
            Placement({"r1": 1}, {}, {"requests.cpu": "much"}), "2", "4Gi", id="nothing is readable"
        ),
    ],
)
def test_a_container_may_use_what_the_slices_of_its_namespace_have(
    placement: Placement, cpu: str, memory: str
) -> None:
    assert bounds(CONTEXT, placement) == {"cpu": milli(cpu), "memory": milli(memory)}


def test_the_least_bounds_are_those_of_a_default_slice() -> None:
    assert LEAST.items() <= DEFAULT_SLICE.items()


def test_the_operator_may_leave_limits_to_tenants() -> None:
    context = msgspec.structs.replace(CONTEXT, policy=PodPolicy(limits="AsWritten"))
    assert bounds(context, SLICES) == {}
    assert bounds(CONTEXT, None) == {}
    assert with_limits({"requests": {"cpu": "1"}}, {}) == {"requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("resources", "limits"),
    [
        pytest.param({}, {"cpu": "4", "memory": "8Gi"}, id="none"),
        pytest.param(
            {"requests": {"cpu": "0", "memory": "0"}}, {"cpu": "4", "memory": "8Gi"}, id="no requests"
        ),
        pytest.param({"limits": {"cpu": "64"}}, {"cpu": "4", "memory": "8Gi"}, id="too large"),
        pytest.param(
            {"limits": {"cpu": "1500m", "memory": "1Gi"}}, {"cpu": "1500m", "memory": "1Gi"}, id="small"
        ),
        pytest.param(
            {"limits": {"gpu": "1", "cpu": "4000m"}},
            {"gpu": "1", "cpu": "4000m", "memory": "8Gi"},
            id="at it",
        ),
        pytest.param(
            {"requests": {"cpu": "5"}}, {"cpu": "5", "memory": "8Gi"}, id="requests are refused elsewhere"
        ),
        pytest.param({"limits": {"cpu": "0"}}, {"cpu": "4", "memory": "8Gi"}, id="zero, which is none"),
        pytest.param({"limits": {"cpu": "x"}}, {"cpu": "4", "memory": "8Gi"}, id="unreadable"),
    ],
)
def test_no_container_has_a_limit_above_the_slices(resources: Json, limits: dict[str, str]) -> None:
    found = with_limits(resources, MOST)
    assert found["limits"] == limits
    assert found.get("requests") == resources.get("requests")


@pytest.mark.parametrize(
    ("wanted", "actual", "change"),
    [
        pytest.param({}, {"cpu": "4", "memory": "8Gi"}, {}, id="its bounds"),
        pytest.param({}, {"cpu": "2", "memory": "4Gi"}, {}, id="former bounds"),
        pytest.param({}, {"cpu": "9", "memory": "99Gi"}, {}, id="former larger bounds"),
        pytest.param({}, {}, {}, id="it runs since before there were bounds"),
        pytest.param({"limits": {"cpu": "1"}}, {"cpu": "4"}, {"cpu": "1"}, id="a smaller limit"),
        pytest.param({"limits": {"cpu": "1"}}, {"cpu": "1000m"}, {}, id="another text"),
        pytest.param({"limits": {"cpu": "3"}}, {"cpu": "1"}, {"cpu": "3"}, id="a larger limit"),
        pytest.param({"limits": {"cpu": "99"}}, {"cpu": "1"}, {"cpu": "4"}, id="too large"),
        pytest.param({"limits": {"cpu": "99"}}, {}, {"cpu": "4"}, id="too large, and none so far"),
        pytest.param({"limits": {"cpu": "99"}}, {"cpu": "9"}, {}, id="too large, from former slices"),
        pytest.param({"requests": {"cpu": "6"}}, {"cpu": "4"}, {"cpu": "6"}, id="a larger request"),
        pytest.param({"requests": {"cpu": "3"}}, {"cpu": "4"}, {}, id="a request below its limit"),
    ],
)
def test_what_changes_of_a_running_container(wanted: Json, actual: dict[str, str], change: Json) -> None:
    assert changed(wanted, {"limits": actual}, MOST) == change


amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "gpu"]), st.integers(0, 9000).map(lambda n: f"{n}m")
)


@given(
    amounts,
    amounts,
    st.fixed_dictionaries({}, optional={"cpu": st.integers(1, 9000), "memory": st.integers(1, 9000)}),
)
def test_limits_are_bounded_whatever_a_tenant_writes(
    requests: dict[str, str], limits: dict[str, str], most: dict[str, int]
) -> None:
    resources = {"requests": requests, "limits": limits}
    found = with_limits(resources, most)["limits"]
    for name, bound in most.items():
        assert milli(found[name]) <= max(bound, milli(requests.get(name, "0")))
        assert milli(found[name]) >= (min(bound, milli(limits.get(name, "0"))) or bound)
    assert {name: found[name] for name in limits if name not in most} == {
        name: limits[name] for name in limits if name not in most
    }
    assert changed(resources, {"limits": found}, most) == {}, "it settles"

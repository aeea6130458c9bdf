"""The number of Pods that a HorizontalPodAutoscaler decides on, and its rate limits."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.controllers.hpa.metrics_client import seconds
from vcsync.controllers.hpa.objects import CountedPod, PodMetric, Spec, counted
from vcsync.controllers.hpa.rates import Memory, normalize
from vcsync.controllers.hpa.replicas import (
    Tolerances,
    Uncountable,
    by_average,
    by_usage,
    by_utilization,
    by_value,
    requests,
    tolerances,
)
from vcsync.objects.conditions import Condition
from vcsync.objects.envelope import encode, parse

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)
READY = Condition("Ready", "True", last_transition_time=LONG_AGO.isoformat())
UNREADY = Condition("Ready", "False", last_transition_time=LONG_AGO.isoformat())
LATELY_UNREADY = Condition("Ready", "False", last_transition_time=(NOW - timedelta(minutes=10)).isoformat())
USUAL = Tolerances()


def pod(name: str, *, request: str = "1", ready: Condition | None = READY, **fields: Any) -> CountedPod:
    given: dict[str, Any] = {
        "deleting": False,
        "phase": "Running",
        "started": LONG_AGO,
        "whole": None,
        "overhead": {},
    } | fields
    return CountedPod(name=name, ready=ready, requests={"c": {"cpu": request}}, **given)


def metrics(*values: int) -> dict[str, PodMetric]:
    return {f"p{number}": PodMetric(value, NOW, 30) for number, value in enumerate(values)}


def utilized(everyone: list[CountedPod], values: dict[str, PodMetric], target: int) -> tuple[int, int, int]:
    return by_utilization(
        len(everyone), everyone, values, target, resource="cpu", container="", tolerated=USUAL, now=NOW
    )


@pytest.mark.parametrize(
    ("levels", "target", "expected"),
    [
        ((300, 500, 700), 30, (5, 50, 500)),  # Kubernetes' TestReplicaCalcScaleUp
        ((100, 300, 500, 250, 250), 50, (3, 28, 280)),  # TestReplicaCalcScaleDown
        ((1010, 1030, 1020), 100, (3, 102, 1020)),  # TestReplicaCalcTolerance
    ],
)
def test_replicas_by_utilization(
    levels: tuple[int, ...], target: int, expected: tuple[int, int, int]
) -> None:
    everyone = [pod(f"p{number}") for number in range(len(levels))]
    assert utilized(everyone, metrics(*levels), target) == expected


@pytest.mark.parametrize(
    ("strange", "expected"),
    [
        (
            {"ready": UNREADY, "started": NOW - timedelta(minutes=1)},
            4,
        ),  # counts as using nothing: 3 of 4 ready
        ({"phase": "Pending"}, 4),
        ({"phase": "Failed"}, 4),
        ({"deleting": True}, 4),
    ],
)
def test_unready_pods_never_enlarge_the_change(strange: dict[str, Any], expected: int) -> None:
    everyone = [pod("p0"), pod("p1"), pod("p2", **strange)]
    found = by_utilization(
        3, everyone, metrics(500, 700, 900), 30, resource="cpu", container="", tolerated=USUAL, now=NOW
    )
    assert found[:2] == (expected, 60)


def test_pods_without_a_metric_make_the_change_smaller() -> None:
    everyone = [pod(f"p{number}") for number in range(4)]
    assert utilized(everyone, metrics(300, 500, 700), 30)[0] == 5
    assert utilized(everyone, metrics(100, 300, 100), 50)[0] == 3
    assert utilized(everyone[:3], metrics(100, 100), 100)[0] == 2


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({}, True),
        ({"ready": LATELY_UNREADY}, True),  # was ready once: what it uses counts
        ({"started": NOW - timedelta(minutes=1)}, True),
        ({"ready": None}, False),
        ({"started": None}, False),
        ({"ready": UNREADY, "started": NOW - timedelta(minutes=1)}, False),
        (
            {
                "ready": Condition(
                    "Ready", "True", last_transition_time=(NOW - timedelta(seconds=10)).isoformat()
                ),
                "started": NOW - timedelta(minutes=1),
            },
            False,  # measured over a time in which it was not ready
        ),
        (
            {
                "ready": Condition(
                    "Ready", "False", last_transition_time=(LONG_AGO + timedelta(seconds=5)).isoformat()
                )
            },
            False,  # never was ready
        ),
    ],
)
def test_usage_during_the_start_of_a_pod_does_not_count(change: dict[str, Any], counts: bool) -> None:
    everyone = [pod("p0", **change)]
    if counts:
        assert utilized(everyone, metrics(1000), 50) == (2, 100, 1000)
    else:
        with pytest.raises(
            Uncountable, match=r"did not receive metrics for targeted pods \(pods might be unready\)"
        ):
            utilized(everyone, metrics(1000), 50)


def test_missing_pods_or_requests_are_errors() -> None:
    with pytest.raises(Uncountable, match="no pods returned by selector"):
        utilized([], metrics(1), 50)
    bare = CountedPod("p0", False, "Running", LONG_AGO, READY, {"c": {}}, None, {})
    with pytest.raises(Uncountable, match="missing request for cpu in container c of Pod p0"):
        utilized([bare], metrics(1), 50)
    with pytest.raises(Uncountable, match="container d not found in Pod p0"):
        requests([bare], "d", "cpu")
    with pytest.raises(Uncountable, match="no metrics returned matched known pods"):
        utilized([pod("p0", request="0")], metrics(1), 50)


def test_replicas_by_usage_and_by_shared_values() -> None:
    everyone = [pod(f"p{number}") for number in range(3)]
    used: dict[str, Any] = {"resource": "", "tolerated": USUAL, "now": NOW}
    assert by_usage(3, everyone, metrics(20000, 10000, 30000), 15000, **used) == (4, 20000)
    assert by_usage(3, everyone, metrics(12000, 12000, 12000), 20000, **used) == (2, 12000)
    assert by_value(3, everyone, 20000, 15000, USUAL) == 4
    assert by_value(3, everyone, 15500, 15000, USUAL) == 3
    assert by_value(0, [], 20000, 15000, USUAL) == 2
    with pytest.raises(Uncountable, match="unable to calculate ready pods"):
        by_value(3, [], 20000, 15000, USUAL)
    assert by_average(3, 8600, 2867, USUAL) == (3, 2867)
    assert by_average(3, 8600, 2000, USUAL) == (5, 2867)
    assert by_average(0, 8600, 2000, USUAL) == (5, 8600)


def test_each_direction_has_its_own_tolerance() -> None:
    behavior = msgspec.convert({"scaleUp": {"tolerance": "500m"}, "scaleDown": {}}, Spec, strict=False)
    assert tolerances(behavior.behavior) == USUAL
    spec = msgspec.convert(
        {"behavior": {"scaleUp": {"tolerance": "500m"}, "scaleDown": {"tolerance": "0"}}}, Spec
    )
    found = tolerances(spec.behavior)
    assert (found.hold(1.5), found.hold(1.51), found.hold(1.0), found.hold(0.99)) == (
        True,
        False,
        True,
        False,
    )


def test_a_pods_requests_come_from_long_running_containers_or_the_pod_level() -> None:
    spec = {
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "100m"}}}],
        "initContainers": [
            {"name": "once", "resources": {"requests": {"cpu": "9"}}},
            {"name": "beside", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}},
        ],
    }
    body: dict[str, Any] = {
        "metadata": {"name": "p", "uid": "u"},
        "spec": spec,
        "status": {"phase": "Running"},
    }
    assert requests([counted(parse(encode(body)))], "", "cpu") == {"p": 150}
    assert requests([counted(parse(encode(body)))], "beside", "cpu") == {"p": 50}
    body["spec"] = {**spec, "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "10m"}}
    assert requests([counted(parse(encode(body)))], "", "cpu") == {"p": 2010}
    with pytest.raises(Uncountable, match="missing pod-level request for memory in Pod p"):
        requests([counted(parse(encode(body)))], "", "memory")


@pytest.mark.parametrize(
    ("text", "value"), [("30s", 30), ("1m0s", 60), ("1h2m3.5s", 3723.5), ("", 0), ("x", 0)]
)
def test_durations(text: str, value: float) -> None:
    assert seconds(text) == value


# ---- How fast ------------------------------------------------------------------------------


def spec(**fields: Any) -> Spec:
    return msgspec.convert({"minReplicas": 1, "maxReplicas": 20, **fields}, Spec)


UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}],
}
DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


@pytest.mark.parametrize(
    ("current", "asked", "replicas", "reason"),
    [
        (3, 5, 5, "DesiredWithinRange"),
        (3, 9, 6, "ScaleUpLimit"),
        (1, 9, 4, "ScaleUpLimit"),
        (15, 40, 20, "TooManyReplicas"),
        (3, 0, 2, "TooFewReplicas"),
    ],
)
def test_without_behavior_the_size_at_most_doubles(
    current: int, asked: int, replicas: int, reason: str
) -> None:
    found = normalize(spec(minReplicas=2), Memory(), current, asked, NOW)
    assert (found.replicas, found.limit[0], found.limited) == (replicas, reason, replicas != asked)
    assert found.able[0] == "ReadyForNewScale"


def test_it_scales_down_after_five_minutes_of_lower_recommendations() -> None:
    memory = Memory()
    memory.begin(10, NOW)
    first = normalize(spec(), memory, 10, 2, NOW + timedelta(seconds=299))
    assert (first.replicas, first.able[0]) == (10, "ScaleDownStabilized")
    assert normalize(spec(), memory, 10, 2, NOW + timedelta(seconds=301)).replicas == 2


def test_policies_limit_the_change_within_their_period() -> None:
    wishes = spec(behavior={"scaleUp": UP, "scaleDown": DOWN})
    memory = Memory()
    found = normalize(wishes, memory, 2, 20, NOW)
    assert (found.replicas, found.limit[0], found.limited) == (6, "ScaleUpLimit", True)
    memory.scaled(wishes.behavior, 2, 6, NOW)
    assert normalize(wishes, memory, 6, 20, NOW + timedelta(seconds=30)).replicas == 6
    assert normalize(wishes, memory, 6, 20, NOW + timedelta(seconds=61)).replicas == 10


@pytest.mark.parametrize(
    ("policies", "select", "up", "down"),
    [
        ([("Pods", 2), ("Percent", 50)], "Max", 15, 5),
        ([("Pods", 2), ("Percent", 50)], "Min", 12, 8),
        ([("Percent", 10)], "Max", 11, 9),
        ([("Pods", 1)], "Disabled", 10, 10),
    ],
)
def test_select_policy_chooses_a_policy(
    policies: list[tuple[str, int]], select: str, up: int, down: int
) -> None:
    rules = {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": select,
        "policies": [{"type": type_, "value": value, "periodSeconds": 60} for type_, value in policies],
    }
    wishes = spec(maxReplicas=100, behavior={"scaleUp": rules, "scaleDown": rules})
    assert normalize(wishes, Memory(), 10, 90, NOW).replicas == up
    assert normalize(wishes, Memory(), 10, 1, NOW).replicas == down


def test_stabilization_windows_are_configurable() -> None:
    wishes = spec(
        behavior={
            "scaleUp": {**UP, "stabilizationWindowSeconds": 60},
            "scaleDown": {**DOWN, "stabilizationWindowSeconds": 30},
        }
    )
    memory = Memory()
    memory.begin(4, NOW)
    up = normalize(wishes, memory, 4, 6, NOW + timedelta(seconds=10))
    assert (up.replicas, up.able[0]) == (4, "ScaleUpStabilized")
    assert normalize(wishes, memory, 4, 6, NOW + timedelta(seconds=69)).replicas == 6
    down = normalize(wishes, memory, 6, 3, NOW + timedelta(seconds=80))
    assert (down.replicas, down.able[0]) == (6, "ScaleDownStabilized")
    assert normalize(wishes, memory, 6, 3, NOW + timedelta(seconds=110)).replicas == 3


ASKED = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), max_size=30)


@given(ASKED, st.booleans())
def test_for_any_metrics_it_stays_within_bounds_and_keeps_a_short_history(
    asked: list[tuple[int, int]], wishes: bool
) -> None:
    behavior = {"behavior": {"scaleUp": UP, "scaleDown": DOWN}} if wishes else {}
    bounds, memory, current, now = spec(minReplicas=2, **behavior), Memory(), 2, NOW
    for after, wanted in asked:
        now += timedelta(seconds=after)
        found = normalize(bounds, memory, current, wanted, now)
        assert 2 <= found.replicas <= 20
        assert found.replicas <= max(current * 2, 4) if not wishes else found.replicas <= current + 4
        if found.replicas != current:
            memory.scaled(bounds.behavior, current, found.replicas, now)
        current = found.replicas
    oldest = now - timedelta(seconds=300)
    assert all(each.at >= oldest for each in memory.recommendations[1:-1])

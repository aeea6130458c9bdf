"""The number of Pods that a metric requires. Pure.

Behaviour: `replica_calculator.go` and `metrics/utilization.go` of Kubernetes' `pkg/controller/podautoscaler`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from vcsync.controllers.framework import pods
from vcsync.controllers.hpa.objects import Behavior, CountedPod, Metrics, PodMetric
from vcsync.objects.quantity import milli

TOLERANCE = 0.1
"""`--horizontal-pod-autoscaler-tolerance`: smaller deviations change nothing."""
CPU_INITIALIZATION = timedelta(minutes=5)
"""`--horizontal-pod-autoscaler-cpu-initialization-period`."""
INITIAL_READINESS = timedelta(seconds=30)
"""`--horizontal-pod-autoscaler-initial-readiness-delay`."""
MOST = 2**31 - 1
CPU = "cpu"


class Uncountable(Exception):
    """A metric cannot be evaluated; the message is for the user.

    Attributes:
        inner: the part of the text that a condition repeats.
    """

    def __init__(self, text: str, *, inner: str = "") -> None:
        super().__init__(text)
        self.inner = inner or text


class Tolerances(Struct, frozen=True):
    """The relative deviation of usage that is tolerated, down and up."""

    down: float = TOLERANCE
    up: float = TOLERANCE

    def hold(self, ratio: float) -> bool:
        """Return whether a ratio of usage is within the tolerance around 1."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


def tolerances(behavior: Behavior | None) -> Tolerances:
    """Return the tolerance of a HorizontalPodAutoscaler."""
    if behavior is None:
        return Tolerances()
    down, up = behavior.scale_down.tolerance, behavior.scale_up.tolerance
    return Tolerances(
        TOLERANCE if down is None else milli(down) / 1000, TOLERANCE if up is None else milli(up) / 1000
    )


class GroupedPods(Struct, frozen=True):
    """The scaled Pods: those that count, and those whose metric does not, by reason."""

    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


def sort_out(everyone: Sequence[CountedPod], metrics: Metrics, resource: str, now: datetime) -> GroupedPods:
    """Group Pods by whether their metrics count."""
    found: dict[str, set[str]] = {"ready": set(), "unready": set(), "missing": set(), "ignored": set()}
    for pod in everyone:
        found[_sort(pod, metrics.get(pod.name), resource, now)].add(pod.name)
    unready, missing, ignored = (frozenset(found[each]) for each in ("unready", "missing", "ignored"))
    return GroupedPods(len(found["ready"]), unready, missing, ignored)


def _sort(pod: CountedPod, metric: PodMetric | None, resource: str, now: datetime) -> str:
    if pod.deleting or pod.phase == "Failed":
        return "ignored"
    if pod.phase == "Pending":
        return "unready"
    if metric is None:
        return "missing"
    return "unready" if resource == CPU and _begins(pod, metric, now) else "ready"


def _begins(pod: CountedPod, metric: PodMetric, now: datetime) -> bool:
    """Return whether a Pod's usage may still come from its start."""
    if pod.ready is None or pod.started is None:
        return True
    since, unready = pods.moment(pod.ready.last_transition_time), pod.ready.status == "False"
    if pod.started + CPU_INITIALIZATION > now:
        return unready or metric.time < since + timedelta(seconds=metric.window)
    return unready and pod.started + INITIAL_READINESS > since


def requests(everyone: Sequence[CountedPod], container: str, resource: str) -> dict[str, int]:
    """Return the requests of each Pod, or of its container, for a resource, in thousandths.

    Raises:
        Uncountable: a request is missing.
    """
    return {pod.name: _request(pod, container, resource) for pod in everyone}


def _request(pod: CountedPod, container: str, resource: str) -> int:
    if pod.whole is not None and not container:
        if resource not in pod.whole:
            raise Uncountable(f"missing pod-level request for {resource} in Pod {pod.name}")
        return milli(pod.whole[resource]) + milli(pod.overhead.get(resource, "0"))
    if container and container not in pod.requests:
        raise Uncountable(f"container {container} not found in Pod {pod.name}")
    total = 0
    for name, asked in pod.requests.items():
        if container in ("", name):
            if resource not in asked:
                raise Uncountable(f"missing request for {resource} in container {name} of Pod {pod.name}")
            total += milli(asked[resource])
    return total


def by_utilization(
    current: int,
    everyone: Sequence[CountedPod],
    metrics: Metrics,
    target: int,
    *,
    resource: str,
    container: str,
    tolerated: Tolerances,
    now: datetime,
) -> tuple[int, int, int]:
    """Return the desired number of Pods, their utilization in percent, and the average usage of a Pod.

    Raises:
        Uncountable: it cannot be computed.
    """
    them, counting = _counting(everyone, metrics, resource, now)
    asked = requests(everyone, container, resource)

    def ratio(values: Mapping[str, int]) -> tuple[float, int, int]:
        known = {name: value for name, value in values.items() if name in asked}
        total = sum(asked[name] for name in known)
        if not total:
            raise Uncountable("no metrics returned matched known pods")
        percent = sum(known.values()) * 100 // total
        return percent / target, percent, sum(known.values()) // len(known)

    found, percent, average = ratio(counting)
    missing = {name: asked[name] * max(100, target) // 100 for name in them.missing}
    count = _decide(current, them, counting, missing, tolerated, found, lambda values: ratio(values)[0])
    return count, percent, average


def by_usage(
    current: int,
    everyone: Sequence[CountedPod],
    metrics: Metrics,
    target: int,
    *,
    resource: str,
    tolerated: Tolerances,
    now: datetime,
) -> tuple[int, int]:
    """Return the desired number of Pods, and the average usage of a Pod; `target` in thousandths.

    Raises:
        Uncountable: it cannot be computed.
    """
    them, counting = _counting(everyone, metrics, resource, now)

    def ratio(values: Mapping[str, int]) -> float:
        return (sum(values.values()) // len(values)) / target

    missing = dict.fromkeys(them.missing, target)
    count = _decide(current, them, counting, missing, tolerated, ratio(counting), ratio)
    return count, sum(counting.values()) // len(counting)


def _counting(
    everyone: Sequence[CountedPod], metrics: Metrics, resource: str, now: datetime
) -> tuple[GroupedPods, dict[str, int]]:
    if not everyone:
        raise Uncountable("no pods returned by selector while calculating replica count")
    them = sort_out(everyone, metrics, resource, now)
    left = {
        name: metric.value
        for name, metric in metrics.items()
        if name not in them.ignored and name not in them.unready
    }
    if not left:
        raise Uncountable("did not receive metrics for targeted pods (pods might be unready)")
    return them, left


def _decide(  # noqa: PLR0917 - what a decision is made of
    current: int,
    them: GroupedPods,
    counting: Mapping[str, int],
    missing: Mapping[str, int],
    tolerated: Tolerances,
    ratio: float,
    again: Callable[[Mapping[str, int]], float],
) -> int:
    """Return the number of Pods for a ratio of usage; Pods without a metric never enlarge the change."""
    with_unready = bool(them.unready) and ratio > 1.0
    if not with_unready and not missing:
        return current if tolerated.hold(ratio) else math.ceil(ratio * them.ready)
    values = dict(counting)
    if ratio < 1.0:
        values |= missing
    elif ratio > 1.0:
        values |= dict.fromkeys(missing, 0)
    if with_unready:
        values |= dict.fromkeys(them.unready, 0)
    new = again(values)
    turned = (ratio < 1.0 < new) or (new < 1.0 < ratio)
    if tolerated.hold(new) or turned:
        return current
    count = math.ceil(new * len(values))
    return current if (new < 1.0 and count > current) or (new > 1.0 and count < current) else count


def by_value(
    current: int, everyone: Sequence[CountedPod], usage: int, target: int, tolerated: Tolerances
) -> int:
    """Return the desired number of Pods for a value that all of them share.

    Raises:
        Uncountable: there are no Pods.
    """
    ratio = usage / target
    if not current:
        return math.ceil(ratio)
    if tolerated.hold(ratio):
        return current
    if not everyone:
        raise Uncountable(
            "unable to calculate ready pods: no pods returned by selector while calculating replica count"
        )
    ready = sum(
        pod.phase == "Running" and pod.ready is not None and pod.ready.status == "True" for pod in everyone
    )
    return min(math.ceil(ratio * ready), MOST)


def by_average(replicas: int, usage: int, target: int, tolerated: Tolerances) -> tuple[int, int]:
    """Return the desired number of Pods for a value that is divided among them, and the share of each."""
    count = replicas
    if not replicas or not tolerated.hold(usage / (target * replicas)):
        count = min(math.ceil(usage / target), MOST)
    return count, math.ceil(usage / replicas) if replicas else usage

"""Rate limits of scaling, and the history that they need. Pure.

Behaviour: `horizontal.go` of Kubernetes' `pkg/controller/podautoscaler`, from `normalizeDesiredReplicas` on.
"""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct, field

from vcsync.controllers.hpa.objects import Behavior, Rules, Spec

DOWNSCALE_SECONDS = 300
"""`--horizontal-pod-autoscaler-downscale-stabilization`."""
LEAST_LIMIT = 4
WITHIN = ("DesiredWithinRange", "the desired count is within the acceptable range")
TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
UP_LIMIT = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
DOWN_LIMIT = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
READY = ("ReadyForNewScale", "recommended size matches current size")
UP_STABILIZED = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
DOWN_STABILIZED = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)

Reason = tuple[str, str]
"""A condition's reason and message."""


class Sample(Struct, frozen=True):
    """A number with its time: a recommendation, or a change of size."""

    number: int
    at: datetime


class Memory(Struct):
    """The history of one HorizontalPodAutoscaler; it is lost with this process."""

    recommendations: list[Sample] = field(default_factory=list)
    ups: list[Sample] = field(default_factory=list)
    downs: list[Sample] = field(default_factory=list)

    def begin(self, current: int, now: datetime) -> None:
        """Record the first observed size as a recommendation, so that the target does not shrink immediately."""
        if not self.recommendations:
            self.recommendations.append(Sample(current, now))

    def scaled(self, behavior: Behavior | None, before: int, after: int, now: datetime) -> None:
        """Record a change of size."""
        if behavior is None:
            return
        rules = behavior.scale_up if after > before else behavior.scale_down
        longest = max((each.period_seconds for each in rules.policies or ()), default=0)
        past = self.ups if after > before else self.downs
        past[:] = [*_since(past, longest, now), Sample(abs(after - before), now)]


class Normalized(Struct, frozen=True):
    """The decided size, and its conditions: whether it can change, and whether it is limited."""

    replicas: int
    able: Reason
    limited: bool
    limit: Reason


def normalize(spec: Spec, memory: Memory, current: int, desired: int, now: datetime) -> Normalized:
    """Return the size for the metrics' result, and record this result."""
    if spec.behavior is None:
        stable, able = _stabilized(memory, desired, now)
        replicas, limit = _limited(spec, current, stable)
    else:
        stable, able = _stabilized_both(memory, spec.behavior, current, desired, now)
        replicas, limit = _limited_by_rates(spec, spec.behavior, memory, current, stable, now)
    return Normalized(replicas, able if stable != desired else READY, replicas != stable, limit)


def _since(samples: Iterable[Sample], seconds: int, now: datetime) -> list[Sample]:
    return [each for each in samples if each.at > now - timedelta(seconds=seconds)]


# ---- Without behavior -----------------------------------------------------------------------


def _stabilized(memory: Memory, desired: int, now: datetime) -> tuple[int, Reason]:
    recent = _since(memory.recommendations, DOWNSCALE_SECONDS, now)
    memory.recommendations = [*recent, Sample(desired, now)]
    return max([desired, *(each.number for each in recent)]), DOWN_STABILIZED


def _limited(spec: Spec, current: int, desired: int) -> tuple[int, Reason]:
    fastest = max(2 * current, LEAST_LIMIT)
    most, why = (fastest, UP_LIMIT) if spec.max_replicas > fastest else (spec.max_replicas, TOO_MANY)
    if desired < spec.min_replicas:
        return spec.min_replicas, TOO_FEW
    return (most, why) if desired > most else (desired, WITHIN)


# ---- With behavior --------------------------------------------------------------------------


def _stabilized_both(
    memory: Memory, behavior: Behavior, current: int, desired: int, now: datetime
) -> tuple[int, Reason]:
    up = behavior.scale_up.stabilization_window_seconds or 0
    down = behavior.scale_down.stabilization_window_seconds
    down = DOWNSCALE_SECONDS if down is None else down
    lowest = min([desired, *(each.number for each in _since(memory.recommendations, up, now))])
    highest = max([desired, *(each.number for each in _since(memory.recommendations, down, now))])
    memory.recommendations = [*_since(memory.recommendations, max(up, down), now), Sample(desired, now)]
    stable = min(max(current, lowest), highest)
    return stable, UP_STABILIZED if desired >= current else DOWN_STABILIZED


def _limited_by_rates(  # noqa: PLR0917 - what a limit depends on
    spec: Spec, behavior: Behavior, memory: Memory, current: int, desired: int, now: datetime
) -> tuple[int, Reason]:
    if desired > current:
        fastest = max(_fastest_up(memory, behavior.scale_up, current, now), current)
        most, why = (fastest, UP_LIMIT) if spec.max_replicas > fastest else (spec.max_replicas, TOO_MANY)
        if desired > most:
            return most, why
    elif desired < current:
        fastest = min(_fastest_down(memory, behavior.scale_down, current, now), current)
        least, why = (fastest, DOWN_LIMIT) if spec.min_replicas < fastest else (spec.min_replicas, TOO_FEW)
        if desired < least:
            return least, why
    return desired, WITHIN


def _fastest_up(memory: Memory, rules: Rules, current: int, now: datetime) -> int:
    if rules.select_policy == "Disabled":
        return current
    proposed = []
    sizes = _Sizes(memory, current, now)
    for policy in rules.policies or ():
        began = sizes.before(policy.period_seconds)
        more = began + policy.value if policy.type == "Pods" else math.ceil(began * (1 + policy.value / 100))
        proposed.append(more)
    choose = min if rules.select_policy == "Min" else max
    return choose(proposed, default=current)


def _fastest_down(memory: Memory, rules: Rules, current: int, now: datetime) -> int:
    if rules.select_policy == "Disabled":
        return current
    proposed = []
    sizes = _Sizes(memory, current, now)
    for policy in rules.policies or ():
        began = sizes.before(policy.period_seconds)
        fewer = began - policy.value if policy.type == "Pods" else int(began * (1 - policy.value / 100))
        proposed.append(fewer)
    choose = max if rules.select_policy == "Min" else min
    return choose(proposed, default=current)


class _Sizes:
    """Sizes at the starts of periods that end now. Each period is computed once, however many policies have it."""

    def __init__(self, memory: Memory, current: int, now: datetime) -> None:
        self._memory, self._current, self._now = memory, current, now
        self._known: dict[int, int] = {}

    def before(self, seconds: int) -> int:
        """Return the size a number of seconds ago."""
        if seconds not in self._known:
            added, removed = (
                sum(each.number for each in _since(past, seconds, self._now))
                for past in (self._memory.ups, self._memory.downs)
            )
            self._known[seconds] = self._current - added + removed
        return self._known[seconds]

"""Computes the next sizes of a Deployment's ReplicaSets. Pure numbers.

Behaviour: Kubernetes' `pkg/controller/deployment` (`rolling.go`, `sync.go`) and its `util`.
"""

from collections.abc import Iterable, Sequence

from vcsync.controllers.deployment.objects import MAX_REPLICAS, Deployment, ReplicaSet, number

Sizes = list[tuple[ReplicaSet, int]]
"""New sizes of ReplicaSets, in the order of their writes."""


def total(sets: Iterable[ReplicaSet]) -> int:
    """Return the total number of Pods that ReplicaSets request."""
    return sum(each.replicas for each in sets)


def available(sets: Iterable[ReplicaSet]) -> int:
    """Return the number of available Pods that ReplicaSets keep: one that was scaled down may still report more."""
    return sum(min(each.status.available_replicas, each.replicas) for each in sets)


def new_size(deployment: Deployment, sets: Sequence[ReplicaSet], now: int) -> int:
    """Return the size to which the ReplicaSet of the current template may grow.

    Args:
        deployment: the Deployment.
        sets: all of its ReplicaSets.
        now: its current size.
    """
    wanted = deployment.spec.replicas
    if not deployment.rolling:
        return wanted
    room = wanted + deployment.surge - total(sets)
    return now if room <= 0 else now + min(room, wanted - now)


def grown(deployment: Deployment, new: ReplicaSet, sets: Sequence[ReplicaSet]) -> Sizes:
    """Return the new ReplicaSet's next size in a rolling update; empty: unchanged."""
    wanted = deployment.spec.replicas
    size = wanted if new.replicas > wanted else new_size(deployment, sets, new.replicas)
    return [] if size == new.replicas else [(new, size)]


def shrunk(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Sizes:
    """Return the next sizes of old ReplicaSets in a rolling update: unhealthy Pods are removed first."""
    if not total(old):
        return []
    everyone = [*old, *([new] if new else [])]
    needed = deployment.spec.replicas - deployment.unavailable
    missing = new.replicas - available([new]) if new else 0
    spare = total(everyone) - needed - missing
    if spare <= 0:
        return []
    sizes = {each.name: each.replicas for each in old}
    ordered = sorted(old, key=lambda each: each.age)
    for each in ordered:
        unhealthy = min(spare, sizes[each.name] - each.status.available_replicas)
        if sizes[each.name] and unhealthy > 0:
            sizes[each.name] -= unhealthy
            spare -= unhealthy
    spare = available(everyone) - needed
    for each in ordered:
        fewer = min(spare, sizes[each.name])
        if fewer > 0:
            sizes[each.name] -= fewer
            spare -= fewer
    return [(each, sizes[each.name]) for each in ordered if sizes[each.name] != each.replicas]


def scaled(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Sizes:
    """Return the sizes after the Deployment was scaled: proportional while several ReplicaSets have Pods."""
    wanted = deployment.spec.replicas
    everyone = [*old, *([new] if new else [])]
    active = [each for each in everyone if each.replicas > 0]
    if len(active) <= 1:
        single = active[0] if active else new or max(old, key=lambda each: each.age, default=None)
        return [] if single is None or single.replicas == wanted else [(single, wanted)]
    if new is not None and saturated(deployment, new):
        return [(each, 0) for each in old if each.replicas]
    if not deployment.rolling:
        return []
    allowed = wanted + deployment.surge if wanted else 0
    more = allowed - total(active)
    ordered = sorted(active, key=lambda each: each.age, reverse=more > 0)
    ordered.sort(key=lambda each: -each.replicas)
    sizes: Sizes = []
    added = 0
    for each in ordered:
        part = _proportion(each, deployment, more, added)
        added += part
        sizes.append((each, each.replicas + part))
    if more:
        first, size = sizes[0]
        sizes[0] = (first, max(size + more - added, 0))
    return sizes


def saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    """Return whether a single ReplicaSet has all Pods that the Deployment requests, and all are available."""
    wanted = deployment.spec.replicas
    desired = number(new.envelope, "deployment.kubernetes.io/desired-replicas")
    return new.replicas == wanted == desired == new.status.available_replicas


def _proportion(each: ReplicaSet, deployment: Deployment, more: int, added: int) -> int:
    if not each.replicas or not more or more == added:
        return 0
    part, left = _fraction(each, deployment), more - added
    return min(part, left) if more > 0 else max(part, left)


def _fraction(each: ReplicaSet, deployment: Deployment) -> int:
    if not deployment.spec.replicas:
        return -each.replicas
    most = deployment.spec.replicas + deployment.surge
    before = number(each.envelope, MAX_REPLICAS) or deployment.status.replicas
    if not before:
        return 0
    # Round halves up, with integers.
    return (2 * each.replicas * most + before) // (2 * before) - each.replicas

"""Divides the disruptions that a tenant's PodDisruptionBudget allows among the super clusters whose nodes are drained.

A super cluster's floor is the number of healthy Pods that evictions leave there. The super cluster itself enforces it, by
`minAvailable` of the copy of the budget. Floors are published in annotations of the tenant's budget, each write with the
resourceVersion of the budget that it was decided from. Three rules keep the sum of all healthy Pods at `desiredHealthy`:

* A published floor is never above `minAvailable` of the copy, nor above the healthy Pods that the super cluster's disruption
  controller has counted for that `minAvailable`.
* A floor is lowered in the tenant first. It may be lowered only if the sum of all floors remains at `desiredHealthy`.
* A floor is raised in the super cluster first.

So whoever reads the floors of others reads numbers that are enforced. It never matters how recent they are, and a floor
that is missing counts as 0. A floor is an absolute number: after an eviction the super cluster has one healthy Pod less, and
`minAvailable` forbids the next one by itself.

While no node is drained, nothing is published, and `minAvailable` of every copy is `CLOSED`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

CLOSED: Final = 2**31 - 1
"""`minAvailable` that allows no eviction, whatever number of Pods is healthy."""

TURN_SECONDS: Final = 30.0
"""Seconds for which one super cluster goes first, if several drain nodes and the budget does not suffice for all."""

_Count = Annotated[int, Meta(ge=0, le=CLOSED)]


class Claim(Struct, frozen=True, omit_defaults=True):
    """The publication of a super cluster about itself, in an annotation of the tenant's budget."""

    floor: _Count
    """Number of healthy Pods that evictions leave there."""
    generation: int
    """Generation of the tenant's budget that the floor was counted for. A claim for another one counts as missing."""
    draining: bool = False
    """Whether a node there is unschedulable and runs a Pod of the budget."""
    waiting: bool = False
    """Whether healthy Pods have to leave, the budget allows no eviction there at present, and others drain nodes, too."""


class Budget(Struct, frozen=True):
    """The tenant's budget, as the tenant's disruption controller has counted it for the present spec."""

    generation: int
    desired: int
    """`status.desiredHealthy`."""
    current: int
    """`status.currentHealthy`."""
    allowed: int
    """`status.disruptionsAllowed`."""
    pending: int = 0
    """Number of Pods that were evicted through the tenant's API and are not gone yet (`status.disruptedPods`)."""


class Copy(Struct, frozen=True):
    """The copy of the budget in this super cluster."""

    minimum: int
    """`spec.minAvailable`."""
    healthy: int | None
    """`status.currentHealthy`. None: the super cluster's disruption controller has not counted for the present spec."""


class Leaving(Struct, frozen=True):
    """The Pods of the budget on unschedulable nodes of this super cluster."""

    total: int = 0
    healthy: int = 0


class Step(Struct, frozen=True):
    """The state that both sides should have now. At most one of them differs from it."""

    minimum: int
    """`minAvailable` of the copy."""
    claim: Claim | None
    """The published claim of this super cluster; None: it has none."""
    reason: str = ""
    """Reason why Pods that have to leave must wait; "" if none must."""


def encode(claim: Claim) -> str:
    """Return the text of a claim's annotation."""
    return msgspec.json.encode(claim).decode()


def read(text: str) -> Claim | None:
    """Return a claim from an annotation's text. A tenant may write anything there: malformed text counts as missing."""
    try:
        return msgspec.json.decode(text, type=Claim)
    except (msgspec.DecodeError, RecursionError):
        return None


def decide(
    budget: Budget | None,
    copy: Copy,
    claims: Mapping[str, Claim],
    *,
    super_id: str,
    leaving: Leaving,
    turn: int,
) -> Step:
    """Return the next step of one super cluster.

    Args:
        budget: The tenant's budget. None: it has not been counted for its present spec.
        copy: Its copy here.
        claims: Super cluster id -> claim, of the super clusters with slices of the namespace, for the present generation.
        super_id: Id of this super cluster.
        leaving: The Pods that have to leave here.
        turn: Number of the present period of `TURN_SECONDS`.
    """
    mine = claims.get(super_id)
    others = {each: claim for each, claim in claims.items() if each != super_id}
    if budget is None:
        return Step(CLOSED, mine, "the tenant's control plane has not counted its Pods yet")
    if not leaving.total:
        return _without_drain(budget, copy, mine, others)
    rival = _rival(claims, super_id, turn)
    return _draining(budget, copy, mine, others, leaving=leaving, rival=rival)


def _draining(
    budget: Budget,
    copy: Copy,
    mine: Claim | None,
    others: Mapping[str, Claim],
    *,
    leaving: Leaving,
    rival: str,
) -> Step:
    """Return the step of a super cluster with Pods that have to leave a node.

    Args:
        budget: The tenant's budget.
        copy: Its copy here.
        mine: The published claim of this super cluster.
        others: The claims of the others.
        leaving: The Pods that have to leave here.
        rival: The super cluster whose turn it is, if it waits; otherwise "".
    """
    rest = sum(claim.floor for claim in others.values()) - budget.pending - budget.desired
    floor = mine.floor if mine is not None and mine.draining else None
    satisfied = floor is not None and budget.current >= budget.desired and rest + floor >= 0
    if not satisfied and copy.minimum != CLOSED:
        return Step(CLOSED, mine, "fewer Pods are healthy than it demands")
    if copy.healthy is None:
        return Step(copy.minimum, mine, "the super cluster has not counted its Pods yet")
    if rival and floor is not None and copy.healthy > floor and copy.minimum != CLOSED:
        return Step(CLOSED, mine, f"it is the turn of super cluster {rival}")
    # A closed copy guards all healthy Pods, so they all may be published.
    closed = copy.minimum == CLOSED and (rival or not satisfied)
    base = copy.healthy if closed or floor is None else min(floor, copy.healthy)
    usable = copy.healthy - base
    extra = 0
    if not rival and budget.current >= budget.desired:
        extra = max(0, min(leaving.healthy - usable, rest + base, budget.allowed - usable))
    blocked = leaving.healthy > 0 and usable + extra == 0
    # Only others who drain nodes need to know it.
    waiting = blocked and any(claim.draining for claim in others.values())
    claim = Claim(base - extra, budget.generation, draining=True, waiting=waiting)
    reason = _reason(budget, rival) if blocked else ""
    if claim != mine:
        return Step(copy.minimum, claim, reason)
    opens = satisfied and not (rival and copy.minimum == CLOSED)
    return Step(claim.floor if opens else CLOSED, claim, reason)


def _without_drain(budget: Budget, copy: Copy, mine: Claim | None, others: Mapping[str, Claim]) -> Step:
    """Return the step of a super cluster without drained nodes. It publishes its floor while another one drains."""
    if copy.minimum != CLOSED:
        return Step(CLOSED, mine)
    if not any(claim.draining for claim in others.values()):
        return Step(CLOSED, None)
    if copy.healthy is None:
        return Step(CLOSED, mine)
    return Step(CLOSED, Claim(copy.healthy, budget.generation) if copy.healthy else None)


def _rival(claims: Mapping[str, Claim], super_id: str, turn: int) -> str:
    """Return the super cluster whose turn it is, if it is another one and waits; otherwise ""."""
    draining = sorted({each for each, claim in claims.items() if claim.draining} | {super_id})
    first = draining[turn % len(draining)]
    return first if first != super_id and claims[first].waiting else ""


def _reason(budget: Budget, rival: str) -> str:
    if rival:
        return f"it is the turn of super cluster {rival}"
    if budget.current < budget.desired:
        return "fewer Pods are healthy than it demands"
    if not budget.allowed:
        return "it allows no disruption at present"
    return "the other super clusters have not told yet how many healthy Pods they keep"

"""Conditions of a namespace that is being deleted: its remaining contents. Pure.

Behaviour and messages: Kubernetes' `pkg/controller/namespace/deletion/status_condition_utils.go`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from vcsync.objects.conditions import Condition, find_condition

_FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


@dataclass(slots=True)
class Remains:
    """The result of emptying a namespace.

    Attributes:
        counts: number of remaining objects, by resource and group (`pods.`).
        finalizers: number of objects that each finalizer holds.
        seconds: time that the remaining objects may take; 0: no object needs time.
        discovery: reasons why resources are unknown.
        stale: unknown versions of groups.
        failures: failed deletions with reasons.
    """

    counts: dict[str, int] = field(default_factory=dict)
    finalizers: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    discovery: list[str] = field(default_factory=list)
    stale: tuple[str, ...] = ()
    failures: list[str] = field(default_factory=list)


def conditions(before: Sequence[Condition], remains: Remains, now: str) -> tuple[Condition, ...]:
    """Return a namespace's conditions after an attempt to empty it; conditions of others stay.

    Args:
        before: the current conditions.
        remains: the result of the attempt.
        now: RFC 3339 time for conditions whose status changes.
    """
    bad = _bad(remains)
    ours = []
    for type_, fine in _FINE.items():
        status = "True" if type_ in bad else "False"
        reason, message = bad.get(type_, fine)
        old = find_condition(tuple(before), type_)
        since = old.last_transition_time if old is not None and old.status == status else now
        ours.append(Condition(type_, status, reason, message, since))
    known = {each.type: each for each in ours}
    kept = [known.pop(each.type, each) for each in before]
    return (*kept, *known.values())


def _bad(remains: Remains) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    if remains.discovery:
        why = "; ".join(remains.discovery)
        if remains.stale:
            why = (
                f"Discovery failed for some groups, {len(remains.stale)} failing: "
                f"unable to retrieve the complete list of server APIs: {', '.join(remains.discovery)}"
            )
        found["NamespaceDeletionDiscoveryFailure"] = ("DiscoveryFailed", why)
    if remains.failures:
        why = ", ".join(sorted(remains.failures))
        found["NamespaceDeletionContentFailure"] = (
            "ContentDeletionFailed",
            f"Failed to delete all resource types, {len(remains.failures)} remaining: {why}",
        )
    # Unlike upstream, this is reported even while only Pods remain, so that users see the reason for the wait.
    if remains.counts:
        left = sorted(f"{name} has {count} resource instances" for name, count in remains.counts.items())
        found["NamespaceContentRemaining"] = (
            "SomeResourcesRemain",
            f"Some resources are remaining: {', '.join(left)}",
        )
    if remains.finalizers:
        held = sorted(f"{name} in {count} resource instances" for name, count in remains.finalizers.items())
        found["NamespaceFinalizersRemaining"] = (
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {', '.join(held)}",
        )
    return found

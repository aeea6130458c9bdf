"""What a namespace that is to go tells of what is still in it. Pure.

Behaviour and words: Kubernetes' `pkg/controller/namespace/deletion/status_condition_utils.go`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from vcsync.controllers.pods import Condition, condition

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
    """What emptying a namespace came to.

    Attributes:
        counts: how many objects are left, by resource and group (`pods.`).
        finalizers: how many objects each finalizer holds.
        seconds: how long what is left may take; 0: nothing is waited for.
        discovery: why resources are not known.
        stale: versions of groups that are not known.
        failures: what could not be deleted, and why.
    """

    counts: dict[str, int] = field(default_factory=dict)
    finalizers: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    discovery: list[str] = field(default_factory=list)
    stale: tuple[str, ...] = ()
    failures: list[str] = field(default_factory=list)


def conditions(before: Sequence[Condition], remains: Remains, now: str) -> tuple[Condition, ...]:
    """Return a namespace's conditions after an attempt to empty it; others than ours stay.

    Args:
        before: as they stand.
        remains: what the attempt came to.
        now: RFC 3339, for those whose status changes.
    """
    bad = _bad(remains)
    ours = []
    for type_, fine in _FINE.items():
        status = "True" if type_ in bad else "False"
        reason, message = bad.get(type_, fine)
        old = condition(tuple(before), type_)
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
    # Unlike upstream, while only Pods are waited for this is told as well: those who look should see why.
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

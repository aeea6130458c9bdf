"""Says what a decision on a namespace's slices is, to operators and to tenants. Pure."""

from collections.abc import Collection, Mapping

from vcsync.api.specs import Explanation
from vcsync.scheduling.place import Decision, SuperExplanation

_LONGEST_REASON = 1024  # characters of an explanation's reason


def message_of(decision: Decision, *, public: bool = False) -> str:
    """Return where slices are, and why some wait.

    Args:
        decision: the decision.
        public: whether the text is for the tenant; see `Decision.reasons`.
    """
    placed = ", ".join(f"{super_id}: {slices}" for super_id, slices in decision.placements.items()) or "none"
    total = sum(decision.placements.values()) + decision.waiting
    if not decision.waiting:
        return f"{total} slices placed ({placed})"
    return f"{decision.waiting} of {total} slices wait: {decision.reasons(public=public)}; placed: {placed}"


def moved(old: Mapping[str, int], decision: Decision, leaving: Collection[str]) -> str:
    """Return which slices have left lost super clusters, as the end of a message.

    Args:
        old: slices by super cluster before the decision.
        decision: the decision.
        leaving: the lost super clusters that the namespace may leave.
    """
    left = {
        super_id: slices - decision.placements.get(super_id, 0)
        for super_id, slices in sorted(old.items())
        if super_id in leaving and slices > decision.placements.get(super_id, 0)
    }
    return "".join(f"; {slices} moved from {super_id}, which is lost" for super_id, slices in left.items())


def explain(decision: Decision) -> tuple[Explanation, ...]:
    """Return the result for each super cluster, as the ledger shows it."""
    return tuple(
        [
            Explanation(
                super_cluster=entry.super_id,
                slices=entry.slices,
                refused_by=tuple([refusal.filter for refusal in (*decision.refusals, *entry.refusals)]),
                score=entry.score,
                reason=_reason(entry, decision),
            )
            for entry in decision.explanation
        ]
    )


def _reason(entry: SuperExplanation, decision: Decision) -> str:
    parts = []
    if entry.slices:
        parts.append(f"{entry.slices} slices, {entry.kept} of them as before")
    parts += [refusal.message for refusal in (*decision.refusals, *entry.refusals)]
    return "; ".join(parts)[:_LONGEST_REASON]


def refused(explanation: tuple[Explanation, ...]) -> dict[str, tuple[str, ...]]:
    """Return the filters that refused each super cluster."""
    return {entry.super_cluster: entry.refused_by for entry in explanation}

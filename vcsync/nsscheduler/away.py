"""Remembers in the ledger which slices have left lost super clusters, so that they can go back. Pure."""

from collections.abc import Collection, Mapping

from vcsync.api.specs import NamespacePlacementStatus


def slices_away(
    old: NamespacePlacementStatus,
    placements: Mapping[str, int],
    leaving: Collection[str],
    pool: Collection[str],
) -> dict[str, int]:
    """Return the slices that may go back to a super cluster after a decision, by its id.

    Slices that come to it again are no longer away, whatever the reason. A namespace has never more slices away than elsewhere.

    Args:
        old: the status before the decision.
        placements: super cluster -> number of slices after it.
        leaving: lost super clusters that the namespace may leave.
        pool: the super clusters that exist.
    """
    found = {}
    total = sum(placements.values())
    for super_id in sorted({*old.away, *leaving} & set(pool)):
        before, after = old.placements.get(super_id, 0), placements.get(super_id, 0)
        left = before - after if super_id in leaving or after > before else 0
        slices = min(old.away.get(super_id, 0) + left, total - after)
        if slices > 0:
            found[super_id] = slices
    return found

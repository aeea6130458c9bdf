"""Computes the progress of a drain: what is left, how fast it goes, and which namespaces cannot move. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from vcsync.api.objects import NamespacePlacement, to_wire
from vcsync.api.specs import MAX_BLOCKED, BlockedNamespace, DrainCount, DrainProgress

RATE_SECONDS: Final = 300.0
"""Length of the time over which the rate of a drain is measured."""
_LONGEST_REASON: Final = 1024

Key = tuple[str, str]
"""Cluster key and namespace."""


class Contents(Struct, frozen=True):
    """Numbers of things that tenants have on a super cluster.

    Attributes:
        namespaces: number of namespaces with slices or objects there.
        pods: number of Pods that have not ended.
        claims: number of claims with volumes.
        blocked: namespaces that cannot move at present, with the reasons.
    """

    namespaces: int
    pods: int
    claims: int
    blocked: Mapping[Key, str] = {}


class Rate:
    """Measures how many Pods leave."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._left: deque[tuple[float, int]] = deque()

    def note(self, now: float, there: int) -> None:
        """Note the number of Pods that are there.

        Args:
            now: monotonic seconds.
            there: the number. Pods that are added do not count against those that leave.
        """
        before = self._seen[-1][1] if self._seen else there
        self._seen.append((now, there))
        self._left.append((now, max(0, before - there)))
        while len(self._seen) > 1 and self._seen[1][0] <= now - RATE_SECONDS:
            self._seen.popleft()
            self._left.popleft()

    @property
    def per_hour(self) -> int:
        """The number of Pods that would leave in an hour; 0 before two notes."""
        if len(self._seen) < 2:
            return 0
        seconds = self._seen[-1][0] - self._seen[0][0]
        left = sum(count for _, count in list(self._left)[1:])
        return round(left * 3600 / seconds) if seconds > 0 else 0


def progress(before: DrainProgress | None, there: Contents, pods_per_hour: int, now: str) -> DrainProgress:
    """Return the progress of a drain.

    Args:
        before: the last progress, which may come from an earlier syncer; None at the beginning.
        there: what is there now.
        pods_per_hour: the rate.
        now: the current time in RFC 3339.
    """
    last = before if before is not None else DrainProgress(since=now)
    named = sorted(there.blocked.items())[:MAX_BLOCKED]
    return DrainProgress(
        since=last.since,
        namespaces=_count(last.namespaces, there.namespaces),
        pods=_count(last.pods, there.pods),
        claims=_count(last.claims, there.claims),
        pods_per_hour=pods_per_hour,
        blocked_namespaces=len(there.blocked),
        blocked=tuple(
            BlockedNamespace(tenant=tenant, namespace=namespace, reason=reason[:_LONGEST_REASON])
            for (tenant, namespace), reason in named
        ),
    )


def _count(before: DrainCount, left: int) -> DrainCount:
    return DrainCount(total=max(before.total, left), left=left)


def why_slices_stay(placement: NamespacePlacement, super_id: str) -> str:
    """Return why a namespace's slices on a draining super cluster cannot move; "" if their turn has only not come yet.

    Args:
        placement: the ledger's entry.
        super_id: the super cluster.
    """
    if placement.spec.pins.get(super_id):
        return f"slices are pinned to {super_id}: remove it from spec.pins of the NamespacePlacement"
    others = [each for each in placement.status.explanation if each.super_cluster != super_id]
    if not placement.status.explanation or not all(each.refused_by for each in others):
        return ""
    refused = "; ".join(
        f"{each.super_cluster}: {each.reason or ', '.join(each.refused_by)}" for each in others
    )
    return f"no other super cluster takes its slices: {refused or 'there is none'}"


def drain_patch(
    current: Mapping[str, DrainProgress], found: DrainProgress | None, shard: tuple[int, int]
) -> dict[str, Any] | None:
    """Return the merge patch for `status.drain`; None if nothing changes.

    The first shard removes the progress of an earlier number of shards.

    Args:
        current: the present progress of all shards.
        found: the progress of this shard; None if the super cluster does not drain.
        shard: (number, count) of this shard.
    """
    which, count = shard
    own = f"{which}/{count}"
    patch: dict[str, Any] = {}
    if found != current.get(own):
        patch[own] = to_wire(found) if found is not None else None
    if which == 1:
        patch |= {other: None for other in current if not other.endswith(f"/{count}")}
    return patch or None

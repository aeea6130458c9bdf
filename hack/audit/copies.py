"""A ledger of Pods' copies, which finds two of one Pod, or of one name, that may have run at the same moment.

A copy may run from its binding to a node until it is deleted or all its containers have ended. It does not run while its super
cluster is fenced, since its nodes are off then. Where a watch has a gap, only moments count at which a copy is known to have
existed, so each finding is certain. A tenant that changes vcsync's label on its own Pod moves it at once; that is left out.

No I/O. Moments are resource versions: API servers on the same etcd share them, so that they order events of several clusters.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hack.audit import keys
from hack.audit.deletions import NEVER, Interval, Moment
from hack.audit.findings import Finding
from hack.audit.world import Json, annotations, labels, place, uid

ENDED = ("Succeeded", "Failed")
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")

Name = tuple[str, str, str]
"""Cluster key of the tenant, namespace and name of its Pod."""


@dataclass
class _Copy:
    """A copy that has got a node."""

    super_id: str
    uid: str
    source: str
    """UID of the tenant's Pod."""
    first: Moment
    """The earliest moment at which it is known to have had a node."""
    last: Moment = NEVER
    """The latest moment at which it is known to have been there and not to have ended. `NEVER`: it still is."""


class Copies:
    """Records the Pods of all super clusters, and finds those that may have run twice."""

    def __init__(self) -> None:
        self._by_uid: dict[tuple[str, str], _Copy] = {}
        """(super cluster, UID of the copy) -> the copy."""
        self._by_name: dict[Name, list[_Copy]] = {}
        self._fences: dict[str, list[Interval]] = {}
        """Super cluster -> the first and the last moment of each fence. `NEVER`: it still holds."""
        self._moved: set[str] = set()
        """UIDs of Pods whose label their tenant has changed while they had no node."""

    def tenant_has(self, found: Json) -> None:
        """Record that a Pod exists in a tenant.

        The Pod scheduler writes label and annotation together, so a label that differs is the tenant's.
        """
        decided = annotations(found).get(keys.SUPER_CLUSTER)
        if decided and labels(found).get(keys.SUPER_CLUSTER) != decided and not _has_node(found):
            self._moved.add(uid(found))

    def super_has(self, super_id: str, found: Json, at: Moment, before: Moment) -> None:
        """Record that a Pod exists in a super cluster.

        Args:
            super_id: the super cluster.
            found: the Pod.
            at: its resource version.
            before: the latest moment at which it is known to have been as it was recorded last.
        """
        origin = annotations(found)
        tenant, source = origin.get(keys.CLUSTER), origin.get(keys.UID)
        if not tenant or not source or not _has_node(found):
            return
        identity = uid(found)
        copy = self._by_uid.get((super_id, identity))
        if copy is None:
            copy = self._by_uid[super_id, identity] = _Copy(super_id, identity, source, at)
            name = (tenant, origin.get(keys.NAMESPACE, ""), place(found)[1])
            self._by_name.setdefault(name, []).append(copy)
            before = at - 1
        if copy.last == NEVER and has_ended(found):
            copy.last = before

    def super_lost(self, super_id: str, found: Json, before: Moment) -> None:
        """Record that a super cluster does not have a Pod any more.

        Args:
            super_id: the super cluster.
            found: the Pod as it was recorded last.
            before: the latest moment at which it is known to have existed.
        """
        copy = self._by_uid.get((super_id, uid(found)))
        if copy is not None:
            copy.last = min(copy.last, before)

    def super_is(self, super_id: str, *, fenced: bool, at: Moment, before: Moment) -> None:
        """Record whether a super cluster is fenced.

        Args:
            super_id: the super cluster.
            fenced: whether it is.
            at: the latest moment at which that may have begun.
            before: the latest moment at which the opposite may have been recorded.
        """
        fences = self._fences.setdefault(super_id, [])
        holds = bool(fences) and fences[-1][1] == NEVER
        if fenced and not holds:
            fences.append((before + 1, NEVER))
        elif holds and not fenced:
            fences[-1] = (fences[-1][0], at)

    def judged(self) -> int:
        """Return the number of copies that have had a node."""
        return len(self._by_uid)

    def twice(self) -> Iterator[Finding]:
        """Yield each two copies of one Pod, or of one name, that may have run in two super clusters at the same moment."""
        for name, copies in self._by_name.items():
            kept = [copy for copy in copies if copy.source not in self._moved]
            spans = sorted(
                ((span, copy) for copy in kept for span in self._spans(copy)), key=lambda each: each[0]
            )
            found = set[tuple[str, str]]()
            for position, ((first, last), copy) in enumerate(spans):
                for (begins, ends), other in spans[position + 1 :]:
                    if begins > last:
                        break
                    pair = (copy.uid, other.uid)
                    if copy.super_id != other.super_id and pair not in found:
                        found.add(pair)
                        yield _finding(name, copy, other, (max(first, begins), min(last, ends)))

    def _spans(self, copy: _Copy) -> Iterator[Interval]:
        """Yield the times in which a copy may have run, without those in which its super cluster was fenced."""
        first = copy.first
        for begins, ends in self._fences.get(copy.super_id, ()):
            if first <= min(begins - 1, copy.last):
                yield first, min(begins - 1, copy.last)
            first = max(first, ends + 1)
        if first <= copy.last:
            yield first, copy.last


def _has_node(pod: Json) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName"))


def has_ended(pod: Json) -> bool:
    """Return whether no container of a Pod runs, and none will.

    A Pod may be marked as failed while its containers run, by whoever does not hear from its node.
    """
    status: Json = pod.get("status") or {}
    containers: list[Any] = [each for kind in _STATUSES for each in status.get(kind) or ()]
    return status.get("phase") in ENDED and not any(
        "running" in (each.get("state") or {}) for each in containers
    )


def _finding(name: Name, one: _Copy, other: _Copy, span: Interval) -> Finding:
    tenant, namespace, pod = name
    same = one.source == other.source
    first, last = span
    until = "the end" if last == NEVER else last
    return Finding(
        "twice",
        tenant,
        f"{one.super_id}, {other.super_id}",
        "pods",
        namespace,
        pod,
        "metadata.uid" if same else "metadata.name",
        "one copy at a time",
        f"{one.source if same else f'{one.source} and {other.source}'} from {first} to {until}",
    )

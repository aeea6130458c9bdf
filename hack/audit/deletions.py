"""A ledger of deletions, which finds those in super clusters that have no cause.

A cause is an earlier deletion by the tenant, a deleted namespace, a lost placement, or a Pod without a node whose label was
changed or which was taken back.

No I/O. Moments are resource versions: API servers on the same etcd share them, so that they order events of several clusters.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from hack.audit import keys
from hack.audit.findings import Finding
from hack.audit.world import Json, Placement, annotations, deleting, labels, parse_json, place, uid

KINDS = (
    "namespaces",
    "pods",
    "configmaps",
    "secrets",
    "serviceaccounts",
    "services",
    "endpoints",
    "persistentvolumeclaims",
)
"""Kinds that are synced downward. A kind comes before the kinds whose deletion its own deletion causes."""

Moment = int
Interval = tuple[Moment, Moment]
"""The earliest and the latest possible moment of an event that was seen only later; or the first and the last of a state."""
NEVER: Moment = sys.maxsize


@dataclass(frozen=True)
class _Copy:
    """An object of a super cluster, and its source in a tenant."""

    tenant: str
    source: str
    """UID of the tenant's object."""
    source_namespace: str
    since: Moment


@dataclass(frozen=True)
class _Deletion:
    super_id: str
    kind: str
    namespace: str
    name: str
    copy: _Copy
    at: Moment


class Deletions:
    """Records events of tenants, super clusters and the meta cluster, and judges the deletions at the end."""

    def __init__(self) -> None:
        self._sources: dict[tuple[str, str], Moment] = {}
        """(tenant, UID) -> when the object was first seen."""
        self._ended: dict[tuple[str, str], Moment] = {}
        """(tenant, UID) -> earliest possible moment at which its deletion was requested."""
        self._labels: dict[tuple[str, str], list[tuple[Moment, str | None]]] = {}
        """(tenant, UID of a Pod) -> (moment, super cluster that its label names since then). None: the Pod is bound."""
        self._taken_back: dict[tuple[str, str, str], Moment] = {}
        """(tenant, UID of a Pod, super cluster) -> when it was first seen to be taken back from there."""
        self._finished: dict[tuple[str, str], list[Moment]] = {}
        """(tenant, name of a namespace) -> moments at which it was deleted."""
        self._selecting: dict[tuple[str, str, str], dict[str, Moment]] = {}
        """(tenant, namespace, name) -> UID of a Service with a selector -> when the selector was first seen."""
        self._placed: dict[tuple[str, str], list[tuple[Moment, frozenset[str]]]] = {}
        """(tenant, namespace) -> (moment, super clusters with slices of it since then)."""
        self._copies: dict[tuple[str, str, str], _Copy] = {}
        """(super cluster, kind, UID) -> the copy."""
        self._namespace_deletions: dict[tuple[str, str], list[Interval]] = {}
        """(super cluster, super namespace) -> when it was deleted, each time."""
        self._service_deletions: dict[tuple[str, str, str], list[Interval]] = {}
        """(super cluster, super namespace, name of a Service) -> when it was deleted, each time."""
        self._services: dict[tuple[str, str, str], list[Interval]] = {}
        """(super cluster, super namespace, name of a Service) -> when it existed, each time. `NEVER`: it still exists."""
        self._deletions: list[_Deletion] = []

    # --- events of tenants

    def tenant_has(self, tenant: str, kind: str, found: Json, at: Moment) -> None:
        """Record that an object exists in a tenant, or is being deleted there.

        Args:
            tenant: cluster key.
            kind: plural.
            found: the object.
            at: its resource version.
        """
        self._sources.setdefault((tenant, uid(found)), at)
        if kind == "pods":
            bound = bool((found.get("spec") or {}).get("nodeName"))
            label = labels(found).get(keys.SUPER_CLUSTER, "") if not bound else None
            self._labels.setdefault((tenant, uid(found)), []).append((at, label))
            for super_id in () if bound else _taken_back_from(found):
                self._taken_back.setdefault((tenant, uid(found), super_id), at)
        if kind == "services" and found.get("spec", {}).get("selector"):
            self._selecting.setdefault((tenant, *place(found)), {}).setdefault(uid(found), at)
        if deleting(found):
            self.tenant_lost(tenant, kind, found, at)

    def tenant_lost(self, tenant: str, kind: str, found: Json, at: Moment) -> None:
        """Record that a tenant's object was deleted.

        Args:
            tenant: cluster key.
            kind: plural.
            found: the object before its deletion.
            at: the earliest possible moment of the deletion.
        """
        known = (tenant, uid(found)) in self._ended
        self._ended.setdefault((tenant, uid(found)), at)
        if kind == "namespaces" and not known:
            self._finished.setdefault((tenant, place(found)[1]), []).append(at)

    # --- decisions of the namespace scheduler

    def placed(self, line: Placement, at: Moment) -> None:
        """Record in which super clusters a namespace has slices from this moment."""
        supers = frozenset(() if deleting(line.ledger) else line.slices)
        self._placed.setdefault((line.tenant, line.namespace), []).append((at, supers))

    def unplaced(self, tenant: str, namespace: str, at: Moment) -> None:
        """Record that the placement of a namespace was deleted."""
        self._placed.setdefault((tenant, namespace), []).append((at, frozenset()))

    # --- events of super clusters

    def super_has(self, super_id: str, kind: str, found: Json, at: Moment) -> None:
        """Record that an object exists in a super cluster, or is being deleted there."""
        origin = annotations(found)
        tenant, source = origin.get(keys.CLUSTER), origin.get(keys.UID)
        if not tenant or not source or not _is_copy(kind, found):
            return
        key = (super_id, kind, uid(found))
        if deleting(found):
            self.super_lost(super_id, kind, found, at)
        elif key not in self._copies or self._copies[key].source != source:
            self._copies[key] = _Copy(tenant, source, origin.get(keys.NAMESPACE, ""), at)
            if kind == "services":
                self._services.setdefault((super_id, *place(found)), []).append((at, NEVER))

    def super_lost(
        self, super_id: str, kind: str, found: Json, at: Moment, since: Moment | None = None
    ) -> None:
        """Record that an object was deleted in a super cluster.

        Args:
            super_id: the super cluster.
            kind: plural.
            found: the object before its deletion.
            at: the latest possible moment of the deletion.
            since: the earliest one; None: equal to `at`. The deletion may cause others from this moment on.
        """
        copy = self._copies.pop((super_id, kind, uid(found)), None)
        if copy is None:
            return
        namespace, name = place(found)
        cause = (at if since is None else since, at)
        if kind == "namespaces":
            self._namespace_deletions.setdefault((super_id, name), []).append(cause)
        if kind == "services":
            self._service_deletions.setdefault((super_id, namespace, name), []).append(cause)
            spans = self._services[super_id, namespace, name]
            spans[-1] = (spans[-1][0], cause[0])
        self._deletions.append(_Deletion(super_id, kind, namespace, name, copy, at))

    def super_forgot(self, super_id: str, kind: str, found: Json) -> None:
        """Record that a super cluster lost an object by an injected fault, which is not a deletion."""
        self._copies.pop((super_id, kind, uid(found)), None)

    # --- the judgement

    def judged(self) -> dict[str, int]:
        """Return kind -> number of recorded deletions in super clusters."""
        return dict(Counter(deletion.kind for deletion in self._deletions))

    def without_cause(self) -> Iterator[Finding]:
        """Yield each deletion in a super cluster that has no cause before it."""
        for deletion in self._deletions:
            copy = deletion.copy
            if not self._has_cause(deletion):
                where = (deletion.super_id, deletion.kind, deletion.namespace, deletion.name)
                expected = f"a deletion of {copy.source} in the tenant before it"
                actual = f"deleted at {deletion.at}"
                yield Finding("deleted", copy.tenant, *where, "", expected, actual)

    def _has_cause(self, deletion: _Deletion) -> bool:
        copy, at = deletion.copy, deletion.at
        source = (copy.tenant, copy.source)
        if source not in self._sources:
            # The tenant never had the source: the copy comes from a state that was never stored.
            return True
        if self._ended.get(source, at + 1) <= at:
            return True
        namespace = (copy.tenant, copy.source_namespace)
        created = min(self._sources[source], copy.since)
        if any(created <= moment <= at for moment in self._finished.get(namespace, ())):
            return True
        if not self._placed_throughout(namespace, deletion.super_id, copy.since, at) or (
            deletion.kind == "pods"
            and (self._label_moved(source, deletion) or self._was_taken_back(source, deletion))
        ):
            return True
        if deletion.kind == "endpoints" and (
            self._has_selector(deletion)
            or self._service_deleted(deletion, created)
            or not self._service_exists(deletion)
        ):
            return True
        # The deletion of a super namespace, which is judged by itself, deletes all objects in it.
        namespace_deletions = self._namespace_deletions.get((deletion.super_id, deletion.namespace), ())
        return any(first <= at and copy.since <= last for first, last in namespace_deletions)

    def _label_moved(self, pod: tuple[str, str], deletion: _Deletion) -> bool:
        """Return whether the Pod's label named another super cluster after it had named this one.

        The tenant can write the label. The syncer then deletes the copy of a Pod that is not bound, and the Pod scheduler
        decides again.
        """
        history = [(moment, label) for moment, label in self._labels.get(pod, ()) if moment <= deletion.at]
        here = min((moment for moment, label in history if label == deletion.super_id), default=NEVER)
        return any(label not in (None, deletion.super_id) for moment, label in history if moment > here)

    def _was_taken_back(self, pod: tuple[str, str], deletion: _Deletion) -> bool:
        """Return whether the Pod scheduler had taken the Pod back from this super cluster before it had a node."""
        return self._taken_back.get((*pod, deletion.super_id), NEVER) <= deletion.at

    def _has_selector(self, deletion: _Deletion) -> bool:
        """Return whether the tenant's Service had a selector: the syncer leaves its Endpoints to the super cluster."""
        copy = deletion.copy
        services = self._selecting.get((copy.tenant, copy.source_namespace, deletion.name), {})
        return any(
            since <= deletion.at and copy.since <= self._ended.get((copy.tenant, service), deletion.at)
            for service, since in services.items()
        )

    def _service_deleted(self, deletion: _Deletion, created: Moment) -> bool:
        """Return whether the Service was deleted in the super cluster.

        kube-controller-manager then deletes its Endpoints, perhaps after the syncer has created them again.
        """
        service = (deletion.super_id, deletion.namespace, deletion.name)
        intervals = self._service_deletions.get(service, ())
        return any(first <= deletion.at and created <= last for first, last in intervals)

    def _service_exists(self, deletion: _Deletion) -> bool:
        """Return whether the super cluster had the Service when the Endpoints were deleted.

        kube-controller-manager deletes Endpoints by name if it finds no Service of that name, for instance late after the
        deletion of an earlier one. The syncer may create the Endpoints before the Service.
        """
        spans = self._services.get((deletion.super_id, deletion.namespace, deletion.name), ())
        return any(first <= deletion.at <= last for first, last in spans)

    def _placed_throughout(
        self, namespace: tuple[str, str], super_id: str, since: Moment, until: Moment
    ) -> bool:
        history = self._placed.get(namespace, [])
        before = [supers for moment, supers in history if moment <= since]
        during = [supers for moment, supers in history if since < moment <= until]
        return bool(before) and all(super_id in supers for supers in (before[-1], *during))


def _is_copy(kind: str, found: Json) -> bool:
    return kind in KINDS and not (kind == "secrets" and place(found)[1].startswith(keys.TOKEN_SECRET))


def _taken_back_from(pod: Json) -> Iterator[str]:
    """Yield the super clusters from which the Pod scheduler has taken a Pod back."""
    for key, text in annotations(pod).items():
        said = parse_json(text) if key.startswith(keys.REFUSAL) else None
        if isinstance(said, dict) and said.get("state") in ("withdrawn", "returned"):
            yield key.removeprefix(keys.REFUSAL)

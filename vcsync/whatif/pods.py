"""Counts the Pods of a tenant on super clusters, as far as answers about lost ones depend on them. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vcsync.api import names
from vcsync.objects.envelope import Envelope
from vcsync.objects.quantity import InvalidQuantity
from vcsync.scheduling.failover import slices_of_claims
from vcsync.scheduling.pods import PodNeeds, pod_needs
from vcsync.scheduling.resources import from_quantities
from vcsync.whatif.snapshot import NamespaceState, PodCounts, Snapshot

_STATEFUL_SET = "StatefulSet"


class _There(Struct):
    """Counts of one namespace's Pods and claims on one super cluster.

    Attributes:
        pods: all Pods.
        of_stateful_sets: Pods of StatefulSets without claims.
        needs: those of the Pods with claims.
        claims: PersistentVolumeClaims.
    """

    pods: int = 0
    of_stateful_sets: int = 0
    needs: list[PodNeeds] = []
    claims: int = 0


class TenantPods:
    """Counts of a tenant's unfinished Pods and of its claims, by namespace and super cluster.

    Labels are the tenant's. A wrong one concerns its own slices only.
    """

    def __init__(self) -> None:
        self._places: defaultdict[tuple[str, str], _There] = defaultdict(_There)

    def add_pods(self, pods: Iterable[Envelope]) -> None:
        """Count Pods."""
        for pod in pods:
            try:
                needs = pod_needs(pod.spec, pod.name)
            except (msgspec.ValidationError, InvalidQuantity):
                continue  # it runs nowhere
            there = self._place(pod)
            there.pods += 1
            if needs.claims:
                there.needs.append(needs)
            elif any(owner.controller and owner.kind == _STATEFUL_SET for owner in pod.owners):
                there.of_stateful_sets += 1

    def add_claims(self, claims: Iterable[Envelope]) -> None:
        """Count PersistentVolumeClaims."""
        for claim in claims:
            self._place(claim).claims += 1

    def counts(self, namespace: NamespaceState) -> dict[str, PodCounts]:
        """Return the counts of a namespace, by the super clusters on which it has slices."""
        size = from_quantities(namespace.placed_slice_size or namespace.slice_size)
        counts = {}
        for super_id, slices in namespace.placements.items():
            there = self._places.get((namespace.name, super_id))
            if slices and there is not None:
                counts[super_id] = PodCounts(
                    pods=there.pods,
                    with_claims=len(there.needs),
                    of_stateful_sets=there.of_stateful_sets,
                    slices=slices_of_claims(there.needs, size) if there.claims else 0,
                )
        return counts

    def _place(self, found: Envelope) -> _There:
        return self._places[found.namespace, found.labels.get(names.SUPER_CLUSTER, "")]


def with_pods(snapshot: Snapshot, found: Mapping[str, TenantPods]) -> Snapshot:
    """Return a snapshot with the Pods of some tenants.

    Args:
        snapshot: the snapshot.
        found: cluster key -> the Pods of a tenant.
    """
    return replace(
        snapshot,
        tenants=tuple(
            replace(each, pods_known=True) if each.key in found else each for each in snapshot.tenants
        ),
        namespaces=tuple(
            replace(each, pods=found[each.tenant].counts(each)) if each.tenant in found else each
            for each in snapshot.namespaces
        ),
    )

"""Counts the Pods of a tenant on super clusters, as far as answers about lost ones depend on them. Pure."""

from collections import defaultdict
from collections.abc import Mapping

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


class TenantPods(Struct, frozen=True):
    """The unfinished Pods of a tenant with a super cluster, and its claims with one.

    Attributes:
        pods: the Pods, of all namespaces.
        claims: the PersistentVolumeClaims.
    """

    pods: tuple[Envelope, ...]
    claims: tuple[Envelope, ...]


class _There(Struct):
    """Pods and claims of one namespace on one super cluster; `stateful`: whether the Pod belongs to a StatefulSet."""

    pods: list[tuple[PodNeeds, bool]]
    claims: int = 0


def with_pods(snapshot: Snapshot, found: Mapping[str, TenantPods]) -> Snapshot:
    """Return a snapshot with the Pods of some tenants.

    Args:
        snapshot: the snapshot.
        found: cluster key -> the Pods of a tenant.
    """
    there = {key: _by_place(each) for key, each in found.items()}
    return replace(
        snapshot,
        tenants=tuple(
            replace(each, pods_known=True) if each.key in found else each for each in snapshot.tenants
        ),
        namespaces=tuple(
            replace(each, pods=_counts(each, there[each.tenant])) if each.tenant in there else each
            for each in snapshot.namespaces
        ),
    )


def _by_place(found: TenantPods) -> dict[tuple[str, str], _There]:
    """Return Pods and claims by namespace and super cluster.

    Labels are the tenant's. A wrong one concerns its own slices only.
    """
    places: defaultdict[tuple[str, str], _There] = defaultdict(lambda: _There([]))
    for pod in found.pods:
        try:
            needs = pod_needs(pod.spec, pod.name)
        except (msgspec.ValidationError, InvalidQuantity):
            continue  # it runs nowhere
        stateful = any(owner.controller and owner.kind == _STATEFUL_SET for owner in pod.owners)
        places[pod.namespace, pod.labels.get(names.SUPER_CLUSTER, "")].pods.append((needs, stateful))
    for claim in found.claims:
        places[claim.namespace, claim.labels.get(names.SUPER_CLUSTER, "")].claims += 1
    return places


def _counts(namespace: NamespaceState, places: Mapping[tuple[str, str], _There]) -> dict[str, PodCounts]:
    size = from_quantities(namespace.placed_slice_size or namespace.slice_size)
    counts = {}
    for super_id, slices in namespace.placements.items():
        there = places.get((namespace.name, super_id))
        if not slices or there is None:
            continue
        counts[super_id] = PodCounts(
            pods=len(there.pods),
            with_claims=sum(bool(needs.claims) for needs, _ in there.pods),
            of_stateful_sets=sum(stateful and not needs.claims for needs, stateful in there.pods),
            slices=slices_of_claims((needs for needs, _ in there.pods), size) if there.claims else 0,
        )
    return counts

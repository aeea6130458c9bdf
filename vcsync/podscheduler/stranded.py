"""Finds the Pods on a lost super cluster that have to leave it, and those whose end an operator has confirmed. Pure."""

from collections.abc import Callable, Iterable, Mapping

from vcsync.podscheduler.pods import Pod
from vcsync.scheduling.shares import Share


def stranded(pods: Iterable[Pod], super_id: str, capacity: Mapping[str, Mapping[str, int]]) -> list[Pod]:
    """Return the Pods on a super cluster that have no part in the slices which their namespaces still have there.

    Pods with claims stay first, so that others leave before them. Pods that are being deleted have left. Those of fixed names
    that have no node yet are left out, since they wait.

    Args:
        pods: a tenant's Pods.
        super_id: the super cluster.
        capacity: namespace -> amounts of its slices there; namespaces without slices there are missing.
    """
    shares: dict[str, Share] = {}
    found = []
    there = [pod for pod in pods if pod.is_evicted_from(super_id) and not pod.deleting]
    for pod in sorted(there, key=lambda pod: (not pod.needs.claims, pod.key)):
        if pod.namespace not in capacity:
            found.append(pod)
            continue
        share = shares.setdefault(pod.namespace, Share(super_id, dict(capacity[pod.namespace]), {}))
        if share.fits(pod.needs.requests):
            share.charge(pod.needs.requests)
        else:
            found.append(pod)
    return found


def replaceable(pods: Iterable[Pod], super_id: str, room: Callable[[str], list[Share]]) -> list[Pod]:
    """Return the Pods without claims on a super cluster for which their namespaces have room elsewhere.

    Args:
        pods: Pods of a tenant that may stay.
        super_id: the super cluster.
        room: returns the shares of a namespace elsewhere, which are charged with the Pods.
    """
    shares: dict[str, list[Share]] = {}
    found = []
    for pod in sorted(pods, key=lambda pod: pod.key):
        if not pod.is_evicted_from(super_id) or pod.deleting or pod.needs.claims:
            continue
        if pod.namespace not in shares:
            shares[pod.namespace] = room(pod.namespace)
        for share in shares[pod.namespace]:
            if pod.needs.accepts(share.super_id) and share.fits(pod.needs.requests):
                share.charge(pod.needs.requests)
                found.append(pod)
                break
    return found


def confirmed(pods: Iterable[Pod], super_id: str) -> list[Pod]:
    """Return the Pods that are being deleted on a super cluster on which nothing runs any more."""
    return [pod for pod in pods if pod.bound_to == super_id and pod.deleting]

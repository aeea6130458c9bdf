"""Counts the slices that a namespace's Pods with claims need on one super cluster, by live reads of the tenant."""

from collections.abc import Iterable, Iterator

import msgspec

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.long_lists import take_pages
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from vcsync.objects.envelope import Envelope
from vcsync.objects.quantity import InvalidQuantity
from vcsync.scheduling.failover import slices_of_claims
from vcsync.scheduling.pods import PodNeeds, pod_needs
from vcsync.scheduling.resources import Resources

MOST_PAGES = 200
"""Most pages of 500 Pods that are read of a namespace. The slices of one with more stay."""
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


async def stateful_slices(client: Client, namespace: str, super_id: str, size: Resources) -> int:
    """Return the number of slices, at least one if the super cluster has a claim of the namespace.

    Labels of Pods and claims are the tenant's. A wrong one concerns its own slices only.

    Raises:
        KubeError: the tenant's control plane refused or did not answer, or its list does not end.
    """
    selector = f"{names.SUPER_CLUSTER}={super_id}"
    claims = await client.list(
        PERSISTENT_VOLUME_CLAIMS, namespace, label_selector=selector, limit=1, most_pages=1
    )
    if not claims:
        return 0
    needs: list[PodNeeds] = []
    pages = client.pages(PODS, namespace, label_selector=selector, field_selector=_UNFINISHED)
    await take_pages(pages, lambda pods: needs.extend(_with_claims(pods)), MOST_PAGES)
    return slices_of_claims(needs, size)


def _with_claims(pods: Iterable[Envelope]) -> Iterator[PodNeeds]:
    for pod in pods:
        try:
            needs = pod_needs(pod.spec, pod.name)
        except (msgspec.ValidationError, InvalidQuantity):
            continue  # it runs nowhere
        if needs.claims:
            yield needs

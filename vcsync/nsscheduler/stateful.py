"""Counts the slices that a namespace's Pods with claims need on one super cluster, by live reads of the tenant."""

import msgspec

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from vcsync.objects.quantity import InvalidQuantity
from vcsync.scheduling.failover import slices_of_claims
from vcsync.scheduling.pods import pod_needs
from vcsync.scheduling.resources import Resources

_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


async def stateful_slices(client: Client, namespace: str, super_id: str, size: Resources) -> int:
    """Return the number of slices, at least one if the super cluster has a claim of the namespace.

    Labels of Pods and claims are the tenant's. A wrong one concerns its own slices only.

    Raises:
        KubeError: the tenant's control plane refused or did not answer.
    """
    selector = f"{names.SUPER_CLUSTER}={super_id}"
    claims = await client.list(PERSISTENT_VOLUME_CLAIMS, namespace, label_selector=selector)
    if not claims:
        return 0
    needs = []
    for pod in await client.list(PODS, namespace, label_selector=selector, field_selector=_UNFINISHED):
        try:
            needs.append(pod_needs(pod.spec, pod.name))
        except (msgspec.ValidationError, InvalidQuantity):
            continue  # it runs nowhere
    return slices_of_claims(needs, size)

"""Frees the names of a tenant's Pods when the tenant has left the pool, and nobody has copies of them any more."""

from vcsync.api.names import COPY_FINALIZER, SUPER_CLUSTER
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, NotFound
from vcsync.kube.resources import PODS

MOST_LISTS = 10
"""Lists after which Pods that change all the time are left alone."""


async def free_names(control_plane: Client) -> int:
    """Remove vcsync's finalizer from all Pods of a tenant. Return the number of Pods.

    Args:
        control_plane: client of the tenant's control plane, as its administrator.

    Raises:
        KubeError: the control plane refused, or did not answer.
    """
    freed = 0
    for _ in range(MOST_LISTS):
        changed = False
        async for page in control_plane.pages(PODS, label_selector=SUPER_CLUSTER):
            for pod in page.items:
                if COPY_FINALIZER not in pod.finalizers:
                    continue
                left = [each for each in pod.finalizers if each != COPY_FINALIZER]
                patch = {
                    "metadata": {"uid": pod.uid, "resourceVersion": pod.resource_version, "finalizers": left}
                }
                try:
                    await control_plane.patch(PODS, pod.name, patch, pod.namespace)
                except NotFound:
                    continue
                except Conflict:
                    changed = True
                    continue
                freed += 1
        if not changed:
            break
    return freed

"""Protects volumes and claims in use from deletion.

Behaviour: Kubernetes' `pkg/controller/volume/{pvcprotection,pvprotection}`.
"""

from collections.abc import Iterable
from typing import Any

from vcsync.controllers.framework import pods
from vcsync.controllers.framework.event_handlers import own
from vcsync.controllers.framework.mirror import Key, namespace_of
from vcsync.controllers.framework.plan import NOTHING, Controller, Patch, Plan, View, Watch
from vcsync.controllers.framework.worker import ReconcileContext, Worker
from vcsync.controllers.volumes.objects import volume_of
from vcsync.controllers.volumes.users import claims_used, is_used
from vcsync.kube.cache import Change
from vcsync.kube.client import PatchKind
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from vcsync.objects.envelope import Envelope

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


def finalizer_change(
    there: Envelope, finalizer: str, *, used: bool
) -> tuple[dict[str, Any], PatchKind] | None:
    """Return the patch that adds or removes a finalizer, and its kind; None: the finalizer does not change."""
    if there.deleting:
        if used or finalizer not in there.finalizers:
            return None
        return {
            "metadata": {"uid": there.uid, "$deleteFromPrimitiveList/finalizers": [finalizer]}
        }, "strategic"
    if finalizer in there.finalizers:
        return None
    metadata = {
        "uid": there.uid,
        "resourceVersion": there.resource_version,
        "finalizers": [*there.finalizers, finalizer],
    }
    return {"metadata": metadata}, "merge"


async def protect_claim(context: ReconcileContext, key: Key) -> float | None:
    """Protect a claim while a Pod with a node uses it. The API server must confirm that no Pod uses it.

    Raises:
        KubeError: a read or write failed.
    """
    claim = context.view.of[PERSISTENT_VOLUME_CLAIMS].get(*key)
    if claim is None:
        return None
    used = claim.deleting and _used(context.view.of[PODS].within(key.tenant, key.namespace), claim)
    change = finalizer_change(claim, CLAIM_FINALIZER, used=used)
    if change is None:
        return None
    if claim.deleting and _used(await context.client.list(PODS, key.namespace), claim):
        return None
    patch, kind = change
    try:
        await context.client.patch(PERSISTENT_VOLUME_CLAIMS, key.name, patch, key.namespace, kind=kind)
    except NotFound:
        return None
    return None


def _used(everyone: Iterable[Envelope], claim: Envelope) -> bool:
    return any(pods.spec(pod).node_name and is_used(pod, claim) for pod in everyone)


def _of_pod(change: Change, view: View) -> Iterable[Key]:
    """Return the claims of a Pod that is gone, has finished, or was replaced."""
    keys: dict[Key, None] = {}
    for pod in (change.old, change.new):
        if pod is not None:
            keys |= {Key(pod.tenant, namespace_of(pod), name): None for name in claims_used(pod)}
    claims = view.of[PERSISTENT_VOLUME_CLAIMS]
    return [key for key in keys if (claim := claims.get(*key)) is not None and claim.deleting]


def plan_volume(view: View, key: Key) -> Plan:
    """Protect a volume while it is bound."""
    volume = view.of[PERSISTENT_VOLUMES].get(*key)
    change = (
        None
        if volume is None
        else finalizer_change(volume, VOLUME_FINALIZER, used=volume_of(volume).status.phase == "Bound")
    )
    if change is None:
        return NOTHING
    patch, kind = change
    return Plan([[Patch(PERSISTENT_VOLUMES, "", key.name, patch, kind)]])


VOLUME_CLAIM_PROTECTION = Worker(
    "persistentvolumeclaim-protection-controller",
    (Watch(PERSISTENT_VOLUME_CLAIMS, own), Watch(PODS, _of_pod)),
    protect_claim,
)
VOLUME_PROTECTION = Controller(
    "persistentvolume-protection-controller", (Watch(PERSISTENT_VOLUMES, own),), plan_volume
)

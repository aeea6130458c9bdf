"""Volumes and claims that are in use stay until they are not.

Behaviour: Kubernetes' `pkg/controller/volume/{pvcprotection,pvprotection}`.
"""

from collections.abc import Iterable
from typing import Any

from vcsync.controllers import pods
from vcsync.controllers.mirror import Key, namespace_of
from vcsync.controllers.plan import NOTHING, Controller, Look, Patch, Plan, Watch
from vcsync.controllers.volume_objects import volume_of
from vcsync.controllers.volume_users import claims_used, is_used
from vcsync.controllers.waking import own
from vcsync.controllers.working import Desk, Worker
from vcsync.kube.cache import Change
from vcsync.kube.client import PatchKind
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


def finalizer_change(
    there: Envelope, finalizer: str, *, used: bool
) -> tuple[dict[str, Any], PatchKind] | None:
    """Return the patch that adds or takes off a finalizer, and its kind; None: it is as it should be."""
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


async def protect_claim(desk: Desk, key: Key) -> float | None:
    """Keep a claim while a Pod that has a node uses it; that none does, only the API server can tell.

    Raises:
        KubeError: it could not be asked, or told.
    """
    claim = desk.look.of[PERSISTENT_VOLUME_CLAIMS].get(*key)
    if claim is None:
        return None
    used = claim.deleting and _used(desk.look.of[PODS].within(key.tenant, key.namespace), claim)
    change = finalizer_change(claim, CLAIM_FINALIZER, used=used)
    if change is None:
        return None
    if claim.deleting and _used(await desk.client.list(PODS, key.namespace), claim):
        return None
    patch, kind = change
    try:
        await desk.client.patch(PERSISTENT_VOLUME_CLAIMS, key.name, patch, key.namespace, kind=kind)
    except NotFound:
        return None
    return None


def _used(everyone: Iterable[Envelope], claim: Envelope) -> bool:
    return any(pods.spec(pod).node_name and is_used(pod, claim) for pod in everyone)


def _of_pod(change: Change, look: Look) -> Iterable[Key]:
    """The claims of a Pod that is gone, has finished, or is another by now."""
    keys: dict[Key, None] = {}
    for pod in (change.old, change.new):
        if pod is not None:
            keys |= {Key(pod.tenant, namespace_of(pod), name): None for name in claims_used(pod)}
    claims = look.of[PERSISTENT_VOLUME_CLAIMS]
    return [key for key in keys if (claim := claims.get(*key)) is not None and claim.deleting]


def plan_volume(look: Look, key: Key) -> Plan:
    """Keep a volume while it is bound."""
    volume = look.of[PERSISTENT_VOLUMES].get(*key)
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

"""Creates the claims of ephemeral volumes of Pods. Pure.

The garbage collector deletes each claim with its Pod. Behaviour: Kubernetes' `pkg/controller/volume/ephemeral`.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from vcsync.controllers.framework.event_handlers import own, standing
from vcsync.controllers.framework.mirror import Key, key_of, namespace_of
from vcsync.controllers.framework.ownership import controller_of, reference
from vcsync.controllers.framework.plan import NOTHING, Action, Controller, Create, Emit, Plan, View, Watch
from vcsync.controllers.volumes.users import claims_used
from vcsync.kube.cache import Change
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from vcsync.objects.envelope import Envelope, decode

NAME = "ephemeral-volume-controller"
FAILED_BINDING = "FailedBinding"
_EPHEMERAL = b'"ephemeral"'


class _Source(Struct, gc=False, rename="camel"):
    volume_claim_template: dict[str, Any] = {}


class _Volume(Struct, gc=False):
    name: str = ""
    ephemeral: _Source | None = None


class _Spec(Struct, gc=False):
    volumes: tuple[_Volume, ...] | None = None


def plan(view: View, key: Key) -> Plan:
    """Create the claims that a Pod lacks."""
    pod = view.of[PODS].get(*key)
    if pod is None or pod.deleting or _EPHEMERAL not in pod.spec:
        return NOTHING
    actions: list[Action] = []
    for volume in decode(pod.spec, _Spec).volumes or ():
        if volume.ephemeral is None:
            continue
        name = f"{pod.name}-{volume.name}"
        claim = view.of[PERSISTENT_VOLUME_CLAIMS].get(key.tenant, key.namespace, name)
        if claim is None:
            actions.append(_creation(pod, name, volume.ephemeral.volume_claim_template))
        elif not _is_for(pod, claim):
            place = namespace_of(pod)
            text = (
                f"ephemeral volume {volume.name}: PVC {place}/{name} was not created for pod {place}/{pod.name} "
                "(pod is not owner)"
            )
            actions.append(Emit(_about(pod), "Warning", FAILED_BINDING, text))
    return Plan([actions]) if actions else NOTHING


def _creation(pod: Envelope, name: str, template: dict[str, Any]) -> Create:
    stated = template.get("metadata") or {}
    metadata: dict[str, Any] = {"name": name, "ownerReferences": [reference(PODS, pod)]}
    metadata |= {field: stated[field] for field in ("labels", "annotations") if stated.get(field)}
    body = {
        "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version,
        "kind": PERSISTENT_VOLUME_CLAIMS.kind,
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }
    return Create(PERSISTENT_VOLUME_CLAIMS, namespace_of(pod), body)


def _is_for(pod: Envelope, claim: Envelope) -> bool:
    controller = controller_of(claim)
    return controller is not None and controller.uid == pod.uid


def _about(pod: Envelope) -> ObjectRef:
    return ObjectRef(PODS.api_version, PODS.kind, pod.name, namespace_of(pod), pod.uid)


def _of_claim(change: Change, view: View) -> Iterable[Key]:
    """Return the Pods that use a claim which is gone."""
    if change.new is not None:
        return []
    claim, pods = standing(change), view.of[PODS]
    # The name is that of a Pod and of a volume. Both may contain dashes.
    parts = claim.name.split("-")
    keys = (Key(*key_of(claim)[:2], "-".join(parts[:at])) for at in range(1, len(parts)))
    found = ((key, pods.get(*key)) for key in keys)
    return [
        key
        for key, pod in found
        if pod is not None and _EPHEMERAL in pod.spec and claim.name in claims_used(pod)
    ]


EPHEMERAL_VOLUME = Controller(NAME, (Watch(PODS, own), Watch(PERSISTENT_VOLUME_CLAIMS, _of_claim)), plan)

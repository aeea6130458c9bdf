"""Creates the ResourceClaims of Pods from templates, and deletes them when the Pods have ended. Pure.

The garbage collector deletes the claims of Pods that are gone. Reservations and allocations are those of the super clusters,
whose syncers write them. Behaviour: Kubernetes' `pkg/controller/resourceclaim`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from vcsync.controllers.framework.event_handlers import everyone, own, owner, standing
from vcsync.controllers.framework.mirror import Key, key_of, namespace_of
from vcsync.controllers.framework.ownership import controlled, reference
from vcsync.controllers.framework.plan import (
    NOTHING,
    Action,
    Controller,
    Create,
    Delete,
    Emit,
    Plan,
    View,
    Watch,
    status_patch,
)
from vcsync.controllers.framework.pods import is_active
from vcsync.kube.cache import Change
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from vcsync.objects.envelope import Envelope, decode, untyped

NAME: Final = "resourceclaim-controller"
FAILED_CREATION: Final = "FailedResourceClaimCreation"
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim that was made from a template: the Pod's name for it."""
_FROM_TEMPLATE = b'"resourceClaimTemplateName"'
_LONGEST_BASE: Final = 58
"""Longest beginning of a generated name (`k8s.io/apiserver/pkg/storage/names`)."""


class _Reference(Struct, gc=False, rename="camel"):
    name: str = ""
    resource_claim_template_name: str = ""


class _Spec(Struct, gc=False, rename="camel"):
    resource_claims: tuple[_Reference, ...] | None = None


class _ClaimStatus(Struct, gc=False, rename="camel", omit_defaults=True):
    name: str = ""
    resource_claim_name: str = ""


class _Status(Struct, gc=False, rename="camel"):
    resource_claim_statuses: tuple[_ClaimStatus, ...] | None = None


def plan(view: View, key: Key) -> Plan:
    """Create the claims that a Pod lacks and record their names, or delete those of a Pod that has ended."""
    pod = view.of[PODS].get(*key)
    if pod is None or pod.deleting or _FROM_TEMPLATE not in pod.spec:
        return NOTHING
    mine = {
        each.annotations.get(POD_CLAIM_NAME, ""): each for each in controlled(view.of[RESOURCE_CLAIMS], pod)
    }
    if not is_active(pod):
        ended = [
            Delete(RESOURCE_CLAIMS, namespace_of(pod), each.name, each.uid)
            for each in mine.values()
            if not each.deleting
        ]
        return Plan([ended]) if ended else NOTHING
    before = decode(pod.status, _Status).resource_claim_statuses if pod.status else None
    recorded = {each.name: each.resource_claim_name for each in before or ()}
    actions: list[Action] = []
    named = dict(recorded)
    for each in _from_templates(pod):
        found = mine.get(each.name)
        if found is not None and not found.deleting:
            named[each.name] = found.name
        elif found is None:
            template = view.of[RESOURCE_CLAIM_TEMPLATES].get(
                key.tenant, key.namespace, each.resource_claim_template_name
            )
            if template is None:
                text = (
                    f"PodResourceClaim {each.name}: resource claim template "
                    f'"{each.resource_claim_template_name}": not found'
                )
                actions.append(Emit(_about(pod), "Warning", FAILED_CREATION, text))
                continue
            name = f"{f'{pod.name}-{each.name}-'[:_LONGEST_BASE]}{view.suffix()}"
            actions.append(_creation(pod, each.name, name, template))
            named[each.name] = name
    steps: list[list[Action]] = [actions] if actions else []
    if named != recorded:
        statuses = [{"name": name, "resourceClaimName": claim} for name, claim in sorted(named.items())]
        steps.append([status_patch(PODS, pod, {"resourceClaimStatuses": statuses})])
    return Plan(steps) if steps else NOTHING


def _from_templates(pod: Envelope) -> Iterator[_Reference]:
    for each in decode(pod.spec, _Spec).resource_claims or ():
        if each.resource_claim_template_name:
            yield each


def _creation(pod: Envelope, pod_claim: str, name: str, template: Envelope) -> Create:
    described: dict[str, Any] = untyped(template.spec) if template.spec else {}
    stated = described.get("metadata") or {}
    metadata: dict[str, Any] = {
        "name": name,
        "annotations": {**(stated.get("annotations") or {}), POD_CLAIM_NAME: pod_claim},
        "ownerReferences": [reference(PODS, pod)],
    }
    if labels := stated.get("labels"):
        metadata["labels"] = labels
    body = {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": metadata,
        "spec": described.get("spec") or {},
    }
    return Create(RESOURCE_CLAIMS, namespace_of(pod), body)


def _about(pod: Envelope) -> ObjectRef:
    return ObjectRef(PODS.api_version, PODS.kind, pod.name, namespace_of(pod), pod.uid)


def _of_template(change: Change, view: View) -> Iterable[Key]:
    """Return the Pods that name a template which has appeared."""
    if change.new is None or change.old is not None:
        return []
    template = standing(change)
    return [
        key_of(pod)
        for pod in everyone(view, PODS, template.tenant, namespace_of(template))
        if _FROM_TEMPLATE in pod.spec
        and any(each.resource_claim_template_name == template.name for each in _from_templates(pod))
    ]


RESOURCE_CLAIM = Controller(
    NAME,
    (
        Watch(PODS, own),
        Watch(RESOURCE_CLAIMS, owner("Pod")),
        Watch(RESOURCE_CLAIM_TEMPLATES, _of_template),
    ),
    plan,
)

"""Ownership of dependents: adoption by selector, and release when they no longer match. Pure."""

from collections.abc import Iterable
from typing import Any

from vcsync.controllers.framework.mirror import namespace_of
from vcsync.controllers.framework.plan import Objects, Patch
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope, OwnerReference
from vcsync.objects.selectors import Selector


def controller_of(envelope: Envelope) -> OwnerReference | None:
    """Return the controlling owner of an object."""
    return next((each for each in envelope.owners if each.controller), None)


def controlled(of: Objects, owner: Envelope) -> list[Envelope]:
    """Return the objects that an owner controls, in its own namespace and tenant only."""
    return [
        each
        for each in of.owned(owner.uid)
        if each.namespace == owner.namespace
        and (controller := controller_of(each)) is not None
        and controller.uid == owner.uid
    ]


def reference(resource: Resource, owner: Envelope) -> dict[str, Any]:
    """Return the owner reference of the objects that a controller's object controls."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def claim(
    resource: Resource,
    owner: Envelope,
    selector: Selector,
    of: Resource,
    candidates: Iterable[Envelope],
) -> tuple[list[Envelope], list[Patch]]:
    """Return the dependents of an owner, and the patches that adopt or release objects.

    Objects controlled by another owner are never changed. Objects being deleted are neither adopted nor released. An owner
    that is being deleted adopts nothing. As `ControllerRefManager` of Kubernetes' `pkg/controller`.

    Args:
        resource: resource of the owner.
        owner: the owner.
        selector: selector of the owner.
        of: resource of the candidates.
        candidates: objects of its namespace.
    """
    mine: list[Envelope] = []
    patches: list[Patch] = []
    for each in candidates:
        controller = controller_of(each)
        matches = selector.matches(each.labels)
        if controller is not None:
            if controller.uid != owner.uid:
                continue
            if matches:
                mine.append(each)
            elif not owner.deleting:
                patches.append(_released(of, each, owner.uid))
        elif matches and not owner.deleting and not each.deleting:
            patches.append(_adopted(of, each, reference(resource, owner)))
            mine.append(each)
    return mine, patches


def _adopted(of: Resource, each: Envelope, owner: dict[str, Any]) -> Patch:
    patch = {"metadata": {"uid": each.uid, "ownerReferences": [owner]}}
    return Patch(of, namespace_of(each), each.name, patch, "strategic")


def _released(of: Resource, each: Envelope, uid: str) -> Patch:
    patch = {"metadata": {"uid": each.uid, "ownerReferences": [{"$patch": "delete", "uid": uid}]}}
    return Patch(of, namespace_of(each), each.name, patch, "strategic")

"""The decision of the garbage collector about one object. Pure.

Behaviour: `attemptToDeleteItem` and `attemptToOrphanWorker` of Kubernetes' `pkg/controller/garbagecollector`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from vcsync.controllers.garbagecollector.graph import (
    FOREGROUND,
    ORPHAN,
    Graph,
    Node,
    Uid,
    goes_after_dependents,
    leaves_orphans,
)
from vcsync.kube.client import Propagation
from vcsync.objects.envelope import Envelope, OwnerReference

LARGEST_CIRCLE = 1000
"""Most references between objects that wait for each other in a circle and are deleted all the same."""

Standing = Literal["solid", "dangling", "waiting"]
"""State of an owner: it exists; it does not exist; it waits for its dependents to be deleted."""


class Disown(Struct, frozen=True):
    """Remove owner references from an object."""

    node: Node
    uids: frozenset[str]


class Unblock(Struct, frozen=True):
    """Clear `blockOwnerDeletion` of an object: owners and dependents wait for each other in a circle."""

    node: Node


class Release(Struct, frozen=True):
    """Remove a finalizer from an object."""

    node: Node
    finalizer: str


class Remove(Struct, frozen=True):
    """Delete an object in exactly this version."""

    node: Node
    propagation: Propagation


Step = Disown | Unblock | Release | Remove


class Decision(Struct, frozen=True):
    """Steps to take, in order, and further objects to examine."""

    steps: tuple[Step, ...] = ()
    look_at: tuple[Uid, ...] = ()


NOTHING = Decision()


def needs_owners(node: Node) -> bool:
    """Return whether the decision about an object depends on its owners."""
    return not node.envelope.deleting and bool(node.envelope.owners)


def decide(graph: Graph, node: Node, owners: Mapping[str, Standing]) -> Decision:
    """Decide about an object.

    Args:
        graph: the ownership graph.
        node: the object.
        owners: states of its owners, by uid; used only if `needs_owners`.
    """
    envelope = node.envelope
    if leaves_orphans(envelope):
        free = tuple(Disown(each, frozenset((envelope.uid,))) for each in graph.dependents(node.id))
        return Decision((*free, Release(node, ORPHAN)))
    if goes_after_dependents(envelope):
        blocking = graph.blocking(node.id)
        if not blocking or _wait_for_each_other(graph, node, blocking):
            return Decision((Release(node, FOREGROUND),))
        behind = (each for each in blocking if not goes_after_dependents(each.envelope))
        return Decision(look_at=tuple(each.id for each in behind if each.id != node.id))
    return _by_owners(graph, node, owners) if needs_owners(node) else NOTHING


def _by_owners(graph: Graph, node: Node, owners: Mapping[str, Standing]) -> Decision:
    envelope = node.envelope
    standing = {owners[each.uid] for each in envelope.owners}
    if "solid" in standing:
        gone = frozenset(each.uid for each in envelope.owners if owners[each.uid] != "solid")
        return Decision((Disown(node, gone),)) if gone else NOTHING
    dependents = graph.dependents(node.id)
    if "waiting" in standing and dependents:
        circle = any(goes_after_dependents(each.envelope) for each in dependents)
        blocks = any(each.blockOwnerDeletion for each in envelope.owners)
        steps: tuple[Step, ...] = (Unblock(node),) if circle and blocks else ()
        return Decision((*steps, Remove(node, "Foreground")))
    return Decision((Remove(node, _propagation(envelope.finalizers)),))


def _wait_for_each_other(graph: Graph, node: Node, blocking: Iterable[Node]) -> bool:
    """Return whether an object and everything it waits for form a circle; upstream never deletes such objects.

    Circles with more than `LARGEST_CIRCLE` references stay, as upstream: each object of a long chain would look at all others.
    """
    ahead: dict[Uid, list[Uid]] = {node.id: [each.id for each in blocking]}
    rest = list(blocking)
    references = len(rest)
    while rest:
        each = rest.pop()
        if each.id in ahead:
            continue
        if not goes_after_dependents(each.envelope):
            return False
        behind = graph.blocking(each.id)
        ahead[each.id] = [one.id for one in behind]
        rest += behind
        references += len(behind)
        if references > LARGEST_CIRCLE:
            return False
    owners: dict[Uid, list[Uid]] = {}
    for uid, behind_it in ahead.items():
        for one in behind_it:
            owners.setdefault(one, []).append(uid)
    seen, way = {node.id}, [node.id]
    while way:
        new = [each for each in owners.get(way.pop(), ()) if each not in seen]
        seen.update(new)
        way += new
    return len(seen) == len(ahead)


def change(step: Disown | Unblock | Release, latest: Envelope) -> dict[str, Any] | None:
    """Return the merge patch of a step for an object's current state; None: nothing changes."""
    metadata: dict[str, Any] = {"uid": latest.uid, "resourceVersion": latest.resource_version}
    match step:
        case Release():
            kept = [each for each in latest.finalizers if each != step.finalizer]
            if len(kept) == len(latest.finalizers):
                return None
            return {"metadata": {**metadata, "finalizers": kept or None}}
        case Disown():
            owners = [_written(each) for each in latest.owners if each.uid not in step.uids]
            if len(owners) == len(latest.owners):
                return None
            return {"metadata": {**metadata, "ownerReferences": owners or None}}
        case Unblock():
            if not any(each.blockOwnerDeletion for each in latest.owners):
                return None
            owners = [{**_written(each), "blockOwnerDeletion": False} for each in latest.owners]
            return {"metadata": {**metadata, "ownerReferences": owners}}


def _propagation(finalizers: Collection[str]) -> Propagation:
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _written(owner: OwnerReference) -> dict[str, Any]:
    written: dict[str, Any] = {
        "apiVersion": owner.apiVersion,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    if owner.controller is not None:
        written["controller"] = owner.controller
    if owner.blockOwnerDeletion is not None:
        written["blockOwnerDeletion"] = owner.blockOwnerDeletion
    return written

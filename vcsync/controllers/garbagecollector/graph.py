"""The ownership graph of all tenants, and the objects that a change concerns. Pure.

Behaviour: Kubernetes' `pkg/controller/garbagecollector/graph_builder.go`. Tenants are separate: a uid that one tenant
writes into an owner reference has no meaning in another tenant.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from vcsync.controllers.framework.mirror import namespace_of
from vcsync.kube.cache import Change
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope, OwnerReference

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"

DEPENDENTS_AT_ONCE = 200
"""Most dependents of an owner that one change returns."""

Known = Literal["solid", "waiting", "unknown", "elsewhere"]
"""State of an owner: it exists; it waits for its dependents; it is unknown; it is in another namespace."""


class Uid(NamedTuple):
    """UID of an object."""

    tenant: str
    uid: str


class Node(NamedTuple):
    """One object."""

    resource: Resource
    envelope: Envelope

    @property
    def id(self) -> Uid:
        """Return the key of the object."""
        return Uid(self.envelope.tenant, self.envelope.uid)

    @property
    def namespace(self) -> str:
        """Return its namespace, empty if its resource is not namespaced."""
        return namespace_of(self.envelope)


def group_of(reference: OwnerReference) -> str:
    """Return the API group of an owner."""
    return reference.apiVersion.rpartition("/")[0]


def goes_after_dependents(envelope: Envelope) -> bool:
    """Return whether an object is deleted in the foreground: it waits for its dependents."""
    return envelope.deleting and FOREGROUND in envelope.finalizers


def leaves_orphans(envelope: Envelope) -> bool:
    """Return whether an object waits for its dependents to be orphaned."""
    return envelope.deleting and ORPHAN in envelope.finalizers


class Graph:
    """All known objects by uid, and their dependents.

    Attributes:
        crowds: owners all of whose dependents are to be examined, because of changes that did not return them: they are too many.
    """

    def __init__(self) -> None:
        self.crowds: dict[Uid, None] = {}
        self._nodes: dict[Uid, Node] = {}
        self._dependents: dict[Uid, dict[Uid, None]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: Uid) -> Node | None:
        """Return an object; None: it is unknown."""
        return self._nodes.get(uid)

    def everything(self) -> Iterator[Node]:
        """Iterate over all objects in their current state."""
        return iter(list(self._nodes.values()))

    def dependents(self, uid: Uid) -> list[Node]:
        """Return the objects that name this owner."""
        found = (self._nodes.get(each) for each in self._dependents.get(uid, ()))
        return [each for each in found if each is not None]

    def count(self, uid: Uid) -> int:
        """Return the number of objects that name this owner."""
        return len(self._dependents.get(uid, ()))

    def crowd(self) -> list[Uid]:
        """Return the dependents of the first owner in `crowds`, and remove it."""
        owner = next(iter(self.crowds))
        del self.crowds[owner]
        return list(self._dependents.get(owner, ()))

    def blocking(self, uid: Uid) -> list[Node]:
        """Return the dependents that block an owner's deletion."""
        return [
            each
            for each in self.dependents(uid)
            if any(owner.uid == uid.uid and owner.blockOwnerDeletion for owner in each.envelope.owners)
        ]

    def owner(self, node: Node, reference: OwnerReference) -> Known:
        """Return the known state of an object's owner."""
        found = self._nodes.get(Uid(node.envelope.tenant, reference.uid))
        if (
            found is None
            or (found.resource.group, found.resource.kind) != (group_of(reference), reference.kind)
            or found.envelope.name != reference.name
        ):
            return "unknown"
        if found.namespace and found.namespace != node.namespace:
            return "elsewhere"
        return "waiting" if goes_after_dependents(found.envelope) else "solid"

    def concerns(self, node: Node) -> bool:
        """Return whether an object may need work."""
        if node.envelope.deleting:
            return goes_after_dependents(node.envelope) or leaves_orphans(node.envelope)
        return any(self.owner(node, each) != "solid" for each in node.envelope.owners)

    def change(self, resource: Resource, change: Change) -> Iterable[Uid]:
        """Record a change; return the objects to examine, but for those of `crowds`."""
        old = None if change.old is None else Node(resource, change.old)
        new = None if change.new is None else Node(resource, change.new)
        if old is not None and new is not None and old.id != new.id:
            return [*self._note(old, None), *self._note(None, new)]
        return self._note(old, new)

    def _note(self, old: Node | None, new: Node | None) -> list[Uid]:
        self._file(old, new)
        found: list[Uid] = []
        if new is None:
            if old is not None:
                found += self._few_dependents(old.id)
                found += self._awaited(old)
            return found
        if self.concerns(new):
            found.append(new.id)
        began = goes_after_dependents(new.envelope) and not (old and goes_after_dependents(old.envelope))
        if began:
            found += self._few_dependents(new.id)
            found += self._awaited(new)
        if old is not None and old.envelope.owners != new.envelope.owners:
            found += self._awaited(old)
        return found

    def _few_dependents(self, owner: Uid) -> list[Uid]:
        if self.count(owner) > DEPENDENTS_AT_ONCE:
            self.crowds[owner] = None
            return []
        return [each.id for each in self.dependents(owner)]

    def _file(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is None:
            self._nodes.pop(old.id, None)
        if new is not None:
            self._nodes[new.id] = new
        before = () if old is None else old.envelope.owners
        after = () if new is None else new.envelope.owners
        if before == after:
            return
        for node, owners, keep in ((old, before, False), (new, after, True)):
            for each in owners if node is not None else ():
                assert node is not None  # noqa: S101 - has owners
                owner = Uid(node.envelope.tenant, each.uid)
                mine = self._dependents.setdefault(owner, {})
                if keep:
                    mine[node.id] = None
                else:
                    mine.pop(node.id, None)
                if not mine:
                    del self._dependents[owner]

    def _awaited(self, node: Node) -> list[Uid]:
        """Return the owners that wait for this object."""
        owners = (Uid(node.envelope.tenant, each.uid) for each in node.envelope.owners)
        return [
            uid
            for uid in owners
            if (owner := self._nodes.get(uid)) is not None and goes_after_dependents(owner.envelope)
        ]

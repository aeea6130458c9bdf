"""A cache of the objects of one resource that is updated from a watch, from lists and from answers to writes. Pure.

Answers to writes overtake the watch. Resource versions decide the order: an object older than the cached one changes
nothing, and a late event does not bring a deleted object back.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from vcsync.objects.envelope import Envelope

_MOST_DELETED = 8192
"""Deleted objects that are remembered. Their late events arrive within seconds."""


class Change(Struct, frozen=True, gc=False):
    """A change of one object.

    Attributes:
        old: The object before; None for a new one.
        new: The object after; None for a deleted one.
        reported: Whether an event of the watch reported exactly this deletion. An object may also be missing from a list
            or a read because the server has lost its data, or is another server.
    """

    old: Envelope | None
    new: Envelope | None
    reported: bool = False


class Cache:
    """Objects by (namespace, name), with an index by namespace."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, Envelope]] = {}
        self._size = 0
        # uid -> version of the deletion; None if it is not known.
        self._deleted: OrderedDict[str, int | None] = OrderedDict()

    def get(self, namespace: str, name: str) -> Envelope | None:
        """Return the object; None if it is not cached."""
        objects = self._namespaces.get(namespace)
        return None if objects is None else objects.get(name)

    def items(self, namespace: str | None = None) -> Iterator[Envelope]:
        """Iterate over a snapshot of the objects of one namespace, or of all."""
        if namespace is not None:
            return iter(list(self._namespaces.get(namespace, {}).values()))
        return iter([item for objects in self._namespaces.values() for item in objects.values()])

    def count(self, namespace: str) -> int:
        """Return how many objects a namespace has."""
        return len(self._namespaces.get(namespace, ()))

    def keys(self) -> Iterator[tuple[str, str]]:
        """Iterate over a snapshot of all keys: (namespace, name)."""
        return iter(
            [(namespace, name) for namespace, objects in self._namespaces.items() for name in objects]
        )

    def namespaces(self) -> list[str]:
        """Return the namespaces of the cached objects."""
        return list(self._namespaces)

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: tuple[str, str]) -> bool:
        return self.get(*key) is not None

    def observe(self, envelope: Envelope) -> Change | None:
        """Update an object. An older or equal version changes nothing; then return None."""
        if self._deleted and envelope.uid in self._deleted:
            gone_at = self._deleted[envelope.uid]
            if gone_at is None or envelope.version <= gone_at:
                return None
            # The object had only left the selection, and has come back.
            del self._deleted[envelope.uid]
        old = self.get(envelope.namespace, envelope.name)
        if old is not None and not _newer(envelope, old):
            return None
        self._put(envelope)
        return Change(old, envelope)

    def observe_deleted(self, envelope: Envelope) -> Change | None:
        """Remove the object of a DELETED event, whose version is that of the deletion or of leaving the selection."""
        if envelope.version:
            self._remember(envelope.uid, envelope.version)
        old = self.get(envelope.namespace, envelope.name)
        if old is None or old.version > envelope.version:
            return None
        return self._drop(old, reported=old.uid == envelope.uid)

    def observe_gone(self, namespace: str, name: str, uid: str, *, final: bool = True) -> Change | None:
        """Remove an object that does not exist according to an answer.

        Args:
            namespace: The object's namespace.
            name: The object's name.
            uid: The object's UID.
            final: Whether the answer was to a deletion. An object that a read did not find may come back with the
                same UID, when a control plane that was emptied is restored.
        """
        if uid and final:
            self._remember(uid, None)
        old = self.get(namespace, name)
        return self._drop(old) if old is not None and old.uid == uid else None

    def forget(self, envelope: Envelope) -> Change:
        """Remove an object that still exists, but is not wanted in the cache any more."""
        return self._drop(envelope)

    def replace(
        self, items: Iterable[Envelope], version: int, *, namespace: str | None = None, reset: bool = False
    ) -> list[Change]:
        """Replace the objects by those of a list, and return the changes.

        Objects newer than the list, from answers to later writes, are kept.

        Args:
            items: The objects of the list.
            version: The list's version.
            namespace: The namespace that was listed; None for all.
            reset: Whether the server's history is another one (it was restored from a backup), so that versions cannot
                be compared and the list replaces everything.
        """
        if reset:
            self._deleted.clear()
        changes = []
        listed = set()
        for item in items:
            listed.add(item.key)
            change = self._reset(item) if reset else self.observe(item)
            if change is not None:
                changes.append(change)
        missing = [old for old in self.items(namespace) if old.key not in listed]
        changes.extend(self._drop(old) for old in missing if reset or not version or old.version <= version)
        return changes

    def _reset(self, envelope: Envelope) -> Change | None:
        old = self.get(envelope.namespace, envelope.name)
        if old is not None and old.uid == envelope.uid and old.resource_version == envelope.resource_version:
            return None
        self._put(envelope)
        return Change(old, envelope)

    def _put(self, envelope: Envelope) -> None:
        objects = self._namespaces.get(envelope.namespace)
        if objects is None:
            objects = self._namespaces[envelope.namespace] = {}
        if envelope.name not in objects:
            self._size += 1
        objects[envelope.name] = envelope

    def _drop(self, old: Envelope, *, reported: bool = False) -> Change:
        objects = self._namespaces[old.namespace]
        del objects[old.name]
        self._size -= 1
        if not objects:
            del self._namespaces[old.namespace]
        return Change(old, None, reported)

    def _remember(self, uid: str, version: int | None) -> None:
        deleted = self._deleted
        if uid in deleted and deleted[uid] is None:
            # A deletion is final, whatever the version.
            version = None
        deleted[uid] = version
        deleted.move_to_end(uid)
        while len(deleted) > _MOST_DELETED:
            deleted.popitem(last=False)


def _newer(new: Envelope, old: Envelope) -> bool:
    """Return whether an object is newer than another. If versions are not numbers, each different version is newer."""
    if new.version and old.version:
        return new.version > old.version
    return new.resource_version != old.resource_version

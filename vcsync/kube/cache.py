"""The objects of one resource as we know them, kept in order although news comes by several ways. Pure.

News are events of a watch, lists, and the answers to our own writes; the latter overtake the watch. Versions
decide: what is older than what we know changes nothing, and what was deleted does not come back by late news.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from vcsync.kube.envelope import Envelope

_LONGEST_MEMORY = 8192  # deleted objects remembered; late news of them come within seconds


class Change(Struct, frozen=True, gc=False):
    """How one object changed: `old` is None for a new object, `new` for a deleted one.

    `reported`: an event of the watch has told of exactly this deletion. An object that is merely absent, from a list or
    from the answer to a read, may be absent because the server is another one, or has lost its data.
    """

    old: Envelope | None
    new: Envelope | None
    reported: bool = False


class Cache:
    """Objects by (namespace, name), with an index by namespace."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, Envelope]] = {}
        self._size = 0
        # uid -> version of its deletion; None when we only know that it is gone.
        self._deleted: OrderedDict[str, int | None] = OrderedDict()

    def get(self, namespace: str, name: str) -> Envelope | None:
        """Return the object, None if there is none."""
        objects = self._namespaces.get(namespace)
        return None if objects is None else objects.get(name)

    def items(self, namespace: str | None = None) -> Iterator[Envelope]:
        """Iterate over the objects of one namespace or of all, as they are at this moment."""
        if namespace is not None:
            return iter(list(self._namespaces.get(namespace, {}).values()))
        return iter([item for objects in self._namespaces.values() for item in objects.values()])

    def count(self, namespace: str) -> int:
        """Return how many objects a namespace has."""
        return len(self._namespaces.get(namespace, ()))

    def keys(self) -> Iterator[tuple[str, str]]:
        """Iterate over all (namespace, name), as they are at this moment."""
        return iter(
            [(namespace, name) for namespace, objects in self._namespaces.items() for name in objects]
        )

    def namespaces(self) -> list[str]:
        """Return the namespaces that hold any object."""
        return list(self._namespaces)

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: tuple[str, str]) -> bool:
        return self.get(*key) is not None

    def observe(self, envelope: Envelope) -> Change | None:
        """Take note of an object's state; older or equal news change nothing and return None."""
        if self._deleted and envelope.uid in self._deleted:
            gone_at = self._deleted[envelope.uid]
            if gone_at is None or envelope.version <= gone_at:
                return None
            del self._deleted[envelope.uid]  # it only left the selection, and is back
        old = self.get(envelope.namespace, envelope.name)
        if old is not None and not _newer(envelope, old):
            return None
        self._put(envelope)
        return Change(old, envelope)

    def observe_deleted(self, envelope: Envelope) -> Change | None:
        """Take note of a DELETED event; its version is that of the deletion (or of leaving the selection)."""
        if envelope.version:
            self._remember(envelope.uid, envelope.version)
        old = self.get(envelope.namespace, envelope.name)
        if old is None or old.version > envelope.version:
            return None
        return self._drop(old, reported=old.uid == envelope.uid)

    def observe_gone(self, namespace: str, name: str, uid: str, *, for_good: bool = True) -> Change | None:
        """Take note that the object with this uid exists no more.

        Args:
            namespace: of the object.
            name: of the object.
            uid: of the object.
            for_good: our own deletion's answer says so. What only a read has not found may come back: a control plane
                that was emptied is restored, with the same UIDs.
        """
        if uid and for_good:
            self._remember(uid, None)
        old = self.get(namespace, name)
        return self._drop(old) if old is not None and old.uid == uid else None

    def forget(self, envelope: Envelope) -> Change:
        """Drop an object that is in the cache although it still exists: nobody here wants it any more."""
        return self._drop(envelope)

    def replace(
        self, items: Iterable[Envelope], version: int, *, namespace: str | None = None, reset: bool = False
    ) -> list[Change]:
        """Take a list as the truth and return what is different now.

        What is newer than the list (our own writes since) stays.

        Args:
            items: the objects of the list.
            version: the list's version.
            namespace: the list was of this namespace only; None for all.
            reset: the server's history is another one (restored from a backup): believe the list in
                everything.
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
            version = None  # gone for good says more than any version
        deleted[uid] = version
        deleted.move_to_end(uid)
        while len(deleted) > _LONGEST_MEMORY:
            deleted.popitem(last=False)


def _newer(new: Envelope, old: Envelope) -> bool:
    """Compare by version; where versions are not numbers, any other version counts as newer."""
    if new.version and old.version:
        return new.version > old.version
    return new.resource_version != old.resource_version

"""The memory of what a client has been told of an external control plane, so that it alone can be listed again.

A watch tells changes. When a control plane no longer has the changes since a version, only a comparison of its objects
with those that the client knows shows what was deleted. Memory is bounded: what does not fit is forgotten as a whole, and
then the client has to list everything again.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

MAX_OBJECTS = 200_000
"""Objects that one process remembers, of all clients together. Each takes about 400 bytes."""
SHARE = 4
"""One control plane takes at most this part of them, a quarter, so that it cannot crowd the others out."""
MAX_KEPT = 1000
"""Ended answers whose memory is kept for the requests that continue them."""


class ObjectState(NamedTuple):
    """One state of an object.

    Attributes:
        namespace: Its namespace; empty: it has none.
        name: Its name.
        uid: Its UID.
        version: Its own resource version.
    """

    namespace: str
    name: str
    uid: str
    version: str

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


class Budget:
    """The number of objects that may be remembered.

    Args:
        most: That number.

    Attributes:
        most: That number.
        used: How many are remembered.
    """

    def __init__(self, most: int = MAX_OBJECTS) -> None:
        self.most = most
        self.used = 0
        self._by_owner: Counter[bytes] = Counter()

    def take(self, owner: bytes) -> bool:
        """Count one more object of a control plane. Return False if there is no room."""
        if self.used >= self.most or self._by_owner[owner] * SHARE >= self.most:
            return False
        self.used += 1
        self._by_owner[owner] += 1
        return True

    def give(self, owner: bytes, number: int) -> None:
        """Count objects of a control plane no longer."""
        self.used -= number
        self._by_owner[owner] -= number
        if not self._by_owner[owner]:
            del self._by_owner[owner]


class KnownObjects:
    """The objects of one control plane that one client knows.

    Args:
        budget: Counts the objects.
        owner: Id of the control plane.

    Attributes:
        whole: Whether these are all. If not, nothing is remembered.
    """

    def __init__(self, budget: Budget, owner: bytes) -> None:
        self._budget = budget
        self._owner = owner
        self._objects: dict[tuple[str, str], ObjectState] = {}
        self.whole = True

    @classmethod
    def unknown(cls, budget: Budget, owner: bytes) -> "KnownObjects":
        """Return the memory of a client that was told something that is not remembered."""
        known = cls(budget, owner)
        known.whole = False
        return known

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def objects(self) -> Mapping[tuple[str, str], ObjectState]:
        """The objects by namespace and name."""
        return self._objects

    def add(self, seen: ObjectState | None) -> None:
        """Remember an object. None: one that does not say who it is, after which this memory is no longer whole."""
        if not self.whole:
            return
        if seen is None or (seen.key not in self._objects and not self._budget.take(self._owner)):
            self.forget()
            return
        self._objects[seen.key] = seen

    def remove(self, seen: ObjectState | None) -> None:
        """Remember that an object is gone."""
        if seen is None:
            self.forget()
        elif self._objects.pop(seen.key, None) is not None:
            self._budget.give(self._owner, 1)

    def forget(self) -> None:
        """Remember nothing from now on."""
        self.release()
        self.whole = False

    def release(self) -> None:
        """Give the room back."""
        self._budget.give(self._owner, len(self._objects))
        self._objects = {}

    def copy(self) -> "KnownObjects":
        """Return a memory of the same objects, which is not whole if there is no room for it."""
        other = KnownObjects(self._budget, self._owner)
        if not self.whole:
            other.whole = False
        for seen in self._objects.values():
            other.add(seen)
        return other


class Memories:
    """The memories of answers that have ended, for the requests that continue them.

    Args:
        budget: Counts the objects. The oldest memories make room for new ones.
        most: Most answers that are remembered.
    """

    def __init__(self, budget: Budget, most: int = MAX_KEPT) -> None:
        self._budget = budget
        self._most = most
        self._kept: OrderedDict[tuple[str, str], Mapping[bytes, KnownObjects]] = OrderedDict()

    def keep(self, request: str, token: str, known: Mapping[bytes, KnownObjects]) -> None:
        """Keep what a client knows that has a token.

        Args:
            request: What the client asked for.
            token: The last token that it was given: a resource version or a continue token.
            known: Memories by the id of the control plane. This object owns them from now on.
        """
        self._drop((request, token))
        self._kept[request, token] = {key: each for key, each in known.items() if each.whole}
        while len(self._kept) > self._most:
            self._drop(next(iter(self._kept)))

    def make_room(self) -> None:
        """Forget the oldest memories while more than half of all objects are remembered."""
        while self._kept and self._budget.used * 2 > self._budget.most:
            self._drop(next(iter(self._kept)))

    def recall(self, request: str, token: str) -> dict[bytes, KnownObjects]:
        """Return copies of what a client knows that has a token."""
        found = self._kept.get((request, token))
        if found is None:
            return {}
        self._kept.move_to_end((request, token))
        return {key: known.copy() for key, known in found.items()}

    def _drop(self, key: tuple[str, str]) -> None:
        for known in self._kept.pop(key, {}).values():
            known.release()

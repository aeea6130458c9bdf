"""The waiting Pods of a namespace in their order: by priority, then by the time that they wait. Pure.

Pods that a decision cannot tell apart are in one line. If the first one of a line finds no room, nor do the others, so one look
does for all of them. Adding and removing a Pod takes O(log n) comparisons, whatever priorities the tenant chooses.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from operator import itemgetter

from msgspec import Struct

from vcsync.podscheduler.pods import Pod

Signature = tuple[object, ...]
Place = tuple[int, int, str]
"""Place in the order: negated priority, number of the Pod in the order of their coming, name."""


class _Line(Struct):
    """The places of the Pods of one kind, in their order."""

    kind: Hashable
    places: list[Place]


class _Waiter(Struct):
    place: Place
    line: _Line
    signature: Signature


_place_of = itemgetter(0)


class Waiting:
    """The waiting Pods of a namespace. Iteration yields their names in their order."""

    def __init__(self) -> None:
        self._of: dict[str, _Waiter] = {}
        self._lines: dict[Hashable, _Line] = {}
        self._heads: list[tuple[Place, _Line]] = []  # the first place of each line, in their order
        self._came = 0

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, name: object) -> bool:
        return name in self._of

    def __iter__(self) -> Iterator[str]:
        return iter([name for _, _, name in sorted(each.place for each in self._of.values())])

    def names(self) -> list[str]:
        """Return the names in any order."""
        return list(self._of)

    def signature(self, name: str) -> Signature | None:
        """Return what was recorded for a Pod; None if it does not wait."""
        found = self._of.get(name)
        return None if found is None else found.signature

    def put(self, pod: Pod, signature: Signature) -> None:
        """Record something for a Pod. If it does not wait yet, it comes after all others of its priority."""
        self.refile(pod)
        found = self._of.get(pod.name)
        if found is not None:
            found.signature = signature
        else:
            self._came += 1
            self._insert(pod, self._came, signature)

    def refile(self, pod: Pod) -> None:
        """Follow a change of a Pod. It keeps its place among those of its priority."""
        found = self._of.get(pod.name)
        if found is not None and (found.line.kind != _kind(pod) or found.place[0] != -pod.priority):
            self._remove(pod.name)
            self._insert(pod, found.place[1], found.signature)

    def pop(self, name: str) -> bool:
        """Remove a Pod. Return whether it waited."""
        return self._remove(name) is not None

    def place(self, pod: Pod) -> Place:
        """Return the place of a Pod; if it does not wait, after all others of its priority."""
        found = self._of.get(pod.name)
        return (-pod.priority, self._came + 1, "") if found is None else found.place

    def _insert(self, pod: Pod, came: int, signature: Signature) -> None:
        kind, place = _kind(pod), (-pod.priority, came, pod.name)
        line = self._lines.get(kind)
        if line is None:
            line = self._lines[kind] = _Line(kind, [])
        else:
            self._drop_head(line)
        insort(line.places, place)
        insort(self._heads, (line.places[0], line), key=_place_of)
        self._of[pod.name] = _Waiter(place, line, signature)

    def _remove(self, name: str) -> _Waiter | None:
        found = self._of.pop(name, None)
        if found is None:
            return None
        line = found.line
        self._drop_head(line)
        del line.places[bisect_left(line.places, found.place)]
        if line.places:
            insort(self._heads, (line.places[0], line), key=_place_of)
        else:
            del self._lines[line.kind]
        return found

    def _drop_head(self, line: _Line) -> None:
        del self._heads[bisect_left(self._heads, line.places[0], key=_place_of)]


class Walk:
    """A walk along waiting Pods in their order, without those that are equal to one that found no room.

    The Pods must not change meanwhile.

    Args:
        waiting: the Pods.
        after: begins after this place; lines that begin before it are left out.
    """

    def __init__(self, waiting: Waiting, after: Place | None = None) -> None:
        self._heads = waiting._heads
        self._next_head = 0 if after is None else bisect_right(self._heads, after, key=_place_of)
        self._following: list[tuple[Place, int, _Line]] = []  # next in lines whose first found room
        self._present: tuple[_Line, int] | None = None

    def next(self, *, took: bool) -> Place | None:
        """Return the place of the next Pod; None at the end.

        Args:
            took: whether the last one found room, so that the next one in its line may find some, too.
        """
        if took and self._present is not None:
            line, number = self._present
            if number + 1 < len(line.places):
                heappush(self._following, (line.places[number + 1], number + 1, line))
        head = self._heads[self._next_head] if self._next_head < len(self._heads) else None
        if self._following and (head is None or self._following[0][0] < head[0]):
            place, number, line = heappop(self._following)
        elif head is not None:
            (place, line), number = head, 0
            self._next_head += 1
        else:
            return None
        self._present = line, number
        return place


def _kind(pod: Pod) -> Hashable:
    """Return what decisions on a Pod depend on, but for its turn. A Pod with claims, Services or refusals is its own kind."""
    needs = pod.needs
    if needs.claims or needs.devices or pod.services or pod.said:
        return pod.name
    return (
        pod.priority,
        tuple(sorted(needs.requests.items())),
        needs.supers,
        needs.avoided,
        needs.runtime_class,
        pod.label,
    )

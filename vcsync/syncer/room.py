"""How many bytes a namespace's objects may take in a super cluster, and how fast it may write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from vcsync.kube.envelope import Envelope
from vcsync.kube.resources import PODS
from vcsync.syncer.kinds.plan import Action, Create, Kind, Patch

OVERHEAD = 2048
"""Bytes that an object costs an API server and its store besides its own."""
LEAST = 1024 * 1024
"""Bytes any placed namespace has room for, however small its slices: what everyone gets by default has to fit."""
PERIOD = 300.0
"""Seconds for which a store keeps what was overwritten (kube-apiserver: `--etcd-compaction-interval`)."""
TIMES = 3
"""How often all the room may be written in a period: what was overwritten takes so much more in the store."""
PAUSE = 10.0
"""Seconds that whoever writes too fast waits at least: of thousands that wait, few find room at a time."""
POD_FREE = 16 * 1024
"""Bytes of a Pod that wear nothing: Pods come and go by their number, which is bounded, but may be made huge."""


class NoRoom(Exception):
    """The namespace's objects would take more bytes than its slices have room for."""

    def __init__(self, taken: int, growth: int, room: int) -> None:
        super().__init__(
            f"the objects of the namespace take {_shown(taken)} of the {_shown(room)} "
            f"that its slices have room for, this would take {_shown(growth)} more"
        )


class TooFast(Exception):
    """The tenant writes more than is cleared away of old versions.

    Attributes:
        after: seconds after which there is room again.
    """

    def __init__(self, after: float) -> None:
        super().__init__("more is written than is cleared away of what was written over")
        self.after = after


class Demand(Struct, frozen=True):
    """What an action asks of a super cluster's store, in bytes."""

    growth: int = 0
    """How much more the namespace's objects take after it."""
    written: int = 0
    """How much is written."""


NOTHING = Demand()


def weight(envelope: Envelope | None) -> int:
    """Bytes an object takes, as far as its owner has a say in it: all but its status."""
    if envelope is None:
        return 0
    return OVERHEAD + _body(envelope) + _texts(envelope.labels) + _texts(envelope.annotations)


def growth_of(old: Envelope | None, new: Envelope | None) -> int:
    """By how many bytes a change makes what stands heavier; mostly a status alone has changed."""
    if (
        old is not None
        and new is not None
        and (old.spec, old.rest, old.labels, old.annotations)
        == (new.spec, new.rest, new.labels, new.annotations)
    ):
        return 0
    return weight(new) - weight(old)


def demand_of(kind: Kind, action: Action, v: Envelope | None, p: Envelope | None) -> Demand:
    """What writing a kind's object asks for; nothing for all other actions.

    Args:
        kind: the item's kind.
        action: what is to be done.
        v: the tenant's object.
        p: the super cluster's.
    """
    if not isinstance(action, Create | Patch) or action.side != "super" or v is None:
        return NOTHING
    if action.resource != kind.resource:
        return NOTHING
    growth = weight(v)
    written = max(growth, weight(p))
    if p is not None and isinstance(action, Patch):
        metadata = action.patch.get("metadata", {})
        growth = _body(v) - _body(p)
        growth += _grown(p.labels, metadata.get("labels")) + _grown(
            p.annotations, metadata.get("annotations")
        )
    if kind.resource == PODS:
        written = max(0, written - POD_FREE)
    return Demand(max(0, growth), written)


class Room:
    """Keeps one tenant within the room that its namespaces' slices have in one super cluster.

    Args:
        held: bytes the objects of a super namespace take, as the caches have them.
        whole: bytes all the tenant's namespaces together have room for.
        clock: monotonic seconds.
    """

    def __init__(
        self, *, held: Callable[[str], int], whole: Callable[[], int], clock: Callable[[], float]
    ) -> None:
        self._held = held
        self._whole = whole
        self._clock = clock
        self._coming: Counter[str] = Counter()
        self._worn_until = 0.0

    @contextmanager
    def taking(self, place: str, room: int, demand: Demand) -> Iterator[None]:
        """Have room for a write while it is under way; what is written at the same time does not get the same room.

        A tenant may write `TIMES` all its room at once, and as much again in each `PERIOD` (generic cell rate
        algorithm): its namespaces together, so that nothing is won by making new ones.

        Args:
            place: the super namespace.
            room: bytes it has room for.
            demand: what is written.

        Raises:
            NoRoom: there is none.
            TooFast: not yet.
        """
        taken = self._held(place) + self._coming[place]
        if demand.growth and taken + demand.growth > room:
            raise NoRoom(taken, demand.growth, room)
        self._wear(demand.written * PERIOD / (TIMES * max(self._whole(), room)))
        self._coming[place] += demand.growth
        try:
            yield
        finally:
            self._coming[place] -= demand.growth
            if not self._coming[place]:
                del self._coming[place]

    def _wear(self, seconds: float) -> None:
        now = self._clock()
        worn = max(self._worn_until - now, 0.0)
        if worn and worn + seconds > PERIOD:
            raise TooFast(max(worn + seconds - PERIOD, PAUSE))
        self._worn_until = now + worn + seconds


def _body(envelope: Envelope) -> int:
    return _size(envelope.spec) + _size(envelope.rest)


def _size(raw: bytes) -> int:
    r"""Bytes of JSON with each escape like `\u003c` as the one it stands for: stores keep text unescaped.

    A backslash that is text stands behind another: `\\u003c` is no escape.
    """
    return len(raw) - 5 * (raw.count(b"\\u00") - raw.count(b"\\\\u00"))


def _texts(texts: Mapping[str, str]) -> int:
    return sum(_length(name) + _length(text) for name, text in texts.items())


def _grown(before: Mapping[str, str], patch: Any) -> int:
    """By how much labels or annotations grow; a patch names those that change, None for those that go."""
    return sum(_length(text or "") - _length(before.get(name, "")) for name, text in (patch or {}).items())


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _shown(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{-(-size // 1024)} KiB"

"""Waves in which namespaces leave super clusters that drain: which may go next, and which have to wait. Pure."""

from collections.abc import Collection
from random import Random

from msgspec import Struct

from vcsync.scheduling.failover import next_wave
from vcsync.scheduling.ledger import Key

UNDER_WAY_SECONDS = 300.0
"""Seconds after which a namespace that has not left no longer holds back others: its Pods or its tenant wait for something."""


class Standing(Struct, frozen=True):
    """The namespaces with something on a super cluster that drains.

    Attributes:
        sliced: namespaces with slices there.
        clearing: namespaces that have lost their slices there, and whose objects its syncer has not removed yet.
    """

    sliced: Collection[Key]
    clearing: Collection[Key]


class DrainWaves:
    """The namespaces that may leave super clusters which drain. The others keep their slices there until their turn comes.

    Nothing of this is stored: a new leader finds the namespaces under way in the ledger, and counts them.
    """

    def __init__(self) -> None:
        self._released: dict[str, dict[Key, float]] = {}
        self._decided: dict[str, set[Key]] = {}

    def follow(self, draining: Collection[str]) -> None:
        """Note which super clusters drain at present. A drain that begins again holds all namespaces at first."""
        self._released = {super_id: self._released.get(super_id, {}) for super_id in draining}
        self._decided = {super_id: self._decided.get(super_id, set()) for super_id in draining}

    def release(self, super_id: str, standing: Standing, now: float, chance: Random) -> list[Key]:
        """Return the namespaces that may leave a super cluster from now on, in random order.

        A namespace is under way from its release until it has been cleared, or has been decided and keeps its slices since no
        other super cluster has room for them. Such a namespace leaves as soon as there is room.

        Args:
            super_id: a super cluster that drains.
            standing: what is there.
            now: monotonic seconds.
            chance: the source of the order.
        """
        sliced, clearing = set(standing.sliced), set(standing.clearing)
        there = sliced | clearing
        released = {key: at for key, at in self._released[super_id].items() if key in there}
        for key in clearing:
            released.setdefault(key, now)
        decided = self._decided[super_id] & sliced
        under_way = {
            key: 0 for key, at in released.items() if now - at < UNDER_WAY_SECONDS and key not in decided
        }
        wave = next_wave(dict.fromkeys(there, 1), under_way, (), sliced - released.keys(), chance)
        self._released[super_id] = released | dict.fromkeys(wave, now)
        self._decided[super_id] = decided
        return wave

    def released(self, super_id: str) -> Collection[Key]:
        """Return the namespaces that may leave a super cluster."""
        return self._released.get(super_id, {})

    def held(self, key: Key) -> frozenset[str]:
        """Return the super clusters that drain, and that a namespace may not leave yet."""
        return frozenset(super_id for super_id, released in self._released.items() if key not in released)

    def note_decided(self, key: Key, held: Collection[str]) -> None:
        """Note that a namespace has been decided.

        Args:
            key: the namespace.
            held: the super clusters that it could not leave then.
        """
        for super_id, released in self._released.items():
            if key in released and super_id not in held:
                self._decided[super_id].add(key)

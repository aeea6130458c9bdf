"""Limits the bytes that a tenant's objects take in a super cluster's store, and the rate at which they are overwritten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from vcsync.kube.resources import PODS
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds.plan import Action, Create, Kind, Patch

OVERHEAD_BYTES = 2048
"""Bytes that the API server and its store need for each object, in addition to the object's own bytes."""
LEAST_BYTES = 1024 * 1024
"""The smallest limit of a placed namespace, in bytes, however small its slices are.

The objects that every namespace has by default must fit.
"""
COMPACTION_SECONDS = 300.0
"""Seconds for which a store keeps overwritten versions: the default of kube-apiserver's `--etcd-compaction-interval`."""
REWRITES = 3
"""Multiple of the limit that may be written in each `COMPACTION_SECONDS`.

Overwritten versions take at most this multiple of the limit in the store.
"""
SHORTEST_WAIT_SECONDS = 10.0
"""The shortest wait of an item after WritesTooFast, in seconds.

Thousands of items may wait, and few of them fit into the budget at a time.
"""
FREE_POD_BYTES = 16 * 1024
"""Bytes of each Pod that do not count as written.

ResourceQuotas limit the number of Pods, so Pods of usual size are free, but a Pod may be very large.
"""


class OverBudget(Exception):
    """The namespace's objects would take more bytes than its slices allow.

    Args:
        taken: bytes that the objects take.
        growth: bytes that the refused write would add.
        limit: bytes that the namespace's slices allow.
    """

    def __init__(self, taken: int, growth: int, limit: int) -> None:
        super().__init__(
            f"the objects of the namespace take {_shown(taken)} of the {_shown(limit)} "
            f"that its slices have room for, this would take {_shown(growth)} more"
        )


class WritesTooFast(Exception):
    """The tenant writes faster than the store removes overwritten versions.

    Attributes:
        after: seconds until the write may be tried again.
    """

    def __init__(self, after: float) -> None:
        super().__init__("the tenant writes faster than the store removes overwritten versions")
        self.after = after


class Demand(Struct, frozen=True):
    """The cost of an action for a super cluster's store, in bytes."""

    growth: int = 0
    """Bytes by which the namespace's objects grow."""
    written: int = 0
    """Bytes that are written."""


NO_DEMAND = Demand()


def stored_bytes(envelope: Envelope | None) -> int:
    """Return the bytes of an object except for its status, which its owner does not write; 0 for None."""
    if envelope is None:
        return 0
    return OVERHEAD_BYTES + _body(envelope) + _texts(envelope.labels) + _texts(envelope.annotations)


def growth_of(old: Envelope | None, new: Envelope | None) -> int:
    """Return the bytes by which a change makes an object larger; negative if it shrinks.

    Most changes concern the status alone, so these are recognized without a count.
    """
    if (
        old is not None
        and new is not None
        and (old.spec, old.rest, old.labels, old.annotations)
        == (new.spec, new.rest, new.labels, new.annotations)
    ):
        return 0
    return stored_bytes(new) - stored_bytes(old)


def demand_of(kind: Kind, action: Action, v: Envelope | None, p: Envelope | None) -> Demand:
    """Return the cost of an action: `NO_DEMAND` unless it writes the item's own object into the super cluster.

    Args:
        kind: the item's kind.
        action: the action.
        v: the tenant's object.
        p: the super cluster's object.
    """
    if not isinstance(action, Create | Patch) or action.side != "super" or v is None:
        return NO_DEMAND
    if action.resource != kind.resource:
        return NO_DEMAND
    growth = stored_bytes(v)
    written = max(growth, stored_bytes(p))
    if p is not None and isinstance(action, Patch):
        metadata = action.patch.get("metadata", {})
        growth = _body(v) - _body(p)
        growth += _grown(p.labels, metadata.get("labels")) + _grown(
            p.annotations, metadata.get("annotations")
        )
    if kind.resource == PODS:
        written = max(0, written - FREE_POD_BYTES)
    return Demand(max(0, growth), written)


class StoreBudget:
    """Keeps one tenant within the bytes that its namespaces' slices allow in one super cluster.

    Args:
        stored: returns the bytes that the objects of a super namespace take, according to the caches.
        tenant_limit: returns the bytes that the slices of all namespaces of the tenant allow together.
        clock: monotonic seconds.
    """

    def __init__(
        self, *, stored: Callable[[str], int], tenant_limit: Callable[[], int], clock: Callable[[], float]
    ) -> None:
        self._stored = stored
        self._tenant_limit = tenant_limit
        self._clock = clock
        self._reserved: Counter[str] = Counter()
        self._spent_until = 0.0

    @contextmanager
    def reserve(self, super_namespace: str, limit: int, demand: Demand) -> Iterator[None]:
        """Reserve bytes for a write while it is in progress, so that concurrent writes cannot use them too.

        A tenant may write `REWRITES` times its limit in one burst, and the same number of bytes again in each
        `COMPACTION_SECONDS` (generic cell rate algorithm). The rate is limited for all namespaces together, so that new
        namespaces do not raise it.

        Args:
            super_namespace: the namespace that is written into.
            limit: bytes that its slices allow.
            demand: the cost of the write.

        Raises:
            OverBudget: the write does not fit into the limit.
            WritesTooFast: the write has to wait.
        """
        taken = self._stored(super_namespace) + self._reserved[super_namespace]
        if demand.growth and taken + demand.growth > limit:
            raise OverBudget(taken, demand.growth, limit)
        self._spend(demand.written * COMPACTION_SECONDS / (REWRITES * max(self._tenant_limit(), limit)))
        self._reserved[super_namespace] += demand.growth
        try:
            yield
        finally:
            self._reserved[super_namespace] -= demand.growth
            if not self._reserved[super_namespace]:
                del self._reserved[super_namespace]

    def _spend(self, seconds: float) -> None:
        """Use a part of the write rate, in seconds of `COMPACTION_SECONDS`."""
        now = self._clock()
        spent = max(self._spent_until - now, 0.0)
        if spent and spent + seconds > COMPACTION_SECONDS:
            raise WritesTooFast(max(spent + seconds - COMPACTION_SECONDS, SHORTEST_WAIT_SECONDS))
        self._spent_until = now + spent + seconds


def _body(envelope: Envelope) -> int:
    return _size(envelope.spec) + _size(envelope.rest)


def _size(raw: bytes) -> int:
    r"""Return the bytes of JSON, with each escape like `\u003c` counted as one byte, since stores keep text unescaped.

    A literal backslash is escaped by another backslash, so `\\u003c` is not an escape.
    """
    return len(raw) - 5 * (raw.count(b"\\u00") - raw.count(b"\\\\u00"))


def _texts(texts: Mapping[str, str]) -> int:
    return sum(_length(name) + _length(text) for name, text in texts.items())


def _grown(before: Mapping[str, str], patch: Any) -> int:
    """Return the bytes by which labels or annotations grow.

    Args:
        before: their texts so far.
        patch: texts that change, by key; None removes one.
    """
    return sum(_length(text or "") - _length(before.get(name, "")) for name, text in (patch or {}).items())


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _shown(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{-(-size // 1024)} KiB"

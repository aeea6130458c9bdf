"""Goes through the Pods of a tenant that are to be looked at again after a change, in pieces. Pure.

A change of slices or of the pool concerns many Pods at once, and a tenant decides how many it has.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from vcsync.podscheduler.pods import Key


class Reason(Struct, frozen=True):
    """The Pods that a change concerns.

    Attributes:
        pods: whether it concerns all Pods.
        claimants: whether it concerns all Pods with claims that are not bound.
        supers: ids of super clusters, whose waiting Pods it concerns; None for all waiting Pods.
    """

    pods: bool = False
    claimants: bool = False
    supers: frozenset[str] | None = frozenset()

    def __or__(self, other: "Reason") -> "Reason":
        """Return the reason for the Pods of both."""
        every = self.supers is None or other.supers is None
        return Reason(
            self.pods or other.pods,
            self.claimants or other.claimants,
            None if every else (self.supers or frozenset()) | (other.supers or frozenset()),
        )


ALL = Reason(pods=True, claimants=True, supers=None)
"""All Pods are concerned."""


class Revisits:
    """Iterates over the Pods to be looked at again; the next iteration continues where one was left.

    What is asked for meanwhile follows at the end, from the beginning. So each Pod is looked at after each change, however many
    there are, and the memory that this takes does not depend on their number.

    Attributes:
        pending: whether there are any.

    Args:
        pods: yields the Pods that a reason concerns; None for each that was passed over, which takes time as well.
    """

    def __init__(self, pods: Callable[[Reason], Iterator[Key | None]]) -> None:
        self._pods = pods
        self._rest: Iterator[Key | None] = iter(())
        self._asked: Reason | None = None
        self.pending = False

    def ask(self, reason: Reason) -> None:
        """Add the Pods that a reason concerns."""
        self._asked = reason if self._asked is None else self._asked | reason
        self.pending = True

    def __iter__(self) -> "Revisits":
        """Return itself."""
        return self

    def __next__(self) -> Key | None:
        """Return the next Pod, or None for one that was passed over."""
        while True:
            for key in self._rest:
                return key
            if self._asked is None:
                self.pending = False
                raise StopIteration
            self._rest, self._asked = self._pods(self._asked), None

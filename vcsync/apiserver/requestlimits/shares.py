"""Divides limits among the processes that serve the API of one store. Pure."""

from typing import NamedTuple


class Share(NamedTuple):
    """The part of every limit that one process takes.

    Attributes:
        rank: Place of the process in the order of all processes, from 0.
        processes: Number of processes.
    """

    rank: int
    processes: int

    def rate(self, limit: int) -> float:
        """Return the part of a rate or of a burst. The parts of all processes add up to the limit."""
        return limit / self.processes

    def count(self, limit: int) -> int:
        """Return the part of a number of requests or watches, at least 1.

        The parts of all processes add up to the limit, or to the number of processes if that is larger.
        """
        part, rest = divmod(limit, self.processes)
        return max(1, part + (1 if self.rank < rest else 0))


WHOLE = Share(0, 1)
"""The share of a process that is alone."""

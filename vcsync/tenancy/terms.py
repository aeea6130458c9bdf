"""Runs the terms of a scheduler: it takes part in the election, and begins a term each time that it is elected."""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct
from prometheus_client.metrics_core import GaugeMetricFamily

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.lease import LeaderElector


class TermLease(Struct, frozen=True):
    """The lease of a term.

    Attributes:
        term: unique name of the term; empty if no other leader can ever exist.
        still_held: returns whether the lease is certainly still held, so that no other process leads. Check it before a
            write that only a leader may send.
    """

    term: str
    still_held: Callable[[], bool]


UNCONTESTED = TermLease("", lambda: True)
"""The lease of a process that leads without election."""


class Term(Protocol):
    """The work of one term. Its state ends with it."""

    async def run(self) -> None:
        """Work until cancelled."""

    def synced(self) -> bool:
        """Return whether all inputs of decisions have been read."""
        ...

    def held_back(self) -> str:
        """Return why decisions wait although their inputs have been read; empty if they do not."""
        ...

    def troubles(self) -> str:
        """Return the reason why a part of the work is not done; empty if all of it is."""
        ...


T = TypeVar("T", bound=Term)


class Terms(Generic[T]):
    """Runs one term after another, at most one at a time over all processes of the role.

    Attributes:
        current: the term that runs; None while another process leads.

    Args:
        meta: client of the meta cluster, which has the Lease.
        role: name of the scheduler.
        identity: name of this process in the election; unique.
        leader_elect: whether to lead only while holding the Lease. Disable it only if no other process exists.
        begin: makes a term from its lease.
        namespace: namespace of the Lease.
    """

    def __init__(
        self,
        meta: Client,
        role: str,
        *,
        identity: str,
        leader_elect: bool,
        begin: Callable[[TermLease], T],
        namespace: str = names.SYSTEM_NAMESPACE,
    ) -> None:
        self._role = role
        self._identity = identity
        self._begin = begin
        lease = names.scheduler_lease(role)
        self._elector = LeaderElector(meta, lease, namespace, identity) if leader_elect else None
        self.current: T | None = None

    async def run(self) -> None:
        """Take part in the election, and lead when elected, until cancelled."""
        if self._elector is None:
            await self._lead()
        else:
            await self._elector.run(self._lead)

    async def _lead(self) -> None:
        elector = self._elector
        lease = UNCONTESTED if elector is None else TermLease(elector.term, lambda: elector.is_sure)
        self.current = self._begin(lease)
        try:
            await self.current.run()
        finally:
            self.current = None

    def ready(self, reads: str) -> tuple[bool, str]:
        """Return whether the role works, and the reason or state as text.

        Args:
            reads: names of the inputs of its decisions.
        """
        if self.current is None:
            return True, "standby: another process holds the lease, or the election is under way"
        if held_back := self.current.held_back():
            return False, held_back
        if not self.current.synced():
            return False, f"reading {reads} from the meta cluster"
        troubles = self.current.troubles()
        return True, f"leading, but {troubles}" if troubles else "leading"

    def status(self) -> dict[str, Any]:
        """Return the name of this process and whether it leads, as plain JSON values."""
        return {"role": self._role, "identity": self._identity, "leader": self.current is not None}

    def leading(self) -> GaugeMetricFamily:
        """Return the metric that says whether this process leads."""
        leading = GaugeMetricFamily(f"vcsync_{self._role}_leading", "1 while this process leads")
        leading.add_metric([], float(self.current is not None))
        return leading

"""A scheduler's terms of office: it stands for election, and each time it leads a fresh term begins."""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct
from prometheus_client.metrics_core import GaugeMetricFamily

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.lease import LeaderElector


class Office(Struct, frozen=True):
    """What a term is held by. `term` tells it from all others; empty if there is certainly no other leader, ever.

    `sure()`: whether nobody else can lead yet; to be asked before a write that only a leader may send.
    """

    term: str
    sure: Callable[[], bool]


UNCONTESTED = Office("", lambda: True)


class Term(Protocol):
    """The work of one term; what it knew is gone with it."""

    async def run(self) -> None:
        """Work until cancelled."""

    def synced(self) -> bool:
        """Whether everything it decides by has been read."""
        ...

    def held_back(self) -> str:
        """What it waits for before it decides, although it has read everything; empty if it decides."""
        ...


T = TypeVar("T", bound=Term)


class Terms(Generic[T]):
    """Runs one term after the other, at most one at a time over all processes of the role.

    `current` is the term that runs, None while another process leads.

    Args:
        meta: the meta cluster, where the Lease is.
        role: which of the schedulers.
        identity: who we are in the election; different for each process.
        leader_elect: lead only while holding the Lease; False if there is certainly no other.
        begin: makes a term of what it is held by.
        namespace: where the Lease is.
    """

    def __init__(
        self,
        meta: Client,
        role: str,
        *,
        identity: str,
        leader_elect: bool,
        begin: Callable[[Office], T],
        namespace: str = names.SYSTEM_NAMESPACE,
    ) -> None:
        self._role = role
        self._identity = identity
        self._begin = begin
        lease = names.scheduler_lease(role)
        self._elector = LeaderElector(meta, lease, namespace, identity) if leader_elect else None
        self.current: T | None = None

    async def run(self) -> None:
        """Stand for election and lead until cancelled."""
        if self._elector is None:
            await self._lead()
        else:
            await self._elector.run(self._lead)

    async def _lead(self) -> None:
        elector = self._elector
        office = UNCONTESTED if elector is None else Office(elector.term, lambda: elector.is_sure)
        self.current = self._begin(office)
        try:
            await self.current.run()
        finally:
            self.current = None

    def ready(self, reads: str) -> tuple[bool, str]:
        """Whether the role does its work now, and why (not); `reads`: what a term reads before it decides."""
        if self.current is None:
            return True, "standby: another process holds the lease, or the election is under way"
        if not self.current.synced():
            return False, f"reading {reads} from the meta cluster"
        if held_back := self.current.held_back():
            return False, held_back
        return True, "leading"

    def status(self) -> dict[str, Any]:
        """Who we are and whether we lead, as plain JSON values."""
        return {"role": self._role, "identity": self._identity, "leader": self.current is not None}

    def leading(self) -> GaugeMetricFamily:
        """The metric that says whether we lead."""
        leading = GaugeMetricFamily(f"vcsync_{self._role}_leading", "1 while this process leads")
        leading.add_metric([], float(self.current is not None))
        return leading

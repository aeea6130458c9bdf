"""The pool of super clusters as the schedulers see it: capacity and settings, health by heartbeat."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import structlog
from msgspec import Struct

from vcsync.api.conditions import condition_of
from vcsync.api.objects import SuperCluster
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.reflector import Reflector
from vcsync.scheduling.resources import from_quantities
from vcsync.scheduling.snapshot import Health, SuperView, Taint, capacity_to_deal, judge_health

_LOOK_SECONDS = 5.0  # how often silence is looked at
REPORT_SECONDS = 5.0
"""For how long schedulers wait at most, when they begin, for super clusters that have not reported."""
_REPORT_LOOK_SECONDS = 0.05

_log = structlog.get_logger(__name__)


class Patience(Struct, frozen=True):
    """Seconds without heartbeat after which a super cluster is suspect, and after which it is lost."""

    suspect_after: float = 75.0
    lost_after: float = 300.0


class _Beat(Struct, frozen=True):
    """The newest heartbeat (as its syncer wrote it) and when, by our own clock, it was new to us."""

    text: str
    at: float


class Pool:
    """Keeps a `SuperView` of every SuperCluster in `views` and tells `on_change` whenever one differs.

    Clocks of syncers are not trusted: what counts is how long ago we saw a heartbeat change. Only the first
    one seen is aged by its own time, so that a restart does not make a dead super cluster look alive. While
    our own connection to the meta cluster is down, nobody grows more suspect.

    `problems` says of every SuperCluster that cannot be read why; it keeps the view it had, if it had one.
    """

    def __init__(
        self,
        meta: Client,
        *,
        patience: Patience | None = None,
        on_change: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.views: dict[str, SuperView] = {}
        self.problems: dict[str, str] = {}
        self.reflector = Reflector(meta, SUPER_CLUSTERS, on_change=self.observe)
        self._patience = patience or Patience()
        self._on_change = on_change
        self._clock = clock
        self._wall_clock = wall_clock
        self._objects: dict[str, SuperCluster] = {}
        self._beats: dict[str, _Beat] = {}
        self._blind_since: float | None = None

    async def run(self) -> None:
        """Follow the SuperClusters until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reflector.run(), name="super-clusters")
            while True:
                await asyncio.sleep(_LOOK_SECONDS)
                self.look()

    def observe(self, change: Change) -> None:
        """Take in a change of a SuperCluster."""
        if change.new is None:
            if change.old is not None:
                self._forget(change.old.name)
            return
        name = change.new.name
        try:
            self._objects[name] = SuperCluster.from_envelope(change.new)
        except ValueError as error:
            self._problem(name, error)
            return
        self.problems.pop(name, None)
        self._note_heartbeat(name, self._objects[name].status.heartbeat_time)
        if self._view(name):
            self._changed()

    def look(self) -> None:
        """Judge everyone's health anew, by the time that has passed."""
        self._allow_for_blindness()
        changed = [name for name in list(self._objects) if self._view(name)]
        if changed:
            self._changed()

    def unreported(self) -> list[str]:
        """The super clusters whose capacity is not known yet, though they may take slices and seem to be about to tell.

        One without nodes counts, too: its nodes may join while it begins. One whose last heartbeat is old does not know
        of its present state.
        """
        return sorted(
            name
            for name, view in self.views.items()
            if not (view.cordoned or view.draining)
            and (not self._reports(name) or (view.health is Health.READY and not view.capacity))
        )

    async def wait_reported(self, tell: Callable[[str], None], at_most: float = REPORT_SECONDS) -> None:
        """Wait until every registered super cluster has reported, for a few seconds at most.

        Whoever decides before gives everything to the first that reports.

        Args:
            tell: is told what is waited for.
            at_most: seconds.
        """
        until = self._clock() + at_most
        while (missing := self.unreported()) and self._clock() < until:
            tell(f"waiting up to {at_most:g} seconds for the first heartbeat of {', '.join(missing)}")
            await asyncio.sleep(_REPORT_LOOK_SECONDS)
        if missing:
            _log.info("began without heartbeat", super_clusters=missing)

    def _reports(self, name: str) -> bool:
        silent = self.silent_for(name)
        return silent is not None and silent < self._patience.suspect_after

    def silent_for(self, name: str) -> float | None:
        """Seconds since a super cluster's last heartbeat; None if there never was one."""
        beat = self._beats.get(name)
        if beat is None:
            return None
        now = self._clock() if self._blind_since is None else self._blind_since
        return max(0.0, now - beat.at)

    def _allow_for_blindness(self) -> None:
        """Do not hold the time against anyone in which we could not have seen a heartbeat."""
        if not self.reflector.synced:
            return
        if self.reflector.stale_since is not None:
            if self._blind_since is None:
                self._blind_since = self.reflector.stale_since
        elif self._blind_since is not None:
            now, since = self._clock(), self._blind_since
            self._blind_since = None
            for name, beat in self._beats.items():
                self._beats[name] = _Beat(beat.text, min(now, beat.at + now - since))

    def _note_heartbeat(self, name: str, text: str | None) -> None:
        known = self._beats.get(name)
        if not text or (known is not None and known.text == text):
            return
        now = self._clock()
        self._beats[name] = _Beat(text, now if known is not None else now - self._age(text))

    def _age(self, text: str) -> float:
        """Seconds since a point in time by wall clock; 0 if it is none or lies ahead."""
        try:
            then = datetime.fromisoformat(text)
        except ValueError:
            return 0.0
        then = then if then.tzinfo is not None else then.replace(tzinfo=UTC)
        return max(0.0, self._wall_clock() - then.timestamp())

    def _view(self, name: str) -> bool:
        """Make a super cluster's view anew; True if that changes it."""
        try:
            view = self._make_view(self._objects[name])
        except ValueError as error:
            self._problem(name, error)
            return False
        if self.views.get(name) == view:
            return False
        self.views[name] = view
        return True

    def _make_view(self, found: SuperCluster) -> SuperView:
        spec, status = found.spec, found.status
        if spec.id != found.name:
            raise ValueError(
                f"spec.id {spec.id!r} differs from metadata.name {found.name!r}: make them equal"
            )
        reachable, ready = (condition_of(status.conditions, kind) for kind in ("Reachable", "Ready"))
        return SuperView(
            found.name,
            judge_health(
                silent_for=self.silent_for(found.name),
                reachable=reachable is None or reachable.status == "True",
                ready=ready is None or ready.status == "True",
                suspect_after=self._patience.suspect_after,
                lost_after=self._patience.lost_after,
            ),
            capacity=capacity_to_deal(from_quantities(status.allocatable), spec.headroom, spec.overcommit),
            largest_node=from_quantities(status.largest_node),
            cordoned=spec.cordoned,
            draining=spec.drain or found.deleting,
            taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in spec.taints),
            price={resource: int(Decimal(text) * 1_000_000) for resource, text in spec.prices.items()},
        )

    def _forget(self, name: str) -> None:
        self._objects.pop(name, None)
        self._beats.pop(name, None)
        self.problems.pop(name, None)
        if self.views.pop(name, None) is not None:
            self._changed()

    def _problem(self, name: str, error: ValueError) -> None:
        if self.problems.get(name) != str(error):
            self.problems[name] = str(error)
            _log.warning("super cluster cannot be read", super_cluster=name, error=str(error))

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change()

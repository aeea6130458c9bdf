"""The schedulers' view of the pool: capacity, settings and health of each super cluster."""

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal

import structlog
from msgspec import Struct
from msgspec.structs import replace

from vcsync.api.conditions import condition_of
from vcsync.api.objects import SuperCluster
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.api.specs import FailureRecord
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.reflector import Reflector
from vcsync.published.kinds import KINDS
from vcsync.scheduling.resources import from_quantities
from vcsync.scheduling.snapshot import Health, SuperView, Taint
from vcsync.tenancy.distribution import capacity_of
from vcsync.tenancy.failure import Member, Patience, Sighting, advance, is_crowded
from vcsync.tenancy.failure_record import Crowd, Moment, is_outdated, recorded_absence, restore, stored
from vcsync.tenancy.health import Judgement, is_false, judge, sight, silence_of

_LOOK_SECONDS = 5.0  # interval at which health is judged again
REPORT_SECONDS = 5.0
"""Longest time in seconds that a scheduler waits at its start for super clusters that have not reported."""
_REPORT_LOOK_SECONDS = 0.05

_log = structlog.get_logger(__name__)


class _Beat(Struct, frozen=True):
    """The newest heartbeat as the syncer wrote it, and the monotonic seconds at which this process first saw it."""

    text: str
    at: float


class Pool:
    """Keeps a `SuperView` of every SuperCluster.

    The clocks of syncers are not trusted: health depends on when this process saw a heartbeat change. Only the first
    heartbeat is aged, so that a restart does not make a dead super cluster look alive: by what earlier terms have recorded in
    `status.failure`, or else by its own time, which makes nothing lost before a heartbeat was missing in this term, too. What
    earlier terms knew of failures is taken from the same record. While the connection to the meta cluster is down, no super
    cluster becomes suspect.

    Attributes:
        views: id -> view of the super cluster.
        problems: id -> why the SuperCluster cannot be read. Its view, if there is one, remains as it was.
        taken_out: ids of super clusters whose deletion by an operator was observed. A super cluster that is missing from
            a list is included only if it was to be drained.

    Args:
        meta: client of the meta cluster.
        patience: limits of silence after which a super cluster is suspect or lost.
        on_change: called when a view has changed.
        clock: monotonic seconds.
        wall_clock: seconds since 1970.
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
        self.taken_out: set[str] = set()
        self.reflector = Reflector(meta, SUPER_CLUSTERS, sink=self.observe)
        self._patience = patience or Patience()
        self._on_change = on_change
        self._clock = clock
        self._wall_clock = wall_clock
        self._objects: dict[str, SuperCluster] = {}
        self._beats: dict[str, _Beat] = {}
        self._unanswered: dict[str, float] = {}
        """Super cluster -> monotonic seconds since when its syncer reports that its API server does not answer."""
        self._doubted: dict[str, float] = {}
        """Super cluster -> monotonic seconds until which nobody but its own syncer's clock says that it is out of touch."""
        self._members: dict[str, Member] = {}
        self._restored: dict[str, Member] = {}
        """The states that earlier terms have stored. The first judgement of the whole pool begins with them."""
        self._blind_since: float | None = None
        self._crowded_at = float("-inf")
        """Monotonic seconds at which most of what was not lost was out of touch."""

    async def run(self) -> None:
        """Follow the SuperClusters until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reflector.run(), name="super-clusters")
            while True:
                await asyncio.sleep(_LOOK_SECONDS)
                self.look()

    def observe(self, change: Change) -> None:
        """Update the views after a change of a SuperCluster."""
        if change.new is None:
            if change.old is not None:
                if change.reported or change.old.deleting or self._is_draining(change.old.name):
                    self.taken_out.add(change.old.name)
                self._forget(change.old.name)
            return
        name = change.new.name
        self.taken_out.discard(name)
        try:
            self._objects[name] = SuperCluster.from_envelope(change.new)
        except ValueError as error:
            self._problem(name, error)
            return
        self.problems.pop(name, None)
        self._note_heartbeat(name, self._objects[name].status.heartbeat_time)
        self._note_answers(name)
        if name not in self._members:
            self._restore(name)
        self._judge_all(also=name)

    def look(self) -> None:
        """Judge the health of all super clusters again, since time has passed."""
        self._allow_for_blindness()
        self._judge_all()

    def _judge_all(self, also: str = "") -> None:
        """Update the views of all super clusters whose state changes, and of one whose object has changed.

        While no heartbeat can be seen, the time stands still. While the pool is read for the first time, each judgement begins
        again: without the others, one that vanished together with them would be lost.
        """
        self._note_crowd()
        before = self._members
        known = self._restored | before if self.reflector.synced else self._restored
        sightings = {name: self._sighting(name) for name in self._objects}
        self._members = advance(known, sightings, self._now(), self._patience)
        changed = [
            name
            for name, member in self._members.items()
            if name == also or member != before.get(name) or self._touch_differs(name)
        ]
        seen = [name for name in changed if self._view(name)]
        self._note_crowd()
        if seen:
            self._changed()

    def super_clusters(self) -> Iterable[SuperCluster]:
        """Return all SuperClusters that could be read."""
        return self._objects.values()

    def unreported(self) -> list[str]:
        """Return the super clusters that may take slices, and whose first heartbeat is probably about to arrive.

        Super clusters without nodes are included, since nodes may join at their start, and so are those whose last
        heartbeat is old, since it does not describe their present state.
        """
        return sorted(
            name
            for name, view in self.views.items()
            if not (view.cordoned or view.draining)
            and (not self._reports(name) or (not view.capacity and self._reachable(name)))
        )

    async def wait_reported(self, report: Callable[[str], None], at_most: float = REPORT_SECONDS) -> None:
        """Wait for the first report of every registered super cluster, for at most `at_most` seconds.

        Decisions made before that would place everything on the first super cluster that reports.

        Args:
            report: called with a text that names the super clusters that have not reported.
            at_most: longest wait in seconds.
        """
        until = self._clock() + at_most
        while (missing := self.unreported()) and self._clock() < until:
            report(f"waiting up to {at_most:g} seconds for the first heartbeat of {', '.join(missing)}")
            await asyncio.sleep(_REPORT_LOOK_SECONDS)
        if missing:
            _log.info("started without heartbeat", super_clusters=missing)

    def _reports(self, name: str) -> bool:
        silent = self.silent_for(name)
        return silent is not None and silent < self._patience.suspect_after

    def _reachable(self, name: str) -> bool:
        condition = condition_of(self._objects[name].status.conditions, "Reachable")
        return condition is None or condition.status == "True"

    def silent_for(self, name: str) -> float | None:
        """Return the seconds since a super cluster's last heartbeat; None if there was none."""
        beat = self._beats.get(name)
        if beat is None:
            return None
        return max(0.0, self._now() - beat.at)

    def judgement(self, name: str) -> Judgement:
        """Return the health of a super cluster in `views`, and the reason."""
        return judge(self._objects[name], self._members[name], self._sighting(name), self._patience)

    def state_for(self, name: str) -> float:
        """Return the seconds for which a super cluster in `views` has had its health."""
        return max(0.0, self._now() - self._members[name].since)

    def lost(self) -> dict[str, float]:
        """Return the super clusters that are lost, with the seconds since schedulers have known that.

        Of a fenced one nothing has to be awaited, since an operator has said that nothing runs there: its time is infinite.
        """
        return {
            name: float("inf") if view.fenced else self.state_for(name)
            for name, view in self.views.items()
            if view.health is Health.LOST
        }

    @property
    def held(self) -> bool:
        """Whether nothing may be moved: most of what is not lost is or was out of touch, or this process sees no heartbeats.

        It lasts for `Patience.lost_after` longer, since those that return last are lost as soon as the others are back.
        """
        return self._blind_since is not None or self._is_crowded() or self._crowded_lately()

    def outdated(self) -> list[tuple[SuperCluster, FailureRecord]]:
        """Return the super clusters whose `status.failure` differs from what this process knows, with what it has to be.

        Nothing is known well enough until the whole pool has been read, nor while no heartbeats can be seen.
        """
        if not self.reflector.synced or self._blind_since is not None:
            return []
        crowd = Crowd(self._is_crowded(), self._crowded_at if self._crowded_lately() else None)
        records = (
            (self._objects[name], stored(member, self._sighting(name), self._moment(), self._patience, crowd))
            for name, member in self._members.items()
        )
        return [
            (found, record)
            for found, record in records
            if record is not None and is_outdated(found.status.failure, record)
        ]

    def _restore(self, name: str) -> None:
        """Begin with what earlier terms have stored of a super cluster."""
        found = self._objects[name]
        problem = found.failure_problem
        self._doubt(name)
        if found.status.failure is not None:
            try:
                self._believe(name, found.status.failure)
                restored = restore(found.status.failure, self._sighting(name), self._moment(), self._patience)
            except ValueError as error:
                problem = str(error)
            else:
                self._restored[name] = restored.member
                self._crowded_at = max(self._crowded_at, restored.crowded_at)
        if problem:
            _log.warning("record of failures cannot be read", super_cluster=name, error=problem)

    def _doubt(self, name: str) -> None:
        """Doubt for a while that a super cluster is out of touch, of which only its syncer's clock tells so far."""
        if self._sighting(name).out_of_touch_for(self._patience) is not None:
            self._doubted[name] = self._now() + self._patience.suspect_after

    def _believe(self, name: str, record: FailureRecord) -> None:
        """Count from when earlier terms saw that a super cluster is out of touch, if they did."""
        absent = self._sighting(name).out_of_touch_for(self._patience)
        known = None if absent is None else recorded_absence(record, absent, self._moment())
        if known is None:
            return
        self._doubted.pop(name, None)
        began = self._now() - known
        if name in self._beats:
            self._beats[name] = replace(self._beats[name], at=max(began, self._beats[name].at))
        if name in self._unanswered:
            self._unanswered[name] = max(began, self._unanswered[name])

    def _moment(self) -> Moment:
        return Moment(self._now(), self._wall_clock())

    def _note_crowd(self) -> None:
        if self.reflector.synced and self._is_crowded():
            self._crowded_at = self._now()

    def _crowded_lately(self) -> bool:
        return self._now() - self._crowded_at < self._patience.lost_after

    def _is_crowded(self) -> bool:
        found = [view for view in self.views.values() if view.health is not Health.LOST]
        return is_crowded(self._members.values(), [bool(view.out_of_touch) for view in found])

    def _now(self) -> float:
        return self._clock() if self._blind_since is None else self._blind_since

    def _sighting(self, name: str) -> Sighting:
        since = self._unanswered.get(name)
        unanswered_for = None if since is None else max(0.0, self._now() - since)
        doubtful = self._now() < self._doubted.get(name, float("-inf"))
        return sight(self._objects[name], self.silent_for(name), unanswered_for, doubtful=doubtful)

    def _allow_for_blindness(self) -> None:
        """Exclude the time without a connection to the meta cluster, in which no heartbeat could be seen."""
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
            for name, at in self._unanswered.items():
                self._unanswered[name] = min(now, at + now - since)
            for name, until in self._doubted.items():
                self._doubted[name] = until + now - since
            for name, member in self._members.items():
                self._members[name] = replace(member, since=min(now, member.since + now - since))

    def _note_heartbeat(self, name: str, text: str | None) -> None:
        known = self._beats.get(name)
        if not text or (known is not None and known.text == text):
            return
        now = self._clock()
        age = silence_of(text, datetime.fromtimestamp(self._wall_clock(), UTC)) or 0.0
        self._beats[name] = _Beat(text, now if known is not None else now - age)

    def _note_answers(self, name: str) -> None:
        """Remember since when a super cluster's API server does not answer. Only what was there before is aged by its time."""
        found = self._objects[name]
        if not is_false(found, "Reachable"):
            self._unanswered.pop(name, None)
        elif name not in self._unanswered:
            condition = condition_of(found.status.conditions, "Reachable")
            first = name not in self._members and condition is not None
            wall = datetime.fromtimestamp(self._wall_clock(), UTC)
            age = (
                silence_of(condition.last_transition_time, wall) if first and condition is not None else None
            )
            self._unanswered[name] = self._clock() - (age or 0.0)

    def _view(self, name: str) -> bool:
        """Update a super cluster's view. Return whether it has changed."""
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
        return SuperView(
            found.name,
            Health.LOST if spec.fenced else self._members[found.name].state,
            out_of_touch=self._out_of_touch(found),
            capacity=capacity_of(found),
            largest_node=from_quantities(status.largest_node),
            nodes_version=status.nodes_version,
            cordoned=spec.cordoned,
            draining=spec.drain or found.deleting,
            fenced=spec.fenced,
            eviction_seconds=spec.eviction_seconds,
            taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in spec.taints),
            network_id=spec.network_id,
            price={resource: int(Decimal(text) * 1_000_000) for resource, text in spec.prices.items()},
            custom_resource_definitions=status.custom_resource_definitions,
            **{kind.field: getattr(status, kind.field) for kind in KINDS},
        )

    def _out_of_touch(self, found: SuperCluster) -> str:
        """Return `SuperView.out_of_touch`. It has times instead of ages, so that it stays the same while time passes."""
        if found.spec.fenced:
            return "its operator has fenced it"
        silent = self.silent_for(found.name)
        if silent is not None and silent >= self._patience.suspect_after:
            return f"no heartbeat since {found.status.heartbeat_time}"
        condition = condition_of(found.status.conditions, "Reachable")
        if condition is None or condition.status == "True":
            return ""
        return f"its API server has not answered since {condition.last_transition_time}"

    def _touch_differs(self, name: str) -> bool:
        """Return whether a view has to say otherwise since when nobody knows what happens there. The state may be the same."""
        view = self.views.get(name)
        return view is not None and view.out_of_touch != self._out_of_touch(self._objects[name])

    def _is_draining(self, name: str) -> bool:
        return name in self.views and self.views[name].draining

    def _forget(self, name: str) -> None:
        self._objects.pop(name, None)
        self._beats.pop(name, None)
        self._unanswered.pop(name, None)
        self._doubted.pop(name, None)
        self._members.pop(name, None)
        self._restored.pop(name, None)
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

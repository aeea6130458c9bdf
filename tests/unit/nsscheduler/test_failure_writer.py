"""A leader writes a record of failures once for each change, and nothing at rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from memory_cluster import MemoryCluster
from structlog.testing import capture_logs

from vcsync.api.objects import SuperCluster
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.api.specs import FailureRecord
from vcsync.kube.cache import Change
from vcsync.kube.errors import Conflict, Forbidden, KubeError, NotFound, Status, Unreachable
from vcsync.nsscheduler.failure_writer import RETRY_SECONDS, FailureWriter
from vcsync.objects.envelope import Envelope
from vcsync.tenancy.terms import TermLease

RECORD = FailureRecord(state="Lost", since="2026-01-01T00:00:00Z", failures=1)


class Stage:
    """A meta cluster with two super clusters. What is known of them is `records`; it stands in for the pool."""

    def __init__(self) -> None:
        self.now = 0.0
        self.held = True
        self.error: KubeError | None = None
        self.asked = 0
        self.meta = MemoryCluster("meta")
        for name in ("r1", "r2"):
            self.meta.put(SUPER_CLUSTERS, name, spec={"id": name}, status={"version": "v1"})
        self.records: dict[str, FailureRecord] = {}
        self.reflector = self
        self.seen: dict[str, SuperCluster] = {}
        for name in ("r1", "r2"):
            self.observe(self.meta._envelope((SUPER_CLUSTERS.plural, "", name)))
        self.meta.before = self.before
        self.writer = FailureWriter(
            self.meta,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            TermLease("term", lambda: self.held),
            lambda: self.now,
        )

    def before(self, verb: str, _plural: str, _name: str) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error

    def observe(self, envelope: Envelope) -> Change:
        self.seen[envelope.name] = SuperCluster.from_envelope(envelope)
        return Change(None, envelope)

    def outdated(self) -> Iterator[tuple[SuperCluster, FailureRecord]]:
        for name, record in self.records.items():
            if self.seen[name].status.failure != record:
                yield self.seen[name], record

    def status(self, name: str = "r1") -> dict[str, Any]:
        found: dict[str, Any] = (self.meta.found(SUPER_CLUSTERS, name) or {})["status"]
        return found


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_a_change_is_written_once_and_nothing_else_changes(stage: Stage) -> None:
    await stage.writer.look()
    assert stage.asked == 0
    stage.records = {"r1": RECORD}
    for _ in range(3):
        await stage.writer.look()
    assert stage.asked == 1
    assert stage.status()["version"] == "v1"
    assert stage.seen["r1"].status.failure == RECORD
    assert "failure" not in stage.status("r2")


async def test_a_record_that_cannot_be_read_is_replaced_as_a_whole(stage: Stage) -> None:
    stage.status()["failure"] = {"state": "Gone", "outOfTouchTime": 7}
    stage.records = {"r1": RECORD}
    await stage.writer.look()
    assert (
        SuperCluster.from_envelope(stage.meta._envelope((SUPER_CLUSTERS.plural, "", "r1"))).failure_problem
        == ""
    )
    assert stage.seen["r1"].status.failure == RECORD


async def test_nothing_is_written_when_another_process_may_lead(stage: Stage) -> None:
    stage.held, stage.records = False, {"r1": RECORD}
    await stage.writer.look()
    assert stage.asked == 0


@pytest.mark.parametrize("error", [Conflict(Status(409)), NotFound(Status(404)), Unreachable("gone")])
async def test_a_failed_write_is_tried_again_and_holds_up_no_other(stage: Stage, error: KubeError) -> None:
    stage.error, stage.records = error, {"r1": RECORD, "r2": RECORD}
    await stage.writer.look()
    assert stage.asked == 2
    stage.error = None
    await stage.writer.look()
    assert stage.seen["r1"].status.failure == stage.seen["r2"].status.failure == RECORD


async def test_a_write_to_an_object_that_has_changed_is_refused(stage: Stage) -> None:
    stage.meta.put(SUPER_CLUSTERS, "r1", spec={"id": "r1"}, status={"version": "v2"})
    stage.records = {"r1": RECORD}
    await stage.writer.look()
    assert stage.status() == {"version": "v2"}


async def test_outdated_permissions_are_told_once_and_cause_no_stream_of_requests(stage: Stage) -> None:
    stage.error, stage.records = Forbidden(Status(403)), {"r1": RECORD, "r2": RECORD}
    with capture_logs() as logs:
        for _ in range(3):
            await stage.writer.look()
        assert stage.asked == 1
        stage.now += RETRY_SECONDS
        await stage.writer.look()
    assert stage.asked == 2
    assert ["vcsync install" in log["event"] for log in logs] == [True]
    assert "403" in stage.writer.problem
    stage.error = None
    stage.now += RETRY_SECONDS
    await stage.writer.look()
    assert stage.writer.problem == ""


async def test_a_meta_cluster_without_the_field_gets_no_stream_of_requests(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pruned(*_: object, **__: object) -> Envelope:
        stage.asked += 1
        return stage.meta._envelope((SUPER_CLUSTERS.plural, "", "r1"))

    monkeypatch.setattr(stage.meta, "patch", pruned)
    stage.records = {"r1": RECORD}
    for _ in range(3):
        await stage.writer.look()
    assert stage.asked == 1

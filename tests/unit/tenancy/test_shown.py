"""The status of tenants, of the pool and of errors for operators."""

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from vcsync.fairqueue import FairQueue, WorkerPool
from vcsync.fairqueue.errors import LastError
from vcsync.scheduling.ledger import Entry, Ledger
from vcsync.scheduling.snapshot import Health
from vcsync.tenancy import TenantState, status
from vcsync.tenancy.health import Judgement
from vcsync.tenancy.registry import TenantStatistics
from vcsync.tenancy.status import (
    last_errors,
    pool_status,
    pool_troubles,
    skipped_objects,
    tenants_status,
    unanswered,
    wall_time,
)

EPOCH = 1767225600.0  # 2026-01-01T00:00:00Z, when the monotonic clock shows 1,000 seconds


@pytest.fixture(autouse=True)
def clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clocks of the module."""
    monkeypatch.setattr(status, "time", SimpleNamespace(time=lambda: EPOCH, monotonic=lambda: 1000.0))


class FakePool:
    """A pool of which one super cluster is well, one silent, one without any heartbeat and one unreadable."""

    problems: ClassVar = {"r1": "spec.headroom: too much", "r4": "spec.id is missing"}

    def __init__(self) -> None:
        self.views = {
            name: SimpleNamespace(cordoned=name == "r2", draining=name == "r3", capacity={"cpu": 4000})
            for name in ("r3", "r2", "r1")
        }

    def silent_for(self, name: str) -> float | None:
        return {"r1": 1.26, "r2": 80.0, "r3": None}[name]

    def state_for(self, name: str) -> float:
        return 40.0

    def judgement(self, name: str) -> Judgement:
        return {
            "r1": Judgement(Health.READY),
            "r2": Judgement(Health.SUSPECT, "no heartbeat for 80s"),
            "r3": Judgement(Health.UNKNOWN, "its syncer has not reported yet"),
        }[name]


def work(**options: Any) -> WorkerPool[Any]:
    async def handle(_group: str, _item: Any) -> None: ...

    return WorkerPool("test", handle, clock=lambda: 0.0, queue=FairQueue(), **options)


def test_every_tenant_is_shown_with_its_state_and_its_queue() -> None:
    statistics = [
        TenantStatistics("acme-key", "vcsync/acme", TenantState.READY, 60.0, 0, "", None),
        TenantStatistics("", "vcsync/odd", TenantState.REFUSED, 0.0, 2, "unreadable", 1.0),
    ]
    queue = work()
    for item in ("a", "b"):
        queue.add("acme-key", item)
    for item in ("c", "d", "e"):
        queue.add_after("acme-key", item, 10.0)
    registry: Any = SimpleNamespace(statistics=lambda: statistics)
    assert tenants_status(registry, queue) == {
        "acme-key": {
            "vc": "vcsync/acme",
            "synced": True,
            "state": "Ready",
            "since": "2025-12-31T23:59:00Z",
            "queue": 2,
            "delayed": 3,
            "waiting": 0,
            "lastError": None,
        },
        "vcsync/odd": {
            "vc": "vcsync/odd",
            "synced": False,
            "state": "Refused",
            "since": "2026-01-01T00:00:00Z",
            "queue": 0,
            "delayed": 0,
            "waiting": 0,
            "lastError": "unreadable",
        },
    }


def test_every_super_cluster_is_shown_with_its_health_its_amounts_and_its_problems() -> None:
    ledger = Ledger()
    ledger.put(("acme", "default"), Entry({"cpu": 500}, {"r1": 2}))
    pool: Any = FakePool()
    shown = pool_status(pool, ledger)
    assert list(shown) == ["r1", "r2", "r3", "r4"]
    assert shown["r1"] == {
        "health": "Ready",
        "reason": "",
        "since": "2025-12-31T23:59:20Z",
        "silentSeconds": 1.3,
        "cordoned": False,
        "draining": False,
        "capacity": {"cpu": "4"},
        "dealt": {"cpu": "1"},
        "free": {"cpu": "3"},
        "problem": "spec.headroom: too much",
    }
    assert shown["r2"] == {
        "health": "Suspect",
        "reason": "no heartbeat for 80s",
        "since": "2025-12-31T23:59:20Z",
        "silentSeconds": 80.0,
        "cordoned": True,
        "draining": False,
        "capacity": {"cpu": "4"},
        "dealt": {},
        "free": {"cpu": "4"},
    }
    assert (shown["r3"]["silentSeconds"], shown["r3"]["draining"]) == (None, True)
    assert shown["r4"] == {"problem": "spec.id is missing"}


def test_without_a_ledger_no_distributed_amounts_are_shown() -> None:
    pool: Any = FakePool()
    assert not any("dealt" in shown for shown in pool_status(pool).values())


def test_super_clusters_that_are_not_ready_are_named_with_the_reason() -> None:
    pool: Any = FakePool()
    assert pool_troubles(pool) == (
        "super cluster r2 is suspect: no heartbeat for 80s; super cluster r3 is unknown: its syncer has not reported yet"
    )
    pool.views = {"r1": pool.views["r1"]}
    assert pool_troubles(pool) == ""


@pytest.mark.parametrize(
    ("stale_since", "says"),
    [
        (None, ""),
        (1000.0, ""),
        (985.0, ""),
        (984.0, "the tenant has not answered for 16s"),
        (700.0, "the tenant has not answered for 5m"),
    ],
)
def test_a_server_that_opens_no_stream_for_a_while_does_not_answer(
    stale_since: float | None, says: str
) -> None:
    followed: Any = {
        "meta": SimpleNamespace(stale_since=None),
        "tenant": SimpleNamespace(stale_since=stale_since),
    }
    assert unanswered(followed) == says


def test_the_newest_errors_come_first_and_no_more_than_twenty() -> None:
    errors = {("acme", number): LastError("OSError: down", float(number), 1) for number in range(30)}
    queue: Any = SimpleNamespace(last_errors=errors)
    shown = last_errors(queue)
    assert [each["item"] for each in shown] == [str(number) for number in range(29, 9, -1)]
    assert len(last_errors(queue, queue, most=50)) == 50


def test_an_error_is_shown_with_its_time_its_item_and_its_text() -> None:
    errors = {
        ("acme", ("default", "web")): LastError("Forbidden: no", 940.0, 3, "ab-1"),
        ("umbrella", "all"): LastError("OSError: down", 939.0, 1),
    }
    queue: Any = SimpleNamespace(last_errors=errors)
    assert last_errors(queue) == [
        {
            "time": "2025-12-31T23:59:00Z",
            "tenant": "acme",
            "item": "default/web",
            "error": "Forbidden: no",
            "attempts": 3,
            "reconcile": "ab-1",
        },
        {
            "time": "2025-12-31T23:58:59Z",
            "tenant": "umbrella",
            "item": "all",
            "error": "OSError: down",
            "attempts": 1,
            "reconcile": "",
        },
    ]


def test_a_moment_of_the_monotonic_clock_is_shown_as_time_of_day() -> None:
    assert wall_time(1000.0) == "2026-01-01T00:00:00Z"
    assert wall_time(1061.0) == "2026-01-01T00:01:01Z"


def test_skipped_objects_are_named_with_the_reason() -> None:
    seen = SimpleNamespace(
        skipped={("default", "web"): "no time", ("", "node-1"): "no name"}, skipped_total=7
    )
    reflector: Any = SimpleNamespace(statistics=lambda: seen)
    assert skipped_objects(reflector) == {
        "skipped": {"default/web": "no time", "node-1": "no name"},
        "skippedTotal": 7,
    }


def test_a_reflector_that_has_skipped_nothing_shows_nothing() -> None:
    reflector: Any = SimpleNamespace(statistics=lambda: SimpleNamespace(skipped={}, skipped_total=0))
    assert skipped_objects(reflector) == {}

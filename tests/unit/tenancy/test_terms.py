"""Terms of a scheduler, one after another, with and without election."""

import asyncio
from typing import Any

import pytest

from vcsync.kube.errors import NotFound, Status
from vcsync.objects import envelope
from vcsync.objects.envelope import Envelope
from vcsync.tenancy.terms import UNCONTESTED, TermLease, Terms


class FakeTerm:
    """A term whose state the test sets."""

    def __init__(self, lease: TermLease) -> None:
        self.lease = lease
        self.is_synced = True
        self.waits_for = ""
        self.trouble = ""
        self.ends = asyncio.Event()

    async def run(self) -> None:
        await self.ends.wait()

    def synced(self) -> bool:
        return self.is_synced

    def held_back(self) -> str:
        return self.waits_for

    def troubles(self) -> str:
        return self.trouble


class LeaseServer:
    """A meta cluster that has no Lease yet and takes the first one; stands in for a client."""

    def __init__(self) -> None:
        self.created: list[tuple[str, str, dict[str, Any]]] = []

    async def get(self, *_: object) -> Envelope:
        raise NotFound(Status(404))

    async def create(self, _resource: object, body: dict[str, Any], namespace: str) -> Envelope:
        self.created.append((body["metadata"]["name"], namespace, body["spec"]))
        return envelope.parse(
            envelope.encode({**body, "metadata": {**body["metadata"], "uid": "u1", "resourceVersion": "1"}})
        )

    async def patch(self, *_: object) -> Envelope:
        raise NotFound(Status(404))


def terms(meta: Any = None, **options: Any) -> tuple[Terms[FakeTerm], list[FakeTerm]]:
    begun: list[FakeTerm] = []

    def begin(lease: TermLease) -> FakeTerm:
        begun.append(FakeTerm(lease))
        return begun[-1]

    return Terms(meta, "nsscheduler", identity="me", begin=begin, **{"leader_elect": False, **options}), begun


async def begins(begun: list[FakeTerm]) -> FakeTerm:
    async with asyncio.timeout(10):
        while not begun:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
    return begun[-1]


async def test_without_election_a_term_begins_immediately() -> None:
    subject, begun = terms()
    assert subject.current is None
    task = asyncio.create_task(subject.run())
    term = await begins(begun)
    assert subject.current is term
    assert term.lease is UNCONTESTED
    assert (term.lease.term, term.lease.still_held()) == ("", True)
    term.ends.set()
    await task
    assert subject.current is None


async def test_a_failed_term_ends() -> None:
    class BrokenTerm(FakeTerm):
        async def run(self) -> None:
            raise ValueError("broken")

    subject: Terms[BrokenTerm] = Terms(
        object(),  # type: ignore[arg-type]
        "nsscheduler",
        identity="me",
        leader_elect=False,
        begin=BrokenTerm,
    )
    with pytest.raises(ValueError, match="broken"):
        await subject.run()
    assert subject.current is None


async def test_with_election_a_term_is_held_by_the_lease_of_its_role() -> None:
    meta = LeaseServer()
    subject, begun = terms(meta, leader_elect=True, namespace="elsewhere")
    task = asyncio.create_task(subject.run())
    term = await begins(begun)
    [(name, namespace, spec)] = meta.created
    assert (name, namespace, spec["holderIdentity"]) == ("vcsync-nsscheduler", "elsewhere", "me")
    assert term.lease.term == "0.u1"
    assert term.lease.still_held() is True
    term.ends.set()
    await task
    assert term.lease.still_held() is False, "a process that released the lease may not write any more"


async def test_a_role_is_ready_when_it_decides_or_stands_by() -> None:
    subject, begun = terms()
    assert subject.ready("objects") == (
        True,
        "standby: another process holds the lease, or the election is under way",
    )
    task = asyncio.create_task(subject.run())
    term = await begins(begun)
    assert subject.ready("objects") == (True, "leading")
    term.trouble = "super cluster r1 is lost"
    assert subject.ready("objects") == (True, "leading, but super cluster r1 is lost")
    term.is_synced = False
    assert subject.ready("objects") == (False, "reading objects from the meta cluster")
    term.waits_for = "waiting for the first heartbeat of r1"
    assert subject.ready("objects") == (False, "waiting for the first heartbeat of r1")
    term.is_synced = True
    assert subject.ready("objects") == (False, "waiting for the first heartbeat of r1")
    term.ends.set()
    await task


async def test_status_and_metric_say_whether_this_process_leads() -> None:
    subject, begun = terms()
    assert subject.status() == {"role": "nsscheduler", "identity": "me", "leader": False}
    metric = subject.leading()
    assert (metric.name, metric.type, bool(metric.documentation)) == (
        "vcsync_nsscheduler_leading",
        "gauge",
        True,
    )
    assert [(sample.labels, sample.value) for sample in metric.samples] == [({}, 0.0)]
    task = asyncio.create_task(subject.run())
    term = await begins(begun)
    assert subject.status()["leader"] is True
    assert [sample.value for sample in subject.leading().samples] == [1.0]
    term.ends.set()
    await task

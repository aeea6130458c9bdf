"""`make bench` with another syncer: its tenant, the turns on one super cluster, and what it says about one that does not work."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.bench import comparison
from hack.bench.comparison import PEER, Turn
from hack.bench.peer import Peer, PeerFailed
from hack.bench.stage import QUOTA, QUOTAS, SUPER, SYNCER, Stage, stage, tenant_namespaces
from hack.bench.turns import Amounts, measure, turn
from hack.testbed import Cluster
from tests.real.waiting import limit
from vcsync.api import names

AMOUNTS = Amounts(burst=10, warm_up=2, single=3)
SMALL_SYNCER = f'exec {shlex.quote(sys.executable)} -m tests.real.small_syncer "$@"'
HERE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("bench"), webhook=True) as found:
        yield found


@pytest.fixture(scope="module")
def peer(made: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A peer whose program the tests replace by `program`."""
    folder = tmp_path_factory.mktemp("peer")
    program(folder, "exit 1")
    found = Peer(made, folder / "program", (), folder)
    yield found
    found.close()


def program(folder: Path, script: str) -> Path:
    file = folder / "program"
    file.write_text(f"#!/bin/sh\ncd {shlex.quote(str(HERE))}\n{script}\n")
    file.chmod(0o755)
    return file


def test_a_file_that_is_no_program_is_refused(peer: Peer) -> None:
    peer.program.write_bytes(b"\x00")

    with pytest.raises(PeerFailed, match=r"program cannot be started: .+"):
        peer.start()


def test_the_end_of_a_program_is_reported_with_its_output(peer: Peer, made: Stage) -> None:
    program(peer.program.parent, "echo 'unknown flag: --port'; exit 3")

    with pytest.raises(PeerFailed, match=r"(?s)has ended \(exit code 3\).*--peer-arg.*unknown flag: --port"):
        peer.start(limit(30.0))

    assert not made.guests


def test_a_program_that_runs_no_pod_is_reported_and_ended(peer: Peer, made: Stage) -> None:
    program(peer.program.parent, "echo waiting; exec sleep 600")

    with pytest.raises(PeerFailed, match=r"(?s)the tenant's first Pod: not within 3 s.*waiting"):
        peer.start(3.0)

    assert not made.guests


def test_the_end_of_a_program_in_its_turn_ends_the_measurement(peer: Peer, made: Stage) -> None:
    program(peer.program.parent, f"{SMALL_SYNCER} --end-at=pod-00003")

    with pytest.raises(PeerFailed, match=r"has ended \(exit code 4\)"):
        turn(made, peer, "peer", 1, AMOUNTS)

    peer.kill()


@pytest.mark.timeout(900)
def test_each_contender_has_the_super_cluster_for_itself_in_every_round(peer: Peer, made: Stage) -> None:
    program(peer.program.parent, SMALL_SYNCER)
    turns: list[Turn] = []
    left: list[list[str]] = []

    def done(finished: Turn) -> None:
        turns.append(finished)
        left.append(tenant_namespaces(made.bed.supers[SUPER]))

    measure(made, peer, 2, AMOUNTS, done)

    assert [each.contender for each in turns] == ["direct", "ours", "peer", "direct", "peer", "ours"]
    assert [each.round for each in turns] == [1, 1, 1, 2, 2, 2]
    assert left == [[]] * 6, "nothing of one contender is there in the turn of the next"
    assert hard_quota(peer.side.cluster) == QUOTA
    syncers = {SYNCER: "ours", PEER: "peer"}
    for each in turns:
        measured = {contender for process, contender in syncers.items() if process in each.burst.usage.cpu}
        assert measured == {each.contender} - {"direct"}
        assert each.burst.pods == each.burst.latency.pods == AMOUNTS.burst
        assert each.one_at_a_time.pods == AMOUNTS.single
    judged = [line for line in comparison.lines(turns) if line.limit is not None]
    assert len(judged) == 3
    assert all(len(line.ours) == len(line.peer) == 2 for line in judged)


def test_the_control_plane_asks_about_new_pods_if_the_user_wants_it(made: Stage) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

    status, _ = made.tenant.cluster.call("GET", f"{path}/{names.PLACEMENT_WEBHOOK}")

    assert status == 200


def hard_quota(cluster: Cluster) -> dict[str, str]:
    status, answer = cluster.call("GET", f"{QUOTAS}/quota")
    assert status == 200
    hard: dict[str, str] = answer["spec"]["hard"]
    return hard

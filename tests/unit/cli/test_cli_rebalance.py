"""`vcsync rebalance`: the requests that it writes, the wait for them, and its options."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from memory_cluster import MemoryCluster

from vcsync.api import names
from vcsync.api.moves import MoveRequest, Wanted, request_annotation
from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.cli.command.errors import FailedError
from vcsync.cli.command.main import main
from vcsync.cli.run.commands import tuning_of
from vcsync.cli.whatif import rebalance
from vcsync.cli.whatif.rebalance import ask, cancel_all, wait
from vcsync.scheduling.ledger import Entry
from vcsync.scheduling.rebalance import Move
from vcsync.whatif.rebalance import Found, Proposal, ShownMove, ShownScore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCORE = ShownScore(total="50.0000", balance="50.0000", grouping="50.0000")


def found(*namespaces: str) -> Found:
    """A proposal that moves a slice of each namespace."""
    shown = tuple(
        ShownMove(tenant="acme", namespace=each, source="r1", target="r2", slices=1) for each in namespaces
    )
    proposal = Proposal(
        moved=len(shown), budget=20, before=SCORE, after=SCORE, super_clusters=(), moves=shown
    )
    moves = tuple(Move(("root", each), "r1", "r2", 1) for each in namespaces)
    return Found(proposal, moves, {move.key: Entry({}, {"r1": 3}) for move in moves})


@pytest.fixture
def meta(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(rebalance, "_POLL_SECONDS", 0.0)
    cluster: Any = MemoryCluster("meta")
    for name in ("shop", "web"):
        cluster.put(NAMESPACE_PLACEMENTS, name, "root", metadata={"annotations": {"own": "kept"}})
    return cluster


def asked(meta: Any, name: str) -> dict[str, Any] | None:
    annotations = meta.found(NAMESPACE_PLACEMENTS, name, "root")["metadata"].get("annotations", {})
    assert annotations["own"] == "kept"
    return json.loads(annotations[names.MOVES]) if names.MOVES in annotations else None


def answer(meta: Any, name: str, refused: str = "") -> None:
    """Do what the leader does with a request."""
    request = MoveRequest(at="", moves=(Wanted("r1", "r2", 1),), refused=refused) if refused else None
    kept = {"own": "kept"} | (request_annotation(request) if request else {})
    meta.put(NAMESPACE_PLACEMENTS, name, "root", metadata={"annotations": kept})


async def test_each_namespace_is_asked_in_its_place(meta: Any) -> None:
    await ask(meta, found("web", "shop", "gone"), NOW)
    moves = [{"from": "r1", "to": "r2", "slices": 1}]
    common = {"at": "2026-01-01T00:00:00Z", "moves": moves, "left": {"r1": 2}}
    assert asked(meta, "web") == common
    assert asked(meta, "shop") == common | {"order": 1}


async def test_the_command_waits_until_the_leader_has_removed_the_requests(
    meta: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    await ask(meta, found("shop", "web"), NOW)
    left = ["shop", "web"]

    def look(verb: str, *_: str) -> None:
        if verb == "list" and left:
            answer(meta, left.pop())

    meta.before = look
    await wait(meta, found("shop", "web"), 60)
    assert "2 of 2 namespaces have moved" in capsys.readouterr().err


async def test_what_the_leader_refuses_is_named_with_the_reason(
    meta: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    await ask(meta, found("shop", "web"), NOW)
    answer(meta, "web")
    answer(meta, "shop", "r2 has no room for 1 slices")
    with pytest.raises(FailedError, match="1 of 2 namespaces did not move"):
        await wait(meta, found("shop", "web"), 60)
    assert "acme/shop  r2 has no room for 1 slices" in capsys.readouterr().err


async def test_a_leader_that_does_not_answer_is_not_waited_for_forever(meta: Any) -> None:
    await ask(meta, found("shop"), NOW)
    with pytest.raises(FailedError, match="1 namespaces have not moved after 0 seconds"):
        await wait(meta, found("shop"), 0)


async def test_requests_are_taken_back_and_refused_ones_stay_for_people(meta: Any) -> None:
    await ask(meta, found("shop"), NOW)
    answer(meta, "web", "no room")
    assert await cancel_all(meta) == 1
    assert asked(meta, "shop") is None
    assert asked(meta, "web") is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rebalance", "--super", "r1"), "give at least two super clusters"),
        (("rebalance", "--budget", "0"), "0 is not in the range"),
        (("run", "nsscheduler", "--rebalance-every", "5"), "'5' is not a duration"),
        (("run", "nsscheduler", "--rebalance-every", "1s"), "'1s' is less than 60s"),
        (("run", "nsscheduler", "--fail-back", "Always"), "'Always' is not one of"),
        (("tenant", "set", "acme", "--fail-back", "Always"), "'Always' is not one of"),
        (("tenant", "set", "acme", "--pod-replacement-policy", "Failed"), "'Failed' is not one of"),
    ],
    ids=lambda each: each if isinstance(each, str) else " ".join(each),
)
def test_an_option_that_makes_no_sense_is_refused(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(arguments)) != 0
    assert message in capsys.readouterr().err


def test_nothing_goes_back_and_nothing_is_rebalanced_unless_an_operator_says_so() -> None:
    tuning = tuning_of({})
    assert (tuning.fail_back, tuning.rebalance_every, tuning.move_budget) == ("Never", None, 20)
    given = tuning_of({"fail_back": "NextRebalance", "rebalance_every": 3600.0, "move_budget": 5})
    assert (given.fail_back, given.rebalance_every, given.move_budget) == ("NextRebalance", 3600.0, 5)

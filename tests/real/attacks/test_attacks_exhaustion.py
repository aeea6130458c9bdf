"""Requests that try to exhaust the server: each is answered in time, and the victim is served afterwards."""

from collections.abc import Iterator

import pytest

from hack.attacks import exhaustion
from hack.attacks.client import Answer
from hack.attacks.judge import REFUSED, problem
from hack.attacks.world import MARK, World
from hack.testbed.processes import resident_memory

ANSWERED = (REFUSED | {200, 201}) - {0}
TOO_LARGE = "etcdserver: request is too large"
"""What kube-apiserver says, with 500, of an object that no etcd takes."""
CUT_OFF = frozenset({"a body above the limit, in chunks", "a body that claims a petabyte"})
"""Of these the connection may end before the answer is read: the server does not wait for the rest."""
MOST_MEMORY = 3 * 2**30


@pytest.fixture(scope="module", autouse=True)
def prepared(world: World) -> Iterator[None]:
    exhaustion.prepare(world.attacker)
    yield
    assert resident_memory(world.plane.pid) < MOST_MEMORY


def wrong(answer: Answer, what: str) -> str:
    if answer.status == 500 and answer.message == TOO_LARGE:
        return ""
    return problem(answer, ANSWERED | {0} if what in CUT_OFF else ANSWERED)


@pytest.mark.parametrize("what", exhaustion.ATTACKS)
def test_an_attack_does_not_exhaust_the_server(world: World, what: str) -> None:
    answers = list(exhaustion.ATTACKS[what](world.attacker))
    assert answers
    assert [found for each in answers if (found := wrong(each, what))] == []
    assert all(MARK.encode() not in each.body for each in answers)


@pytest.mark.parametrize(
    "what", ["half requests", "half handshakes", "a body that claims a petabyte", "deep objects"]
)
def test_an_anonymous_attack_does_not_exhaust_the_server(world: World, what: str) -> None:
    answers = list(exhaustion.ATTACKS[what](world.anonymous))
    assert [found for each in answers if (found := wrong(each, what))] == []

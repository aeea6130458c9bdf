"""Requests that try to use up the server: memory, processor, connections, patience."""

from collections.abc import Iterator, Sequence

from hack.attacks import exhaustion
from hack.attacks.case import Case, Scene, wrong
from hack.attacks.judge import REFUSED

ANSWERED = REFUSED | {200, 201}
"""0: the connection ends before a body has been sent for which the server does not wait."""
TOO_LARGE = "etcdserver: request is too large"
"""What kube-apiserver says, with 500, of an object that no etcd takes."""


def cases() -> Sequence[Case]:
    """All of `exhaustion`."""
    return [_exhausting(name) for name in exhaustion.ATTACKS]


def _exhausting(name: str) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        if scene.attacker.ask("GET", f"{exhaustion.CONFIG_MAPS}/large-49").status == 404:
            exhaustion.prepare(scene.attacker)
        for answer in exhaustion.ATTACKS[name](scene.attacker):
            if answer.message != TOO_LARGE:
                yield from wrong(answer, ANSWERED)

    return Case(name, attack)

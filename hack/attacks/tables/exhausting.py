"""Requests that try to exhaust the server: its memory, processor, connections or time."""

from collections.abc import Iterator, Sequence

from hack.attacks import exhaustion
from hack.attacks.case import Case, Scene, wrong
from hack.attacks.judge import REFUSED

ANSWERED = REFUSED | {200, 201}
"""Acceptable codes; 0: the server closes the connection before it has received the whole body."""
TOO_LARGE = "etcdserver: request is too large"
"""kube-apiserver's message, with 500, about an object too large for etcd."""


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

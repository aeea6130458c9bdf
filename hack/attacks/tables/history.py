"""Overwriting one object repeatedly: the history is attributed to the writing tenant and limited."""

from collections.abc import Iterator, Sequence

from hack.attacks.case import DEFAULT, Case, Scene, wrong

PLACE = f"{DEFAULT}/configmaps"
SIZE = 250_000
TIMES = 12
"""Writes of each attack; together the attacks write more history than a tenant may have."""
ANSWERED = frozenset({200, 201, 403, 409, 429, 507})
"""403, 429, 507: the tenant has reached a limit."""


def cases() -> Sequence[Case]:
    """Replace a large ConfigMap many times; an attack succeeds if the store exceeds its limits."""
    return [_overwriting(number) for number in range(15)]


def _overwriting(number: int) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        name = f"history-{scene.index}"
        scene.attacker.ask("POST", PLACE, {"metadata": {"name": name}})
        for turn in range(TIMES):
            body = {"metadata": {"name": name}, "data": {"a": f"{number}-{turn}-" + "x" * SIZE}}
            yield from wrong(scene.attacker.ask("PUT", f"{PLACE}/{name}", body), ANSWERED)

    return Case(f"{TIMES} versions of {SIZE} bytes, turn {number}", attack)

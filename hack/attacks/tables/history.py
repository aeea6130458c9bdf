"""Writing over one object again and again: history counts for who writes it, and is bounded."""

from collections.abc import Iterator, Sequence

from hack.attacks.case import DEFAULT, Case, Scene, wrong

PLACE = f"{DEFAULT}/configmaps"
SIZE = 250_000
TIMES = 12
"""Of each case; all cases together write as much as any tenant could not keep."""
ANSWERED = frozenset({200, 201, 403, 409, 429, 507})
"""403, 429, 507: the tenant has written enough for now."""


def cases() -> Sequence[Case]:
    """A large ConfigMap is replaced many times; the bounds on the store's file are the attack's judge."""
    return [_overwriting(number) for number in range(15)]


def _overwriting(number: int) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        name = f"history-{scene.index}"
        scene.attacker.ask("POST", PLACE, {"metadata": {"name": name}})
        for turn in range(TIMES):
            body = {"metadata": {"name": name}, "data": {"a": f"{number}-{turn}-" + "x" * SIZE}}
            yield from wrong(scene.attacker.ask("PUT", f"{PLACE}/{name}", body), ANSWERED)

    return Case(f"{TIMES} versions of {SIZE} bytes, turn {number}", attack)

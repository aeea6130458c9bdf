"""Attacks that cost more than their bytes, each by the administrator of a tenant of its own."""

from collections.abc import Iterator, Sequence

from hack.attacks.case import Case, Scene, wrong
from hack.attacks.costly.row import Row
from hack.attacks.costly.table import GROUPS
from hack.attacks.judge import REFUSED
from hack.fuzz.judge import is_upstreams

ANSWERED = REFUSED | {200, 201, 202, 503, 507}


def cases() -> Sequence[Case]:
    """All of `costly` but those that table `exhausting` has."""
    rows = [(group, row) for group, rows in GROUPS.items() if group != "bodies" for row in rows]
    return [_case(number, group, row) for number, (group, row) in enumerate(rows)]


def _case(number: int, group: str, row: Row) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        name = f"{scene.tenant}-{number}"
        attacker = scene.world.tenant(name)
        for answer in row.attack(attacker):
            if answer.status != 500 or not is_upstreams(answer.message):
                yield from wrong(answer, ANSWERED)
        scene.world.operator.ask("DELETE", f"/vcsync/v1/tenants/{name}")

    return Case(f"{group}: {row.name}", attack)

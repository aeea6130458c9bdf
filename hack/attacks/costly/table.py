"""All costly attacks, by group."""

from collections.abc import Mapping, Sequence

from hack.attacks import exhaustion
from hack.attacks.client import Answer, Door
from hack.attacks.costly import controllers, reads, reviews, stored, subresources, unauthenticated
from hack.attacks.costly.row import Attack, Row

QUIET_STEP = 10
"""Aim in milliseconds for the attacks whose steps were made short before."""


def _prepared(attack: Attack) -> Attack:
    """Return an attack on the objects that all attacks of `exhaustion` share."""

    def prepared(door: Door) -> list[Answer]:
        exhaustion.prepare(door)
        return list(attack(door))

    return prepared


GROUPS: Mapping[str, Sequence[Row]] = {
    "stored": stored.ROWS,
    "reads": reads.ROWS,
    "reviews": reviews.ROWS,
    "subresources": subresources.ROWS,
    "controllers": controllers.ROWS,
    "unauthenticated": unauthenticated.ROWS,
    "bodies": [Row(name, _prepared(attack), step=QUIET_STEP) for name, attack in exhaustion.ATTACKS.items()],
}

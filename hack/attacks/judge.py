"""Whether an attack was refused, and without a hint."""

from collections.abc import Callable

from hack.attacks.client import Answer
from hack.attacks.world import MARK, NOBODY, VICTIM

REFUSED = frozenset(
    {0, 400, 401, 403, 404, 405, 406, 408, 409, 411, 413, 414, 415, 417, 422, 429, 431, 501, 505}
)
"""What refuses; 0: the connection was closed. A 500 refuses nothing: it is a defect."""


def problem(answer: Answer, wanted: frozenset[int] = REFUSED) -> str:
    """Say what is wrong with the answer to an attack; empty: nothing."""
    if MARK.encode() in answer.body:
        return f"the answer holds what is the victim's: {answer.body[:300]!r}"
    if answer.status not in wanted:
        return f"{answer.status}, not {sorted(wanted)}: {answer.message}"
    return ""


def hint(attack: Callable[[str], Answer], wanted: frozenset[int] = REFUSED) -> str:
    """Aim an attack at the victim and at a tenant that is not there; say what an attacker could learn."""
    at_victim, at_nobody = attack(VICTIM), attack(NOBODY)
    if at_victim.told != at_nobody.told and _named(at_victim) != _named(at_nobody):
        return f"the victim is told apart from nobody: {at_victim.told} and {at_nobody.told}"
    return problem(at_victim, wanted)


def _named(answer: Answer) -> tuple[object, ...]:
    # What the attacker wrote itself may come back to it.
    status, headers, body = answer.told
    return status, headers, body.replace(VICTIM.encode(), b"*").replace(NOBODY.encode(), b"*")

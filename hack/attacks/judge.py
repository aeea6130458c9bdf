"""Decides whether an attack was refused without revealing anything."""

from collections.abc import Callable

from hack.attacks.client import Answer
from hack.attacks.world import MARK, NOBODY, VICTIM

REFUSED = frozenset(
    {0, 400, 401, 403, 404, 405, 406, 408, 409, 411, 413, 414, 415, 417, 422, 429, 431, 501, 505}
)
"""Codes that refuse; 0: the connection was closed. A 500 does not refuse: it is a defect."""


def problem(answer: Answer, wanted: frozenset[int] = REFUSED) -> str:
    """Return the finding about the answer to an attack; empty: none."""
    if MARK.encode() in answer.body:
        return f"the answer contains data of the victim: {answer.body[:300]!r}"
    if answer.status not in wanted:
        return f"{answer.status}, not {sorted(wanted)}: {answer.message}"
    return ""


def hint(attack: Callable[[str], Answer], wanted: frozenset[int] = REFUSED, victim: str = VICTIM) -> str:
    """Send an attack to the victim and to a missing tenant; return the difference that an attacker could see."""
    at_victim, at_nobody = attack(victim), attack(NOBODY)
    if at_victim.visible != at_nobody.visible and _named(at_victim, victim) != _named(at_nobody, NOBODY):
        return f"the answers for the victim and a missing tenant differ: {at_victim.visible} and {at_nobody.visible}"
    return problem(at_victim, wanted)


def _named(answer: Answer, tenant: str) -> tuple[object, ...]:
    # The answer may contain text that the attacker sent.
    status, headers, body = answer.visible
    return status, headers, body.replace(tenant.encode(), b"*")

"""Limits of the bindings and rules that count for one user, which bound the time of a decision. Pure.

kube-apiserver looks through all of them at each request.
"""

from collections.abc import Iterable
from typing import NamedTuple

from vcsync.apiserver.authorization.rbac import Rule

MAX_BINDINGS = 10_000
"""Bindings of one user in a namespace that count, with those of its groups and those at the cluster scope."""
MAX_RULES = 10_000
"""Rules of distinct roles of one user in a namespace that count. A role without rules counts as one."""
MAX_VALUES = 100_000
"""Verbs, API groups, resources, names and URLs in these rules."""
MAX_CHARACTERS = 1_000_000
"""Characters of these values."""
EXCEEDED = (
    f"only {MAX_BINDINGS} bindings of a user, and {MAX_RULES} rules with {MAX_VALUES} values of {MAX_CHARACTERS} characters, "
    "count in a namespace: delete bindings, or shorten roles"
)
"""Message for users if bindings or roles do not count."""
MAX_NAMED = 100
"""Missing roles that a message names."""
MAX_TEXT = 400
"""Characters of each of them. A role that can exist has a shorter name."""


class Weight(NamedTuple):
    """The part of the limits that a role takes."""

    rules: int = 1
    values: int = 0
    characters: int = 0


def weight_of(rules: tuple[Rule, ...]) -> Weight:
    """Return the part of the limits that a role takes. A role that exceeds the limits by its rules is not looked at further."""
    if len(rules) > MAX_RULES:
        return Weight(len(rules))
    parts = [
        part for rule in rules for part in (rule.verbs, rule.groups, rule.resources, rule.names, rule.urls)
    ]
    return Weight(
        max(1, len(rules)), sum(map(len, parts)), sum(len(value) for part in parts for value in part)
    )


class Account:
    """Counts the roles of one user.

    Attributes:
        exceeded: Whether a role did not count.
    """

    __slots__ = ("_left", "_roles", "exceeded")

    def __init__(self) -> None:
        """Begin with no role."""
        self._roles: set[tuple[str, str, str]] = set()
        self._left = Weight(MAX_RULES, MAX_VALUES, MAX_CHARACTERS)
        self.exceeded = False

    def admit(self, role: tuple[str, str, str], weight: Weight, *, always: bool = False) -> bool:
        """Return whether a role counts: for the first time, and within the limits.

        Args:
            role: Kind, namespace and name of the role.
            weight: The part of the limits that it takes.
            always: Whether it counts beyond all limits.
        """
        if role in self._roles:
            return False
        left = self._left
        if always:
            self._roles.add(role)
            return True
        if weight.rules > left.rules or weight.values > left.values or weight.characters > left.characters:
            self.exceeded = True
            return False
        self._roles.add(role)
        self._left = Weight(
            left.rules - weight.rules, left.values - weight.values, left.characters - weight.characters
        )
        return True


def named(texts: Iterable[str]) -> list[str]:
    """Return the first texts for a message, and how many more there are."""
    found = list(dict.fromkeys(texts))
    more = len(found) - MAX_NAMED
    shown = [each[:MAX_TEXT] for each in found[:MAX_NAMED]]
    return [*shown, f"and {more} more"] if more > 0 else shown

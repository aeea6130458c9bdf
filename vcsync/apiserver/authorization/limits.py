"""Limits of the bindings and rules that count for one user, which bound the time of a decision. Pure.

kube-apiserver looks through all of them at each request.
"""

from collections.abc import Iterable

from vcsync.apiserver.authorization.rbac import Rule

MAX_BINDINGS = 10_000
"""Bindings of one user in a namespace that count, with those of its groups and those at the cluster scope."""
MAX_RULES = 10_000
"""Rules of distinct roles of one user in a namespace that count. A role without rules counts as one."""
MAX_VALUES = 100_000
"""Verbs, API groups, resources, names and URLs in these rules."""
EXCEEDED = (
    f"only {MAX_BINDINGS} bindings of a user, and {MAX_RULES} rules with {MAX_VALUES} values, count in a namespace: "
    "delete bindings, or shorten roles"
)
"""What users read if bindings or roles do not count."""
MAX_NAMED = 100
"""Missing roles that a message names."""
MAX_TEXT = 400
"""Characters of each of them. A role that can exist has a shorter name."""


class Account:
    """Counts the rules of the roles of one user."""

    __slots__ = ("_roles", "_rules", "_values", "exceeded")

    def __init__(self) -> None:
        """Begin with no role."""
        self._roles: set[tuple[str, str, str]] = set()
        self._rules = MAX_RULES
        self._values = MAX_VALUES
        self.exceeded = False

    def admit(
        self, role: tuple[str, str, str], rules: tuple[Rule, ...] | None, *, always: bool = False
    ) -> bool:
        """Return whether a role counts: for the first time, and within the limits.

        Args:
            role: Kind, namespace and name of the role.
            rules: Its rules, or None if it does not exist.
            always: Whether it counts beyond all limits.
        """
        if role in self._roles:
            return False
        self._roles.add(role)
        if always:
            return True
        count = max(1, len(rules or ()))
        values = values_of(rules or ()) if count <= self._rules else 0
        if count > self._rules or values > self._values:
            self.exceeded = True
            return False
        self._rules -= count
        self._values -= values
        return True


def values_of(rules: Iterable[Rule]) -> int:
    """Return the number of values in rules."""
    return sum(
        len(each.verbs) + len(each.groups) + len(each.resources) + len(each.names) + len(each.urls)
        for each in rules
    )


def named(texts: Iterable[str]) -> list[str]:
    """Return the first texts for a message, and how many more there are."""
    found = list(dict.fromkeys(texts))
    more = len(found) - MAX_NAMED
    shown = [each[:MAX_TEXT] for each in found[:MAX_NAMED]]
    return [*shown, f"and {more} more"] if more > 0 else shown

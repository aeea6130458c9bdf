"""RBAC rules: match requests, cover other rules, and are formatted for messages.

Behaviour: kubernetes `pkg/apis/rbac/v1/evaluation_helpers.go`, component-helpers `auth/rbac/validation` and
kubernetes `pkg/registry/rbac/validation/policy_compact.go`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vcsync.apiserver.request.caller import Asked, quoted
from vcsync.objects.budget import Budget
from vcsync.process.loop_turns import rest

EVERY = "*"
MAX_MISSING = 1000
"""Single permissions after which the search for missing ones ends."""
MAX_MISSING_CHARACTERS = 250_000
"""Characters of single permissions after which it ends. Long names occur in many of them."""


_WIRE_NAMES = {"groups": "apiGroups", "names": "resourceNames", "urls": "nonResourceURLs"}


class Rule(Struct, frozen=True, gc=False, rename=_WIRE_NAMES):
    """One entry of a role's `rules`. Large roles are decoded on the event loop, so that it is a type that msgspec decodes."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the rule as messages about escalation show it."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{title}:{quoted_all(values)}" for title, values in parts if values) + "}"


FULL_AUTHORITY = (
    Rule(verbs=(EVERY,), groups=(EVERY,), resources=(EVERY,)),
    Rule(verbs=(EVERY,), urls=(EVERY,)),
)


def quoted_all(values: Iterable[str]) -> str:
    """Return texts as Go's `%q` formats a slice: `["a" "b"]`."""
    return "[" + " ".join(map(quoted, values)) + "]"


def parse_rules(rules: Sequence[Mapping[str, Any]] | None) -> tuple[Rule, ...]:
    """Parse the `rules` of a role. Missing fields and null are empty."""

    def texts(rule: Mapping[str, Any], key: str) -> tuple[str, ...]:
        return tuple(rule.get(key) or ())

    return tuple(
        Rule(
            texts(rule, "verbs"),
            texts(rule, "apiGroups"),
            texts(rule, "resources"),
            texts(rule, "resourceNames"),
            texts(rule, "nonResourceURLs"),
        )
        for rule in rules or ()
    )


def allows(rule: Rule, asked: Asked) -> bool:
    """Return whether a rule allows a request."""
    if EVERY not in rule.verbs and asked.verb not in rule.verbs:
        return False
    if not asked.resource_request:
        return any(url_covers(url, asked.path) for url in rule.urls)
    if EVERY not in rule.groups and asked.group not in rule.groups:
        return False
    if rule.names and asked.name not in rule.names:
        return False
    return _resource_matches(rule.resources, asked.resource, asked.subresource)


def _resource_matches(resources: tuple[str, ...], resource: str, subresource: str) -> bool:
    if EVERY in resources:
        return True
    if not subresource:
        return resource in resources
    return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources


def url_covers(pattern: str, url: str) -> bool:
    """Return whether a rule's URL, which may end with `*`, covers another."""
    return pattern in (EVERY, url) or (pattern.endswith("*") and url.startswith(pattern.rstrip("*")))


async def missing(held: Iterable[Rule], wanted: Iterable[Rule], budget: Budget) -> tuple[list[Rule], bool]:
    """Return the first single permissions of `wanted` that `held` does not cover, in their order, and whether they are all.

    Takes turns with other tasks.

    Raises:
        BudgetExceeded: `wanted` and `held` have too many permissions to compare.
    """
    by_resource: dict[str, list[Rule]] = {}
    with_urls: list[Rule] = []
    for rule in held:
        budget.spend(_steps(rule))
        await rest(budget)
        for resource in dict.fromkeys(rule.resources):
            by_resource.setdefault(resource, []).append(rule)
        if rule.urls:
            with_urls.append(rule)
    found: list[Rule] = []
    characters = 0
    for atom in (atom for rule in wanted for atom in _atoms(rule)):
        budget.spend()
        await rest(budget)
        places = [by_resource.get(each, ()) for each in _spellings(atom)] if atom.resources else [with_urls]
        for rule in (rule for rules in places for rule in rules):
            budget.spend(_steps(rule))
            await rest(budget)
            if _covers(rule, atom):
                break
        else:
            found.append(atom)
            characters += sum(map(len, (*atom.verbs, *atom.groups, *atom.resources, *atom.names, *atom.urls)))
            if len(found) == MAX_MISSING or characters > MAX_MISSING_CHARACTERS:
                return found, False
    return found, True


def _steps(rule: Rule) -> int:
    """Return how many steps a comparison with a rule takes."""
    values = len(rule.verbs) + len(rule.groups) + len(rule.resources) + len(rule.names) + len(rule.urls)
    return 1 + values // 16


def _spellings(atom: Rule) -> Iterable[str]:
    """Return the texts in `resources` that cover the resource of a single permission."""
    _, slash, subresource = atom.resources[0].partition("/")
    return dict.fromkeys((EVERY, atom.resources[0], *((f"{EVERY}/{subresource}",) if slash else ())))


def _atoms(rule: Rule) -> Iterable[Rule]:
    """Split a rule into rules with one verb and one resource, name or URL."""
    names_apart: list[tuple[str, ...]] = [(name,) for name in rule.names] or [()]
    for group in rule.groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                for names in names_apart:
                    yield Rule((verb,), (group,), (resource,), names)
    for url in rule.urls:
        for verb in rule.verbs:
            yield Rule((verb,), urls=(url,))


def _covers(rule: Rule, atom: Rule) -> bool:
    def within(held: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
        return EVERY in held or all(each in held for each in wanted)

    return (
        within(rule.verbs, atom.verbs)
        and within(rule.groups, atom.groups)
        and all(_resource_covered(rule.resources, each) for each in atom.resources)
        and all(any(_url_within(held, each) for held in rule.urls) for each in atom.urls)
        and (not rule.names or (bool(atom.names) and all(each in rule.names for each in atom.names)))
    )


def _resource_covered(held: tuple[str, ...], resource: str) -> bool:
    if EVERY in held or resource in held:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in held


def _url_within(held: str, url: str) -> bool:
    return held == url or (held.endswith("*") and url.startswith(held.rstrip("*")))


def compact(rules: Iterable[Rule]) -> list[Rule]:
    """Merge rules of one group and resource that differ only in verbs, for messages."""
    merged: dict[Rule, Rule] = {}
    others: list[Rule] = []
    for rule in rules:
        if rule.urls or len(rule.groups) != 1 or len(rule.resources) != 1 or len(rule.names) > 1:
            others.append(rule)
            continue
        key = replace(rule, verbs=())
        before = merged.get(key)
        merged[key] = replace(rule, verbs=(before.verbs if before else ()) + rule.verbs)
    return [*others, *merged.values()]

"""An index of many rules by resource, so that a decision looks at the rules that name the resource. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vcsync.apiserver.authorization.rbac import EVERY, Rule, allows
from vcsync.apiserver.request.caller import Asked

_ENTRY_BYTES, _RESOURCE_BYTES = 80, 300


@dataclass(frozen=True, slots=True)
class RuleIndex:
    """Rules with the numbers of their roles.

    Attributes:
        by_resource: The rules that name a resource, as rules spell it, in ascending order of the numbers.
        with_urls: The rules that name URLs.
    """

    by_resource: dict[str, list[tuple[int, Rule]]]
    with_urls: list[tuple[int, Rule]]

    def first(self, asked: Asked) -> int | None:
        """Return the smallest number of a rule that allows a request, or None."""
        lists: Iterable[Sequence[tuple[int, Rule]]] = (self.with_urls,)
        if asked.resource_request:
            lists = (self.by_resource.get(each, ()) for each in spellings(asked.resource, asked.subresource))
        found = (_first(each, asked) for each in lists)
        return min((each for each in found if each is not None), default=None)

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        entries = len(self.with_urls) + sum(map(len, self.by_resource.values()))
        return _ENTRY_BYTES * entries + _RESOURCE_BYTES * len(self.by_resource)


def rule_index(roles: Iterable[Sequence[Rule]]) -> RuleIndex:
    """Return the index of the rules of roles. The number of a role is its position."""
    index = RuleIndex({}, [])
    for number, rules in enumerate(roles):
        for rule in rules:
            entry = (number, rule)
            for resource in rule.resources:
                index.by_resource.setdefault(resource, []).append(entry)
            if rule.urls:
                index.with_urls.append(entry)
    return index


def spellings(resource: str, subresource: str) -> Iterator[str]:
    """Yield the texts in a rule's `resources` that mean a resource."""
    yield EVERY
    yield f"{resource}/{subresource}" if subresource else resource
    if subresource:
        yield f"{EVERY}/{subresource}"


def _first(entries: Sequence[tuple[int, Rule]], asked: Asked) -> int | None:
    return next((number for number, rule in entries if allows(rule, asked)), None)

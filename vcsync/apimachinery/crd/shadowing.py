"""Detection of definitions that have the name of a built-in resource. Pure."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from vcsync.api.served import DEFINITIONS
from vcsync.apimachinery.errors import FieldError, not_allowed
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema import builtin


@cache
def _names() -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
    """Return the resources and kinds of every built-in group."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for each in builtin.resources():
        resources, kinds = found.setdefault(each.group, (set(), set()))
        resources |= {each.plural, each.singular, *each.short_names}
        kinds |= {each.kind, each.list_kind or f"{each.kind}List"}
    # Control planes serve these beside the built-in ones.
    for definition in DEFINITIONS:
        own = definition.resource
        resources, kinds = found.setdefault(own.group, (set(), set()))
        resources |= {own.plural, own.kind.lower(), *definition.short_names}
        kinds |= {own.kind, f"{own.kind}List"}
    return {group: (frozenset(resources), frozenset(kinds)) for group, (resources, kinds) in found.items()}


def is_builtin(group: str, plural: str) -> bool:
    """Return whether a built-in resource of this group and name exists."""
    return plural in _names().get(group, ((), ()))[0]


def shadows(resource: Resource) -> bool:
    """Return whether a custom resource has the name or the kind of a built-in one of its group."""
    resources, kinds = _names().get(resource.group, (frozenset(), frozenset()))
    return resource.plural in resources or resource.kind in kinds


def check_changed_names(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    """Return the findings on new names in a definition that belong to built-in resources or kinds of its group.

    Names that are stored already do not prevent updates.
    """
    before = {(each.field.partition("[")[0], each.body) for each in check_names(old)}
    return [each for each in check_names(new) if (each.field.partition("[")[0], each.body) not in before]


def check_names(definition: Mapping[str, Any]) -> list[FieldError]:
    """Return the findings on names in a new definition that belong to built-in resources or kinds of its group.

    kube-apiserver accepts such definitions if their group is approved, and never serves them.
    """
    spec = definition["spec"]
    group, names = spec.get("group") or "", spec.get("names") or {}
    resources, kinds = _names().get(group, (frozenset(), frozenset()))
    wanted = [
        ("plural", names.get("plural"), resources),
        ("singular", names.get("singular"), resources),
        *((f"shortNames[{at}]", each, resources) for at, each in enumerate(names.get("shortNames") or ())),
        ("kind", names.get("kind"), kinds),
        ("listKind", names.get("listKind"), kinds),
    ]
    told = f"is built in: the group {group} has it already; choose another name or another group"
    return [
        not_allowed(f"spec.names.{part}", f'"{value}" {told}')
        for part, value, taken in wanted
        if value in taken
    ]

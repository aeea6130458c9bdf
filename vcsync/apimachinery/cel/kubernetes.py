"""Kubernetes' CEL functions: the table of all of them, and named formats. Pure.

Source: `pkg/cel/library` of k8s.io/apiserver.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from vcsync.apimachinery.cel import addresses, quantities, urls, versions
from vcsync.apimachinery.cel.arguments import Function, of_types
from vcsync.apimachinery.cel.quantities import Quantity
from vcsync.apimachinery.cel.values import NONE, NoOverload, Optional, Work
from vcsync.apimachinery.cel.versions import Semver
from vcsync.apimachinery.structural import formats
from vcsync.apimachinery.validation import names


@dataclass(frozen=True, slots=True)
class Format:
    """A named format. `check` returns the messages about a text."""

    name: str
    check: Callable[[str], list[str]]
    type_name: ClassVar[str] = "kubernetes.NamedFormat"


def _prefixed(rule: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda text: rule(f"{text[:-1]}a" if text.endswith("-") else text)


def _has_format(name: str, words: str) -> Callable[[str], list[str]]:
    return lambda text: [] if formats.FORMATS[name](text) else [words]


_FORMATS = {
    name: Format(name, check)
    for name, check in {
        "dns1123Label": names.dns_label,
        "dns1123Subdomain": names.dns_subdomain,
        "dns1035Label": names.dns_label_1035,
        "qualifiedName": names.qualified_name,
        "dns1123LabelPrefix": _prefixed(names.dns_label),
        "dns1123SubdomainPrefix": _prefixed(names.dns_subdomain),
        "dns1035LabelPrefix": _prefixed(names.dns_label_1035),
        "labelValue": names.label_value,
        "uri": _has_format("uri", "invalid URI"),
        "uuid": _has_format("uuid", "does not match the UUID format"),
        "byte": _has_format("byte", "invalid base64"),
        "date": _has_format("date", "invalid date"),
        "datetime": _has_format("datetime", "invalid datetime"),
    }.items()
}


@of_types(str)
def _named(_: Work, name: str) -> Optional:
    found = _FORMATS.get(name)
    return NONE if found is None else Optional(found)


@of_types(Format, str)
def _validate(_: Work, format_: Format, text: str) -> Optional:
    problems = format_.check(text)
    return Optional(list(problems)) if problems else NONE


def _compared(check: Callable[[int], bool | int]) -> Function:
    """Return a comparison of two quantities or two versions."""

    def compare(_: Work, left: object, right: object) -> bool | int:
        if isinstance(left, Quantity) and isinstance(right, Quantity):
            return check(left.order(right))
        if isinstance(left, Semver) and isinstance(right, Semver):
            return check(left.order(right))
        raise NoOverload

    return compare


FUNCTIONS: dict[str, Function] = {
    **addresses.FUNCTIONS,
    **quantities.FUNCTIONS,
    **urls.FUNCTIONS,
    **versions.FUNCTIONS,
    "isGreaterThan": _compared(lambda order: order > 0),
    "isLessThan": _compared(lambda order: order < 0),
    "compareTo": _compared(lambda order: order),
    "format.named": _named,
    "validate": _validate,
    **{f"format.{name}": (lambda _, found=found: found) for name, found in _FORMATS.items()},
}
"""Implementation of each function, by name."""

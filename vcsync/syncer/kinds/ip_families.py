"""IP families of the copies of a tenant's Services: those that each super cluster has. Pure.

A tenant's API server may have other families than a super cluster. A copy asks for one family, or for as many as there are: a
super cluster of one family refuses a Service that requires two, and one that names a family which it lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

FIELD: Final = "ipFamilyPolicy"
SINGLE_STACK: Final = "SingleStack"
PREFER_DUAL_STACK: Final = "PreferDualStack"
REQUIRE_DUAL_STACK: Final = "RequireDualStack"
ONE_FAMILY: Final = "OneIPFamily"
"""Event reason: a Service that requires two IP families has one in a super cluster."""


def policy(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the field of the copy of a new Service; nothing where the tenant's API server has only set its default."""
    return {FIELD: PREFER_DUAL_STACK} if _is_dual(spec) else {}


def change(spec: Mapping[str, Any], actual: Mapping[str, Any]) -> dict[str, str]:
    """Return the field in a patch of the copy of a Service that has cluster IPs; empty if it asks for what it should."""
    if _is_dual(spec) == _is_dual(actual) or FIELD not in actual:
        return {}
    return {FIELD: PREFER_DUAL_STACK if _is_dual(spec) else SINGLE_STACK}


def only_family(spec: Mapping[str, Any], actual: Mapping[str, Any]) -> str:
    """Return the IP family of the copy of a Service that requires two, if the super cluster has no other; "" otherwise.

    Args:
        spec: spec of the tenant's Service.
        actual: spec of the copy. While it asks for one family itself, nothing is known of the super cluster.
    """
    if spec.get(FIELD) != REQUIRE_DUAL_STACK or not _is_dual(actual):
        return ""
    families: list[str] = actual.get("ipFamilies") or []
    return families[0] if len(families) == 1 else ""


def missing(family: str, super_id: str) -> str:
    """Return the text for the tenant about a Service that has only one of the two families that it requires."""
    return (
        f"spec.ipFamilyPolicy RequireDualStack: super cluster {super_id} has {family} addresses only, and the Service has no "
        "others there: set PreferDualStack or SingleStack, or ask the operator for super clusters with both families"
    )


def _is_dual(spec: Mapping[str, Any]) -> bool:
    return spec.get(FIELD) not in (None, SINGLE_STACK)

"""Restricts selectors of namespaces to the namespaces of one tenant."""

from __future__ import annotations

from typing import Any, Final

from vcsync.api import names

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""Label of every Namespace with its name, which the API server sets."""


def restrict(selector: dict[str, Any], key: str) -> None:
    """Have a namespaceSelector select super namespaces of a tenant only, and translate names in it, in place.

    Args:
        selector: the LabelSelector.
        key: cluster key of the tenant.
    """
    match = dict(selector.get("matchLabels") or {})
    if NAMESPACE_NAME in match:
        match[NAMESPACE_NAME] = names.super_namespace(key, match[NAMESPACE_NAME])
    match[names.CLUSTER] = key
    selector["matchLabels"] = match
    for expression in selector.get("matchExpressions") or ():
        if expression.get("key") == NAMESPACE_NAME and expression.get("values"):
            expression["values"] = [names.super_namespace(key, value) for value in expression["values"]]

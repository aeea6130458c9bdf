"""Finds the parameters of policies: the objects that a binding names, of any kind.

Behaviour: `CollectParams` of apiserver's `plugin/policy/generic`.
"""

from collections.abc import Sequence
from typing import Protocol

from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.matching import labels_of, selector_of
from vcsync.apiserver.request.resource import Kind

MOST = 1000
"""Most objects that the selector of a binding may match."""


class ParamSource(Protocol):
    """Finds the parameters of policies."""

    def kind(self, tenant: str, param_kind: Object) -> Kind | None:
        """Return the kind that a `paramKind` names, or None if it is unknown."""

    async def find(self, tenant: str, kind: Kind, namespace: str, name: str) -> list[Object]:
        """Return the served object of a name, if it exists, or all objects of a namespace if the name is empty."""


class Misconfigured(Exception):
    """The policy or binding is misconfigured. The message says why."""


def shown_kind(param_kind: Object) -> str:
    """Return a parameter kind as messages show it."""
    group, _, version = (param_kind.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={param_kind.get('kind') or ''}"


async def collect(
    source: ParamSource, tenant: str, kind: Kind | None, reference: Object | None, namespace: str
) -> Sequence[Object | None]:
    """Return the parameters of a binding. The policy is evaluated once with each; None: without a parameter.

    Args:
        source: Finds objects.
        tenant: Tenant of the policy.
        kind: The kind of its parameters, or None if the policy has no `paramKind`.
        reference: `paramRef` of the binding.
        namespace: Namespace of the request.

    Raises:
        Misconfigured: The reference is invalid, or required parameters do not exist.
    """
    if reference is None or kind is None:
        return (None,)
    within = reference.get("namespace") or ""
    if not kind.resource.namespaced:
        if within:
            raise Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    elif not within and not namespace:
        raise Misconfigured(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    else:
        within = within or namespace
    name = reference.get("name") or ""
    found = await source.find(tenant, kind, within, name)
    if not name:
        selector = selector_of(reference.get("selector"))
        found = [each for each in found if selector.matches(labels_of(each))]
        if len(found) > MOST:
            raise Misconfigured(f"more than {MOST} params are selected")
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise Misconfigured("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found

"""Parameters of policies: the objects that a binding names, of any kind that the tenant has.

As `CollectParams` of apiserver's `plugin/policy/generic`.
"""

from collections.abc import Awaitable, Callable, Sequence

from vcsync.controlplane.admission.matching import labels_of, selector_of
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.rest.kind import Kind

MOST = 1000
"""Objects that a selector of a binding may choose."""

Find = Callable[[Kind, str, str], Awaitable[list[Object]]]
"""(kind, namespace, name) -> served objects; an empty name: all."""


class Misconfigured(Exception):
    """The policy or binding cannot be held against anything; the message says why."""


def shown_kind(param_kind: Object) -> str:
    """Write a parameter kind as messages do."""
    group, _, version = (param_kind.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={param_kind.get('kind') or ''}"


async def collect(
    param_kind: Object | None, kind: Kind | None, reference: Object | None, namespace: str, find: Find
) -> Sequence[Object | None]:
    """Return the parameters with which a policy is evaluated, once with each; None: without any.

    Args:
        param_kind: of the policy.
        kind: what serves it; None if there is no `param_kind`.
        reference: the binding's `paramRef`.
        namespace: of the request.
        find: reads objects.

    Raises:
        Misconfigured: there are none where there must be some.
    """
    if param_kind is None or reference is None or kind is None:
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
    found = await find(kind, within, name)
    if not name:
        selector = selector_of(reference.get("selector"))
        found = [each for each in found if selector.matches(labels_of(each))]
        if len(found) > MOST:
            raise Misconfigured(f"more than {MOST} params are selected")
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise Misconfigured("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found

"""Reports selectors that use labels which copies of Pods and Namespaces do not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds.keys import is_stripped
from vcsync.syncer.kinds.plan import Action, Notify, Plan, TenantContext, Wait

NOT_ENFORCED: Final = "NotEnforced"
"""Event reason: a selector uses labels that the copies of Pods or Namespaces do not have."""


def keys(selector: Mapping[str, Any] | None, context: TenantContext) -> Iterator[str]:
    """Yield the keys of a LabelSelector that are not copied to super clusters."""
    if selector is None:
        return
    used = [*(selector.get("matchLabels") or ())]
    used += [each.get("key", "") for each in selector.get("matchExpressions") or ()]
    yield from (key for key in used if is_stripped(key, context))


def not_enforced(resource: Resource, v: Envelope, key: str, *actions: Action) -> Plan:
    """Return the plan that reports an object which cannot be enforced in super clusters.

    Args:
        resource: v's resource.
        v: the tenant's object.
        key: the label that copies do not have.
        actions: what is done besides.
    """
    message = (
        f"a selector uses the label {key}, which the clusters your Pods run on do not get: this {resource.kind}, or its last "
        "change, is not enforced there; use labels of your own"
    )
    return Plan(
        (*actions, Notify("Warning", NOT_ENFORCED, message)),
        Wait(f"{resource.kind} {v.name}: a selector uses the label {key}, which is not copied"),
    )

"""Converts a Pod's affinity, topology spread and node selection for the nodes and namespaces of a super cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vcsync.api import names
from vcsync.kube.resources import NAMESPACES, NODES, PODS
from vcsync.syncer.kinds import keys, namespace_selector
from vcsync.syncer.kinds.plan import TenantContext, View

HOSTNAME: Final = "kubernetes.io/hostname"
_NODE_NAME_FIELD: Final = "metadata.name"
_NEGATIONS: Final = frozenset({"NotIn", "DoesNotExist"})
"""Operators that nodes without the label satisfy."""


def convert_constraints(
    spec: dict[str, Any], labels: Mapping[str, str], context: TenantContext, view: View
) -> None:
    """Convert affinity, topologySpreadConstraints and nodeSelector of a spec in place.

    Args:
        spec: the spec to change.
        labels: the tenant Pod's labels.
        context: the tenant's settings.
        view: the caches.
    """
    if affinity := spec.get("affinity"):
        for kind in ("podAffinity", "podAntiAffinity"):
            if terms := affinity.get(kind):
                _pod_terms(terms, labels, context)
        if node_affinity := affinity.get("nodeAffinity"):
            _node_affinity(node_affinity, context, view)
            if not node_affinity:
                del affinity["nodeAffinity"]
    for constraint in spec.get("topologySpreadConstraints") or ():
        _drop_merged_keys(constraint, labels)
        _use_keys_of_copies(constraint, context)
    if selector := spec.get("nodeSelector"):
        _node_selector(selector, context, view)


# --- Pod affinity ----------------------------------------------------------------------------------------


def _pod_terms(terms: dict[str, Any], labels: Mapping[str, str], context: TenantContext) -> None:
    for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
        _pod_term(term, labels, context)
    for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        if term := weighted.get("podAffinityTerm"):
            _pod_term(term, labels, context)


def _pod_term(term: dict[str, Any], labels: Mapping[str, str], context: TenantContext) -> None:
    """Restrict a term to this tenant's Pods. A term without labelSelector matches nothing and is not changed."""
    _drop_merged_keys(term, labels)
    _use_keys_of_copies(term, context)
    if (selector := term.get("labelSelector")) is not None:
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), names.CLUSTER: context.key}
    if namespaces := term.get("namespaces"):
        term["namespaces"] = [names.super_namespace(context.key, namespace) for namespace in namespaces]
    if (selector := term.get("namespaceSelector")) is not None:
        namespace_selector.restrict(selector, context.key)


def _use_keys_of_copies(term: dict[str, Any], context: TenantContext) -> None:
    """Select by the keys that the labels of copies have."""
    for field, kind in (("labelSelector", PODS), ("namespaceSelector", NAMESPACES)):
        if (selector := term.get(field)) is not None:
            term[field] = keys.label_selector(selector, kind, context)
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        if listed := term.get(field):
            term[field] = [keys.label_key(key, PODS, context) for key in listed]


def _drop_merged_keys(term: dict[str, Any], labels: Mapping[str, str]) -> None:
    """Drop the matchLabelKeys that the tenant's API server has merged into the selector already.

    The super cluster's API server would refuse a key that is in both (KEP-3633, KEP-3243).
    """
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        listed = term.get(field)
        if not listed:
            continue
        expressions = (term.get("labelSelector") or {}).get("matchExpressions") or ()
        merged = {
            expression.get("key")
            for expression in expressions
            if expression.get("operator") == operator
            and expression.get("values") == [labels.get(expression.get("key", ""))]
        }
        left = [key for key in listed if key not in merged]
        if left:
            term[field] = left
        else:
            del term[field]


# --- Node affinity ---------------------------------------------------------------------------------------


def _real_name(virtual: str, context: TenantContext) -> str:
    """Return the name of a virtual node's node. A name of another super cluster is returned as it is and matches none."""
    return names.split_virtual_node(virtual, context.super_id) or virtual


def _hostname(virtual: str, context: TenantContext, view: View) -> str:
    """Return the hostname label of a virtual node's node, which may differ from the node's name."""
    name = names.split_virtual_node(virtual, context.super_id)
    if name is None:
        return virtual
    node = view.super(NODES, "", name)
    return node.labels.get(HOSTNAME, name) if node is not None else name


def _virtual_labels(context: TenantContext) -> dict[str, str]:
    """Return the labels that every virtual node of this super cluster has, and no real node has."""
    return {names.VIRTUAL_NODE: names.TRUE, names.SUPER_CLUSTER_ID: context.super_id}


def _node_selector(selector: dict[str, str], context: TenantContext, view: View) -> None:
    for label, value in _virtual_labels(context).items():
        if selector.get(label) == value:
            del selector[label]
    if HOSTNAME in selector:
        selector[HOSTNAME] = _hostname(selector[HOSTNAME], context, view)


def _node_affinity(affinity: dict[str, Any], context: TenantContext, view: View) -> None:
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required:
        # Terms are alternatives: if every node here satisfies one of them, the requirement has no effect.
        terms = required.get("nodeSelectorTerms") or ()
        satisfied = [_node_term(term, context, view) for term in terms]
        if any(satisfied):
            del affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution")
    if preferred:
        # A preference that every node here satisfies has no effect.
        left = [term for term in preferred if not _node_term(term.get("preference") or {}, context, view)]
        if left:
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = left
        else:
            del affinity["preferredDuringSchedulingIgnoredDuringExecution"]


def _node_term(term: dict[str, Any], context: TenantContext, view: View) -> bool:
    """Convert one term in place. Return whether it is empty afterwards, because every node here satisfies it."""
    for requirement in term.get("matchFields") or ():
        if requirement.get("key") == _NODE_NAME_FIELD:
            requirement["values"] = [_real_name(value, context) for value in requirement.get("values") or ()]
    expressions = term.get("matchExpressions")
    if not expressions:
        return False
    left = []
    for requirement in expressions:
        if requirement.get("key") == HOSTNAME and requirement.get("values"):
            requirement["values"] = [_hostname(value, context, view) for value in requirement["values"]]
        if not _always_true(requirement, context):
            left.append(_for_real_nodes(requirement, context))
    if left:
        term["matchExpressions"] = left
        return False
    del term["matchExpressions"]
    return not term.get("matchFields")


def _for_real_nodes(requirement: dict[str, Any], context: TenantContext) -> dict[str, Any]:
    """Return a requirement that no real node satisfies if no virtual node of this super cluster does.

    Real nodes lack the label, so they would satisfy a negation.
    """
    if requirement.get("key") in _virtual_labels(context) and requirement.get("operator") in _NEGATIONS:
        return {"key": requirement["key"], "operator": "Exists"}
    return requirement


def _always_true(requirement: Mapping[str, Any], context: TenantContext) -> bool:
    """Return whether all virtual nodes of this super cluster satisfy a requirement on a label that only those have."""
    value = _virtual_labels(context).get(requirement.get("key", ""))
    if value is None:
        return False
    operator, values = requirement.get("operator"), requirement.get("values") or ()
    return (
        operator == "Exists"
        or (operator == "In" and value in values)
        or (operator == "NotIn" and value not in values)
    )

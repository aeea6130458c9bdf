"""NetworkPolicies: the rules are copied down. Selectors of namespaces select namespaces of the same tenant only.

A policy applies to the tenant's own Pods on one super cluster. Peers by selector are Pods of the tenant on the same super
cluster; those on others are reached by their addresses only (`ipBlock`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vcsync.kube.resources import NAMESPACES, NETWORK_POLICIES, PODS
from vcsync.objects.envelope import Envelope, untyped
from vcsync.objects.merge_patch import create_merge_patch
from vcsync.syncer.kinds import keys, metadata, namespace_selector, stripped_selector
from vcsync.syncer.kinds.plan import EMPTY, Create, Kind, Parts, Plan, TenantContext, View


def plan(  # noqa: PLR0911 - each return is a case of its own
    v: Envelope | None, p: Envelope | None, context: TenantContext, view: View
) -> Plan:
    """Keep the super NetworkPolicy's spec equal to the tenant's."""
    if v is None:
        return EMPTY if p is None else metadata.orphan(NETWORK_POLICIES, p, p.name, context, view)
    spec: dict[str, Any] = untyped(v.spec) if v.spec else {}
    if (unknown := sorted(_stripped_keys(spec, context))) and not v.deleting:
        return stripped_selector.not_enforced(NETWORK_POLICIES, v, unknown[0])
    wanted = convert(spec, context)
    if p is None:
        if v.deleting:
            return EMPTY
        if (wait := metadata.super_namespace_wait(v, context, view)) is not None:
            return Plan(wait=wait)
        body: dict[str, Any] = {
            "apiVersion": NETWORK_POLICIES.api_version,
            "kind": NETWORK_POLICIES.kind,
            "metadata": metadata.super_metadata(NETWORK_POLICIES, v, context),
            "spec": wanted,
        }
        return Plan((Create("super", NETWORK_POLICIES, body["metadata"]["namespace"], body),))
    if (unsettled := metadata.settle_identity(NETWORK_POLICIES, v, p, context)) is not None:
        return unsettled
    changes = metadata.metadata_patch(NETWORK_POLICIES, v, p, context)
    fields = create_merge_patch(untyped(p.spec) if p.spec else {}, wanted)
    return Plan(metadata.super_patch(NETWORK_POLICIES, p, changes, {"spec": fields} if fields else {}))


def convert(spec: Mapping[str, Any], context: TenantContext) -> dict[str, Any]:
    """Return the spec for the super cluster. Parts that change are copied, others are shared."""
    converted = dict(spec)
    if selector := spec.get("podSelector"):
        converted["podSelector"] = keys.label_selector(selector, PODS, context)
    for field, peers in (("ingress", "from"), ("egress", "to")):
        if rules := spec.get(field):
            converted[field] = [_rule(rule, peers, context) for rule in rules]
    return converted


def _rule(rule: Mapping[str, Any], peers: str, context: TenantContext) -> dict[str, Any]:
    converted = dict(rule)
    if rule.get(peers):
        converted[peers] = [_peer(peer, context) for peer in rule[peers]]
    return converted


def _peer(peer: Mapping[str, Any], context: TenantContext) -> dict[str, Any]:
    converted = dict(peer)
    if selector := peer.get("podSelector"):
        converted["podSelector"] = keys.label_selector(selector, PODS, context)
    if (selector := peer.get("namespaceSelector")) is not None:
        copied = keys.label_selector(selector, NAMESPACES, context)
        copied["matchExpressions"] = [dict(each) for each in copied.get("matchExpressions") or ()]
        namespace_selector.restrict(copied, context.key)
        if not copied["matchExpressions"]:
            del copied["matchExpressions"]
        converted["namespaceSelector"] = copied
    return converted


def _stripped_keys(spec: Mapping[str, Any], context: TenantContext) -> Iterator[str]:
    """Yield the keys of selectors that copies of Pods and Namespaces do not have."""
    yield from stripped_selector.keys(spec.get("podSelector"), context)
    for field, peers in (("ingress", "from"), ("egress", "to")):
        for rule in spec.get(field) or ():
            for peer in rule.get(peers) or ():
                yield from stripped_selector.keys(peer.get("podSelector"), context)
                namespaces = stripped_selector.keys(peer.get("namespaceSelector"), context)
                yield from (key for key in namespaces if key != namespace_selector.NAMESPACE_NAME)


NETWORK_POLICY = Kind(
    name="networkpolicies",
    resource=NETWORK_POLICIES,
    plan=plan,
    optional=True,
    tenant_parts=Parts(status=False),
    super_parts=Parts(status=False),
)
"""NetworkPolicies."""

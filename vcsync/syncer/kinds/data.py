"""What ConfigMaps and Secrets share: content outside spec that goes down as it is, and may be immutable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vcsync.kube.envelope import Envelope, untyped
from vcsync.kube.patches import create_merge_patch
from vcsync.kube.resources import Resource
from vcsync.syncer.kinds import metadata
from vcsync.syncer.kinds.plan import EMPTY, Create, Delete, Plan, TenantContext, View


def plan_content(  # noqa: PLR0911 - each return is a case of its own
    resource: Resource,
    v: Envelope,
    p: Envelope | None,
    context: TenantContext,
    view: View,
    *,
    content: Mapping[str, Any] | None,
    fixed: frozenset[str],
    name: str = "",
) -> Plan:
    """Keep p's top-level fields as v's.

    Args:
        resource: of both.
        v: the tenant's object.
        p: the super cluster's object, if any.
        context: the tenant.
        view: the caches.
        content: the top-level fields p should have, where they are not v's own.
        fixed: fields that cannot change: a difference means that p is made anew.
        name: p's name where it is not v's.
    """
    if p is None:
        if v.deleting:
            return EMPTY
        if (wait := metadata.super_namespace_wait(v, context, view)) is not None:
            return Plan(wait=wait)
        return Plan((_create(resource, v, context, _fields(v) if content is None else content, name),))
    if (unsettled := metadata.settle_identity(resource, v, p, context)) is not None:
        return unsettled
    changes = metadata.metadata_patch(v, p, context)
    if content is None and v.rest == p.rest:
        return Plan(metadata.super_patch(resource, p, changes, {}))
    actual = _fields(p)
    fields = create_merge_patch(actual, dict(_fields(v) if content is None else content)) or {}
    if fields and (actual.get("immutable") is True or not fixed.isdisjoint(fields)):
        return Plan((Delete("super", resource, p.namespace, p.name, p.uid),))
    return Plan(metadata.super_patch(resource, p, changes, fields))


def _fields(envelope: Envelope) -> dict[str, Any]:
    fields: dict[str, Any] = untyped(envelope.rest) if envelope.rest else {}
    return fields


def _create(
    resource: Resource, v: Envelope, context: TenantContext, content: Mapping[str, Any], name: str
) -> Create:
    body: dict[str, Any] = {
        **content,
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata.super_metadata(v, context, name=name),
    }
    return Create("super", resource, body["metadata"]["namespace"], body)

"""The common part of ConfigMaps and Secrets: content outside of spec that is copied down, and may be immutable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope, untyped
from vcsync.objects.merge_patch import create_merge_patch
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
    """Keep p's top-level fields equal to v's.

    Args:
        resource: the resource of both objects.
        v: the tenant's object.
        p: the super cluster's object; None if it does not exist.
        context: the tenant's settings.
        view: the caches.
        content: the top-level fields that p should have; None for v's own.
        fixed: fields that cannot be changed. If one differs, p is deleted and created again.
        name: p's name, if it differs from v's.
    """
    if p is None:
        if v.deleting:
            return EMPTY
        if (wait := metadata.super_namespace_wait(v, context, view)) is not None:
            return Plan(wait=wait)
        return Plan((_create(resource, v, context, _fields(v) if content is None else content, name),))
    if (unsettled := metadata.settle_identity(resource, v, p, context)) is not None:
        return unsettled
    changes = metadata.metadata_patch(resource, v, p, context)
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
        "metadata": metadata.super_metadata(resource, v, context, name=name),
    }
    return Create("super", resource, body["metadata"]["namespace"], body)

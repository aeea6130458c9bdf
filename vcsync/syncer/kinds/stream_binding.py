"""The RoleBinding of each super namespace that lets control planes serve logs, exec, attach and port-forward of its Pods."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from vcsync.api import names, rbac
from vcsync.kube.resources import ROLE_BINDINGS
from vcsync.objects.envelope import Envelope, decode
from vcsync.syncer.kinds import metadata
from vcsync.syncer.kinds.plan import Action, Create, TenantContext, View

NAME: Final = names.service_account(names.ROLE_STREAMS)
"""Name of the RoleBinding."""
_ROLE, _CONTROL_PLANES = rbac.streams_binding()
_, _WITH_SYNCER = rbac.streams_binding(names.ROLE_SYNCER)


class _Binding(Struct, rename="camel"):
    role_ref: dict[str, Any] = {}
    subjects: list[dict[str, Any]] = []


def bind(v: Envelope, namespace: str, context: TenantContext, view: View) -> tuple[Action, ...]:
    """Return the actions that keep the RoleBinding of a super namespace as it should be.

    A binding of that name to another role is left alone, since a role cannot be changed: whoever made it has to remove it.

    Args:
        v: the tenant's namespace.
        namespace: the super namespace.
        context: the tenant's settings.
        view: the caches.
    """
    if not context.binds_streams:
        return ()
    binding = view.super(ROLE_BINDINGS, namespace, NAME)
    if binding is None:
        return (create(v, namespace, context),)
    found = decode(binding.rest, _Binding)
    if found.role_ref != _ROLE:
        return ()
    changes = metadata.metadata_patch(ROLE_BINDINGS, v, binding, context, **_metadata(v, context))
    subjects = _subjects(context)
    wrong = {} if found.subjects == subjects else {"subjects": subjects}
    return metadata.super_patch(ROLE_BINDINGS, binding, changes, wrong)


def create(v: Envelope, namespace: str, context: TenantContext) -> Create:
    """Return the creation of the RoleBinding; arguments as for `bind`."""
    body = {
        "apiVersion": ROLE_BINDINGS.api_version,
        "kind": ROLE_BINDINGS.kind,
        "metadata": {"name": NAME, "namespace": namespace, **_metadata(v, context)},
        "roleRef": _ROLE,
        "subjects": _subjects(context),
    }
    return Create("super", ROLE_BINDINGS, namespace, body)


def namespace_of(binding: Envelope) -> tuple[str, str] | None:
    """Return the item of the namespace that a RoleBinding is for; None if it is another RoleBinding."""
    tenant_namespace = binding.annotations.get(names.NAMESPACE)
    return ("", tenant_namespace) if binding.name == NAME and tenant_namespace else None


def _subjects(context: TenantContext) -> list[dict[str, Any]]:
    """Return who reaches the Pods: control planes, and the syncer if it serves the kubelet API of the tenant's nodes."""
    return _WITH_SYNCER if context.kubelet is not None else _CONTROL_PLANES


def _metadata(v: Envelope, context: TenantContext) -> dict[str, dict[str, str]]:
    return {
        "labels": dict(metadata.own_labels(context)),
        "annotations": metadata.own_annotations(v, context) | {names.NAMESPACE: v.name},
    }

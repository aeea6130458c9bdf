"""A write as webhooks and policies are told of it: the AdmissionRequest. Pure.

Source: `CreateV1AdmissionReview` of apiserver's `pkg/admission/plugin/webhook/request`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vcsync.controlplane.admission.matching import Place
from vcsync.controlplane.behaviour import User
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest.scope import Admission

Object = dict[str, Any]

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


def place_of(asked: Admission) -> Place:
    """Return where a write goes."""
    scope, resource = asked.scope, asked.scope.kind.resource
    return Place(
        resource.group,
        resource.version,
        resource.plural,
        scope.subresource,
        asked.operation,
        namespace_of(asked),
    )


def namespace_of(asked: Admission) -> str:
    """Return the namespace of a write; a Namespace is in itself."""
    resource = asked.scope.kind.resource
    if resource.plural == "namespaces" and not resource.group:
        return asked.scope.name
    return asked.scope.namespace


def seen_at(place: Place, resource: Resource) -> Place:
    """Return a place in an equivalent resource."""
    return replace(place, group=resource.group, version=resource.version, plural=resource.plural)


def kind_of(resource: Resource, subresource: str) -> Mapping[str, str]:
    """Return group, version and kind of what is written at a resource or below it."""
    part = resource.subresources.get(subresource) if subresource else None
    if part is None:
        return {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {"group": part.group, "version": part.version, "kind": part.kind}


def admission_request(asked: Admission, seen: Resource, *, name: str) -> Object:
    """Return an AdmissionRequest without uid, object and oldObject.

    Args:
        asked: the write.
        seen: the resource as which it matched; the request's own or an equivalent one.
        name: of the object; empty: it has none yet.
    """
    scope, own = asked.scope, asked.scope.kind.resource
    request: Object = {
        "kind": dict(kind_of(seen, scope.subresource)),
        "resource": _resource(seen),
        "subResource": scope.subresource,
        "requestKind": dict(kind_of(own, scope.subresource)),
        "requestResource": _resource(own),
        "requestSubResource": scope.subresource,
        "name": name,
        "namespace": namespace_of(asked),
    }
    return {
        **{key: value for key, value in request.items() if value},
        "operation": asked.operation,
        "userInfo": user_info(scope.context.user),
        "dryRun": asked.dry_run,
        "options": _options(asked),
    }


def user_info(user: User) -> Object:
    """Return a UserInfo."""
    told: Object = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in told.items() if value}


def _resource(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _options(asked: Admission) -> Object | None:
    kind = _OPTIONS.get(asked.operation)
    if kind is None:
        return None
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **asked.options}

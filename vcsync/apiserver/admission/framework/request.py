"""AdmissionRequests: writes as webhooks and policies see them. Pure.

Source: `CreateV1AdmissionReview` of apiserver's `pkg/admission/plugin/webhook/request`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.admission.framework.matching import Place
from vcsync.apiserver.request.scope import Admission

Object = dict[str, Any]

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


def place_of(admission: Admission) -> Place:
    """Return the resource, operation and namespace of a write, which rules match."""
    scope, resource = admission.scope, admission.scope.kind.resource
    return Place(
        resource.group,
        resource.version,
        resource.plural,
        scope.subresource,
        admission.operation,
        namespace_of(admission),
    )


def namespace_of(admission: Admission) -> str:
    """Return the namespace of a write. That of a Namespace is its own name."""
    resource = admission.scope.kind.resource
    if resource.plural == "namespaces" and not resource.group:
        return admission.scope.name
    return admission.scope.namespace


def with_resource(place: Place, resource: Resource) -> Place:
    """Return the same place with an equivalent resource."""
    return replace(place, group=resource.group, version=resource.version, plural=resource.plural)


def kind_of(resource: Resource, subresource: str) -> Mapping[str, str]:
    """Return group, version and kind of the body of a resource or subresource."""
    part = resource.subresources.get(subresource) if subresource else None
    if part is None:
        return {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {"group": part.group, "version": part.version, "kind": part.kind}


def admission_request(admission: Admission, resource: Resource, *, name: str) -> Object:
    """Return an AdmissionRequest without uid, object and oldObject.

    Args:
        admission: The write.
        resource: The resource as which it matched: that of the request or an equivalent one.
        name: Name of the object. Empty: it has none yet.
    """
    scope, own = admission.scope, admission.scope.kind.resource
    request: Object = {
        "kind": dict(kind_of(resource, scope.subresource)),
        "resource": _resource(resource),
        "subResource": scope.subresource,
        "requestKind": dict(kind_of(own, scope.subresource)),
        "requestResource": _resource(own),
        "requestSubResource": scope.subresource,
        "name": name,
        "namespace": namespace_of(admission),
    }
    return {
        **{key: value for key, value in request.items() if value},
        "operation": admission.operation,
        "userInfo": user_info(scope.context.user),
        "dryRun": admission.dry_run,
        "options": _options(admission),
    }


def user_info(user: User) -> Object:
    """Return a UserInfo."""
    info: Object = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in info.items() if value}


def _resource(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _options(admission: Admission) -> Object | None:
    kind = _OPTIONS.get(admission.operation)
    if kind is None:
        return None
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **admission.options}

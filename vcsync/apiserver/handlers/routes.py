"""Routes of a resource: the paths, verbs and subresources that its API installs. Pure.

Behaviour: apiserver's `endpoints/installer.go`, and apiextensions-apiserver's `customresource_handler.go` for custom
resources.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.resources import Resource
from vcsync.apiserver.authorization import syncers
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.request_info import ALL, RequestInfo
from vcsync.apiserver.request.resource import Kind

VIRTUAL = frozenset(
    {
        ("", "bindings"),
        ("", "componentstatuses"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    }
)
"""Resources that are not stored, as (group, plural)."""
UNTRANSFORMED = VIRTUAL - {("", "componentstatuses")}
"""Resources without Tables and partial metadata, as (group, plural)."""
COLLECTION_VERBS = ("list", "watch", "deletecollection")


def is_wrong_scope(resource: Resource, info: RequestInfo) -> bool:
    """Tell whether a path looks for custom resources in a namespace if they have none, or the other way round."""
    if not resource.custom:
        return False
    if resource.namespaced:
        return not info.namespace and info.verb not in ("list", "watch")
    return bool(info.namespace)


def check_route(kind: Kind, info: RequestInfo, tenant: str, caller: Caller) -> None:
    """Return if the resource serves the request.

    Raises:
        StatusError: 400, 404 or 405.
    """
    if syncers.is_bound_status(info) and syncers.is_syncer(caller):
        _check_bound_status(info)
        return
    resource = kind.resource
    if not resource.namespaced and info.namespace and resource.plural != "namespaces":
        raise errors.page_not_found()
    if info.subresource:
        _check_subresource(resource, info)
        return
    if len(info.parts) > 2 and not info.parts[2]:
        raise errors.page_not_found()
    if tenant == ALL and info.verb not in ("list", "watch"):
        raise errors.method_not_allowed()
    named = len(info.parts) > 1
    if named and resource.namespaced and not info.namespace:
        raise errors.page_not_found()
    # Upstream installs no route for a watch: it is a list with a parameter, which such a resource refuses.
    verb = "list" if info.verb == "watch" and "watch" not in resource.verbs else info.verb
    if verb not in resource.verbs or (info.verb == "create" and named):
        raise errors.method_not_allowed()
    if info.verb in ("update", "patch") and not named:
        # Custom resources have a handler for each verb, whatever the path; it misses the name.
        raise errors.bad_request("name must be provided") if resource.custom else errors.method_not_allowed()
    if resource.namespaced and not info.namespace and info.verb not in COLLECTION_VERBS:
        raise errors.method_not_allowed()


def _check_bound_status(info: RequestInfo) -> None:
    """Check a syncer's request for a subresource that is in no discovery document, and that others do not find."""
    if len(info.parts) > 3 or not info.namespace or not info.name:
        raise errors.page_not_found()
    if info.verb != "patch":
        raise errors.method_not_allowed()


def _check_subresource(resource: Resource, info: RequestInfo) -> None:
    subresource = resource.subresources.get(info.subresource)
    if subresource is None and resource.custom:
        raise errors.not_found(resource.plural, resource.group, info.name)
    too_long = len(info.parts) > 3 and info.subresource != "proxy" and not resource.custom
    if subresource is None or too_long or (resource.namespaced and not info.namespace):
        raise errors.page_not_found()
    if not info.name:
        raise errors.bad_request("name must be provided")
    if info.verb not in subresource.verbs:
        raise errors.method_not_allowed()

"""The filter for suspended tenants: their users may only read. Upstream has no such filter.

Reviews of access and identity are answered, since they write nothing. vcsync's roles may do what their own permissions
in tenants are, whatever other permissions the tenant has given to their accounts.
"""

from typing import Final

from vcsync.api import names
from vcsync.api.rbac import GRANTS, Grant
from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.filters.authorization import UPGRADED
from vcsync.apiserver.filters.identity import Identity
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.request_info import RequestInfo

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
REVIEWS: Final = frozenset(
    {
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
    }
)
"""Resources whose creation is a question."""
INTO_PODS: Final = UPGRADED | {"proxy"}
"""Subresources by which a GET may do more than read."""

WHY: Final = (
    "the tenant is suspended: its objects can be read but not written, and its Pods do not run; "
    "ask the operator of this service to resume it"
)

_ROLES: Final = {
    f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(role)}": GRANTS["tenant", role]
    for role in names.ROLES
}


def refuse_suspended(
    identity: Identity, incoming: Incoming, info: RequestInfo, caller: Caller, tenant: str
) -> None:
    """Return unless a user of a suspended tenant wants to write.

    Raises:
        StatusError: 403.
    """
    if caller.system or not identity.is_suspended(tenant) or only_reads(incoming.method, info):
        return
    if not caller.impersonated and _is_own_work(_ROLES.get(caller.user.name, ()), info):
        return
    if info.resource_request:
        raise errors.forbidden(info.resource, info.group, info.name, WHY)
    raise StatusError(403, "Forbidden", f"forbidden: {WHY}", empty_details=True)


def only_reads(method: str, info: RequestInfo) -> bool:
    """Return whether users of a suspended tenant may make a request."""
    if method in READS:
        return info.subresource not in INTO_PODS and info.verb != "proxy"
    return info.verb == "create" and not info.subresource and (info.group, info.resource) in REVIEWS


def _is_own_work(grants: tuple[Grant, ...], info: RequestInfo) -> bool:
    """Return whether a role's own permissions cover a request."""
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    return any(
        grant.group == info.group
        and resource in grant.resources
        and info.verb in grant.verbs
        and grant.namespace in ("", info.namespace)
        and (not grant.names or info.name in grant.names)
        for grant in grants
    )

"""The tenant filter: whose control plane a request is for. Upstream has no such filter."""

from vcsync.apimachinery import errors
from vcsync.apiserver.discovery.served import Spaces
from vcsync.apiserver.filters.identity import Identity
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.request.caller import Caller, settle_tenant
from vcsync.apiserver.request.request_info import ALL, RequestInfo

OPERATOR = "/vcsync/v1/"
"""Prefix of the operator's own paths, which belong to no tenant."""


def resolve_tenant(identity: Identity, caller: Caller, info: RequestInfo) -> str:
    """Return the tenant of a request: the one that the URL names, or else the caller's own.

    Raises:
        StatusError: 403 if the caller belongs to another tenant, 404 if a system caller names one that does not exist.
    """
    tenant = settle_tenant(caller, info.tenant)
    if caller.system and tenant != ALL and not identity.exists(tenant):
        raise errors.not_found("tenants", "", tenant)
    return tenant


async def load_tenant(identity: Identity, spaces: Spaces, incoming: Incoming, tenant: str) -> None:
    """Load the tenant's custom kinds and record the tenant of the request.

    Nothing is recorded for a tenant that does not exist: anybody could make up such names.
    """
    if tenant == ALL:
        incoming.tenant = tenant
    elif identity.exists(tenant):
        incoming.tenant = tenant
        await spaces.prepare(tenant)

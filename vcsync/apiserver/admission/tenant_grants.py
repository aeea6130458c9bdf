"""Checks TenantGrants and TenantGrantOffers: their rules beyond the schema, their number, and the roles that are granted."""

from collections.abc import Awaitable, Callable

import msgspec

from vcsync.api.grants import GRANTS, OFFERS
from vcsync.apimachinery.errors import forbidden, invalid, wrong
from vcsync.apimachinery.resources import collection_key
from vcsync.apiserver.grants.grant import STORED_GROUP, Grant, findings, seconds_of, spec_of
from vcsync.apiserver.request.caller import SYSTEM, Caller, Granted
from vcsync.apiserver.request.scope import Admission
from vcsync.apiserver.storage.interface import Store

MAX_GRANTS = 100
"""TenantGrants of one tenant."""

Check = Callable[[Caller, Granted], Awaitable[None]]
"""Refuses a grant that gives more than the caller may bind; see `authorization.rights.Rights.check_grant`."""


class TenantGrants:
    """The validating plug-in.

    Args:
        store: The store.
        check: Checks what a grant gives.
    """

    def __init__(self, store: Store, check: Check) -> None:
        self._store = store
        self._check = check

    async def __call__(self, admission: Admission) -> None:
        """Check a write.

        Raises:
            StatusError: 403, the author may not grant this, or has too many grants; 404, a role does not exist; 422, the
                grant is invalid.
        """
        scope, resource = admission.scope, admission.scope.kind.resource
        if resource.group != GRANTS.group or scope.tenant == SYSTEM or scope.subresource:
            return
        if resource.plural == OFFERS.plural and admission.operation == "CREATE":
            raise forbidden(
                OFFERS.plural, OFFERS.group, admission.name, "vcsync makes offers: make a TenantGrant"
            )
        if resource.plural != GRANTS.plural or admission.new is None:
            return
        if admission.old is not None and admission.old.get("spec") == admission.new.get("spec"):
            return
        grant = _grant(admission)
        if admission.operation == "CREATE":
            await self._check_number(scope.tenant, grant.name)
        await self._check(scope.caller, grant.granted(""))

    async def _check_number(self, tenant: str, name: str) -> None:
        if await self._store.count(collection_key(tenant, STORED_GROUP, GRANTS.plural)) >= MAX_GRANTS:
            told = f"a tenant has at most {MAX_GRANTS}: delete one, or name more users in one"
            raise forbidden(GRANTS.plural, GRANTS.group, name, told)


def _grant(admission: Admission) -> Grant:
    """Return the new grant.

    Raises:
        StatusError: 422.
    """
    tenant, new = admission.scope.tenant, admission.new or {}
    name = admission.name or str(new["metadata"].get("name") or "")
    try:
        spec = spec_of(new)
    except msgspec.ValidationError as error:
        raise invalid(GRANTS.kind, GRANTS.group, name, [wrong("spec", "object", str(error))]) from error
    found = findings(tenant, name, spec)
    if found:
        raise invalid(GRANTS.kind, GRANTS.group, name, found)
    return Grant(tenant, name, "", 0, spec, seconds_of(spec.expires))

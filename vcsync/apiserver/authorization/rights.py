"""Authorization as admission plug-ins use it, and the check of roles for escalation."""

from vcsync.apiserver.authorization.authorizer import Authorizer
from vcsync.apiserver.request.caller import Asked, Caller, Decision, Granted
from vcsync.apiserver.request.request_info import RequestInfo
from vcsync.apiserver.request.scope import Admission

RBAC = "rbac.authorization.k8s.io"


class Rights:
    """Adapts the authorizer to admission.

    Args:
        authorizer: Decides.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def may(self, caller: Caller, verb: str, signer: str) -> bool:
        """Return whether a caller may approve or sign for a signer; see `admission.certificates.May`."""
        asked = RequestInfo(
            verb,
            "",
            resource_request=True,
            group="certificates.k8s.io",
            version="*",
            resource="signers",
            name=signer,
        )
        return (await self._authorizer.decide(caller, asked)).allowed

    async def decide(self, caller: Caller, asked: Asked) -> Decision:
        """Decide a request of a caller."""
        return await self._authorizer.decide(caller, asked)

    async def check_roles(self, admission: Admission) -> None:
        """Refuse roles and bindings that would grant more than their author has.

        Raises:
            StatusError: 403, 404.
        """
        scope, resource = admission.scope, admission.scope.kind.resource
        if resource.group == RBAC and admission.new is not None:
            await self._authorizer.check_role_write(
                scope.caller, resource.plural, scope.namespace, admission.new, admission.old
            )

    async def check_grant(self, caller: Caller, grant: Granted) -> None:
        """Refuse a TenantGrant that would grant more than its author may bind.

        Raises:
            StatusError: 403, 404.
        """
        await self._authorizer.check_grant_write(caller, grant)

"""Who may do what, as admission asks it, and the rules on writes of roles."""

from vcsync.controlplane.identity.authorizer import Authorizer
from vcsync.controlplane.identity.caller import Asked, Caller, Decision
from vcsync.controlplane.rest.requestinfo import RequestInfo
from vcsync.controlplane.rest.scope import Admission

RBAC = "rbac.authorization.k8s.io"


class Rights:
    """Asks the authorizer."""

    def __init__(self, authorizer: Authorizer) -> None:
        """Take the authorizer."""
        self._authorizer = authorizer

    async def may(self, caller: Caller, verb: str, signer: str) -> bool:
        """Tell whether a caller may approve or sign for a signer; see `admission.certificates.May`."""
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
        """Tell whether a caller may."""
        return await self._authorizer.decide(caller, asked)

    async def check_roles(self, admission: Admission) -> None:
        """Refuse roles and bindings that would give more than their author has.

        Raises:
            StatusError: 403, 404.
        """
        scope, resource = admission.scope, admission.scope.kind.resource
        if resource.group == RBAC and admission.new is not None:
            await self._authorizer.check_role_write(
                scope.caller, resource.plural, scope.namespace, admission.new, admission.old
            )

"""CertificateSigningRequests: authorizes approval and signing, and refuses certificates for privileged groups.

Source: Kubernetes' `plugin/pkg/admission/certificates`.
"""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

from cryptography import x509

from vcsync.apiserver.admission.framework.plugin import Lookup, creates, refusal
from vcsync.apiserver.authorization.protected_groups import KUBERNETES_SIGNERS, not_signed
from vcsync.apiserver.request.scope import Admission

GROUP, PLURAL = "certificates.k8s.io", "certificatesigningrequests"

May = Callable[[Any, str, str], Awaitable[bool]]
"""(caller, `approve` or `sign`, name of a signer or `domain/*`) -> whether the caller may."""


class Signers:
    """A plug-in that authorizes approval and signing by the signer of the request.

    Args:
        may: Authorizes callers.
    """

    def __init__(self, may: May) -> None:
        self._may = may

    async def __call__(self, admission: Admission, lookup: Lookup) -> None:
        """Refuse approvals and certificates that the caller is not authorized for.

        Raises:
            StatusError: 403.
        """
        del lookup
        resource, old = admission.scope.kind.resource, admission.old
        if (resource.group, resource.plural) != (GROUP, PLURAL) or old is None or admission.new is None:
            return
        verb = {"approval": "approve", "status": "sign"}.get(admission.scope.subresource)
        if verb is None or admission.operation != "UPDATE":
            return
        if verb == "sign" and _signed(admission.new) == _signed(old):
            return
        # Use the signer of the old object: the new one may name another.
        signer = (old.get("spec") or {}).get("signerName") or ""
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            if await self._may(admission.scope.caller, verb, name):
                return
        raise refusal(admission, f'user not permitted to {verb} requests with signerName "{signer}"')


def _signed(obj: Any) -> tuple[Any, Any]:
    status = obj.get("status") or {}
    return status.get("certificate") or None, status.get("conditions") or []


async def no_privileged_groups(admission: Admission, lookup: Lookup) -> None:
    """Refuse certificates for privileged groups (system:masters and those of vcsync) and invalid names.

    Raises:
        StatusError: 403.
    """
    del lookup
    if not creates(admission, PLURAL, GROUP):
        return
    spec = (admission.new or {}).get("spec") or {}
    signer = spec.get("signerName") or ""
    if not signer.startswith(KUBERNETES_SIGNERS):
        return
    # Validation has parsed it before.
    request = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
    named = not_signed(signer, request)
    if named is not None:
        raise refusal(admission, f"use of {signer} signer with {named} is not allowed")

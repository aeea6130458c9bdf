"""CertificateSigningRequests: who may approve and sign for which signer, and what a client's certificate never says.

Source: Kubernetes' `plugin/pkg/admission/certificates`.
"""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

from cryptography import x509

from vcsync.controlplane.admission.plugin import Lookup, creates, refusal
from vcsync.controlplane.identity.guarded import KUBERNETES_SIGNERS, not_signed
from vcsync.controlplane.rest.scope import Admission

GROUP, PLURAL = "certificates.k8s.io", "certificatesigningrequests"

May = Callable[[Any, str, str], Awaitable[bool]]
"""(caller, `approve` or `sign`, name of a signer or `domain/*`) -> whether the caller may."""


class Signers:
    """Lets those approve and sign who may for the request's signer; a plug-in."""

    def __init__(self, may: May) -> None:
        """Take who knows."""
        self._may = may

    async def __call__(self, admission: Admission, lookup: Lookup) -> None:
        """Refuse approvals and certificates of others.

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
        # The old object's: the new one may claim another signer.
        signer = (old.get("spec") or {}).get("signerName") or ""
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            if await self._may(admission.scope.caller, verb, name):
                return
        raise refusal(admission, f'user not permitted to {verb} requests with signerName "{signer}"')


def _signed(obj: Any) -> tuple[Any, Any]:
    status = obj.get("status") or {}
    return status.get("certificate") or None, status.get("conditions") or []


async def no_guarded_groups(admission: Admission, lookup: Lookup) -> None:
    """Refuse requests of certificates for groups that rights come with (system:masters, those of vcsync), or odd names.

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
    # The kind's own rules have parsed it before.
    request = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
    named = not_signed(signer, request)
    if named is not None:
        raise refusal(admission, f"use of {signer} signer with {named} is not allowed")

"""Groups that tenants cannot assign, because their names alone grant permissions. Pure."""

import json
import unicodedata

from cryptography import x509
from cryptography.x509.oid import NameOID

from vcsync.apiserver.authorization.bootstrap import OWN_GROUPS
from vcsync.apiserver.request.caller import MASTERS
from vcsync.objects.signing_requests import CLIENT

KUBERNETES_SIGNERS = "kubernetes.io/"
"""Prefix of the names of signers that sign with the tenant's CA."""


def is_guarded(group: str) -> bool:
    """Return whether a name is that of a protected group, or could be mistaken for one."""
    plain = _plain(group)
    return plain == MASTERS or plain.startswith(OWN_GROUPS)


def is_own(group: str) -> bool:
    """Return whether a name is that of a group of vcsync, or could be mistaken for one."""
    return _plain(group).startswith(OWN_GROUPS)


def not_signed(signer: str, request: x509.CertificateSigningRequest) -> str | None:
    """Return the first part of a request's subject that a signer does not sign, for messages, or None.

    kube-apiserver refuses `system:masters` for its client signer. In a tenant, Kubernetes' other signers use the same
    CA, so that clients could authenticate with their certificates, too: none of them signs groups of vcsync. Names with
    control characters are refused because programs read them differently.

    Args:
        signer: Name of the signer.
        request: The certificate signing request.

    Raises:
        ValueError: The subject cannot be parsed.
    """
    if not signer.startswith(KUBERNETES_SIGNERS):
        return None
    for attribute in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME):
        group = text(attribute)
        if is_guarded(group) and (signer == CLIENT or _plain(group) != MASTERS):
            return f"{group if group.isprintable() else json.dumps(group)} group"
    for oid, part in ((NameOID.ORGANIZATION_NAME, "organization"), (NameOID.COMMON_NAME, "common name")):
        for attribute in request.subject.get_attributes_for_oid(oid):
            name = text(attribute)
            if any(unicodedata.category(each) == "Cc" for each in name):
                return f"control characters in the {part} {json.dumps(name)}"
    return None


def _plain(group: str) -> str:
    """Return a name in a form for comparisons: normalized, in lower case, without separators and control characters.

    A program that uses C strings takes `system:masters` with a NUL at its end for `system:masters`.
    """
    normal = unicodedata.normalize("NFKC", group)
    return "".join(each for each in normal if unicodedata.category(each)[0] not in "CZ").casefold()


def text(attribute: x509.NameAttribute[str | bytes]) -> str:
    """Return an attribute of a subject as a text, in the same way as authentication."""
    return attribute.value if isinstance(attribute.value, str) else attribute.value.decode(errors="replace")

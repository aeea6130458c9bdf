"""Groups that no tenant can give itself, because rights come with them by their name alone. Pure."""

import json
import unicodedata

from cryptography import x509
from cryptography.x509.oid import NameOID

from vcsync.controlplane.identity.bootstrap import OWN_GROUPS
from vcsync.controlplane.identity.caller import MASTERS
from vcsync.kube.signing_requests import CLIENT

KUBERNETES_SIGNERS = "kubernetes.io/"
"""Begins the names of signers whose certificates are of the tenant's own authority."""


def is_guarded(group: str) -> bool:
    """Tell whether a name is that of such a group, or would be taken for one."""
    plain = _plain(group)
    return plain == MASTERS or plain.startswith(OWN_GROUPS)


def is_own(group: str) -> bool:
    """Tell whether a name is that of a group of vcsync, or would be taken for one."""
    return _plain(group).startswith(OWN_GROUPS)


def not_signed(signer: str, request: x509.CertificateSigningRequest) -> str | None:
    """Return what a request's subject names first that a signer does not give, as messages have it; None: nothing.

    kube-apiserver refuses `system:masters` for its client signer. Kubernetes' other signers have the same authority in
    a tenant, so what they sign could be shown by a client, too: none of them gives groups of vcsync. Names with control
    characters are read differently by different programs.

    Raises:
        ValueError: the subject cannot be read.
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
    """Return a name without what does not count: `system:masters` with a NUL at its end is the same to C strings."""
    normal = unicodedata.normalize("NFKC", group)
    return "".join(each for each in normal if unicodedata.category(each)[0] not in "CZ").casefold()


def text(attribute: x509.NameAttribute[str | bytes]) -> str:
    """Return an attribute of a subject as authentication reads it."""
    return attribute.value if isinstance(attribute.value, str) else attribute.value.decode(errors="replace")

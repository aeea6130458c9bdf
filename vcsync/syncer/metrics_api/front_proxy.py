"""Recognizes requests that a tenant's kube-apiserver forwards, by its client certificate.

kube-apiserver authorizes a request before it forwards it, so that its certificate is enough. Source: Kubernetes, "Configure
the Aggregation Layer".
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

AUTHORITY: Final = "requestheader-client-ca-file"
NAMES: Final = "requestheader-allowed-names"
"""Keys of the ConfigMap kube-system/extension-apiserver-authentication."""


class FrontProxy:
    """The certificates with which a kube-apiserver forwards requests.

    Args:
        authority: Their authority, as PEM. Empty: there is none.
        names: Names that they may have. Empty: any.

    Attributes:
        pem: Their authority.

    Raises:
        ValueError: The authority is not PEM.
    """

    def __init__(self, authority: str = "", names: Sequence[str] = ()) -> None:
        self._authorities = x509.load_pem_x509_certificates(authority.encode()) if authority else []
        self._names = frozenset(names)
        self.pem = "".join(each.public_bytes(Encoding.PEM).decode() for each in self._authorities)

    def issued(self, certificate: bytes | None) -> bool:
        """Tell whether a client certificate, in DER, is one of these. TLS has checked its dates.

        Certificates of an intermediate authority are not accepted.
        """
        if certificate is None or not self._authorities:
            return False
        try:
            found = x509.load_der_x509_certificate(certificate)
        except ValueError:
            return False
        named = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        if self._names and not (named and named[-1].value in self._names):
            return False
        return any(_issued_by(found, authority) for authority in self._authorities)


def front_proxy_of(data: dict[str, str]) -> FrontProxy:
    """Return the front proxy that a control plane publishes; one that accepts nothing if it publishes none that is usable."""
    try:
        names = msgspec.json.decode(data.get(NAMES) or "[]", type=list[str])
        return FrontProxy(data.get(AUTHORITY, ""), names)
    except (ValueError, TypeError):
        return FrontProxy()


def _issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True

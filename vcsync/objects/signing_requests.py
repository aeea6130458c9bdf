"""The requirements of Kubernetes' own signers on CertificateSigningRequests. Pure.

The behaviour is that of Kubernetes' `pkg/apis/certificates/helpers.go` and `pkg/controller/certificates/signer`.
"""

import base64
import binascii
from collections.abc import Callable, Collection, Mapping

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import NameOID

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
NODES = "system:nodes"
NODE_PREFIX = "system:node:"

_CLIENT_USAGES = frozenset({"client auth", "digital signature", "key encipherment"})
_SERVING_USAGES = frozenset({"digital signature", "key encipherment", "server auth"})


class RequestError(Exception):
    """A certificate request cannot be parsed. The message says why."""


def parse(encoded: str) -> x509.CertificateSigningRequest:
    """Parse the field `spec.request`.

    Raises:
        RequestError: The field is not a certificate request.
    """
    try:
        return x509.load_pem_x509_csr(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise RequestError(f"unable to parse the certificate request: {error}") from error


def refusal(signer: str, request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    """Return why a signer does not sign a request; empty: it signs the request.

    Raises:
        KeyError: The signer is not one of `SIGNERS`.
        RequestError: The subject or the alternative names of the request cannot be parsed.
    """
    try:
        return SIGNERS[signer](request, usages)
    except ValueError as error:
        raise RequestError(f"unable to parse the certificate request: {error}") from error


def is_kubelet_client(signer: str, request: x509.CertificateSigningRequest, usages: Collection[str]) -> bool:
    """Return whether this is the request of a kubelet for its client certificate."""
    if signer != KUBELET_CLIENT:
        return False
    try:
        return not refusal(signer, request, usages)
    except RequestError:
        return False


def common_name(request: x509.CertificateSigningRequest) -> str:
    """Return the common name of the subject of a request; empty: it has none.

    Raises:
        RequestError: The subject cannot be parsed.
    """
    try:
        found = _texts(request, NameOID.COMMON_NAME)
    except ValueError as error:
        raise RequestError(f"unable to parse the certificate request: {error}") from error
    return found[-1] if found else ""


def alternatives(request: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    """Return the alternative names of a request: DNS names, mail addresses, IP addresses and URIs.

    Raises:
        ValueError: The extensions of the request cannot be parsed.
    """
    try:
        extension = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    except x509.DuplicateExtension as error:
        raise ValueError(str(error)) from error
    kinds = (x509.DNSName, x509.RFC822Name, x509.IPAddress, x509.UniformResourceIdentifier)
    return [each for kind in kinds for each in extension.value if isinstance(each, kind)]


def _client(_request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    for usage in usages:
        if usage not in _CLIENT_USAGES:
            return f"invalid usage for client certificate: {usage}"
    return "" if "client auth" in usages else "missing required usage for client certificate: client auth"


def _kubelet_client(request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    named = {type(each) for each in alternatives(request)}
    refused = (
        (x509.DNSName, "DNS"),
        (x509.RFC822Name, "Email"),
        (x509.IPAddress, "IP"),
        (x509.UniformResourceIdentifier, "URI"),
    )
    wrong = next((f"{name} subjectAltNames are not allowed" for kind, name in refused if kind in named), "")
    return _of_nodes(request) or wrong or _usages(usages, _CLIENT_USAGES) or _of_a_node(request)


def _kubelet_serving(request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    named = {type(each) for each in alternatives(request)}
    wrong = ""
    if named.isdisjoint({x509.DNSName, x509.IPAddress}):
        wrong = "DNS or IP subjectAltName is required"
    elif x509.RFC822Name in named:
        wrong = "Email subjectAltNames are not allowed"
    elif x509.UniformResourceIdentifier in named:
        wrong = "URI subjectAltNames are not allowed"
    return _of_nodes(request) or wrong or _usages(usages, _SERVING_USAGES) or _of_a_node(request)


def _of_nodes(request: x509.CertificateSigningRequest) -> str:
    right = _texts(request, NameOID.ORGANIZATION_NAME) == [NODES]
    return "" if right else "subject organization is not system:nodes"


def _of_a_node(request: x509.CertificateSigningRequest) -> str:
    found = _texts(request, NameOID.COMMON_NAME)
    right = bool(found) and found[-1].startswith(NODE_PREFIX)
    return "" if right else "subject common name does not begin with system:node:"


def _usages(usages: Collection[str], wanted: frozenset[str]) -> str:
    """Check the usages. `key encipherment` is optional, because only RSA keys encipher other keys."""
    if set(usages) in (wanted, wanted - {"key encipherment"}):
        return ""
    return f"usages did not match [{' '.join(sorted(wanted))}]"


def _texts(request: x509.CertificateSigningRequest, oid: x509.ObjectIdentifier) -> list[str]:
    values = [each.value for each in request.subject.get_attributes_for_oid(oid)]
    return [each if isinstance(each, str) else each.decode(errors="replace") for each in values]


Rule = Callable[[x509.CertificateSigningRequest, Collection[str]], str]

SIGNERS: Mapping[str, Rule] = {
    CLIENT: _client,
    KUBELET_CLIENT: _kubelet_client,
    KUBELET_SERVING: _kubelet_serving,
}
"""Signer -> the function that returns why it refuses a request with its usages."""

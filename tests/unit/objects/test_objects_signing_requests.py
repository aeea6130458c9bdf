"""The requirements of Kubernetes' own signers on certificate requests."""

import base64
import ipaddress
from collections.abc import Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from vcsync.objects import signing_requests
from vcsync.objects.signing_requests import CLIENT, KUBELET_CLIENT, KUBELET_SERVING, RequestError, refusal

KEY = ec.generate_private_key(ec.SECP256R1())
DNS, MAIL = x509.DNSName("node"), x509.RFC822Name("a@example.com")
IP, URI = x509.IPAddress(ipaddress.ip_address("192.0.2.1")), x509.UniformResourceIdentifier("urn:a")
CLIENT_USAGES = ("client auth", "digital signature", "key encipherment")
SERVING_USAGES = ("digital signature", "key encipherment", "server auth")


def request(
    name: str = "system:node:one", groups: Sequence[str] = ("system:nodes",), *names: x509.GeneralName
) -> x509.CertificateSigningRequest:
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(KEY, hashes.SHA256())


@pytest.mark.parametrize(
    ("usages", "reason"),
    [
        (("client auth",), ""),
        (CLIENT_USAGES, ""),
        (("digital signature",), "missing required usage for client certificate: client auth"),
        (("client auth", "server auth"), "invalid usage for client certificate: server auth"),
    ],
)
def test_a_client_needs_only_the_usages_of_clients(usages: Sequence[str], reason: str) -> None:
    assert refusal(CLIENT, request("ann", ()), usages) == reason


@pytest.mark.parametrize(
    ("csr", "usages", "reason"),
    [
        (request(), CLIENT_USAGES, ""),
        (request(), CLIENT_USAGES[:2], ""),
        (
            request(),
            ("client auth",),
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (request("ann"), CLIENT_USAGES, "subject common name does not begin with system:node:"),
        (
            request("ann", ("system:nodes", "b")),
            CLIENT_USAGES,
            "subject organization is not system:nodes",
        ),
        (request("system:node:a", ("system:nodes",), DNS), CLIENT_USAGES, "DNS subjectAltNames are not allowed"),
        (request("system:node:a", ("system:nodes",), MAIL, URI), CLIENT_USAGES, "Email subjectAltNames are not allowed"),
        (request("system:node:a", ("system:nodes",), IP), CLIENT_USAGES, "IP subjectAltNames are not allowed"),
        (request("system:node:a", ("system:nodes",), URI), CLIENT_USAGES, "URI subjectAltNames are not allowed"),
    ],
)  # fmt: skip
def test_a_kubelet_client_is_identified_by_its_name_only(
    csr: x509.CertificateSigningRequest, usages: Sequence[str], reason: str
) -> None:
    assert refusal(KUBELET_CLIENT, csr, usages) == reason
    assert signing_requests.is_kubelet_client(KUBELET_CLIENT, csr, usages) == (reason == "")
    assert not signing_requests.is_kubelet_client(CLIENT, csr, usages)


@pytest.mark.parametrize(
    ("names", "usages", "reason"),
    [
        ((DNS,), SERVING_USAGES, ""),
        ((IP,), ("server auth", "digital signature"), ""),
        ((), SERVING_USAGES, "DNS or IP subjectAltName is required"),
        ((DNS, MAIL), SERVING_USAGES, "Email subjectAltNames are not allowed"),
        ((DNS, URI), SERVING_USAGES, "URI subjectAltNames are not allowed"),
        ((DNS,), CLIENT_USAGES, "usages did not match [digital signature key encipherment server auth]"),
    ],
)
def test_a_kubelet_serves_with_dns_names_or_addresses(
    names: Sequence[x509.GeneralName], usages: Sequence[str], reason: str
) -> None:
    csr = request("system:node:a", ("system:nodes",), *names)
    assert refusal(KUBELET_SERVING, csr, usages) == reason


@pytest.mark.parametrize("encoded", ["", "no base64!", base64.b64encode(b"no request").decode()])
def test_invalid_requests_are_refused(encoded: str) -> None:
    with pytest.raises(RequestError, match=r"^unable to parse the certificate request: (?!None$)."):
        signing_requests.parse(encoded)


def test_requests_are_parsed_from_base64() -> None:
    encoded = base64.b64encode(request("ann").public_bytes(Encoding.PEM)).decode()
    assert signing_requests.common_name(signing_requests.parse(encoded)) == "ann"

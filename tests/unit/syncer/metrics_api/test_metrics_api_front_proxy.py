"""Recognition of the client certificates with which a tenant's kube-apiserver forwards requests."""

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from hack.testbed.pki import Authority, KeyPair
from vcsync.syncer.metrics_api.front_proxy import AUTHORITY, NAMES, FrontProxy, front_proxy_of

OURS, FOREIGN = Authority("front-proxy-ca", datetime.now(UTC)), Authority("front-proxy-ca", datetime.now(UTC))


def der(pair: KeyPair) -> bytes:
    return x509.load_pem_x509_certificate(pair.certificate.encode()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("names", "certificate", "accepted"),
    [
        (["front-proxy-client"], der(OURS.client("front-proxy-client")), True),
        ([], der(OURS.client("anybody")), True),
        (["front-proxy-client"], der(OURS.client("alice")), False),
        (["front-proxy-client"], der(FOREIGN.client("front-proxy-client")), False),
        ([], b"no certificate", False),
        ([], None, False),
    ],
)
def test_only_certificates_of_the_front_proxys_authority_are_accepted(
    names: list[str], certificate: bytes | None, accepted: bool
) -> None:
    found = FrontProxy(OURS.pair.certificate, names)
    assert found.issued(certificate) == accepted
    assert not FrontProxy().issued(certificate)


@pytest.mark.parametrize(
    ("data", "accepted"),
    [
        ({AUTHORITY: OURS.pair.certificate, NAMES: '["front-proxy-client"]'}, True),
        ({AUTHORITY: OURS.pair.certificate}, True),
        ({AUTHORITY: OURS.pair.certificate, NAMES: '["other"]'}, False),
        ({AUTHORITY: OURS.pair.certificate, NAMES: "{"}, False),
        ({AUTHORITY: "no PEM", NAMES: "[]"}, False),
        ({}, False),
    ],
)
def test_a_control_plane_publishes_its_front_proxy(data: dict[str, str], accepted: bool) -> None:
    assert front_proxy_of(data).issued(der(OURS.client("front-proxy-client"))) == accepted

"""Approval and signing of CertificateSigningRequests, and refused subjects."""

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.admission.certificates import GROUP, PLURAL, Signers, no_privileged_groups
from vcsync.objects.signing_requests import CLIENT as CLIENT_SIGNER

OF = (GROUP, PLURAL)


def csr(signer, **status):
    return {"metadata": {"name": "r"}, "spec": {"signerName": signer}, "status": status}


def signers(*granted):
    async def may(caller, verb, signer):
        return (verb, signer) in granted

    return Signers(may)


CONDITION = [{"type": "Approved", "status": "True"}]
WRITES = [
    # granted, subresource, new status, refused
    ([("approve", "a.b/c")], "approval", {"conditions": CONDITION}, False),
    ([("approve", "a.b/*")], "approval", {"conditions": CONDITION}, False),
    ([("approve", "a.b/d"), ("sign", "a.b/c")], "approval", {"conditions": CONDITION}, True),
    ([], "approval", {}, True),
    ([("sign", "a.b/c")], "status", {"certificate": "x"}, False),
    ([("sign", "a.b/*")], "status", {"conditions": CONDITION}, False),
    ([("approve", "a.b/c")], "status", {"certificate": "x"}, True),
    ([], "status", {}, False),
    ([], "", {}, False),
]


@pytest.mark.parametrize(("granted", "subresource", "status", "refused"), WRITES)
async def test_approval_and_signing_need_permission_for_the_signer(
    admit, granted, subresource, status, refused
):
    ask = admit(signers(*granted), csr("a.b/c", **status), of=OF, old=csr("a.b/c"), subresource=subresource)
    if not refused:
        await ask
        return
    with pytest.raises(
        StatusError, match=r'user not permitted to (approve|sign) requests with signerName "a\.b/c"'
    ):
        await ask


async def test_the_signer_of_the_old_object_is_authorized(admit):
    with pytest.raises(StatusError, match=r'signerName "a\.b/c"'):
        await admit(
            signers(("approve", "mine/one")), csr("mine/one"), of=OF, old=csr("a.b/c"), subresource="approval"
        )


def request(*organizations, user="someone"):
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject)
    signed = made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


@pytest.mark.parametrize(
    ("signer", "organizations", "refused"),
    [
        (CLIENT_SIGNER, [], False),
        (CLIENT_SIGNER, ["a", "system:nodes"], False),
        (CLIENT_SIGNER, ["a", "system:masters"], True),
        ("a.b/c", ["system:masters"], False),
        ("kubernetes.io/legacy-unknown", ["system:masters"], False),
        (CLIENT_SIGNER, ["system:masters\0"], True),
        (CLIENT_SIGNER, ["System:Masters"], True),
        (CLIENT_SIGNER, ["vcsync:tenant-admins"], True),
        (CLIENT_SIGNER, ["a", "vcsync:tenant-admins\0"], True),
        (CLIENT_SIGNER, [" vcsync:tenant-admins"], True),
        (CLIENT_SIGNER, ["vcsync\uff1atenant-admins"], True),
        (CLIENT_SIGNER, ["vcsync:tenant-ad\u00admins"], True),
        (CLIENT_SIGNER, ["vcsync:whatever-comes-later"], True),
        ("kubernetes.io/legacy-unknown", ["vcsync:tenant-admins"], True),
        ("kubernetes.io/kubelet-serving", ["vcsync:tenant-admins"], True),
        ("kubernetes.io/kube-apiserver-client-kubelet", ["vcsync:tenant-admins"], True),
        ("a.b/c", ["vcsync:tenant-admins"], False),
        (CLIENT_SIGNER, ["vcsync", "not-vcsync:x"], False),
    ],
)
async def test_certificates_for_privileged_groups_are_refused(admit, signer, organizations, refused):
    found = {"metadata": {"name": "r"}, "spec": {"signerName": signer, "request": request(*organizations)}}
    if not refused:
        await admit(no_privileged_groups, found, of=OF)
        return
    with pytest.raises(StatusError, match=r"signer with .* group is not allowed"):
        await admit(no_privileged_groups, found, of=OF)


@pytest.mark.parametrize(
    ("signer", "made", "part"),
    [
        (CLIENT_SIGNER, request("dev\0s"), r'organization "dev\\u0000s"'),
        (CLIENT_SIGNER, request("devs", user="ann\n"), r'common name "ann\\n"'),
        ("kubernetes.io/legacy-unknown", request("devs", user="\x7fann"), "common name"),
        ("a.b/c", request("dev\0s"), None),
        (CLIENT_SIGNER, request("dév s"), None),
    ],
)
async def test_subjects_with_control_characters_are_refused(admit, signer, made, part):
    found = {"metadata": {"name": "r"}, "spec": {"signerName": signer, "request": made}}
    if part is None:
        await admit(no_privileged_groups, found, of=OF)
        return
    with pytest.raises(StatusError, match=f"control characters in the {part}"):
        await admit(no_privileged_groups, found, of=OF)

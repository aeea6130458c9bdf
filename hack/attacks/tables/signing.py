"""Certificates, tokens and headers that try to give a user with few permissions more of them."""

import base64
from collections.abc import Iterator, Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

# There is no public way to write a name in another string type.
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from hack.attacks.case import DEFAULT, MERGE, RBAC, Case, Scene, asking, lowly, wrong
from hack.attacks.client import Door
from hack.attacks.world import ATTACKER, trusting

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNERS = (
    "kubernetes.io/kube-apiserver-client",
    "kubernetes.io/kube-apiserver-client-kubelet",
    "kubernetes.io/legacy-unknown",
)
GUARDED = ("system:masters", "vcsync:tenant-admins")
GROUPS = (
    *GUARDED, *(f"{each}\0" for each in GUARDED), *(f"\0{each}" for each in GUARDED), *(f"{each} " for each in GUARDED), *(f" {each}" for each in GUARDED),
    *(f"{each}\n" for each in GUARDED), *(f"{each}\t" for each in GUARDED), *(each.upper() for each in GUARDED), *(each.title() for each in GUARDED),
    *(each.replace(":", "\uff1a") for each in GUARDED), *(each.replace("m", "\uff4d") for each in GUARDED), *(f"{each}\u200b" for each in GUARDED),
    *(f"\ufeff{each}" for each in GUARDED), *(each.replace("a", "\u0430") for each in GUARDED), *(f"a,{each}" for each in GUARDED), *(f"{each}\0x" for each in GUARDED),
    "vcsync:operators", "vcsync:", "vcsync", "system:vcsync", f"{ATTACKER}:vcsync:tenant-admins", "cluster-admin", "system:", "*", "",
)  # fmt: skip
USERS = (
    "admin",
    "system:admin",
    "system:apiserver",
    "system:masters",
    "vcsync:tenant-admins",
    "cluster-admin",
    "admin\0",
    "lowly\0admin",
    "*",
)
TYPES = (
    _ASN1Type.PrintableString,
    _ASN1Type.IA5String,
    _ASN1Type.BMPString,
    _ASN1Type.UniversalString,
    _ASN1Type.T61String,
)
HEADERS = (
    "Impersonate-User: admin", "Impersonate-User: admin\r\nImpersonate-Group: system:masters", "Impersonate-User: x\r\nImpersonate-Group: vcsync:tenant-admins",
    "Impersonate-Group: system:masters", "Impersonate-Uid: 0", "Impersonate-Extra-Tenant: victim", "Impersonate-User: lowly\r\nImpersonate-Group: system:masters",
    "Impersonate-User: lowly\r\nImpersonate-Group: vcsync:tenant-admins", "Impersonate-User: lowly\r\nImpersonate-Extra-scopes: all", "impersonate-user: admin",
    "Impersonate-User: system:serviceaccount:kube-system:admin", "Impersonate-User: system:node:n1", "Impersonate-User: system:kube-controller-manager",
    "Impersonate-User: system:anonymous\r\nImpersonate-Group: vcsync:tenant-admins", "Impersonate-User: lowly\r\nImpersonate-User: admin",
    "Impersonate-User: admin\0", "Impersonate-User:  admin", "Impersonate-User: \xff", "Impersonate-Group: a\r\nImpersonate-Group: system:masters\r\nImpersonate-User: a",
)  # fmt: skip
REFUSED = frozenset({400, 403, 422})
UNABLE = frozenset({0, 401, 403})
APPROVED = {"type": "Approved", "status": "True", "reason": "attack", "message": "attack"}


def cases() -> Sequence[Case]:
    """Try to obtain a certificate, token or header that can read Secrets, as a user who may request and approve."""
    found = [
        _obtaining(f"group {group!r} by {signer}", "x", [group], signer)
        for group in GROUPS
        for signer in SIGNERS[:2]
    ]
    found += [
        _obtaining(f"group {group!r} among others", "x", ["a", group, "b"], SIGNERS[0]) for group in GROUPS
    ]
    found += [
        _obtaining(f"user {user!r} by {signer}", user, [], signer) for user in USERS for signer in SIGNERS
    ]
    found += [
        _obtaining(f"group {group!r} as {kind.name}", "x", [group], SIGNERS[0], kind)
        for group in GUARDED
        for kind in TYPES
    ]
    found += [_impersonating(header) for header in HEADERS]
    for account in ("default", "admin", "none", "..", "default%00"):
        place = f"{DEFAULT}/serviceaccounts/{account}/token"
        found.append(asking(f"a token of {account}", lowly, "POST", place, {"spec": {}}, REFUSED | {404}))
    for group in GROUPS:
        token = {"metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token",
                 "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef", "auth-extra-groups": group}}  # fmt: skip
        found.append(
            asking(
                f"a bootstrap token of {group!r}",
                lowly,
                "POST",
                "/api/v1/namespaces/kube-system/secrets",
                token,
                REFUSED,
            )
        )
    return found


def _obtaining(
    name: str, user: str, groups: Sequence[str], signer: str, kind: _ASN1Type | None = None
) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        made = _request(user, groups, kind)
        if made is None:
            return
        request, key = made
        body = {
            "metadata": {"generateName": "attack-"},
            "spec": {
                "signerName": signer,
                "usages": ["client auth"],
                "request": base64.b64encode(request).decode(),
            },
        }
        asked = scene.lowly.ask("POST", CSRS, body)
        if asked.status != 201:
            yield from wrong(asked, REFUSED)
            return
        if len(groups) == 1 and groups[0] in GUARDED and kind is None and signer == SIGNERS[0]:
            yield f"a request for {groups} is accepted"
        metadata = asked.json["metadata"]
        whole = {**asked.json, "status": {"conditions": [APPROVED]}}
        yield from wrong(
            scene.lowly.ask("PUT", f"{CSRS}/{metadata['name']}/approval", whole), REFUSED | {200}
        )
        # The request of vcsync's controllers after approval.
        place = f"/vcsync/v1/tenants/{scene.tenant}/certificates"
        issued = scene.world.operator.ask("POST", place, {"name": metadata["name"], "uid": metadata["uid"]})
        certificate = issued.json.get("certificate") if issued.status == 200 else ""
        if certificate:
            yield from _tried(scene, certificate.encode() + key)

    return Case(name, attack)


def _tried(scene: Scene, pem: bytes) -> Iterator[str]:
    """Yield a finding if a certificate has too many permissions."""
    door = Door(scene.world.plane.port, trusting((scene.world.plane.data / "ca.crt").read_text(), pem))
    yield from wrong(door.ask("GET", "/api/v1/secrets"), UNABLE)
    yield from wrong(door.ask("GET", f"{RBAC}/clusterroles"), UNABLE)
    yield from wrong(
        door.ask("POST", f"{RBAC}/clusterroles?dryRun=All", {"metadata": {"name": "x"}, "rules": []}), UNABLE
    )


def _request(user: str, groups: Sequence[str], kind: _ASN1Type | None) -> tuple[bytes, bytes] | None:
    """Return a certificate request and its key, PEM; None: no request can contain this."""
    key = ec.generate_private_key(ec.SECP256R1())
    try:
        names = [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, each, _type=kind, _validate=False)
            for each in groups
        ]
        names.append(x509.NameAttribute(NameOID.COMMON_NAME, user, _validate=False))
        made = (
            x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
        )
    except (ValueError, TypeError, UnicodeError):
        return None
    written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return made.public_bytes(Encoding.PEM), written


def _impersonating(headers: str) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        for path in ("/api/v1/secrets", "/vcsync/v1/tenants", f"{DEFAULT}/secrets/other"):
            sent = f"GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n"
            yield from wrong(scene.lowly.raw(sent.encode("latin-1"))[0], frozenset({0, 400, 401, 403}))
        yield from wrong(
            scene.lowly.ask("PATCH", f"{RBAC}/clusterroles/lowly", {"rules": []}, MERGE), frozenset({403})
        )

    return Case(headers.replace("\r\n", ", "), attack)

"""Tokens that are forged, confused, expired, or outlive their bound object."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from hack.attacks.client import Answer
from hack.attacks.judge import hint, problem
from hack.attacks.world import ATTACKER, VICTIM, World, claims

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REFUSED = frozenset({400, 401, 431})


class Forger:
    """The means of the attacker: its own tenant's keys, and the public parts of the victim's."""

    def __init__(self, world: World) -> None:
        exported = world.operator.ask("GET", f"/vcsync/v1/tenants/{ATTACKER}/export").json["files"]
        key = load_pem_private_key(exported["sa.key"].encode(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self.key = key
        self.other = ec.generate_private_key(ec.SECP256R1())
        self.own_token = token(world, "attacker")
        self.victims_token = token(world, "victim")
        self.own, self.victims = claims(self.own_token), claims(self.victims_token)
        self.kid = jwt.get_unverified_header(self.own_token)["kid"]
        self.victims_kid = jwt.get_unverified_header(self.victims_token)["kid"]
        exported = world.operator.ask("GET", f"/vcsync/v1/tenants/{VICTIM}/export").json["files"]
        victims_key = load_pem_private_key(exported["sa.key"].encode(), None)
        assert isinstance(victims_key, ec.EllipticCurvePrivateKey)
        self.victims_public = victims_key.public_key()

    def signed(self, said: Any = None, header: dict[str, Any] | None = None, key: Any = None) -> str:
        """Sign with the attacker's own key; `said` changes the claims, and `header` the header."""
        payload = {**self.own, **(said or {})}
        payload = {name: value for name, value in payload.items() if value is not ...}
        head = {"alg": "ES256", "kid": self.kid, **(header or {})}
        text = f"{packed(head)}.{packed(payload)}"
        return f"{text}.{b64(signature(key or self.key, text.encode()))}"

    def hmac(self, secret: bytes, kid: str, said: dict[str, Any]) -> str:
        """Sign with a public key as HMAC secret."""
        text = f"{packed({'alg': 'HS256', 'kid': kid})}.{packed(said)}"
        return f"{text}.{b64(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


def token(world: World, whose: str) -> str:
    door = world.attacker if whose == "attacker" else world.victim
    name = "forger" if whose == "attacker" else "kept-0"
    door.ask("POST", ACCOUNTS, {"metadata": {"name": name}}) if whose == "attacker" else None
    return str(door.ask("POST", f"{ACCOUNTS}/{name}/token", {"spec": {}}).json["status"]["token"])


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def packed(value: Any) -> str:
    return b64(json.dumps(value).encode())


def signature(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature  # noqa: PLC0415

    first, second = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
    return first.to_bytes(32, "big") + second.to_bytes(32, "big")


def public_pem(forger: Forger) -> bytes:
    return forger.victims_public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk(forger: Forger) -> dict[str, Any]:
    return {
        **json.loads(jwt.algorithms.ECAlgorithm.to_jwk(forger.other.public_key())),
        "kid": forger.victims_kid,
    }


NOW = int(time.time())
FORGED: dict[str, Callable[[Forger], str]] = {
    "no algorithm": lambda f: f"{packed({'alg': 'none', 'kid': f.victims_kid})}.{packed(f.victims)}.",
    "no algorithm, in other letters": lambda f: f"{packed({'alg': 'nOnE', 'kid': f.victims_kid})}.{packed(f.victims)}.",
    "no algorithm, with a signature": lambda f: f"{packed({'alg': 'none', 'kid': f.kid})}.{packed(f.own)}.{b64(b'x' * 64)}",
    "no header field of an algorithm": lambda f: f"{packed({'kid': f.kid})}.{packed(f.own)}.{b64(b'x' * 64)}",
    "an algorithm that is a list": lambda f: f.signed(header={"alg": ["ES256", "none"]}),
    "the public key as a secret": lambda f: f.hmac(public_pem(f), f.victims_kid, f.victims),
    "the public key's DER as a secret": lambda f: f.hmac(
        f.victims_public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo), f.victims_kid, f.victims
    ),
    "the public key's point as a secret": lambda f: f.hmac(
        f.victims_public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint), f.victims_kid, f.victims
    ),
    "an empty secret": lambda f: f.hmac(b"", f.victims_kid, f.victims),
    "an RSA key": lambda f: jwt.encode(
        f.victims, rsa.generate_private_key(65537, 2048), "RS256", headers={"kid": f.victims_kid}
    ),
    "a larger curve": lambda f: jwt.encode(
        f.victims, ec.generate_private_key(ec.SECP384R1()), "ES384", headers={"kid": f.victims_kid}
    ),
    "the own key under the victim's name": lambda f: f.signed(f.victims, {"kid": f.victims_kid}),
    "the own key for the victim's issuer": lambda f: f.signed({"iss": f.victims["iss"]}),
    "the own key for the victim's claims": lambda f: f.signed(f.victims),
    "a key of nobody": lambda f: f.signed(key=f.other),
    "a key of nobody, under the victim's name": lambda f: f.signed(f.victims, {"kid": f.victims_kid}, f.other),
    "a key in the header": lambda f: f.signed(f.victims, {"kid": f.victims_kid, "jwk": jwk(f)}, f.other),
    "a key in the header, without a name": lambda f: f.signed(f.victims, {"kid": ..., "jwk": jwk(f)} | {"kid": ""}, f.other),
    "a URL of keys in the header": lambda f: f.signed(f.victims, {"jku": "http://127.0.0.1:1/keys"}, f.other),
    "a certificate's URL in the header": lambda f: f.signed(f.victims, {"x5u": "http://169.254.169.254/"}, f.other),
    "a certificate in the header": lambda f: f.signed(f.victims, {"x5c": ["MIIB"]}, f.other),
    "a key's name that is a path": lambda f: f.signed(header={"kid": "../../../../dev/null"}),
    "a key's name that is a query": lambda f: f.signed(header={"kid": "x' UNION SELECT 'key"}),
    "a key's name that is a list": lambda f: f.signed(header={"kid": [f.kid]}),
    "a key's name that is a number": lambda f: f.signed(header={"kid": 0}),
    "a key's name that is long": lambda f: f.signed(header={"kid": f.kid * 100}),
    "a key's name in upper case": lambda f: f.signed(header={"kid": f.kid.upper() + "A"}),
    "a critical header": lambda f: f.signed(header={"crit": ["vcsync"], "vcsync": True}),
    "an unencoded payload": lambda f: f.signed(header={"b64": False, "crit": ["b64"]}),
    "a signature of zeros": lambda f: f.signed().rsplit(".", 1)[0] + "." + b64(b"\0" * 64),
    "a signature of the order": lambda f: f.signed().rsplit(".", 1)[0] + "." + b64(
        (0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551).to_bytes(32, "big") * 2
    ),
    "a signature in DER": lambda f: f.signed().rsplit(".", 1)[0] + "." + b64(encode_dss_signature(1, 1)),
    "no signature": lambda f: f.signed().rsplit(".", 1)[0] + ".",
    "no third part": lambda f: f.signed().rsplit(".", 1)[0],
    "five parts": lambda f: f.signed() + ".a.b",
    "the victim's signature on own claims": lambda f: f.signed().rsplit(".", 1)[0] + "." + f.victims_token.rsplit(".", 1)[1],
    "the victim's claims under the own header": lambda f: ".".join(
        [f.own_token.split(".")[0], f.victims_token.split(".")[1], f.own_token.split(".")[2]]
    ),
    "expired": lambda f: f.signed({"exp": NOW - 3600}),
    "expired at the beginning of time": lambda f: f.signed({"exp": 0}),
    "expired before the beginning of time": lambda f: f.signed({"exp": -1e308}),
    "without an end": lambda f: f.signed({"exp": ...}),
    "an end that is a text": lambda f: f.signed({"exp": "9999999999"}),
    "an end that is true": lambda f: f.signed({"exp": True}),
    "an end that is no number": lambda f: f.signed({"exp": float("nan")}),
    "an end that is infinite": lambda f: f.signed({"exp": float("inf")}),
    "an end that no float can hold": lambda f: f.signed({"exp": 10**400}),
    "not valid yet": lambda f: f.signed({"nbf": NOW + 3600}),
    "issued in the future": lambda f: f.signed({"iat": NOW + 3600}),
    "for another audience": lambda f: f.signed({"aud": ["vault"]}),
    "for the victim's audience": lambda f: f.signed({"aud": f.victims["aud"]}),
    "for nobody": lambda f: f.signed({"aud": []}),
    "without an audience": lambda f: f.signed({"aud": ...}),
    "for an audience that is an object": lambda f: f.signed({"aud": {f.own["iss"]: True}}),
    "from an issuer with a slash": lambda f: f.signed({"iss": f.own["iss"] + "/"}),
    "from no issuer": lambda f: f.signed({"iss": ...}),
    "from a list of issuers": lambda f: f.signed({"iss": [f.own["iss"]]}),
    "an account of another name": lambda f: f.signed({"sub": "system:serviceaccount:kube-system:admin"}),
    "a user as the subject": lambda f: f.signed({"sub": "admin"}),
    "a superuser as the subject": lambda f: f.signed({"sub": "system:admin", "groups": ["system:masters"]}),
    "no private claims": lambda f: f.signed({"kubernetes.io": ...}),
    "an account that is not there": lambda f: f.signed(
        {
            "sub": "system:serviceaccount:default:ghost",
            "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "ghost", "uid": "x"}},
        }
    ),
    "an account of another uid": lambda f: f.signed(
        {"kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "forger", "uid": "x"}}}
    ),
    "a namespace that is a path": lambda f: f.signed(
        {
            "sub": "system:serviceaccount:../victim:forger",
            "kubernetes.io": {"namespace": "../victim", "serviceaccount": {"name": "forger", "uid": "x"}},
        }
    ),
    "bound to a Pod that is not there": lambda f: f.signed(
        {"kubernetes.io": {**f.own["kubernetes.io"], "pod": {"name": "ghost", "uid": "x"}}}
    ),
    "bound to something without a name": lambda f: f.signed({"kubernetes.io": {**f.own["kubernetes.io"], "pod": {}}}),
    "out of a Secret that is not there": lambda f: f.signed(
        {
            "iss": "kubernetes/serviceaccount",
            "kubernetes.io/serviceaccount/namespace": "default",
            "kubernetes.io/serviceaccount/service-account.name": "forger",
            "kubernetes.io/serviceaccount/service-account.uid": f.own["kubernetes.io"]["serviceaccount"]["uid"],
            "kubernetes.io/serviceaccount/secret.name": "ghost",
        }
    ),
    "claims that are a list": lambda f: _whole(f, b"[]"),
    "claims that are deep": lambda f: _whole(f, b"[" * 5000 + b"]" * 5000),
    "claims that are no text": lambda f: _whole(f, b"\xff\xfe"),
    "claims twice": lambda f: _whole(f, json.dumps(f.own).encode()[:-1] + b',"iss":"x"}'),
    "padded parts": lambda f: f.signed().replace(".", "=.", 1),
    "another alphabet": lambda f: f.signed()[:-2] + "+/",
    "as large as a header may be": lambda f: f.signed({"x": "a" * 11_000}) + "A" * 100,
    "larger than a header may be": lambda f: f.signed({"x": "a" * 200_000}),
    "dots": lambda _: "." * 5000,
    "no token at all": lambda _: "x",
}  # fmt: skip


def _whole(forger: Forger, payload: bytes) -> str:
    text = f"{packed({'alg': 'ES256', 'kid': forger.kid})}.{b64(payload)}"
    return f"{text}.{b64(signature(forger.key, text.encode()))}"


@pytest.fixture(scope="module")
def forger(world: World) -> Forger:
    return Forger(world)


def test_a_valid_token_of_the_forger_is_accepted(world: World, forger: Forger) -> None:
    assert replace(world.anonymous, token=forger.signed()).ask("GET", "/api").status == 200


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_token_is_refused(world: World, forger: Forger, what: str) -> None:
    door = replace(world.anonymous, token=FORGED[what](forger))
    for path in ("/api", "/version", f"/tenants/{ATTACKER}/api/v1/secrets", "/vcsync/v1/tenants"):
        assert problem(door.ask("GET", path), REFUSED) == ""
    assert hint(lambda tenant: door.ask("GET", f"/tenants/{tenant}/api/v1/secrets"), REFUSED) == ""


@pytest.mark.parametrize("bound", ["pods", "secrets"])
def test_a_token_becomes_invalid_with_its_bound_object(world: World, bound: str) -> None:
    place, kind = f"/api/v1/namespaces/default/{bound}", {"pods": "Pod", "secrets": "Secret"}[bound]
    world.attacker.ask("POST", ACCOUNTS, {"metadata": {"name": "bound"}})
    spec = {"serviceAccountName": "bound", "containers": [{"name": "c", "image": "i"}]}
    body: dict[str, Any] = {"metadata": {"name": "holder"}, **({"spec": spec} if bound == "pods" else {})}
    uid = world.attacker.ask("POST", place, body).json["metadata"]["uid"]
    reference = {"kind": kind, "apiVersion": "v1", "name": "holder", "uid": uid}
    made = world.attacker.ask("POST", f"{ACCOUNTS}/bound/token", {"spec": {"boundObjectRef": reference}})
    door = replace(world.anonymous, token=made.json["status"]["token"])
    assert door.ask("GET", "/api").status == 200
    assert world.attacker.ask("DELETE", f"{place}/holder?gracePeriodSeconds=0").status == 200
    assert problem(door.ask("GET", "/api"), REFUSED) == ""
    world.attacker.ask("POST", place, body)
    assert problem(door.ask("GET", "/api"), REFUSED) == "", "the object made again has another uid"


def test_a_token_becomes_invalid_with_its_account_even_if_that_is_created_again(world: World) -> None:
    world.attacker.ask("POST", ACCOUNTS, {"metadata": {"name": "mortal"}})
    made = world.attacker.ask("POST", f"{ACCOUNTS}/mortal/token", {"spec": {}})
    door = replace(world.anonymous, token=made.json["status"]["token"])
    assert door.ask("GET", "/api").status == 200
    world.attacker.ask("DELETE", f"{ACCOUNTS}/mortal")
    assert problem(door.ask("GET", "/api"), REFUSED) == ""
    world.attacker.ask("POST", ACCOUNTS, {"metadata": {"name": "mortal"}})
    assert problem(door.ask("GET", "/api"), REFUSED) == ""


def test_a_token_of_another_tenant_is_answered_like_a_forged_one(world: World, forger: Forger) -> None:
    valid, forged = forger.victims_token, forger.signed(forger.victims, {"kid": forger.victims_kid})
    answers: list[Answer] = []
    for each in (valid, forged):
        body = {"spec": {"token": each, "audiences": [forger.own["iss"]]}}
        answers.append(world.attacker.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body))
    assert answers[0].json["status"] == answers[1].json["status"]

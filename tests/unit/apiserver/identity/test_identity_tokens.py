"""ServiceAccount tokens as texts: what stands in them, and which of them are believed."""

from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from vcsync.apiserver.authentication import tokens
from vcsync.apiserver.authentication.tokens import Bound, Claims, Reference, TokenError

KEY, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
ISSUER, NOW = "https://cp.example/tenants/acme", 1_800_000_000
ROBOT = Reference("robot", "u1")
LEGACY = "kubernetes.io/serviceaccount/"


def signed(bound: Bound = Bound(), **more: Any) -> str:  # noqa: B008  it is frozen
    return tokens.signed(KEY, "key", ISSUER, "ns", ROBOT, bound, ["a", "b"], "id", NOW, 600, **more)


def claims(**changes: Any) -> dict[str, Any]:
    """Return what a token says; a change to None takes the claim away."""
    told = {
        "aud": ["a"],
        "exp": NOW + 600,
        "iat": NOW,
        "iss": ISSUER,
        "jti": "id",
        "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "robot", "uid": "u1"}},
        "nbf": NOW,
        "sub": "system:serviceaccount:ns:robot",
    }
    return {key: value for key, value in (told | changes).items() if value is not None}


def legacy(**changes: Any) -> dict[str, Any]:
    told = {
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:ns:robot",
        f"{LEGACY}namespace": "ns",
        f"{LEGACY}secret.name": "s",
        f"{LEGACY}service-account.name": "robot",
        f"{LEGACY}service-account.uid": "u1",
    }
    return {key: value for key, value in (told | changes).items() if value is not None}


def verified(told: dict[str, Any]) -> Claims:
    return tokens.verified(jwt.encode(told, KEY, "ES256"), KEY.public_key(), ISSUER)


@pytest.mark.parametrize(
    ("bound", "written"),
    [
        (Bound(), {}),
        (Bound(secret=Reference("s", "2")), {"secret": {"name": "s", "uid": "2"}}),
        (
            Bound(pod=Reference("p", "3"), node=Reference("n", "")),
            {"pod": {"name": "p", "uid": "3"}, "node": {"name": "n"}},
        ),
    ],
)
def test_a_token_says_what_kube_apiservers_say(bound: Bound, written: dict[str, Any]) -> None:
    token = signed(bound)
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "kid": "key"}
    assert jwt.decode(token, options={"verify_signature": False}) == {
        "aud": ["a", "b"],
        "exp": NOW + 600,
        "iat": NOW,
        "iss": ISSUER,
        "jti": "id",
        "kubernetes.io": {
            "namespace": "ns",
            **written,
            "serviceaccount": {"name": "robot", "uid": "u1"},
        },
        "nbf": NOW,
        "sub": "system:serviceaccount:ns:robot",
    }
    found = tokens.verified(token, KEY.public_key(), ISSUER)
    assert found == Claims(
        "ns",
        ROBOT,
        ("a", "b"),
        "id",
        bound.pod,
        bound.secret,
        bound.node,
        not_before=NOW,
        expires=NOW + 600,
    )


def test_a_token_says_when_another_should_be_fetched() -> None:
    told = jwt.decode(signed(warn_after=60), options={"verify_signature": False})
    assert told["kubernetes.io"]["warnafter"] == NOW + 60


def test_a_secrets_token_counts_for_this_server_and_without_end() -> None:
    token = tokens.signed_for_secret(KEY, "key", "ns", ROBOT, "s")
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "kid": "key"}
    assert jwt.decode(token, options={"verify_signature": False}) == legacy()
    found = tokens.verified(token, KEY.public_key(), ISSUER)
    assert found == Claims("ns", ROBOT, None, secret=Reference("s", ""), legacy=True)
    assert verified(legacy(exp=NOW)).expires == NOW
    assert tokens.check_audience(found, ["own", "other"], ["own"]) == ("own",)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (claims(iss="https://cp.example/tenants/other"), "another issuer"),
        (claims(iss=None), "another issuer"),
        (claims(**{"kubernetes.io": None}), "the token has no kubernetes.io claims"),
        (claims(**{"kubernetes.io": {"namespace": "ns"}}), "names no ServiceAccount"),
        (claims(**{"kubernetes.io": {"serviceaccount": {"name": "robot"}}}), "names no ServiceAccount"),
        (
            claims(**{"kubernetes.io": {"namespace": "", "serviceaccount": {"name": "robot"}}}),
            "names no ServiceAccount",
        ),
        (claims(**{"kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": ""}}}), "without a name"),
        (claims(**{"kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": 1}}}), "without a name"),
        (claims(sub="system:serviceaccount:ns:other"), "subject is not its ServiceAccount"),
        (claims(sub=None), "subject is not its ServiceAccount"),
        (claims(aud=None), "no audience"),
        (claims(aud=["a", 1]), "no audience"),
        (claims(aud={"a": 1}), "no audience"),
        (claims(exp=None), "the token has no end"),
        (claims(exp="soon"), "the token's exp is no time"),
        (claims(exp=True), "the token's exp is no time"),
        (claims(exp=1e15), "the token's exp is no time"),
        (claims(exp=-1e15), "the token's exp is no time"),
        (claims(nbf="x"), "the token's nbf is no time"),
        (claims(iat="x"), "the token's iat is no time"),
        (legacy(sub="system:serviceaccount:ns:other"), "subject is not its ServiceAccount"),
        *(
            (legacy(**{f"{LEGACY}{key}": value}), "names no ServiceAccount")
            for key in ("namespace", "secret.name", "service-account.name", "service-account.uid")
            for value in (None, "", 7)
        ),
        (legacy(exp="x"), "the token's exp is no time"),
    ],
)
def test_tokens_that_say_nothing_that_makes_sense(told: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenError, match=why):
        verified(told)


def test_odd_but_harmless_claims_are_left_out() -> None:
    private = {"namespace": "ns", "serviceaccount": {"name": "robot", "uid": 5}, "pod": "p"}
    found = verified(claims(jti=7, aud="a", **{"kubernetes.io": private}))
    assert (found.id, found.audiences, found.account, found.pod) == ("", ("a",), Reference("robot", ""), None)


def test_the_later_of_both_beginnings_counts() -> None:
    assert verified(claims(nbf=NOW + 5)).not_before == NOW + 5
    assert verified(claims(iat=NOW + 7)).not_before == NOW + 7
    assert verified(claims(iat=None, nbf=None)).not_before == 0


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (NOW - 60, None),
        (NOW - 61, "service account token is not valid yet"),
        (NOW + 660, None),
        (NOW + 661, "service account token has expired"),
    ],
)
def test_clocks_may_differ_by_a_minute(now: float, why: str | None) -> None:
    found = verified(claims())
    if why is None:
        tokens.check_time(found, now)
    else:
        with pytest.raises(TokenError, match=why):
            tokens.check_time(found, now)


def test_a_token_for_others_is_refused_with_both_lists() -> None:
    found = verified(claims(aud=["a", "b"]))
    assert tokens.check_audience(found, ["x", "b", "a"], []) == ("b", "a")
    with pytest.raises(TokenError) as caught:
        tokens.check_audience(found, ["x", "y"], ["x"])
    assert str(caught.value) == 'token audiences ["a" "b"] is invalid for the target audiences ["x" "y"]'


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("a" * 16384, "it is no JSON web token"),
        ("a" * 16385, "too large"),
        ("é.é.é", "characters that none has"),
        ("a.b", "it is no JSON web token"),
        (jwt.encode(claims(), KEY, "ES256"), "not signed as ServiceAccount tokens are"),
        (jwt.encode(claims(), "x" * 64, "HS256", headers={"kid": "key"}), "not signed as"),
        (jwt.encode(claims(), None, "none", headers={"kid": "key"}), "not signed as"),
    ],
)
def test_texts_that_name_no_key_of_ours(token: str, why: str) -> None:
    with pytest.raises(TokenError, match=why):
        tokens.key_id(token)


def test_a_token_of_another_key_is_not_believed() -> None:
    assert tokens.key_id(signed()) == "key"
    with pytest.raises(TokenError, match="the signature is wrong"):
        tokens.verified(signed(), OTHER.public_key(), ISSUER)

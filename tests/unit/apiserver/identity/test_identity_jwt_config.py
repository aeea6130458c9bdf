"""Configurations of issuers: everything that is wrong is told at once, with the field it is wrong in."""

from typing import Any

import pytest
import yaml

from vcsync.apiserver.authentication import jwt_config
from vcsync.apiserver.authentication.jwt_config import ConfigError
from vcsync.apiserver.authentication.jwt_expressions import ExpressionError, claims_rule, claims_value

URL = "https://issuer.example"
BOTH, NEITHER = "claim and expression can't both be set", "claim or expression is required"
USERNAME = {"claim": "sub", "prefix": ""}
PREFIX = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
EMAIL = (
    "claimMappings.username.expression: claims.email_verified must be used in "
    "claimMappings.username.expression or claimMappings.extra[*].valueExpression or "
    "claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"
)


def one(**changes: Any) -> dict[str, Any]:
    return {
        "issuer": {"url": URL, "audiences": ["a"]},
        "claimMappings": {"username": USERNAME},
        "tenant": {"name": "acme"},
        **changes,
    }


def document(*authenticators: dict[str, Any]) -> bytes:
    return yaml.safe_dump(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthenticationConfiguration",
            "jwt": list(authenticators),
        }
    ).encode()


def problems(*authenticators: dict[str, Any]) -> list[str]:
    """Return what is told of a configuration, without the number of its only issuer."""
    try:
        jwt_config.parse(document(*authenticators))
    except ConfigError as error:
        return [each.removeprefix("jwt[0].") for each in str(error).split("; ")]
    return []


def issuer(**changes: Any) -> dict[str, Any]:
    return one(issuer={"url": URL, "audiences": ["a"], **changes})


def mappings(**changes: Any) -> dict[str, Any]:
    return one(claimMappings={"username": USERNAME, **changes})


@pytest.mark.parametrize(
    "right",
    [
        one(),
        issuer(audiences=["a", "b"], audienceMatchPolicy="MatchAny"),
        issuer(audienceMatchPolicy="MatchAny"),
        issuer(discoveryURL=f"{URL}/discovery"),
        mappings(groups={"claim": "g", "prefix": "x:"}, uid={"claim": "uid"}),
        mappings(username={"expression": "claims.sub"}, groups={"expression": "claims.g"}),
        mappings(username={"expression": "claims.email_verified ? claims.email : ''"}),
        mappings(
            username={"expression": "claims.email"},
            extra=[{"key": "a.io/b", "valueExpression": "string(claims.email_verified)"}],
        ),
        one(
            claimMappings={"username": {"expression": "claims.email"}},
            claimValidationRules=[{"expression": "claims.?email_verified.orValue(true) == true"}],
        ),
        one(
            claimValidationRules=[
                {"claim": "a", "requiredValue": "b"},
                {"claim": "b"},
                {"expression": "claims.a == 'b'", "message": "m"},
            ],
            userValidationRules=[{"expression": "user.username != 'x'"}, {"expression": "user.uid == ''"}],
        ),
        one(tenant={"claim": "org"}),
        one(tenant={"expression": "claims.org"}),
    ],
)
def test_what_makes_sense_is_taken(right: dict[str, Any]) -> None:
    assert problems(right) == []


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (issuer(url="http://x.example"), ["issuer.url: URL scheme must be https"]),
        (issuer(url="https:///x"), ["issuer.url: URL scheme must be https"]),
        (issuer(url="https://u@x.example"), ["issuer.url: URL must not contain a username or password"]),
        (issuer(url="https://:p@x.example"), ["issuer.url: URL must not contain a username or password"]),
        (issuer(url=f"{URL}?a=b"), ["issuer.url: URL must not contain a query"]),
        (issuer(url=f"{URL}#a"), ["issuer.url: URL must not contain a fragment"]),
        (issuer(url="https://[x"), ["issuer.url: Invalid IPv6 URL"]),
        (
            issuer(discoveryURL="http://u@x.example/?a#b"),
            [
                "issuer.discoveryURL: URL scheme must be https",
                "issuer.discoveryURL: URL must not contain a username or password",
                "issuer.discoveryURL: URL must not contain a query",
                "issuer.discoveryURL: URL must not contain a fragment",
            ],
        ),
        (issuer(discoveryURL=f"{URL}/"), ["issuer.discoveryURL: discoveryURL must be different from URL"]),
        (issuer(audiences=[""]), ["issuer.audiences: at least one is required, and none may be empty"]),
        (issuer(audiences=[]), ["issuer.audiences: at least one is required, and none may be empty"]),
        (
            issuer(audiences=["a", "a"]),
            [
                "issuer.audiences: Duplicate value",
                "issuer.audienceMatchPolicy: audienceMatchPolicy must be MatchAny for multiple audiences",
            ],
        ),
        (
            issuer(audienceMatchPolicy="MatchAll"),
            ["issuer.audienceMatchPolicy: audienceMatchPolicy must be empty or MatchAny for single audience"],
        ),
        (issuer(certificateAuthority="x"), ["issuer.certificateAuthority: it holds no PEM certificates"]),
        (mappings(username={"claim": "a"}), [f"claimMappings.username.prefix: {PREFIX}"]),
        (mappings(groups={"claim": "a"}), [f"claimMappings.groups.prefix: {PREFIX}"]),
        (
            mappings(groups={"expression": "claims.g", "prefix": ""}),
            ["claimMappings.groups.prefix: may not be specified when expression is set"],
        ),
        (mappings(username={}), [f"claimMappings.username: {NEITHER}"]),
        (mappings(uid={"claim": "u", "prefix": ""}), ["claimMappings.uid.prefix: a uid has no prefix"]),
        *(
            (
                mappings(**{field: {"claim": "u", "expression": "claims.u", **more}}),
                [*extra, f"claimMappings.{field}: {BOTH}"],
            )
            for field, more, extra in (
                ("username", {}, [f"claimMappings.username.prefix: {PREFIX}"]),
                ("groups", {}, [f"claimMappings.groups.prefix: {PREFIX}"]),
                ("uid", {}, []),
            )
        ),
        (
            mappings(
                extra=[
                    {"key": "a.io/b", "valueExpression": "''"},
                    {"key": "a.io/b", "valueExpression": ""},
                    {"key": "plain", "valueExpression": "''"},
                    {"key": "A.io/b", "valueExpression": "''"},
                    {"key": "a.io/", "valueExpression": "''"},
                    {"key": "/b", "valueExpression": "''"},
                    {"key": "x.k8s.io/b", "valueExpression": "''"},
                ]
            ),
            [
                "claimMappings.extra[1].key: Duplicate value: 'a.io/b'",
                "claimMappings.extra[1].valueExpression: Required value",
                *(
                    f"claimMappings.extra[{n}].key: must be a domain-prefixed path in lower case (such as example.org/foo)"
                    for n in (2, 3, 4, 5)
                ),
                (
                    "claimMappings.extra[6].key: k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes "
                    "use"
                ),
            ],
        ),
        (mappings(username={"expression": "claims.email"}), [EMAIL]),
        (
            mappings(username={"expression": "claims[?'email'].orValue('') + claims.?email.orValue('')"}),
            [EMAIL],
        ),
        (
            one(
                claimValidationRules=[
                    {},
                    {"claim": "a", "expression": "true", "message": "m", "requiredValue": "v"},
                    {"claim": "b"},
                    {"claim": "b"},
                    {"expression": "'x'"},
                ]
            ),
            [
                f"claimValidationRules[0]: {NEITHER}",
                f"claimValidationRules[1]: {BOTH}",
                "claimValidationRules[1].message: may not be specified when claim is set",
                "claimValidationRules[1].requiredValue: may not be specified when expression is set",
                "claimValidationRules[3]: Duplicate value",
                "claimValidationRules[4].expression: must evaluate to bool",
            ],
        ),
        (
            one(
                userValidationRules=[
                    {"expression": ""},
                    {"expression": "true"},
                    {"expression": "true"},
                    {"expression": "1"},
                ]
            ),
            [
                "userValidationRules[0].expression: Required value",
                "userValidationRules[2].expression: Duplicate value",
                "userValidationRules[3].expression: must evaluate to bool",
            ],
        ),
        (one(tenant={}), ["tenant: exactly one of name, claim and expression must be set"]),
        (
            one(tenant={"name": "a", "claim": "b", "expression": "''"}),
            ["tenant: exactly one of name, claim and expression must be set"],
        ),
    ],
)
def test_everything_that_is_wrong_is_told(wrong: dict[str, Any], told: list[str]) -> None:
    assert problems(wrong) == told


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        (mappings(username={"expression": "claims."}), "claimMappings.username.expression"),
        (mappings(groups={"expression": "claims."}), "claimMappings.groups.expression"),
        (mappings(uid={"expression": "claims."}), "claimMappings.uid.expression"),
        (
            mappings(extra=[{"key": "a.io/b", "valueExpression": "user"}]),
            "claimMappings.extra[0].valueExpression",
        ),
        (one(claimValidationRules=[{"expression": "user.uid == ''"}]), "claimValidationRules[0].expression"),
        (one(userValidationRules=[{"expression": "claims.a == ''"}]), "userValidationRules[0].expression"),
        (one(tenant={"expression": "user.uid"}), "tenant.expression"),
    ],
)
def test_expressions_that_do_not_compile_are_told_where_they_stand(wrong: dict[str, Any], where: str) -> None:
    assert problems(wrong)[0].startswith(f"{where}: compilation failed: ")


def test_no_two_issuers_share_an_address() -> None:
    other = issuer(url="https://other.example", discoveryURL=f"{URL}/discovery")
    third = issuer(url="https://third.example", discoveryURL=f"{URL}/discovery")
    assert problems(one(), other) == []
    assert problems(one(), other, third, one()) == [
        f"jwt[2].issuer.discoveryURL: Duplicate value: '{URL}/discovery'",
        f"jwt[3].issuer.url: Duplicate value: '{URL}'",
    ]


def test_problems_of_later_issuers_are_told_by_number() -> None:
    assert problems(one(), issuer(url="https://b.example", audiences=[])) == [
        "jwt[1].issuer.audiences: at least one is required, and none may be empty"
    ]


def test_there_is_an_end_to_issuers_and_to_bytes() -> None:
    many = [issuer(url=f"https://i{number}.example") for number in range(jwt_config.MAX_ISSUERS + 1)]
    assert problems(*many[:-1]) == []
    assert problems(*many) == [f"jwt: must have at most {jwt_config.MAX_ISSUERS} items"]
    text = document(one())
    assert jwt_config.parse(text + b"#" * (jwt_config.MAX_BYTES - len(text)))
    with pytest.raises(ConfigError, match=f"it has more than {jwt_config.MAX_BYTES} bytes"):
        jwt_config.parse(text + b"#" * (jwt_config.MAX_BYTES - len(text) + 1))


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"tenant": None}, "Expected `object`, got `null`"),
        (
            {"issuer": {"url": URL, "audiences": ["a"], "egressSelectorType": "x"}},
            "issuers are reached directly",
        ),
    ],
)
def test_remedies_are_told(change: dict[str, Any], hint: str) -> None:
    assert hint in problems(one(**change))[0]


def test_an_issuer_without_a_tenant_is_told_how_to_say_it() -> None:
    without = one()
    del without["tenant"]
    with pytest.raises(ConfigError, match="say of which tenant the callers are"):
        jwt_config.parse(document(without))


# ---- expressions over claims -------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("claims.a", True),
        ("has(claims.a)", True),
        ("claims.?a.orValue('')", True),
        ("claims['b'] + claims.b", False),
        ("claims.b.a", False),
        ("claims.?b.orValue('')", False),
    ],
)
def test_what_an_expression_selects_is_known(source: str, found: bool) -> None:
    assert claims_rule(source).selects("claims", "a") is found
    assert not claims_rule(source).selects("user", "a")


@pytest.mark.parametrize(
    ("source", "texts", "told"),
    [
        ("claims.text", ("x",), None),
        ("claims.list", ("a", "b"), None),
        ("claims.none", (), None),
        ("claims.number", None, "must return a string or a list of strings"),
        ("claims.mixed", None, "must return a string or a list of strings"),
        ("claims.missing", None, "no such key: missing"),
    ],
)
def test_expressions_make_texts(source: str, texts: tuple[str, ...] | None, told: str | None) -> None:
    claims = {"text": "x", "list": ["a", "", "b"], "none": None, "number": 5, "mixed": ["a", 1]}
    variables = {"claims": claims_value(claims)}
    if texts is not None:
        assert claims_rule(source).texts(variables) == texts
        return
    with pytest.raises(ExpressionError, match=f"expression '{source}'.*{told}"):
        claims_rule(source).texts(variables)


def test_an_expression_for_one_text_makes_no_list() -> None:
    variables = {"claims": claims_value({"a": "x", "b": ["x"]})}
    assert claims_rule("claims.a").text(variables) == "x"
    with pytest.raises(ExpressionError, match=r"expression .claims\.b. must return a string"):
        claims_rule("claims.b").text(variables)


def test_numbers_of_claims_are_doubles_and_claims_have_a_depth() -> None:
    assert claims_value({"a": [1, True, {"b": 2}]}) == {"a": [1.0, True, {"b": 2.0}]}
    assert type(claims_value({"a": 1})["a"]) is float
    with pytest.raises(ExpressionError, match=r"^a number of the claims is too large$"):
        claims_value({"a": 10**400})
    assert claims_value({"a": {"b": 1}}, depth=3) == {"a": {"b": 1.0}}
    with pytest.raises(ExpressionError, match=r"^the claims are too deep$"):
        claims_value({"a": {"b": 1}}, depth=2)

"""The file of `--authentication-config`: issuers of JSON web tokens, and the mapping from claims to users. Pure.

The format is AuthenticationConfiguration of apiserver.config.k8s.io (v1, v1beta1), validated by the rules of apiserver's
`pkg/apis/apiserver/validation`. vcsync adds `tenant` beside each `issuer`: the tenant of its users.
"""

import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

from vcsync.apiserver.authentication.jwt_expressions import (
    Expression,
    ExpressionError,
    claims_rule,
    user_rule,
)
from vcsync.apiserver.authentication.provider_claims import is_kubernetes

GROUP = "apiserver.config.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
KIND = "AuthenticationConfiguration"
MAX_BYTES = 1024 * 1024
MAX_ISSUERS = 64
"""Issuers of one file, as in kube-apiserver."""

_BOTH = "claim and expression can't both be set"
_NEITHER = "claim or expression is required"


class ConfigError(ValueError):
    """The file is invalid. The message says what is wrong, and where."""


class Issuer(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """An issuer of tokens, and the audiences that its tokens must have."""

    url: str
    audiences: list[str]
    discovery_url: str = msgspec.field(name="discoveryURL", default="")
    certificate_authority: str = ""
    audience_match_policy: str = ""


class Mapping(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """The source of a value of the user: a claim, or an expression over all claims."""

    claim: str = ""
    prefix: str | None = None
    expression: str = ""


class Extra(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """One key of the user's extra."""

    key: str
    value_expression: str


class Mappings(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """The sources of all values of the user."""

    username: Mapping
    groups: Mapping = Mapping()
    uid: Mapping = Mapping()
    extra: list[Extra] = []


class ClaimRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """A validation rule for claims."""

    claim: str = ""
    required_value: str = ""
    expression: str = ""
    message: str = ""


class UserRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """A validation rule for the user."""

    expression: str
    message: str = ""


class TenantRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """The tenant of users: a fixed one, the value of a claim, or the result of an expression over the claims."""

    name: str = ""
    claim: str = ""
    expression: str = ""


class Authenticator(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """One issuer with the rules for its tokens."""

    issuer: Issuer
    claim_mappings: Mappings
    tenant: TenantRule
    claim_validation_rules: list[ClaimRule] = []
    user_validation_rules: list[UserRule] = []


class _Document(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    api_version: str
    kind: str
    jwt: list[Authenticator] = []


def parse(text: bytes) -> list[Authenticator]:
    """Parse a configuration.

    Raises:
        ConfigError: The configuration is invalid.
    """
    if len(text) > MAX_BYTES:
        raise ConfigError(f"it has more than {MAX_BYTES} bytes")
    try:
        document = msgspec.convert(yaml.safe_load(text), _Document)
    except yaml.YAMLError as error:
        raise ConfigError(f"it is no YAML: {error}") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"{error}{_hint(str(error))}") from error
    if document.kind != KIND or document.api_version not in VERSIONS:
        raise ConfigError(f"apiVersion must be {VERSIONS[0]} and kind {KIND}")
    if len(document.jwt) > MAX_ISSUERS:
        raise ConfigError(f"jwt: must have at most {MAX_ISSUERS} items")
    problems = [*_duplicates(document.jwt)]
    for number, each in enumerate(document.jwt):
        problems += [f"jwt[{number}].{problem}" for problem in _problems(each)]
    if problems:
        raise ConfigError("; ".join(problems))
    return document.jwt


def _hint(told: str) -> str:
    if "anonymous" in told:
        return ": who is anonymous is decided by RBAC here; leave `anonymous` out"
    if "egressSelectorType" in told:
        return ": issuers are reached directly; leave it out"
    if "missing required field `tenant`" in told:
        return ": say of which tenant the callers are, `tenant: {name: acme}` or `tenant: {claim: org}`"
    return ""


def _duplicates(authenticators: list[Authenticator]) -> Iterator[str]:
    seen: set[str] = set()
    for number, each in enumerate(authenticators):
        for field, url in (("url", each.issuer.url), ("discoveryURL", each.issuer.discovery_url)):
            if url and f"{field} {url}" in seen:
                yield f"jwt[{number}].issuer.{field}: Duplicate value: {url!r}"
            seen.add(f"{field} {url}")


def _problems(authenticator: Authenticator) -> Iterator[str]:
    yield from (f"issuer.{problem}" for problem in _issuer_problems(authenticator.issuer))
    yield from _mapping_problems(authenticator)
    yield from _rule_problems(authenticator)
    tenant = authenticator.tenant
    if sum(map(bool, (tenant.name, tenant.claim, tenant.expression))) != 1:
        yield "tenant: exactly one of name, claim and expression must be set"
    yield from _compile("tenant.expression", tenant.expression, claims_rule)


def _issuer_problems(issuer: Issuer) -> Iterator[str]:
    yield from (f"url: {problem}" for problem in _url_problems(issuer.url))
    if issuer.discovery_url:
        yield from (f"discoveryURL: {problem}" for problem in _url_problems(issuer.discovery_url))
        if issuer.discovery_url.rstrip("/") == issuer.url.rstrip("/"):
            yield "discoveryURL: discoveryURL must be different from URL"
    if not issuer.audiences or not all(issuer.audiences):
        yield "audiences: at least one is required, and none may be empty"
    if len(set(issuer.audiences)) < len(issuer.audiences):
        yield "audiences: Duplicate value"
    if len(issuer.audiences) > 1 and issuer.audience_match_policy != "MatchAny":
        yield "audienceMatchPolicy: audienceMatchPolicy must be MatchAny for multiple audiences"
    if issuer.audience_match_policy not in ("", "MatchAny"):
        yield "audienceMatchPolicy: audienceMatchPolicy must be empty or MatchAny for single audience"
    if issuer.certificate_authority:
        try:
            ssl.create_default_context(cadata=issuer.certificate_authority)
        except (ssl.SSLError, ValueError):
            yield "certificateAuthority: it holds no PEM certificates"


def _url_problems(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        yield str(error)
        return
    if parts.scheme != "https" or not host:
        yield "URL scheme must be https"
    if parts.username is not None or parts.password is not None:
        yield "URL must not contain a username or password"
    if parts.query:
        yield "URL must not contain a query"
    if parts.fragment:
        yield "URL must not contain a fragment"


def _mapping_problems(authenticator: Authenticator) -> Iterator[str]:
    mappings = authenticator.claim_mappings
    for field, mapping in (("username", mappings.username), ("groups", mappings.groups)):
        if mapping.claim and mapping.prefix is None:
            yield (
                f"claimMappings.{field}.prefix: prefix is required when claim is set. "
                "It can be set to an empty string to disable prefixing"
            )
        if mapping.expression and mapping.prefix is not None:
            yield f"claimMappings.{field}.prefix: may not be specified when expression is set"
    if not mappings.username.claim and not mappings.username.expression:
        yield f"claimMappings.username: {_NEITHER}"
    if mappings.uid.prefix is not None:
        yield "claimMappings.uid.prefix: a uid has no prefix"
    for field in ("username", "groups", "uid"):
        mapping = getattr(mappings, field)
        if mapping.claim and mapping.expression:
            yield f"claimMappings.{field}: {_BOTH}"
        yield from _compile(f"claimMappings.{field}.expression", mapping.expression, claims_rule)
    yield from _extra_problems(mappings.extra)
    yield from _email_problems(authenticator)


def _extra_problems(extras: list[Extra]) -> Iterator[str]:
    seen: set[str] = set()
    for number, extra in enumerate(extras):
        where = f"claimMappings.extra[{number}]"
        domain, slash, rest = extra.key.partition("/")
        if not (domain and slash and rest) or extra.key != extra.key.lower():
            yield f"{where}.key: must be a domain-prefixed path in lower case (such as example.org/foo)"
        if is_kubernetes(extra.key):
            yield f"{where}.key: k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
        if extra.key in seen:
            yield f"{where}.key: Duplicate value: {extra.key!r}"
        seen.add(extra.key)
        if not extra.value_expression:
            yield f"{where}.valueExpression: Required value"
        yield from _compile(f"{where}.valueExpression", extra.value_expression, claims_rule)


def _email_problems(authenticator: Authenticator) -> Iterator[str]:
    """Yield an error if the user name is an email address and no rule checks that it is verified."""
    mappings = authenticator.claim_mappings
    username = mappings.username.expression
    verified = [username, *(each.value_expression for each in mappings.extra)]
    verified += [each.expression for each in authenticator.claim_validation_rules]
    if _selects(username, "email") and not any(_selects(each, "email_verified") for each in verified):
        yield (
            "claimMappings.username.expression: claims.email_verified must be used in "
            "claimMappings.username.expression or claimMappings.extra[*].valueExpression or "
            "claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"
        )


def _selects(expression: str, field: str) -> bool:
    try:
        return bool(expression) and claims_rule(expression).selects("claims", field)
    except ExpressionError:
        return False


def _rule_problems(authenticator: Authenticator) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for number, rule in enumerate(authenticator.claim_validation_rules):
        where = f"claimValidationRules[{number}]"
        if bool(rule.claim) == bool(rule.expression):
            yield f"{where}: {_BOTH if rule.claim else _NEITHER}"
        if rule.claim and rule.message:
            yield f"{where}.message: may not be specified when claim is set"
        if rule.expression and rule.required_value:
            yield f"{where}.requiredValue: may not be specified when expression is set"
        if (rule.claim, rule.expression) in seen:
            yield f"{where}: Duplicate value"
        seen.add((rule.claim, rule.expression))
        yield from _compile(f"{where}.expression", rule.expression, claims_rule, "bool")
    told: set[str] = set()
    for number, each in enumerate(authenticator.user_validation_rules):
        where = f"userValidationRules[{number}].expression"
        if not each.expression:
            yield f"{where}: Required value"
        if each.expression in told:
            yield f"{where}: Duplicate value"
        told.add(each.expression)
        yield from _compile(where, each.expression, user_rule, "bool")


def _compile(where: str, source: str, compiled: Any, wanted: str = "") -> Iterator[str]:
    if not source:
        return
    try:
        rule: Expression = compiled(source)
    except ExpressionError as error:
        yield f"{where}: {error}"
        return
    if wanted and rule.output != wanted:
        yield f"{where}: must evaluate to {wanted}"

"""Maps the verified claims of a token to its user, as configured for the issuer. Pure.

Behaviour: apiserver `plugin/pkg/authenticator/token/oidc`, without distributed claims.
"""

from collections.abc import Callable, Mapping
from typing import Any

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authentication import jwt_config
from vcsync.apiserver.authentication import provider_claims as outside
from vcsync.apiserver.authentication.certificates import CREDENTIAL_ID
from vcsync.apiserver.authentication.jwt_config import Authenticator
from vcsync.apiserver.authentication.jwt_expressions import (
    ExpressionError,
    claims_rule,
    claims_value,
    user_rule,
    user_value,
)
from vcsync.apiserver.authentication.provider_claims import Identified
from vcsync.apiserver.authentication.tokens import TokenError
from vcsync.apiserver.authorization.bootstrap import OWN_GROUPS

Claims = Mapping[str, Any]


def identified(authenticator: Authenticator, claims: Claims, exists: Callable[[str], bool]) -> Identified:
    """Return the user of verified claims.

    Args:
        authenticator: Configuration of the issuer.
        claims: Claims of a token whose signature, issuer, audience and time have been checked.
        exists: Tells whether a tenant exists.

    Raises:
        TokenError: The claims do not describe a valid user.
    """
    try:
        return _identified(authenticator, claims, exists)
    except ExpressionError as error:
        raise TokenError(str(error)) from error


def _identified(authenticator: Authenticator, claims: Claims, exists: Callable[[str], bool]) -> Identified:
    variables = {"claims": claims_value(claims)}
    mappings = authenticator.claim_mappings
    name = _name(mappings.username, claims, variables)
    groups, reserved = _groups(mappings.groups, claims, variables)
    extra = {each.key: claims_rule(each.value_expression).texts(variables) for each in mappings.extra}
    user = User(
        name,
        _single(mappings.uid, claims, variables) if mappings.uid.claim or mappings.uid.expression else "",
        groups,
        {key: values for key, values in extra.items() if values},
    )
    _check_claims(authenticator, claims, variables)
    for rule in authenticator.user_validation_rules:
        if user_rule(rule.expression).value({"user": user_value(user)}) is not True:
            raise TokenError(f"validation expression {rule.expression!r} failed: {rule.message}")
    user = outside.checked(user, reserved=reserved)
    identifier = claims.get("jti")
    if isinstance(identifier, str) and identifier:
        user = User(user.name, user.uid, user.groups, {**user.extra, CREDENTIAL_ID: (f"JTI={identifier}",)})
    of = authenticator.tenant
    tenant = of.name or _single(
        jwt_config.Mapping(claim=of.claim, expression=of.expression), claims, variables
    )
    return Identified(user, outside.of_tenant(tenant, claimed=not of.name, exists=exists))


def _single(mapping: jwt_config.Mapping, claims: Claims, variables: dict[str, Any]) -> str:
    if mapping.expression:
        return claims_rule(mapping.expression).text(variables)
    value = claims.get(mapping.claim)
    if not isinstance(value, str):
        raise TokenError(f"the token's claim {mapping.claim!r} is no text")
    return value


def _name(mapping: jwt_config.Mapping, claims: Claims, variables: dict[str, Any]) -> str:
    name = _single(mapping, claims, variables)
    if mapping.claim == "email" and claims.get("email_verified", True) is not True:
        raise TokenError("email not verified")
    if not name:
        raise TokenError("the token names no user")
    return (mapping.prefix or "") + name


def _groups(
    mapping: jwt_config.Mapping, claims: Claims, variables: dict[str, Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the groups and the prefixes that are reserved: groups of vcsync may only come from the operator's expressions."""
    if mapping.expression:
        return claims_rule(mapping.expression).texts(variables), (outside.RESERVED,)
    value = claims.get(mapping.claim) if mapping.claim else None
    listed = [value] if isinstance(value, str) else value or []
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise TokenError(f"the token's claim {mapping.claim!r} is no list of texts")
    prefix = mapping.prefix or ""
    return tuple(prefix + each for each in listed), (outside.RESERVED, OWN_GROUPS)


def _check_claims(authenticator: Authenticator, claims: Claims, variables: dict[str, Any]) -> None:
    for rule in authenticator.claim_validation_rules:
        if rule.claim and claims.get(rule.claim) != rule.required_value:
            raise TokenError(f"required claim {rule.claim} value does not match")
        if rule.expression and claims_rule(rule.expression).value(variables) is not True:
            raise TokenError(f"validation expression {rule.expression!r} failed: {rule.message}")

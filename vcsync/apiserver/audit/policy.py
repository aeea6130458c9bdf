"""The audit policy: decides which requests are recorded, and at which level. Pure.

Format and rules: `audit.k8s.io/v1` Policy, apiserver's `pkg/audit/policy` and `pkg/apis/audit/validation`.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import yaml

from vcsync.api.names import BOUND_STATUS
from vcsync.apimachinery.strategy import User
from vcsync.apimachinery.validation import names
from vcsync.apiserver.request.audit_trail import STAGES, Level

API_VERSION, KIND = "audit.k8s.io/v1", "Policy"
LEVELS: Mapping[str, Level] = {
    "None": Level.NONE,
    "Metadata": Level.METADATA,
    "Request": Level.REQUEST,
    "RequestResponse": Level.REQUEST_RESPONSE,
}
MAX_FILE = 2**20
"""Bytes of a policy file."""


class PolicyError(Exception):
    """The file is not a valid audit policy. The message names the field and the reason."""


class Asked(Protocol):
    """The attributes that rules match; RequestInfo implements it."""

    @property
    def verb(self) -> str: ...  # noqa: D102 - see RequestInfo
    @property
    def resource_request(self) -> bool: ...  # noqa: D102 - see RequestInfo
    @property
    def path(self) -> str: ...  # noqa: D102 - see RequestInfo
    @property
    def group(self) -> str: ...  # noqa: D102 - see RequestInfo
    @property
    def resource(self) -> str: ...  # noqa: D102 - see RequestInfo
    @property
    def subresource(self) -> str: ...  # noqa: D102 - see RequestInfo
    @property
    def namespace(self) -> str: ...  # noqa: D102 - see RequestInfo
    @property
    def name(self) -> str: ...  # noqa: D102 - see RequestInfo


class _GroupResources(msgspec.Struct, rename="camel"):
    group: str = ""
    resources: tuple[str, ...] | None = ()
    resource_names: tuple[str, ...] | None = ()


class _Rule(msgspec.Struct, rename="camel"):
    level: str = ""
    users: tuple[str, ...] | None = ()
    user_groups: tuple[str, ...] | None = ()
    verbs: tuple[str, ...] | None = ()
    resources: tuple[_GroupResources, ...] | None = ()
    namespaces: tuple[str, ...] | None = ()
    non_resource_urls: tuple[str, ...] | None = msgspec.field(name="nonResourceURLs", default=())
    omit_stages: tuple[str, ...] | None = ()
    omit_managed_fields: bool | None = None


class _Policy(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: dict[str, Any] | None = None
    rules: tuple[_Rule, ...] | None = ()
    omit_stages: tuple[str, ...] | None = ()
    omit_managed_fields: bool = False


@dataclass(frozen=True, slots=True)
class AuditDecision:
    """The decision for a request.

    Attributes:
        level: Level at which the request is recorded.
        omitted: Stages that are not recorded.
        bare: Whether managed fields are left out.
    """

    level: Level
    omitted: frozenset[str]
    bare: bool


class Policy:
    """Decides at which level a request is recorded."""

    def __init__(self, policy: _Policy) -> None:
        """Create a policy from a validated file; see `read`."""
        common = frozenset(policy.omit_stages or ())
        self._default = AuditDecision(Level.NONE, common, policy.omit_managed_fields)
        self._rules = [
            (
                rule,
                AuditDecision(LEVELS[rule.level], common | set(rule.omit_stages or ()), _bare(rule, policy)),
            )
            for rule in policy.rules or ()
        ]

    def decide(self, user: User | None, asked: Asked) -> AuditDecision:
        """Return the decision of the first rule that matches. If none matches, nothing is recorded."""
        for rule, decision in self._rules:
            if _matches(rule, user, asked):
                return decision
        return self._default


def _bare(rule: _Rule, policy: _Policy) -> bool:
    return policy.omit_managed_fields if rule.omit_managed_fields is None else rule.omit_managed_fields


def _matches(rule: _Rule, user: User | None, asked: Asked) -> bool:
    if rule.users and (user is None or user.name not in rule.users):
        return False
    if rule.user_groups and (user is None or not any(each in rule.user_groups for each in user.groups)):
        return False
    if rule.verbs and asked.verb not in rule.verbs:
        return False
    if rule.namespaces or rule.resources:
        return asked.resource_request and _matches_resource(rule, asked)
    if rule.non_resource_urls:
        return not asked.resource_request and any(
            _covers(each, asked.path) for each in rule.non_resource_urls
        )
    return True


def _covers(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def _matches_resource(rule: _Rule, asked: Asked) -> bool:
    if rule.namespaces and asked.namespace not in rule.namespaces:
        return False
    return not rule.resources or any(_in_group(each, asked) for each in rule.resources)


def _in_group(found: _GroupResources, asked: Asked) -> bool:
    if found.group not in ("*", asked.group):
        return False
    if not found.resources:
        return True
    if found.resource_names and asked.name not in found.resource_names:
        return False
    resource, sub = asked.resource, asked.subresource
    wanted = {"*", f"{resource}/*"} if sub else {"*", f"{resource}/*", resource}
    for each in _parts(resource, sub):
        wanted |= {f"{resource}/{each}", f"*/{each}"}
    return any(each in wanted for each in found.resources)


def _parts(resource: str, sub: str) -> tuple[str, ...]:
    """Return the subresources that a request writes. A rule about bindings or statuses holds for both in one write, too."""
    if (resource, sub) == ("pods", BOUND_STATUS):
        return sub, "binding", "status"
    return (sub,) if sub else ()


def read(text: bytes) -> Policy:
    """Parse a policy file.

    Raises:
        PolicyError: The file is invalid.
    """
    if len(text) > MAX_FILE:
        raise PolicyError(f"an audit policy has {MAX_FILE} bytes at most")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise PolicyError(f"not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(value, dict):
        raise PolicyError(f"an audit policy is an object of apiVersion {API_VERSION} and kind {KIND}")
    _check_fields(_Policy, value, "")
    try:
        policy = msgspec.convert(value, _Policy)
    except msgspec.ValidationError as error:
        raise PolicyError(str(error)) from None
    wrong = [*_findings(policy)]
    if wrong:
        raise PolicyError("; ".join(wrong))
    return Policy(policy)


_PARTS: Mapping[tuple[type, str], type] = {(_Policy, "rules"): _Rule, (_Rule, "resources"): _GroupResources}


def _check_fields(of: type, value: Mapping[Any, Any], path: str) -> None:
    """Refuse unknown fields, and suggest a known one.

    Raises:
        PolicyError: There is an unknown field.
    """
    known = [each.encode_name for each in msgspec.structs.fields(of)]
    for key, each in value.items():
        where = f"{path}{key}"
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise PolicyError(f"{where}: unknown field; {hint}")
        part = _PARTS.get((of, key))
        for at, item in enumerate(each if part is not None and isinstance(each, list) else ()):
            if part is not None and isinstance(item, dict):
                _check_fields(part, item, f"{where}[{at}].")


def _findings(policy: _Policy) -> Sequence[str]:
    if (policy.api_version, policy.kind) != (API_VERSION, KIND):
        return [f"apiVersion and kind must be {API_VERSION} and {KIND}"]
    found = _wrong_stages(policy.omit_stages or (), "omitStages")
    if not policy.rules:
        found.append("rules: there must be at least one; without a match nothing is recorded")
    for at, rule in enumerate(policy.rules or ()):
        found += _wrong_rule(rule, f"rules[{at}]")
    return found


def _wrong_rule(rule: _Rule, path: str) -> list[str]:
    found = []
    if rule.level not in LEVELS:
        found.append(f"{path}.level: {rule.level!r} must be one of {', '.join(LEVELS)}")
    for at, url in enumerate(rule.non_resource_urls or ()):
        where = f"{path}.nonResourceURLs[{at}]"
        if url != "*" and not url.startswith("/"):
            found.append(f"{where}: {url!r} must begin with '/'")
        if url != "*" and "*" in url[:-1]:
            found.append(f"{where}: {url!r} may have '*' only at its end")
    for at, each in enumerate(rule.resources or ()):
        where = f"{path}.resources[{at}]"
        if each.group not in ("", "*") and names.dns_subdomain(each.group):
            found.append(f"{where}.group: {each.group!r} is no group name (no version belongs to it)")
        if each.resource_names and not each.resources:
            found.append(f"{where}.resourceNames: needs resources")
    if rule.non_resource_urls and (rule.resources or rule.namespaces):
        found.append(f"{path}.nonResourceURLs: a rule is about resources or about URLs, not both")
    return found + _wrong_stages(rule.omit_stages or (), f"{path}.omitStages")


def _wrong_stages(stages: Sequence[str], path: str) -> list[str]:
    return [
        f"{path}[{at}]: {stage!r} must be one of {', '.join(STAGES)}"
        for at, stage in enumerate(stages)
        if stage not in STAGES
    ]

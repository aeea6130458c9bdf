"""Reads FlowSchemas and PriorityLevelConfigurations, and finds the FlowSchema that a request matches. Pure.

Behaviour: apiserver's `util/flowcontrol/rule.go` and `apf_controller.go`.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.request.caller import Asked
from vcsync.objects.text_cache import cache_short_texts

ACCOUNT_PREFIX = "system:serviceaccount:"


class _Name(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Subject(msgspec.Struct):
    kind: str = ""
    user: _Name | None = None
    group: _Name | None = None
    serviceAccount: _Name | None = None  # noqa: N815


class _ResourceRule(msgspec.Struct):
    verbs: tuple[str, ...] = ()
    apiGroups: tuple[str, ...] = ()  # noqa: N815
    resources: tuple[str, ...] = ()
    clusterScope: bool = False  # noqa: N815
    namespaces: tuple[str, ...] | None = ()


class _PathRule(msgspec.Struct):
    verbs: tuple[str, ...] = ()
    nonResourceURLs: tuple[str, ...] = ()  # noqa: N815


class _Rules(msgspec.Struct):
    subjects: tuple[_Subject, ...] | None = ()
    resourceRules: tuple[_ResourceRule, ...] | None = ()  # noqa: N815
    nonResourceRules: tuple[_PathRule, ...] | None = ()  # noqa: N815


class _Distinguisher(msgspec.Struct):
    type: str = ""


class SchemaSpec(msgspec.Struct):
    """A FlowSchema's spec."""

    priorityLevelConfiguration: _Name = msgspec.field(default_factory=_Name)  # noqa: N815
    matchingPrecedence: int = 0  # noqa: N815
    distinguisherMethod: _Distinguisher | None = None  # noqa: N815
    rules: tuple[_Rules, ...] | None = ()


class _Queuing(msgspec.Struct):
    queues: int = 64
    handSize: int = 8  # noqa: N815
    queueLengthLimit: int = 50  # noqa: N815


class _Response(msgspec.Struct):
    type: str = "Reject"
    queuing: _Queuing | None = None


class _Limited(msgspec.Struct):
    nominalConcurrencyShares: int | None = 30  # noqa: N815
    lendablePercent: int | None = 0  # noqa: N815
    borrowingLimitPercent: int | None = None  # noqa: N815
    limitResponse: _Response = msgspec.field(default_factory=_Response)  # noqa: N815


class _Exempt(msgspec.Struct):
    nominalConcurrencyShares: int | None = 0  # noqa: N815
    lendablePercent: int | None = 0  # noqa: N815


class LevelSpec(msgspec.Struct):
    """A PriorityLevelConfiguration's spec."""

    type: Literal["Exempt", "Limited"] = "Limited"
    limited: _Limited | None = None
    exempt: _Exempt | None = None

    @property
    def shares(self) -> int:
        """The level's share of the tenant's seats, relative to the shares of the other levels."""
        found = self.limited or self.exempt
        return (found.nominalConcurrencyShares or 0) if found else 0

    @property
    def lendable(self) -> int:
        """Percentage of its seats that other levels may use."""
        found = self.limited or self.exempt
        return (found.lendablePercent or 0) if found else 0


class _Metadata(msgspec.Struct):
    name: str
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class Schema(msgspec.Struct, frozen=True):
    """A FlowSchema."""

    name: str
    uid: str
    spec: SchemaSpec


class LevelConfiguration(msgspec.Struct, frozen=True):
    """A PriorityLevelConfiguration."""

    name: str
    uid: str
    spec: LevelSpec


_objects = msgspec.json.Decoder(_Object)


@cache_short_texts(1024, 4096)
def _schema_spec(raw: bytes) -> SchemaSpec:
    """Parse a spec. Tenants with equal specs share the result."""
    return msgspec.json.decode(raw, type=SchemaSpec)


@cache_short_texts(1024, 4096)
def _level_spec(raw: bytes) -> LevelSpec:
    return msgspec.json.decode(raw, type=LevelSpec)


def read_schema(value: bytes) -> Schema:
    """Read a stored FlowSchema."""
    found = _objects.decode(value)
    return Schema(found.metadata.name, found.metadata.uid, _schema_spec(bytes(found.spec)))


def read_level(value: bytes) -> LevelConfiguration:
    """Read a stored PriorityLevelConfiguration."""
    found = _objects.decode(value)
    return LevelConfiguration(found.metadata.name, found.metadata.uid, _level_spec(bytes(found.spec)))


def ordered(schemas: Sequence[Schema]) -> list[Schema]:
    """Sort schemas so that the first one that matches a request applies to it."""
    return sorted(schemas, key=lambda each: (each.spec.matchingPrecedence, each.name))


def matches(spec: SchemaSpec, user: User, asked: Asked) -> bool:
    """Return whether a request matches a FlowSchema."""
    return any(_rules_match(each, user, asked) for each in spec.rules or ())


def distinguisher(spec: SchemaSpec, user: User, asked: Asked) -> str:
    """Return the flow distinguisher of a request: the user name, the namespace, or nothing."""
    method = spec.distinguisherMethod.type if spec.distinguisherMethod else ""
    return user.name if method == "ByUser" else asked.namespace if method == "ByNamespace" else ""


def _rules_match(rules: _Rules, user: User, asked: Asked) -> bool:
    if not any(_subject_matches(each, user) for each in rules.subjects or ()):
        return False
    if asked.resource_request:
        return any(_resource_matches(each, asked) for each in rules.resourceRules or ())
    return any(
        _includes(each.verbs, asked.verb) and _path_matches(each.nonResourceURLs, asked.path)
        for each in rules.nonResourceRules or ()
    )


def _subject_matches(subject: _Subject, user: User) -> bool:
    if subject.kind == "User":
        return subject.user is not None and subject.user.name in ("*", user.name)
    if subject.kind == "Group":
        return subject.group is not None and (subject.group.name == "*" or subject.group.name in user.groups)
    account = subject.serviceAccount
    if subject.kind != "ServiceAccount" or account is None:
        return False
    prefix = f"{ACCOUNT_PREFIX}{account.namespace}:"
    return user.name.startswith(prefix) if account.name == "*" else user.name == prefix + account.name


def _resource_matches(rule: _ResourceRule, asked: Asked) -> bool:
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    if not (
        _includes(rule.verbs, asked.verb)
        and _includes(rule.resources, resource)
        and _includes(rule.apiGroups, asked.group)
    ):
        return False
    return _includes(rule.namespaces or (), asked.namespace) if asked.namespace else rule.clusterScope


def _path_matches(paths: Sequence[str], asked: str) -> bool:
    for path in paths:
        if path in ("*", asked):
            return True
        prefix = path.removesuffix("*")
        if asked.startswith(prefix if prefix.endswith("/") else prefix + "/"):
            return True
    return False


def _includes(listed: Sequence[str], wanted: str) -> bool:
    return wanted in listed or (len(listed) == 1 and listed[0] == "*")

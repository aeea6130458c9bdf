"""The default roles and bindings of every control plane, read from bootstrap_policy.txt. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from vcsync.api import names
from vcsync.apiserver.authorization.policy import GROUP, Binding, Policy, Subject
from vcsync.apiserver.authorization.rbac import Rule, parse_rules

OWN_GROUPS = "vcsync:"
"""Prefix of the groups to which vcsync gives a meaning."""
TENANT_ADMINS = names.TENANT_ADMINS
"""The group of a tenant's administrators: cluster-admin within their tenant, without rights elsewhere."""

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_VERBS = {
    "read": _READ,
    "write": _WRITE,
    "readwrite": tuple(sorted(_READ + _WRITE)),
    "record": ("create", "patch", "update"),
}
_SUBJECTS = {"group": "Group", "user": "User", "sa": "ServiceAccount"}
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


@dataclass(slots=True)
class DefaultRole:
    """One role of the table. `bound`: its binding, or None."""

    name: str
    namespace: str = ""
    into: tuple[str, ...] = ()
    aggregates: str = ""
    rules: list[dict[str, Any]] = field(default_factory=list)
    bound: list[Subject] | None = None
    binding: str = ""


@cache
def default_roles() -> tuple[DefaultRole, ...]:
    """Read the table. Aggregated roles have the rules that kube-controller-manager would give them."""
    text = resources.files(__package__).joinpath("bootstrap_policy.txt").read_text(encoding="utf-8")
    roles: list[DefaultRole] = []
    for line in text.splitlines():
        words = line.split()
        if not words or words[0] == "#":
            continue
        if words[0] == "role":
            roles.append(_head(words[1:]))
        elif words[0] == "<-":
            _bind(roles[-1], words[1:])
        else:
            roles[-1].rules.append(_rule(words))
    for role in roles:
        if role.aggregates:
            _aggregate(role, roles)
    return tuple(roles)


def _head(words: list[str]) -> DefaultRole:
    namespace, _, name = words[0].rpartition("/")
    aggregates = words[words.index("<") + 1] if "<" in words else ""
    into = words[words.index(">") + 1 : words.index("<") if "<" in words else None] if ">" in words else []
    return DefaultRole(name, namespace, tuple(into), aggregates, binding=name)


def _bind(role: DefaultRole, words: list[str]) -> None:
    role.bound = role.bound or []
    for word in words:
        kind, _, name = word.partition(":")
        if kind == "as":
            role.binding = name
            continue
        namespace, _, plain = name.partition("/") if kind == "sa" else ("", "", name)
        role.bound.append(Subject(_SUBJECTS[kind], plain, namespace))


def _rule(words: list[str]) -> dict[str, Any]:
    verbs = list(_VERBS.get(words[0]) or words[0].split(","))
    rest = " ".join(words[2:])
    if words[1] == "-":
        return {"verbs": verbs, "nonResourceURLs": rest.split()}
    plain, bracket, names = rest.partition("[")
    groups = ["" if group == "core" else group for group in words[1].split(",")]
    rule = {"verbs": verbs, "apiGroups": groups, "resources": plain.split()}
    return rule | {"resourceNames": names.rstrip("]").split()} if bracket else rule


def _aggregate(role: DefaultRole, roles: list[DefaultRole]) -> None:
    """Aggregate rules as kube-controller-manager does: ordered by role name, without duplicates."""
    found: list[dict[str, Any]] = []
    for other in sorted(roles, key=lambda each: each.name):
        if role.aggregates in other.into and other is not role:
            if other.aggregates and not other.rules:
                _aggregate(other, roles)
            found += [rule for rule in other.rules if rule not in found]
    role.rules = found


def _metadata(name: str, namespace: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})}
    metadata["annotations"] = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    return metadata


def default_objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (plural, object) of every default role and binding, without fields that differ between tenants."""
    for role in default_roles():
        kind = "Role" if role.namespace else "ClusterRole"
        labels = {f"{_AGGREGATE}{name}": "true" for name in role.into}
        body: dict[str, Any] = {"metadata": _metadata(role.name, role.namespace, labels), "rules": role.rules}
        if role.aggregates:
            selector = {"matchLabels": {f"{_AGGREGATE}{role.aggregates}": "true"}}
            body["aggregationRule"] = {"clusterRoleSelectors": [selector]}
        yield f"{kind.lower()}s", body
        if role.bound is None:
            continue
        body = {"metadata": _metadata(role.binding, role.namespace)}
        if role.bound:
            body["subjects"] = [_subject(subject) for subject in role.bound]
        body["roleRef"] = {"apiGroup": GROUP, "kind": kind, "name": role.name}
        yield f"{kind.lower()}bindings", body
    yield (
        "clusterrolebindings",
        {
            "metadata": {"name": TENANT_ADMINS},
            "subjects": [_subject(Subject("Group", TENANT_ADMINS))],
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        },
    )


def _subject(subject: Subject) -> dict[str, str]:
    if subject.kind == "ServiceAccount":
        return {"kind": subject.kind, "name": subject.name, "namespace": subject.namespace}
    return {"kind": subject.kind, "apiGroup": GROUP, "name": subject.name}


@cache
def default_policy() -> Policy:
    """Return the policy of a new control plane, which also applies to requests without a tenant."""
    cluster_roles: dict[str, tuple[Rule, ...]] = {}
    roles: dict[tuple[str, str], tuple[Rule, ...]] = {}
    bindings = []
    for role in default_roles():
        rules = parse_rules(role.rules)
        if role.namespace:
            roles[role.namespace, role.name] = rules
        else:
            cluster_roles[role.name] = rules
        kind = "Role" if role.namespace else "ClusterRole"
        if role.bound:
            bindings.append(Binding(role.binding, kind, role.name, tuple(role.bound), role.namespace))
    return Policy(cluster_roles, roles, bindings)

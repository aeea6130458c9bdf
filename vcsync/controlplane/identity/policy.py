"""One tenant's roles and bindings, made ready for questions. Pure.

Behaviour: kubernetes `plugin/pkg/auth/authorizer/rbac/rbac.go` and `pkg/registry/rbac/validation/rule.go`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.identity.caller import Asked, Decision
from vcsync.controlplane.identity.rbac import Rule, allows

GROUP = "rbac.authorization.k8s.io"
ACCOUNT_PREFIX = "system:serviceaccount:"
MAX_REMEMBERED = 2048
"""Users whose bindings are remembered."""

Rules = tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a binding speaks of."""

    kind: str
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Binding:
    """A RoleBinding, or a ClusterRoleBinding when `namespace` is empty."""

    name: str
    role_kind: str
    role_name: str
    subjects: tuple[Subject, ...]
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """What one binding gives one user. `missing`: why it gives nothing."""

    binding: Binding
    subject: Subject
    rules: Rules = ()
    missing: str = ""

    def __str__(self) -> str:
        """Tell it as reasons do."""
        binding, subject = self.binding, self.subject
        kind, name = "ClusterRoleBinding", binding.name
        if binding.namespace:
            kind, name = "RoleBinding", f"{binding.name}/{binding.namespace}"
        whom = subject.name
        if subject.kind == "ServiceAccount":
            whom = f"{subject.name}/{subject.namespace or binding.namespace}"
        return f'{kind} "{name}" of {binding.role_kind} "{binding.role_name}" to {subject.kind} "{whom}"'


class Policy:
    """Answers who may do what in one tenant; roles and bindings may be changed one by one."""

    def __init__(
        self,
        cluster_roles: Mapping[str, Rules],
        roles: Mapping[tuple[str, str], Rules],
        bindings: Iterable[Binding],
    ) -> None:
        """Take cluster roles by name, roles by (namespace, name), and bindings."""
        self._roles: dict[tuple[str, str], Rules] = {
            ("", name): rules for name, rules in cluster_roles.items()
        }
        self._roles.update(roles)
        self._bindings: dict[tuple[str, str], Binding] = {}
        self._by_subject: dict[tuple[str, str, str], dict[str, None]] = {}
        self._remembered: dict[tuple[str, tuple[str, ...], str], tuple[Grant, ...]] = {}
        for binding in bindings:
            self._bind(binding)

    def set_role(self, namespace: str, name: str, rules: Rules | None) -> None:
        """Give a Role (a ClusterRole when `namespace` is empty) these rules; None: it is gone."""
        self._remembered.clear()
        if rules is None:
            self._roles.pop((namespace, name), None)
        else:
            self._roles[namespace, name] = rules

    def set_binding(self, namespace: str, name: str, binding: Binding | None) -> None:
        """Put a binding in the place of the one of that name; None: it is gone."""
        self._remembered.clear()
        old = self._bindings.pop((namespace, name), None)
        for key in _keys(old) if old else ():
            spoken_of = self._by_subject[key]
            del spoken_of[name]
            if not spoken_of:
                del self._by_subject[key]
        if binding is not None:
            self._bind(binding)

    def _bind(self, binding: Binding) -> None:
        self._bindings[binding.namespace, binding.name] = binding
        for key in _keys(binding):
            self._by_subject.setdefault(key, {})[binding.name] = None

    def grants(self, user: User, namespace: str) -> tuple[Grant, ...]:
        """Return what bindings give a user in a namespace, by their names; in none: cluster-wide only."""
        key = (user.name, user.groups, namespace)
        found = self._remembered.get(key)
        if found is None:
            found = tuple(self._grants(user, namespace))
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = found
        return found

    def _grants(self, user: User, namespace: str) -> Iterator[Grant]:
        meant = {("User", user.name), *(("Group", group) for group in user.groups)}
        for scope in ("", namespace) if namespace else ("",):
            names: set[str] = set()
            for key in meant:
                names.update(self._by_subject.get((scope, *key), ()))
            for name in sorted(names):
                binding = self._bindings[scope, name]
                subject = next(each for each in binding.subjects if _key(each, scope) in meant)
                yield self._grant(binding, subject)

    def _grant(self, binding: Binding, subject: Subject) -> Grant:
        rules = self.rules_of(binding.role_kind, binding.role_name, binding.namespace)
        if rules is None:
            absent = f'{binding.role_kind.lower()}.{GROUP} "{binding.role_name}" not found'
            return Grant(binding, subject, missing=absent)
        return Grant(binding, subject, rules)

    def rules_of(self, kind: str, name: str, namespace: str) -> Rules | None:
        """Return the rules of the role that a binding refers to; None: there is no such role."""
        if kind == "ClusterRole":
            return self._roles.get(("", name))
        return self._roles.get((namespace, name)) if kind == "Role" and namespace else None

    def decide(self, user: User, asked: Asked) -> Decision:
        """Tell whether a user may."""
        grants = self.grants(user, asked.namespace)
        for grant in grants:
            for rule in grant.rules:
                if allows(rule, asked):
                    return Decision(True, f"RBAC: allowed by {grant}")
        return Decision(False, f"RBAC: {told}" if (told := self.told_missing(grants)) else "")

    @staticmethod
    def told_missing(grants: Iterable[Grant]) -> str:
        """Say which roles bindings refer to that do not exist; empty: none."""
        said = list(dict.fromkeys(grant.missing for grant in grants if grant.missing))
        return said[0] if len(said) == 1 else f"[{', '.join(said)}]" if said else ""


def _keys(binding: Binding) -> set[tuple[str, str, str]]:
    """Return under what a binding is found: its namespace, and what a user must be."""
    found = (_key(subject, binding.namespace) for subject in binding.subjects)
    return {(binding.namespace, *key) for key in found if key is not None}


def _key(subject: Subject, namespace: str) -> tuple[str, str] | None:
    """Return what a user must be to be meant; None: it means nobody."""
    if subject.kind in ("User", "Group"):
        return subject.kind, subject.name
    where = subject.namespace or namespace
    if subject.kind == "ServiceAccount" and where and subject.name:
        return "User", f"{ACCOUNT_PREFIX}{where}:{subject.name}"
    return None

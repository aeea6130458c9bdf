"""The RBAC policy of one tenant: its roles and bindings, indexed for decisions. Pure.

Behaviour: kubernetes `plugin/pkg/auth/authorizer/rbac/rbac.go` and `pkg/registry/rbac/validation/rule.go`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization.rbac import Rule, allows
from vcsync.apiserver.request.caller import Asked, Decision

GROUP = "rbac.authorization.k8s.io"
ACCOUNT_PREFIX = "system:serviceaccount:"
MAX_REMEMBERED = 2048
"""Users whose permissions are cached."""

Rules = tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject of a binding."""

    kind: str
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Binding:
    """A RoleBinding, or a ClusterRoleBinding if `namespace` is empty."""

    name: str
    role_kind: str
    role_name: str
    subjects: tuple[Subject, ...]
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """The permissions that one binding grants one user. `missing`: why it grants none."""

    binding: Binding
    subject: Subject
    rules: Rules = ()
    missing: str = ""

    def __str__(self) -> str:
        """Return the grant as decisions name it in their reason."""
        binding, subject = self.binding, self.subject
        kind, name = "ClusterRoleBinding", binding.name
        if binding.namespace:
            kind, name = "RoleBinding", f"{binding.name}/{binding.namespace}"
        subject_name = subject.name
        if subject.kind == "ServiceAccount":
            subject_name = f"{subject.name}/{subject.namespace or binding.namespace}"
        return (
            f'{kind} "{name}" of {binding.role_kind} "{binding.role_name}" to {subject.kind} "{subject_name}"'
        )


class Policy:
    """Decides requests within one tenant. Roles and bindings can be changed one by one."""

    def __init__(
        self,
        cluster_roles: Mapping[str, Rules],
        roles: Mapping[tuple[str, str], Rules],
        bindings: Iterable[Binding],
    ) -> None:
        """Create a policy of cluster roles by name, roles by (namespace, name), and bindings."""
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
        """Set the rules of a Role, or of a ClusterRole if `namespace` is empty. None removes the role."""
        self._remembered.clear()
        if rules is None:
            self._roles.pop((namespace, name), None)
        else:
            self._roles[namespace, name] = rules

    def set_binding(self, namespace: str, name: str, binding: Binding | None) -> None:
        """Set the binding of a name. None removes it."""
        self._remembered.clear()
        old = self._bindings.pop((namespace, name), None)
        for key in _keys(old) if old else ():
            names = self._by_subject[key]
            del names[name]
            if not names:
                del self._by_subject[key]
        if binding is not None:
            self._bind(binding)

    def _bind(self, binding: Binding) -> None:
        self._bindings[binding.namespace, binding.name] = binding
        for key in _keys(binding):
            self._by_subject.setdefault(key, {})[binding.name] = None

    def grants(self, user: User, namespace: str) -> tuple[Grant, ...]:
        """Return the grants of a user in a namespace, sorted by binding. Without a namespace, cluster-wide grants only."""
        key = (user.name, user.groups, namespace)
        found = self._remembered.get(key)
        if found is None:
            found = tuple(self._grants(user, namespace))
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = found
        return found

    def _grants(self, user: User, namespace: str) -> Iterator[Grant]:
        subjects = {("User", user.name), *(("Group", group) for group in user.groups)}
        for scope in ("", namespace) if namespace else ("",):
            names: set[str] = set()
            for key in subjects:
                names.update(self._by_subject.get((scope, *key), ()))
            for name in sorted(names):
                binding = self._bindings[scope, name]
                subject = next(each for each in binding.subjects if _key(each, scope) in subjects)
                yield self._grant(binding, subject)

    def _grant(self, binding: Binding, subject: Subject) -> Grant:
        rules = self.rules_of(binding.role_kind, binding.role_name, binding.namespace)
        if rules is None:
            absent = f'{binding.role_kind.lower()}.{GROUP} "{binding.role_name}" not found'
            return Grant(binding, subject, missing=absent)
        return Grant(binding, subject, rules)

    def rules_of(self, kind: str, name: str, namespace: str) -> Rules | None:
        """Return the rules of the role that a binding refers to, or None if it does not exist."""
        if kind == "ClusterRole":
            return self._roles.get(("", name))
        return self._roles.get((namespace, name)) if kind == "Role" and namespace else None

    def decide(self, user: User, asked: Asked) -> Decision:
        """Decide a request of a user."""
        grants = self.grants(user, asked.namespace)
        for grant in grants:
            for rule in grant.rules:
                if allows(rule, asked):
                    return Decision(True, f"RBAC: allowed by {grant}")
        return Decision(False, f"RBAC: {missing}" if (missing := self.missing_roles(grants)) else "")

    @staticmethod
    def missing_roles(grants: Iterable[Grant]) -> str:
        """Return a message that names the missing roles of grants, or an empty text."""
        missing = list(dict.fromkeys(grant.missing for grant in grants if grant.missing))
        return missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]" if missing else ""


def _keys(binding: Binding) -> set[tuple[str, str, str]]:
    """Return the index keys of a binding: its namespace and subjects."""
    found = (_key(subject, binding.namespace) for subject in binding.subjects)
    return {(binding.namespace, *key) for key in found if key is not None}


def _key(subject: Subject, namespace: str) -> tuple[str, str] | None:
    """Return the index key of a subject, or None if it matches no user."""
    if subject.kind in ("User", "Group"):
        return subject.kind, subject.name
    where = subject.namespace or namespace
    if subject.kind == "ServiceAccount" and where and subject.name:
        return "User", f"{ACCOUNT_PREFIX}{where}:{subject.name}"
    return None

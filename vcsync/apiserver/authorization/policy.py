"""The RBAC policy of one tenant: its roles and bindings, indexed for decisions.

Behaviour: kubernetes `plugin/pkg/auth/authorizer/rbac/rbac.go` and `pkg/registry/rbac/validation/rule.go`.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice

from msgspec import Struct

from vcsync.api import names
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization.limits import (
    EXCEEDED,
    MAX_BINDINGS,
    Account,
    Weight,
    named,
    weight_of,
)
from vcsync.apiserver.authorization.rbac import Rule, allows
from vcsync.apiserver.authorization.rule_index import RuleIndex, rule_index
from vcsync.apiserver.request.caller import Asked, Decision
from vcsync.objects.budget import Budget
from vcsync.objects.recently_used import RecentlyUsed
from vcsync.process.loop_turns import rest

GROUP = "rbac.authorization.k8s.io"
ACCOUNT_PREFIX = "system:serviceaccount:"
ALWAYS_HELD = frozenset({"cluster-admin", names.TENANT_ADMINS})
"""ClusterRoleBindings that count beyond all limits, so that administrators can repair a tenant that exceeds them."""
MAX_REMEMBERED = 6 * 2**20
"""Bytes of cached permissions of one tenant's users."""
FEW_RULES = 64
"""Rules that a decision looks through one by one."""
SLOW_RULES = 2000
"""Rules from which on a decision may take a millisecond."""
MAX_INDEXED = 5_000
"""Resources in the rules of one user up to which they are indexed."""
_HELD_BYTES, _GRANT_BYTES, _ROLE_BYTES, _KEY_BYTES = 400, 150, 120, 40
_VALUES_PER_STEP = 50
"""Values of a role that are counted in about a microsecond."""

Rules = tuple[Rule, ...]


class Subject(Struct, frozen=True, gc=False):
    """A subject of a binding."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class Binding(Struct, frozen=True):
    """A RoleBinding, or a ClusterRoleBinding if `namespace` is empty."""

    name: str
    role_kind: str
    role_name: str
    subjects: tuple[Subject, ...]
    namespace: str = ""


class Grant(Struct, frozen=True):
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


@dataclass(frozen=True, slots=True)
class Held:
    """The permissions of a user in a namespace.

    Attributes:
        grants: The first binding of each role, sorted: ClusterRoleBindings by name, then RoleBindings by name.
        rule_count: Number of their rules.
        problems: Which roles are missing, and which limit is exceeded, for messages. Empty: none.
        incomplete: Whether bindings or roles beyond the limits grant nothing.
        index: The rules by resource, if there are many.
        roles: Namespace and name of all roles on which it depends.
    """

    grants: tuple[Grant, ...]
    rule_count: int = 0
    problems: str = ""
    incomplete: bool = False
    index: RuleIndex | None = None
    roles: frozenset[tuple[str, str]] = frozenset()

    def rules(self) -> Iterable[Rule]:
        """Return the rules of all roles in their order."""
        return (rule for grant in self.grants for rule in grant.rules)

    def allowing(self, asked: Asked) -> Grant | None:
        """Return the first grant that allows a request, or None."""
        if self.index is not None:
            number = self.index.first(asked)
            return None if number is None else self.grants[number]
        return next((each for each in self.grants if any(allows(rule, asked) for rule in each.rules)), None)

    def decide(self, asked: Asked) -> Decision:
        """Decide a request."""
        grant = self.allowing(asked)
        if grant is not None:
            return Decision(True, f"RBAC: allowed by {grant}")
        return Decision(False, f"RBAC: {self.problems}" if self.problems else "")

    @property
    def slow(self) -> bool:
        """Whether a decision takes long enough to let other tasks run after it."""
        return self.rule_count >= SLOW_RULES

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        index = 0 if self.index is None else self.index.size
        lists = _GRANT_BYTES * len(self.grants) + _ROLE_BYTES * len(self.roles)
        return _HELD_BYTES + lists + len(self.problems) + index


_serials = count()


class _Positions(dict[str, int]):
    """The bindings of one scope that name a subject: by name, the position of the subject among the subjects.

    Attributes:
        serial: A number that nothing else has had, which changes with the bindings.
    """

    __slots__ = ("serial",)
    serial: int


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
        self._weights: dict[tuple[str, str], Weight] = {}
        self._bindings: dict[tuple[str, str], Binding] = {}
        self._by_subject: dict[tuple[str, str, str], _Positions] = {}
        self._role_changes = 0
        self._remembered: RecentlyUsed[tuple[int, ...], Held] = RecentlyUsed(MAX_REMEMBERED)
        for binding in bindings:
            self._bind(binding)

    def set_role(self, namespace: str, name: str, rules: Rules | None) -> None:
        """Set the rules of a Role, or of a ClusterRole if `namespace` is empty. None removes the role."""
        self._role_changes += 1
        self._remembered.drop(lambda held: (namespace, name) in held.roles)
        self._weights.pop((namespace, name), None)
        if rules is None:
            self._roles.pop((namespace, name), None)
        else:
            self._roles[namespace, name] = rules

    def set_binding(self, namespace: str, name: str, binding: Binding | None) -> None:
        """Set the binding of a name. None removes it."""
        old = self._bindings.pop((namespace, name), None)
        for key in _positions(old) if old else ():
            positions = self._by_subject[key]
            del positions[name]
            positions.serial = next(_serials)
            if not positions:
                del self._by_subject[key]
        if binding is not None:
            self._bind(binding)

    def _bind(self, binding: Binding) -> None:
        self._bindings[binding.namespace, binding.name] = binding
        for key, position in _positions(binding).items():
            positions = self._by_subject.setdefault(key, _Positions())
            positions[binding.name] = position
            positions.serial = next(_serials)

    def held(self, user: User, namespace: str) -> Held:
        """Return the permissions of a user in a namespace. Without a namespace, those at the cluster scope only.

        Users whom the same bindings name share the result.
        """
        bound = self._bound(user, namespace)
        key = _cache_key(bound)
        found = self._remembered.get(key)
        if found is None:
            collecting = self._collect(bound)
            try:
                while True:
                    next(collecting)
            except StopIteration as done:
                found = self._remember(key, done.value)
        return found

    async def held_in_turns(self, user: User, namespace: str) -> Held:
        """Return the same as `held`. Other tasks run while many bindings are collected."""
        bound = self._bound(user, namespace)
        key, changes = _cache_key(bound), self._role_changes
        found = self._remembered.get(key)
        if found is not None:
            return found
        collecting, budget = self._collect(bound), Budget("the permissions of a user")
        try:
            while True:
                budget.spend(next(collecting))
                await rest(budget)
        except StopIteration as done:
            held: Held = done.value
        if (key, changes) == (_cache_key(bound), self._role_changes):
            self._remember(key, held)
        return held

    def _remember(self, key: tuple[int, ...], held: Held) -> Held:
        self._remembered.put(key, held, held.size + _KEY_BYTES * len(key))
        return held

    def grants(self, user: User, namespace: str) -> tuple[Grant, ...]:
        """Return the grants of a user in a namespace: the first binding of each role, sorted by binding."""
        return self.held(user, namespace).grants

    def _bound(self, user: User, namespace: str) -> list[tuple[str, _Positions]]:
        """Return the bindings that name a user or one of its groups, with their scope."""
        subjects = (("User", user.name), *(("Group", group) for group in dict.fromkeys(user.groups)))
        found = []
        for scope in ("", namespace) if namespace else ("",):
            for subject in subjects:
                positions = self._by_subject.get((scope, *subject))
                if positions is not None:
                    found.append((scope, positions))
        return found

    def _collect(self, bound: Sequence[tuple[str, _Positions]]) -> Generator[int, None, Held]:
        """Collect the grants of subjects, within the limits. Yields the steps that it has taken.

        Bindings count as they are when it begins.
        """
        chosen, exceeded = _chosen(bound)
        account = Account()
        grants: list[Grant] = []
        roles: set[tuple[str, str]] = set()
        for scope, name, binding, position in [
            (*place, self._bindings[place], chosen[place]) for place in sorted(chosen)
        ]:
            roles.add(("" if binding.role_kind == "ClusterRole" else scope, binding.role_name))
            rules = self.rules_of(binding.role_kind, binding.role_name, scope)
            weight = self.weight_of(binding.role_kind, binding.role_name, scope)
            if account.admit(_role(binding), weight, always=_is_always_held(scope, name)):
                missing = "" if rules is not None else _not_found(binding)
                grants.append(Grant(binding, binding.subjects[position], rules or (), missing))
            yield 1 + weight.values // _VALUES_PER_STEP
        exceeded = exceeded or account.exceeded
        absent = named(each.missing for each in grants if each.missing)
        problems = [*absent, EXCEEDED] if exceeded else absent
        told = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]" if problems else ""
        rule_count = sum(len(each.rules) for each in grants)
        index = _index(grants) if rule_count >= FEW_RULES else None
        return Held(tuple(grants), rule_count, told, exceeded, index, frozenset(roles))

    def rules_of(self, kind: str, name: str, namespace: str) -> Rules | None:
        """Return the rules of the role that a binding refers to, or None if it does not exist."""
        if kind == "ClusterRole":
            return self._roles.get(("", name))
        return self._roles.get((namespace, name)) if kind == "Role" and namespace else None

    def weight_of(self, kind: str, name: str, namespace: str) -> Weight:
        """Return the part of a user's limits that the role of a binding takes."""
        rules = self.rules_of(kind, name, namespace)
        if rules is None:
            return Weight()
        key = ("" if kind == "ClusterRole" else namespace, name)
        found = self._weights.get(key)
        if found is None:
            found = self._weights[key] = weight_of(rules)
        return found

    def decide(self, user: User, asked: Asked) -> Decision:
        """Decide a request of a user."""
        return self.held(user, asked.namespace).decide(asked)


def _cache_key(bound: Sequence[tuple[str, _Positions]]) -> tuple[int, ...]:
    """Return the key of what bindings grant, which a change of one of them changes."""
    return tuple(positions.serial for _, positions in bound)


def _chosen(bound: Sequence[tuple[str, _Positions]]) -> tuple[dict[tuple[str, str], int], bool]:
    """Return scope and name of the bindings that count, each with the position of its first subject that matches.

    The second value tells whether there are more.
    """
    chosen: dict[tuple[str, str], int] = {}
    room = MAX_BINDINGS
    for scope, positions in bound:
        always = [name for name in ALWAYS_HELD if scope == "" and name in positions]
        for name in (*always, *islice(positions, max(0, room))):
            chosen[scope, name] = min(positions[name], chosen.get((scope, name), positions[name]))
        room -= len(positions)
    return chosen, room < 0


def _is_always_held(scope: str, name: str) -> bool:
    return scope == "" and name in ALWAYS_HELD


def _role(binding: Binding) -> tuple[str, str, str]:
    where = "" if binding.role_kind == "ClusterRole" else binding.namespace
    return binding.role_kind, where, binding.role_name


def _not_found(binding: Binding) -> str:
    return f'{binding.role_kind.lower()}.{GROUP} "{binding.role_name}" not found'


def _index(grants: Sequence[Grant]) -> RuleIndex | None:
    """Return the index of the rules of grants, or None if it would be large."""
    entries = sum(len(rule.resources) for each in grants for rule in each.rules)
    return rule_index(each.rules for each in grants) if entries <= MAX_INDEXED else None


def _positions(binding: Binding) -> dict[tuple[str, str, str], int]:
    """Return the index keys of a binding: its namespace and subjects, each with the position of the first such subject."""
    found: dict[tuple[str, str, str], int] = {}
    for position, subject in enumerate(binding.subjects):
        key = _key(subject, binding.namespace)
        if key is not None:
            found.setdefault((binding.namespace, *key), position)
    return found


def _key(subject: Subject, namespace: str) -> tuple[str, str] | None:
    """Return the index key of a subject, or None if it matches no user."""
    if subject.kind in ("User", "Group"):
        return subject.kind, subject.name
    where = subject.namespace or namespace
    if subject.kind == "ServiceAccount" and where and subject.name:
        return "User", f"{ACCOUNT_PREFIX}{where}:{subject.name}"
    return None

"""Checks whether a write of a role or binding would grant more than its author has.

Behaviour: kubernetes `pkg/registry/rbac/escalation_check.go`, `pkg/registry/rbac/*/policybased/storage.go` and
`pkg/registry/rbac/validation/rule.go`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vcsync.api.grants import GRANTS
from vcsync.apimachinery.errors import StatusError, forbidden, not_found
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization.limits import EXCEEDED, named
from vcsync.apiserver.authorization.policy import GROUP, Held, Policy
from vcsync.apiserver.authorization.rbac import (
    FULL_AUTHORITY,
    Rule,
    compact,
    missing,
    parse_rules,
    quoted_all,
)
from vcsync.apiserver.request.caller import Attributes, Granted, quoted
from vcsync.objects.budget import Budget, BudgetExceeded

ROLES = frozenset({"roles", "clusterroles"})
BINDINGS = frozenset({"rolebindings", "clusterrolebindings"})
RESOURCES = ROLES | BINDINGS
"""Plurals of the resources that are checked."""

AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"
_HOUSEKEEPING = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")


REMEDY = "write several smaller roles, or let a user with the verb escalate (for bindings: bind) write it"
"""Remedy for roles that are too large to compare."""
MAX_STEPS = 1_000_000
"""Most comparisons of single permissions with rules for one write: about a second."""


def new_budget() -> Budget:
    """Return the budget of one write."""
    return Budget("the comparison of these permissions with those of the user", MAX_STEPS)


@dataclass(frozen=True, slots=True)
class Write:
    """A write of a role or binding.

    Attributes:
        policy: Policy of the tenant.
        user: Author of the write.
        plural: Plural of the resource.
        namespace: Namespace of the object. Empty: it is cluster-scoped.
        new: The new object.
        old: The current object, or None for a creation.
        group: API group of the resource.
        budget: Steps that are left for comparisons of rules.
    """

    policy: Policy
    user: User
    plural: str
    namespace: str
    new: Mapping[str, Any]
    old: Mapping[str, Any] | None
    group: str = GROUP
    budget: Budget = field(default_factory=new_budget)

    @property
    def name(self) -> str:
        """Name of the role or binding."""
        return str((self.new.get("metadata") or {}).get("name", ""))

    def refused(self, why: str) -> StatusError:
        """Return the refusal of the write."""
        return forbidden(self.plural, self.group, self.name, why)


async def check(write: Write) -> None:
    """Refuse a write that the user may not make.

    Raises:
        StatusError: 403, the write would grant more than the user has; 404, a binding refers to a missing role.
    """
    if write.old is not None and _but_housekeeping(write.new) == _but_housekeeping(write.old):
        return
    if write.plural in ROLES:
        await _check_role(write)
    else:
        await _check_binding(write)


async def check_grant(policy: Policy, user: User, grant: Granted) -> None:
    """Refuse a TenantGrant of roles that the user may not bind wherever the grant holds.

    Raises:
        StatusError: 403, the grant would grant more than the user has; 404, it refers to a missing role.
    """
    budget = new_budget()
    for namespace in grant.namespaces or ("",):
        for kind, role in grant.roles:
            binding = {"metadata": {"name": grant.name}, "roleRef": {"kind": kind, "name": role}}
            write = Write(policy, user, GRANTS.plural, namespace, binding, None, GRANTS.group, budget)
            await _check_binding(write)


def _but_housekeeping(found: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in found.get("metadata", {}).items() if key not in _HOUSEKEEPING}
    rest = {key: value for key, value in found.items() if key not in ("metadata", "kind", "apiVersion")}
    return {"metadata": metadata, **rest}


async def _check_role(write: Write) -> None:
    name = write.name if write.old else ""
    asked = Attributes("escalate", group=GROUP, resource=write.plural, namespace=write.namespace, name=name)
    if (await write.policy.held_in_turns(write.user, asked.namespace)).decide(asked).allowed:
        return
    await _check_rules(write, parse_rules(write.new.get("rules")))
    if _aggregates(write.new) or _aggregates(write.old or {}):
        held = await write.policy.held_in_turns(write.user, write.namespace)
        lacking, _ = await _lacking(write, held, FULL_AUTHORITY)
        if lacking:
            raise write.refused(AGGREGATION)


def _aggregates(role: Mapping[str, Any]) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


async def _check_binding(write: Write) -> None:
    reference = write.new.get("roleRef") or {}
    kind, role = reference.get("kind", ""), reference.get("name", "")
    asked = Attributes(
        "bind",
        group=reference.get("apiGroup") or GROUP,
        resource=f"{kind.lower()}s",
        namespace=write.namespace,
        name=role,
    )
    if (await write.policy.held_in_turns(write.user, asked.namespace)).decide(asked).allowed:
        return
    rules = write.policy.rules_of(kind, role, write.namespace)
    if rules is None:
        raise not_found(write.plural if write.group == GROUP else f"{kind.lower()}s", GROUP, role)
    await _check_rules(write, rules)


async def _check_rules(write: Write, wanted: Sequence[Rule]) -> None:
    held = await write.policy.held_in_turns(write.user, write.namespace)
    lacking, complete = await _lacking(write, held, wanted)
    if lacking:
        raise write.refused(_escalation_message(write, lacking, held, complete=complete))


async def _lacking(write: Write, held: Held, wanted: Sequence[Rule]) -> tuple[list[Rule], bool]:
    """Return the first permissions that the user does not hold, and whether they are all.

    Raises:
        StatusError: 403, there are too many to compare.
    """
    try:
        return await missing(held.rules(), wanted, write.budget)
    except BudgetExceeded as error:
        raise write.refused(f"{error}: {REMEDY}") from error


def _escalation_message(write: Write, lacking: Sequence[Rule], held: Held, *, complete: bool) -> str:
    rules = "\n".join(sorted({str(rule) for rule in compact(lacking)}))
    text = (
        f"user {quoted(write.user.name)} (groups={quoted_all(write.user.groups)}) is attempting to grant RBAC permissions "
        f"not currently held:\n{rules}"
    )
    if not complete:
        text += f"\nfurther permissions were not compared after these {len(lacking)}"
    absent = named(
        not_found(write.plural, GROUP, each.binding.role_name).message for each in held.grants if each.missing
    )
    problems = [*absent, EXCEEDED] if held.incomplete else absent
    if not problems:
        return text
    resolution_errors = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return f"{text}; resolution errors: [{resolution_errors}]"

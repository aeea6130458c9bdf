"""Checks whether a write of a role or binding would grant more than its author has. Pure.

Behaviour: kubernetes `pkg/registry/rbac/escalation_check.go`, `pkg/registry/rbac/*/policybased/storage.go` and
`pkg/registry/rbac/validation/rule.go`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsync.api.grants import GRANTS
from vcsync.apimachinery.errors import StatusError, forbidden, not_found
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization.policy import GROUP, Grant, Policy
from vcsync.apiserver.authorization.rbac import (
    FULL_AUTHORITY,
    Rule,
    compact,
    missing,
    parse_rules,
    quoted_all,
)
from vcsync.apiserver.request.caller import Attributes, Granted, quoted

ROLES = frozenset({"roles", "clusterroles"})
BINDINGS = frozenset({"rolebindings", "clusterrolebindings"})
RESOURCES = ROLES | BINDINGS
"""Plurals of the resources that are checked."""

AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"
_HOUSEKEEPING = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")


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
    """

    policy: Policy
    user: User
    plural: str
    namespace: str
    new: Mapping[str, Any]
    old: Mapping[str, Any] | None
    group: str = GROUP

    @property
    def name(self) -> str:
        """Name of the role or binding."""
        return str((self.new.get("metadata") or {}).get("name", ""))

    def refused(self, why: str) -> StatusError:
        """Return the refusal of the write."""
        return forbidden(self.plural, self.group, self.name, why)


def check(write: Write) -> None:
    """Refuse a write that the user may not make.

    Raises:
        StatusError: 403, the write would grant more than the user has; 404, a binding refers to a missing role.
    """
    if write.old is not None and _but_housekeeping(write.new) == _but_housekeeping(write.old):
        return
    if write.plural in ROLES:
        _check_role(write)
    else:
        _check_binding(write)


def check_grant(policy: Policy, user: User, grant: Granted) -> None:
    """Refuse a TenantGrant of roles that the user may not bind wherever the grant holds.

    Raises:
        StatusError: 403, the grant would grant more than the user has; 404, it refers to a missing role.
    """
    for namespace in grant.namespaces or ("",):
        for kind, role in grant.roles:
            binding = {"metadata": {"name": grant.name}, "roleRef": {"kind": kind, "name": role}}
            _check_binding(Write(policy, user, GRANTS.plural, namespace, binding, None, GRANTS.group))


def _but_housekeeping(found: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in found.get("metadata", {}).items() if key not in _HOUSEKEEPING}
    rest = {key: value for key, value in found.items() if key not in ("metadata", "kind", "apiVersion")}
    return {"metadata": metadata, **rest}


def _check_role(write: Write) -> None:
    name = write.name if write.old else ""
    asked = Attributes("escalate", group=GROUP, resource=write.plural, namespace=write.namespace, name=name)
    if write.policy.decide(write.user, asked).allowed:
        return
    _check_rules(write, parse_rules(write.new.get("rules")))
    if _aggregates(write.new) or _aggregates(write.old or {}):
        grants = write.policy.grants(write.user, write.namespace)
        if missing([rule for grant in grants for rule in grant.rules], FULL_AUTHORITY):
            raise write.refused(AGGREGATION)


def _aggregates(role: Mapping[str, Any]) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _check_binding(write: Write) -> None:
    reference = write.new.get("roleRef") or {}
    kind, role = reference.get("kind", ""), reference.get("name", "")
    asked = Attributes(
        "bind",
        group=reference.get("apiGroup") or GROUP,
        resource=f"{kind.lower()}s",
        namespace=write.namespace,
        name=role,
    )
    if write.policy.decide(write.user, asked).allowed:
        return
    rules = write.policy.rules_of(kind, role, write.namespace)
    if rules is None:
        raise not_found(write.plural if write.group == GROUP else f"{kind.lower()}s", GROUP, role)
    _check_rules(write, rules)


def _check_rules(write: Write, wanted: Sequence[Rule]) -> None:
    grants = write.policy.grants(write.user, write.namespace)
    try:
        lacking = missing([rule for grant in grants for rule in grant.rules], wanted)
    except ValueError as error:
        raise write.refused(str(error)) from error
    if lacking:
        raise write.refused(_escalation_message(write, lacking, grants))


def _escalation_message(write: Write, lacking: Sequence[Rule], grants: Sequence[Grant]) -> str:
    rules = "\n".join(sorted({str(rule) for rule in compact(lacking)}))
    text = (
        f"user {quoted(write.user.name)} (groups={quoted_all(write.user.groups)}) is attempting to grant RBAC permissions "
        f"not currently held:\n{rules}"
    )
    dangling = (grant.binding.role_name for grant in grants if grant.missing)
    absent = list(dict.fromkeys(not_found(write.plural, GROUP, name).message for name in dangling))
    if not absent:
        return text
    resolution_errors = absent[0] if len(absent) == 1 else f"[{', '.join(absent)}]"
    return f"{text}; resolution errors: [{resolution_errors}]"

"""Whether a write of a role or binding would grant more than its author holds. Pure.

Behaviour: kubernetes `pkg/registry/rbac/escalation_check.go`, `pkg/registry/rbac/*/policybased/storage.go` and
`pkg/registry/rbac/validation/rule.go`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.errors import StatusError, forbidden, not_found
from vcsync.controlplane.identity.caller import Attributes, quoted
from vcsync.controlplane.identity.policy import GROUP, Grant, Policy
from vcsync.controlplane.identity.rbac import FULL_AUTHORITY, Rule, compact, missing, parse_rules, quoted_all

ROLES = frozenset({"roles", "clusterroles"})
BINDINGS = frozenset({"rolebindings", "clusterrolebindings"})
RESOURCES = ROLES | BINDINGS
"""Plurals of what is to be checked."""

AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"
_HOUSEKEEPING = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")


@dataclass(frozen=True, slots=True)
class Write:
    """A write of a role or binding: by whom, of what, where."""

    policy: Policy
    user: User
    plural: str
    namespace: str
    new: Mapping[str, Any]
    old: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        """Of the role or binding."""
        return str((self.new.get("metadata") or {}).get("name", ""))

    def refused(self, why: str) -> StatusError:
        """Say why it may not be."""
        return forbidden(self.plural, GROUP, self.name, why)


def check(write: Write) -> None:
    """Make sure that the user may make `old` (None: nothing) into `new`.

    Raises:
        StatusError: 403, it would grant more than the user holds; 404, a binding refers to no role.
    """
    if write.old is not None and _but_housekeeping(write.new) == _but_housekeeping(write.old):
        return
    if write.plural in ROLES:
        _check_role(write)
    else:
        _check_binding(write)


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
        raise not_found(write.plural, GROUP, role)
    _check_rules(write, rules)


def _check_rules(write: Write, wanted: Sequence[Rule]) -> None:
    grants = write.policy.grants(write.user, write.namespace)
    try:
        lacking = missing([rule for grant in grants for rule in grant.rules], wanted)
    except ValueError as error:
        raise write.refused(str(error)) from error
    if lacking:
        raise write.refused(_told(write, lacking, grants))


def _told(write: Write, lacking: Sequence[Rule], grants: Sequence[Grant]) -> str:
    told = "\n".join(sorted({str(rule) for rule in compact(lacking)}))
    text = (
        f"user {quoted(write.user.name)} (groups={quoted_all(write.user.groups)}) is attempting to grant RBAC permissions "
        f"not currently held:\n{told}"
    )
    dangling = (grant.binding.role_name for grant in grants if grant.missing)
    absent = list(dict.fromkeys(not_found(write.plural, GROUP, name).message for name in dangling))
    if not absent:
        return text
    said = absent[0] if len(absent) == 1 else f"[{', '.join(absent)}]"
    return f"{text}; resolution errors: [{said}]"

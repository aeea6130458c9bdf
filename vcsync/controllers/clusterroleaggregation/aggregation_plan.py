"""Aggregated ClusterRoles: their rules are the rules of all ClusterRoles that they select. Pure.

Behaviour: Kubernetes' `pkg/controller/clusterroleaggregation`.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from vcsync.controllers.framework.event_handlers import standing
from vcsync.controllers.framework.mirror import Key, key_of
from vcsync.controllers.framework.plan import NOTHING, Controller, Patch, Plan, View, Watch
from vcsync.kube.cache import Change
from vcsync.kube.resources import CLUSTER_ROLES
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.objects.selectors import LabelSelector, compile_selector


class _Rule(Struct, rename="camel"):
    cluster_role_selectors: tuple[LabelSelector, ...] | None = None


class _Aggregating(Struct, rename="camel"):
    aggregation_rule: _Rule | None = None


def plan(view: View, key: Key) -> Plan:
    """Give a role the rules of the roles that it selects, ordered by its selectors and then by name."""
    role = view.of[CLUSTER_ROLES].get(*key)
    selectors = () if role is None else _selectors(role)
    if role is None or selectors is None:
        return NOTHING
    others = sorted(view.of[CLUSTER_ROLES].within(key.tenant), key=lambda each: each.name)
    rules: list[Any] = []
    for selector in map(compile_selector, selectors):
        for other in others:
            if other.name != role.name and selector.matches(other.labels):
                rules += [rule for rule in _rules(other) if rule not in rules]
    if rules == _rules(role):
        return NOTHING
    return Plan([[Patch(CLUSTER_ROLES, "", role.name, {"metadata": {"uid": role.uid}, "rules": rules})]])


def _selectors(role: Envelope) -> tuple[LabelSelector, ...] | None:
    """Return the selectors of an aggregated role; None: the role has its own rules."""
    found = decode(role.rest, _Aggregating).aggregation_rule
    return None if found is None else found.cluster_role_selectors or ()


def _rules(role: Envelope) -> list[Any]:
    return untyped(role.rest).get("rules") or []


def _concerned(change: Change, view: View) -> Iterable[Key]:
    """Return the roles that select this role now or selected it before, and the role itself."""
    if change.old is not None and change.new is not None:
        same = change.old.labels == change.new.labels and change.old.rest == change.new.rest
        if same:
            return ()
    found: dict[Key, None] = {key_of(standing(change)): None}
    sides = [each for each in (change.old, change.new) if each is not None and each.labels]
    for role in view.of[CLUSTER_ROLES].within(standing(change).tenant) if sides else ():
        selectors = [compile_selector(each) for each in _selectors(role) or ()]
        if any(selector.matches(side.labels) for selector in selectors for side in sides):
            found[key_of(role)] = None
    return found


CLUSTER_ROLE_AGGREGATION = Controller(
    "clusterrole-aggregation-controller", (Watch(CLUSTER_ROLES, _concerned),), plan
)

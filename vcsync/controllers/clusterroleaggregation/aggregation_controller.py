"""Aggregated ClusterRoles: their rules are the rules of all ClusterRoles that they select.

Behaviour: Kubernetes' `pkg/controller/clusterroleaggregation`. The work is in proportion to what a tenant writes, so it takes
turns with other tasks, and ends where no API server would store the result.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.controllers.framework.event_handlers import standing
from vcsync.controllers.framework.mirror import Key
from vcsync.controllers.framework.plan import Emit, View, Watch
from vcsync.controllers.framework.worker import ReconcileContext, Worker
from vcsync.fairqueue import ObjectName
from vcsync.kube.cache import Change
from vcsync.kube.errors import KubeError
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import CLUSTER_ROLES
from vcsync.objects.budget import Budget, BudgetExceeded
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.objects.selectors import LabelSelector, compile_selector
from vcsync.process.loop_turns import rest

MAX_BYTES = (1536 - 16) * 1024
"""Most bytes of the rules of one role: the size of one object in etcd, without its metadata."""
MAX_STEPS = 2_000_000
"""Most comparisons of selectors with roles, and rules of selected roles, for all roles of a tenant: about three seconds."""
FAILED = "AggregationFailed"
"""Reason of the Event about a role that selects too much."""
ALL = ""
"""Name in the key that stands for all aggregated roles of a tenant: any change of a role may concern each of them."""
MANY_ROLES, GATHER_SECONDS = 500, 5.0
"""From so many roles on, changes are gathered for so long before the aggregated roles are computed again."""
_MARK = b'"aggregationRule"'


class TooLargeError(Exception):
    """The rules of an aggregated role would be larger than an object can be."""


class _Rule(Struct, rename="camel"):
    cluster_role_selectors: tuple[LabelSelector, ...] | None = None


class _Aggregating(Struct, rename="camel"):
    aggregation_rule: _Rule | None = None


async def work(context: ReconcileContext, key: Key) -> float | None:
    """Give each aggregated role of a tenant the rules of the roles that it selects.

    Raises:
        KubeError: A role could not be written; the others were.
    """
    roles = sorted(context.view.of[CLUSTER_ROLES].within(key.tenant), key=lambda each: each.name)
    budget = Budget("the aggregation of the tenant's ClusterRoles", MAX_STEPS)
    failed: KubeError | None = None
    for role in roles:
        selectors = _selectors(role)
        if selectors is None:
            continue
        try:
            rules = await aggregated(selectors, [each for each in roles if each is not role], budget)
            await _write(context, role, rules)
        except TooLargeError as error:
            _report(context, role, error)
        except BudgetExceeded as error:
            _report(context, role, error)
            break
        except KubeError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return None


async def _write(context: ReconcileContext, role: Envelope, rules: list[Any]) -> None:
    if rules != _rules(role):
        patch = {"metadata": {"uid": role.uid}, "rules": rules}
        await context.client.patch(CLUSTER_ROLES, role.name, patch)
        context.note(ObjectName(CLUSTER_ROLES.plural, "", role.name), "patched", role.resource_version)


def _report(context: ReconcileContext, role: Envelope, error: Exception) -> None:
    about = ObjectRef(CLUSTER_ROLES.api_version, CLUSTER_ROLES.kind, role.name, uid=role.uid)
    context.emit(Emit(about, "Warning", FAILED, f"{error}: select fewer roles; the rules stay as they are"))


async def aggregated(
    selectors: Sequence[LabelSelector], roles: Sequence[Envelope], budget: Budget
) -> list[Any]:
    """Return the rules of the selected roles, each once, ordered by the selectors and then by the roles.

    Takes turns with other tasks.

    Args:
        selectors: Selectors of the aggregated role.
        roles: The other roles.
        budget: Steps that are left.

    Raises:
        BudgetExceeded: The selectors, the roles or their rules are too many.
        TooLargeError: No object can have so many rules.
    """
    found: dict[bytes, Any] = {}
    chosen: set[str] = set()
    size = 0
    for selector in map(compile_selector, selectors):
        for role in roles:
            budget.spend()
            await rest(budget)
            if role.name in chosen or not selector.matches(role.labels):
                continue
            chosen.add(role.name)
            for rule in _rules(role):
                budget.spend()
                await rest(budget)
                encoded = msgspec.json.encode(rule, order="sorted")
                size += 0 if encoded in found else len(encoded) + len(",")
                if size > MAX_BYTES:
                    raise TooLargeError(
                        f"the rules of the selected ClusterRoles have more than {MAX_BYTES} bytes"
                    )
                found.setdefault(encoded, rule)
    return list(found.values())


def _selectors(role: Envelope) -> tuple[LabelSelector, ...] | None:
    """Return the selectors of an aggregated role; None: the role has its own rules."""
    if _MARK not in role.rest:
        return None
    found = decode(role.rest, _Aggregating).aggregation_rule
    return None if found is None else found.cluster_role_selectors or ()


def _rules(role: Envelope) -> list[Any]:
    return untyped(role.rest).get("rules") or []


def _concerned(change: Change, _view: View) -> Iterable[Key]:
    """Return the key of all aggregated roles. Which of them a change concerns is found when they are computed."""
    if change.old is not None and change.new is not None:
        same = change.old.labels == change.new.labels and change.old.rest == change.new.rest
        if same:
            return ()
    return (Key(standing(change).tenant, "", ALL),)


def _gather(_change: Change, view: View, key: Key) -> float:
    return GATHER_SECONDS if view.of[CLUSTER_ROLES].count(key.tenant, "") >= MANY_ROLES else 0.0


CLUSTER_ROLE_AGGREGATION = Worker(
    "clusterrole-aggregation-controller", (Watch(CLUSTER_ROLES, _concerned, _gather),), work
)

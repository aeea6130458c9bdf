"""Evicts Pods: deletes them if their PodDisruptionBudget allows it.

Source: `registry/core/pod/storage/eviction.go` in Kubernetes.
"""

from dataclasses import replace
from functools import cache
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import Cause, StatusError
from vcsync.apimachinery.kinds import all_kinds
from vcsync.apimachinery.patch import managed
from vcsync.apimachinery.patch.managed import Tracking
from vcsync.apimachinery.resources import collection_key
from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.validation import fields as rules
from vcsync.apiserver.registry.deletion import Deleter
from vcsync.apiserver.registry.store import Registry
from vcsync.apiserver.request import stored
from vcsync.apiserver.request.options import DeleteOptions, WriteOptions, delete_options
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Compare, Put, Record
from vcsync.objects.budget import Budget
from vcsync.process.loop_turns import rest

PAGE = 100
BUDGET_STEPS = 20
"""PodDisruptionBudgets that are read at once, and the steps that each takes."""
TERMINAL = frozenset({"Succeeded", "Failed"})
"""Phases of Pods that no longer run. Their eviction needs no budget."""
MAX_DISRUPTED = 2000
"""Most Pods in the status of a budget that are evicted but not yet gone."""
ATTEMPTS = 20
"""Attempts to update a budget until the eviction is refused."""
MANAGER = "kube-apiserver"
"""Field manager of what an eviction writes into a budget."""
RETRY_SECONDS = 10
"""Value of the Retry-After header of a refused eviction."""
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
DONE: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Evictor:
    """Evicts Pods.

    Args:
        registry: Reads and updates Pods and budgets.
        deleter: Deletes Pods.
    """

    def __init__(self, registry: Registry, deleter: Deleter) -> None:
        self._registry = registry
        self._deleter = deleter

    async def evict(self, scope: Scope, eviction: Object, dry_run: bool) -> Object:
        """Evict the Pod of a request. Returns the Status of the response.

        Args:
            scope: Scope of the request.
            eviction: The Eviction in the body.
            dry_run: Whether the request is a dry run. `deleteOptions` can ask for one, too.

        Raises:
            StatusError: 429 if the budget does not allow the eviction now, 500 if the Pod has several budgets, or what a
                deletion raises.
        """
        if (eviction.get("metadata") or {}).get("name", scope.name) != scope.name:
            raise errors.bad_request("name in URL does not match name in Eviction object")
        options = delete_options({}, eviction.get("deleteOptions") or {})
        options = replace(options, dry_run=options.dry_run or dry_run)
        record, _ = await self._registry.store.get(scope.key())
        if record is None:
            raise self._registry.not_found(scope)
        pod = await self._registry.load(scope.kind, record)
        phase = (pod.get("status") or {}).get("phase")
        if phase in TERMINAL or phase == "Pending" or pod["metadata"].get("deletionTimestamp"):
            await self._delete(scope, options)
            return DONE
        if await self._allowed(scope, pod, options.dry_run):
            await self._delete(scope, options)
        return DONE

    async def _allowed(self, scope: Scope, pod: Object, dry_run: bool) -> bool:
        for _attempt in range(ATTEMPTS):
            budgets = await self._budgets(scope, pod)
            if not budgets:
                return True
            if len(budgets) > 1:
                message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
                raise StatusError(500, "", message)
            record, budget = budgets[0]
            if not _ready(pod) and _unhealthy_allowed(budget):
                return True
            changed = decremented(budget, scope.name, scope.context.now)
            if dry_run:
                return True
            _track(budget, changed, scope.context.now)
            outcome = await self._registry.commit(
                (Compare(record.key, record.revision),), (Put(record.key, stored.pack(changed)),)
            )
            if outcome.done:
                return True
        raise errors.too_many_requests(REFUSED, RETRY_SECONDS)

    async def _budgets(self, scope: Scope, pod: Object) -> list[tuple[Record, Object]]:
        prefix = collection_key(scope.tenant, "policy", "poddisruptionbudgets", scope.namespace)
        labels = pod["metadata"].get("labels") or {}
        found = []
        work, after, more = Budget("the PodDisruptionBudgets of a namespace"), "", True
        while more:
            page = await self._registry.store.range(prefix, after=after, limit=PAGE)
            for record in page.records:
                work.spend(BUDGET_STEPS + len(record.value) // 100)
                await rest(work)
                budget = stored.unpack(record.value, record.revision, "PodDisruptionBudget", "policy/v1")
                selector = (budget.get("spec") or {}).get("selector")
                if selector is not None and rules.selects(selector, labels):
                    found.append((record, budget))
                    if len(found) > 1:  # an eviction is refused then
                        return found
            more, after = page.more, page.records[-1].key if page.records else ""
        return found

    async def _delete(self, scope: Scope, options: DeleteOptions) -> None:
        if not options.dry_run:
            await self._condition(scope, options)
        kept = replace(options, resource_version=None)
        await self._deleter.delete(replace(scope, subresource=""), kept, by="eviction")

    async def _condition(self, scope: Scope, options: DeleteOptions) -> None:
        async def change(live: Object | None) -> Object:
            pod = live or {}
            if options.uid is not None and options.uid != pod["metadata"].get("uid"):
                raise errors.conflict(
                    "Pod",
                    "",
                    scope.name,
                    f"the UID in the precondition ({options.uid}) does not match the UID in record "
                    f"({pod['metadata'].get('uid', '')}). The object might have been deleted and then recreated",
                )
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
                "lastProbeTime": None,
                "lastTransitionTime": scope.context.now,
            }
            set_condition(pod.setdefault("status", {}), condition)
            pod["metadata"].pop("resourceVersion", None)
            return pod

        await self._registry.update(replace(scope, subresource="status"), change, WriteOptions())


def set_condition(status: Object, condition: Object) -> None:
    """Set a condition in a status. The transition time remains if the condition's status does.

    Args:
        status: Status of an object, changed in place.
        condition: The new condition. Replaces the one of its type.
    """
    conditions: list[Any] = status.get("conditions") or []
    for at, each in enumerate(conditions):
        if each.get("type") == condition["type"]:
            if each.get("status") == condition["status"]:
                condition["lastTransitionTime"] = each.get("lastTransitionTime")
            conditions[at] = condition
            break
    else:
        conditions.append(condition)
    status["conditions"] = conditions


def decremented(budget: Object, pod: str, now: str) -> Object:
    """Return a budget with one disruption less to allow.

    Args:
        budget: The PodDisruptionBudget.
        pod: Name of the Pod to evict.
        now: Time of the request in RFC 3339.

    Raises:
        StatusError: 429 if the budget allows no disruption now, 403 if its status is invalid.
    """
    name, status = budget["metadata"]["name"], dict(budget.get("status") or {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        error = errors.too_many_requests(REFUSED, RETRY_SECONDS)
        error.causes = (
            Cause(
                "DisruptionBudget", f"The disruption budget {name} is still being processed by the server."
            ),
        )
        raise error
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise errors.forbidden("poddisruptionbudget", "policy", name, "pdb disruptions allowed is negative")
    disrupted = dict(status.get("disruptedPods") or {})
    if len(disrupted) > MAX_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise errors.forbidden("poddisruptionbudget", "policy", name, why)
    if allowed == 0:
        error = errors.too_many_requests(REFUSED, 0)
        error.retry_after = None
        error.causes = (Cause("DisruptionBudget", _why(name, status)),)
        raise error
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": status.get("observedGeneration", 0),
            "lastTransitionTime": now,
        }
        set_condition(status, condition)
    disrupted[pod] = now
    status["disruptedPods"] = disrupted
    return {**budget, "status": status}


def _track(live: Object, changed: Object, now: str) -> None:
    """Make the server the field manager of what it has changed in a budget's status."""
    metadata = changed["metadata"] = dict(changed["metadata"])
    entries = managed.update(live, changed, MANAGER, now, _tracking())
    if entries:
        metadata["managedFields"] = entries


@cache
def _tracking() -> Tracking:
    schema = builtin.schema("policy", "v1", "PodDisruptionBudget")
    if schema is None:
        raise AssertionError("PodDisruptionBudget is a built-in kind")
    return Tracking(
        schema=schema,
        api_version="policy/v1",
        kind="PodDisruptionBudget",
        subresource="status",
        reset=all_kinds.reset("policy", "poddisruptionbudgets", "status"),
        empty=managed.empty_object("policy", "v1", "PodDisruptionBudget"),
    )


def _why(name: str, status: Object) -> str:
    base = f"The disruption budget {name} does not allow evicting pods currently"
    condition: Object = next(
        (each for each in status.get("conditions") or () if each.get("type") == "DisruptionAllowed"), {}
    )
    message = condition.get("message") if condition.get("status") == "False" else ""
    if message and condition.get("reason") == "SyncFailed":
        return f"{base} because it failed sync: {message}"
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return f"{base} ({condition.get('reason')}): {message}" if message else base


def _ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _unhealthy_allowed(budget: Object) -> bool:
    status = budget.get("status") or {}
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired: int = status.get("desiredHealthy", 0)
    return desired > 0 and status.get("currentHealthy", 0) >= desired

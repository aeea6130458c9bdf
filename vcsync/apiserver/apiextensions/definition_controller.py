"""Controller of the CustomResourceDefinitions of all tenants: names, conditions, deletion of objects, and APIServices.

The controller is level-based: a work item is (tenant, definition), and each reconciliation starts from the state of the
store. It writes by compare and swap, so that several processes may run it.

Behaviour: `pkg/controller/{status,establish,finalizer}` of apiextensions-apiserver.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import msgspec
import structlog

from vcsync.apimachinery.crd import approval, conditions, unread
from vcsync.apimachinery.crd import conversion_rules as conversionrules
from vcsync.apimachinery.kinds import all_kinds
from vcsync.apimachinery.patch import managed
from vcsync.apimachinery.patch.managed import Tracking
from vcsync.apimachinery.resources import collection_key, custom_group, object_key
from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.apiextensions.api_services import ApiServices
from vcsync.apiserver.apiextensions.catalogue import GROUP, PLURAL, owner
from vcsync.apiserver.request import stored
from vcsync.apiserver.storage.interface import (
    Change,
    Compare,
    Delete,
    Outcome,
    Put,
    Record,
    Store,
    StoreError,
)
from vcsync.objects.budget import Budget
from vcsync.process.loop_turns import rest

_LOG = structlog.get_logger()
KIND = "CustomResourceDefinition"
MANAGER = "kube-apiserver"
"""Field manager of these writes."""
RETRY_SECONDS = 1.0
"""Time until a definition that failed is reconciled again."""
PAGE = 200
"""Objects in one read from the store."""
STEPS, STEP_BYTES = 10, 500
"""Steps of one deleted object, and the bytes of it that are passed over in a further one; see `Budget`."""
Key = tuple[str, str]
"""Tenant, name of the definition."""


class DefinitionController:
    """Reconciles definitions.

    Args:
        store: The store.
        api_services: Maintains the APIServices of the served versions.
        now: Returns the time in RFC 3339.
    """

    def __init__(self, store: Store, api_services: ApiServices, now: Callable[[], str]) -> None:
        self._store = store
        self._api_services = api_services
        self._now = now
        self._queue: dict[Key, None] = {}
        self._retries: dict[Key, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()

    def observe(self, change: Change) -> None:
        """Enqueue the definitions that a change of the store concerns, if any."""
        found = owner(change.key)
        if found is not None:
            self.enqueue(*found)
        for each in self._api_services.definitions(change):
            self.enqueue(*each)

    def enqueue(self, tenant: str, name: str) -> None:
        """Reconcile a definition soon."""
        self._queue[tenant, name] = None
        self._wake.set()

    async def resume(self, tenants: Iterable[str]) -> None:
        """Reconcile all definitions of tenants soon. Call it after a start and when changes were missed."""
        for tenant in tenants:
            page = await self._store.range(collection_key(tenant, GROUP, PLURAL))
            for record in page.records:
                self.enqueue(tenant, record.key.rpartition("/")[2])
            await asyncio.sleep(0)  # there may be thousands of tenants

    async def run(self) -> None:
        """Reconcile enqueued definitions until cancelled."""
        try:
            while True:
                await self._wake.wait()
                while self._queue:
                    key = next(iter(self._queue))
                    del self._queue[key]
                    await self._step(key)
                self._wake.clear()
        finally:
            for timer in self._retries.values():
                timer.cancel()

    async def _step(self, key: Key) -> None:
        try:
            done = await self.reconcile(*key)
        except StoreError:
            done = False
        except Exception:  # noqa: BLE001 -- a defect over one definition must not stop the others
            _LOG.exception("definition not reconciled", tenant=key[0], definition=key[1])
            done = False
        if not done and key not in self._retries:
            loop = asyncio.get_running_loop()
            self._retries[key] = loop.call_later(RETRY_SECONDS, self._retry, key)

    def _retry(self, key: Key) -> None:
        self._retries.pop(key, None)
        self.enqueue(*key)

    async def reconcile(self, tenant: str, name: str) -> bool:
        """Bring the status of a definition in line with the store, and delete its objects if it is being deleted.

        Returns:
            False if the definition must be reconciled again even if it does not change.
        """
        key = object_key(tenant, GROUP, PLURAL, "", name)
        record, _ = await self._store.get(key)
        if record is None:
            group = name.partition(".")[2]
            await self._enqueue_waiting(tenant, name, group)
            return await self._api_services.remove_unserved(tenant, group)
        definition = unread.definition(record.value)
        before = _without_versions(definition)
        if definition["metadata"].get("deletionTimestamp"):
            return await self._terminate(tenant, record, before, definition)
        others = []
        # Reading all other definitions is expensive, so skip it if the names cannot change.
        if not names_are_accepted(definition):
            others = [each async for each in self._group(tenant, name, definition["spec"]["group"])]
        accepted = (definition.get("status") or {}).get("acceptedNames")
        if not update_status(definition, others, self._now()):
            added = await self._api_services.add(tenant, record, definition)
            return await self._api_services.remove_unserved(tenant, definition["spec"]["group"]) and added
        outcome = await self._write(record, before, definition)
        if outcome.done and _frees_names(accepted or {}, definition["status"]["acceptedNames"]):
            await self._enqueue_waiting(tenant, name, definition["spec"]["group"])
        return outcome.done

    async def _write(self, record: Record, before: Object, definition: Object) -> Outcome:
        track_status(before, definition, self._now())
        return await self._store.txn(
            [Compare(record.key, record.revision)], [Put(record.key, msgspec.json.encode(definition))]
        )

    async def _group(self, tenant: str, name: str, group: str) -> Any:
        page = await self._store.range(collection_key(tenant, GROUP, PLURAL))
        for record in page.records:
            own = record.key.rpartition("/")[2]
            if own != name and own.partition(".")[2] == group:
                await asyncio.sleep(0)  # there may be many large ones
                yield unread.definition(record.value)

    async def _enqueue_waiting(self, tenant: str, name: str, group: str) -> None:
        """Enqueue the definitions of a group that wait for names: some may have become free."""
        async for each in self._group(tenant, name, group):
            if not conditions.is_true(each, "NamesAccepted"):
                self.enqueue(tenant, each["metadata"]["name"])

    async def _terminate(self, tenant: str, record: Record, before: Object, definition: Object) -> bool:
        finalizers = definition["metadata"].get("finalizers") or []
        if conditions.FINALIZER not in finalizers:
            return True
        spec = definition["spec"]
        now = self._now()
        if conditions.is_true(definition, "Established"):
            message = "CustomResource deletion is in progress"
            if conditions.set_condition(
                definition, "Terminating", ("True", "InstanceDeletionInProgress", message), now
            ):
                # The change of this write enqueues the definition again.
                return (await self._write(record, before, definition)).done
            if not await self._delete_objects(
                collection_key(tenant, custom_group(spec["group"]), spec["names"]["plural"])
            ):
                return False
            reason, message = "InstanceDeletionCompleted", "removed all instances"
        else:
            reason, message = "NeverEstablished", "resource was never established"
        conditions.set_condition(definition, "Terminating", ("False", reason, message), now)
        finalizers.remove(conditions.FINALIZER)
        if finalizers:
            return (await self._write(record, before, definition)).done
        outcome = await self._store.txn([Compare(record.key, record.revision)], [Delete(record.key)])
        return outcome.done

    async def _delete_objects(self, prefix: str) -> bool:
        """Delete every object of a resource. Objects with finalizers are marked as deleted.

        Returns:
            Whether no object is left.
        """
        after, left = "", False
        budget = Budget("the deletion of custom resources")
        while True:
            page = await self._store.range(prefix, after=after, limit=PAGE, counted=False)
            for record in page.records:
                budget.spend(STEPS + len(record.value) // STEP_BYTES)
                await rest(budget)
                left |= not await self._delete(record)
            if not page.more:
                return not left
            after = page.records[-1].key

    async def _delete(self, record: Record) -> bool:
        finalizing, deleting = stored.ending(record.value)
        compare = [Compare(record.key, record.revision)]
        if not finalizing:
            return (await self._store.txn(compare, [Delete(record.key)])).done
        if not deleting:
            await self._store.txn(compare, [Put(record.key, stored.marked(record.value, self._now()))])
        return False


def track_status(before: Object, definition: Object, now: str) -> None:
    """Update the managedFields of a definition whose status has changed.

    Args:
        before: The result of `_without_versions` for the stored definition.
        definition: The changed definition; changed in place.
        now: Time of the change, in RFC 3339.
    """
    tracking = _tracking()
    entries = managed.update(before, _without_versions(definition), MANAGER, now, tracking)
    if entries:
        definition["metadata"]["managedFields"] = entries


def _without_versions(definition: Object) -> Object:
    """Return a copy without the versions, an atomic list that these writes do not change."""
    head = {"apiVersion": f"{GROUP}/v1", "kind": KIND}
    compared = {**head, **definition, "spec": {**definition["spec"], "versions": []}}
    copy: Object = msgspec.json.decode(msgspec.json.encode(compared))
    return copy


@cache
def _tracking() -> Tracking:
    return Tracking(
        schema=builtin.schema(GROUP, "v1", KIND) or Schema("object", preserve_unknown=True),
        api_version=f"{GROUP}/v1",
        kind=KIND,
        subresource="status",
        reset=all_kinds.reset(GROUP, PLURAL, "status"),
        empty=managed.empty_object(GROUP, "v1", KIND),
    )


def update_status(definition: Object, others: Iterable[Object], now: str) -> bool:
    """Set the accepted names and the conditions of a definition, in place.

    Args:
        definition: The definition.
        others: The other definitions of the same group and tenant.
        now: Time of conditions that change, in RFC 3339.

    Returns:
        Whether the status changed.
    """
    before = msgspec.json.encode(definition.get("status"))
    status = definition.setdefault("status", {})
    status["conditions"] = status.get("conditions") or []
    _accept_names(definition, list(others), now)
    _establish(definition, now)
    _approve(definition, now)
    return before != msgspec.json.encode(status)


def names_are_accepted(definition: Object) -> bool:
    """Return whether all names of a definition are accepted, so that other definitions do not matter."""
    own = (definition.get("status") or {}).get("acceptedNames") or {}
    return bool(
        own == definition["spec"]["names"] and conditions.condition(definition, "NamesAccepted") is not None
    )


def _frees_names(before: Object, after: Object) -> bool:
    """Return whether a definition has released a name."""
    return any(
        value not in after.get(part, ()) if isinstance(each, list) else value != after.get(part, "")
        for part, each in before.items()
        for value in (each if isinstance(each, list) else [each])
        if value
    )


def _claimed(others: list[Object]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for each in others:
        names = (each.get("status") or {}).get("acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources - {""}, kinds - {""}


def _conflicts(wanted: Object, own: Object, others: list[Object]) -> Iterator[tuple[str, str, str]]:
    """Yield (part, reason, message) for each part of the names that is in use, in upstream's order.

    An accepted name of the definition itself is in use, too: it cannot become another part of its names.
    """
    resources, kinds = _claimed([*others, {"status": {"acceptedNames": own}}])
    for part, reason, taken in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        if part == "shortNames":
            mine = set(own.get(part) or ())
            used = [each for each in wanted.get(part) or () if each not in mine and each in taken]
        else:
            name = wanted.get(part) or ""
            used = [name] if name != (own.get(part) or "") and name in taken else []
        texts = [f'"{each}" is already in use' for each in used]
        if texts:
            yield part, reason, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _accept_names(definition: Object, others: list[Object], now: str) -> None:
    wanted = definition["spec"]["names"]
    status = definition["status"]
    own = dict(status.get("acceptedNames") or {})
    if names_are_accepted(definition):
        return
    refused = {part: (reason, message) for part, reason, message in _conflicts(wanted, own, others)}
    accepted = {part: own[part] for part in refused if part in own}
    accepted |= {part: value for part, value in wanted.items() if part not in refused}
    status["acceptedNames"] = {"plural": "", "kind": ""} | accepted
    if refused:
        reason, message = list(refused.values())[-1]
        conditions.set_condition(definition, "NamesAccepted", ("False", reason, message), now)
    else:
        conditions.set_condition(
            definition, "NamesAccepted", ("True", "NoConflicts", "no conflicts found"), now
        )


def _establish(definition: Object, now: str) -> None:
    if conditions.is_true(definition, "Established"):
        return
    webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
    bundle = (webhook.get("clientConfig") or {}).get("caBundle") or ""
    if not conditions.is_true(definition, "NamesAccepted"):
        state = ("False", "NotAccepted", "not all names are accepted")
    elif bundle and conversionrules.bundle_problem(bundle):
        state = ("False", "InvalidCABundle", "The conversion webhook CABundle is invalid")
    else:
        state = ("True", "InitialNamesAccepted", "the initial names have been accepted")
    conditions.set_condition(definition, "Established", state, now)


_APPROVAL = {
    "invalid": ("False", "InvalidAnnotation"),
    "missing": ("False", "MissingAnnotation"),
    "approved": ("True", "ApprovedAnnotation"),
    "bypassed": ("False", "UnapprovedAnnotation"),
}


def _approve(definition: Object, now: str) -> None:
    """Set the condition that says whether a definition in a group of the Kubernetes project is approved."""
    state = approval.approval(definition)
    name = "KubernetesAPIApprovalPolicyConformant"
    if state is None:
        conditions.remove_condition(definition, name)
        return
    conditions.set_condition(definition, name, (*_APPROVAL[state[0]], state[1]), now)

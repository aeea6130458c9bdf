"""The controller of CustomResourceDefinitions of all tenants: names, conditions, and deletion of their objects.

Level-based: a request is (tenant, definition); what is in the store decides what to do. It writes by compare and
swap, so that any number of processes may run it. As `pkg/controller/{status,establish,finalizer}` of
apiextensions-apiserver.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import msgspec
import structlog

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.crd import approval, conditions, conversionrules, unread
from vcsync.controlplane.crd.catalogue import GROUP, PLURAL, owner
from vcsync.controlplane.patch import managed, resets
from vcsync.controlplane.patch.managed import Tracking
from vcsync.controlplane.resources import collection_key, custom_group, object_key
from vcsync.controlplane.schema import builtin
from vcsync.controlplane.schema.node import Schema
from vcsync.controlplane.store.interface import (
    Change,
    Compare,
    Delete,
    Outcome,
    Put,
    Record,
    Store,
    StoreError,
)

_LOG = structlog.get_logger()
KIND = "CustomResourceDefinition"
MANAGER = "kube-apiserver"
"""As whom these writes are told in managedFields."""
RETRY_SECONDS = 1.0
PAGE = 200
Key = tuple[str, str]


class Establisher:
    """Brings every definition's status in line with the store."""

    def __init__(self, store: Store, now: Callable[[], str]) -> None:
        """Take the store and a clock that tells RFC 3339 times."""
        self._store = store
        self._now = now
        self._waiting: dict[Key, None] = {}
        self._again: dict[Key, asyncio.TimerHandle] = {}
        self._woken = asyncio.Event()

    def observe(self, change: Change) -> None:
        """Take one change of the store; other things than definitions are ignored."""
        found = owner(change.key)
        if found is not None:
            self.enqueue(*found)

    def enqueue(self, tenant: str, name: str) -> None:
        """Ask for one definition to be looked at."""
        self._waiting[tenant, name] = None
        self._woken.set()

    async def resume(self, tenants: Iterable[str]) -> None:
        """Ask for all definitions of these tenants to be looked at: after a start."""
        for tenant in tenants:
            page = await self._store.range(collection_key(tenant, GROUP, PLURAL))
            for record in page.records:
                self.enqueue(tenant, record.key.rpartition("/")[2])
            await asyncio.sleep(0)  # thousands of tenants, of which few have any

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                await self._woken.wait()
                while self._waiting:
                    key = next(iter(self._waiting))
                    del self._waiting[key]
                    await self._step(key)
                self._woken.clear()
        finally:
            for timer in self._again.values():
                timer.cancel()

    async def _step(self, key: Key) -> None:
        try:
            done = await self.reconcile(*key)
        except StoreError:
            done = False
        except Exception:  # noqa: BLE001 -- one tenant's definition must not stop those of all others
            _LOG.exception("definition not reconciled", tenant=key[0], definition=key[1])
            done = False
        if not done and key not in self._again:
            loop = asyncio.get_running_loop()
            self._again[key] = loop.call_later(RETRY_SECONDS, self._retry, key)

    def _retry(self, key: Key) -> None:
        self._again.pop(key, None)
        self.enqueue(*key)

    async def reconcile(self, tenant: str, name: str) -> bool:
        """Bring one definition in line.

        Returns:
            False when it must be looked at again, though nothing of it may change.
        """
        key = object_key(tenant, GROUP, PLURAL, "", name)
        record, _ = await self._store.get(key)
        if record is None:
            await self._siblings(tenant, name, name.partition(".")[2])
            return True
        definition = unread.definition(record.value)
        found = _compared(definition)
        if definition["metadata"].get("deletionTimestamp"):
            return await self._terminate(tenant, record, found, definition)
        others = []
        if not names_settled(definition):  # with many definitions, looking at all of them for each costs
            others = [each async for each in self._group(tenant, name, definition["spec"]["group"])]
        before = (definition.get("status") or {}).get("acceptedNames")
        if not settle(definition, others, self._now()):
            return True
        outcome = await self._write(record, found, definition)
        if outcome.done and _frees(before or {}, definition["status"]["acceptedNames"]):
            await self._siblings(tenant, name, definition["spec"]["group"])
        return outcome.done

    async def _write(self, record: Record, found: Object, definition: Object) -> Outcome:
        own(found, definition, self._now())
        return await self._store.txn(
            [Compare(record.key, record.revision)], [Put(record.key, msgspec.json.encode(definition))]
        )

    async def _group(self, tenant: str, name: str, group: str) -> Any:
        page = await self._store.range(collection_key(tenant, GROUP, PLURAL))
        for record in page.records:
            own = record.key.rpartition("/")[2]
            if own != name and own.partition(".")[2] == group:
                await asyncio.sleep(0)  # there may be many, and long ones
                yield unread.definition(record.value)

    async def _siblings(self, tenant: str, name: str, group: str) -> None:
        """Names may have become free: look at those that wait for them."""
        async for each in self._group(tenant, name, group):
            if not conditions.is_true(each, "NamesAccepted"):
                self.enqueue(tenant, each["metadata"]["name"])

    async def _terminate(self, tenant: str, record: Record, found: Object, definition: Object) -> bool:
        finalizers = definition["metadata"].get("finalizers") or []
        if conditions.FINALIZER not in finalizers:
            return True
        spec = definition["spec"]
        now = self._now()
        if conditions.is_true(definition, "Established"):
            told = "CustomResource deletion is in progress"
            if conditions.set_condition(
                definition, "Terminating", ("True", "InstanceDeletionInProgress", told), now
            ):
                # What changes with this write brings the definition here again.
                return (await self._write(record, found, definition)).done
            if not await self._delete_objects(
                collection_key(tenant, custom_group(spec["group"]), spec["names"]["plural"])
            ):
                return False
            reason, told = "InstanceDeletionCompleted", "removed all instances"
        else:
            reason, told = "NeverEstablished", "resource was never established"
        conditions.set_condition(definition, "Terminating", ("False", reason, told), now)
        finalizers.remove(conditions.FINALIZER)
        if finalizers:
            return (await self._write(record, found, definition)).done
        outcome = await self._store.txn([Compare(record.key, record.revision)], [Delete(record.key)])
        return outcome.done

    async def _delete_objects(self, prefix: str) -> bool:
        """Delete every object of a resource; those with finalizers are marked, and waited for."""
        after, left = "", False
        while True:
            page = await self._store.range(prefix, after=after, limit=PAGE)
            for record in page.records:
                left |= not await self._delete(record)
            if not page.more:
                return not left
            after = page.records[-1].key

    async def _delete(self, record: Record) -> bool:
        obj = msgspec.json.decode(record.value)
        compare = [Compare(record.key, record.revision)]
        if not obj["metadata"].get("finalizers"):
            return (await self._store.txn(compare, [Delete(record.key)])).done
        if not obj["metadata"].get("deletionTimestamp"):
            obj["metadata"]["deletionTimestamp"] = self._now()
            obj["metadata"]["deletionGracePeriodSeconds"] = 0
            await self._store.txn(compare, [Put(record.key, msgspec.json.encode(obj))])
        return False


def own(before: Object, definition: Object, now: str) -> None:
    """Tell in a definition's managedFields, in place, what kube-apiserver has changed of its status.

    Args:
        before: what `_compared` returned of it as it was found.
        definition: as it is now.
        now: the time of the change.
    """
    tracking = _tracking()
    entries = managed.update(before, _compared(definition), MANAGER, now, tracking)
    if entries:
        definition["metadata"]["managedFields"] = entries


def _compared(definition: Object) -> Object:
    """Return a copy of what is compared: all but the versions, an atomic list of which these writes change nothing."""
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
        reset=resets.of_builtin(GROUP, PLURAL, "status"),
        empty=managed.empty_object(GROUP, "v1", KIND),
    )


def settle(definition: Object, others: Iterable[Object], now: str) -> bool:
    """Write a definition's names and conditions into its status, in place.

    Args:
        definition: in any state.
        now: the time of conditions that change.
        others: the other definitions of its group and tenant.

    Returns:
        whether anything changed.
    """
    before = msgspec.json.encode(definition.get("status"))
    status = definition.setdefault("status", {})
    status["conditions"] = status.get("conditions") or []
    _accept_names(definition, list(others), now)
    _establish(definition, now)
    _approve(definition, now)
    return before != msgspec.json.encode(status)


def names_settled(definition: Object) -> bool:
    """Tell whether a definition has all the names it wants: those of others do not matter then."""
    own = (definition.get("status") or {}).get("acceptedNames") or {}
    return bool(
        own == definition["spec"]["names"] and conditions.condition(definition, "NamesAccepted") is not None
    )


def _frees(before: Object, after: Object) -> bool:
    """Tell whether a definition no longer has a name that it had."""
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
    """Yield (part, reason, message) of names that another definition holds, in the order in which they are checked."""
    resources, kinds = _claimed(others)
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
    if names_settled(definition):
        return
    refused = {part: (reason, told) for part, reason, told in _conflicts(wanted, own, others)}
    accepted = {part: own[part] for part in refused if part in own}
    accepted |= {part: value for part, value in wanted.items() if part not in refused}
    status["acceptedNames"] = {"plural": "", "kind": ""} | accepted
    if refused:
        reason, told = list(refused.values())[-1]
        conditions.set_condition(definition, "NamesAccepted", ("False", reason, told), now)
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
    """Tell whether a definition in a group of the Kubernetes project conforms to its policy."""
    state = approval.approval(definition)
    name = "KubernetesAPIApprovalPolicyConformant"
    if state is None:
        conditions.remove_condition(definition, name)
        return
    conditions.set_condition(definition, name, (*_APPROVAL[state[0]], state[1]), now)

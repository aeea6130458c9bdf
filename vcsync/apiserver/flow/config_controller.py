"""Controller of FlowSchemas and PriorityLevelConfigurations: maintains the default objects and the Dangling condition.

Behaviour: apiserver's `util/flowcontrol/apf_controller.go` and kubernetes `pkg/registry/flowcontrol/ensurer`.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import msgspec
import structlog

from vcsync.apimachinery.kinds import all_kinds
from vcsync.apimachinery.patch import apply, managed
from vcsync.apimachinery.patch.managed import Tracking
from vcsync.apimachinery.resources import object_key
from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.schema.node import Schema
from vcsync.apiserver.flow.configuration import GROUP, LEVELS, MARK, SCHEMAS, records
from vcsync.apiserver.storage.interface import Change, Compare, Put, Record, Store, StoreError, tenant_of
from vcsync.apiserver.tenants import flow_defaults as flowcontrol
from vcsync.apiserver.tenants.records import decode, record_key

MANDATORY = frozenset({"exempt", "catch-all"})
"""Objects whose specs cannot be changed."""
MANAGER = "api-priority-and-fairness-config-consumer-v1"
"""Field manager of the condition."""
AUTOUPDATE = "apf.kubernetes.io/autoupdate-spec"
"""Annotation that says whether the server maintains an object's spec."""
SETTLE_SECONDS = 0.05
"""Time for which changes are collected before a tenant is reconciled."""
RETRY_SECONDS = 5.0
"""Time until tenants that failed are reconciled again."""
_log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode
Object = dict[str, Any]


class ConfigController:
    """Reconciles a tenant when one of its FlowSchemas or PriorityLevelConfigurations changed.

    Args:
        store: The store.
        now: Returns the time in RFC 3339.
    """

    def __init__(self, store: Store, now: Callable[[], str]) -> None:
        self._store = store
        self._now = now
        self._due: dict[str, None] = {}
        self._wake = asyncio.Event()

    def changed(self, changes: Iterable[Change]) -> None:
        """Enqueue the tenants whose configuration changed."""
        for change in changes:
            if MARK in change.key:
                self._due[tenant_of(change.key)] = None
                self._wake.set()

    async def run(self) -> None:
        """Reconcile tenants until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            self._wake.clear()
            due, self._due = self._due, {}
            failed = [tenant for tenant in due if not await self._try_reconcile(tenant)]
            if failed:
                await asyncio.sleep(RETRY_SECONDS)
                self._due.update(dict.fromkeys(failed))
                self._wake.set()

    async def _try_reconcile(self, tenant: str) -> bool:
        try:
            await self.reconcile(tenant)
        except StoreError as error:
            _log.warning("flow schemas of a tenant cannot be reconciled", tenant=tenant, error=str(error))
            return False
        except Exception:  # noqa: BLE001 - a defect over one tenant must not stop the others
            _log.exception("flow schemas of a tenant cannot be reconciled", tenant=tenant)
        return True

    async def reconcile(self, tenant: str) -> None:
        """Create, restore and update the objects of a tenant.

        An object that changes meanwhile is not written; its change enqueues the tenant again.

        Raises:
            StoreError: The store cannot be read or written.
        """
        owner, _ = await self._store.get(record_key(tenant))
        if owner is None or decode(owner.value).phase == "Deleting":
            return
        found = {plural: await self._read(tenant, plural) for plural in (SCHEMAS, LEVELS)}
        tenant_exists = Compare(owner.key, owner.revision)
        for plural, wanted in flowcontrol.objects(self._now()):
            key = object_key(tenant, GROUP, plural, "", wanted["metadata"]["name"])
            record = found[plural].get(key)
            if record is None:
                await self._put(tenant_exists, key, 0, _fresh(wanted, self._now()))
            elif (kept := restored(msgspec.json.decode(record.value), wanted)) is not None:
                await self._put(tenant_exists, key, record.revision, kept)
                del found[plural][key]  # its change enqueues the tenant again, which updates the status
        levels = {key.rpartition("/")[2] for key in found[LEVELS]}
        levels |= {name for name, *_ in flowcontrol.LEVELS} | {"exempt"}
        for record in found[SCHEMAS].values():
            updated = with_condition(msgspec.json.decode(record.value), levels, self._now())
            if updated is not None:
                await self._put(tenant_exists, record.key, record.revision, updated)

    async def _read(self, tenant: str, plural: str) -> dict[str, Record]:
        return {record.key: record async for record in records(self._store, tenant, plural)}

    async def _put(self, tenant_exists: Compare, key: str, revision: int, obj: Object) -> None:
        await self._store.txn((tenant_exists, Compare(key, revision)), (Put(key, _encode(obj)),))


def _fresh(wanted: Object, now: str) -> Object:
    metadata = {**wanted["metadata"], "uid": str(uuid.uuid4()), "creationTimestamp": now}
    return {**wanted, "metadata": metadata}


def restored(found: Object, wanted: Object) -> Object | None:
    """Return an object with its default spec restored, or None if nothing must be written.

    Upstream's rules: the spec of a mandatory object is always restored; that of a suggested one only while its annotation
    `AUTOUPDATE` says so, or while there is no annotation and its spec was never changed.
    """
    metadata = found["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    annotation = (metadata.get("annotations") or {}).get(AUTOUPDATE, "").lower()
    automatic = (
        metadata["name"] in MANDATORY
        or annotation in ("1", "t", "true")
        or _never_changed(annotation, metadata)
    )
    annotated = annotation in (("1", "t", "true") if automatic else ("0", "f", "false"))
    changed = automatic and not _covers(wanted["spec"], found.get("spec") or {})
    if annotated and not changed:
        return None
    annotations = {**(metadata.get("annotations") or {}), AUTOUPDATE: "true" if automatic else "false"}
    generation = metadata.get("generation", 1) + (1 if changed else 0)
    kept = {**found, "metadata": {**metadata, "annotations": annotations, "generation": generation}}
    return {**kept, "spec": wanted["spec"]} if changed else kept


def _never_changed(annotation: str, metadata: Object) -> bool:
    return annotation not in ("0", "f", "false") and metadata.get("generation") == 1


def _covers(wanted: Any, found: Any) -> bool:
    """Return whether `found` has every value of `wanted`; additional fields are defaults."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            _covers(value, found.get(key)) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_covers, wanted, found))
    return bool(wanted == found)


def with_condition(schema: Object, levels: set[str], now: str) -> Object | None:
    """Return a FlowSchema with its Dangling condition updated, or None if the condition is right."""
    name = ((schema.get("spec") or {}).get("priorityLevelConfiguration") or {}).get("name", "")
    prefix = f'This FlowSchema references the PriorityLevelConfiguration object named "{name}"'
    condition = {
        "type": "Dangling",
        "status": "False",
        "reason": "Found",
        "message": f"{prefix} and it exists",
    }
    if name not in levels:
        message = f"{prefix} but there is no such object"
        condition = {"type": "Dangling", "status": "True", "reason": "NotFound", "message": message}
    conditions = (schema.get("status") or {}).get("conditions") or ()
    old = next((each for each in conditions if each.get("type") == "Dangling"), None)
    if old is not None and all(old.get(key) == value for key, value in condition.items()):
        return None
    since = old.get("lastTransitionTime") if old and old.get("status") == condition["status"] else None
    condition["lastTransitionTime"] = since or now
    tracking = _tracking()
    head = {"apiVersion": tracking.api_version, "kind": tracking.kind}
    wanted = {**head, "metadata": {"name": schema["metadata"]["name"]}, "status": {"conditions": [condition]}}
    applied = apply.apply({**head, **schema}, wanted, manager=MANAGER, force=True, now=now, tracking=tracking)
    return {key: value for key, value in applied.items() if key not in head}


@cache
def _tracking() -> Tracking:
    return Tracking(
        schema=builtin.schema(GROUP, "v1", "FlowSchema") or Schema("object", preserve_unknown=True),
        api_version=f"{GROUP}/v1",
        kind="FlowSchema",
        subresource="status",
        reset=all_kinds.reset(GROUP, SCHEMAS, "status"),
        empty=managed.empty_object(GROUP, "v1", "FlowSchema"),
    )

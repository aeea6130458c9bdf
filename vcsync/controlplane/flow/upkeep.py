"""Keeps what every API server has of flow schemas and priority levels, and tells of each schema whether its level exists.

Behaviour: apiserver's `util/flowcontrol/apf_controller.go` and kubernetes `pkg/registry/flowcontrol/ensurer`.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import msgspec
import structlog

from vcsync.controlplane.flow.configuration import GROUP, LEVELS, MARK, SCHEMAS, records
from vcsync.controlplane.patch import apply, managed, resets
from vcsync.controlplane.patch.managed import Tracking
from vcsync.controlplane.resources import object_key
from vcsync.controlplane.schema import builtin
from vcsync.controlplane.schema.node import Schema
from vcsync.controlplane.store.interface import Change, Compare, Put, Record, Store, StoreError, tenant_of
from vcsync.controlplane.tenants import flowcontrol
from vcsync.controlplane.tenants.records import decode, record_key

MANDATORY = frozenset({"exempt", "catch-all"})
"""Whose specs nobody can change."""
MANAGER = "api-priority-and-fairness-config-consumer-v1"
"""Who owns the condition."""
AUTOUPDATE = "apf.kubernetes.io/autoupdate-spec"
SETTLE_SECONDS = 0.05
"""How long changes are collected before a tenant is looked at."""
RETRY_SECONDS = 5.0
_log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode
Object = dict[str, Any]


class Upkeep:
    """Looks at a tenant whenever one of its schemas or levels changed."""

    def __init__(self, store: Store, now: Callable[[], str]) -> None:
        """Take the store, and what tells the time in RFC 3339."""
        self._store = store
        self._now = now
        self._due: dict[str, None] = {}
        self._wake = asyncio.Event()

    def changed(self, changes: Iterable[Change]) -> None:
        """Take note of changes; cheap for all but a few."""
        for change in changes:
            if MARK in change.key:
                self._due[tenant_of(change.key)] = None
                self._wake.set()

    async def run(self) -> None:
        """Look at tenants until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            self._wake.clear()
            due, self._due = self._due, {}
            failed = [tenant for tenant in due if not await self._looked(tenant)]
            if failed:
                await asyncio.sleep(RETRY_SECONDS)
                self._due.update(dict.fromkeys(failed))
                self._wake.set()

    async def _looked(self, tenant: str) -> bool:
        try:
            await self.look(tenant)
        except StoreError as error:
            _log.warning("flow schemas of a tenant cannot be kept", tenant=tenant, error=str(error))
            return False
        except Exception:  # noqa: BLE001 - what is wrong with one tenant must not end the work on all
            _log.exception("flow schemas of a tenant cannot be kept", tenant=tenant)
        return True

    async def look(self, tenant: str) -> None:
        """Make of one tenant's objects what they should be; what comes in between is seen to by the next look.

        Raises:
            StoreError: the store cannot be read or written.
        """
        owner, _ = await self._store.get(record_key(tenant))
        if owner is None or decode(owner.value).phase == "Deleting":
            return
        there = {plural: await self._read(tenant, plural) for plural in (SCHEMAS, LEVELS)}
        still = Compare(owner.key, owner.revision)
        for plural, wanted in flowcontrol.objects(self._now()):
            key = object_key(tenant, GROUP, plural, "", wanted["metadata"]["name"])
            record = there[plural].get(key)
            if record is None:
                await self._put(still, key, 0, _fresh(wanted, self._now()))
            elif (kept := restored(msgspec.json.decode(record.value), wanted)) is not None:
                await self._put(still, key, record.revision, kept)
                del there[plural][key]  # its status is seen to by the look that this change brings about
        levels = {key.rpartition("/")[2] for key in there[LEVELS]}
        levels |= {name for name, *_ in flowcontrol.LEVELS} | {"exempt"}
        for record in there[SCHEMAS].values():
            told = with_condition(msgspec.json.decode(record.value), levels, self._now())
            if told is not None:
                await self._put(still, record.key, record.revision, told)

    async def _read(self, tenant: str, plural: str) -> dict[str, Record]:
        return {record.key: record async for record in records(self._store, tenant, plural)}

    async def _put(self, still: Compare, key: str, revision: int, obj: Object) -> None:
        await self._store.txn((still, Compare(key, revision)), (Put(key, _encode(obj)),))


def _fresh(wanted: Object, now: str) -> Object:
    metadata = {**wanted["metadata"], "uid": str(uuid.uuid4()), "creationTimestamp": now}
    return {**wanted, "metadata": metadata}


def restored(found: Object, wanted: Object) -> Object | None:
    """Return an object with the spec that it should have; None: it has it, or is its owner's to change."""
    metadata = found["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    said = (metadata.get("annotations") or {}).get(AUTOUPDATE, "").lower()
    mine = metadata["name"] in MANDATORY or said in ("1", "t", "true") or _untold(said, metadata)
    annotated = said in (("1", "t", "true") if mine else ("0", "f", "false"))
    changed = mine and not _covers(wanted["spec"], found.get("spec") or {})
    if annotated and not changed:
        return None
    annotations = {**(metadata.get("annotations") or {}), AUTOUPDATE: "true" if mine else "false"}
    generation = metadata.get("generation", 1) + (1 if changed else 0)
    kept = {**found, "metadata": {**metadata, "annotations": annotations, "generation": generation}}
    return {**kept, "spec": wanted["spec"]} if changed else kept


def _untold(said: str, metadata: Object) -> bool:
    return said not in ("0", "f", "false") and metadata.get("generation") == 1


def _covers(wanted: Any, found: Any) -> bool:
    """Tell whether what is found is what is wanted, defaults apart."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            _covers(value, found.get(key)) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_covers, wanted, found))
    return bool(wanted == found)


def with_condition(schema: Object, levels: set[str], now: str) -> Object | None:
    """Return a FlowSchema that tells whether its level exists; None: it does so already."""
    name = ((schema.get("spec") or {}).get("priorityLevelConfiguration") or {}).get("name", "")
    told = f'This FlowSchema references the PriorityLevelConfiguration object named "{name}"'
    condition = {"type": "Dangling", "status": "False", "reason": "Found", "message": f"{told} and it exists"}
    if name not in levels:
        there = f"{told} but there is no such object"
        condition = {"type": "Dangling", "status": "True", "reason": "NotFound", "message": there}
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
        reset=resets.of_builtin(GROUP, SCHEMAS, "status"),
        empty=managed.empty_object(GROUP, "v1", "FlowSchema"),
    )

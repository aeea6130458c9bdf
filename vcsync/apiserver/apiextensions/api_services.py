"""Maintains the APIServices of the groups and versions that a tenant's definitions serve.

Behaviour: kube-aggregator's `pkg/controllers/autoregister` and kubernetes `pkg/controlplane/controller/crdregistration`.
"""

import uuid
from collections.abc import Callable

import msgspec

from vcsync.apimachinery.crd import conditions
from vcsync.apimachinery.kinds.apiregistration import api_service
from vcsync.apimachinery.resources import collection_key
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.apiextensions.catalogue import Catalogue
from vcsync.apiserver.storage.interface import Change, Compare, Delete, Put, Record, Store
from vcsync.apiserver.tenants import api_service_priorities

GROUP, PLURAL = api_service.KIND.group, api_service.KIND.plural
_PREFIX = f"{GROUP}/{PLURAL}/"
AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
"""Label of the APIServices that the server maintains: `true` for those of definitions, `onstart` for built-in groups."""
MOST = 2000
"""APIServices that a tenant may have. Beyond that none are made: a definition may have thousands of versions."""
PER_TURN = 20
"""Writes for one definition before others have their turn."""


class ApiServices:
    """The APIServices of definitions.

    Args:
        store: The store.
        catalogue: Knows the versions that all definitions of a loaded tenant serve.
        now: Returns the time in RFC 3339.
    """

    def __init__(self, store: Store, catalogue: Catalogue, now: Callable[[], str]) -> None:
        self._store = store
        self._catalogue = catalogue
        self._now = now

    def definitions(self, change: Change) -> list[tuple[str, str]]:
        """Return tenant and name of the definitions that the APIService of a change is made for, if the change deletes it."""
        if change.value is not None:
            return []
        tenant, _, rest = change.key.partition("/")
        if not rest.startswith(_PREFIX):
            return []
        group = rest.removeprefix(_PREFIX).partition(".")[2]
        return [(tenant, name) for name in self._catalogue.definitions(tenant, group)]

    async def add(self, tenant: str, record: Record, definition: Object) -> bool:
        """Create missing APIServices of the versions that a definition serves, `PER_TURN` at most.

        Args:
            tenant: The tenant.
            record: The record of the definition. Nothing is created if it has changed since.
            definition: The definition.

        Returns:
            Whether there is nothing left to create.

        Raises:
            StoreError: The store cannot be read or written.
        """
        if not conditions.is_true(definition, "Established"):
            return True
        spec = definition["spec"]
        prefix = collection_key(tenant, GROUP, PLURAL)
        standing = {each.key for each in await self._store.range_cached(prefix)}
        served = [each["name"] for each in spec["versions"] if each.get("served")]
        missing = [each for each in served if f"{prefix}{each}.{spec['group']}" not in standing]
        missing = missing[: max(0, MOST - len(standing))]
        done = len(missing) <= PER_TURN
        for version in missing[:PER_TURN]:
            key = f"{prefix}{version}.{spec['group']}"
            unchanged = (Compare(record.key, record.revision), Compare(key, 0))
            value = msgspec.json.encode(self._made(spec["group"], version))
            done &= (await self._store.txn(unchanged, [Put(key, value)])).done
        return done

    async def remove_unserved(self, tenant: str, group: str) -> bool:
        """Delete APIServices of versions of a group that no definition of a tenant serves any more, `PER_TURN` at most.

        A tenant without requests since the start keeps them until its next change of a definition of the group.

        Returns:
            Whether none of them is left.

        Raises:
            StoreError: The store cannot be read or written.
        """
        if not self._catalogue.loaded(tenant):
            return True
        served = {each.version for each in self._catalogue.resources(tenant) if each.group == group}
        done, writes = True, 0
        for record in await self._store.range_cached(collection_key(tenant, GROUP, PLURAL)):
            version, _, named = record.key.rpartition("/")[2].partition(".")
            if named != group or version in served:
                continue
            labels = msgspec.json.decode(record.value)["metadata"].get("labels") or {}
            if labels.get(AUTOMANAGED) == "true":
                if writes == PER_TURN:
                    return False
                writes += 1
                unchanged = [Compare(record.key, record.revision)]
                done &= (await self._store.txn(unchanged, [Delete(record.key)])).done
        return done

    def _made(self, group: str, version: str) -> Object:
        now = self._now()
        return {
            "metadata": {
                "name": f"{version}.{group}",
                "uid": str(uuid.uuid4()),
                "creationTimestamp": now,
                "labels": {AUTOMANAGED: "true"},
            },
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": api_service_priorities.DEFINITION_GROUP,
                "versionPriority": api_service_priorities.DEFINITION_VERSION,
            },
            "status": {"conditions": [api_service.availability(None, now)]},
        }

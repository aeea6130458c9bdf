"""Which custom resources each tenant has: from its definitions in the store to what is served.

A tenant's definitions are read when it is first used and followed by the store's changes from then on; a tenant that
is not used costs nothing. Definitions are decoded when a request asks for them, and compiled once for all tenants.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import structlog

from vcsync.controlplane.behaviour import Behaviour, Object
from vcsync.controlplane.cel.patience import patiently
from vcsync.controlplane.crd import conditions, published, unread
from vcsync.controlplane.crd.columns import Column, Scale, deprecation, priority, refused_create
from vcsync.controlplane.crd.convert import Converter, Reach, Webhook, refuse
from vcsync.controlplane.crd.customresource import Compiled, compile_version
from vcsync.controlplane.crd.shadowing import shadows
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.resources import Resource, Subresource, collection_key
from vcsync.controlplane.schema.node import Schema
from vcsync.controlplane.store.interface import Change, Record, Store

GROUP = "apiextensions.k8s.io"
PLURAL = "customresourcedefinitions"
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_SUB_VERBS = ("get", "patch", "update")
_log = structlog.get_logger(__name__)


def is_definition(key: str) -> bool:
    """Tell whether a store's key is that of a CustomResourceDefinition."""
    return owner(key) is not None


def owner(key: str) -> tuple[str, str] | None:
    """Return tenant and name of the CustomResourceDefinition at a key, None: it is something else."""
    parts = key.split("/")
    return (parts[0], parts[3]) if len(parts) == 4 and parts[1] == GROUP and parts[2] == PLURAL else None


class Served:
    """One version of one definition of one tenant: what the registry asks of a kind."""

    def __init__(self, tenant: str, definition: Object, version: Object, reach: Reach) -> None:
        """Take a definition that is established, and one of its served versions."""
        spec = definition["spec"]
        self.resource: Resource = _resource(definition, version)
        deprecated = deprecation(spec, version)
        self.warnings: tuple[str, ...] = (deprecated,) if deprecated else ()
        self.terminating: bool = conditions.is_true(definition, "Terminating")
        self.uid: str = definition["metadata"].get("uid") or ""
        self._definition = definition
        self._name: str = version["name"]
        self._storage = next(each["name"] for each in spec["versions"] if each.get("storage"))
        conversion = spec.get("conversion") or {}
        webhook = None
        if conversion.get("strategy") == "Webhook":
            hook = conversion.get("webhook") or {}
            reviews = tuple(hook.get("conversionReviewVersions") or ())
            webhook = Webhook(definition["metadata"]["name"], hook.get("clientConfig") or {}, reviews)
        self._tenant = tenant
        self._converter = Converter(tenant, webhook, reach)
        unchanged = definition["metadata"].get("generation", 1) == 1
        same = self._name == self._storage or self._schema_of(self._name) == self._schema_of(self._storage)
        self.direct: bool = unchanged and same and webhook is None
        self.versioned: bool = webhook is not None
        self.fingerprints: dict[int, bytes] = {}
        """Of what OpenAPI documents tell of it; they are kept as long as the definition stays as it is."""

    def _schema_of(self, name: str) -> Any:
        return next(
            each.get("schema") for each in self._definition["spec"]["versions"] if each["name"] == name
        )

    @cached_property
    def _compiled(self) -> Compiled:
        return compile_version(self._definition, self._name)

    async def compiled(self) -> None:
        """Compile what it says, once; everything else is quick then."""
        if "_compiled" not in self.__dict__:
            await patiently(self._tenant, lambda: self._compiled)

    @property
    def behaviour(self) -> Behaviour:
        """Rules for objects in this version."""
        return self._compiled.behaviour

    @property
    def schema(self) -> Schema | None:
        """Schema of objects in this version."""
        return self._compiled.schema

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of tables."""
        return self._compiled.columns

    @property
    def scale(self) -> Scale | None:
        """The scale subresource, None: there is none."""
        return self._compiled.scale

    @property
    def replicas(self) -> Mapping[str, str | None]:
        """Where objects of each version have the replicas of their scale, None: nowhere."""
        return {
            f"{self.resource.group}/{each['name']}": (
                (each.get("subresources") or {}).get("scale") or {}
            ).get("specReplicasPath")
            for each in self._definition["spec"]["versions"]
        }

    @property
    def refusal(self) -> StatusError | None:
        """Why nothing can be created, None: it can."""
        if not self.terminating:
            return None
        return refused_create(self.resource.group, self.resource.plural)

    def decode(self, obj: Object) -> list[str]:
        """Fill in defaults and remove unknown fields, in place.

        Returns:
            the paths of unknown fields.

        Raises:
            DecodeError: metadata is of wrong types.
        """
        return self._compiled.decode(obj)

    def working(self, served: Object) -> Object:
        """Custom resources work in the version of the request."""
        return served

    def served(self, working: Object) -> Object:
        """Custom resources work in the version of the request."""
        return working

    async def load(self, stored: list[Object]) -> list[Object]:
        """Bring stored objects to this version, with defaults and without unknown fields.

        Raises:
            StatusError: 500, the conversion webhook failed.
        """
        found = await self._converter.convert(stored, self.resource.api_version)
        compiled = self._compiled
        for each in found:
            compiled.decode(each, lenient=True)
        return found

    async def store(self, working: Object) -> Object:
        """Bring an object of this version to the storage version.

        Raises:
            StatusError: 500, the conversion webhook failed.
        """
        found = (await self._converter.convert([working], self.resource.storage_api_version))[0]
        if self._name != self._storage:
            compile_version(self._definition, self._storage).decode(found, lenient=True)
        return found

    async def into(self, served: Object, api_version: str) -> Object:
        """Return an object of this version in another served one, with its defaults and without unknown fields.

        Raises:
            StatusError: 500, the conversion webhook failed.
        """
        found = (await self._converter.convert([served], api_version))[0]
        name = api_version.rpartition("/")[2]
        if name != self._name:
            compile_version(self._definition, name).decode(found, lenient=True)
        return found

    def published(self, *, v2: bool = False) -> dict[str, Any]:
        """Return the OpenAPI schemas of this version: definition name -> schema; `v2`: for the document of version 2."""
        version = next(each for each in self._definition["spec"]["versions"] if each["name"] == self._name)
        return published.schemas(self.resource, msgspec.json.decode(msgspec.json.encode(version)), v2=v2)


def _resource(definition: Object, version: Object) -> Resource:
    spec = definition["spec"]
    names = (definition.get("status") or {}).get("acceptedNames") or spec["names"]
    group = spec["group"]
    subresources = {}
    declared = version.get("subresources") or {}
    if declared.get("status") is not None:
        subresources["status"] = Subresource("status", _SUB_VERBS, group, version["name"], names["kind"])
    if declared.get("scale") is not None:
        subresources["scale"] = Subresource("scale", _SUB_VERBS, "autoscaling", "v1", "Scale")
    storage = next(each["name"] for each in spec["versions"] if each.get("storage"))
    return Resource(
        group=group,
        version=version["name"],
        plural=names["plural"],
        singular=names.get("singular") or "",
        kind=names["kind"],
        namespaced=spec.get("scope") == "Namespaced",
        verbs=_VERBS,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=subresources,
        storage=storage,
        storage_group=group,
        list_kind=names.get("listKind") or f"{names['kind']}List",
        custom=True,
    )


@dataclass(slots=True)
class _Tenant:
    raw: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    generation: int = 0
    loaded: bool = False
    parts: dict[str, list[Served]] = field(default_factory=dict)
    served: dict[tuple[str, str, str], Served] | None = None


class Catalogue:
    """The custom resources of every tenant that is in use."""

    def __init__(self, *, reach: Reach = refuse) -> None:
        """Take the policy of conversion webhooks."""
        self._reach = reach
        self._tenants: dict[str, _Tenant] = {}

    async def load(self, tenant: str, store: Store) -> None:
        """Read a tenant's definitions, once. Changes must be fed to `apply` from before this call on."""
        known = self._tenants.setdefault(tenant, _Tenant())
        if known.loaded:
            return
        page = await store.range(collection_key(tenant, GROUP, PLURAL))
        known.loaded = True
        for record in page.records:
            self._take(known, record)

    def _take(self, known: _Tenant, record: Record) -> None:
        name = record.key.rpartition("/")[2]
        if known.deleted.get(name, 0) < record.revision > known.raw.get(name, (0, b""))[0]:
            known.raw[name] = (record.revision, record.value)
            self._changed(known, name)

    def _changed(self, known: _Tenant, name: str) -> None:
        known.generation += 1
        known.parts.pop(name, None)
        known.served = None

    def loaded(self, tenant: str) -> bool:
        """Tell whether a tenant's definitions are here."""
        known = self._tenants.get(tenant)
        return known is not None and known.loaded

    def apply(self, change: Change) -> bool:
        """Take one change of the store.

        Returns:
            whether it concerned a definition of a tenant that is in use.
        """
        found = owner(change.key)
        known = self._tenants.get(found[0]) if found is not None else None
        if found is None or known is None:
            return False
        name = found[1]
        if change.revision <= known.raw.get(name, (0, b""))[0]:
            return False
        if change.value is None:
            known.deleted[name] = change.revision
            known.raw.pop(name, None)
        else:
            known.deleted.pop(name, None)
            known.raw[name] = (change.revision, change.value)
        self._changed(known, name)
        return True

    def forget(self, tenant: str) -> None:
        """Let go of a tenant's definitions; it is read anew when it is used again."""
        self._tenants.pop(tenant, None)

    def generation(self, tenant: str) -> int:
        """Return a number that moves whenever the tenant's resources may have changed."""
        known = self._tenants.get(tenant)
        return known.generation if known is not None else 0

    def _served(self, tenant: str) -> dict[tuple[str, str, str], Served]:
        known = self._tenants.get(tenant)
        if known is None:
            return {}
        if known.served is None:
            # What did not change is kept, and with it what was compiled: with many definitions each one costs.
            for name in known.raw.keys() - known.parts.keys():
                known.parts[name] = self._part(tenant, known.raw[name][1])
            known.served = {
                (each.resource.group, each.resource.version, each.resource.plural): each
                for each in _in_order(each for name in known.raw for each in known.parts[name])
            }
        return known.served

    def _part(self, tenant: str, value: bytes) -> list[Served]:
        """Return what one definition brings."""
        try:
            definition = unread.definition(value)
            if not is_served(definition):
                return []
            versions = definition["spec"]["versions"]
            found = [Served(tenant, definition, each, self._reach) for each in versions if each.get("served")]
        except Exception as error:  # noqa: BLE001 - a stored definition that is none must not take the others away
            _log.error(
                "a stored definition cannot be read and is not served", tenant=tenant, error=repr(error)
            )
            return []
        # The names are those which the status tells as accepted, and whoever may write it can tell others.
        return [each for each in found if not shadows(each.resource)]

    def served(self, tenant: str) -> list[Served]:
        """Return everything that is served, by group, then the newest version first."""
        return list(self._served(tenant).values())

    def resources(self, tenant: str) -> list[Resource]:
        """Return the declarations of everything that is served."""
        return [each.resource for each in self._served(tenant).values()]

    def find(self, tenant: str, group: str, version: str, plural: str) -> Served | None:
        """Return what is served at a path, None: nothing."""
        return self._served(tenant).get((group, version, plural))

    def by_kind(self, tenant: str, group: str, version: str, kind: str) -> Served | None:
        """Return what serves a kind, None: nothing."""
        for each in self._served(tenant).values():
            if (each.resource.group, each.resource.version, each.resource.kind) == (group, version, kind):
                return each
        return None


def is_served(definition: Object) -> bool:
    """Tell whether a definition's resources are served: its names were accepted once."""
    return conditions.is_true(definition, "Established") or conditions.is_true(definition, "NamesAccepted")


def _in_order(found: Iterable[Served]) -> list[Served]:
    ranked = sorted(found, key=lambda each: priority(each.resource.version), reverse=True)
    return sorted(ranked, key=lambda each: (each.resource.group, each.resource.plural))

"""The custom kinds of tenants, built from the CustomResourceDefinitions in the store.

The definitions of a tenant are read at its first request and follow the changes of the store. Tenants without requests cost
nothing. Definitions are decoded on demand, and tenants with equal schemas share the compiled ones.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import structlog

from vcsync.apimachinery.cel.cooperative import evaluate_cooperatively, evaluate_in_thread
from vcsync.apimachinery.crd import conditions, published, unread
from vcsync.apimachinery.crd.columns import Column, Scale, deprecation, priority, refused_create
from vcsync.apimachinery.crd.custom_resource import Compiled, compile_version, is_large
from vcsync.apimachinery.crd.shadowing import shadows
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.resources import Resource, Subresource, collection_key, custom_group
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Behaviour, Object
from vcsync.apiserver.apiextensions.conversion import Converter, Reach, Webhook, refuse
from vcsync.apiserver.request.caller import SYSTEM
from vcsync.apiserver.request.resource import Step, at_once
from vcsync.apiserver.storage.interface import Change, Record, Store

GROUP = "apiextensions.k8s.io"
PLURAL = "customresourcedefinitions"
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_SUB_VERBS = ("get", "patch", "update")
_log = structlog.get_logger(__name__)


def is_definition(key: str) -> bool:
    """Return whether a key belongs to a CustomResourceDefinition."""
    return owner(key) is not None


def owner(key: str) -> tuple[str, str] | None:
    """Return tenant and name of the CustomResourceDefinition with a key, or None for other keys."""
    parts = key.split("/")
    return (parts[0], parts[3]) if len(parts) == 4 and parts[1] == GROUP and parts[2] == PLURAL else None


class Served:
    """One served version of a definition; implements `request.resource.Kind`."""

    def __init__(self, tenant: str, definition: Object, version: Object, reach: Reach) -> None:
        """Create a kind from an established definition and one of its served versions."""
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
        self._versions: dict[str, Compiled] = {}
        self._converter = Converter(tenant, webhook, reach)
        unchanged = definition["metadata"].get("generation", 1) == 1
        same = self._name == self._storage or self._schema_of(self._name) == self._schema_of(self._storage)
        self.direct: bool = unchanged and same and webhook is None
        self.versioned: bool = webhook is not None
        self.fingerprints: dict[int, bytes] = {}
        """Fingerprints of its OpenAPI schemas by version of OpenAPI, cached until the definition changes."""

    def _schema_of(self, name: str) -> Any:
        return next(
            each.get("schema") for each in self._definition["spec"]["versions"] if each["name"] == name
        )

    @property
    def _compiled(self) -> Compiled:
        found = self._versions.get(self._name)
        if found is None:
            found = self._versions[self._name] = compile_version(self._definition, self._name)
        return found

    async def compiled(self) -> None:
        """Compile the schema and rules, once. Call it before other methods, which are then fast."""
        await self._compiled_version(self._name)

    async def _compiled_version(self, name: str) -> Compiled:
        """Return the compiled rules of a version of the definition: compiled once, on a thread if that takes long."""
        found = self._versions.get(name)
        if found is None:
            work = partial(compile_version, self._definition, name)
            run = evaluate_in_thread if is_large(self._definition, name) else evaluate_cooperatively
            found = self._versions[name] = await run(self._tenant, work)
        return found

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
        """The scale subresource, or None."""
        return self._compiled.scale

    @property
    def replicas(self) -> Mapping[str, str | None]:
        """Path of the replicas by apiVersion; None: the version has none."""
        return {
            f"{self.resource.group}/{each['name']}": (
                (each.get("subresources") or {}).get("scale") or {}
            ).get("specReplicasPath")
            for each in self._definition["spec"]["versions"]
        }

    @property
    def refusal(self) -> StatusError | None:
        """Reason why objects cannot be created, or None if they can."""
        if not self.terminating:
            return None
        return refused_create(self.resource.group, self.resource.plural)

    def decode(self, obj: Object, *, keep_nulls: bool = False) -> list[str]:
        """Fill in defaults and remove unknown fields, in place; see `Compiled.decode`.

        Returns:
            The paths of unknown fields.

        Raises:
            DecodeError: The metadata has wrong types.
        """
        return self._compiled.decode(obj, keep_nulls=keep_nulls)

    def working(self, served: Object) -> Object:
        """Return the object unchanged: the working form of custom resources is the served version."""
        return served

    def served(self, working: Object) -> Object:
        """Return the object unchanged: the working form of custom resources is the served version."""
        return working

    async def load(self, stored: list[Object], *, large: bool = False) -> list[Object]:
        """Convert stored objects to this version: on a thread if they are large.

        They have the defaults of the version in which they are stored, and no fields that either version does not know.

        Raises:
            StatusError: 500, the conversion webhook failed.
        """
        wanted = self.resource.api_version
        others = [each for each in stored if each.get("apiVersion") != wanted]
        await self._decode_as_stored(stored, large=large)
        found = await self._converter.convert(stored, wanted)
        if others:
            # The conversion adds no defaults. Objects of this version, which are among `found`, have all of theirs.
            await self._run(partial(_cut, await self._compiled_version(self._name), found), large=large)
        return found

    async def _decode_as_stored(self, stored: Sequence[Object], *, large: bool) -> None:
        """Decode stored objects in the versions in which they are stored, in place: only these give them defaults.

        Source: apiextensions-apiserver's `crdConversionRESTOptionsGetter`, whose decoder sets defaults before it converts.
        """
        by_version: dict[str, list[Object]] = {}
        for each in stored:
            by_version.setdefault(str(each.get("apiVersion") or "").rpartition("/")[2], []).append(each)
        known = {each["name"] for each in self._definition["spec"]["versions"]}
        for name in by_version.keys() & known:
            await self._run(
                partial(_decode, await self._compiled_version(name), by_version[name]), large=large
            )

    async def _run(self, work: Callable[[], None], *, large: bool) -> None:
        """Run pure work on objects, on a thread if they are large."""
        if large:
            await evaluate_in_thread(self._tenant, work)
        else:
            work()

    async def store(self, working: Object, step: Step = at_once) -> Object:
        """Convert an object of this version to the storage version, complete as if it were read; see `Compiled.complete`.

        Raises:
            StatusError: 500, the conversion webhook failed.
        """
        found = (await self._converter.convert([working], self.resource.storage_api_version))[0]
        compiled = await self._compiled_version(self._storage)
        return await step(partial(_completed, compiled, found, decode=self._name != self._storage))

    async def into(self, served: Object, api_version: str) -> Object:
        """Return an object of this version in another served one, with its defaults and without unknown fields.

        Raises:
            StatusError: 500, the conversion webhook failed.
        """
        found = (await self._converter.convert([served], api_version))[0]
        name = api_version.rpartition("/")[2]
        if name != self._name:
            (await self._compiled_version(name)).decode(found, lenient=True)
        return found

    def published(self, *, v2: bool = False) -> dict[str, Any]:
        """Return the OpenAPI schemas of this version: definition name -> schema; `v2`: for the document of version 2."""
        version = next(each for each in self._definition["spec"]["versions"] if each["name"] == self._name)
        return published.schemas(self.resource, msgspec.json.decode(msgspec.json.encode(version)), v2=v2)


def _decode(compiled: Compiled, objects: Iterable[Object]) -> None:
    """Decode stored objects, in place."""
    for each in objects:
        compiled.decode(each, lenient=True)


def _cut(compiled: Compiled, objects: Iterable[Object]) -> None:
    """Remove what a version does not know from converted objects, in place."""
    for each in objects:
        compiled.decode(each, lenient=True, defaults=False)


def _completed(compiled: Compiled, obj: Object, *, decode: bool) -> Object:
    """Complete an object as if it were read, in place; `decode`: it has been converted from another version."""
    if decode:
        compiled.decode(obj, lenient=True)
    else:
        compiled.complete(obj)
    return obj


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
    shared: Sequence[Served] = ()
    served: dict[tuple[str, str, str], Served] | None = None


_NONE: Sequence[Served] = ()


class Catalogue:
    """The custom kinds of all tenants with requests."""

    def __init__(
        self,
        *,
        reach: Reach = refuse,
        shared: Sequence[Object] = (),
        of_pool: Sequence[Object] = (),
        in_pool: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Create an empty catalogue.

        Args:
            reach: Calls conversion webhooks.
            shared: Definitions that every tenant has besides its own, but not the system space. They have no webhooks.
            of_pool: Further such definitions, of tenants in the pool only.
            in_pool: Returns whether the pool runs a tenant's Pods and vcsync its controllers. The answer may change.
        """
        self._reach = reach
        # All tenants share these kinds: there are many tenants, and each kind caches what is derived from its schema.
        self._shared = _kinds(shared, reach)
        self._of_pool = (*self._shared, *_kinds(of_pool, reach))
        self._in_pool = in_pool
        self._tenants: dict[str, _Tenant] = {}

    async def load(self, tenant: str, store: Store) -> None:
        """Read the definitions of a tenant, once. `apply` must receive all changes from before this call on."""
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
        """Return whether the definitions of a tenant have been read."""
        known = self._tenants.get(tenant)
        return known is not None and known.loaded

    def apply(self, change: Change) -> bool:
        """Apply a change of the store.

        Returns:
            Whether it concerned a definition of a loaded tenant.
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
        """Drop the definitions of a tenant, so that they are read again on demand."""
        self._tenants.pop(tenant, None)

    def definitions(self, tenant: str, group: str) -> list[str]:
        """Return the names of a tenant's own definitions in a group."""
        known = self._tenants.get(tenant)
        return [name for name in known.raw if name.partition(".")[2] == group] if known is not None else []

    def generation(self, tenant: str) -> int:
        """Return a number that changes whenever the custom kinds of the tenant may have changed."""
        known = self._tenants.get(tenant)
        return known.generation if known is not None else 0

    def _served(self, tenant: str) -> dict[tuple[str, str, str], Served]:
        known, shared = self._tenants.get(tenant), self._shared_kinds(tenant)
        if known is None:
            return _by_resource(shared)
        if known.served is None or known.shared is not shared:
            # Unchanged definitions keep their compiled schemas: with many definitions, compiling is expensive.
            for name in known.raw.keys() - known.parts.keys():
                known.parts[name] = self._part(tenant, known.raw[name][1])
            own = [each for name in known.raw for each in known.parts[name]]
            known.shared = shared
            known.served = _by_resource([*shared, *own])
        return known.served

    def _shared_kinds(self, tenant: str) -> Sequence[Served]:
        """Return the kinds that a tenant has besides its own: always the same sequence, until the tenant changes."""
        if tenant == SYSTEM:
            return _NONE
        return self._of_pool if self._in_pool(tenant) else self._shared

    def shared_kind(self, tenant: str, group: str, version: str, plural: str) -> Served | None:
        """Return a kind that a tenant has besides its own, or None. The definitions of the tenant need not have been read."""
        return _by_resource(self._shared_kinds(tenant)).get((group, version, plural))

    def _part(self, tenant: str, value: bytes) -> list[Served]:
        """Return the kinds of one definition."""
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
        # The accepted names come from the status, which a user with permission may have written.
        return [each for each in found if not shadows(each.resource)]

    def served(self, tenant: str) -> list[Served]:
        """Return all served kinds, sorted by group and then by version, newest first."""
        return list(self._served(tenant).values())

    def resources(self, tenant: str) -> list[Resource]:
        """Return the declarations of all served kinds."""
        return [each.resource for each in self._served(tenant).values()]

    def find(self, tenant: str, group: str, version: str, plural: str) -> Served | None:
        """Return the kind of a resource, or None if it is not served."""
        return self._served(tenant).get((group, version, plural))

    def by_kind(self, tenant: str, group: str, version: str, kind: str) -> Served | None:
        """Return the served kind with a name, or None."""
        for each in self._served(tenant).values():
            if (each.resource.group, each.resource.version, each.resource.kind) == (group, version, kind):
                return each
        return None


def redefined(change: Change) -> tuple[str, str, str] | None:
    """Return the tenant, key group and plural of the resource that a change of its definition redefines, or None.

    Upstream destroys the storage of the resource then, which ends the watches of all its versions.
    """
    found = owner(change.key)
    if found is None:
        return None
    try:
        resource = unread.redefined(change.previous, change.value)
    except (msgspec.DecodeError, RecursionError):  # a stored definition that is none serves nothing
        return None
    if resource is None:
        return None
    group, plural = resource
    return found[0], custom_group(group), plural


def is_served(definition: Object) -> bool:
    """Return whether the resources of a definition are served: its names have been accepted once."""
    return conditions.is_true(definition, "Established") or conditions.is_true(definition, "NamesAccepted")


def _kinds(definitions: Sequence[Object], reach: Reach) -> tuple[Served, ...]:
    return tuple(
        Served(SYSTEM, definition, version, reach)
        for definition in definitions
        for version in definition["spec"]["versions"]
    )


def _by_resource(found: Iterable[Served]) -> dict[tuple[str, str, str], Served]:
    return {
        (each.resource.group, each.resource.version, each.resource.plural): each for each in _in_order(found)
    }


def _in_order(found: Iterable[Served]) -> list[Served]:
    """Sort kinds by group, then the versions of all kinds of a group, newest first, then by plural."""
    by_plural = sorted(found, key=lambda each: each.resource.plural)
    ranked = sorted(by_plural, key=lambda each: priority(each.resource.version), reverse=True)
    return sorted(ranked, key=lambda each: each.resource.group)

"""The behaviour of one version's custom resources, compiled once and shared by tenants with equal definitions. Pure.

Source: `pkg/registry/customresource` of apiextensions-apiserver.
"""

from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from vcsync.apimachinery.cel.rules import Validator, compile_rules
from vcsync.apimachinery.crd import columns as columns_of
from vcsync.apimachinery.crd.columns import Column, Scale
from vcsync.apimachinery.errors import FieldError, wrong
from vcsync.apimachinery.schema.findings import DecodeError
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Behaviour, Context, Object, StatusBehaviour
from vcsync.apimachinery.structural import list_types as listtypes
from vcsync.apimachinery.structural import nodes
from vcsync.apimachinery.structural import object_meta as objectmeta
from vcsync.apimachinery.structural import schema as structural
from vcsync.apimachinery.structural import validation as validate
from vcsync.apimachinery.structural.correlate import Correlated
from vcsync.apimachinery.structural.schema import Structural
from vcsync.apimachinery.validation import names
from vcsync.objects.kept import Kept

_BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
_UNCHECKED = FieldError(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing"
    " errors to complete validation",
)
_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_FREE = Structural({"x-kubernetes-preserve-unknown-fields": True}, preserve=True)


@dataclass(slots=True, weakref_slot=True)
class Compiled:
    """The compiled rules of one version."""

    kind: str
    node: Structural
    schema: Schema
    behaviour: Behaviour
    columns: tuple[Column, ...]
    scale: Scale | None

    def decode(
        self, obj: Object, *, lenient: bool = False, keep_nulls: bool = False, defaults: bool = True
    ) -> list[str]:
        """Set defaults and remove unknown fields, in place.

        Args:
            obj: a whole object of this version.
            lenient: drop metadata of wrong types, as for stored objects, instead of raising.
            keep_nulls: keep nulls that the schema does not allow. Server-side apply decodes no object, so they reach validation.
            defaults: set defaults, and remove nulls that the schema does not allow.

        Returns:
            The paths of unknown fields: those of metadata, the others, those of embedded metadata, each sorted.

        Raises:
            DecodeError: metadata, the object's or embedded, has a wrong type.
        """
        obj["metadata"], foreign = objectmeta.read(obj.get("metadata"), lenient=lenient)
        if obj.get("kind") != self.kind:
            return [f"metadata.{each}" for each in foreign]
        if defaults and not keep_nulls:
            structural.prune_nulls(obj, self.node)
        if defaults:
            structural.apply_defaults(obj, self.node)
        removed = structural.prune(obj, structural.root(self.node))
        embedded: list[str] = []
        misfit = objectmeta.coerce("", obj, self.node, embedded, lenient=lenient)
        if misfit is not None:
            raise DecodeError(str(misfit))
        return [*(f"metadata.{each}" for each in foreign), *removed, *sorted(embedded)]

    def complete(self, obj: Object) -> None:
        """Remove nulls that the schema does not allow and set the default of an absent status, in place.

        kube-apiserver does so whenever it reads a stored object. Server-side apply keeps nulls of fields without a type,
        and a creation drops the status with its defaults.
        """
        structural.prune_nulls(obj, self.node)
        status = self.node.properties.get("status")
        if "status" not in obj and status is not None and status.default is not None:
            structural.apply_defaults(obj, Structural({}, properties={"status": status}, has_default=True))


RECENT_BYTES = 2 << 20
"""Bytes of versions whose compiled form is kept although no tenant has them; it takes some fifty times as many."""
_Key = tuple[bytes, str, str]
_shared: WeakValueDictionary[_Key, Compiled] = WeakValueDictionary()
"""Compiled versions that tenants have. One that no tenant has any more is released."""
_recent: Kept[_Key, Compiled] = Kept(RECENT_BYTES)
_sharing = Lock()
"""Held while `_shared` is read or changed: large versions are compiled on threads."""
LARGE_BYTES = 8 * 1024
"""Bytes of a version from which on compiling it takes too long for the event loop. A property or column takes microseconds."""


def is_large(definition: Object, name: str) -> bool:
    """Return whether compiling a version takes too long for the event loop. Its rules are counted while they are compiled."""
    version = next(each for each in definition["spec"]["versions"] if each["name"] == name)
    return len(msgspec.json.encode(version)) > LARGE_BYTES


def compile_version(definition: Object, name: str) -> Compiled:
    """Return the compiled version of a definition. Equal versions are compiled once.

    Raises:
        StopIteration: the version does not exist.
    """
    spec = definition["spec"]
    version = next(each for each in spec["versions"] if each["name"] == name)
    return _compiled(msgspec.json.encode(version), spec["group"], spec["names"]["kind"])


def _compiled(text: bytes, group: str, kind: str) -> Compiled:
    key = (text, group, kind)
    with _sharing:
        found = _shared.get(key)
    if found is None:
        made = _compile(text, group, kind)
        with _sharing:
            found = _shared.setdefault(key, made)
    _recent.put(key, found, len(text))
    return found


def _compile(text: bytes, group: str, kind: str) -> Compiled:
    version = msgspec.json.decode(text)
    raw = (version.get("schema") or {}).get("openAPIV3Schema")
    node = structural.build(raw) if raw is not None else _FREE
    subresources = version.get("subresources") or {}
    declared = subresources.get("scale")
    scale = None
    if declared is not None:
        scale = Scale(
            declared["specReplicasPath"],
            declared["statusReplicasPath"],
            declared.get("labelSelectorPath") or "",
        )
    rules = _Rules(f"{group}/{version['name']}", kind, node, compile_rules(node), scale)
    fields = columns_of.selectable(version)
    status = subresources.get("status") is not None
    behaviour = Behaviour(
        prepare_create=_prepare_create_status if status else _prepare_create,
        prepare_update=_prepare_update_status if status else _prepare_update,
        validate=rules.validate,
        validate_update=rules.validate_update,
        warnings=rules.warnings,
        fields=lambda obj: columns_of.selected(obj, fields),
        status=StatusBehaviour(prepare=_prepare_status, validate=rules.validate_status) if status else None,
        generation=(),
        unconditional_update=False,
    )
    return Compiled(kind, node, nodes.to_schema(node), behaviour, columns_of.columns(version), scale)


def _prepare_create(obj: Object, _: Context) -> None:
    obj["metadata"]["generation"] = 1


def _prepare_create_status(obj: Object, context: Context) -> None:
    obj.pop("status", None)
    _prepare_create(obj, context)


def _prepare_update(new: Object, old: Object, _: Context) -> None:
    generation = old["metadata"].get("generation") or 0
    before = {name: each for name, each in old.items() if name != "metadata"}
    after = {name: each for name, each in new.items() if name != "metadata"}
    generation += before != after
    if generation:
        new["metadata"]["generation"] = generation


def _prepare_update_status(new: Object, old: Object, context: Context) -> None:
    new.pop("status", None)
    if "status" in old:
        new["status"] = old["status"]
    _prepare_update(new, old, context)


def _prepare_status(new: Object, old: Object, _: Context) -> None:
    """Restore everything but status and managedFields."""
    status, managed = new.get("status"), new["metadata"].get("managedFields")
    version = new["metadata"].get("resourceVersion")
    has_status = "status" in new
    new.clear()
    new.update({name: each for name, each in old.items() if name != "status"})
    new["metadata"] = dict(old["metadata"])
    new["metadata"].pop("managedFields", None)
    if managed is not None:
        new["metadata"]["managedFields"] = managed
    if version is not None:
        new["metadata"]["resourceVersion"] = version
    if has_status:
        new["status"] = status


def warnings(new: Object, old: Object | None) -> list[str]:
    """Return warnings about new finalizers with unqualified names."""
    before = set((old or {}).get("metadata", {}).get("finalizers") or ())
    found = []
    for each in sorted(set(new["metadata"].get("finalizers") or ()) - before):
        start = f'metadata.finalizers: "{each}": '
        found += [start + why for why in names.qualified_name(each)]
        if "/" not in each and each not in _STANDARD_FINALIZERS:
            path = " including a path (/)" if "." in each else ""
            told = f"prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            found.append(start + told)
    return found


@dataclass(frozen=True, slots=True)
class _Rules:
    api_version: str
    kind: str
    node: Structural
    rules: Validator | None
    scale: Scale | None

    def validate(self, obj: Object) -> list[FieldError]:
        found = self._type(obj)
        if not found:
            found = validate.validate("", obj, self.node.raw)
            if self.scale is not None:
                found += self.scale.validate_spec(obj) + self.scale.validate_status(obj)
        found += objectmeta.validate("", obj, self.node)
        found += listtypes.find_duplicates("", self.node, obj)
        return self._with_rules(found, obj, None, None)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        found = warnings(new, old)
        if self.rules is not None and old is not None:
            found += self.rules.warnings(new, old, Correlated(new, old, self.node))
        return found

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        correlated = Correlated(new, old, self.node)
        found = self._type(new)
        if not found:
            found = validate.validate("", new, self.node.raw, correlated)
            if self.scale is not None:
                found += self.scale.validate_spec(new) + self.scale.validate_status(new)
        found += objectmeta.validate("", new, self.node)
        if not listtypes.find_duplicates("", self.node, old):
            found += listtypes.find_duplicates("", self.node, new)
        return self._with_rules(found, new, old, correlated)

    def validate_status(self, new: Object, old: Object) -> list[FieldError]:
        correlated = Correlated(new, old, self.node)
        found = self._type(new)
        if not found:
            node = self.node.properties.get("status")
            if "status" in new and node is not None:
                # Without an old status, upstream compares with null.
                status = correlated.field("status") or Correlated(new["status"], old.get("status"), node)
                found += validate.validate("status", new["status"], node.raw, status)
            if self.scale is not None:
                found += self.scale.validate_status(new)
        if not listtypes.find_duplicates("", self.node, old):
            found += listtypes.find_duplicates("", self.node, new)
        return self._with_rules(found, new, old, correlated)

    def _type(self, obj: Object) -> list[FieldError]:
        """Return the findings on kind and apiVersion. If there are any, the schema is not checked."""
        wanted = (("kind", self.kind), ("apiVersion", self.api_version))
        return [wrong(name, obj[name], f"must be {each}") for name, each in wanted if obj[name] != each]

    def _with_rules(
        self, found: list[FieldError], new: Object, old: Any, correlated: Correlated | None
    ) -> list[FieldError]:
        if self.rules is None:
            return found
        nameless = not new["metadata"].get("name")
        if nameless or any(each.reason in _BLOCKING for each in found):
            return [*found, _UNCHECKED]
        return found + self.rules.validate("", new, old, correlated)

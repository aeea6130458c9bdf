"""apiVersion, kind and metadata of objects and of resources embedded in them: types, unknown fields, rules. Pure.

As apiextensions-apiserver's `schema/objectmeta`.
"""

from typing import Any

from vcsync.controlplane.crd import paths
from vcsync.controlplane.crd.structural import Structural
from vcsync.controlplane.errors import FieldError, required, wrong
from vcsync.controlplane.kinds import names

_TEXT = {
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "creationTimestamp",
    "deletionTimestamp",
}  # fmt: skip
_NUMBERS = {"generation", "deletionGracePeriodSeconds"}
_MAPS = {"labels", "annotations"}
_LISTS = {"ownerReferences", "finalizers", "managedFields"}
_GO = {str: "string", bool: "bool", int: "number", float: "number", dict: "object", list: "array"}


def _misfit(name: str, value: Any) -> str:  # noqa: PLR0911 -- one case for each kind of field
    """Say why a value cannot be this field of ObjectMeta, empty: it can."""
    if value is None:
        return ""
    told = _GO.get(type(value), "value")
    if name in _TEXT and not isinstance(value, str):
        return f"json: cannot unmarshal {told} into Go struct field ObjectMeta.{name} of type string"
    if name in _NUMBERS and (not isinstance(value, int) or isinstance(value, bool)):
        return f"json: cannot unmarshal {told} into Go struct field ObjectMeta.{name} of type int64"
    if name in _MAPS:
        if not isinstance(value, dict):
            return f"json: cannot unmarshal {told} into Go struct field ObjectMeta.{name} of type map[string]string"
        for each in value.values():
            if each is not None and not isinstance(each, str):
                told = _GO.get(type(each), "value")
                return f"json: cannot unmarshal {told} into Go struct field ObjectMeta.{name} of type string"
    if name in _LISTS and not isinstance(value, list):
        return f"json: cannot unmarshal {told} into Go struct field ObjectMeta.{name} of type []{_LIST_TYPES[name]}"
    return ""


_LIST_TYPES = {
    "ownerReferences": "v1.OwnerReference",
    "finalizers": "string",
    "managedFields": "v1.ManagedFieldsEntry",
}
_KNOWN = _TEXT | _NUMBERS | _MAPS | _LISTS


def coerce(
    path: str, value: Any, node: Structural | None, unknown: list[str], *, lenient: bool
) -> FieldError | None:
    """Check the types of embedded apiVersion, kind and metadata and drop what ObjectMeta does not have, in place.

    Args:
        path: where the value stands.
        value: an object or a part of one.
        node: its schema.
        unknown: gets the paths of what was dropped from metadata.
        lenient: drop what has the wrong type too, instead of telling it.
    """
    if node is None:
        return None
    if isinstance(value, dict):
        for name in list(value):
            if node.embedded:
                wrong_type = _coerce_meta(path, value, name, unknown, lenient=lenient)
                if wrong_type is not None:
                    return wrong_type
            below = node.properties.get(name)
            where = paths.child(path, name)
            if below is None:
                below = node.additional
                where = paths.key(path, name)
            if name in value:
                wrong_type = coerce(where, value[name], below, unknown, lenient=lenient)
                if wrong_type is not None:
                    return wrong_type
    elif isinstance(value, list):
        for position, each in enumerate(value):
            wrong_type = coerce(paths.index(path, position), each, node.items, unknown, lenient=lenient)
            if wrong_type is not None:
                return wrong_type
    return None


def _coerce_meta(  # noqa: PLR0911 -- one case for each kind of field
    path: str, value: dict[str, Any], name: str, unknown: list[str], *, lenient: bool
) -> FieldError | None:
    where = paths.child(path, name)
    if name in ("apiVersion", "kind"):
        if isinstance(value[name], str):
            return None
        if lenient:
            del value[name]
            return None
        return wrong(where, value[name], "must be a string")
    if name != "metadata":
        return None
    metadata = value[name]
    if not isinstance(metadata, dict):
        if metadata is None:
            value[name] = {}
            return None
        return None if lenient else wrong(where, metadata, _not_metadata(metadata))
    for each in list(metadata):
        if each not in _KNOWN:
            unknown.append(paths.child(where, each))
            del metadata[each]
            continue
        why = _misfit(each, metadata[each])
        if why and not lenient:
            return wrong(where, metadata, why)
        if why or metadata[each] is None:
            del metadata[each]
    return None


def _not_metadata(value: Any) -> str:
    return f"json: cannot unmarshal {_GO.get(type(value), 'value')} into Go value of type v1.ObjectMeta"


def validate(path: str, value: Any, node: Structural | None) -> list[FieldError]:
    """Return what is wrong with the identity and metadata of embedded resources."""
    if node is None:
        return []
    found: list[FieldError] = []
    if isinstance(value, dict):
        if node.embedded:
            found += _embedded(path, value)
        for name, each in value.items():
            if name in node.properties:
                found += validate(paths.child(path, name), each, node.properties[name])
            elif node.free_keys:
                found += validate(paths.key(path, name), each, node.additional)
    elif isinstance(value, list):
        for position, each in enumerate(value):
            found += validate(paths.index(path, position), each, node.items)
    return found


def _embedded(path: str, value: dict[str, Any]) -> list[FieldError]:
    found = [required(paths.child(path, name)) for name in ("apiVersion", "kind") if name not in value]
    for name in ("apiVersion", "kind"):
        if name not in value:
            continue
        where, text = paths.child(path, name), value[name]
        if not isinstance(text, str):
            found.append(wrong(where, text, "must be a string"))
        elif not text:
            found.append(wrong(where, text, "must not be empty"))
        elif name == "apiVersion" and text.count("/") > 1:
            found.append(wrong(where, text, f"unexpected GroupVersion string: {text}"))
        elif name == "kind" and (why := names.dns_label_1035(text.lower())):
            told = "may have mixed case, but should otherwise match: " + ",".join(why)
            found.append(wrong(where, text, told))
    if "metadata" in value:
        found += _metadata(paths.child(path, "metadata"), value["metadata"])
    return found


def _metadata(path: str, metadata: Any) -> list[FieldError]:
    if metadata is None:
        return []
    if not isinstance(metadata, dict):
        return [wrong(path, metadata, _not_metadata(metadata))]
    for name, each in metadata.items():
        if why := _misfit(name, each):
            return [wrong(path, metadata, why)]
    found = []
    for name, prefix in (("generateName", True), ("name", False)):
        if text := metadata.get(name):
            found += [wrong(paths.child(path, name), text, why) for why in names.segment_name(text, prefix)]
    if text := metadata.get("namespace"):
        found += [wrong(paths.child(path, "namespace"), text, why) for why in names.dns_label(text)]
    found += _labels(paths.child(path, "labels"), metadata.get("labels") or {})
    for each in metadata.get("annotations") or {}:
        found += [
            wrong(paths.child(path, "annotations"), each, why) for why in names.qualified_name(each.lower())
        ]
    return found


def _labels(path: str, labels: dict[str, Any]) -> list[FieldError]:
    found = []
    for name, text in labels.items():
        found += [wrong(path, name, why) for why in names.qualified_name(name)]
        found += [wrong(path, text, why) for why in names.label_value(text or "")]
    return found

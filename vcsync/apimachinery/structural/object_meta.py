"""apiVersion, kind and metadata of objects and embedded resources: types, unknown fields, validation. Pure.

Source: apiextensions-apiserver's `schema/objectmeta`.
"""

import contextlib
from typing import Any

from vcsync.apimachinery import tenant_marks
from vcsync.apimachinery.errors import FieldError, required, wrong
from vcsync.apimachinery.gotext import ordered
from vcsync.apimachinery.schema import walk
from vcsync.apimachinery.schema.findings import DecodeError
from vcsync.apimachinery.schema.gotypes import META
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.structural import field_names as paths
from vcsync.apimachinery.structural.schema import MOST_UNKNOWN, Structural
from vcsync.apimachinery.validation import names

_META = Schema("object", definition=f"{META}ObjectMeta")


def read(metadata: Any, *, lenient: bool) -> tuple[dict[str, Any], list[str]]:
    """Convert metadata to the types that ObjectMeta has in Go.

    Args:
        metadata: the JSON value.
        lenient: drop members of wrong types, as for stored objects, instead of raising.

    Returns:
        Metadata as the API writes it, and the paths of its unknown fields, sorted.

    Raises:
        DecodeError: a member has the wrong type.
    """
    if metadata is None:
        return {}, []
    if isinstance(metadata, dict):
        # Go's maps have no order. Here findings are ordered by name.
        metadata = {name: metadata[name] for name in sorted(metadata)}
    try:
        fitted, unknown = walk.decode(metadata, _META, complete=True)
        return fitted, [path for path in unknown if path != tenant_marks.FIELD]
    except DecodeError:
        if not lenient:
            raise
        return _readable(metadata), []


def _readable(metadata: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, each in metadata.items() if isinstance(metadata, dict) else ():
        with contextlib.suppress(DecodeError):
            found |= walk.decode({name: each}, _META, complete=True)[0]
    return found


def coerce(
    path: str, value: Any, node: Structural | None, unknown: list[str], *, lenient: bool
) -> FieldError | None:
    """Check the types of embedded apiVersion, kind and metadata, and drop fields that ObjectMeta lacks, in place.

    Args:
        path: the path of the value.
        value: an object or a part of one.
        node: the schema of the value.
        unknown: receives the paths of the fields dropped from metadata.
        lenient: also drop members of wrong types, instead of returning a finding.
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
    if lenient and not isinstance(metadata, dict | None):
        return None
    try:
        value[name], found = read(metadata, lenient=lenient)
    except DecodeError as why:
        return wrong(where, ordered(metadata), str(why))
    more = max(MOST_UNKNOWN - len(unknown), 0)
    unknown += [paths.child(where, each) for each in found[:more]]
    return None


def validate(path: str, value: Any, node: Structural | None) -> list[FieldError]:
    """Return the findings on the identity and metadata of embedded resources."""
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
    try:
        metadata, _ = read(metadata, lenient=False)
    except DecodeError as why:
        return [wrong(path, ordered(metadata), str(why))]
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

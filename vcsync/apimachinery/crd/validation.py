"""Validation of CustomResourceDefinitions: names, versions, columns, conversion, immutability. Pure.

Source: `pkg/apis/apiextensions/validation` of apiextensions-apiserver. Findings on parts that are equal in all
versions are reported under `spec` (`spec.validation`, `spec.subresources`, ...), as in upstream's internal form.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vcsync.apimachinery.crd import conditions
from vcsync.apimachinery.crd.approval import check_approval
from vcsync.apimachinery.crd.conversion_rules import bundle_excused, check_conversion
from vcsync.apimachinery.crd.shadowing import check_changed_names, check_names
from vcsync.apimachinery.errors import (
    FieldError,
    duplicate,
    not_supported,
    required,
    too_many,
    wrong,
)
from vcsync.apimachinery.structural import field_path as fieldpath
from vcsync.apimachinery.structural import schema as structural
from vcsync.apimachinery.structural import schema_rules as schemarules
from vcsync.apimachinery.structural.field_names import child, index
from vcsync.apimachinery.structural.schema_check import Rules, check_schema
from vcsync.apimachinery.validation import names as wellformed

Raw = Mapping[str, Any]

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MOST_SELECTABLE = 8
MOST_VERSIONS = 100
"""Versions of one definition. Each served one takes memory and a part of discovery. kube-apiserver has no such limit."""
_SHARED = (
    ("subresources", "subresources"), ("schema", "validation"),
    ("additionalPrinterColumns", "additionalPrinterColumns"), ("selectableFields", "selectableFields"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Options:
    """Errors that the stored object excuses: stored schemas, a bad CA bundle, too many selectable fields."""

    rules: Rules
    standing: frozenset[str] = frozenset()
    any_bundle: bool = True
    many_selectable: frozenset[str] = frozenset()


def validate(definition: Raw, rules: Rules) -> list[FieldError]:
    """Return the findings on a new definition."""
    if found := _too_many_versions(definition, MOST_VERSIONS):
        return found
    found = _name(definition) + check_names(definition) + _whole(definition, _Options(rules))
    return found + check_approval(definition, None)


def validate_update(new: Raw, old: Raw, rules: Rules) -> list[FieldError]:
    """Return the findings on an updated definition."""
    if found := _too_many_versions(new, max(MOST_VERSIONS, len(old["spec"].get("versions") or ()))):
        return found
    options = _Options(
        rules,
        standing=_unchanged(new, old, "schema"),
        any_bundle=bundle_excused(old),
        many_selectable=frozenset(
            name
            for name in _unchanged(new, old, "selectableFields")
            if len(_version(old, name).get("selectableFields") or ()) > _MOST_SELECTABLE
        ),
    )
    found = _whole(new, options)
    before, after = old["spec"], new["spec"]
    if conditions.is_true(dict(old), "Established"):
        found += _immutable("spec.scope", after.get("scope"), before.get("scope"))
        found += _immutable("spec.names.kind", after["names"].get("kind"), before["names"].get("kind"))
    found += _immutable("spec.group", after.get("group"), before.get("group"))
    found += _immutable("spec.names.plural", after["names"].get("plural"), before["names"].get("plural"))
    return found + check_changed_names(new, old) + check_approval(new, old)


def validate_status(new: Raw) -> list[FieldError]:
    """Return the findings on an updated status."""
    return _names("status.acceptedNames", (new.get("status") or {}).get("acceptedNames") or {})


def _too_many_versions(definition: Raw, most: int) -> list[FieldError]:
    """Return the finding that stands alone: the others would take time that grows with the square of the versions."""
    actual = len(definition["spec"].get("versions") or ())
    return [too_many("spec.versions", actual, most)] if actual > most else []


def _immutable(path: str, new: Any, old: Any) -> list[FieldError]:
    return [] if new == old else [wrong(path, new or "", "field is immutable")]


def _version(definition: Raw, name: str) -> Raw:
    return next((each for each in definition["spec"].get("versions") or () if each.get("name") == name), {})


def _unchanged(new: Raw, old: Raw, part: str) -> frozenset[str]:
    names = [each.get("name") or "" for each in new["spec"].get("versions") or ()]
    return frozenset(name for name in names if _version(new, name).get(part) == _version(old, name).get(part))


def _name(definition: Raw) -> list[FieldError]:
    metadata, spec = definition.get("metadata") or {}, definition["spec"]
    wanted = f"{(spec.get('names') or {}).get('plural') or ''}.{spec.get('group') or ''}"
    return [
        wrong(f"metadata.{key}", metadata[key], 'must be spec.names.plural+"."+spec.group')
        for key in ("generateName", "name")
        if metadata.get(key) and metadata[key] != wanted
    ]


def _whole(definition: Raw, options: _Options) -> list[FieldError]:
    spec = definition["spec"]
    status = definition.get("status") or {}
    found = _spec(spec, options)
    found += _names("status.acceptedNames", status.get("acceptedNames") or {})
    found += _stored(status.get("storedVersions") or [], spec.get("versions") or ())
    if spec.get("preserveUnknownFields"):
        told = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        found.append(wrong("spec.preserveUnknownFields", True, told))
    return found


def _spec(spec: Raw, options: _Options) -> list[FieldError]:
    found = _group(spec.get("group") or "")
    scope = spec.get("scope") or ""
    if not scope:
        found.append(required("spec.scope"))
    elif scope not in ("Cluster", "Namespaced"):
        found.append(not_supported("spec.scope", scope, ("Cluster", "Namespaced")))
    versions = spec.get("versions") or ()
    shared = _shared(versions)
    found += _missing_schemas(versions, shared)
    for at, version in enumerate(versions):
        where = index("spec.versions", at)
        name = version.get("name") or ""
        if why := wellformed.dns_label_1035(name):
            found.append(wrong(child(where, "name"), name, ",".join(why)))
        found += _deprecation(child(where, "deprecationWarning"), version)
        own = {part: version.get(part) for part, _ in _SHARED if part not in shared}
        status = bool((version.get("subresources") or {}).get("status") is not None)
        found += _parts(where, own, options, status=status, name=name, top=False)
    found += _version_set(spec.get("versions"), shared)
    first = (versions[0].get("name") or "") if versions else ""
    if first and (why := wellformed.dns_label_1035(first)):
        found.append(wrong("spec.version", first, ",".join(why)))
    naming = spec.get("names") or {}
    found += [
        required(f"spec.names.{each}")
        for each in ("plural", "singular", "kind", "listKind")
        if not naming.get(each)
    ]
    found += _names("spec.names", naming)
    if versions:
        status = any((each.get("subresources") or {}).get("status") is not None for each in versions)
        top = {part: versions[0].get(part) for part in shared}
        found += _parts("spec", top, options, status=status, name=versions[0].get("name") or "", top=True)
    conversion = spec.get("conversion") or {}
    return found + check_conversion("spec.conversion", conversion, any_bundle=options.any_bundle)


def _group(group: str) -> list[FieldError]:
    if not group:
        return [required("spec.group")]
    if why := wellformed.dns_subdomain(group):
        return [wrong("spec.group", group, ",".join(why))]
    if "." not in group:
        return [wrong("spec.group", group, "should be a domain with at least one dot")]
    return []


def _shared(versions: Any) -> set[str]:
    """Return the names of the parts that are equal in all versions."""
    if not versions:
        return set()
    first = versions[0]
    return {
        part
        for part, _ in _SHARED
        if all((each.get(part) or None) == (first.get(part) or None) for each in versions)
    }


def _missing_schemas(versions: Any, shared: set[str]) -> list[FieldError]:
    if (
        "schema" in shared
        and versions
        and (versions[0].get("schema") or {}).get("openAPIV3Schema") is not None
    ):
        return []
    return [
        required(child(index("spec.versions", at), "schema", "openAPIV3Schema"))
        for at, each in enumerate(versions)
        if (each.get("schema") or {}).get("openAPIV3Schema") is None
    ]


def _deprecation(path: str, version: Raw) -> list[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return []
    if not version.get("deprecated"):
        return [wrong(path, warning, "can only be set for deprecated versions")]
    why = []
    if wellformed.size(warning) > 256:
        why.append("must be <= 256 characters long")
    if not warning:
        why.append("must not be an empty string")
    at = next((at for at, each in enumerate(warning) if not each.isprintable()), None)
    if at is not None:
        position = wellformed.size(warning[:at])
        why.append(
            f"must only contain printable UTF-8 characters; non-printable character found at index {position}"
        )
    return [wrong(path, warning, each) for each in why]


def _parts(
    path: str, parts: Mapping[str, Any], options: _Options, *, status: bool, name: str, top: bool
) -> list[FieldError]:
    """Check the parts of one version, or those in the spec that all versions share."""
    found: list[FieldError] = []
    schema = (parts.get("schema") or {}).get("openAPIV3Schema")
    where = child(path, "validation" if top else "schema")
    if schema is not None:
        found += check_schema(where, schema, options.rules, status=status, free_cost=name in options.standing)
    found += _subresources(child(path, "subresources"), parts.get("subresources") or {})
    for at, each in enumerate(parts.get("additionalPrinterColumns") or ()):
        found += _column(index(child(path, "additionalPrinterColumns"), at), each)
    fields = parts.get("selectableFields") or ()
    if fields and schema is not None and not schemarules.unsupported(schema):
        excused = name in options.many_selectable
        found += _selectable(child(path, "selectableFields"), fields, schema, excused=excused)
    return found


def _version_set(versions: Any, shared: set[str]) -> list[FieldError]:
    found = []
    told = _versions_as_told(versions, shared) if versions else versions
    names = [each.get("name") for each in versions or ()]
    if len(set(names)) != len(names):
        found.append(wrong("spec.versions", told, "must contain unique version names"))
    if sum(bool(each.get("storage")) for each in versions or ()) != 1:
        found.append(wrong("spec.versions", told, "must have exactly one version marked as storage version"))
    return found


def _versions_as_told(versions: Any, shared: set[str]) -> Any:
    """Format versions as Go prints its internal type, whose members have no JSON names."""
    plain = {
        "name": "Name", "served": "Served", "storage": "Storage", "deprecated": "Deprecated",
        "deprecationWarning": "DeprecationWarning", "schema": "Schema", "subresources": "Subresources",
        "additionalPrinterColumns": "AdditionalPrinterColumns", "selectableFields": "SelectableFields",
    }  # fmt: skip
    flags = {"served", "storage", "deprecated"}
    return [
        {
            told: bool(each.get(part)) if part in flags else None if part in shared else each.get(part)
            for part, told in plain.items()
        }
        for each in versions
    ]


def _names(path: str, naming: Raw) -> list[FieldError]:
    found = []
    for part in ("plural", "singular"):
        text = naming.get(part) or ""
        if text and (why := wellformed.dns_label_1035(text)):
            found.append(wrong(child(path, part), text, ",".join(why)))
    for part in ("kind", "listKind"):
        text = naming.get(part) or ""
        if text and (why := wellformed.dns_label_1035(text.lower())):
            told = "may have mixed case, but should otherwise match: " + ",".join(why)
            found.append(wrong(child(path, part), text, told))
    found += _labels(child(path, "shortNames"), naming.get("shortNames"))
    if naming.get("kind") and naming.get("kind") == naming.get("listKind"):
        told = "kind and listKind may not be the same"
        found.append(wrong(child(path, "listKind"), naming["listKind"], told))
    return found + _labels(child(path, "categories"), naming.get("categories"))


def _labels(path: str, texts: Any) -> list[FieldError]:
    return [
        wrong(index(path, at), each, ",".join(why))
        for at, each in enumerate(texts or ())
        if (why := wellformed.dns_label_1035(each))
    ]


def _stored(stored: list[str], versions: Any) -> list[FieldError]:
    path = "status.storedVersions"
    if not stored:
        return [wrong(path, None, "must have at least one stored version")]
    found, left = [], dict.fromkeys(stored)
    for name, is_stored in ((each.get("name") or "", each.get("storage")) for each in versions):
        if is_stored and name not in left:
            found.append(wrong(path, stored, f"must have the storage version {name}"))
        left.pop(name, None)
    for at, each in enumerate(stored):
        if each in left:
            told = (
                f"missing from spec.versions; {each} was previously a storage version, and must remain in spec.versions"
                f" until a storage migration ensures no data remains persisted in {each} and removes {each} from"
                " status.storedVersions"
            )
            found.append(wrong(index(path, at), each, told))
    return found


def _simple_path(path: str, text: str) -> list[FieldError]:
    return [] if text.startswith(".") else [wrong(path, text, "must be a simple json path starting with .")]


def _subresources(path: str, subresources: Raw) -> list[FieldError]:
    scale = subresources.get("scale")
    if scale is None:
        return []
    found = []
    for part, start in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        where, text = f"{path}.scale.{part}", scale.get(part) or ""
        if not text:
            found.append(required(where))
        elif why := _simple_path(where, text):
            found += why
        elif not text.startswith(start):
            found.append(wrong(where, text, f"should be a json path under {start.rstrip('.')}"))
    where, text = f"{path}.scale.labelSelectorPath", scale.get("labelSelectorPath") or ""
    if text and not (why := _simple_path(where, text)):
        if not text.startswith((".spec.", ".status.")):
            found.append(wrong(where, text, "should be a json path under either .spec or .status"))
    elif text:
        found += why
    return found


def _column(path: str, column: Raw) -> list[FieldError]:
    found = []
    told = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not column.get("name"):
        found.append(required(child(path, "name")))
    type_, format_ = column.get("type") or "", column.get("format") or ""
    if not type_:
        found.append(required(child(path, "type"), told))
    elif type_ not in _COLUMN_TYPES:
        found.append(wrong(child(path, "type"), type_, told))
    if format_ and format_ not in _COLUMN_FORMATS:
        found.append(wrong(child(path, "format"), format_, f"must be one of {','.join(_COLUMN_FORMATS)}"))
    where = child(path, "JSONPath")
    if not column.get("jsonPath"):
        found.append(required(where))
    else:
        found += _simple_path(where, column["jsonPath"])
    return found


def _selectable(path: str, fields: Any, schema: Raw, *, excused: bool) -> list[FieldError]:
    found = []
    seen: set[tuple[str, ...]] = set()
    node = structural.build(schema)
    for at, each in enumerate(fields):
        where, text = child(index(path, at), "jsonPath"), each.get("jsonPath") or ""
        if not text:
            found.append(required(where))
            continue
        try:
            _, target, names = fieldpath.resolve(text, node, brackets=False)
        except fieldpath.InvalidPath as why:
            found.append(wrong(where, text, f"is an invalid path: {why}"))
            continue
        if names[0] == "metadata":
            found.append(wrong(where, text, "must not point to fields in metadata"))
        if target.type not in ("string", "boolean", "integer"):
            told = (
                "must point to a field of type string, boolean or integer."
                " Enum string fields and strings with formats are allowed."
            )
            found.append(wrong(where, text, told))
        if tuple(names) in seen:
            found.append(duplicate(where, text))
        seen.add(tuple(names))
    if len(seen) > _MOST_SELECTABLE and not excused:
        found.append(too_many(path, len(seen), _MOST_SELECTABLE))
    return found

"""The behaviour of the kind CustomResourceDefinition: defaults, preparation, validation, warnings. Pure.

Source: `pkg/registry/customresourcedefinition` of apiextensions-apiserver.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from vcsync.apimachinery.cel.rules import RULES
from vcsync.apimachinery.crd import conditions, shape, validation
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.strategy import Behaviour, Context, Object, StatusBehaviour
from vcsync.apimachinery.structural import formats


def default(definition: Object) -> None:
    """Set the defaults of names, conversion and stored versions."""
    spec = definition.get("spec")
    if not isinstance(spec, dict) or shape.misshapen(definition):
        return
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    conversion = spec.get("conversion")
    if conversion is None:
        spec["conversion"] = {"strategy": "None"}
    elif service := ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service"):
        service.setdefault("port", 443)
    elif not any((conversion.get("webhook") or {}).values()):
        conversion.pop("webhook", None)  # the real server's own form has its members, but not the webhook
    for version in spec.get("versions") or ():
        version.setdefault("served", False)
        version.setdefault("storage", False)
    if spec.get("preserveUnknownFields") is False:
        del spec["preserveUnknownFields"]
    status = definition.get("status") or {}
    if not status.get("storedVersions"):
        definition["status"] = status | {"storedVersions": _storage(spec)}


def _storage(spec: Mapping[str, Any]) -> list[str]:
    """Return the name of the storage version. Validation refuses a version without a name."""
    return [each.get("name") or "" for each in spec.get("versions") or () if each.get("storage")][:1]


def prepare_create(definition: Object, _: Context) -> None:
    """Drop the status that the client sent, and record the storage version."""
    definition["status"] = {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": _storage(definition.get("spec") or {}),
    }


def prepare_update(new: Object, old: Object, _: Context) -> None:
    """Restore the status, and record a new storage version."""
    status = dict(old.get("status") or {})
    stored = list(status.get("storedVersions") or [])
    stored += [each for each in _storage(new.get("spec") or {}) if each not in stored]
    new["status"] = status | {"storedVersions": stored}


def _prepare_status(new: Object, old: Object, _: Context) -> None:
    new["spec"] = old["spec"]


def validate(definition: Object) -> list[FieldError]:
    """Return the findings on a new definition."""
    return shape.misshapen(definition) or validation.validate(definition, RULES)


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Return the findings on an updated definition."""
    return shape.misshapen(new) or validation.validate_update(new, old, RULES)


def _validate_status(new: Object, _: Object) -> list[FieldError]:
    return validation.validate_status(new)


def _formats(schema: Any) -> Iterator[str]:
    """Yield the formats of a schema that are not checked."""
    if isinstance(schema, list):
        for each in schema:
            yield from _formats(each)
        return
    if not isinstance(schema, Mapping):
        return
    written = schema.get("format")
    if written and isinstance(written, str) and not formats.recognized(schema.get("type") or "", written):
        yield written
    for name in ("items", "additionalProperties", "not", "allOf", "anyOf", "oneOf"):
        yield from _formats(schema.get(name))
    for name in sorted(schema.get("properties") or {}):
        yield from _formats(schema["properties"][name])


def _unrecognized(definition: Object) -> list[str]:
    spec = definition["spec"]
    schemas = [(each.get("schema") or {}).get("openAPIV3Schema") for each in spec.get("versions") or ()]
    if schemas and all(each == schemas[0] for each in schemas):
        schemas = schemas[:1]
    return list(_formats(schemas))


def warnings(new: Object, old: Object | None) -> list[str]:
    """Return warnings about new formats that are not checked."""
    if shape.misshapen(new):
        return []
    known = set(_unrecognized(old)) if old is not None else set()
    return [f'unrecognized format "{each}"' for each in _unrecognized(new) if each not in known]


def terminate(definition: Object, now: str) -> bool:
    """Mark a definition for deletion, in place: time, finalizer, condition. Its objects are deleted first.

    Returns:
        False if the definition is marked already: deletion continues as for any object with finalizers.
    """
    metadata = definition["metadata"]
    if metadata.get("deletionTimestamp"):
        return False
    metadata["deletionTimestamp"] = now
    finalizers = metadata.setdefault("finalizers", [])
    if conditions.FINALIZER not in finalizers:
        finalizers.append(conditions.FINALIZER)
    told = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    conditions.set_condition(definition, "Terminating", ("True", "InstanceDeletionPending", told), now)
    return True


BEHAVIOUR = Behaviour(
    default=default,
    prepare_create=prepare_create,
    prepare_update=prepare_update,
    validate=validate,
    validate_update=validate_update,
    warnings=warnings,
    status=StatusBehaviour(prepare=_prepare_status, validate=_validate_status),
    generation=("spec",),
    unconditional_update=False,
)
"""The behaviour of CustomResourceDefinitions, for the generic registry."""

"""The behaviour of every built-in kind, built from its declaration. Pure."""

from collections.abc import Callable, Mapping
from functools import cache

from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.all_kinds import KINDS
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core import disabled_fields
from vcsync.apimachinery.schema import builtin, walk
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Behaviour, Context, Object, StatusBehaviour


def behaviour(declared: Kind) -> Behaviour:
    """Return the behaviour of a kind."""
    shape = declared.shaped_as or (declared.group, declared.kind)
    return Behaviour(
        default=_default(shape, declared),
        prepare_create=_prepare_create(shape, declared),
        prepare_update=_prepare_update(shape, declared),
        validate=declared.validate,
        validate_update=declared.validate_update or _validate_again(declared),
        warnings=declared.warnings,
        fields=declared.fields,
        status=StatusBehaviour(declared.status_prepare, declared.status_validate)
        if declared.status
        else None,
        generation=declared.generation,
        name=declared.validate_name,
        unconditional_update=declared.unconditional_update,
        create_on_update=declared.create_on_update,
        grace_seconds=declared.grace_seconds,
    )


def _default(key: tuple[str, str], declared: Kind) -> Callable[[Object], None]:
    def default(found: Object) -> None:
        _normalize(key, found)
        normal = walk.fingerprint(found)
        declared.default(found)
        if normal is None or walk.fingerprint(found) != normal:
            _normalize(key, found)

    return default


def _prepare_create(key: tuple[str, str], declared: Kind) -> Callable[[Object, Context], None]:
    def prepare(new: Object, context: Context) -> None:
        if declared.status and not declared.status_on_create:
            new["status"] = {}
        disabled_fields.drop(declared.pod_spec, new)
        declared.prepare_create(new, context)
        _normalize(key, new)

    return prepare


def _prepare_update(key: tuple[str, str], declared: Kind) -> Callable[[Object, Object, Context], None]:
    def prepare(new: Object, old: Object, context: Context) -> None:
        if declared.status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        disabled_fields.drop(declared.pod_spec, new, old)
        declared.prepare_update(new, old, context)
        _normalize(key, new)

    return prepare


def _normalize(key: tuple[str, str], found: Object) -> None:
    """Normalize an object of the storage version in place, to the form in which it is stored."""
    schema = _schemas().get(key)
    if schema is not None:
        normal = walk.normalize(found, schema)
        found.clear()
        found.update(normal)


@cache
def _schemas() -> Mapping[tuple[str, str], Schema | None]:
    """Return the schemas of storage versions."""
    return {
        (each.storage_group, each.kind): builtin.schema(each.storage_group, each.storage, each.kind)
        for each in builtin.resources()
    }


def _validate_again(declared: Kind) -> Callable[[Object, Object], list[FieldError]]:
    def validate(new: Object, _: Object) -> list[FieldError]:
        return declared.validate(new)

    return validate


BEHAVIOURS: Mapping[tuple[str, str], Behaviour] = {(each.group, each.kind): behaviour(each) for each in KINDS}
"""Behaviours by group and kind. The kind `Event` exists in two groups."""

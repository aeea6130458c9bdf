"""The declaration of one built-in kind. Pure.

Each module `kinds/<group>/<kind>.py` holds one as `KIND`. The defaults are those of most kinds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.patch.resets import Reset
from vcsync.apimachinery.strategy import Context, Object, no_fields, none, nothing
from vcsync.apimachinery.wire.cells import Printer


@dataclass(frozen=True, slots=True)
class View:
    """The conversion between the storage version of a kind and one more served version.

    Attributes:
        to_storage: returns the stored form of an object that a client sent.
        from_storage: returns what a client of this version reads.

    Both return a new object and leave apiVersion and kind to the caller.
    """

    to_storage: Callable[[Object], Object]
    from_storage: Callable[[Object], Object]


@dataclass(frozen=True, slots=True)
class PartialWrite:
    """A write through a subresource that changes a part of the object.

    Attributes:
        prepare: (new, old, context) restores in `new` what the write may not change.
        validate: (new, old) returns the findings.
    """

    prepare: Callable[[Object, Object, Context], None]
    validate: Callable[[Object, Object], list[FieldError]]


@dataclass(frozen=True, slots=True)
class Kind:
    """Declaration of one built-in kind.

    `vcsync.apimachinery.schema.builtin` has the resource itself: versions, scope, verbs, short names and categories.

    Attributes:
        group, kind, plural: the kind's names.
        shaped_as: group and kind of the schema, if it is another kind's.
        pod_spec: the path of the Pod spec in the object, if it has one.
        generation: top-level fields whose change increments metadata.generation. Empty: the kind has no generation.
        status: whether the kind has a status that only its subresource writes.
        status_on_create: whether a create may set the status.
        unconditional_update: whether an update may omit the resourceVersion.
        create_on_update: whether an update of an object that does not exist creates it.
        default, prepare_create, prepare_update, validate, warnings, fields, grace_seconds: as in
            `vcsync.apimachinery.strategy.Behaviour`. `prepare_*` run after the steps that all kinds share.
        validate_update: as in `Behaviour`. None: an update is validated as a create is.
        validate_name: the findings on metadata.name, from (name, is_prefix). None: the name is a DNS subdomain.
        status_prepare, status_validate: what writes to the status subresource do.
        status_keeps_metadata: whether such a write leaves labels, annotations, finalizers and owners as they are.
        partial_writes: what writes to other subresources do, by name.
        columns: the cells of `kubectl get`, by column. None: the kind has the columns of kinds without a printer.
        row_conditions: the conditions of a row of `kubectl get`.
        row_order: the sort key of the rows, if they are not in the order of the list.
        resets: the fields that a write never owns, by subresource; the empty name is the object itself.
        any_finalizers: whether finalizers need no domain.
        repeats_finalizer_findings: whether findings on finalizers of an update appear twice, or, with `any_finalizers`,
            would: the validation of such a kind validates all metadata once more (`ValidateObjectMeta`).
        repeats_metadata_findings: whether the other findings on metadata of an update appear twice.
        repeats_metadata_after_rules: whether an update repeats them only after the rules of a create, as kinds do whose
            strategy validates an update as a create first.
        returned_on_deletion: whether a deletion is answered with the object instead of a Status.
        orphans_dependents: whether a deletion orphans dependents by default.
        views: further versions of the same object, by version.
        deprecations: the warnings of every answer, by version.
    """

    group: str
    kind: str
    plural: str
    shaped_as: tuple[str, str] | None = None
    pod_spec: tuple[str, ...] | None = None
    generation: tuple[str, ...] = ()
    status: bool = False
    status_on_create: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    default: Callable[[Object], None] = nothing
    prepare_create: Callable[[Object, Context], None] = nothing
    prepare_update: Callable[[Object, Object, Context], None] = nothing
    validate: Callable[[Object], list[FieldError]] = none
    validate_update: Callable[[Object, Object], list[FieldError]] | None = None
    validate_name: Callable[[str, bool], list[str]] | None = None
    warnings: Callable[[Object, Object | None], list[str]] = none
    fields: Callable[[Object], dict[str, str]] = no_fields
    grace_seconds: Callable[[Object, Object], int] | None = None
    status_prepare: Callable[[Object, Object, Context], None] = nothing
    status_validate: Callable[[Object, Object], list[FieldError]] = none
    status_keeps_metadata: bool = False
    partial_writes: Mapping[str, PartialWrite] = field(default_factory=dict)
    columns: Printer | None = None
    row_conditions: Callable[[Mapping[str, Any]], list[dict[str, str]]] = none
    row_order: Callable[[Mapping[str, Any]], Any] | None = None
    resets: Mapping[str, Reset] = field(default_factory=dict)
    any_finalizers: bool = False
    repeats_finalizer_findings: bool = False
    repeats_metadata_findings: bool = True
    repeats_metadata_after_rules: bool = False
    returned_on_deletion: bool = False
    orphans_dependents: bool = False
    views: Mapping[str, View] = field(default_factory=dict)
    deprecations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

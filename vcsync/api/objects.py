"""Our API objects, read from envelopes, and what is written back of them."""

from typing import Any, Literal, Self

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from vcsync.api.fields import Quantity
from vcsync.api.specs import (
    NamespacePlacementSpec,
    NamespacePlacementStatus,
    SuperClusterSpec,
    SuperClusterStatus,
    TenantSpec,
    TenantStatus,
    VirtualClusterSpec,
    VirtualClusterStatus,
)
from vcsync.kube.envelope import Envelope
from vcsync.kube.patches import create_merge_patch

_Part = Literal["spec", "status"]
_PARTS: tuple[_Part, ...] = ("spec", "status")


class InvalidObject(ValueError):
    """An object is not what its type promises; the text names object, field and problem."""


class _Object(Struct, frozen=True, kw_only=True):
    """Identity and metadata, the same for every object."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    deleting: bool = False

    @classmethod
    def from_envelope(cls, envelope: Envelope) -> Self:
        """Read one; raises `InvalidObject`."""
        types = {field.name: field.type for field in fields(cls)}
        return cls(
            **_metadata(envelope),
            **{part: _field(cls.__name__, envelope, part, types[part]) for part in _PARTS},
        )


class Tenant(_Object, frozen=True, kw_only=True):
    """Who owns a control plane. Cluster scoped."""

    spec: TenantSpec = TenantSpec()
    status: TenantStatus = TenantStatus()


class VirtualCluster(_Object, frozen=True, kw_only=True):
    """A tenant's control plane: all that syncers and schedulers read of a tenant. Namespaced."""

    spec: VirtualClusterSpec = VirtualClusterSpec()
    status: VirtualClusterStatus = VirtualClusterStatus()


class SuperCluster(_Object, frozen=True, kw_only=True):
    """A cluster of the pool. Cluster scoped."""

    spec: SuperClusterSpec
    status: SuperClusterStatus = SuperClusterStatus()


class NamespacePlacement(_Object, frozen=True, kw_only=True):
    """The ledger: where one namespace's slices are. In the root namespace, named like the namespace."""

    spec: NamespacePlacementSpec
    status: NamespacePlacementStatus = NamespacePlacementStatus()

    @property
    def dealt_size(self) -> dict[str, str]:
        """What one slice of its placements holds, by resource.

        It is written together with them: spec and status are two writes, and a size of the one with a number of slices of the
        other would be more than the namespace was ever given.
        """
        return {name: str(text) for name, text in (self.status.slice_size or self.spec.slice_size).items()}


def _metadata(envelope: Envelope) -> dict[str, Any]:
    return {
        "name": envelope.name,
        "namespace": envelope.namespace,
        "uid": envelope.uid,
        "resource_version": envelope.resource_version,
        "generation": envelope.generation,
        "labels": envelope.labels,
        "annotations": envelope.annotations,
        "finalizers": envelope.finalizers,
        "deleting": envelope.deleting,
    }


def _field(kind: str, envelope: Envelope, field: _Part, type_: Any) -> Any:
    raw = envelope.spec if field == "spec" else envelope.status
    try:
        return msgspec.json.decode(raw or b"{}", type=type_, dec_hook=_decode)
    except msgspec.ValidationError as error:
        name = f"{envelope.namespace}/{envelope.name}" if envelope.namespace else envelope.name
        problem = str(error)
        # msgspec tells the path within what it decoded, and none for the whole.
        problem = problem.replace("`$", f"`{field}") if "`$" in problem else f"{problem} - at `{field}`"
        raise InvalidObject(f"{kind} {name}: {problem}") from error


def _decode(type_: type, value: Any) -> Any:
    """Read what is no JSON type: quantities."""
    if not issubclass(type_, Quantity):
        raise NotImplementedError(type_)
    return type_.parse(value)


def to_wire(value: Struct) -> dict[str, Any]:
    """Return a spec or a status as plain JSON values in wire names; fields that are None are left out."""
    plain = _without_none(msgspec.to_builtins(value, enc_hook=str))
    assert isinstance(plain, dict)  # noqa: S101 - a Struct becomes a dict
    return plain


def _without_none(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: _without_none(value) for key, value in plain.items() if value is not None}
    return [_without_none(item) for item in plain] if isinstance(plain, list | tuple) else plain


def status_patch(old: Struct, new: Struct, *, resource_version: str = "") -> dict[str, Any] | None:
    """Return the smallest merge patch (RFC 7396) for the status subresource, None if nothing changes.

    Args:
        old: the status as it is, of the same type as `new`. Fields it does not know stay untouched.
        new: the status as it is to be.
        resource_version: if given, the write is refused (409) should the object have changed since.
    """
    change = create_merge_patch(to_wire(old), to_wire(new))
    if change is None:
        return None
    patch: dict[str, Any] = {"status": change}
    if resource_version:
        patch["metadata"] = {"resourceVersion": resource_version}
    return patch

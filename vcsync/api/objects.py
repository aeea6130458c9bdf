"""vcsync's own API objects: reads them from envelopes, and makes patches of their status."""

from typing import Any, Literal, Self

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from vcsync.api import names
from vcsync.api.fields import Quantity
from vcsync.api.specs import (
    NamespacePlacementSpec,
    NamespacePlacementStatus,
    SuperClusterSpec,
    SuperClusterStatus,
    TenantSpec,
    TenantStatus,
    TenantTemplateSpec,
    VirtualClusterSpec,
    VirtualClusterStatus,
)
from vcsync.objects.envelope import Envelope, encode, untyped
from vcsync.objects.merge_patch import create_merge_patch

_Part = Literal["spec", "status"]
_PARTS: tuple[_Part, ...] = ("spec", "status")


class InvalidObject(ValueError):
    """An object does not match its type; the message names the object, the field and the problem."""


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
    creation_timestamp: str = ""
    deleting: bool = False

    @classmethod
    def from_envelope(cls, envelope: Envelope) -> Self:
        """Read the object from an envelope.

        Raises:
            InvalidObject: spec or status does not match its type.
        """
        types = {field.name: field.type for field in fields(cls)}
        return cls(
            **_metadata(envelope),
            **{part: _field(cls.__name__, envelope, part, types[part]) for part in _PARTS if part in types},
        )


class Tenant(_Object, frozen=True, kw_only=True):
    """An owner of a control plane. Cluster scoped."""

    spec: TenantSpec = TenantSpec()
    status: TenantStatus = TenantStatus()


class TenantTemplate(_Object, frozen=True, kw_only=True):
    """Settings of all tenants whose Tenants name it. Cluster scoped."""

    spec: TenantTemplateSpec = TenantTemplateSpec()


class VirtualCluster(_Object, frozen=True, kw_only=True):
    """A tenant's control plane, with all settings that syncers and schedulers read. Namespaced."""

    spec: VirtualClusterSpec = VirtualClusterSpec()
    status: VirtualClusterStatus = VirtualClusterStatus()


class SuperCluster(_Object, frozen=True, kw_only=True):
    """A cluster of the pool. Cluster scoped.

    Attributes:
        spec: settings of operators.
        status: what its syncer and the namespace scheduler report.
        failure_problem: why `status.failure` cannot be read; empty if it can. Then it counts as absent.
    """

    spec: SuperClusterSpec
    status: SuperClusterStatus = SuperClusterStatus()
    failure_problem: str = ""

    @classmethod
    def from_envelope(cls, envelope: Envelope) -> Self:
        """Read the object from an envelope. A record of failures that cannot be read makes nothing else unreadable.

        Raises:
            InvalidObject: spec or status does not match its type.
        """
        try:
            return super().from_envelope(envelope)
        except InvalidObject as error:
            status = untyped(envelope.status)
            if not isinstance(status, dict) or status.pop("failure", None) is None:
                raise
            rest = replace(envelope, status=encode(status))
            return replace(super().from_envelope(rest), failure_problem=str(error))


class NamespacePlacement(_Object, frozen=True, kw_only=True):
    """The ledger entry of one namespace: where its slices are. In the root namespace, named like the namespace."""

    spec: NamespacePlacementSpec
    status: NamespacePlacementStatus = NamespacePlacementStatus()

    @property
    def placed_slice_size(self) -> dict[str, str]:
        """Size of one slice of the current placements, by resource.

        The size is written together with the placements. Spec and status are separate writes: a size from one multiplied by a
        number of slices from the other could exceed what the namespace ever had.
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
        "creation_timestamp": envelope.creation_timestamp,
        "deleting": envelope.deleting,
    }


def _field(kind: str, envelope: Envelope, field: _Part, type_: Any) -> Any:
    raw = envelope.spec if field == "spec" else envelope.status
    try:
        return msgspec.json.decode(raw or b"{}", type=type_, dec_hook=decode_quantity)
    except msgspec.ValidationError as error:
        name = f"{envelope.namespace}/{envelope.name}" if envelope.namespace else envelope.name
        problem = str(error)
        # msgspec reports a path within the decoded value, and no path for the value itself.
        problem = problem.replace("`$", f"`{field}") if "`$" in problem else f"{problem} - at `{field}`"
        raise InvalidObject(f"{kind} {name}: {problem}") from error


def decode_quantity(type_: type, value: Any) -> Any:
    """Decode quantities, which are not a JSON type."""
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
        old: the current status, of the same type as `new`. The patch leaves unknown fields unchanged.
        new: the desired status.
        resource_version: if set, the API server refuses the write (409) if the object has changed since.
    """
    change = create_merge_patch(to_wire(old), to_wire(new))
    if change is None:
        return None
    patch: dict[str, Any] = {"status": change}
    if resource_version:
        patch["metadata"] = {"resourceVersion": resource_version}
    return patch


def cluster_key(vc: VirtualCluster) -> str:
    """Return a tenant's cluster key: `status.clusterNamespace` if it is set, otherwise the computed key.

    Raises:
        InvalidName: the key is not valid; see `names.new_cluster_key`.
    """
    decided = vc.status.cluster_namespace
    if not decided:
        return names.new_cluster_key(vc.namespace, vc.name, vc.uid)
    if not names.is_dns_label(decided):
        raise names.InvalidName(
            f"VirtualCluster {vc.namespace}/{vc.name}: status.clusterNamespace {decided!r} "
            "is not a namespace name"
        )
    return decided

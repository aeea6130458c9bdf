"""Rules about PersistentVolumeClaims and ResourceClaims: copies have a source, and nothing to use against others."""

from collections.abc import Callable, Iterator
from typing import Any

from hack.audit import keys
from hack.audit.findings import Finding
from hack.audit.world import Json, World, annotations, labels, place, super_namespace, uid

CLAIMS = "persistentvolumeclaims"
_KINDS = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
"""API group and kind of each kind of source."""
_SOURCES = ("dataSource", "dataSourceRef")
_FIELDS = frozenset({"accessModes", "resources", "storageClassName", "volumeMode", "volumeName", *_SOURCES})
"""Fields of a copy; the super cluster's own binder sets `volumeName`, and its API server copies one source to the other."""
_SET_ON_BOTH_SIDES = (
    *keys.OUR_DOMAINS,
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
)
"""Prefixes of keys that vcsync sets, or each cluster's own controllers."""


def claims(world: World) -> Iterator[Finding]:
    """A copy of a claim has a source in the tenant, only harmless fields, and nothing else of the tenant's metadata."""
    return findings_of_copies(world, CLAIMS, _differences)


def findings_of_copies(
    world: World, plural: str, differences: Callable[[Json | None, Json], Iterator[tuple[str, str, Any, Any]]]
) -> Iterator[Finding]:
    """Yield the findings about copies of one kind.

    Args:
        world: all clusters.
        plural: the kind.
        differences: yields (rule, field, expected, actual) of a copy and its source, which may be missing.
    """
    places = (
        *((tenant, super_id, line) for tenant, _, super_id, _, line in world.placed()),
        *((tenant, super_id, line) for tenant, _, super_id, line in world.keeping()),
    )
    for tenant, super_id, line in places:
        there = super_namespace(tenant.key, line.namespace)
        for copy in world.supers[super_id].within(plural, there):
            if keys.CLUSTER not in annotations(copy):
                continue
            name = place(copy)[1]
            source = tenant.cluster.get(plural, line.namespace, name)
            for rule, *difference in differences(source, copy):
                yield Finding(rule, tenant.key, super_id, plural, there, name, *difference)


def _differences(source: Json | None, copy: Json) -> Iterator[tuple[str, str, Any, Any]]:
    stated = annotations(copy).get(keys.UID)
    if source is None or uid(source) != stated:
        yield "foreign", "", source and uid(source), stated
        return
    spec = copy.get("spec") or {}
    for field in sorted(spec.keys() - _FIELDS):
        yield "stale", f"spec.{field}", None, spec[field]
    named = source["spec"].get("dataSource") or source["spec"].get("dataSourceRef")
    for field in _SOURCES:
        found = spec.get(field)
        if found is not None and (_named(found) is None or _named(found) != _named(named)):
            yield "stale", f"spec.{field}", named, found
    wanted = source["spec"].get("storageClassName")
    if spec.get("storageClassName") != wanted:
        yield "stale", "spec.storageClassName", wanted, spec.get("storageClassName")
    yield from metadata_of_tenant(source, copy)


def metadata_of_tenant(source: Json, copy: Json) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield the labels and annotations of a tenant's object that its copy has, though it must not have any."""
    for field, theirs, ours in (
        ("labels", labels(source), labels(copy)),
        ("annotations", annotations(source), annotations(copy)),
    ):
        for key in sorted(theirs.keys() & ours.keys()):
            if not key.startswith(_SET_ON_BOTH_SIDES):
                yield "stale", f"metadata.{field}[{key}]", None, ours[key]


def _named(source: Json | None) -> tuple[str, str] | None:
    """Return kind and name of a claim or snapshot of the same namespace that a data source names; None for others."""
    found = source or {}
    kind = (found.get("apiGroup") or "", found.get("kind") or "")
    return None if found.get("namespace") or kind not in _KINDS else (kind[1], str(found.get("name", "")))


DEVICES = "resourceclaims"
_OF_AN_ALLOCATION = ("driver", "pool", "device", "nodeSelector")
"""Names of the operator's in the status of a claim."""


def device_claims(world: World) -> Iterator[Finding]:
    """A copy of a ResourceClaim has a source with the same spec, without commands; the source tells nothing of devices."""
    return findings_of_copies(world, DEVICES, _device_differences)


def _device_differences(source: Json | None, copy: Json) -> Iterator[tuple[str, str, Any, Any]]:
    stated = annotations(copy).get(keys.UID)
    if source is None or uid(source) != stated:
        if "deletionTimestamp" not in copy["metadata"]:  # Pods that use its devices have not ended
            yield "foreign", "", source and uid(source), stated
        return
    if copy["spec"] != source["spec"]:
        yield "stale", "spec", source["spec"], copy["spec"]
    if config := (copy["spec"].get("devices") or {}).get("config"):
        yield "stale", "spec.devices.config", None, config
    allocation = (source.get("status") or {}).get("allocation") or {}
    for field in sorted(_fields(allocation).intersection(_OF_AN_ALLOCATION)):
        yield "revealed", f"status.allocation: {field}", None, allocation


def _fields(value: Any) -> frozenset[str]:
    """Return the names of all fields within a value."""
    if isinstance(value, list):
        return frozenset().union(*map(_fields, value))
    return frozenset(value).union(*map(_fields, value.values())) if isinstance(value, dict) else frozenset()

"""Rules about VolumeSnapshots: each copy has a source, and names nothing but the tenant's own claim and its class."""

from collections.abc import Iterator
from typing import Any

from hack.audit import keys
from hack.audit.claims import findings_of_copies, metadata_of_tenant
from hack.audit.findings import Finding
from hack.audit.world import Json, World, annotations, uid

SNAPSHOTS = "volumesnapshots"


def snapshots(world: World) -> Iterator[Finding]:
    """A copy of a snapshot has a source in the tenant, its claim and class, and nothing else of the tenant's."""
    return findings_of_copies(world, SNAPSHOTS, _differences)


def _differences(source: Json | None, copy: Json) -> Iterator[tuple[str, str, Any, Any]]:
    stated = annotations(copy).get(keys.UID)
    if source is None or uid(source) != stated:
        if "deletionTimestamp" not in copy["metadata"]:  # the snapshotter has not removed its data yet
            yield "foreign", "", source and uid(source), stated
        return
    spec = _fields(source.get("spec"))
    wanted = {
        "source": {"persistentVolumeClaimName": _fields(spec.get("source")).get("persistentVolumeClaimName")},
        "volumeSnapshotClassName": spec.get("volumeSnapshotClassName"),
    }
    for field in sorted(wanted.keys() | copy["spec"].keys()):
        if copy["spec"].get(field) != wanted.get(field):
            yield "stale", f"spec.{field}", wanted.get(field), copy["spec"].get(field)
    yield from metadata_of_tenant(source, copy)


def _fields(value: Any) -> Json:
    """Return the fields of a value; none if it is no object. The CustomResourceDefinition is the tenant's."""
    return value if isinstance(value, dict) else {}

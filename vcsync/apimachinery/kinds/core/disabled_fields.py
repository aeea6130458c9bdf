"""Fields of Pods and pod templates whose feature gate is off by default. Pure.

They are dropped before validation unless the stored object has them, as `DropDisabledPodFields` and
`dropDisabledPodStatusFields` of Kubernetes' `pkg/api/pod` do.
"""

from collections.abc import Callable, Iterator

from vcsync.apimachinery.kinds.core import pod_defaults
from vcsync.apimachinery.validation.fields import Object, items, part


def drop(place: tuple[str, ...] | None, new: Object, old: Object | None = None) -> None:
    """Drop fields of disabled features from an object in place, unless `old` has them.

    Args:
        place: the path of the Pod spec in objects of this kind; None if it has none.
        new: the object to change.
        old: the object as it is stored, if it is updated.
    """
    if place is None:
        return
    spec, before = part(new, *place), part(old or {}, *place)
    for holders, name in _SPEC:
        if not any(name in each for each in holders(before)):
            for each in holders(spec):
                each.pop(name)
    _drop_stop_signals(spec, before)


def drop_status(new: Object, old: Object) -> None:
    """Drop fields of disabled features from a Pod's status in place, unless `old` has them."""
    status, before = part(new, "status"), part(old, "status")
    if not before.get("nodeAllocatableResourceClaimStatuses"):
        status.pop("nodeAllocatableResourceClaimStatuses", None)
    if not any("volumeStatus" in each for each in _status_mounts(before)):
        for each in _status_mounts(status):
            each.pop("volumeStatus", None)


def _drop_stop_signals(spec: Object, before: Object) -> None:
    if any("stopSignal" in each for _, each in _lifecycles(before)):
        return
    for container, lifecycle in _lifecycles(spec):
        if lifecycle.pop("stopSignal", None) is not None and not lifecycle:
            del container["lifecycle"]


def _lifecycles(spec: Object) -> Iterator[tuple[Object, Object]]:
    for _, _, container in pod_defaults.containers(spec, ephemeral=True):
        if isinstance(container.get("lifecycle"), dict):
            yield container, container["lifecycle"]


def _status_mounts(status: Object) -> Iterator[Object]:
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for each in items(status, kind):
            yield from items(each, "volumeMounts")


def _projected(name: str) -> Callable[[Object], list[Object]]:
    def holders(spec: Object) -> list[Object]:
        return [
            source
            for volume in items(spec, "volumes")
            for source in items(part(volume, "projected"), "sources")
            if name in source
        ]

    return holders


def _itself(spec: Object) -> list[Object]:
    return [spec] if "schedulingGroup" in spec else []


_SPEC: tuple[tuple[Callable[[Object], list[Object]], str], ...] = (
    (_itself, "schedulingGroup"),
    (_projected("clusterTrustBundle"), "clusterTrustBundle"),
    (_projected("podCertificate"), "podCertificate"),
)
"""(function that returns the objects that have a field, name of the field)."""

"""The schedulers' view of a super cluster: its capacity and health, and the settings that exclude slices."""

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct

from vcsync.api.specs import (
    DEFAULT_EVICTION_SECONDS,
    PublishedDefinition,
    PublishedDeviceClass,
    PublishedGatewayClass,
    PublishedIngressClass,
    PublishedPriorityClass,
    PublishedRuntimeClass,
    PublishedStorageClass,
    PublishedVolumeSnapshotClass,
)
from vcsync.objects.quantity import InvalidQuantity, milli
from vcsync.scheduling.resources import Resources


class Health(IntEnum):
    """The health of a super cluster; the higher the better."""

    LOST = 0
    """Nobody has known for longer than the grace period what happens there."""
    UNKNOWN = 1
    """The super cluster has never reported."""
    SUSPECT = 2
    """Heartbeats are late, or the syncer reports that the super cluster is not ready."""
    RECOVERING = 3
    """It failed, and reports again for less than the quiet time after which it counts as ready."""
    READY = 4


class Taint(Struct, frozen=True):
    """A taint of a super cluster. NoSchedule and NoExecute exclude slices, PreferNoSchedule makes it the last choice."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class SuperView(Struct, frozen=True):
    """One super cluster. Amounts are in thousandths of their unit.

    Attributes:
        id: id of the super cluster.
        health: its health.
        out_of_touch: since when nobody knows what happens there, in words; empty if somebody knows.
        capacity: amounts that may be distributed as slices.
        largest_node: the largest amount on one node, by resource. Resources that it does not name are unknown.
        cordoned: whether an operator excludes new slices.
        draining: whether all slices are to move elsewhere.
        fenced: whether an operator guarantees that no Pod runs there any more.
        eviction_seconds: seconds that Pods which have to leave wait for PodDisruptionBudgets.
        taints: its taints.
        price: price per hour and unit (a CPU, a GiB) in millionths, by resource.
        storage_classes: StorageClasses that it publishes to tenants.
        ingress_classes: IngressClasses that it publishes.
        priority_classes: PriorityClasses that it publishes.
        runtime_classes: RuntimeClasses that it publishes.
        device_classes: DeviceClasses that it publishes.
        network_id: network whose members route Pod addresses to each other; empty for none.
        volume_snapshot_classes: VolumeSnapshotClasses that it publishes.
        gateway_classes: GatewayClasses that it publishes.
        custom_resource_definitions: names and digests of the CustomResourceDefinitions that it publishes.
        nodes_version: changes with its nodes: readiness, taints, labels, allocatable amounts. Empty if that is not known.
    """

    id: str
    health: Health
    capacity: Resources
    largest_node: Resources = {}
    cordoned: bool = False
    draining: bool = False
    fenced: bool = False
    eviction_seconds: int = DEFAULT_EVICTION_SECONDS
    taints: tuple[Taint, ...] = ()
    price: Resources = {}
    storage_classes: tuple[PublishedStorageClass, ...] = ()
    ingress_classes: tuple[PublishedIngressClass, ...] = ()
    priority_classes: tuple[PublishedPriorityClass, ...] = ()
    runtime_classes: tuple[PublishedRuntimeClass, ...] = ()
    device_classes: tuple[PublishedDeviceClass, ...] = ()
    network_id: str = ""
    out_of_touch: str = ""
    volume_snapshot_classes: tuple[PublishedVolumeSnapshotClass, ...] = ()
    gateway_classes: tuple[PublishedGatewayClass, ...] = ()
    custom_resource_definitions: tuple[PublishedDefinition, ...] = ()
    nodes_version: str = ""

    def publishes(self, name: str) -> bool:
        """Return whether it publishes a StorageClass of this name to tenants."""
        return any(each.name == name for each in self.storage_classes)

    def publishes_runtime(self, name: str) -> bool:
        """Return whether it publishes a RuntimeClass of this name to tenants."""
        return any(each.name == name for each in self.runtime_classes)

    def publishes_devices(self, name: str) -> bool:
        """Return whether it publishes a DeviceClass of this name to tenants."""
        return any(each.name == name for each in self.device_classes)


def neighbours_of(views: Mapping[str, SuperView], super_id: str) -> frozenset[str]:
    """Return the other super clusters of the same network that are not lost."""
    own = views.get(super_id)
    if own is None or not own.network_id:
        return frozenset()
    return frozenset(
        each.id
        for each in views.values()
        if each.id != super_id and each.network_id == own.network_id and each.health is not Health.LOST
    )


class InvalidHeadroom(ValueError):
    """The headroom of a SuperCluster is invalid. The text names the field and the remedy."""


def distributable(
    allocatable: Mapping[str, int], headroom: Mapping[str, str], overcommit: Mapping[str, str]
) -> Resources:
    """Return the amounts that are distributed as slices, in thousandths; never below zero.

    Args:
        allocatable: allocatable amounts of all nodes, in thousandths.
        headroom: the part that the operator reserves, as a quantity or as a share like `10%`.
        overcommit: the share of the rest that is distributed, like `200%`.

    Raises:
        InvalidHeadroom: a text is neither a quantity nor a share, or negative.
    """
    return {
        name: max(0, amount - _reserved(name, amount, headroom.get(name)))
        * int(overcommit.get(name, "100%").removesuffix("%"))
        // 100
        for name, amount in allocatable.items()
    }


def _reserved(name: str, amount: int, text: str | None) -> int:
    if text is None:
        return 0
    try:
        reserved = -(-amount * milli(text[:-1]) // 100_000) if text.endswith("%") else milli(text)
    except InvalidQuantity as error:
        raise InvalidHeadroom(
            f"spec.headroom.{name}: {text!r} is neither a quantity like 2 or 4Gi nor a share like 10%"
        ) from error
    if reserved < 0:
        raise InvalidHeadroom(f"spec.headroom.{name}: {text!r} is negative; write 0 or more")
    return reserved

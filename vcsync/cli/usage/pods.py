"""Running time of tenants' Pods in super clusters, added up by tenant, super cluster, class and interval. Pure."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

import msgspec

from vcsync.api import names
from vcsync.cli.usage.amounts import GIB, SECONDS_PER_HOUR, Step
from vcsync.objects.envelope import Envelope
from vcsync.syncer.pod_spans import Seconds, decode

PRICES: Mapping[str, str] = {"cpu": "a core for an hour", "memory": "a GiB for an hour"}
"""Names of prices, and the unit of each. They are those of `SuperCluster.spec.prices`."""

_KEY = re.compile(r".+?-[0-9a-f]{6}-(.+)")


class PodHour(NamedTuple):
    """Usage by Pods of one class in one hour.

    Attributes:
        key: Cluster key of the tenant, which differs for a later tenant of the same name.
        super_cluster: Id of the super cluster.
        pod_class: QoS class, followed by `/` and the RuntimeClass if there is one.
        hour: Start of the hour.
        seconds: The amounts.
    """

    key: str
    super_cluster: str
    pod_class: str
    hour: datetime
    seconds: Seconds


class PodInterval(NamedTuple):
    """Usage by Pods of one class in an interval.

    Attributes:
        tenant: Name of the tenant.
        key: Cluster key of the tenant.
        super_cluster: Id of the super cluster.
        pod_class: Class of the Pods.
        begin: Start of the first hour.
        end: End of the last hour.
        pod_seconds: Running time, added up over all Pods.
        cpu_core_seconds: Requested cores times running time.
        memory_byte_seconds: Requested memory times running time.
    """

    tenant: str
    key: str
    super_cluster: str
    pod_class: str
    begin: datetime
    end: datetime
    pod_seconds: Decimal
    cpu_core_seconds: Decimal
    memory_byte_seconds: Decimal


class _Rest(msgspec.Struct):
    data: dict[str, str] = msgspec.field(default_factory=dict)


def tenant_of(key: str) -> str:
    """Return the name of the tenant with a cluster key."""
    found = _KEY.fullmatch(key)
    return found[1] if found else key


def pod_hours(config_map: Envelope) -> list[PodHour]:
    """Return what a ConfigMap of a syncer says.

    Raises:
        ValueError, msgspec.MsgspecError: No syncer wrote it.
    """
    hour = datetime.strptime(config_map.name.rpartition(".")[2], "%Y%m%d%H").replace(tzinfo=UTC)
    data = msgspec.json.decode(config_map.rest, type=_Rest).data if config_map.rest else {}
    super_cluster = config_map.labels.get(names.USAGE_OF, "")
    return [
        PodHour(key, super_cluster, pod_class, hour, seconds)
        for key, classes in decode(data).items()
        for pod_class, seconds in classes.items()
    ]


def pods_by_step(hours: Iterable[PodHour], step: Step) -> list[PodInterval]:
    """Add up hours by tenant, super cluster, class and step, in order. A day is one in UTC."""
    groups: dict[tuple[str, str, str, str, object], list[PodHour]] = {}
    for each in sorted(hours, key=lambda each: (tenant_of(each.key), *each[:4])):
        part = {"hour": each.hour, "day": each.hour.date(), "all": None}[step]
        group = (tenant_of(each.key), each.key, each.super_cluster, each.pod_class, part)
        groups.setdefault(group, []).append(each)
    return [
        PodInterval(
            tenant,
            key,
            super_cluster,
            pod_class,
            group[0].hour,
            group[-1].hour + timedelta(hours=1),
            Decimal(sum(each.seconds.pod_milliseconds for each in group)) / 1000,
            Decimal(sum(each.seconds.cpu_microseconds for each in group)) / 1_000_000,
            Decimal(sum(each.seconds.memory_byte_milliseconds for each in group)) / 1000,
        )
        for (tenant, key, super_cluster, pod_class, _), group in groups.items()
    ]


def pod_costs(used: PodInterval, prices: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Return the cost of what Pods took, by the name of the price."""
    amounts = {
        "cpu": used.cpu_core_seconds / SECONDS_PER_HOUR,
        "memory": used.memory_byte_seconds / SECONDS_PER_HOUR / GIB,
    }
    return {name: amounts[name] * price for name, price in prices.items() if name in amounts}

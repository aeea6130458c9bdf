"""`vcsync usage --pods`: running time of Pods from ConfigMaps, with costs, and the options of time."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from memory_cluster import MemoryCluster

from vcsync.api import names
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.usage.amounts import GIB
from vcsync.cli.usage.commands import interval, read_pods
from vcsync.cli.usage.opencost import pod_allocations
from vcsync.cli.usage.pods import PodHour, pod_costs, pods_by_step, tenant_of
from vcsync.cli.usage.prices import super_cluster_prices
from vcsync.cli.usage.rendering import rendered_pods
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.syncer.pod_spans import Seconds, encode

MIDNIGHT = datetime(2026, 11, 25, tzinfo=UTC)
ACME, LATER = "vcsync-123456-acme", "vcsync-abcdef-acme"
AN_HOUR = Seconds(2 * 3_600_000, 2 * 500 * 3_600_000, 2 * GIB * 3_600_000)
"""Two Pods of 500m and 1 GiB, for an hour."""


def hour(number: int, key: str = ACME, super_cluster: str = "r1", pod_class: str = "Burstable") -> PodHour:
    return PodHour(key, super_cluster, pod_class, MIDNIGHT + timedelta(hours=number), AN_HOUR)


@pytest.mark.parametrize(
    ("key", "tenant"),
    [
        (ACME, "acme"),
        ("vcsync-123456-abcdef-x", "abcdef-x"),
        ("other-space-00ff00-a-b", "a-b"),
        ("unknown", "unknown"),
    ],
)
def test_the_tenant_of_a_cluster_key(key: str, tenant: str) -> None:
    assert tenant_of(key) == tenant


def test_pods_are_added_up_by_tenant_super_cluster_and_class() -> None:
    hours = [
        hour(0),
        hour(1),
        hour(1, super_cluster="r2"),
        hour(1, pod_class="Guaranteed/gvisor"),
        hour(2, LATER),
    ]
    found = pods_by_step(hours, "all")
    assert [(each.key, each.super_cluster, each.pod_class, each.pod_seconds) for each in found] == [
        (ACME, "r1", "Burstable", 14_400),
        (ACME, "r1", "Guaranteed/gvisor", 7200),
        (ACME, "r2", "Burstable", 7200),
        (LATER, "r1", "Burstable", 7200),
    ]
    assert (found[0].begin, found[0].end) == (MIDNIGHT, MIDNIGHT + timedelta(hours=2))
    assert len(pods_by_step(hours, "hour")) == 5
    assert len(pods_by_step([hour(0), hour(23), hour(24)], "day")) == 2


def test_the_cost_of_pods_is_that_of_their_super_cluster() -> None:
    used = pods_by_step([hour(0), hour(0, super_cluster="r2")], "all")
    prices = {"r1": {"cpu": Decimal("0.03"), "memory": Decimal("0.004")}}
    assert pod_costs(used[0], prices["r1"]) == {"cpu": Decimal("0.03"), "memory": Decimal("0.008")}
    shown = json.loads(rendered_pods(used, "json", prices))["items"]
    assert [(each["superCluster"], each["cost"]) for each in shown] == [
        ("r1", "0.038000"),
        ("r2", "0.000000"),
    ]


def test_a_table_and_a_csv_of_pods() -> None:
    used = pods_by_step([hour(0)], "all")
    header, row = rendered_pods(used, "table", {}).splitlines()
    assert " ".join(header.split()) == (
        "TENANT SUPER CLUSTER CLASS FROM TO POD SECONDS CPU CORE SECONDS MEMORY BYTE SECONDS"
    )
    assert row.split()[:3] == ["acme", "r1", "Burstable"]
    assert rendered_pods(used, "csv", {}) == (
        "tenant,key,superCluster,class,begin,end,podSeconds,cpuCoreSeconds,memoryByteSeconds\n"
        "acme,vcsync-123456-acme,r1,Burstable,2026-11-25T00:00:00Z,2026-11-25T01:00:00Z,"
        "7200.000,3600.000000,7730941132800.000\n"
    )


def test_pods_in_the_shape_of_opencost() -> None:
    used = pods_by_step([hour(0), hour(1)], "all")
    answer = pod_allocations(used, {"r1": {"cpu": Decimal(3), "memory": Decimal(1)}})
    [window] = answer["data"]
    found = window["r1/acme/Burstable"]
    assert (found["properties"]["cluster"], found["minutes"]) == ("r1", 120)
    assert (found["cpuCores"], found["cpuCoreHours"], found["cpuCost"]) == (1, 2, 6)
    assert (found["ramBytes"], found["ramByteHours"], found["ramCost"]) == (2 * GIB, 4 * GIB, 4)
    assert found["totalCost"] == 10


async def test_pods_and_prices_are_read_from_the_meta_cluster() -> None:
    meta = MemoryCluster("meta")
    meta.put(
        CONFIG_MAPS,
        "r1.1-1.2026112500",
        names.USAGE_NAMESPACE,
        metadata={"labels": {names.USAGE_OF: "r1"}},
        data=encode({ACME: {"Burstable": AN_HOUR}}),
    )
    meta.put(CONFIG_MAPS, "kube-root-ca.crt", names.USAGE_NAMESPACE, data={"ca.crt": "x"})
    meta.put(SUPER_CLUSTERS, "r1", spec={"id": "r1", "prices": {"cpu": "0.03", "nvidia.com/gpu": "2"}})
    assert await read_pods(meta) == [hour(0)]  # type: ignore[arg-type]
    assert await super_cluster_prices(meta) == {"r1": {"cpu": Decimal("0.03")}}  # type: ignore[arg-type]


NOW = datetime(2026, 11, 25, 5, 30, tzinfo=UTC)


def test_the_interval_is_the_last_day_unless_it_is_given() -> None:
    assert interval("", "", NOW) == (NOW - timedelta(days=1), NOW)
    assert interval("2026-11-01", "2026-11-02T00:00:00+01:00", NOW) == (
        datetime(2026, 11, 1, tzinfo=UTC),
        datetime(2026, 11, 1, 23, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("begin", "end", "said"),
    [("yesterday", "", "--from"), ("", "now", "--to"), ("2026-12-01", "2026-11-01", "before that of --to")],
)
def test_malformed_times_are_refused(begin: str, end: str, said: str) -> None:
    with pytest.raises(WrongInputError, match=said):
        interval(begin, end, NOW)

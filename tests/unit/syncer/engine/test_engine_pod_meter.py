"""Running time of Pods: spans, hours, restarts, failures, two leaders and several shards."""

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_cluster import MemoryCluster

from vcsync.api import names
from vcsync.kube.cache import Change
from vcsync.kube.errors import ServerError, Status
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.objects.envelope import parse
from vcsync.objects.times import unix_time_text
from vcsync.syncer import pod_meter
from vcsync.syncer.pod_meter import LAG, PodMeter
from vcsync.syncer.pod_spans import HOUR, Seconds, Span, add, decode, encode, pieces, span_of

KEY = "vcsync-123456-acme"
NOON = 1_700_000_000 // 3600 * 3600
MIB = 2**20


def pod(name="web", start=NOON, tenant=KEY, **more):
    """Return a running Pod of 500m and 64 MiB in a super cluster."""
    status = {"phase": "Running", "qosClass": "Burstable", "startTime": unix_time_text(start)}
    container = {"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}
    body = {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "namespace": names.super_namespace(tenant, "shop"),
            "annotations": {names.CLUSTER: tenant, names.NAMESPACE: "shop"},
        },
        "spec": {"containers": [container], **more.pop("spec", {})},
        "status": {**status, **more},
    }
    return parse(json.dumps(body).encode())


def terminated(*seconds):
    return [{"state": {"terminated": {"finishedAt": unix_time_text(each)}}} for each in seconds]


def test_a_pod_counts_from_its_start_with_its_requests():
    span = span_of(pod())
    assert span == Span(KEY, "Burstable", NOON * 1000, None, 500, 64 * MIB)


def test_the_class_of_a_pod_is_its_qos_class_and_its_runtime_class():
    found = span_of(pod(qosClass="Guaranteed", spec={"runtimeClassName": "gvisor"}))
    assert found is not None
    assert found.pod_class == "Guaranteed/gvisor"


@pytest.mark.parametrize(
    ("more", "ended", "end"),
    [
        ({"phase": "Succeeded", "containerStatuses": terminated(NOON + 5, NOON + 9)}, 0, NOON + 9),
        ({"phase": "Failed", "containerStatuses": terminated(NOON - 5)}, 0, NOON),
        ({"phase": "Failed"}, 0, NOON),
        ({"phase": "Failed"}, (NOON + 7) * 1000, NOON + 7),
        ({"phase": "Running", "containerStatuses": terminated(NOON + 5)}, 0, None),
    ],
)
def test_a_pod_ends_with_its_last_container(more, ended, end):
    span = span_of(pod(**more), ended)
    assert span is not None
    assert span.end == (None if end is None else end * 1000)


def test_a_pod_that_has_not_begun_or_is_no_copy_of_a_tenants_does_not_count():
    assert span_of(pod(startTime=None)) is None
    moved = parse(
        b'{"metadata":{"name":"x","namespace":"elsewhere","annotations":{"tenancy.x-k8s.io/cluster":"vcsync-123456-acme",'
        b'"tenancy.x-k8s.io/namespace":"shop"}},"status":{"startTime":"2026-01-01T00:00:00Z"}}'
    )
    assert span_of(moved) is None


TIMES = st.integers(0, 10 * HOUR)
SPANS = st.builds(
    lambda begin, length, cpu, memory: Span(
        KEY, "Burstable", begin, None if length is None else begin + length, cpu, memory
    ),
    TIMES,
    st.none() | st.integers(0, 3 * HOUR),
    st.integers(0, 100_000),
    st.integers(0, 2**40),
)


@given(TIMES, TIMES)
def test_an_interval_is_divided_at_hours_without_gap_or_overlap(begin, end):
    parts = list(pieces(begin, end))
    assert sum(last - first for first, last in parts) == max(0, end - begin)
    assert all(first // HOUR == (last - 1) // HOUR for first, last in parts)
    assert all(one[1] == other[0] for one, other in itertools.pairwise(parts))


@given(st.lists(SPANS), st.lists(TIMES, min_size=2))
def test_sums_do_not_depend_on_the_moments_of_writes(spans, moments):
    moments = sorted(moments)
    once, often = {}, {}
    add(once, spans, moments[0], moments[-1])
    for begin, end in itertools.pairwise(moments):
        for first, last in pieces(begin, end):
            add(often, spans, first, last)
            often = decode(encode(often))
    assert once == often


class Clock:
    def __init__(self):
        self.now = float(NOON)

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def meta():
    return MemoryCluster("meta")


@pytest.fixture
def start(meta, clock):
    """Start a syncer with the Pods that there are."""

    def started(*pods, shard=(1, 1), owns=lambda _: True):
        meter = PodMeter(meta=meta, super_id="r1", shard=shard, owns=owns, clock=clock)
        for each in pods:
            meter.observe(Change(None, each))
        return meter

    return started


def seconds(meta, tenant=KEY):
    """Return (hour, running seconds) of each ConfigMap."""
    return [
        (each["metadata"]["name"], decode(each["data"])[tenant]["Burstable"].pod_milliseconds / 1000)
        for each in meta.all(CONFIG_MAPS)
        if tenant in each["data"]
    ]


def total(meta, tenant=KEY):
    return sum(found for _, found in seconds(meta, tenant))


async def test_a_running_pod_is_counted_in_each_hour(start, meta, clock):
    meter = start(pod())
    await meter.write()
    for clock.now in (NOON + 1000, NOON + 3600, NOON + 4000):
        await meter.write()
    assert seconds(meta) == [("r1.1-1.2023111422", 3600), ("r1.1-1.2023111423", 400 - LAG / 1000)]
    found = decode(meta.found(CONFIG_MAPS, "r1.1-1.2023111422", names.USAGE_NAMESPACE)["data"])
    assert found == {
        KEY: {
            "Burstable": Seconds(
                pod_milliseconds=3_600_000,
                cpu_microseconds=1_800_000_000,
                memory_byte_milliseconds=3_600_000 * 64 * MIB,
            )
        }
    }


async def test_a_deleted_pod_counts_until_its_deletion(start, meta, clock):
    meter = start(pod())
    await meter.write()
    clock.now += 100
    meter.observe(Change(pod(), None, reported=True))
    for _ in range(3):
        clock.now += 1000
        await meter.write()
    assert total(meta) == 100


async def test_an_ended_pod_counts_until_its_end_as_long_as_it_exists(start, meta, clock):
    meter = start(pod())
    await meter.write()
    ended = pod(phase="Succeeded", containerStatuses=terminated(NOON + 60))
    clock.now += 65
    meter.observe(Change(pod(), ended))
    for _ in range(3):
        clock.now += 1000
        await meter.write()
    meter.observe(Change(ended, None, reported=True))
    clock.now += 1000
    await meter.write()
    assert total(meta) == 60


async def test_an_evicted_pod_counts_until_it_was_seen_to_end_but_not_again_after_a_restart(
    start, meta, clock
):
    meter = start(pod())
    await meter.write()
    clock.now += 50
    meter.observe(Change(pod(), pod(phase="Failed")))
    clock.now += 100
    meter.observe(Change(pod(phase="Failed"), pod(phase="Failed", reason="Evicted")))
    await meter.write()
    clock.now += 1000
    meter = start(pod(phase="Failed"))
    await meter.write()
    assert total(meta) == 50


async def test_a_restart_neither_loses_nor_repeats_the_time_of_pods_that_run(start, meta, clock):
    for _ in range(4):
        meter = start(pod())
        await meter.write()
        clock.now += 500
        await meter.write()
        clock.now += 300
    meter = start(pod())
    await meter.write()
    assert total(meta) == clock.now - NOON - LAG / 1000


async def test_a_pod_that_began_while_no_syncer_ran_is_counted_from_its_start(start, meta, clock):
    await start().write()
    clock.now += 1000
    await start(pod(start=NOON + 400)).write()
    assert total(meta) == 600 - LAG / 1000


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["create", "patch"])
async def test_a_write_without_an_answer_is_neither_lost_nor_counted_twice(start, meta, clock, moment, verb):
    meter = start(pod())
    await meter.write()
    clock.now += 100
    if verb == "patch":
        await meter.write()
        clock.now += 100
    failures = [verb]

    def fail(called, plural, name):
        if failures and called == failures[0]:
            failures.pop()
            raise ServerError(Status(500, "InternalError", "no answer"), endpoint="meta")

    setattr(meta, moment, fail)
    await meter.write()
    assert not failures
    for _ in range(2):
        clock.now += 100
        await meter.write()
    assert total(meta) == clock.now - NOON - LAG / 1000


async def test_two_leaders_do_not_count_the_same_time(start, meta, clock):
    meters = [start(pod()), start(pod())]
    for round_ in range(20):
        clock.now += 400
        await meters[round_ % 2].write()
        if round_ % 3 == 0:
            await meters[(round_ + 1) % 2].write()
    for _ in range(2):
        for meter in meters:
            await meter.write()
    # Counting begins with the first write, which counts what is older than the lag.
    assert total(meta) == clock.now - NOON - 400


async def test_another_number_of_shards_continues_where_the_earlier_ones_ended(start, meta, clock):
    await start(pod()).write()
    for shard in ((1, 1), (1, 2), (1, 1), (1, 3)):
        clock.now += 100
        await start(pod(), shard=shard).write()
    assert total(meta) == 400 - LAG / 1000


async def test_a_shard_counts_its_own_tenants_and_does_not_continue_at_the_end_of_another(start, meta, clock):
    other = "vcsync-654321-beta"
    mine = start(pod(), pod("db", tenant=other), shard=(1, 2), owns=lambda key: key == KEY)
    theirs = start(pod(), pod("db", tenant=other), shard=(2, 2), owns=lambda key: key == other)
    for meter in (mine, theirs):
        await meter.write()
    clock.now += 100
    await mine.write()
    restarted = start(pod("db", tenant=other), shard=(2, 2), owns=lambda key: key == other)
    await restarted.write()
    assert total(meta) == total(meta, other) == 100 - LAG / 1000


async def test_a_clock_that_is_set_back_counts_nothing_twice(start, meta, clock):
    meter = start(pod())
    await meter.write()
    for clock.now in (NOON + 500, NOON + 100, NOON + 300, NOON + 600):
        await meter.write()
    assert total(meta) == 600 - LAG / 1000


async def test_old_config_maps_are_removed(start, meta, clock):
    meter = start(pod())
    await meter.write()
    for _ in range(3):
        clock.now += pod_meter.KEPT / 1000 / 2 + 7200
        await start(pod(start=math.floor(clock.now))).write()
    oldest = min(int(each["metadata"]["annotations"][names.COUNTED_UNTIL]) for each in meta.all(CONFIG_MAPS))
    assert oldest >= (clock.now * 1000 - LAG - pod_meter.KEPT) - HOUR


async def test_a_malformed_pod_is_skipped(start, meta, clock):
    meter = start(pod(startTime="yesterday"), pod(name="two", start=NOON))
    await meter.write()
    clock.now += 100
    await meter.write()
    assert total(meta) == 100 - LAG / 1000

"""Files of snapshots, and the replay of decisions on them."""

import json

import pytest
from hypothesis import given
from msgspec.structs import replace
from whatif_pools import namespace, pool, pools, super_cluster

from vcsync.whatif.replay import replay
from vcsync.whatif.snapshot import InvalidSnapshot, ordered, read, write

TWO = (super_cluster("r1", 4, prices={"cpu": "0.04"}), super_cluster("r2", 4))
SNAPSHOT = pool(TWO, namespace("shop", 3, r1=2, r2=1))


@given(pools())
def test_a_snapshot_is_read_as_it_was_written(snapshot):
    assert read(write(snapshot)) == ordered(snapshot)
    assert write(read(write(snapshot))) == write(snapshot)


def changed(**fields):
    return json.dumps({**json.loads(write(SNAPSHOT)), **fields}).encode()


def part(field, **fields):
    [first, *rest] = json.loads(write(SNAPSHOT))[field]
    return changed(**{field: [{**first, **fields}, *rest]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"no json", "not a snapshot"),
        (b"[" * 100_000, "not a snapshot"),
        (b'{"kind":"Pod"}', "kind: 'Pod' is not PoolSnapshot; 'vcsync snapshot save' writes one"),
        (changed(version=3), "version: 3 is not 1 or 2; use the version of vcsync that saved it"),
        (changed(extra=1), "unknown field `extra`"),
        (changed(policy="best"), "policy: 'best' is not one of cheap, pack, spread"),
        (changed(tenants=[]), "namespaces k-acme/shop: tenant: k-acme is not in tenants"),
        (changed(lostAfterSeconds=-1), "Expected `int` >= 0"),
        (part("superClusters", id="r2"), "superClusters: r2 occurs twice"),
        (part("superClusters", health="Well"), "superClusters r1: health: 'Well' is not one of"),
        (
            part("superClusters", allocatable={"cpu": "-1"}),
            "superClusters r1: allocatable: cpu must be at least",
        ),
        (part("superClusters", allocatable={"cpu": "much"}), "superClusters r1: allocatable: "),
        (part("superClusters", headroom={"cpu": "x%"}), "superClusters r1: spec.headroom.cpu: 'x%'"),
        (part("superClusters", overcommit={"cpu": "x"}), "superClusters r1: overcommit cpu: 'x'"),
        (part("superClusters", prices={"cpu": "1e3"}), "superClusters r1: prices: '1e3'"),
        (part("tenants", weight=0), "tenants k-acme: weight: 0 is less than 1"),
        (
            part("namespaces", sliceSize={"cpu": "0"}),
            "namespaces k-acme/shop: sliceSize: cpu must be more than",
        ),
        (part("namespaces", sliceSize={}), "namespaces k-acme/shop: sliceSize: it is empty"),
        (
            part("namespaces", placements={"r1": -1}),
            "namespaces k-acme/shop: a number of slices is not from 0",
        ),
        (part("namespaces", slices=1001), "namespaces k-acme/shop: a number of slices is not from 0 to 1000"),
    ],
)
def test_files_that_are_no_snapshot_are_refused_by_field_and_remedy(text, message):
    with pytest.raises(InvalidSnapshot, match=message):
        read(text)


def test_a_settled_pool_replays_to_the_same_result():
    found = replay(SNAPSHOT)
    assert (found.decided, found.skipped, found.differences) == (1, 0, ())


def test_a_replay_names_each_namespace_with_another_result():
    other = replace(namespace("new", 2), waiting=2)
    [difference] = replay(pool(TWO, namespace("shop", 3, r1=2, r2=1), other)).differences
    assert (difference.tenant, difference.namespace) == ("acme", "new")
    assert (difference.stored, difference.decided) == ({}, {"r1": 1, "r2": 1})
    assert (difference.stored_waiting, difference.decided_waiting) == (2, 0)


def test_nothing_is_decided_about_a_namespace_that_is_leaving():
    found = replay(pool(TWO, replace(namespace("old", 2), leaving=True)))
    assert (found.decided, found.skipped, found.differences) == (0, 1, ())

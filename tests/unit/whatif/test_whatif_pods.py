"""Counts of Pods in a snapshot: by namespace and super cluster, those with claims, and the slices that claims need."""

import json

from msgspec.structs import replace
from whatif_pools import namespace, pool, super_cluster

from vcsync.api import names
from vcsync.objects.envelope import parse
from vcsync.whatif.pods import TenantPods, with_pods
from vcsync.whatif.snapshot import PodCounts, TenantState

SUPERS = (super_cluster("r1"), super_cluster("r2"))
ACME = TenantState(key="k-acme", name="acme")


def on(super_id, name, where="shop", **metadata):
    return {"name": name, "namespace": where, "labels": {names.SUPER_CLUSTER: super_id}, **metadata}


def made(kind, metadata, **parts):
    return parse(json.dumps({"apiVersion": "v1", "kind": kind, "metadata": metadata, **parts}).encode())


def pod(super_id, name, *claims, cpu="700m", owner="ReplicaSet", where="shop"):
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u", "controller": True}]
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return made(
        "Pod",
        on(super_id, name, where, ownerReferences=owners),
        spec={"containers": [container], "volumes": volumes},
    )


def claim(super_id, name):
    return made("PersistentVolumeClaim", on(super_id, name))


def counted(pods=(), claims=(), **placements):
    shop = namespace("shop", 4, **(placements or {"r1": 2, "r2": 2}))
    there = TenantPods()
    there.add_pods(pods)
    there.add_claims(claims)
    found = with_pods(pool(SUPERS, shop, tenants=[ACME]), {"k-acme": there})
    assert [each.pods_known for each in found.tenants] == [True]
    return found.namespaces[0].pods


def test_pods_are_counted_by_super_cluster():
    pods = [
        pod("r1", "a"),
        pod("r2", "b"),
        pod("r2", "c-0", owner="StatefulSet"),
        pod("r2", "d", "data"),
        pod("r2", "e-0", "data", owner="StatefulSet"),
        pod("r2", "f", where="other"),
    ]
    assert counted(pods, [claim("r2", "data")]) == {
        "r1": PodCounts(pods=1),
        "r2": PodCounts(pods=4, with_claims=2, of_stateful_sets=1, slices=2),
    }


def test_a_claim_without_a_pod_needs_a_slice():
    assert counted(claims=[claim("r2", "data")]) == {"r2": PodCounts(slices=1)}


def test_pods_whose_claims_are_not_there_yet_need_no_slice():
    assert counted([pod("r2", "a", "data")]) == {"r2": PodCounts(pods=1, with_claims=1)}


def test_what_runs_nowhere_and_what_has_no_slices_is_left_out():
    assert counted([pod("r2", "a", cpu="much"), pod("r9", "b")], r1=4) == {}


def test_tenants_that_did_not_answer_stay_unknown():
    snapshot = pool(SUPERS, namespace("shop", 1, r1=1), tenants=[ACME])
    assert with_pods(snapshot, {}) == snapshot
    other = replace(ACME, key="k-other", name="other")
    found = with_pods(replace(snapshot, tenants=(ACME, other)), {"k-other": TenantPods()})
    assert [each.pods_known for each in found.tenants] == [False, True]

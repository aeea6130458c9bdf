"""Deletions and partial writes."""

from datetime import UTC, datetime, timedelta

import pytest

from vcsync.controlplane.rest.deletion import collect, later, policy
from vcsync.controlplane.rest.options import DeleteOptions

CORE = "/api/v1/namespaces/default"
BASE = f"{CORE}/configmaps"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
MERGE = {"Content_Type": "application/merge-patch+json"}


async def test_a_deletion_answers_a_status_with_the_uid(api, config_map):
    made = await api("POST", BASE, config_map("a"))
    told = await api("DELETE", f"{BASE}/a")
    assert told.body == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made["metadata.uid"]},
    }  # fmt: skip


async def test_some_kinds_answer_the_object(api):
    await api("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "s"}})
    told = await api("DELETE", f"{CORE}/serviceaccounts/s")
    assert (told.status, told["kind"]) == (200, "ServiceAccount")


async def test_finalizers_hold_an_object_until_they_are_gone(api):
    await api("POST", BASE, {"metadata": {"name": "a", "finalizers": ["example.com/wait"]}})
    told = await api("DELETE", f"{BASE}/a")
    assert told["metadata.deletionTimestamp"]
    assert told["metadata.deletionGracePeriodSeconds"] == 0
    again = await api("POST", BASE, {"metadata": {"name": "a"}})
    assert again["message"] == 'object is being deleted: configmaps "a" already exists'
    more = await api(
        "PATCH", f"{BASE}/a", {"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}}, **MERGE
    )
    assert more.status == 422
    freed = await api("PATCH", f"{BASE}/a", {"metadata": {"finalizers": None}}, **MERGE)
    assert freed.status == 200
    assert (await api("GET", f"{BASE}/a")).status == 404


@pytest.mark.parametrize(
    ("query", "finalizer"),
    [("propagationPolicy=Foreground", "foregroundDeletion"), ("propagationPolicy=Orphan", "orphan")],
)
async def test_policies_become_finalizers(api, config_map, query, finalizer):
    await api("POST", BASE, config_map("a"))
    told = await api("DELETE", f"{BASE}/a?{query}")
    assert told["metadata.finalizers"] == [finalizer]


@pytest.mark.parametrize(
    ("conditions", "status"), [({"uid": "other"}, 409), ({"resourceVersion": "1"}, 409), ({}, 200)]
)
async def test_preconditions_must_hold(api, config_map, conditions, status):
    await api("POST", BASE, config_map("a"))
    assert (await api("DELETE", f"{BASE}/a", {"preconditions": conditions})).status == status


async def test_a_running_pod_is_deleted_gracefully(api):
    await api("POST", f"{CORE}/pods", POD)
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert (await api("POST", f"{CORE}/pods/p/binding", binding)).status == 201
    assert (await api("POST", f"{CORE}/pods/p/binding", binding)).status == 409
    told = await api("DELETE", f"{CORE}/pods/p")
    assert told["metadata.deletionGracePeriodSeconds"] == 30
    shorter = await api("DELETE", f"{CORE}/pods/p?gracePeriodSeconds=5")
    assert shorter["metadata.deletionGracePeriodSeconds"] == 5
    assert (await api("DELETE", f"{CORE}/pods/p?gracePeriodSeconds=0")).status == 200
    assert (await api("GET", f"{CORE}/pods/p")).status == 404


@pytest.mark.parametrize("grace", [10**10, 10**11, 2**63 - 1])
async def test_a_pod_with_years_of_grace_can_be_told_to_go_sooner(api, grace):
    pod = {**POD, "spec": {**POD["spec"], "nodeName": "n", "terminationGracePeriodSeconds": grace}}
    assert (await api("POST", f"{CORE}/pods", pod)).status == 201
    told = await api("DELETE", f"{CORE}/pods/p")
    assert told["metadata.deletionGracePeriodSeconds"] == grace
    shorter = await api("DELETE", f"{CORE}/pods/p?gracePeriodSeconds=60")
    assert shorter["metadata.deletionGracePeriodSeconds"] == 60
    ends = datetime.fromisoformat(shorter["metadata.deletionTimestamp"])
    assert timedelta(seconds=50) < ends - datetime.now(UTC) <= timedelta(seconds=60)
    assert (await api("DELETE", f"{CORE}/pods/p?gracePeriodSeconds=0")).status == 200
    assert (await api("GET", f"{CORE}/pods/p")).status == 404


async def test_a_pod_without_a_node_goes_at_once(api):
    await api("POST", f"{CORE}/pods", POD)
    assert (await api("DELETE", f"{CORE}/pods/p"))["kind"] == "Pod"
    assert (await api("GET", f"{CORE}/pods/p")).status == 404


@pytest.mark.parametrize(
    ("finalizers", "options", "resource", "expected"),
    [
        ([], DeleteOptions(), ("apps", "deployments"), (False, False)),
        ([], DeleteOptions(), ("", "replicationcontrollers"), (True, False)),
        ([], DeleteOptions(policy="Background"), ("", "replicationcontrollers"), (False, False)),
        ([], DeleteOptions(orphan=True), ("apps", "deployments"), (True, False)),
        ([], DeleteOptions(orphan=False), ("apps", "deployments"), (False, False)),
        (["foregroundDeletion"], DeleteOptions(), ("apps", "deployments"), (False, True)),
        (["orphan"], DeleteOptions(policy="Foreground"), ("apps", "deployments"), (False, True)),
        (["orphan"], DeleteOptions(), ("", "events"), (False, False)),
    ],
)
def test_who_decides_what_becomes_of_dependents(finalizers, options, resource, expected):
    assert policy(finalizers, options, resource) == expected


def test_the_collector_s_finalizers_are_replaced():
    metadata = {"finalizers": ["a/b", "orphan"]}
    assert collect(metadata, DeleteOptions(policy="Foreground"), ("apps", "deployments"))
    assert metadata["finalizers"] == ["a/b", "foregroundDeletion"]
    assert not collect(metadata, DeleteOptions(), ("apps", "deployments"))


def test_times_move_by_seconds():
    assert later("2026-01-01T00:00:00Z", 90) == "2026-01-01T00:01:30Z"


async def test_evictions_respect_budgets(api):
    await api("POST", f"{CORE}/pods", {**POD, "metadata": {"name": "p", "labels": {"a": "b"}}})
    await api("PATCH", f"{CORE}/pods/p/status", {"status": RUNNING}, **MERGE)
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
    made = await api("POST", budgets, budget)
    assert made.status == 201, made.body
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    early = await api("POST", f"{CORE}/pods/p/eviction", eviction)
    assert (early.status, early["reason"]) == (429, "TooManyRequests")
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    await api("PATCH", f"{budgets}/b/status", {"status": status}, **MERGE)
    held = await api("POST", f"{CORE}/pods/p/eviction", eviction)
    assert (
        held["details.causes.0.message"] == "The disruption budget b needs 1 healthy pods and has 1 currently"
    )
    await api("PATCH", f"{budgets}/b/status", {"status": {"disruptionsAllowed": 1}}, **MERGE)
    assert (await api("POST", f"{CORE}/pods/p/eviction", eviction)).status == 201
    assert (await api("GET", f"{CORE}/pods/p")).status == 404
    after = await api("GET", f"{budgets}/b")
    assert after["status.disruptionsAllowed"] == 0
    assert after["status.disruptedPods"].keys() == {"p"}


async def test_scales_are_read_and_written(api):
    path = "/apis/apps/v1/namespaces/default/deployments"
    spec = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
    await api("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    shown = await api("GET", f"{path}/d/scale")
    assert (shown["kind"], shown["spec.replicas"], shown["status.selector"]) == ("Scale", 1, "a=b")
    assert (await api("PUT", f"{path}/d/scale", {"metadata": {"name": "d"}, "spec": {"replicas": 4}}))[
        "spec.replicas"
    ] == 4
    assert (await api("PATCH", f"{path}/d/scale", {"spec": {"replicas": 2}}, **MERGE))["spec.replicas"] == 2
    assert (await api("GET", f"{path}/d"))["spec.replicas"] == 2
    assert (
        await api("PUT", f"{path}/d/scale", {"metadata": {"name": "d"}, "spec": {"replicas": -1}})
    ).status == 422


async def test_services_get_addresses_of_their_own(api):
    seen = set()
    for number in range(5):
        made = await api(
            "POST",
            f"{CORE}/services",
            {"metadata": {"name": f"s{number}"}, "spec": {"ports": [{"port": 80}]}},
        )
        assert made.status == 201, made.body
        seen.add(made["spec.clusterIP"])
    assert len(seen) == 5
    taken = await api(
        "POST",
        f"{CORE}/services",
        {"metadata": {"name": "t"}, "spec": {"clusterIP": min(seen), "ports": [{"port": 80}]}},
    )
    assert taken.status == 422
    assert "provided IP is already allocated" in taken["message"]
    listed = await api("GET", "/apis/networking.k8s.io/v1/ipaddresses")
    assert {each["metadata"]["name"] for each in listed["items"]} == seen
    await api("DELETE", f"{CORE}/services/s0")
    assert len((await api("GET", "/apis/networking.k8s.io/v1/ipaddresses"))["items"]) == 4


async def test_streams_are_not_there_yet_and_say_so(api):
    await api("POST", f"{CORE}/pods", POD)
    told = await api("GET", f"{CORE}/pods/p/log")
    assert (told.status, told["reason"]) == (501, "NotImplemented")
    assert (await api("GET", f"{CORE}/pods/none/log")).status == 404


async def test_tokens_and_reviews_are_answered_by_identity(api):
    await api("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "s"}})
    token = await api("POST", f"{CORE}/serviceaccounts/s/token", {"spec": {}})
    assert (token.status, token["status.token"]) == (201, "a/default/s")
    review = await api("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {}})
    assert review["status.allowed"] is True


async def test_what_is_only_a_question_has_no_table(api):
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    told = await api("POST", path, {"spec": {}}, Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert told.status == 406

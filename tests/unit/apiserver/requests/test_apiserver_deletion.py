"""Deletions and partial writes."""

from datetime import UTC, datetime, timedelta

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.registry import object_meta
from vcsync.apiserver.registry.deletion import Deleter, begin_namespace, collect, later, policy
from vcsync.apiserver.request.options import DeleteOptions

CORE = "/api/v1/namespaces/default"
BASE = f"{CORE}/configmaps"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
NOW = "2026-01-02T00:00:00Z"
MERGE = {"Content_Type": "application/merge-patch+json"}


async def test_a_deletion_returns_a_status_with_the_uid(api, config_map):
    made = await api("POST", BASE, config_map("a"))
    response = await api("DELETE", f"{BASE}/a")
    assert response.body == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made["metadata.uid"]},
    }  # fmt: skip


async def test_the_deletion_of_some_kinds_returns_the_object(api):
    await api("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "s"}})
    response = await api("DELETE", f"{CORE}/serviceaccounts/s")
    assert (response.status, response["kind"]) == (200, "ServiceAccount")


async def test_an_object_is_kept_until_its_last_finalizer_is_removed(api):
    await api(
        "POST", BASE, {"metadata": {"name": "a", "finalizers": ["example.com/first", "example.com/wait"]}}
    )
    response = await api("DELETE", f"{BASE}/a")
    assert response["metadata.deletionTimestamp"]
    assert response["metadata.deletionGracePeriodSeconds"] == 0
    again = await api("POST", BASE, {"metadata": {"name": "a"}})
    assert again["message"] == 'object is being deleted: configmaps "a" already exists'
    more = await api(
        "PATCH", f"{BASE}/a", {"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}}, **MERGE
    )
    assert more.status == 422
    fewer = await api("PATCH", f"{BASE}/a", {"metadata": {"finalizers": ["example.com/wait"]}}, **MERGE)
    assert fewer.status == 200
    assert (await api("GET", f"{BASE}/a"))["metadata.finalizers"] == ["example.com/wait"]
    freed = await api("PATCH", f"{BASE}/a", {"metadata": {"finalizers": None}}, **MERGE)
    assert freed.status == 200
    assert (await api("GET", f"{BASE}/a")).status == 404


@pytest.mark.parametrize(
    ("query", "finalizer"),
    [("propagationPolicy=Foreground", "foregroundDeletion"), ("propagationPolicy=Orphan", "orphan")],
)
async def test_policies_become_finalizers(api, config_map, query, finalizer):
    await api("POST", BASE, config_map("a"))
    response = await api("DELETE", f"{BASE}/a?{query}")
    assert response["metadata.finalizers"] == [finalizer]


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
    response = await api("DELETE", f"{CORE}/pods/p")
    assert response["metadata.deletionGracePeriodSeconds"] == 30
    shorter = await api("DELETE", f"{CORE}/pods/p?gracePeriodSeconds=5")
    assert shorter["metadata.deletionGracePeriodSeconds"] == 5
    assert (await api("DELETE", f"{CORE}/pods/p?gracePeriodSeconds=0")).status == 200
    assert (await api("GET", f"{CORE}/pods/p")).status == 404


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Name parameter required."),
        ("Not One/ of:them", "Name parameter invalid: \"Not One/ of:them\": may not contain '/'"),
    ],
)
async def test_a_binding_that_names_no_pod_is_refused(api, name, message):
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}}
    refused = await api("POST", f"{CORE}/bindings", binding)
    assert (refused.status, refused["message"]) == (400, message)


async def test_the_uid_in_a_binding_is_a_precondition_only_for_the_subresource(api):
    """What only the server sets is dropped from what is created, but for the Pod's own subresource."""
    await api("POST", f"{CORE}/pods", POD)
    binding = {"metadata": {"name": "p", "uid": "x"}, "target": {"kind": "Node", "name": "n"}}
    assert (await api("POST", f"{CORE}/pods/p/binding?dryRun=All", binding)).status == 409
    assert (await api("POST", f"{CORE}/bindings?dryRun=All", binding)).status == 201


@pytest.mark.parametrize("grace", [10**10, 10**11, 2**63 - 1])
async def test_a_grace_period_of_years_can_be_shortened(api, grace):
    pod = {**POD, "spec": {**POD["spec"], "nodeName": "n", "terminationGracePeriodSeconds": grace}}
    assert (await api("POST", f"{CORE}/pods", pod)).status == 201
    response = await api("DELETE", f"{CORE}/pods/p")
    assert response["metadata.deletionGracePeriodSeconds"] == grace
    shorter = await api("DELETE", f"{CORE}/pods/p?gracePeriodSeconds=60")
    assert shorter["metadata.deletionGracePeriodSeconds"] == 60
    ends = datetime.fromisoformat(shorter["metadata.deletionTimestamp"])
    assert timedelta(seconds=50) < ends - datetime.now(UTC) <= timedelta(seconds=60)
    assert (await api("DELETE", f"{CORE}/pods/p?gracePeriodSeconds=0")).status == 200
    assert (await api("GET", f"{CORE}/pods/p")).status == 404


async def test_a_pod_without_a_node_is_deleted_immediately(api):
    await api("POST", f"{CORE}/pods", POD)
    assert (await api("DELETE", f"{CORE}/pods/p"))["kind"] == "Pod"
    assert (await api("GET", f"{CORE}/pods/p")).status == 404


ON_A_NODE = {**POD, "spec": {**POD["spec"], "nodeName": "n"}}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}


@pytest.mark.parametrize(
    ("pod", "requests", "expected"),
    [
        (POD, [("DELETE", "/p", None)], ["MODIFIED 0", "DELETED 0"]),
        (POD, [("DELETE", "", None)], ["MODIFIED 0", "DELETED 0"]),
        (POD, [("POST", "/p/eviction", EVICTION)], ["MODIFIED None", "MODIFIED 0", "DELETED 0"]),
        (ON_A_NODE, [("DELETE", "/p?gracePeriodSeconds=0", None)], ["MODIFIED 0", "DELETED 0"]),
        (
            ON_A_NODE,
            [("DELETE", f"/p?gracePeriodSeconds={grace}", None) for grace in (10, 5, 0)],
            ["MODIFIED 10", "MODIFIED 5", "MODIFIED 0", "DELETED 0"],
        ),
        (POD, [("DELETE", "/p?dryRun=All", None), ("DELETE", "/p", None)], ["MODIFIED 0", "DELETED 0"]),
    ],
)
async def test_watchers_see_the_end_of_a_pods_grace_period_before_its_deletion(api, pod, requests, expected):
    """LeaderWorkerSet's controller acts on the marked Pod, and waited forever without that event."""
    made = await api("POST", f"{CORE}/pods", pod)
    for method, path, body in requests:
        assert (await api(method, f"{CORE}/pods{path}", body)).status in (200, 201)
    version = made["metadata.resourceVersion"]
    events = await api.watch(f"{CORE}/pods?watch=1&resourceVersion={version}", len(expected))
    seen = [
        f"{event['type']} {event['object']['metadata'].get('deletionGracePeriodSeconds')}" for event in events
    ]
    assert seen == expected
    assert all(event["object"]["metadata"].get("deletionTimestamp") for event in events[-2:])


async def test_a_pod_whose_removal_did_not_follow_is_removed_by_the_next_deletion(api, store, monkeypatch):
    await api("POST", f"{CORE}/pods", POD)
    with monkeypatch.context() as crashed:

        async def refuse(*_):
            raise StatusError(500, "InternalError", "the process ends")

        crashed.setattr(Deleter, "_remove", refuse)
        assert (await api("DELETE", f"{CORE}/pods/p")).status == 500
    marked = await api("GET", f"{CORE}/pods/p")
    assert marked["metadata.deletionGracePeriodSeconds"] == 0
    assert (await api("DELETE", f"{CORE}/pods/p")).status == 200
    assert (await api("GET", f"{CORE}/pods/p")).status == 404


async def test_a_pod_that_another_client_removes_meanwhile_is_deleted_without_an_error(api, monkeypatch):
    await api("POST", f"{CORE}/pods", POD)
    remove, asked = Deleter._remove, []

    async def late(deleter, *arguments):
        if not asked:
            asked.append(1)
            assert (await api("DELETE", f"{CORE}/pods/p")).status == 200
        return await remove(deleter, *arguments)

    monkeypatch.setattr(Deleter, "_remove", late)
    assert (await api("DELETE", f"{CORE}/pods/p"))["metadata.deletionGracePeriodSeconds"] == 0
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
def test_the_deletion_of_dependents_depends_on_options_finalizers_and_kind(
    finalizers, options, resource, expected
):
    assert policy(finalizers, options, resource) == expected


def test_the_finalizers_of_the_garbage_collector_are_replaced():
    metadata = {"finalizers": ["a/b", "orphan"]}
    assert collect(metadata, DeleteOptions(policy="Foreground"), ("apps", "deployments"))
    assert metadata["finalizers"] == ["a/b", "foregroundDeletion"]
    assert not collect(metadata, DeleteOptions(), ("apps", "deployments"))


def test_seconds_are_added_to_a_time():
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


async def test_each_service_gets_its_own_address(api):
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


async def test_streaming_subresources_are_not_implemented_without_kubelets(api):
    await api("POST", f"{CORE}/pods", POD)
    response = await api("GET", f"{CORE}/pods/p/log")
    assert (response.status, response["reason"]) == (501, "NotImplemented")
    assert (await api("GET", f"{CORE}/pods/none/log")).status == 404


async def test_tokens_and_reviews_are_created_by_identity(api):
    await api("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "s"}})
    token = await api("POST", f"{CORE}/serviceaccounts/s/token", {"spec": {}})
    assert (token.status, token["status.token"]) == (201, "a/default/s")
    review = await api("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {}})
    assert review["status.allowed"] is True


async def test_reviews_have_no_table(api):
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    response = await api("POST", path, {"spec": {}}, Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert response.status == 406


@pytest.mark.parametrize(
    "given",
    [
        {"uid": "x"},
        {"creationTimestamp": "2026-01-01T00:00:00Z"},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        {"deletionGracePeriodSeconds": 1},
        {"selfLink": "x"},
    ],
)
async def test_a_review_drops_the_fields_that_only_the_server_sets(api, given):
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    review = await api("POST", path, {"metadata": given, "spec": {}})
    assert (review.status, {*review["metadata"]} - {"managedFields"}) == (201, set())


async def test_a_review_with_a_duplicate_owner_has_a_warning(api):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    review = await api("POST", path, {"metadata": {"ownerReferences": [owner, owner]}, "spec": {}})
    assert review["metadata.ownerReferences"] == [owner]
    assert ["contains duplicate entries" in each for each in review.warnings] == [True]


@pytest.mark.parametrize(("left", "step"), [(["kubernetes"], "waiting"), ([], "continue")])
def test_the_deletion_timestamp_of_a_namespace_is_set_once(left, step):
    working = {
        "metadata": {"name": "n"},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
    assert begin_namespace(working, DeleteOptions(), NOW) == "marked"
    assert working["metadata"]["deletionTimestamp"] == NOW
    assert working["status"]["phase"] == "Terminating"
    working["spec"]["finalizers"] = left
    assert begin_namespace(working, DeleteOptions(), "2026-01-03T00:00:00Z") == step
    assert working["metadata"]["deletionTimestamp"] == NOW


@pytest.mark.parametrize(("sent", "kept"), [({}, 30), ({"deletionGracePeriodSeconds": 5}, 5)])
def test_an_update_keeps_the_grace_period_of_a_deletion_unless_it_sets_one(sent, kept):
    new = {"name": "p", **sent}
    object_meta.keep(new, {"uid": "u", "deletionTimestamp": NOW, "deletionGracePeriodSeconds": 30})
    assert new == {"name": "p", "uid": "u", "deletionTimestamp": NOW, "deletionGracePeriodSeconds": kept}

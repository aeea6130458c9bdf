"""The life of a Pod, in both directions."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds_bench import CONTEXT, NODE, Bench, super_ns

from vcsync.api import names
from vcsync.api.without_effect import DEBUGGED, SCHEDULER_NAME
from vcsync.kube.resources import CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS
from vcsync.syncer.kinds.grace import LONGEST_GRACE_SECONDS
from vcsync.syncer.kinds.plan import (
    Bind,
    Create,
    Delete,
    EnsureNode,
    Notify,
    Patch,
    PodPolicy,
    RequestToken,
)

Json = dict[str, Any]
TOKEN_VOLUME: Json = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}


def make(bench: Bench, spec: Json | None = None, **meta: Any) -> Json:
    return bench.put("tenant", PODS, {"metadata": {"name": "web", **meta}, "spec": copy.deepcopy(spec or {})})


def running(bench: Bench, spec: Json | None = None, **meta: Any) -> None:
    """A Pod that was created in the super cluster, runs, and whose status is up to date."""
    make(bench, spec, **meta)
    bench.settle("pods", "shop", "web")
    bench.schedule("web")
    bench.settle("pods", "shop", "web")
    bench.run("web")
    bench.settle("pods", "shop", "web")


def actions(bench: Bench) -> tuple[Any, ...]:
    return bench.plan("pods", "shop", "web").actions


def kinds_of(plan_actions: tuple[Any, ...]) -> list[type]:
    return [type(action) for action in plan_actions]


def v_of(bench: Bench) -> Json:
    return bench.get("tenant", PODS, "web")


def p_of(bench: Bench) -> Json:
    return bench.get("super", PODS, "web")


def mark(bench: Bench, side: str, grace: int, until: str = "2026-05-01T12:01:00Z") -> None:
    bench.edit(
        side,
        PODS,
        "web",
        {"metadata": {"deletionTimestamp": until, "deletionGracePeriodSeconds": grace}},
    )


# --- From creation to running ---


def test_a_pod_is_created_bound_and_reported(bench: Bench) -> None:
    make(bench, {"volumes": [TOKEN_VOLUME]}, labels={"app": "web"})
    assert kinds_of(actions(bench)) == [RequestToken, Create]
    assert len(bench.settle("pods", "shop", "web")) == 1
    assert bench.has("super", SECRETS, names.TOKEN_SECRET_PREFIX + v_of(bench)["metadata"]["uid"])
    bench.schedule("web")
    (bound,) = bench.settle("pods", "shop", "web")
    assert kinds_of(bound.actions) == [EnsureNode, Bind]  # PodScheduled came with the binding
    assert v_of(bench)["spec"]["nodeName"] == f"{NODE}.r1"
    assert bench.ensured == [NODE]
    bench.run("web")
    (plan,) = bench.settle("pods", "shop", "web")
    (patch,) = plan.actions
    assert isinstance(patch, Patch)
    assert patch.subresource == "status"
    assert set(patch.patch["status"]) == {"phase", "podIP", "podIPs", "conditions", "observedGeneration"}
    status = v_of(bench)["status"]
    assert status["phase"] == "Running"
    assert status["qosClass"] == "BestEffort"
    assert actions(bench) == ()


def test_the_status_of_a_running_pod_is_written_with_its_binding(bench: Bench) -> None:
    make(bench)
    bench.settle("pods", "shop", "web")
    bench.schedule("web")
    bench.run("web")
    (plan,) = bench.settle("pods", "shop", "web")
    assert kinds_of(plan.actions) == [EnsureNode, Bind]
    assert plan.actions[1].status["status"]["phase"] == "Running"
    assert v_of(bench)["status"]["phase"] == "Running"


def test_a_binding_without_news_of_the_status_carries_none(bench: Bench) -> None:
    make(bench)
    bench.settle("pods", "shop", "web")
    bench.schedule("web")
    (plan,) = bench.settle("pods", "shop", "web")
    assert kinds_of(plan.actions) == [EnsureNode, Bind]
    assert plan.actions[1].status is None
    assert plan.actions[1].early, "a status may follow soon"


def test_an_unschedulable_pod_has_the_reason(bench: Bench) -> None:
    make(bench)
    bench.settle("pods", "shop", "web")
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"no room for {super_ns('shop')}/web",
    }
    bench.edit("super", PODS, "web", {"status": {"conditions": [condition]}})
    bench.settle("pods", "shop", "web")
    assert v_of(bench)["status"]["conditions"][0]["message"] == "no room for shop/web"


@pytest.mark.parametrize(
    ("spec", "meta", "status"),
    [
        ({}, {"labels": {names.IGNORE_SYNC: "true"}}, {}),
        ({"schedulingGates": [{"name": "g"}]}, {}, {}),
        ({}, {}, {"phase": "Succeeded"}),
        ({}, {}, {"phase": "Failed"}),
        ({"nodeName": "n.r2"}, {}, {"conditions": [{"type": "PodScheduled", "status": "True"}]}),
    ],
)
def test_pods_that_are_not_created(bench: Bench, spec: Json, meta: Json, status: Json) -> None:
    make(bench, spec, **meta)
    bench.edit("tenant", PODS, "web", {"status": status})
    assert actions(bench) == ()


# --- Waiting ---


def wait_of(bench: Bench) -> set[tuple[str, str]]:
    plan = bench.plan("pods", "shop", "web")
    assert plan.actions == ()
    assert plan.wait is not None
    return {(dependency.resource.plural, dependency.name) for dependency in plan.wait.on}


def test_a_pod_waits_for_its_namespace_and_account(bench: Bench) -> None:
    bench.put("tenant", PODS, {"metadata": {"name": "web", "namespace": "web"}})
    plan = bench.plan("pods", "web", "web")
    assert plan.wait is not None
    assert plan.wait.on[0].name == super_ns("web")
    make(bench, {"serviceAccountName": "robot"})
    assert wait_of(bench) == {("serviceaccounts", "robot")}


NEEDS: Json = {
    "imagePullSecrets": [{"name": "pull"}],
    "volumes": [
        {"name": "a", "secret": {"secretName": "s1"}},
        {"name": "b", "configMap": {"name": "c1"}},
        {
            "name": "c",
            "projected": {"sources": [{"secret": {"name": "s2"}}, {"configMap": {"name": names.ROOT_CA}}]},
        },
        {"name": "d", "secret": {"secretName": "optional", "optional": True}},
    ],
    "containers": [
        {
            "name": "app",
            "image": "i",
            "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "k"}}},
                {
                    "name": "B",
                    "valueFrom": {"configMapKeyRef": {"name": "optional", "key": "k", "optional": True}},
                },
            ],
            "envFrom": [{"configMapRef": {"name": "c2"}}, {"secretRef": {"name": "s4"}}],
        }
    ],
    "initContainers": [
        {"name": "i", "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c3", "key": "k"}}}]}
    ],
}


def test_a_pod_waits_for_objects_that_only_the_tenant_has(bench: Bench) -> None:
    make(bench, NEEDS)
    assert kinds_of(actions(bench)) == [Create]  # nothing of it is in the tenant either
    wanted = [
        *((SECRETS, "secrets", name) for name in ("pull", "s1", "s2", "s3", "s4", "optional")),
        *((CONFIG_MAPS, "configmaps", name) for name in ("c1", "c2", "c3", names.ROOT_CA, "optional")),
    ]
    for resource, _, name in wanted:
        bench.put("tenant", resource, {"metadata": {"name": name}})
    expected = {(plural, name) for _, plural, name in wanted if name not in ("optional", names.ROOT_CA)}
    assert wait_of(bench) == expected | {("configmaps", names.TENANT_ROOT_CA)}
    for _, kind, name in wanted:
        bench.settle(kind, "shop", name)
    assert kinds_of(actions(bench)) == [Create]


@pytest.mark.parametrize(("named", "notified"), [("own", True), ("default-scheduler", False), ("", False)])
def test_a_pod_with_another_scheduler_gets_an_event(bench: Bench, named: str, notified: bool) -> None:
    make(bench, {"schedulerName": named} if named else {})
    (created,) = bench.settle("pods", "shop", "web")
    assert kinds_of(created.actions) == [Create, *[Notify] * notified]
    assert p_of(bench)["spec"]["schedulerName"] == "default-scheduler"
    assert [(each.reason, each.message) for each in bench.notices] == [
        ("WithoutEffect", SCHEDULER_NAME)
    ] * notified


# --- Policy ---


def test_a_refusal_is_reported_once_and_ends_with_the_policy(bench: Bench) -> None:
    make(bench, {"hostNetwork": True, "hostPID": True})
    (plan,) = bench.settle("pods", "shop", "web")
    assert kinds_of(plan.actions) == [Patch, Notify]
    (condition,) = v_of(bench)["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "PolicyRefused",
    )
    assert "spec.hostNetwork" in condition["message"]
    assert "spec.hostPID" in condition["message"]
    again = bench.plan("pods", "shop", "web")
    assert again.actions == ()
    assert again.wait is not None
    assert "spec.hostPID" in again.wait.reason
    policy = PodPolicy(host_network="Allow", host_pid="Allow")
    bench.context = msgspec.structs.replace(CONTEXT, policy=policy)
    bench.settle("pods", "shop", "web")
    assert p_of(bench)["spec"]["hostNetwork"] is True
    assert "conditions" not in v_of(bench)["status"]


def test_a_node_named_by_the_tenant_is_used_only_if_allowed_and_here(bench: Bench) -> None:
    make(bench, {"nodeName": f"{NODE}.r1"})
    assert "spec.nodeName" in actions(bench)[-1].message
    bench.context = msgspec.structs.replace(CONTEXT, policy=PodPolicy(node_name="Allow"))
    assert kinds_of(actions(bench)) == [EnsureNode, Create]
    bench.settle("pods", "shop", "web")
    assert p_of(bench)["spec"]["nodeName"] == NODE
    bench.run("web")
    bench.settle("pods", "shop", "web")
    assert v_of(bench)["status"]["phase"] == "Running"
    bench.put("tenant", PODS, {"metadata": {"name": "far"}, "spec": {"nodeName": f"{NODE}.r2"}})
    assert "spec.nodeName" in bench.plan("pods", "shop", "far").actions[-1].message


FROM_TEAM = PodPolicy(image_registries=("registry.example.com/team",))


@pytest.mark.parametrize(
    ("spec", "use"),
    [
        ({"containers": [{"name": "c", "image": "nginx"}]}, "container \"c\" uses image 'nginx'"),
        (
            {"initContainers": [{"name": "i", "image": "registry.example.com/teams/x"}]},
            "container \"i\" uses image 'registry.example.com/teams/x'",
        ),
        (
            {"volumes": [{"name": "v", "image": {"reference": "evil.org/registry.example.com/team/x"}}]},
            "volume \"v\" uses image 'evil.org/registry.example.com/team/x'",
        ),
    ],
)
def test_images_of_other_registries_are_refused(bench: Bench, spec: Json, use: str) -> None:
    bench.context = msgspec.structs.replace(CONTEXT, policy=FROM_TEAM)
    make(bench, {"containers": [{"name": "c", "image": "registry.example.com/team/a:1"}], **spec})
    bench.settle("pods", "shop", "web")
    assert not bench.has("super", PODS, "web")
    (condition,) = v_of(bench)["status"]["conditions"]
    assert condition["reason"] == "PolicyRefused"
    assert (
        condition["message"] == f"{use}, which is not allowed here; use images of registry.example.com/team"
    )


def test_an_image_that_changes_to_another_registry_is_refused_and_the_old_one_stays(bench: Bench) -> None:
    bench.context = msgspec.structs.replace(CONTEXT, policy=FROM_TEAM)
    running(bench, {"containers": [{"name": "app", "image": "registry.example.com/team/a:1"}]})
    v_of(bench)["spec"]["containers"][0]["image"] = "nginx"
    bench.settle("pods", "shop", "web")
    assert p_of(bench)["spec"]["containers"][0]["image"] == "registry.example.com/team/a:1"
    assert "'nginx'" in p_of(bench)["metadata"]["annotations"][names.REFUSED]
    assert bench.notices[-1].reason == "PolicyRefused"
    assert actions(bench) == ()
    v_of(bench)["spec"]["containers"][0]["image"] = "registry.example.com/team/a:2"
    bench.settle("pods", "shop", "web")
    assert p_of(bench)["spec"]["containers"][0]["image"] == "registry.example.com/team/a:2"


def test_a_pod_that_runs_stays_when_the_registries_change(bench: Bench) -> None:
    running(bench, {"containers": [{"name": "app", "image": "nginx"}]})
    bench.context = msgspec.structs.replace(CONTEXT, policy=FROM_TEAM)
    assert actions(bench) == ()


def test_too_large_annotations_are_refused_and_not_retried(bench: Bench) -> None:
    items = [{"path": "a", "fieldRef": {"fieldPath": "metadata.annotations"}}]
    make(
        bench, {"volumes": [{"name": "v", "downwardAPI": {"items": items}}]}, annotations={"a": "x" * 262_100}
    )
    bench.settle("pods", "shop", "web")
    assert not bench.has("super", PODS, "web")
    assert v_of(bench)["status"]["conditions"][0]["reason"] == "PolicyRefused"


# --- Changes ---


def test_images_metadata_deadline_and_tolerations_are_updated(bench: Bench) -> None:
    spec = {
        "containers": [{"name": "app", "image": "a:1"}, {"name": "log", "image": "l:1"}],
        "initContainers": [{"name": "init", "image": "i:1"}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
    }
    bench.context = msgspec.structs.replace(CONTEXT, policy=PodPolicy(annotations=("n",)))
    running(bench, spec, labels={"v": "1"}, annotations={"n": "1"})
    p = p_of(bench)
    p["spec"]["containers"].append({"name": "injected", "image": "sidecar:1"})
    p["spec"]["tolerations"].append({"key": "added", "operator": "Exists", "tolerationSeconds": 300})
    v = v_of(bench)
    v["spec"]["containers"][1]["image"] = "l:2"
    v["spec"]["initContainers"][0]["image"] = "i:2"
    v["spec"]["activeDeadlineSeconds"] = 60
    v["spec"]["tolerations"].append({"key": "b", "operator": "Exists"})
    v["metadata"]["labels"] = {"w": "2"}
    v["metadata"]["annotations"] = {"n": "2"}
    (plan,) = bench.settle("pods", "shop", "web")
    (patch,) = plan.actions
    assert patch.kind == "strategic"
    assert patch.patch["spec"] == {
        "containers": [{"name": "log", "image": "l:2"}],
        "initContainers": [{"name": "init", "image": "i:2"}],
        "activeDeadlineSeconds": 60,
        "tolerations": [
            {"key": "a", "operator": "Exists"},
            {"key": "added", "operator": "Exists", "tolerationSeconds": 300},
            {"key": "b", "operator": "Exists"},
        ],
    }
    assert patch.patch["metadata"]["labels"] == {"w": "2", "v": None}
    assert patch.patch["metadata"]["annotations"] == {"n": "2"}
    assert p_of(bench)["spec"]["containers"][2] == {"name": "injected", "image": "sidecar:1"}


def test_a_toleration_of_the_control_plane_added_later_is_refused_once(bench: Bench) -> None:
    running(bench)
    toleration = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
    v_of(bench)["spec"]["tolerations"] = [toleration, {"key": "ok", "operator": "Exists"}]
    (plan,) = bench.settle("pods", "shop", "web")
    assert kinds_of(plan.actions) == [Patch, Notify]
    (notice,) = [each for each in plan.actions if isinstance(each, Notify)]
    assert (notice.type, notice.reason) == ("Warning", "PolicyRefused")
    assert p_of(bench)["spec"]["tolerations"] == [{"key": "ok", "operator": "Exists"}]
    assert "spec.tolerations[0]" in p_of(bench)["metadata"]["annotations"][names.REFUSED]


def test_a_container_that_the_super_cluster_removed_is_not_restored(bench: Bench) -> None:
    running(bench, {"containers": [{"name": "app", "image": "a:1"}, {"name": "log", "image": "l:1"}]})
    del p_of(bench)["spec"]["containers"][1]
    assert actions(bench) == ()


def test_a_changed_toleration_time_replaces_the_old_one(bench: Bench) -> None:
    toleration = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    running(bench, {"tolerations": [toleration, {"key": "b"}]})
    v_of(bench)["spec"]["tolerations"][0]["tolerationSeconds"] = 600
    bench.settle("pods", "shop", "web")
    assert p_of(bench)["spec"]["tolerations"] == [{**toleration, "tolerationSeconds": 600}, {"key": "b"}]
    v_of(bench)["spec"]["tolerations"].append({**toleration, "tolerationSeconds": 9})
    bench.settle("pods", "shop", "web")
    assert len(p_of(bench)["spec"]["tolerations"]) == 3


def test_resources_are_resized_by_their_subresource(bench: Bench) -> None:
    spec = {"containers": [{"name": "app", "image": "a", "resources": {"requests": {"cpu": "1"}}}]}
    running(bench, spec)
    p_of(bench)["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1000m"
    p_of(bench)["spec"]["containers"][0]["resources"]["limits"] = {
        "memory": "1Gi"
    }  # a LimitRange of the super cluster
    assert actions(bench) == ()
    v_of(bench)["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1500m"
    (plan,) = bench.settle("pods", "shop", "web")
    (patch,) = plan.actions
    assert patch.subresource == "resize"
    assert patch.patch["spec"] == {
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "1500m"}}}]
    }


def test_ephemeral_containers_are_converted_and_checked(bench: Bench) -> None:
    make(bench, {"ephemeralContainers": [{"name": "first", "image": "d"}]})
    created, added = bench.settle("pods", "shop", "web")
    assert "ephemeralContainers" not in created.actions[0].body["spec"]
    assert added.actions[0].subresource == "ephemeralcontainers"
    bench.schedule("web")
    bench.settle("pods", "shop", "web")
    v_of(bench)["spec"]["ephemeralContainers"] += [
        {"name": "root", "image": "d", "securityContext": {"privileged": True}},
        {"name": "second", "image": "d", "targetContainerName": "app"},
    ]
    bench.settle("pods", "shop", "web")
    down = p_of(bench)["spec"]["ephemeralContainers"]
    assert [container["name"] for container in down] == ["first", "second"]
    assert down[1]["targetContainerName"] == "app"
    assert {"name": "KUBERNETES_SERVICE_HOST", "value": "10.9.8.7"} in down[1]["env"]
    assert "resources" not in down[1]
    # Two are added and reported as without attach; the third one is refused.
    assert [notice.reason for notice in bench.notices] == ["WithoutEffect", "WithoutEffect", "PolicyRefused"]
    assert bench.notices[0].message == DEBUGGED
    assert "spec.ephemeralContainers[1]" in bench.notices[-1].message


REFUSED_CONTAINER = {"name": "root", "image": "d", "securityContext": {"privileged": True}}


def refused(bench: Bench) -> Json:
    """A running Pod with an ephemeral container that the policy refuses; the status of that container."""
    running(bench)
    bench.edit("tenant", PODS, "web", {"spec": {"ephemeralContainers": [REFUSED_CONTAINER]}})
    bench.settle("pods", "shop", "web")
    (status,) = v_of(bench)["status"]["ephemeralContainerStatuses"]
    return dict(status)


def test_a_refused_ephemeral_container_is_terminated(bench: Bench) -> None:
    status = refused(bench)
    assert (status["name"], status["image"], status["ready"]) == ("root", "d", False)
    ended = status["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("PolicyRefused", 128)
    assert "spec.ephemeralContainers[0].securityContext.privileged" in ended["message"]
    assert "ephemeralContainers" not in p_of(bench)["spec"]


def test_fields_that_the_api_server_adds_to_a_refused_status_are_ignored(bench: Bench) -> None:
    refused(bench)
    (status,) = v_of(bench)["status"]["ephemeralContainerStatuses"]
    status["lastState"] = {}
    status["state"]["terminated"] |= {"startedAt": None, "finishedAt": None}
    assert actions(bench) == ()


def test_a_refused_ephemeral_container_remains_terminated(bench: Bench) -> None:
    refused(bench)
    bench.context = msgspec.structs.replace(CONTEXT, policy=PodPolicy(privileged="Allow"))
    other = {"name": "second", "image": "d"}
    bench.edit("tenant", PODS, "web", {"spec": {"ephemeralContainers": [REFUSED_CONTAINER, other]}})
    bench.settle("pods", "shop", "web")
    # kube-apiserver lets no ephemeral container leave `terminated`: the first one cannot start any more.
    assert [each["name"] for each in p_of(bench)["spec"]["ephemeralContainers"]] == ["second"]
    runs = {"name": "second", "image": "d", "state": {"running": {}}}
    bench.edit("super", PODS, "web", {"status": {"ephemeralContainerStatuses": [runs]}})
    for _ in range(2):
        bench.settle("pods", "shop", "web")
        statuses = v_of(bench)["status"]["ephemeralContainerStatuses"]
        assert [(each["name"], *each["state"]) for each in statuses] == [
            ("second", "running"),
            ("root", "terminated"),
        ]
        mark(bench, "tenant", 30)


def test_downward_api_files_are_updated_with_the_tenants_labels(bench: Bench) -> None:
    items = [
        {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "z", "fieldRef": {"fieldPath": "metadata.labels['k8s.io/zone']"}},
    ]
    running(
        bench,
        {"volumes": [{"name": "v", "downwardAPI": {"items": items}}]},
        labels={"a": "1", "k8s.io/zone": "x"},
    )
    bench.edit("tenant", PODS, "web", {"metadata": {"labels": {"a": "2", "k8s.io/zone": "y"}}})
    bench.settle("pods", "shop", "web")
    values = [
        value
        for key, value in p_of(bench)["metadata"]["annotations"].items()
        if key.startswith(names.DOWNWARD_PREFIX)
    ]
    assert sorted(values) == ['a="2"\nk8s.io/zone="y"', "y"]


def test_a_lost_token_secret_is_requested_again(bench: Bench) -> None:
    running(bench, {"volumes": [TOKEN_VOLUME], "serviceAccountName": "default"})
    bench.remove("super", SECRETS, names.TOKEN_SECRET_PREFIX + v_of(bench)["metadata"]["uid"])
    (request,) = actions(bench)
    assert isinstance(request, RequestToken)
    assert request.service_account == "default"
    assert [source.key for source in request.tokens] == ["token-0"]
    bench.settle("pods", "shop", "web")


# --- Status ---


def condition_of(pod: Json, kind: str) -> Json:
    return next(condition for condition in pod["status"]["conditions"] if condition["type"] == kind)


def test_only_the_tenant_sets_readiness_gates(bench: Bench) -> None:
    running(bench, {"readinessGates": [{"conditionType": "acme/ok"}]})
    v_of(bench)["status"]["conditions"].append({"type": "acme/ok", "status": "True", "observedGeneration": 7})
    (plan,) = bench.settle("pods", "shop", "web")
    (patch,) = plan.actions
    assert (patch.side, patch.subresource, patch.kind) == ("super", "status", "strategic")
    assert condition_of(p_of(bench), "acme/ok") == {"type": "acme/ok", "status": "True"}
    condition_of(p_of(bench), "acme/ok")["status"] = "False"
    bench.settle("pods", "shop", "web")
    assert condition_of(p_of(bench), "acme/ok")["status"] == "True"
    assert condition_of(v_of(bench), "acme/ok")["status"] == "True"


@pytest.mark.parametrize("gates", [[], [{"conditionType": "acme/ok"}]])
def test_conditions_beside_those_of_readiness_gates_are_written_only_if_the_pod_is_unchanged(
    bench: Bench, gates: list[Json]
) -> None:
    running(bench, {"readinessGates": gates})
    condition_of(p_of(bench), "Ready")["status"] = "False"
    (patch,) = actions(bench)
    seen = v_of(bench)["metadata"]["resourceVersion"]
    assert patch.patch["metadata"].get("resourceVersion") == (seen if gates else None)


def test_the_mark_of_a_lost_super_cluster_stays_until_the_super_cluster_is_heard_from(bench: Bench) -> None:
    running(bench)
    ready = condition_of(v_of(bench), "Ready")
    ready |= {"status": "Unknown", "reason": "SuperClusterLost", "message": "no heartbeat since noon"}
    bench.context = msgspec.structs.replace(CONTEXT, out_of_touch=True)
    assert actions(bench) == ()
    bench.context = CONTEXT
    bench.settle("pods", "shop", "web")
    assert condition_of(v_of(bench), "Ready")["status"] == "True"


def test_a_status_without_such_a_mark_is_written_although_the_super_cluster_is_not_heard_from(
    bench: Bench,
) -> None:
    running(bench)
    bench.context = msgspec.structs.replace(CONTEXT, out_of_touch=True)
    condition_of(v_of(bench), "Ready")["status"] = "False"
    bench.settle("pods", "shop", "web")
    assert condition_of(v_of(bench), "Ready")["status"] == "True"


def test_the_observed_generation_is_translated(bench: Bench) -> None:
    running(bench)
    assert v_of(bench)["status"]["observedGeneration"] == v_of(bench)["metadata"]["generation"]
    bench.edit("tenant", PODS, "web", {"metadata": {"generation": 41}})
    bench.edit("tenant", PODS, "web", {"spec": {"activeDeadlineSeconds": 9}})
    bench.settle("pods", "shop", "web")
    assert v_of(bench)["status"]["observedGeneration"] != 42  # the kubelet has not seen it
    p = p_of(bench)
    p["status"]["observedGeneration"] = p["metadata"]["generation"]
    condition_of(p, "Ready")["observedGeneration"] = p["metadata"]["generation"]
    bench.settle("pods", "shop", "web")
    assert v_of(bench)["status"]["observedGeneration"] == 42
    assert condition_of(v_of(bench), "Ready")["observedGeneration"] == 42


def test_the_nominated_node_has_its_virtual_name(bench: Bench) -> None:
    make(bench)
    bench.settle("pods", "shop", "web")
    bench.edit("super", PODS, "web", {"status": {"nominatedNodeName": NODE}})
    bench.settle("pods", "shop", "web")
    assert v_of(bench)["status"]["nominatedNodeName"] == f"{NODE}.r1"
    bench.edit("super", PODS, "web", {"status": {"nominatedNodeName": None}})
    bench.settle("pods", "shop", "web")
    assert "nominatedNodeName" not in v_of(bench)["status"]


def test_an_outdated_super_pod_does_not_change_the_status(bench: Bench) -> None:
    make(bench)
    bench.settle("pods", "shop", "web")
    old = copy.deepcopy(p_of(bench))
    bench.schedule("web")
    bench.settle("pods", "shop", "web")
    bench.objects[bench.key("super", PODS, "", "web")] = old
    assert actions(bench) == ()


def test_transparent_metadata_is_copied_up_with_the_status(bench: Bench) -> None:
    bench.context = msgspec.structs.replace(CONTEXT, transparent_prefixes=("mesh.acme.com",))
    running(bench)
    bench.edit("super", PODS, "web", {"metadata": {"annotations": {"mesh.acme.com/ip": "10.1.1.1"}}})
    (plan,) = bench.settle("pods", "shop", "web")
    assert plan.actions[0].subresource == "status"
    assert v_of(bench)["metadata"]["annotations"] == {"mesh.acme.com/ip": "10.1.1.1"}


# --- Ends ---


def test_a_deletion_keeps_its_grace_period_and_the_pod_is_removed_when_it_has_stopped(bench: Bench) -> None:
    running(bench, {"volumes": [TOKEN_VOLUME]})
    mark(bench, "tenant", 45)
    (delete,) = actions(bench)
    assert (delete.side, delete.grace_seconds, delete.confirm) == ("super", 45, False)
    bench.settle("pods", "shop", "web")
    assert actions(bench) == ()
    mark(bench, "tenant", 5)
    assert [action.grace_seconds for action in actions(bench)] == [5]
    bench.settle("pods", "shop", "web")
    mark(bench, "tenant", 20)
    assert actions(bench) == ()
    bench.remove("super", PODS, "web")
    plan = bench.plan("pods", "shop", "web")
    assert [(action.side, action.resource.plural) for action in plan.actions] == [
        ("super", "secrets"),
        ("tenant", "pods"),
    ]
    assert plan.actions[1].grace_seconds == 0
    bench.settle("pods", "shop", "web")
    assert not bench.has("tenant", PODS, "web")


def test_the_grace_period_is_at_least_one_second(bench: Bench) -> None:
    running(bench)
    mark(bench, "tenant", 0)
    (delete,) = actions(bench)
    assert delete.grace_seconds == 1


def test_a_pod_that_only_finalizers_keep_is_not_deleted_again(bench: Bench) -> None:
    make(bench)
    bench.edit("tenant", PODS, "web", {"metadata": {"finalizers": ["example.com/held"]}})
    mark(bench, "tenant", 0)
    assert actions(bench) == ()


def test_a_pod_kept_by_finalizers_gets_a_terminal_phase(bench: Bench) -> None:
    running(bench)
    bench.edit("tenant", PODS, "web", {"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}})
    mark(bench, "tenant", 0)
    bench.remove("super", PODS, "web")
    (patch,) = actions(bench)
    assert (patch.side, patch.subresource, patch.patch["status"]["phase"]) == ("tenant", "status", "Failed")
    bench.settle("pods", "shop", "web")
    assert v_of(bench)["status"]["phase"] == "Failed"
    assert actions(bench) == ()


def test_the_terminal_phase_of_a_kept_pod_remains(bench: Bench) -> None:
    running(bench)
    bench.edit("super", PODS, "web", {"status": {"phase": "Succeeded"}})
    bench.settle("pods", "shop", "web")
    bench.edit("tenant", PODS, "web", {"metadata": {"finalizers": ["example.com/held"]}})
    mark(bench, "tenant", 0)
    bench.remove("super", PODS, "web")
    assert actions(bench) == ()


def test_a_pod_left_by_an_interrupted_deletion_is_deleted_again(bench: Bench) -> None:
    make(bench)
    mark(bench, "tenant", 0)
    (delete,) = actions(bench)
    assert (delete.side, delete.resource, delete.grace_seconds) == ("tenant", PODS, 0)


def test_a_pod_bound_to_another_super_cluster_is_ignored_despite_its_label(bench: Bench) -> None:
    make(bench, {"nodeName": "node-1.r2"})
    mark(bench, "tenant", 30)
    assert actions(bench) == ()


def test_a_pod_that_is_gone_in_the_tenant_is_deleted_with_its_tokens(bench: Bench) -> None:
    running(bench, {"volumes": [TOKEN_VOLUME]})
    bench.remove("tenant", PODS, "web", seen=False)
    deletes = actions(bench)
    assert [(delete.resource.plural, delete.confirm) for delete in deletes] == [
        ("pods", True),
        ("secrets", True),
    ]
    assert [delete.side for delete in deletes] == ["super", "super"]


def test_a_deletion_in_the_super_cluster_is_confirmed_and_copied_up(bench: Bench) -> None:
    running(bench)
    mark(bench, "super", 12)
    (delete,) = actions(bench)
    assert (delete.side, delete.grace_seconds, delete.confirm) == ("tenant", 12, True)
    bench.settle("pods", "shop", "web")
    assert v_of(bench)["metadata"]["deletionGracePeriodSeconds"] == 12


def test_a_lost_pod_is_deleted_in_the_tenant_after_a_live_read(bench: Bench) -> None:
    running(bench)
    bench.remove("super", PODS, "web")
    (delete,) = actions(bench)
    assert (delete.side, delete.grace_seconds, delete.confirm) == ("tenant", 0, True)


def test_an_unbound_pod_that_is_missing_is_created_again(bench: Bench) -> None:
    make(bench)
    bench.settle("pods", "shop", "web")
    bench.remove("super", PODS, "web")
    assert kinds_of(actions(bench)) == [Create]


def test_a_finished_pod_is_kept_without_its_super_pod(bench: Bench) -> None:
    running(bench)
    bench.edit("super", PODS, "web", {"status": {"phase": "Succeeded"}})
    mark(bench, "super", 0)
    (plan,) = bench.settle("pods", "shop", "web")
    assert kinds_of(plan.actions) == [Patch]
    bench.remove("super", PODS, "web")
    assert actions(bench) == ()
    assert v_of(bench)["status"]["phase"] == "Succeeded"


def finished(at: str, phase: str = "Failed") -> dict[str, Any]:
    ended = {"exitCode": 137, "finishedAt": at}
    return {
        "status": {"phase": phase, "containerStatuses": [{"name": "app", "state": {"terminated": ended}}]}
    }


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("ended_at", ["2026-07-01T12:00:00Z", "2026-07-01T12:00:20Z"])
def test_a_pod_that_ends_by_its_deletion_in_the_super_cluster_is_deleted_before_its_end_is_told(
    bench: Bench, ended_at: str, phase: str
) -> None:
    running(bench)
    bench.edit("super", PODS, "web", finished(ended_at, phase))
    mark(bench, "super", 30, "2026-07-01T12:00:30Z")  # requested at 12:00:00
    first, second = actions(bench)
    assert isinstance(first, Delete)
    assert (first.side, first.grace_seconds, first.confirm) == ("tenant", 30, True)
    assert isinstance(second, Patch)
    assert second.patch["status"]["phase"] == phase


def test_a_pod_that_finished_before_its_deletion_in_the_super_cluster_is_kept(bench: Bench) -> None:
    running(bench)
    bench.edit("super", PODS, "web", finished("2026-07-01T11:59:59Z", "Succeeded"))
    mark(bench, "super", 30, "2026-07-01T12:00:30Z")
    assert kinds_of(actions(bench)) == [Patch]


def test_the_copy_of_a_replaced_pod_is_deleted_first(bench: Bench) -> None:
    running(bench)
    bench.remove("tenant", PODS, "web")
    make(bench)
    (delete,) = actions(bench)
    assert (delete.side, delete.confirm) == ("super", True)
    bench.settle("pods", "shop", "web")
    plan = bench.plan("pods", "shop", "web")
    assert plan.actions == ()  # it is still stopping
    assert plan.wait is not None
    bench.remove("super", PODS, "web")
    assert kinds_of(actions(bench)) == [Create]


def test_a_pod_bound_by_another_client_is_deleted(bench: Bench) -> None:
    make(bench)
    bench.settle("pods", "shop", "web")
    v_of(bench)["spec"]["nodeName"] = "elsewhere.r1"
    bench.schedule("web")
    first, second = actions(bench)
    assert isinstance(first, Notify)
    assert (second.side, second.resource.plural) == ("tenant", "pods")


@pytest.mark.parametrize("grace", [30, 10**9])
def test_a_pod_that_another_super_cluster_has_bound_loses_its_copy_and_nothing_else(
    bench: Bench, grace: int
) -> None:
    """A binding from there came after the Pod had been assigned here."""
    make(bench, {"terminationGracePeriodSeconds": grace})
    bench.settle("pods", "shop", "web")
    v_of(bench)["spec"]["nodeName"] = f"{NODE}.r2"
    bench.schedule("web")
    (delete,) = actions(bench)
    assert (delete.side, delete.resource.plural, delete.confirm) == ("super", "pods", False)
    assert delete.grace_seconds == (None if grace == 30 else LONGEST_GRACE_SECONDS)
    bench.settle("pods", "shop", "web")
    assert bench.get("super", PODS, "web")["metadata"]["deletionTimestamp"]
    wait = bench.plan("pods", "shop", "web").wait
    assert wait is not None
    assert "which is not in super cluster r1" in wait.reason
    mark(bench, "tenant", 5)
    (sooner,) = actions(bench)
    assert (sooner.side, sooner.grace_seconds) == ("super", 5)
    bench.remove("super", PODS, "web")
    assert bench.has("tenant", PODS, "web")
    assert actions(bench) == ()


def test_a_copy_without_its_pod_ends_within_a_day(bench: Bench) -> None:
    make(bench, {"terminationGracePeriodSeconds": 10**9})
    bench.settle("pods", "shop", "web")
    bench.schedule("web")
    bench.remove("tenant", PODS, "web", seen=False)
    (delete,) = actions(bench)
    assert (delete.confirm, delete.grace_seconds) == (True, LONGEST_GRACE_SECONDS)


def test_a_copy_that_is_drained_before_its_pod_was_bound_takes_it_along_as_a_running_one(
    bench: Bench,
) -> None:
    """The tenant's API would remove a Pod without node at once, and its namesake could run beside the copy."""
    make(bench)
    bench.settle("pods", "shop", "web")
    bench.schedule("web")
    mark(bench, "super", 12)
    bench.settle("pods", "shop", "web")
    assert v_of(bench)["spec"]["nodeName"] == f"{NODE}.r1"
    assert v_of(bench)["metadata"]["deletionGracePeriodSeconds"] == 12


# --- Property: one step settles ---

CONTAINER = st.fixed_dictionaries(
    {"image": st.sampled_from(["a:1", "b:2"])},
    optional={
        "resources": st.fixed_dictionaries(
            {},
            optional={
                "requests": st.dictionaries(
                    st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "500m"])
                ),
                "limits": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.just("2")),
            },
        ),
        "env": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(["A", "B", "KUBERNETES_SERVICE_HOST"]),
                    "valueFrom": st.fixed_dictionaries(
                        {
                            "fieldRef": st.fixed_dictionaries(
                                {
                                    "fieldPath": st.sampled_from(
                                        ["metadata.uid", "spec.nodeName", "metadata.labels['k8s.io/x']"]
                                    )
                                }
                            )
                        }
                    ),
                }
            ),
            max_size=2,
        ),
    },
)
ITEM = st.fixed_dictionaries(
    {
        "path": st.just("f"),
        "fieldRef": st.fixed_dictionaries(
            {
                "fieldPath": st.sampled_from(
                    ["metadata.labels", "metadata.annotations", "metadata.uid", "metadata.labels['k8s.io/x']"]
                )
            }
        ),
    }
)
VOLUME = st.one_of(
    st.just(TOKEN_VOLUME),
    st.just({"name": "e", "emptyDir": {}}),
    st.builds(lambda items: {"name": "d", "downwardAPI": {"items": items}}, st.lists(ITEM, max_size=3)),
)
TEXTS = st.dictionaries(
    st.sampled_from(
        ["a", "app.kubernetes.io/name", "k8s.io/x", names.UID, names.CONTROLLED, names.REFUSED, names.TOKENS]
    ),
    st.text(max_size=6),
)
POD_SPEC = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINER, min_size=1, max_size=3)},
    optional={
        "volumes": st.lists(VOLUME, max_size=3),
        "tolerations": st.lists(
            st.sampled_from([{"key": "a", "operator": "Exists"}, {"key": "b"}]), max_size=2
        ),
        "activeDeadlineSeconds": st.integers(1, 99),
        "priorityClassName": st.just("high"),
    },
)


def named(spec: Json) -> Json:
    spec = copy.deepcopy(spec)
    for index, container in enumerate(spec["containers"]):
        container["name"] = f"c{index}"
    return spec


@given(POD_SPEC, TEXTS, TEXTS, TEXTS)
@settings(max_examples=60, deadline=None)
def test_pods_settle_in_one_step(spec: Json, labels: Json, annotations: Json, relabelled: Json) -> None:
    bench = Bench()
    bench.place()
    make(bench, named(spec), labels=labels, annotations=annotations)
    assert len(bench.settle("pods", "shop", "web")) == 1
    bench.schedule("web")
    assert len(bench.settle("pods", "shop", "web")) == 1
    bench.run("web")
    assert len(bench.settle("pods", "shop", "web")) == 1
    v_of(bench)["metadata"]["labels"] = relabelled
    assert len(bench.settle("pods", "shop", "web")) <= 1
    p = p_of(bench)
    assert p["metadata"]["labels"][names.CONTROLLED] == "true"
    assert p["metadata"]["annotations"][names.UID] == v_of(bench)["metadata"]["uid"]


def test_the_same_inputs_give_the_same_plan_and_are_not_changed(bench: Bench) -> None:
    make(bench, {"volumes": [TOKEN_VOLUME]})
    before = copy.deepcopy(bench.objects)
    assert bench.plan("pods", "shop", "web") == bench.plan("pods", "shop", "web")
    assert bench.objects == before


def test_a_pod_waits_for_its_account_in_the_super_cluster(bench: Bench) -> None:
    make(bench)
    bench.remove("super", SERVICE_ACCOUNTS, "default")
    assert wait_of(bench) == {("serviceaccounts", "default")}

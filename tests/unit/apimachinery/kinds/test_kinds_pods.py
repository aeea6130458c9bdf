"""Updates of Pods, their deletion, and their quality of service."""

import copy
from typing import Any

import pytest

from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS
from vcsync.apimachinery.kinds.core import pod_defaults, pod_updates
from vcsync.apimachinery.kinds.core.pod import KIND
from vcsync.apimachinery.strategy import Context, User

POD = BEHAVIOURS["", "Pod"]
CONTEXT = Context("acme", User("admin"), "2026-01-01T00:00:00Z")


def pod(**spec: Any) -> dict[str, Any]:
    made = {
        "metadata": {"name": "web", "namespace": "shop", "generation": 1},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}], **spec},
    }
    POD.default(made)
    POD.prepare_create(made, CONTEXT)
    return made


def refused(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    return [str(each).partition("\n")[0] for each in POD.validate_update(new, old)]


def test_an_image_may_change() -> None:
    old = pod()
    new = copy.deepcopy(old)
    new["spec"]["containers"][0]["image"] = "nginx:2"
    assert refused(new, old) == []


def test_the_command_may_not_change() -> None:
    old = pod()
    new = copy.deepcopy(old)
    new["spec"]["containers"][0]["command"] = ["sh"]
    [told] = refused(new, old)
    assert told.startswith(
        "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    )
    assert told.endswith(
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
    )


def test_tolerations_may_be_added_but_not_taken() -> None:
    one = {"key": "a", "operator": "Exists"}
    old = pod(tolerations=[one])
    assert refused(pod(tolerations=[one, {"key": "b", "operator": "Exists"}]), old) == []
    assert refused(pod(), old) == [
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    ]


def test_gates_may_be_removed_only() -> None:
    old = pod(schedulingGates=[{"name": "a/b"}])
    assert refused(pod(), old) == []
    assert refused(pod(schedulingGates=[{"name": "c/d"}]), old) == [
        "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'c/d'"
    ]
    assert old["status"]["conditions"][0]["reason"] == "SchedulingGated"


def test_a_gated_pod_may_become_choosier() -> None:
    gates = [{"name": "a/b"}]
    old = pod(schedulingGates=gates, nodeSelector={"a": "b"})
    assert refused(pod(schedulingGates=gates, nodeSelector={"a": "b", "c": "d"}), old) == []
    assert len(refused(pod(schedulingGates=gates, nodeSelector={"c": "d"}), old)) == 1


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_quality_of_service(resources: dict[str, Any], quality: str) -> None:
    made = pod(containers=[{"name": "c", "image": "x", "resources": resources}])
    assert made["status"]["qosClass"] == quality


@pytest.mark.parametrize(
    ("spec", "status", "options", "seconds"),
    [
        ({"nodeName": "n"}, {}, {}, 30),
        ({"nodeName": "n"}, {}, {"gracePeriodSeconds": 5}, 5),
        ({"nodeName": "n"}, {}, {"gracePeriodSeconds": -1}, 1),
        ({}, {}, {"gracePeriodSeconds": 5}, 0),
        ({"nodeName": "n"}, {"phase": "Succeeded"}, {}, 0),
    ],
)
def test_the_grace_period_of_a_deletion(
    spec: dict[str, Any], status: dict[str, Any], options: dict[str, Any], seconds: int
) -> None:
    made = pod(**spec)
    made["status"].update(status)
    assert POD.grace_seconds is not None
    assert POD.grace_seconds(made, options) == seconds


def test_ephemeral_containers_come_by_their_own_path_and_stay() -> None:
    old = pod()
    new = copy.deepcopy(old)
    new["spec"]["ephemeralContainers"] = [{"name": "look", "image": "busybox"}]
    new["spec"]["hostname"] = "other"
    POD.default(new)
    write = KIND.partial_writes["ephemeralcontainers"]
    write.prepare(new, old, CONTEXT)
    assert "hostname" not in new["spec"]
    assert write.validate(new, old) == []
    assert [each.body.strip() for each in write.validate(old, new)] == [
        'Forbidden: existing ephemeral containers "look" may not be removed'
    ]


def test_a_pod_with_gates_tells_since_when_it_waits() -> None:
    (condition,) = pod(schedulingGates=[{"name": "x/y"}])["status"]["conditions"]
    assert (condition["reason"], condition["lastTransitionTime"]) == ("SchedulingGated", CONTEXT.now)


def test_a_resize_changes_resources_only() -> None:
    old = pod(containers=[{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}])
    new = copy.deepcopy(old)
    new["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    new["spec"]["containers"][0]["image"] = "y"
    write = KIND.partial_writes["resize"]
    write.prepare(new, old, CONTEXT)
    assert new["spec"]["containers"][0]["image"] == "x"
    assert write.validate(new, old) == []
    new["spec"]["containers"][0]["resources"] = {}
    assert [each.field for each in write.validate(new, old)] == [
        "spec",
        "spec.containers[0].resources.requests",
    ]


@pytest.mark.parametrize(
    ("kind", "change", "told"),
    [
        ("containers", {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}, "spec"),
        ("containers", {"resources": {"requests": {"cpu": "1", "example.com/x": "1"}}}, "spec"),
        (
            "initContainers",
            {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]},
            "spec.initContainers[0]",
        ),
    ],
)
def test_a_resize_leaves_policies_and_other_resources_as_they_are(
    kind: str, change: dict[str, Any], told: str
) -> None:
    container = {"image": "x", "resources": {"requests": {"cpu": "1"}}}
    old = pod(containers=[{"name": "c", **container}], initContainers=[{"name": "i", **container}])
    new = copy.deepcopy(old)
    new["spec"][kind][0] |= change
    assert told in [each.field for each in KIND.partial_writes["resize"].validate(new, old)]


def test_an_init_container_that_would_start_anew_is_not_resized() -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    init = {
        "name": "i",
        "image": "x",
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}},
        "resizePolicy": policy,
    }
    old = pod(containers=[{"name": "c", "image": "x"}], initContainers=[init])
    new = copy.deepcopy(old)
    assert list(pod_updates.resize_changes(new, old)) == []
    new["spec"]["initContainers"][0]["resources"]["requests"]["cpu"] = "2"
    assert [each.field for each in pod_updates.resize_changes(new, old)] == ["spec.initContainers[0]"]
    for each in (new, old):
        each["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    assert list(pod_updates.resize_changes(new, old)) == []


def test_a_status_keeps_its_quality_and_no_container_rises_from_the_dead() -> None:
    assert POD.status is not None
    ended = [{"name": "c", "state": {"terminated": {"exitCode": 0}}}]
    old = pod(restartPolicy="Never")
    old["status"]["containerStatuses"] = ended
    new = copy.deepcopy(old)
    new["status"] = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
    POD.status.prepare(new, old, CONTEXT)
    assert new["status"]["qosClass"] == "BestEffort"
    assert [str(each) for each in POD.status.validate(new, old)] == [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    ]


def test_duplicate_variables_and_ports_are_warned_of() -> None:
    made = pod(
        containers=[
            {
                "name": "c",
                "image": "x",
                "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
                "ports": [{"containerPort": 80}, {"containerPort": 80}],
            }
        ]
    )
    assert POD.warnings(made, None) == [
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
        "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
    ]
    assert POD.warnings(made, made) == []


def test_an_empty_overhead_is_seen_by_admission_and_never_stored() -> None:
    new = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}], "overhead": {}}}
    POD.default(new)
    assert new["spec"]["overhead"] == {}, "admission refuses it"
    old = copy.deepcopy(new)
    del old["spec"]["overhead"]
    POD.prepare_update(new, old, CONTEXT)
    assert "overhead" not in new["spec"]


def test_an_empty_overhead_of_a_template_is_none() -> None:
    spec = {"containers": [{"name": "c", "image": "x"}], "overhead": {}}
    found = {"metadata": {"name": "t"}, "template": {"metadata": {}, "spec": spec}}
    BEHAVIOURS["", "PodTemplate"].default(found)
    assert "overhead" not in found["template"]["spec"]


def test_annotations_that_stood_for_init_containers_are_dropped_from_pods_and_templates():
    old = {
        "pod.beta.kubernetes.io/init-containers": "[]",
        "pod.alpha.kubernetes.io/init-container-statuses": "[]",
    }
    for default in (pod_defaults.pod, pod_defaults.template):
        alone: dict[str, Any] = {"metadata": {"annotations": {**old}}}
        default(alone)
        assert alone["metadata"] == {}
        mixed: dict[str, Any] = {"metadata": {"annotations": {**old, "own": "x"}}}
        default(mixed)
        assert mixed["metadata"] == {"annotations": {"own": "x"}}

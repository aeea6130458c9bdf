"""The simulated kubelet: the life of a Pod, which is the same for the same seed."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from vcsync.objects.envelope import encode, parse
from vcsync.simulate.chance import Latency
from vcsync.simulate.kubelet import JOB_LABEL, SEEN_SECONDS, KubeletBehaviour, began, next_step, span
from vcsync.simulate.nodes import MEMORY
from vcsync.simulate.reports import READY, Place, Status

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIME = "2026-01-01T00:00:00Z"
PLACE = Place("172.16.0.1", "10.0.0.1")
FAILING = {"exec": {"command": ["false"]}}


def pod(
    status: dict[str, Any] | None = None, *, job: bool = False, command: Any = None, **fields: Any
) -> Any:
    metadata = {
        "name": "p",
        "namespace": "n",
        "uid": "u",
        "labels": {JOB_LABEL: "j"} if job else {},
        **fields.pop("metadata", {}),
    }
    container = {"name": "c", "image": "i", **({"command": command} if command else {})}
    container |= fields.pop("container", {})
    spec = {"nodeName": "node-0", "containers": [container], **fields}
    return parse(encode({"metadata": metadata, "spec": spec, "status": status or {}}))


def step(of: Any, passed: float = 0, behaviour: KubeletBehaviour | None = None, place: Place = PLACE) -> Any:
    return next_step(of, place, NOW - timedelta(seconds=passed), NOW, behaviour or KubeletBehaviour())


def running(restarts: int = 0, **further: Any) -> dict[str, Any]:
    """Return the status of a Pod that runs and is ready."""
    return {
        "phase": "Running",
        "startTime": TIME,
        "conditions": [{"type": each, "status": "True"} for each in ("ContainersReady", "Ready")],
        "containerStatuses": [
            {
                "name": "c",
                "ready": True,
                "restartCount": restarts,
                "state": {"running": {"startedAt": TIME}},
            }
        ],
        **further,
    }


def stored(patch: dict[str, Any]) -> dict[str, Any]:
    """Return the status that an API server stores for a patch of a Pod without a status: null removes a field."""
    conditions = [
        {name: value for name, value in each.items() if value is not None} for each in patch["conditions"]
    ]
    return {**patch, "conditions": conditions}


def condition(status: dict[str, Any], type_: str) -> Any:
    return next((each for each in status["conditions"] if each["type"] == type_), None)


def test_a_bound_pod_runs_with_addresses_and_ready_containers() -> None:
    status = step(pod()).status
    assert (status["phase"], status["hostIP"], status["podIP"]) == ("Running", "172.16.0.1", "10.0.0.1")
    assert {each["type"]: each["status"] for each in status["conditions"]} == dict.fromkeys(
        ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"), "True"
    )
    assert status["containerStatuses"][0]["ready"]
    assert status["podIPs"] == [{"ip": "10.0.0.1"}]


def test_the_start_takes_the_configured_latency() -> None:
    behaviour = KubeletBehaviour(start=Latency(2.0, 2.0))
    assert step(pod(), 0.5, behaviour).after == pytest.approx(1.5)
    assert step(pod(), 5, behaviour).after == 0


def test_random_behaviour_depends_only_on_seed_and_name() -> None:
    behaviour = KubeletBehaviour(seed=3, start=Latency(1.0, 9.0))
    first = step(pod(metadata={"uid": "a"}), behaviour=behaviour).after
    assert step(pod(metadata={"uid": "b"}), behaviour=behaviour).after == first
    assert step(pod(metadata={"name": "other"}), behaviour=behaviour).after != first
    assert step(pod(), behaviour=KubeletBehaviour(seed=4, start=Latency(1.0, 9.0))).after != first


# ---- Readiness ---------------------------------------------------------------------------


def test_a_readiness_gate_delays_ready() -> None:
    gates = [{"conditionType": "net"}]
    started = step(pod(readinessGates=gates)).status
    assert condition(started, "Ready")["reason"] == "ReadinessGatesNotReady"
    assert step(pod(started, readinessGates=gates)) is None
    gate = {"type": "net", "status": "True", "lastTransitionTime": None}
    opened = {**started, "conditions": [*started["conditions"], gate]}
    assert condition(step(pod(opened, readinessGates=gates)).status, "Ready")["status"] == "True"


def test_containers_report_allocated_resources() -> None:
    amounts = {"requests": {"cpu": "10m"}, "limits": {"cpu": "20m"}}
    (reported,) = step(pod({"phase": "Pending"}, container={"resources": amounts})).status[
        "containerStatuses"
    ]
    assert reported["resources"] == amounts
    assert reported["allocatedResources"] == {"cpu": "10m"}
    larger = {"requests": {"cpu": "30m"}, "limits": {"cpu": "30m"}}
    resized = pod(running(), container={"resources": larger}, metadata={"generation": 2})
    (reported,) = step(resized).status["containerStatuses"]
    assert reported["resources"] == larger
    (reported,) = step(pod({"phase": "Pending"})).status["containerStatuses"]
    assert "resources" not in reported


def test_missing_times_do_not_matter() -> None:
    status = running()
    status["containerStatuses"][0]["state"] = {"running": {"startedAt": None}}
    assert step(pod(status)) is None
    began = step(pod(status, metadata={"generation": 2})).status["containerStatuses"][0]["state"]
    assert began == {"running": {"startedAt": NOW.strftime("%Y-%m-%dT%H:%M:%SZ")}}


def test_a_readiness_probe_delays_ready() -> None:
    probed = {"readinessProbe": {"httpGet": {"port": 80}, "initialDelaySeconds": 5}}
    started = step(pod(container=probed)).status
    assert condition(started, "Ready")["reason"] == "ContainersNotReady"
    assert not started["containerStatuses"][0]["ready"]
    assert step(pod(started, container=probed), 2).after == 3
    later = step(pod(started, container=probed), 5).status
    assert condition(later, "Ready")["status"] == "True"
    assert later["containerStatuses"][0]["ready"]


def test_a_failing_readiness_command_prevents_ready() -> None:
    probed = {"readinessProbe": FAILING}
    started = step(pod(container=probed)).status
    assert condition(started, "ContainersReady")["status"] == "False"
    assert step(pod(started, container=probed), 1e6) is None


def test_a_failing_liveness_probe_restarts_the_container() -> None:
    probed = {
        "livenessProbe": {**FAILING, "initialDelaySeconds": 5, "periodSeconds": 2, "failureThreshold": 3}
    }
    found = step(pod(running(), container=probed), 1)
    assert found.after == 10
    [container] = found.status["containerStatuses"]
    assert (container["restartCount"], container["lastState"]["terminated"]["exitCode"]) == (1, 137)


def test_a_pod_becomes_ready_again_after_its_node_was_silent() -> None:
    silent = running(
        conditions=[{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "False"}]
    )
    assert condition(step(pod(silent)).status, "Ready")["status"] == "True"


def test_a_new_spec_is_reported_as_seen() -> None:
    seen = step(pod(running(observedGeneration=1), metadata={"generation": 2}))
    assert seen.status["observedGeneration"] == 2
    # Otherwise kubectl would wait forever for a condition of the new spec.
    reported = {each["type"]: each["observedGeneration"] for each in seen.status["conditions"]}
    assert reported == {"ContainersReady": 2, "Ready": 2}


# ---- Init containers ---------------------------------------------------------------------


def ephemeral(status: dict[str, Any]) -> Any:
    [reported] = status["ephemeralContainerStatuses"]
    return reported["name"], reported["state"]


def test_an_ephemeral_container_runs_once_it_is_seen_until_the_pod_ends() -> None:
    debugged = {"ephemeralContainers": [{"name": "d", "image": "busybox"}]}
    begun = ("d", {"running": {"startedAt": TIME}})
    assert ephemeral(step(pod(**debugged)).status) == begun
    seen = step(pod(running(observedGeneration=1), metadata={"generation": 2}, **debugged)).status
    assert ephemeral(seen) == begun
    later = step(
        pod(
            running(observedGeneration=2, ephemeralContainerStatuses=seen["ephemeralContainerStatuses"]),
            metadata={"generation": 2},
            command=["false"],
            restartPolicy="Never",
            **debugged,
        )
    )
    name, state = ephemeral(later.status)
    assert (name, state["terminated"]["startedAt"], state["terminated"]["exitCode"]) == ("d", TIME, 1)


def test_a_pod_runs_after_its_init_containers() -> None:
    init = [{"name": "i", "command": ["sleep", "3"]}, {"name": "s", "restartPolicy": "Always"}]
    found = step(pod(initContainers=init), 1)
    assert found.after == 2
    one, sidecar = found.status["initContainerStatuses"]
    assert one["state"]["terminated"]["reason"] == "Completed"
    assert "running" in sidecar["state"]


def test_a_failing_init_container_is_restarted_with_backoff() -> None:
    init = [{"name": "i", "command": ["false"]}, {"name": "j"}]
    failed = step(pod(initContainers=init))
    assert (failed.after, failed.status["phase"]) == (0, "Pending")
    assert condition(failed.status, "Initialized")["message"] == "containers with incomplete status: [i j]"
    first, second = failed.status["initContainerStatuses"]
    assert (first["restartCount"], second["state"]) == (1, {"waiting": {"reason": "PodInitializing"}})
    again = step(pod(failed.status, initContainers=init))
    assert (again.after, again.status["initContainerStatuses"][0]["restartCount"]) == (10, 2)


def test_a_failing_init_container_fails_a_pod_with_restart_policy_never() -> None:
    init = [{"name": "i", "command": ["sh", "-c", "exit 4"]}]
    failed = step(pod(initContainers=init, restartPolicy="Never")).status
    assert failed["phase"] == "Failed"
    assert failed["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 4


# ---- Ends --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "phase"),
    [
        (None, "Succeeded"),
        (["sh", "-c", "exit 3"], "Failed"),
        (["/bin/false"], "Failed"),
        (["sh", "-c", "if [ -r /seen ]\nthen exit 0\nelse exit 3\nfi"], "Succeeded"),
        (["sleep", "0"], "Succeeded"),
    ],
)
def test_a_jobs_pod_ends_as_its_command_would(command: Any, phase: str) -> None:
    found = step(pod(running(), job=True, command=command, restartPolicy="Never"))
    assert found.status["phase"] == phase


@pytest.mark.parametrize("command", [["sleep", "30"], ["sh", "-c", "echo hi; sleep 30"]])
def test_a_jobs_pod_sleeps_as_long_as_it_says(command: Any) -> None:
    found = step(pod(running(), job=True, command=command, restartPolicy="Never"), passed=10)
    assert (found.after, found.status["phase"]) == (20, "Succeeded")


@pytest.mark.parametrize("command", [["sleep", "infinity"], ["sh", "-c", "sleep infinity; exit 1"]])
def test_a_command_that_sleeps_for_ever_does_not_end(command: Any) -> None:
    assert step(pod(running(), job=True, command=command, restartPolicy="Never")) is None
    assert step(pod(initContainers=[{"name": "i", "command": command}])) is None
    limited = pod(running(), command=command, restartPolicy="Never", activeDeadlineSeconds=5)
    assert step(limited).after == 5


def test_a_pod_with_restart_policy_never_ends_as_its_script_would() -> None:
    command = ["sh", "-c", "echo hi; sleep 2; exit 3"]
    found = step(pod(running(), command=command, restartPolicy="Never"))
    assert (found.after, found.status["phase"]) == (2, "Failed")
    [container] = found.status["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 3
    assert container["state"]["terminated"]["startedAt"] == TIME


@pytest.mark.parametrize(
    ("command", "policy"),
    [(None, "Never"), (["nginx"], "Never"), (["sh", "-c", "exit 3"], "Always"), (["sh"], "OnFailure")],
)
def test_other_pods_keep_running(command: Any, policy: str) -> None:
    assert step(pod(running(), command=command, restartPolicy=policy)) is None


def test_a_failing_container_is_restarted_with_growing_backoff() -> None:
    failing: dict[str, Any] = {"job": True, "command": ["/bin/false"], "restartPolicy": "OnFailure"}
    [container] = step(pod(running(), **failing)).status["containerStatuses"]
    assert (container["restartCount"], container["ready"]) == (1, True)
    assert step(pod(running(restarts=3), **failing)).after == 40


def test_a_pod_ends_at_its_deadline() -> None:
    soon = pod(running(), activeDeadlineSeconds=30)
    assert (step(soon).after, step(soon).status) == (30, None)
    over = next_step(soon, PLACE, NOW, NOW + timedelta(seconds=30), KubeletBehaviour())
    assert over is not None
    assert over.status is not None
    assert (over.status["phase"], over.status["reason"]) == ("Failed", "DeadlineExceeded")


@pytest.mark.parametrize(("quality", "goes"), [("BestEffort", True), ("Burstable", False)])
def test_a_node_under_pressure_evicts_best_effort_pods(quality: str, goes: bool) -> None:
    found = step(pod(running(qosClass=quality)), place=Place("172.16.0.1", "10.0.0.1", MEMORY))
    assert (found is not None) == goes
    if found is not None:
        assert (found.status["phase"], found.status["reason"]) == ("Failed", "Evicted")
        assert condition(found.status, "DisruptionTarget")["reason"] == "TerminationByKubelet"


# ---- Deletion ----------------------------------------------------------------------------


def deleted(**further: Any) -> dict[str, Any]:
    return {"deletionTimestamp": TIME, "deletionGracePeriodSeconds": 3, **further}


def test_a_deleted_pod_ends_within_its_grace_period() -> None:
    behaviour = KubeletBehaviour(stop=Latency(100.0, 100.0))
    found = step(pod(running(), metadata=deleted()), 1, behaviour)
    assert (found.gone, found.after, found.status["phase"]) == (False, 2, "Failed")


SLOW = {"exec": {"command": ["sleep", "2"]}}


def test_containers_run_once_their_hooks_after_the_start_have_ended() -> None:
    two = [
        {"name": each, "lifecycle": {"postStart": hook}}
        for each, hook in (("c", SLOW), ("d", {"sleep": {"seconds": 3}}))
    ]
    found = step(pod(containers=two), 1)
    assert (found.after, found.status["phase"]) == (4, "Running")


@pytest.mark.parametrize(
    ("hook", "after"), [(SLOW, 1), ({"sleep": {"seconds": 60}}, 2), ({"httpGet": {"port": 80}}, 0), ({}, 0)]
)
def test_a_deleted_pod_ends_after_its_hook_or_its_grace_period(hook: Any, after: float) -> None:
    found = step(pod(running(), container={"lifecycle": {"preStop": hook}}, metadata=deleted()), 1)
    assert (found.after, found.status["phase"]) == (after, "Failed")


def test_the_hook_before_the_end_is_not_run_in_a_pod_that_does_not_run() -> None:
    assert step(pod(container={"lifecycle": {"preStop": SLOW}}, metadata=deleted())).after == 0


def test_the_containers_of_a_deleted_pod_end_before_it_is_gone() -> None:
    ended = step(pod(running(), metadata=deleted()))
    assert (ended.gone, ended.status["phase"]) == (False, "Failed")
    assert [condition(ended.status, each)["status"] for each in READY] == ["False", "False"]
    assert list(ended.status["containerStatuses"][0]["state"]) == ["terminated"]
    gone = step(pod(stored(ended.status), metadata=deleted()))
    assert (gone.gone, gone.after) == (True, SEEN_SECONDS), "watchers see both"


@pytest.mark.parametrize(
    ("status", "grace"), [(None, 3), ("running", 0)], ids=["it never ran", "it is removed by force"]
)
def test_a_pod_is_gone_at_once_if_nothing_ends(status: str | None, grace: int) -> None:
    before = running() if status else {}
    found = step(pod(before, metadata=deleted(deletionGracePeriodSeconds=grace)))
    assert (found.gone, found.after) == (True, 0)


def test_a_deleted_pod_with_finalizers_ends_first() -> None:
    held = deleted(finalizers=["x/y"])
    ended = step(pod(running(), metadata=held))
    assert (ended.gone, ended.status["phase"]) == (False, "Failed")
    assert step(pod(stored(ended.status), metadata=held)).gone
    assert step(pod(stored(ended.status), metadata={**held, "deletionGracePeriodSeconds": 0})) is None


# ---- Chance ------------------------------------------------------------------------------


def test_the_same_seed_fails_the_same_pods_once() -> None:
    behaviour = KubeletBehaviour(seed=7, failing=0.5)

    def unlucky() -> list[bool]:
        found = (
            step(pod(running(), metadata={"name": f"p{number}"}), behaviour=behaviour)
            for number in range(200)
        )
        return [each is not None for each in found]

    assert unlucky() == unlucky()
    assert 60 < sum(unlucky()) < 140
    assert step(pod(running(restarts=1)), behaviour=KubeletBehaviour(failing=1.0)) is None


def test_latencies_have_the_configured_quantiles() -> None:
    drawn = sorted(Latency(1.0, 4.0).draw(1, number) for number in range(4000))
    assert drawn[2000] == pytest.approx(1.0, rel=0.1)
    assert drawn[3960] == pytest.approx(4.0, rel=0.3)


# ---- A kubelet that comes back -----------------------------------------------------------


def test_a_restarted_kubelet_reads_times_from_the_status() -> None:
    later = NOW + timedelta(hours=1)
    decoded = Status(phase="Pending")
    assert began(decoded, later) == later
    status = step(pod()).status
    from_status = parse(encode({"metadata": {"name": "p"}, "status": status})).status
    assert began(msgspec.json.decode(from_status, type=Status), later) == NOW


def test_a_restart_of_a_container_restarts_the_time() -> None:
    spans = {span(pod(), msgspec.convert(running(restarts=number), Status)) for number in (0, 1, 1)}
    assert len(spans) == 2

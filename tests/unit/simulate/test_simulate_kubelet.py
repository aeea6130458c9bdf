"""The pretend kubelet: a Pod's story, the same for the same seed."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from vcsync.kube.envelope import encode, parse
from vcsync.simulate.chance import Latency
from vcsync.simulate.kubelet import JOB_LABEL, Habits, next_step, pod_address

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NODE = "172.16.0.1"


def pod(
    status: dict[str, Any] | None = None, *, job: bool = False, command: Any = None, **fields: Any
) -> Any:
    metadata = {
        "name": "p",
        "uid": "u",
        "labels": {JOB_LABEL: "j"} if job else {},
        **fields.pop("metadata", {}),
    }
    container = {"name": "c", "image": "i", **({"command": command} if command else {})}
    spec = {"nodeName": "node-0", "containers": [container], **fields}
    return parse(encode({"metadata": metadata, "spec": spec, "status": status or {}}))


def step(of: Any, passed: float = 0, habits: Habits | None = None) -> Any:
    return next_step(of, NODE, NOW - timedelta(seconds=passed), NOW, habits or Habits())


def test_a_bound_pod_runs_with_addresses_and_ready_containers() -> None:
    status = step(pod()).status
    assert (status["phase"], status["hostIP"], status["podIP"]) == ("Running", NODE, pod_address("u"))
    assert status["conditions"][-1]["type"] == "Ready"
    assert status["containerStatuses"][0]["ready"]


def test_it_takes_as_long_as_its_latency_says() -> None:
    habits = Habits(start=Latency(2.0, 2.0))
    assert step(pod(), 0.5, habits).after == pytest.approx(1.5)
    assert step(pod(), 5, habits).after == 0


def test_a_readiness_gate_holds_back_ready_until_it_is_open() -> None:
    gates = [{"conditionType": "net"}]
    started = step(pod(readinessGates=gates)).status
    assert started["conditions"][-1]["reason"] == "ReadinessGatesNotReady"
    assert step(pod(started, readinessGates=gates)) is None
    opened = {**started, "conditions": [*started["conditions"], {"type": "net", "status": "True"}]}
    assert step(pod(opened, readinessGates=gates)).status["conditions"][0]["status"] == "True"


@pytest.mark.parametrize(
    ("command", "policy", "phase"),
    [
        (None, "Never", "Succeeded"),
        (["sh", "-c", "exit 3"], "Never", "Failed"),
        (["/bin/false"], "Never", "Failed"),
        (["sh", "-c", "if [ -r /seen ]\nthen exit 0\nelse exit 3\nfi"], "Never", "Succeeded"),
        (["sleep", "0"], "Never", "Succeeded"),
    ],
)
def test_a_jobs_pod_ends_as_its_command_would(command: Any, policy: str, phase: str) -> None:
    found = step(pod({"phase": "Running"}, job=True, command=command, restartPolicy=policy))
    assert found.status["phase"] == phase


def test_a_jobs_pod_sleeps_as_long_as_it_says() -> None:
    found = step(pod({"phase": "Running"}, job=True, command=["sleep", "30"]), passed=10)
    assert (found.after, found.status["phase"]) == (20, "Succeeded")


def test_a_container_that_fails_is_started_again_with_growing_pauses() -> None:
    failing = pod({"phase": "Running"}, job=True, command=["/bin/false"], restartPolicy="OnFailure")
    [container] = step(failing).status["containerStatuses"]
    assert (container["restartCount"], container["ready"]) == (1, True)
    again = {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 3}]}
    found = step(pod(again, job=True, command=["/bin/false"], restartPolicy="OnFailure"))
    assert found.after == 80


def test_what_is_no_job_runs_on() -> None:
    assert step(pod({"phase": "Running"})) is None


def test_a_deleted_pod_goes_within_its_grace() -> None:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3}
    habits = Habits(stop=Latency(100.0, 100.0))
    found = step(pod({"phase": "Running"}, metadata=deleted), 1, habits)
    assert (found.gone, found.after) == (True, 2)


def test_an_unlucky_pod_fails_once_and_the_same_ones_every_time() -> None:
    habits = Habits(seed=7, failing=0.5)
    unlucky = [
        bool(step(pod({"phase": "Running"}, metadata={"uid": f"u{number}"}), habits=habits))
        for number in range(200)
    ]
    again = [
        bool(step(pod({"phase": "Running"}, metadata={"uid": f"u{number}"}), habits=habits))
        for number in range(200)
    ]
    assert unlucky == again
    assert 60 < sum(unlucky) < 140


def test_latencies_keep_to_their_quantiles() -> None:
    drawn = sorted(Latency(1.0, 4.0).draw(1, number) for number in range(4000))
    assert drawn[2000] == pytest.approx(1.0, rel=0.1)
    assert drawn[3960] == pytest.approx(4.0, rel=0.3)

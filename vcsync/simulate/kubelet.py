"""The pretend kubelet: what becomes of a Pod on its node, and when. Pure.

A Job's Pod ends when its command would: `sleep 5` after five seconds, `exit 3` or `false` with that code unless a script
says `exit 0` as well, anything else soon and well; what is not a Job's runs on. The image `pause` never ends.
"""

import re
from datetime import datetime
from typing import Any

from msgspec import Struct

from vcsync.kube.envelope import Envelope, decode
from vcsync.simulate.chance import Latency, share

JOB_LABEL = "batch.kubernetes.io/job-name"
PODS_NETWORK = 10 << 24
FINISHED = frozenset({"Succeeded", "Failed"})
BACKOFF = (10.0, 300.0)
"""Seconds before a container that failed is started again: the first time, and at most."""
_FAILS = re.compile(r"^(?!.*exit 0\b).*(?:exit ([1-9]\d{0,2})\b|(?:^|/)false$)", re.DOTALL)
_SLEEPS = re.compile(r"^(?:\S*/)?sleep (\d+(?:\.\d+)?)(?:s)?$")


class Habits(Struct, frozen=True):
    """How kubelets of a hollow cluster behave; the same seed, the same story."""

    seed: int = 0
    start: Latency = Latency()
    stop: Latency = Latency()
    job: Latency = Latency(0.0, 0.0)
    failing: float = 0.0
    """Share of Pods whose first container fails once it runs, 0 to 1."""


class _Container(Struct, rename="camel"):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    restart_policy: str = ""


class _Gate(Struct, rename="camel"):
    condition_type: str = ""


class Spec(Struct, rename="camel"):
    """The parts of a Pod's spec."""

    node_name: str = ""
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    readiness_gates: tuple[_Gate, ...] | None = None
    restart_policy: str = "Always"
    host_network: bool = False


class _Condition(Struct, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""


class _ContainerStatus(Struct, rename="camel"):
    name: str = ""
    restart_count: int = 0


class Status(Struct, rename="camel"):
    """The parts of a Pod's status."""

    phase: str = "Pending"
    start_time: str | None = None
    observed_generation: int = 0
    conditions: tuple[_Condition, ...] | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None


class Step(Struct, frozen=True):
    """What a kubelet does next. `after`: seconds until then; `status`: what it reports; `gone`: the Pod is removed."""

    after: float
    status: dict[str, Any] | None = None
    gone: bool = False


class Moment(Struct, frozen=True):
    """When: `passed` seconds after the Pod came to be as it is."""

    passed: float
    now: datetime


def next_step(
    pod: Envelope, node_address: str, since: datetime, now: datetime, habits: Habits
) -> Step | None:
    """Return what happens next to a Pod that is bound; None: nothing until it changes.

    Args:
        pod: the Pod.
        node_address: of its node.
        since: when this kubelet came to know it in its present state.
        now: the time.
        habits: of the kubelet.
    """
    spec, status = decode(pod.spec, Spec), decode(pod.status, Status)
    passed = (now - since).total_seconds()
    if pod.deleting:
        grace = float(pod.deletion_grace_seconds or 0)
        wait = min(habits.stop.draw(habits.seed, pod.uid, "stop"), grace)
        return Step(max(wait - passed, 0.0), gone=True)
    if status.phase in FINISHED:
        return None
    if status.phase == "Pending":
        wait = habits.start.draw(habits.seed, pod.uid, "start")
        return Step(max(wait - passed, 0.0), _started(pod, spec, node_address, now))
    if pod.generation and status.observed_generation != pod.generation:
        return Step(
            0.0, {"observedGeneration": pod.generation, "containerStatuses": _running(pod, spec, status, now)}
        )
    if _gates_open(spec, status):
        ready = _condition("Ready", "True", now, pod.generation)
        return Step(0.0, {"conditions": [{**ready, "reason": None}]})
    return _ending(pod, spec, status, Moment(passed, now), habits)


def _gates_open(spec: Spec, status: Status) -> bool:
    """Whether a Pod waits for its readiness gates only, and all are open now."""
    states = {each.type: each for each in status.conditions or ()}
    ready = states.get("Ready")
    if not spec.readiness_gates or ready is None or ready.reason != "ReadinessGatesNotReady":
        return False
    opened = {type_ for type_, each in states.items() if each.status == "True"}
    return all(gate.condition_type in opened for gate in spec.readiness_gates)


def _ending(pod: Envelope, spec: Spec, status: Status, moment: "Moment", habits: Habits) -> Step | None:
    """Return how a running Pod ends, if it does."""
    passed, now = moment.passed, moment.now
    containers = spec.containers or ()
    first = containers[0] if containers else _Container()
    command = " ".join((*(first.command or ()), *(first.args or ())))
    fails, sleeps = _FAILS.search(command), _SLEEPS.match(command)
    is_job = JOB_LABEL in pod.labels
    if "/pause:" in first.image or first.image.startswith("pause:"):
        return None
    if sleeps and is_job:
        return Step(max(float(sleeps[1]) - passed, 0.0), _ended(spec, status, 0, now))
    restarts = status.container_statuses[0].restart_count if status.container_statuses else 0
    unlucky = share(habits.seed, pod.uid, "fails") < habits.failing and not restarts
    if not is_job and not unlucky:
        return None
    code = (int(fails[1] or 1) if fails else 0) or int(unlucky)
    wait = habits.job.draw(habits.seed, pod.uid, "job", restarts)
    if code and spec.restart_policy != "Never":
        pause = min(BACKOFF[0] * 2**restarts, BACKOFF[1]) if restarts else 0.0
        return Step(max(wait + pause - passed, 0.0), _restarted(pod, spec, status, code, now))
    return Step(max(wait - passed, 0.0), _ended(spec, status, code, now))


# ---- What it reports ---------------------------------------------------------------------


def _started(pod: Envelope, spec: Spec, node_address: str, now: datetime) -> dict[str, Any]:
    time, generation = _time(now), pod.generation
    address = node_address if spec.host_network else pod_address(pod.uid)
    ready = _condition("Ready", "True", now, generation)
    if spec.readiness_gates:
        ready |= {"status": "False", "reason": "ReadinessGatesNotReady"}
    conditions = [
        _condition(each, "True", now, generation)
        for each in ("PodReadyToStartContainers", "Initialized", "ContainersReady")
    ]
    status: dict[str, Any] = {
        "phase": "Running",
        "startTime": time,
        "conditions": [*conditions, ready],
        "containerStatuses": _running(pod, spec, Status(), now),
        "hostIP": node_address,
        "hostIPs": [{"ip": node_address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
    }
    if generation:
        status["observedGeneration"] = generation
    if spec.init_containers:
        status["initContainerStatuses"] = [_initial(pod, each, time) for each in spec.init_containers]
    return status


def _initial(pod: Envelope, container: _Container, time: str) -> dict[str, Any]:
    stays = container.restart_policy == "Always"
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": time, "finishedAt": time}
    return {
        **_container(pod, container),
        "ready": True,
        "started": stays,
        "restartCount": 0,
        "state": {"running": {"startedAt": time}} if stays else {"terminated": ended},
    }


def _running(pod: Envelope, spec: Spec, status: Status, now: datetime) -> list[dict[str, Any]]:
    restarts = {each.name: each.restart_count for each in status.container_statuses or ()}
    return [
        {
            **_container(pod, each),
            "ready": True,
            "started": True,
            "restartCount": restarts.get(each.name, 0),
            "state": {"running": {"startedAt": _time(now)}},
        }
        for each in spec.containers or ()
    ]


def _ended(spec: Spec, status: Status, code: int, now: datetime) -> dict[str, Any]:
    time, reason = _time(now), "Error" if code else "Completed"
    restarts = {each.name: each.restart_count for each in status.container_statuses or ()}
    told = "PodFailed" if code else "PodCompleted"
    return {
        "phase": "Failed" if code else "Succeeded",
        "conditions": [
            {"type": each, "status": "False", "reason": told, "lastTransitionTime": time}
            for each in ("Ready", "ContainersReady")
        ],
        "containerStatuses": [
            {
                "name": each.name,
                "image": each.image,
                "ready": False,
                "started": False,
                "restartCount": restarts.get(each.name, 0),
                "state": {
                    "terminated": {"exitCode": code, "reason": reason, "startedAt": time, "finishedAt": time}
                },
            }
            for each in spec.containers or ()
        ],
    }


def _restarted(pod: Envelope, spec: Spec, status: Status, code: int, now: datetime) -> dict[str, Any]:
    time = _time(now)
    statuses = _running(pod, spec, status, now)
    if statuses:
        statuses[0]["restartCount"] += 1
        statuses[0]["lastState"] = {
            "terminated": {"exitCode": code, "reason": "Error", "startedAt": time, "finishedAt": time}
        }
    return {"containerStatuses": statuses}


def _container(pod: Envelope, container: _Container) -> dict[str, Any]:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": f"hollow://{container.image}",
        "containerID": f"hollow://{pod.uid}/{container.name}",
    }


def _condition(type_: str, status: str, now: datetime, generation: int) -> dict[str, Any]:
    condition: dict[str, Any] = {"type": type_, "status": status, "lastTransitionTime": _time(now)}
    if generation:
        condition["observedGeneration"] = generation
    return condition


def pod_address(uid: str) -> str:
    """Return a Pod's address in 10.0.0.0/8, different for nearly all Pods."""
    number = PODS_NETWORK + int(share(0, uid, "address") * (2**24 - 2)) + 1
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def _time(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")

"""Reports of kubelets about their Pods: statuses, and patches of them. Pure.

A patch replaces each list of containers as a whole, and conditions individually.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from vcsync.objects.conditions import Condition
from vcsync.objects.envelope import Envelope

READY = ("ContainersReady", "Ready")
BEGUN = ("PodReadyToStartContainers", "Initialized")
OWN = frozenset({*READY, *BEGUN})
"""Conditions that kubelets report."""
RUNTIME = "hollow://"
"""Prefix of the ids of hollow containers."""


class _Exec(Struct):
    command: tuple[str, ...] | None = None


class Probe(Struct, rename="camel"):
    """The relevant parts of a probe."""

    exec: _Exec | None = None
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    failure_threshold: int = 3

    @property
    def command(self) -> tuple[str, ...]:
        """Return its command; empty: it uses the network."""
        return (self.exec.command or ()) if self.exec is not None else ()


class _Sleep(Struct):
    seconds: int = 0


class Hook(Struct):
    """The parts of a lifecycle hook."""

    exec: _Exec | None = None
    sleep: _Sleep | None = None

    @property
    def command(self) -> tuple[str, ...]:
        """Return its command; empty: it uses the network."""
        if self.sleep is not None:
            return ("sleep", str(self.sleep.seconds))
        return (self.exec.command or ()) if self.exec is not None else ()


class Lifecycle(Struct, rename="camel"):
    """The hooks of a container."""

    post_start: Hook | None = None
    pre_stop: Hook | None = None


class Container(Struct, rename="camel"):
    """The parts of a container's spec."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    resources: dict[str, Any] | None = None
    restart_policy: str = ""
    lifecycle: Lifecycle | None = None
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Return its command with arguments."""
        return (*(self.command or ()), *(self.args or ()))


class _Gate(Struct, rename="camel"):
    condition_type: str = ""


class Spec(Struct, rename="camel"):
    """The parts of a Pod's spec."""

    node_name: str = ""
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    ephemeral_containers: tuple[Container, ...] | None = None
    readiness_gates: tuple[_Gate, ...] | None = None
    restart_policy: str = "Always"
    host_network: bool = False
    active_deadline_seconds: int | None = None


class _Run(Struct, rename="camel"):
    started_at: str | None = None


class _Waiting(Struct):
    reason: str = ""
    message: str = ""


class _State(Struct):
    running: _Run | None = None
    waiting: _Waiting | None = None
    terminated: _Run | None = None


class ContainerStatus(Struct, rename="camel"):
    """The parts of a container's status."""

    name: str = ""
    restart_count: int = 0
    ready: bool = False
    state: _State | None = None

    @property
    def said(self) -> str:
        """Return the kubelet's message about why it waits; empty: it does not wait."""
        waits = self.state and self.state.waiting
        return waits.message if waits else ""

    @property
    def started_at(self) -> str:
        """Return the start of its current run; empty: it does not run."""
        run = self.state and (self.state.running or self.state.terminated)
        return (run.started_at if run else None) or ""


class Status(Struct, rename="camel"):
    """The parts of a Pod's status."""

    phase: str = "Pending"
    start_time: str | None = None
    qos_class: str = ""
    pod_ip: str = field(name="podIP", default="")
    observed_generation: int = 0
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    ephemeral_container_statuses: tuple[ContainerStatus, ...] | None = None

    @property
    def restarts(self) -> int:
        """Return the number of restarts of the first container."""
        return self.container_statuses[0].restart_count if self.container_statuses else 0

    @property
    def init_restarts(self) -> int:
        """Return the highest number of restarts of an init container."""
        return max((each.restart_count for each in self.init_container_statuses or ()), default=0)

    @property
    def ready(self) -> bool:
        """Return whether the status reports the Pod and all its containers as ready."""
        said = [each.status for each in self.conditions or () if each.type in READY]
        return said == ["True", "True"] and all(each.ready for each in self.container_statuses or ())


class Place(Struct, frozen=True):
    """The location of a Pod: the addresses of its node and of the Pod, and the node's simulated state (`nodes.STATES`)."""

    node_address: str
    address: str
    state: str = ""


def started(  # noqa: PLR0917 - a Pod and its circumstances
    pod: Envelope, spec: Spec, before: Status, place: Place, unready: Sequence[str], now: datetime
) -> dict[str, Any]:
    """Report that a Pod runs; `before`: its last report."""
    time, generation = _time(now), pod.generation
    conditions = [_condition(each, "True", now, generation) for each in BEGUN]
    explained = {each.type for each in before.conditions or () if each.reason}
    status: dict[str, Any] = {
        "phase": "Running",
        "startTime": before.start_time or time,
        "conditions": [
            {"reason": None, "message": None, **each} if each["type"] in explained else each
            for each in (*conditions, *_readiness(pod, spec, Status(), unready, now))
        ],
        "containerStatuses": _running(pod, spec, Status(), unready, now),
        **_ephemeral(pod, spec, Status(), now),
        **_addresses(place),
    }
    if generation:
        status["observedGeneration"] = generation
    if spec.init_containers:
        status["initContainerStatuses"] = [_initialized(pod, each, time) for each in spec.init_containers]
    return status


def _addresses(place: Place) -> dict[str, Any]:
    return {
        "hostIP": place.node_address,
        "hostIPs": [{"ip": place.node_address}],
        "podIP": place.address,
        "podIPs": [{"ip": place.address}],
    }


def init_failed(  # noqa: PLR0917 - a Pod and its circumstances
    pod: Envelope, spec: Spec, status: Status, place: Place, failed: tuple[int, int], now: datetime
) -> dict[str, Any]:
    """Report that an init container failed; `failed`: its index, and its exit code."""
    position, code = failed
    time, never = _time(now), spec.restart_policy == "Never"
    containers = spec.init_containers or ()
    statuses = [_initialized(pod, each, time) for each in containers[:position]]
    for number, each in enumerate(containers[position:]):
        waiting = {"waiting": {"reason": "PodInitializing"}}
        container_status = {
            **_container(pod, each),
            "ready": False,
            "started": False,
            "restartCount": 0,
            "state": waiting,
        }
        if number == 0:
            ended = _terminated(code, time, time)
            container_status["restartCount"] = status.init_restarts + (0 if never else 1)
            container_status["state"] = (
                {"terminated": ended} if never else {"waiting": {"reason": "CrashLoopBackOff"}}
            )
            if not never:
                container_status["lastState"] = {"terminated": ended}
        statuses.append(container_status)
    incomplete = [each.name for each in containers[position:]]
    lacking = {
        **_condition("Initialized", "False", now, pod.generation),
        "reason": "ContainersNotInitialized",
        "message": f"containers with incomplete status: [{' '.join(incomplete)}]",
    }
    return {
        "phase": "Failed" if never else "Pending",
        "startTime": status.start_time or time,
        "conditions": [lacking],
        "initContainerStatuses": statuses,
        **_addresses(place),
    }


def waiting_for_objects(  # noqa: PLR0917 - a Pod and its circumstances
    pod: Envelope, spec: Spec, status: Status, place: Place, lacks: Mapping[str, str], now: datetime
) -> dict[str, Any] | None:
    """Report that a Pod waits for missing objects; None: its status already reports it.

    Args:
        pod: the Pod.
        spec: its spec.
        status: its last report.
        place: its location.
        lacks: messages about containers that cannot be created; empty: a volume cannot be mounted.
        now: the current time.
    """
    reported = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    if {each.name: each.said for each in reported if each.said} == lacks and reported:
        return None
    restarts = {each.name: each.restart_count for each in reported}
    begun = "PodInitializing" if spec.init_containers else "ContainerCreating"
    report: dict[str, Any] = {
        "phase": "Pending",
        "startTime": status.start_time or _time(now),
        "conditions": _readiness(pod, spec, status, [each.name for each in spec.containers or ()], now),
        **_addresses(place),
    }
    for name, containers in (
        ("initContainerStatuses", spec.init_containers),
        ("containerStatuses", spec.containers),
    ):
        if containers:
            report[name] = [
                {
                    "name": each.name,
                    "image": each.image,
                    "imageID": "",
                    "ready": False,
                    "started": False,
                    "restartCount": restarts.get(each.name, 0),
                    "state": {
                        "waiting": {"reason": "CreateContainerConfigError", "message": lacks[each.name]}
                        if each.name in lacks
                        else {"reason": begun}
                    },
                }
                for each in containers
            ]
    return report


def _initialized(pod: Envelope, container: Container, time: str) -> dict[str, Any]:
    stays = container.restart_policy == "Always"
    ended = _terminated(0, time, time)
    return {
        **_container(pod, container),
        "ready": True,
        "started": stays,
        "restartCount": 0,
        "state": {"running": {"startedAt": time}} if stays else {"terminated": ended},
    }


# ---- While it runs -----------------------------------------------------------------------


def observed(
    pod: Envelope, spec: Spec, status: Status, unready: Sequence[str], now: datetime
) -> dict[str, Any]:
    """Report that a Pod's new spec has been seen."""
    return {
        "observedGeneration": pod.generation,
        "conditions": [
            {"type": each.type, "observedGeneration": pod.generation}
            for each in status.conditions or ()
            if each.type in OWN
        ],
        "containerStatuses": _running(pod, spec, status, unready, now),
        **_ephemeral(pod, spec, status, now),
    }


def readiness(
    pod: Envelope, spec: Spec, status: Status, unready: Sequence[str], now: datetime
) -> dict[str, Any] | None:
    """Report the ready containers, and whether the Pod is ready; None: the status already reports both."""
    if not unready and not spec.readiness_gates and status.ready:
        # Nearly all Pods end here.
        return None
    wanted = _readiness(pod, spec, status, unready, now)
    there = {each.type: each for each in status.conditions or ()}
    news = [
        {"reason": None, "message": None, **each}
        for each in wanted
        if (known := there.get(each["type"])) is None
        or (known.status, known.reason) != (each["status"], each.get("reason", ""))
    ]
    containers = status.container_statuses or ()
    same = all(each.ready == (each.name not in unready) for each in containers)
    if not news and same:
        return None
    change: dict[str, Any] = {"conditions": news} if news else {}
    if not same:
        change["containerStatuses"] = _running(pod, spec, status, unready, now)
    return change


def _readiness(
    pod: Envelope, spec: Spec, status: Status, unready: Sequence[str], now: datetime
) -> list[dict[str, Any]]:
    """Return the conditions for a Pod's readiness."""
    opened = {each.type for each in status.conditions or () if each.status == "True"}
    closed = [each.condition_type for each in spec.readiness_gates or () if each.condition_type not in opened]
    containers = _condition("ContainersReady", "True", now, pod.generation)
    ready = _condition("Ready", "True", now, pod.generation)
    if unready:
        cause = {
            "status": "False",
            "reason": "ContainersNotReady",
            "message": f"containers with unready status: [{' '.join(unready)}]",
        }
        return [containers | cause, ready | cause]
    if closed:
        cause = {"status": "False", "reason": "ReadinessGatesNotReady"}
        wanted = ", ".join(
            f'corresponding condition of pod readiness gate "{each}" does not exist.' for each in closed
        )
        return [containers, {**ready, **cause, "message": wanted}]
    return [containers, ready]


def not_ready(now: datetime) -> dict[str, Any]:
    """Return the condition of a Pod whose node is silent."""
    return _condition("Ready", "False", now, 0)


def preempted(now: datetime) -> dict[str, Any]:
    """Return the condition of a Pod that is preempted."""
    message = "default-scheduler: preempting to accommodate a higher priority pod"
    cause = {"reason": "PreemptionByScheduler", "message": message}
    return _condition("DisruptionTarget", "True", now, 0) | cause


def _running(
    pod: Envelope, spec: Spec, status: Status, unready: Sequence[str], now: datetime
) -> list[dict[str, Any]]:
    known = {each.name: each for each in status.container_statuses or ()}
    return [
        {
            **_container(pod, each),
            "ready": each.name not in unready,
            "started": True,
            "restartCount": known[each.name].restart_count if each.name in known else 0,
            "state": {
                "running": {"startedAt": (each.name in known and known[each.name].started_at) or _time(now)}
            },
        }
        for each in spec.containers or ()
    ]


def _ephemeral(pod: Envelope, spec: Spec, status: Status, now: datetime) -> dict[str, Any]:
    """Return the report about ephemeral containers, which run from when the kubelet sees them until the Pod ends."""
    began = {each.name: each.started_at for each in status.ephemeral_container_statuses or ()}
    statuses = [
        {
            **_container(pod, each),
            "ready": False,
            "restartCount": 0,
            "state": {"running": {"startedAt": began.get(each.name) or _time(now)}},
        }
        for each in spec.ephemeral_containers or ()
    ]
    return {"ephemeralContainerStatuses": statuses} if statuses else {}


def restarted(pod: Envelope, spec: Spec, status: Status, code: int, now: datetime) -> dict[str, Any]:
    """Report that the first container ended and was restarted."""
    statuses = _running(pod, spec, status, (), now)
    if statuses:
        first, time = statuses[0], _time(now)
        first["restartCount"] += 1
        first["lastState"] = {"terminated": _terminated(code, first["state"]["running"]["startedAt"], time)}
        first["state"] = {"running": {"startedAt": time}}
    return {"containerStatuses": statuses}


# ---- Its end -----------------------------------------------------------------------------


def ended(pod: Envelope, spec: Spec, status: Status, code: int, now: datetime) -> dict[str, Any]:
    """Report that all containers have ended."""
    reason = "PodFailed" if code else "PodCompleted"
    report: dict[str, Any] = {
        "phase": "Failed" if code else "Succeeded",
        "conditions": [
            {**_condition(each, "False", now, pod.generation), "reason": reason, "message": None}
            for each in ("Ready", "ContainersReady")
        ],
        "containerStatuses": [
            {**_stopped(each, code, now), "started": False} for each in _running(pod, spec, status, (), now)
        ],
    }
    for name, containers in _ephemeral(pod, spec, status, now).items():
        report[name] = [_stopped(each, code, now) for each in containers]
    if any(each.restart_policy == "Always" for each in spec.init_containers or ()):
        report["initContainerStatuses"] = [
            {
                **_initialized(pod, each, _time(now)),
                "started": False,
                "state": {"terminated": _terminated(0, _time(now), _time(now))},
            }
            for each in spec.init_containers or ()
        ]
    return report


def _stopped(running: dict[str, Any], code: int, now: datetime) -> dict[str, Any]:
    """Return the status of a container that ran until now."""
    ended = _terminated(code, running["state"]["running"]["startedAt"], _time(now))
    return {**running, "ready": False, "state": {"terminated": ended}}


def evicted(pod: Envelope, spec: Spec, status: Status, resource: str, now: datetime) -> dict[str, Any]:
    """Report that a Pod was evicted because its node lacks a resource."""
    message = f"The node was low on resource: {resource}. "
    report = ended(pod, spec, status, 137, now) | {"reason": "Evicted", "message": message}
    cause = {"reason": "TerminationByKubelet", "message": message}
    report["conditions"].append({**_condition("DisruptionTarget", "True", now, pod.generation), **cause})
    return report | {"containerStatuses": None}


def overdue(pod: Envelope, spec: Spec, status: Status, now: datetime) -> dict[str, Any]:
    """Report that a Pod exceeded its active deadline."""
    message = "Pod was active on the node longer than the specified deadline"
    return ended(pod, spec, status, 137, now) | {"reason": "DeadlineExceeded", "message": message}


def _terminated(code: int, begin: str, end: str) -> dict[str, Any]:
    return {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": begin,
        "finishedAt": end,
    }


def _container(pod: Envelope, container: Container) -> dict[str, Any]:
    status: dict[str, Any] = {
        "name": container.name,
        "image": container.image,
        "imageID": f"{RUNTIME}{container.image}",
        "containerID": f"{RUNTIME}{pod.uid}/{container.name}",
    }
    if container.resources:
        # API servers resize only Pods with allocated resources.
        status["resources"] = container.resources
        status["allocatedResources"] = container.resources.get("requests")
    return status


def _condition(type_: str, status: str, now: datetime, generation: int) -> dict[str, Any]:
    condition: dict[str, Any] = {"type": type_, "status": status, "lastTransitionTime": _time(now)}
    if generation:
        condition["observedGeneration"] = generation
    return condition


def _time(now: datetime) -> str:
    # Ten times as fast as strftime.
    return f"{now.isoformat(timespec='seconds')[:19]}Z"

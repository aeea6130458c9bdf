"""The simulated kubelet: the next state of a Pod on its node, and its time. Pure.

`canned` simulates the commands of containers. A Pod of a Job, or with a restart policy other than Always, ends when its
script would, if the simulation knows the whole script. In a Job, `sleep 5` ends after five seconds, `exit 3` and `false`
end with that code unless the script also contains `exit 0`, and all other commands succeed soon. Other Pods run forever.
The image `pause` never ends. A probe by command fails if the command would; all other probes succeed. A hook takes as long
as its command would, or its `sleep`.
"""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from vcsync.objects.conditions import find_condition
from vcsync.objects.envelope import Envelope, decode
from vcsync.simulate import canned, reports
from vcsync.simulate.chance import Latency, share
from vcsync.simulate.nodes import DISK, MEMORY
from vcsync.simulate.reports import Container, Hook, Place, Spec, Status

JOB_LABEL = "batch.kubernetes.io/job-name"
FINISHED = frozenset({"Succeeded", "Failed"})
BACKOFF = (10.0, 300.0)
"""Seconds before a failed container is restarted: the first time, and at most."""
KILLED = 137
SEEN_SECONDS = 0.1
"""Seconds from the report that a deleted Pod's containers have ended until it is removed, so that watchers see both."""
_FAILS = re.compile(r"^(?!.*exit 0\b).*(?:exit ([1-9]\d{0,2})\b|(?:^|/)false$)", re.DOTALL)
_PRESSED = {MEMORY: "memory", DISK: "ephemeral-storage"}


class KubeletBehaviour(Struct, frozen=True):
    """The behaviour of kubelets of a hollow cluster; the same seed gives the same behaviour."""

    seed: int = 0
    start: Latency = Latency()
    stop: Latency = Latency()
    job: Latency = Latency(0.0, 0.0)
    failing: float = 0.0
    """Share of Pods whose first container fails once it runs, 0 to 1."""


class Step(Struct, frozen=True):
    """The next step of a kubelet. `after`: seconds until then; `status`: its report; `gone`: the Pod is removed."""

    after: float
    status: dict[str, Any] | None = None
    gone: bool = False


class _Case(Struct, frozen=True):
    """A Pod with everything that determines its next step; `passed`: seconds since its last change."""

    pod: Envelope
    spec: Spec
    status: Status
    place: Place
    passed: float
    now: datetime
    behaviour: KubeletBehaviour

    @property
    def who(self) -> Sequence[str]:
        """Return the key of a Pod's random values: its name, so that they are the same for the same seed."""
        return self.pod.namespace, self.pod.name


class _End(Struct, frozen=True):
    """Return the exit code of a Pod's first container, and the seconds until it ends."""

    after: float
    code: int


def span(pod: Envelope, status: Status) -> str:
    """Return the parts of a Pod's state whose change restarts the time of its next step."""
    return f"{pod.deleting} {status.phase} {status.restarts} {status.init_restarts}"


def began(status: Status, now: datetime) -> datetime:
    """Return the time of a Pod's last change according to its status, for a kubelet that was restarted."""
    running = next(iter(status.container_statuses or ()), None)
    if status.phase == "Running" and running is not None and running.started_at:
        return min(_read(running.started_at, now), now)
    scheduled = find_condition(status.conditions, "PodScheduled")
    if status.phase == "Pending" and scheduled is not None and scheduled.status == "True":
        return min(_read(scheduled.last_transition_time or "", now), now)
    return now


def next_step(
    pod: Envelope, place: Place, since: datetime, now: datetime, behaviour: KubeletBehaviour
) -> Step | None:
    """Return the next step for a bound Pod; None: nothing until it changes.

    Args:
        pod: the Pod.
        place: its location.
        since: time of its last change.
        now: the current time.
        behaviour: behaviour of the kubelet.
    """
    spec, status = decode(pod.spec, Spec), decode(pod.status, Status)
    case = _Case(pod, spec, status, place, (now - since).total_seconds(), now, behaviour)
    if pod.deleting:
        return _stopping(case)
    if status.phase in FINISHED:
        return None
    if place.state in _PRESSED and status.qos_class == "BestEffort":
        return Step(0.0, reports.evicted(pod, spec, status, _PRESSED[place.state], now))
    left = _deadline(spec, status, now)
    if left <= 0:
        return Step(0.0, reports.overdue(pod, spec, status, now))
    step = _starting(case) if status.phase == "Pending" else _running(case)
    if left < math.inf and (step is None or step.after > left):
        return Step(left)
    return None if step is None or step.after == math.inf else step


def _stopping(case: _Case) -> Step | None:
    """End a Pod within its grace period.

    A Pod that ran first gets a terminal status, and is removed a little later, so that watchers see its exit. So does one with
    finalizers, whose owners wait for that. Kubelets do the same, since Kubernetes 1.27.
    """
    pod, status, behaviour = case.pod, case.status, case.behaviour
    grace = float(pod.deletion_grace_seconds or 0)
    hooks = (each.lifecycle.pre_stop for each in case.spec.containers or () if each.lifecycle)
    hooked = (
        max((_duration(each, pod.name) for each in hooks), default=0.0) if status.phase == "Running" else 0.0
    )
    wait = min(hooked + behaviour.stop.draw(behaviour.seed, *case.who, "stop"), grace)
    left = max(wait - case.passed, 0.0)
    if status.phase not in FINISHED and (pod.finalizers or (status.phase == "Running" and grace)):
        return Step(left, reports.ended(pod, case.spec, status, KILLED, case.now))
    if pod.finalizers and not grace:
        return None
    if status.phase in FINISHED:
        return Step(max(SEEN_SECONDS - case.passed, 0.0) if grace else 0.0, gone=True)
    return Step(left, gone=True)


def _deadline(spec: Spec, status: Status, now: datetime) -> float:
    if spec.active_deadline_seconds is None or not status.start_time:
        return math.inf
    return spec.active_deadline_seconds - (now - _read(status.start_time, now)).total_seconds()


# ---- Starting ----------------------------------------------------------------------------


def _starting(case: _Case) -> Step:
    pod, spec, status, behaviour = case.pod, case.spec, case.status, case.behaviour
    wait = behaviour.start.draw(behaviour.seed, *case.who, "start") if not status.init_restarts else 0.0
    for position, container in enumerate(spec.init_containers or ()):
        if container.restart_policy == "Always":
            continue
        said = canned.say(container.words, pod.name)
        wait += said.seconds
        if said.known and said.code:
            left = max(wait + _pause(status.init_restarts) - case.passed, 0.0)
            failed = (position, said.code)
            return Step(left, reports.init_failed(pod, spec, status, case.place, failed, case.now))
    # The kubelet starts one container after the other, and reports none as running before its hook has ended.
    hooks = (each.lifecycle.post_start for each in spec.containers or () if each.lifecycle)
    wait += sum(_duration(each, pod.name) for each in hooks)
    unready = _unready(spec, pod.name, 0.0)
    return Step(
        max(wait - case.passed, 0.0), reports.started(pod, spec, status, case.place, unready, case.now)
    )


def _duration(hook: Hook | None, host: str) -> float:
    """Return the seconds that a hook takes."""
    return canned.say(hook.command, host).seconds if hook is not None else 0.0


# ---- Running -----------------------------------------------------------------------------


def _running(case: _Case) -> Step | None:
    pod, spec, status, now = case.pod, case.spec, case.status, case.now
    unready = _unready(spec, pod.name, case.passed)
    if pod.generation and status.observed_generation != pod.generation:
        return Step(0.0, reports.observed(pod, spec, status, unready, now))
    change = reports.readiness(pod, spec, status, unready, now)
    if change is not None:
        return Step(0.0, change)
    end = _end(case)
    sooner = _next_probe(spec, pod.name, case.passed) if unready else math.inf
    if end is None or end.after - case.passed > sooner:
        return Step(sooner) if sooner < math.inf else None
    left = max(end.after - case.passed, 0.0)
    if spec.restart_policy == "Always" or (end.code and spec.restart_policy != "Never"):
        return Step(left, reports.restarted(pod, spec, status, end.code, now))
    return Step(left, reports.ended(pod, spec, status, end.code, now))


def _end(case: _Case) -> _End | None:
    """Return the end of a Pod's first container; None: it does not end."""
    spec, behaviour, restarts = case.spec, case.behaviour, case.status.restarts
    first = (spec.containers or (Container(),))[0]
    if not restarts and behaviour.failing and share(behaviour.seed, *case.who, "fails") < behaviour.failing:
        return _End(behaviour.job.draw(behaviour.seed, *case.who, "job", restarts), 1)
    dying = _liveness(first, case.pod.name)
    if dying is not None:
        return _End(dying, KILLED)
    if "/pause:" in first.image or first.image.startswith("pause:"):
        return None
    end = _end_of_command(first, case.pod, always=spec.restart_policy == "Always")
    if end is None:
        return None
    after = end.after or behaviour.job.draw(behaviour.seed, *case.who, "job", restarts)
    again = end.code and spec.restart_policy != "Never"
    return _End(after + (_pause(restarts) if again else 0.0), end.code)


def _end_of_command(first: Container, pod: Envelope, *, always: bool) -> _End | None:
    """Return the end of a container by its command; None: it runs forever."""
    is_job = JOB_LABEL in pod.labels
    if first.words and (is_job or not always):
        said = canned.say(first.words, pod.name)
        if said.known:
            return _End(said.seconds, said.code)
    if not is_job:
        return None
    fails = _FAILS.search(" ".join(first.words))
    return _End(0.0, int(fails[1] or 1) if fails else 0)


def _pause(restarts: int) -> float:
    return min(BACKOFF[0] * 2 ** min(restarts - 1, 10), BACKOFF[1]) if restarts else 0.0


# ---- Probes ------------------------------------------------------------------------------


def _unready(spec: Spec, host: str, passed: float) -> list[str]:
    """Return the containers that are not ready yet, this long after their start."""
    return [each.name for each in spec.containers or () if _ready_after(each, host) > passed]


def _next_probe(spec: Spec, host: str, passed: float) -> float:
    """Return the seconds until the next container becomes ready."""
    left = [_ready_after(each, host) - passed for each in spec.containers or ()]
    return min((each for each in left if each > 0), default=math.inf)


def _ready_after(container: Container, host: str) -> float:
    """Return the seconds from a container's start until it is ready; infinity: never."""
    wait = 0.0
    for probe in (container.startup_probe, container.readiness_probe):
        if probe is not None:
            wait += math.inf if canned.say(probe.command, host).code else probe.initial_delay_seconds
    return wait


def _liveness(container: Container, host: str) -> float | None:
    """Return the seconds from a container's start until its liveness probe kills it; None: never."""
    probe = container.liveness_probe
    if probe is None or not canned.say(probe.command, host).code:
        return None
    return float(probe.initial_delay_seconds + probe.period_seconds * probe.failure_threshold)


def _read(text: str, otherwise: datetime) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return otherwise
    return time if time.tzinfo else time.replace(tzinfo=UTC)

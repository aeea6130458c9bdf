"""What controllers ask of a Pod. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct

from vcsync.kube.envelope import Envelope, decode

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
FINISHED = frozenset({"Succeeded", "Failed"})


class Condition(Struct, gc=False, rename="camel"):
    """A condition of any object."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerStatus(Struct, gc=False, rename="camel"):
    """Of a container: how often it was started again."""

    name: str = ""
    restart_count: int = 0


class PodStatus(Struct, gc=False, rename="camel"):
    """The parts of a Pod's status."""

    phase: str = "Pending"
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None


class PodSpec(Struct, gc=False, rename="camel"):
    """The parts of a Pod's spec."""

    node_name: str = ""


def spec(pod: Envelope) -> PodSpec:
    """Decode a Pod's spec."""
    return decode(pod.spec, PodSpec)


def status(pod: Envelope) -> PodStatus:
    """Decode a Pod's status."""
    return decode(pod.status, PodStatus)


def condition(conditions: tuple[Condition, ...] | None, type_: str) -> Condition | None:
    """Return the condition of a type."""
    return next((each for each in conditions or () if each.type == type_), None)


def is_active(pod: Envelope) -> bool:
    """Whether a Pod counts as a replica: neither finished nor going away."""
    return not pod.deleting and status(pod).phase not in FINISHED


def ready_since(pod: Envelope) -> datetime | None:
    """Return since when a Pod is ready; None: it is not."""
    ready = condition(status(pod).conditions, "Ready")
    return None if ready is None or ready.status != "True" else moment(ready.last_transition_time)


def is_available(pod: Envelope, min_ready_seconds: int, now: datetime) -> bool:
    """Whether a Pod has been ready for long enough."""
    since = ready_since(pod)
    return since is not None and (not min_ready_seconds or (now - since).total_seconds() >= min_ready_seconds)


def ripe_in(mine: Iterable[Envelope], min_ready_seconds: int, now: datetime) -> float | None:
    """Return the seconds until the next ready one of some Pods counts as available; None: none will by waiting."""
    if not min_ready_seconds:
        return None
    sinces = (ready_since(pod) for pod in mine)
    waits = [min_ready_seconds - (now - since).total_seconds() for since in sinces if since is not None]
    return min((wait for wait in waits if wait > 0), default=None)


def moment(text: str | None) -> datetime:
    """Return the time that an object tells; what tells none is very long ago."""
    if not text:
        return datetime.fromtimestamp(0, UTC)
    return datetime.fromisoformat(text)


def told(now: datetime) -> str:
    """Return a time as objects tell it."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def deletion_rank(pod: Envelope, crowd: int) -> tuple[object, ...]:
    """Return what orders Pods by how readily they are given up, first the first.

    As `ActivePodsWithRanks` of Kubernetes' `pkg/controller`: unassigned, pending, not ready, cheap, in a crowd, ready for
    a short time, often restarted, young.

    Args:
        pod: the Pod.
        crowd: how many of its owner's active Pods are on its node.
    """
    its = status(pod)
    since = ready_since(pod)
    return (
        bool(spec(pod).node_name),
        ("Pending", "Unknown", "Running").index(its.phase) if its.phase in ("Pending", "Unknown") else 2,
        since is not None,
        _cost(pod),
        -crowd,
        # Ready for a shorter time, by orders of magnitude, so that small differences decide nothing else.
        -(since.timestamp() if since else 0.0),
        -max((each.restart_count for each in its.container_statuses or ()), default=0),
        -moment(pod.creation_timestamp).timestamp(),
        pod.uid,
    )


def _cost(pod: Envelope) -> int:
    text = pod.annotations.get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0

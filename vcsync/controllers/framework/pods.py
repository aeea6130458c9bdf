"""The parts of a Pod that controllers use. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct

from vcsync.objects.conditions import Condition, find_condition
from vcsync.objects.envelope import Envelope, decode

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
FINISHED = frozenset({"Succeeded", "Failed"})


class ContainerStatus(Struct, gc=False, rename="camel"):
    """The status of a container: its number of restarts."""

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


def is_active(pod: Envelope) -> bool:
    """Return whether a Pod counts as a replica: neither finished nor being deleted."""
    return not pod.deleting and status(pod).phase not in FINISHED


def ready_since(pod: Envelope) -> datetime | None:
    """Return the time since which a Pod is ready; None: it is not ready."""
    ready = find_condition(status(pod).conditions, "Ready")
    return None if ready is None or ready.status != "True" else moment(ready.last_transition_time)


def is_available(pod: Envelope, min_ready_seconds: int, now: datetime) -> bool:
    """Return whether a Pod has been ready for at least the minimum time."""
    since = ready_since(pod)
    return since is not None and (not min_ready_seconds or (now - since).total_seconds() >= min_ready_seconds)


def ripe_in(mine: Iterable[Envelope], min_ready_seconds: int, now: datetime) -> float | None:
    """Return the seconds until the next ready Pod counts as available; None: no ready Pod waits for that."""
    if not min_ready_seconds:
        return None
    sinces = (ready_since(pod) for pod in mine)
    waits = [min_ready_seconds - (now - since).total_seconds() for since in sinces if since is not None]
    return min((wait for wait in waits if wait > 0), default=None)


def moment(text: str | None) -> datetime:
    """Parse the time in an object; a missing or invalid time counts as very long ago."""
    if not text:
        return datetime.fromtimestamp(0, UTC)
    return datetime.fromisoformat(text)


def deletion_rank(pod: Envelope, crowd: int) -> tuple[object, ...]:
    """Return the sort key by which Pods are deleted on scale-down, the first one first.

    As `ActivePodsWithRanks` of Kubernetes' `pkg/controller`: unassigned, pending, not ready, cheap, in a crowd, ready for
    a short time, often restarted, young.

    Args:
        pod: the Pod.
        crowd: number of its owner's active Pods on its node.
    """
    its = status(pod)
    since = ready_since(pod)
    return (
        bool(spec(pod).node_name),
        ("Pending", "Unknown", "Running").index(its.phase) if its.phase in ("Pending", "Unknown") else 2,
        since is not None,
        _cost(pod),
        -crowd,
        # Compare ready times by orders of magnitude, so that small differences do not outweigh the next criteria.
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

"""HorizontalPodAutoscalers and the Pods that they count, as controllers read them. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from vcsync.controllers import pods
from vcsync.controllers.pods import Condition
from vcsync.kube.envelope import Envelope, decode

WHOLE = 1000
"""Thousandths in one."""


class Target(Struct, frozen=True, rename="camel"):
    """What a metric is to be: one of the three."""

    type: str = ""
    value: str | None = None
    average_value: str | None = None
    average_utilization: int | None = None


class Identifier(Struct, frozen=True):
    """Which metric."""

    name: str = ""
    selector: dict[str, Any] | None = None


class Reference(Struct, frozen=True, rename="camel"):
    """Another object of the same namespace."""

    kind: str = ""
    name: str = ""
    api_version: str = ""


class Source(Struct, frozen=True, rename="camel"):
    """Where a metric's value comes from; of each type some fields."""

    target: Target = Target()
    name: str = ""
    container: str = ""
    metric: Identifier = Identifier()
    described_object: Reference = Reference()


class Metric(Struct, frozen=True, rename="camel"):
    """One metric to scale by."""

    type: str = ""
    resource: Source | None = None
    container_resource: Source | None = None
    pods: Source | None = None
    object: Source | None = None
    external: Source | None = None


class Policy(Struct, frozen=True, rename="camel"):
    """How much may change in a time."""

    type: str = ""
    value: int = 0
    period_seconds: int = 0


class Rules(Struct, frozen=True, rename="camel"):
    """How to scale in one direction."""

    stabilization_window_seconds: int | None = None
    select_policy: str = "Max"
    policies: tuple[Policy, ...] | None = None
    tolerance: str | None = None


class Behavior(Struct, frozen=True, rename="camel"):
    """How to scale, where its user has a wish."""

    scale_up: Rules = Rules()
    scale_down: Rules = Rules()


class Spec(Struct, frozen=True, rename="camel"):
    """A HorizontalPodAutoscaler's spec."""

    scale_target_ref: Reference = Reference()
    min_replicas: int = 1
    max_replicas: int = 1
    metrics: tuple[Metric, ...] | None = None
    behavior: Behavior | None = None


class Status(Struct, rename="camel"):
    """A HorizontalPodAutoscaler's status."""

    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: str | None = None
    current_metrics: Any = None
    conditions: list[dict[str, Any]] | None = None


class PodMetric(Struct, frozen=True):
    """What a Pod used, in thousandths, over the `window` seconds until `time`."""

    value: int
    time: datetime
    window: float


Metrics = dict[str, PodMetric]
"""By Pod's name."""


# ---- Pods ----------------------------------------------------------------------------------


class _Requests(Struct):
    requests: dict[str, str] | None = None


class _Container(Struct, rename="camel"):
    name: str = ""
    resources: _Requests | None = None
    restart_policy: str = ""


class _PodSpec(Struct, rename="camel"):
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    resources: _Requests | None = None
    overhead: dict[str, str] | None = None


class _PodStatus(Struct, rename="camel"):
    phase: str = "Pending"
    start_time: str | None = None
    conditions: tuple[Condition, ...] | None = None


class CountedPod(Struct, frozen=True):
    """A Pod that belongs to what is scaled.

    Attributes:
        requests: of its containers that run all the time, by the container's name.
        whole: what the Pod asks for as a whole, if it does.
        overhead: what comes on top of that.
    """

    name: str
    deleting: bool
    phase: str
    started: datetime | None
    ready: Condition | None
    requests: dict[str, dict[str, str]]
    whole: dict[str, str] | None
    overhead: dict[str, str]


def counted(pod: Envelope) -> CountedPod:
    """Read a Pod."""
    spec, status = decode(pod.spec, _PodSpec), decode(pod.status, _PodStatus)
    always = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    running: Sequence[_Container] = [*(spec.containers or ()), *always]
    return CountedPod(
        pod.name,
        pod.deleting,
        status.phase,
        None if status.start_time is None else pods.moment(status.start_time),
        pods.condition(status.conditions, "Ready"),
        {each.name: _requests(each.resources) for each in running},
        _requests(spec.resources) or None,
        spec.overhead or {},
    )


def _requests(resources: _Requests | None) -> dict[str, str]:
    return {} if resources is None else resources.requests or {}

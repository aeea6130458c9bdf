"""HorizontalPodAutoscalers and the Pods that they count, as controllers read them. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from vcsync.controllers.framework import pods
from vcsync.objects.conditions import Condition, find_condition
from vcsync.objects.envelope import Envelope, decode

WHOLE = 1000
"""Thousandths in one."""


class Target(Struct, frozen=True, rename="camel"):
    """The target value of a metric: one of the three."""

    type: str = ""
    value: str | None = None
    average_value: str | None = None
    average_utilization: int | None = None


class Identifier(Struct, frozen=True):
    """Identifier of a metric."""

    name: str = ""
    selector: dict[str, Any] | None = None


class Reference(Struct, frozen=True, rename="camel"):
    """Reference to another object of the same namespace."""

    kind: str = ""
    name: str = ""
    api_version: str = ""


class Source(Struct, frozen=True, rename="camel"):
    """The source of a metric; each type uses some of the fields."""

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
    """A limit on the change within a period."""

    type: str = ""
    value: int = 0
    period_seconds: int = 0


class Rules(Struct, frozen=True, rename="camel"):
    """Scaling rules for one direction."""

    stabilization_window_seconds: int | None = None
    select_policy: str = "Max"
    policies: tuple[Policy, ...] | None = None
    tolerance: str | None = None


class Behavior(Struct, frozen=True, rename="camel"):
    """Scaling rules; None where the user set none."""

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
    """The usage of a Pod in thousandths, over the `window` seconds until `time`."""

    value: int
    time: datetime
    window: float


Metrics = dict[str, PodMetric]
"""Metrics by the Pods' names."""


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
    """A Pod of the scaled target.

    Attributes:
        requests: requests of its long-running containers, by the container's name.
        whole: pod-level requests, if there are any.
        overhead: overhead of the Pod.
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
        find_condition(status.conditions, "Ready"),
        {each.name: _requests(each.resources) for each in running},
        _requests(spec.resources) or None,
        spec.overhead or {},
    )


def _requests(resources: _Requests | None) -> dict[str, str]:
    return {} if resources is None else resources.requests or {}

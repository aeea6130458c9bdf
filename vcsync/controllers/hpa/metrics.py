"""Evaluation of the metrics of a HorizontalPodAutoscaler: the number of Pods, and the metric's status.

Behaviour: `computeReplicasForMetric` of Kubernetes' `pkg/controller/podautoscaler/horizontal.go`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from vcsync.controllers.hpa import metrics_client as hpa_metrics
from vcsync.controllers.hpa.objects import CountedPod, Metric, Metrics, Reference, Source
from vcsync.controllers.hpa.replicas import (
    Tolerances,
    Uncountable,
    by_average,
    by_usage,
    by_utilization,
    by_value,
)
from vcsync.kube.client import Client
from vcsync.kube.resources import Resource
from vcsync.objects.quantity import canonical, milli
from vcsync.objects.selectors import LabelSelector, compile_selector

MEMORY = "memory"
COUNTED_AT_ONCE = 200
"""Pods and their containers up to which a decision is made on the event loop; each takes some 10 microseconds."""

T = TypeVar("T")


class Scaled(Struct, frozen=True):
    """The scaled target in its current state.

    Attributes:
        selector: selector of its Pods, as text.
        resource_of: finds the resource of another object; None: the tenant has no such kind.
        turn: held while a thread decides about a large target.
    """

    namespace: str
    wanted: int
    there: int
    selector: str
    pods: Sequence[CountedPod]
    tolerated: Tolerances
    now: datetime
    client: Client
    resource_of: Callable[[Reference], Awaitable[Resource | None]]
    turn: asyncio.Semaphore


class MetricResult(Struct, frozen=True):
    """The result of a metric. `name`: its name in Events; `status`: its part of the status."""

    replicas: int
    name: str
    status: dict[str, Any]


class MetricUnavailable(Exception):
    """A metric is not available.

    Attributes:
        reason: reason of the condition and the Event.
        inner: message of the condition and the Event; the exception's own text is for the summary.
    """

    def __init__(self, reason: str, inner: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.inner = inner


async def ask(scaled: Scaled, metric: Metric) -> MetricResult:
    """Compute the number of Pods that a metric requires.

    Raises:
        Silent: the metric is not available.
    """
    for type_, reason, evaluate in (
        ("Resource", "FailedGetResourceMetric", _of_resource),
        ("ContainerResource", "FailedGetContainerResourceMetric", _of_container),
        ("Pods", "FailedGetPodsMetric", _of_pods),
        ("Object", "FailedGetObjectMetric", _of_object),
        ("External", "FailedGetExternalMetric", _of_external),
    ):
        source = _source(metric, type_)
        if metric.type == type_ and source is not None:
            try:
                return await evaluate(scaled, source)
            except Uncountable as error:
                raise MetricUnavailable(
                    reason, error.inner, f"failed to get {_called(type_, source)}: {error}"
                ) from error
    text = f'unknown metric source type "{metric.type}"'
    raise MetricUnavailable("InvalidMetricSourceType", text, text)


def _source(metric: Metric, type_: str) -> Source | None:
    return {
        "Resource": metric.resource,
        "ContainerResource": metric.container_resource,
        "Pods": metric.pods,
        "Object": metric.object,
        "External": metric.external,
    }[type_]


def _called(type_: str, source: Source) -> str:
    return {
        "Resource": f"{source.name} resource metric value",
        "ContainerResource": f"{source.container} container metric value",
        "Pods": "pods metric value",
        "Object": "object metric value",
        "External": f"{source.metric.name} external metric value",
    }[type_]


async def _of_resource(scaled: Scaled, source: Source) -> MetricResult:
    replicas, name, current = await _usage(scaled, source, "")
    return MetricResult(
        replicas, name, {"type": "Resource", "resource": {"name": source.name, "current": current}}
    )


async def _of_container(scaled: Scaled, source: Source) -> MetricResult:
    replicas, name, current = await _usage(scaled, source, source.container)
    status = {"name": source.name, "container": source.container, "current": current}
    return MetricResult(replicas, name, {"type": "ContainerResource", "containerResource": status})


async def _usage(scaled: Scaled, source: Source, container: str) -> tuple[int, str, dict[str, Any]]:
    target, resource = source.target, source.name
    like = "1Ki" if resource == MEMORY else ""
    if target.average_value is not None:
        with _error_prefix(f"failed to get {resource} usage"):
            metrics = await _resource_metrics(scaled, resource, container)
            decide = partial(
                by_usage,
                scaled.wanted,
                scaled.pods,
                metrics,
                milli(target.average_value),
                resource=resource,
                tolerated=scaled.tolerated,
                now=scaled.now,
            )
            replicas, average = await _decided(scaled, decide)
        return replicas, f"{resource} resource", {"averageValue": canonical(average, like)}
    if target.average_utilization is None:
        raise Uncountable(
            "invalid resource metric source: neither an average utilization target nor an average value (usage) "
            "target was set"
        )
    with _error_prefix(f"failed to get {resource} utilization"):
        metrics = await _resource_metrics(scaled, resource, container)
        decide_utilization = partial(
            by_utilization,
            scaled.wanted,
            scaled.pods,
            metrics,
            target.average_utilization,
            resource=resource,
            container=container,
            tolerated=scaled.tolerated,
            now=scaled.now,
        )
        replicas, percent, average = await _decided(scaled, decide_utilization)
    whose = "container resource" if container else "resource"
    name = f"{resource} {whose} utilization (percentage of request)"
    return replicas, name, {"averageUtilization": percent, "averageValue": canonical(average, like)}


async def _resource_metrics(scaled: Scaled, resource: str, container: str) -> Metrics:
    with _error_prefix(f"unable to get metrics for resource {resource}"):
        return await hpa_metrics.of_resource(
            scaled.client, resource, scaled.namespace, scaled.selector, container
        )


async def _of_pods(scaled: Scaled, source: Source) -> MetricResult:
    metric = source.metric
    with _error_prefix(f"unable to get metric {metric.name}"):
        found = await hpa_metrics.of_pods(
            scaled.client, metric.name, scaled.namespace, scaled.selector, _selector(metric.selector)
        )
    target = milli(source.target.average_value or "0")
    decide = partial(
        by_usage,
        scaled.wanted,
        scaled.pods,
        found,
        target,
        resource="",
        tolerated=scaled.tolerated,
        now=scaled.now,
    )
    replicas, average = await _decided(scaled, decide)
    status = {"metric": _identified(source), "current": {"averageValue": canonical(average)}}
    return MetricResult(replicas, f"pods metric {metric.name}", {"type": "Pods", "pods": status})


async def _of_object(scaled: Scaled, source: Source) -> MetricResult:
    metric, about, target = source.metric, source.described_object, source.target
    if target.value is None and target.average_value is None:
        raise Uncountable(
            "invalid object metric source: neither a value target nor an average value target was set"
        )
    resource = await scaled.resource_of(about)
    try:
        usage = await hpa_metrics.of_object(
            scaled.client, metric.name, scaled.namespace, resource, about, _selector(metric.selector)
        )
    except Uncountable as error:
        # Kubernetes checks the two in this order.
        text = f"unable to get metric {metric.name}: {about.kind} on {scaled.namespace} {about.name}/{error}"
        whole = text if target.value is not None else f"failed to get {metric.name} object metric: {text}"
        raise Uncountable(whole, inner=text) from error
    replicas, current = await _shared(scaled, source, usage)
    status = {"describedObject": _described(about), "metric": _identified(source), "current": current}
    name = f"{about.kind} metric {metric.name}"
    if target.value is None:
        name = f"external metric {metric.name}({_go(metric.selector)})"
    return MetricResult(replicas, name, {"type": "Object", "object": status})


async def _of_external(scaled: Scaled, source: Source) -> MetricResult:
    metric, target = source.metric, source.target
    if target.value is None and target.average_value is None:
        raise Uncountable(
            "invalid external metric source: neither a value target nor an average value target was set"
        )
    each = f"{metric.name} external metric" if target.average_value else f"external metric {metric.name}"
    what = f"{scaled.namespace}/{metric.name}/{_go(metric.selector)}"
    try:
        usage = await hpa_metrics.external(
            scaled.client, metric.name, scaled.namespace, _selector(metric.selector)
        )
    except Uncountable as error:
        text = f"unable to get external metric {what}: {error}"
        raise Uncountable(f"failed to get {each}: {text}", inner=text) from error
    replicas, current = await _shared(scaled, source, usage)
    status = {"metric": _identified(source), "current": current}
    name = f"external metric {metric.name}({_go(metric.selector)})"
    return MetricResult(replicas, name, {"type": "External", "external": status})


async def _shared(scaled: Scaled, source: Source, usage: int) -> tuple[int, dict[str, Any]]:
    """Return the size for a value that all Pods share, and the metric's status."""
    target = source.target
    averaged = target.average_value is not None and (
        source.described_object.kind == "" or target.value is None
    )
    if averaged:
        goal = milli(target.average_value or "0")
        replicas, average = by_average(scaled.there, usage, goal, scaled.tolerated)
        return replicas, {"averageValue": canonical(average)}
    goal = milli(target.value or "0")
    replicas = await _decided(
        scaled, partial(by_value, scaled.wanted, scaled.pods, usage, goal, scaled.tolerated)
    )
    return replicas, {"value": canonical(usage)}


async def _decided(scaled: Scaled, decide: Callable[[], T]) -> T:
    """Make a decision over all Pods: in a thread, one at a time, if they or their containers are many."""
    if len(scaled.pods) + sum(len(pod.requests) for pod in scaled.pods) <= COUNTED_AT_ONCE:
        return decide()
    async with scaled.turn:
        return await asyncio.to_thread(decide)


@contextmanager
def _error_prefix(prefix: str) -> Iterator[None]:
    """Add a prefix to the message of an error in the block."""
    try:
        yield
    except Uncountable as error:
        raise Uncountable(f"{prefix}: {error}") from error


def _identified(source: Source) -> dict[str, Any]:
    metric = source.metric
    return {"name": metric.name, **({"selector": metric.selector} if metric.selector is not None else {})}


def _described(about: Reference) -> dict[str, Any]:
    found = {"kind": about.kind, "name": about.name}
    return {**found, "apiVersion": about.api_version} if about.api_version else found


def _go(selector: dict[str, Any] | None) -> str:
    """Format a label selector as Kubernetes' messages do."""
    if selector is None:
        return "nil"
    pairs = sorted((selector.get("matchLabels") or {}).items())
    labels = "".join(f"{name}: {value}," for name, value in pairs)
    needs = "".join(
        f"LabelSelectorRequirement{{Key:{each.get('key')},Operator:{each.get('operator')},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in selector.get("matchExpressions") or ()
    )
    parts = (
        f"MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{needs}}},"
    )
    return f"&LabelSelector{{{parts}}}"


def _selector(selector: dict[str, Any] | None) -> str:
    """Return the text of a label selector.

    Raises:
        Uncountable: the selector is invalid.
    """
    if not selector:
        return ""
    try:
        found = msgspec.convert(selector, LabelSelector)
    except msgspec.ValidationError as error:
        raise Uncountable(str(error)) from error
    return str(compile_selector(found))

"""What each metric of a HorizontalPodAutoscaler says: how many Pods, and what is told of it.

Behaviour: `computeReplicasForMetric` of Kubernetes' `pkg/controller/podautoscaler/horizontal.go`.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.controllers import hpa_metrics
from vcsync.controllers.hpa_objects import CountedPod, Metric, Metrics, Reference, Source
from vcsync.controllers.hpa_replicas import (
    Tolerances,
    Uncountable,
    by_average,
    by_usage,
    by_utilization,
    by_value,
)
from vcsync.kube.client import Client
from vcsync.kube.quantity import canonical, milli
from vcsync.kube.resources import Resource
from vcsync.kube.selectors import LabelSelector, compile_selector

MEMORY = "memory"


class Scaled(Struct, frozen=True):
    """What is scaled, as it is now.

    Attributes:
        selector: which Pods it has, as text.
        resource_of: finds the type of another object; None: the tenant has none such.
        elsewhere: tells what the Pods use, if the tenant's API does not.
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
    elsewhere: hpa_metrics.Elsewhere


class Said(Struct, frozen=True):
    """What a metric says. `name`: as Events call it; `status`: what is told of it."""

    replicas: int
    name: str
    status: dict[str, Any]


class Silent(Exception):
    """A metric says nothing.

    Attributes:
        reason: of the condition and the Event.
        inner: why, for these; the exception's own text is for the summary.
    """

    def __init__(self, reason: str, inner: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.inner = inner


async def ask(scaled: Scaled, metric: Metric) -> Said:
    """Ask a metric how many Pods there should be.

    Raises:
        Silent: it does not say.
    """
    for type_, reason, tell in (
        ("Resource", "FailedGetResourceMetric", _of_resource),
        ("ContainerResource", "FailedGetContainerResourceMetric", _of_container),
        ("Pods", "FailedGetPodsMetric", _of_pods),
        ("Object", "FailedGetObjectMetric", _of_object),
        ("External", "FailedGetExternalMetric", _of_external),
    ):
        source = _source(metric, type_)
        if metric.type == type_ and source is not None:
            try:
                return await tell(scaled, source)
            except Uncountable as error:
                raise Silent(
                    reason, error.inner, f"failed to get {_called(type_, source)}: {error}"
                ) from error
    text = f'unknown metric source type "{metric.type}"'
    raise Silent("InvalidMetricSourceType", text, text)


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


async def _of_resource(scaled: Scaled, source: Source) -> Said:
    replicas, name, current = await _usage(scaled, source, "")
    return Said(replicas, name, {"type": "Resource", "resource": {"name": source.name, "current": current}})


async def _of_container(scaled: Scaled, source: Source) -> Said:
    replicas, name, current = await _usage(scaled, source, source.container)
    told = {"name": source.name, "container": source.container, "current": current}
    return Said(replicas, name, {"type": "ContainerResource", "containerResource": told})


async def _usage(scaled: Scaled, source: Source, container: str) -> tuple[int, str, dict[str, Any]]:
    target, resource = source.target, source.name
    like = "1Ki" if resource == MEMORY else ""
    if target.average_value is not None:
        with _told(f"failed to get {resource} usage"):
            metrics = await _resource_metrics(scaled, resource, container)
            replicas, average = by_usage(
                scaled.wanted,
                scaled.pods,
                metrics,
                milli(target.average_value),
                resource=resource,
                tolerated=scaled.tolerated,
                now=scaled.now,
            )
        return replicas, f"{resource} resource", {"averageValue": canonical(average, like)}
    if target.average_utilization is None:
        raise Uncountable(
            "invalid resource metric source: neither an average utilization target nor an average value (usage) "
            "target was set"
        )
    with _told(f"failed to get {resource} utilization"):
        metrics = await _resource_metrics(scaled, resource, container)
        replicas, percent, average = by_utilization(
            scaled.wanted,
            scaled.pods,
            metrics,
            target.average_utilization,
            resource=resource,
            container=container,
            tolerated=scaled.tolerated,
            now=scaled.now,
        )
    whose = "container resource" if container else "resource"
    name = f"{resource} {whose} utilization (percentage of request)"
    return replicas, name, {"averageUtilization": percent, "averageValue": canonical(average, like)}


async def _resource_metrics(scaled: Scaled, resource: str, container: str) -> Metrics:
    with _told(f"unable to get metrics for resource {resource}"):
        return await hpa_metrics.of_resource(
            scaled.client, resource, scaled.namespace, scaled.selector, container, scaled.elsewhere
        )


async def _of_pods(scaled: Scaled, source: Source) -> Said:
    metric = source.metric
    with _told(f"unable to get metric {metric.name}"):
        found = await hpa_metrics.of_pods(
            scaled.client, metric.name, scaled.namespace, scaled.selector, _selector(metric.selector)
        )
    target = milli(source.target.average_value or "0")
    replicas, average = by_usage(
        scaled.wanted, scaled.pods, found, target, resource="", tolerated=scaled.tolerated, now=scaled.now
    )
    told = {"metric": _identified(source), "current": {"averageValue": canonical(average)}}
    return Said(replicas, f"pods metric {metric.name}", {"type": "Pods", "pods": told})


async def _of_object(scaled: Scaled, source: Source) -> Said:
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
        # In this order, as Kubernetes has it.
        text = f"unable to get metric {metric.name}: {about.kind} on {scaled.namespace} {about.name}/{error}"
        whole = text if target.value is not None else f"failed to get {metric.name} object metric: {text}"
        raise Uncountable(whole, inner=text) from error
    replicas, current = _shared(scaled, source, usage)
    told = {"describedObject": _described(about), "metric": _identified(source), "current": current}
    name = f"{about.kind} metric {metric.name}"
    if target.value is None:
        name = f"external metric {metric.name}({_go(metric.selector)})"
    return Said(replicas, name, {"type": "Object", "object": told})


async def _of_external(scaled: Scaled, source: Source) -> Said:
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
    replicas, current = _shared(scaled, source, usage)
    told = {"metric": _identified(source), "current": current}
    name = f"external metric {metric.name}({_go(metric.selector)})"
    return Said(replicas, name, {"type": "External", "external": told})


def _shared(scaled: Scaled, source: Source, usage: int) -> tuple[int, dict[str, Any]]:
    """Return the size for a value that all Pods share, and what is told of it."""
    target = source.target
    averaged = target.average_value is not None and (
        source.described_object.kind == "" or target.value is None
    )
    if averaged:
        goal = milli(target.average_value or "0")
        replicas, average = by_average(scaled.there, usage, goal, scaled.tolerated)
        return replicas, {"averageValue": canonical(average)}
    goal = milli(target.value or "0")
    return by_value(scaled.wanted, scaled.pods, usage, goal, scaled.tolerated), {"value": canonical(usage)}


class _told:  # noqa: N801 - read as a clause
    """Says what could not be done because of what went wrong within."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Uncountable):
            raise Uncountable(f"{self._what}: {error}") from error


def _identified(source: Source) -> dict[str, Any]:
    metric = source.metric
    return {"name": metric.name, **({"selector": metric.selector} if metric.selector is not None else {})}


def _described(about: Reference) -> dict[str, Any]:
    found = {"kind": about.kind, "name": about.name}
    return {**found, "apiVersion": about.api_version} if about.api_version else found


def _go(selector: dict[str, Any] | None) -> str:
    """Write a label selector as Kubernetes' messages do."""
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
        Uncountable: it is none.
    """
    if not selector:
        return ""
    try:
        found = msgspec.convert(selector, LabelSelector)
    except msgspec.ValidationError as error:
        raise Uncountable(str(error)) from error
    return str(compile_selector(found))

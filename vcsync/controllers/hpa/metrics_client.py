"""Metrics of a tenant's own API server: resource, custom and external metrics.

Behaviour: Kubernetes' `pkg/controller/podautoscaler/metrics/client.go` and the clients of `k8s.io/metrics`. The server of
`metrics.k8s.io` in a tenant's control plane provides the values; without it, errors have Kubernetes' messages.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from vcsync.controllers.framework import pods
from vcsync.controllers.hpa.objects import Metrics, PodMetric, Reference
from vcsync.controllers.hpa.replicas import Uncountable
from vcsync.kube.client import Client
from vcsync.kube.errors import ApiError, KubeError, NotFound
from vcsync.kube.resources import Resource
from vcsync.objects.budget import Budget
from vcsync.objects.quantity import InvalidQuantity, milli
from vcsync.patterns.linear import linear
from vcsync.process.loop_turns import rest

RESOURCE_METRICS = "/apis/metrics.k8s.io/v1beta1"
CUSTOM_METRICS = ("/apis/custom.metrics.k8s.io/v1beta2", "/apis/custom.metrics.k8s.io/v1beta1")
EXTERNAL_METRICS = "/apis/external.metrics.k8s.io/v1beta1"
STEPS_PER_METRIC = 10
WINDOW_SECONDS = 60.0
"""Assumed window of custom metrics that have none."""
_DURATION = linear(r"([0-9]+(?:\.[0-9]*)?)(h|ms|m|s|us|µs|ns)")
_LONGEST_DURATION = 64
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


class _Named(Struct):
    name: str = ""


class _Container(Struct):
    name: str = ""
    usage: dict[str, str] | None = None


class _PodMetrics(Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)
    timestamp: str = ""
    window: str = "0s"
    containers: tuple[_Container, ...] | None = None


class _Value(Struct, rename="camel"):
    described_object: _Named = msgspec.field(default_factory=_Named)
    timestamp: str = ""
    window: int | None = None
    window_seconds: int | None = None
    value: str = "0"


class _Items(Struct):
    items: tuple[msgspec.Raw, ...] | None = None


def said(error: KubeError) -> str:
    """Return the text of an error for users: the server's own message, if there is one."""
    if isinstance(error, NotFound) and error.status.kind != "Status":
        return "the server could not find the requested resource"  # client-go's wording
    return error.status.message if isinstance(error, ApiError) and error.status.message else str(error)


async def of_resource(
    client: Client, resource: str, namespace: str, selector: str, container: str
) -> Metrics:
    """Return the usage of a resource by Pods, or by one container of each.

    Args:
        client: client of the tenant.
        resource: `cpu`, for instance.
        namespace: namespace of the Pods.
        selector: selector of the Pods.
        container: name of a container; empty: all containers of each Pod.

    Raises:
        Uncountable: no metrics are available.
    """
    path = f"{RESOURCE_METRICS}/namespaces/{_part(namespace)}/pods"
    try:
        found = await _items(client, path, {"labelSelector": selector})
    except KubeError as error:
        where = " (get pods.metrics.k8s.io)" if isinstance(error, ApiError) else ""
        raise Uncountable(
            f"unable to fetch metrics from resource metrics API: {said(error)}{where}"
        ) from error
    if not found:
        raise Uncountable("no metrics returned from resource metrics API")
    values: Metrics = {}
    budget = Budget("the metrics of Pods")
    for raw in found:
        budget.spend(STEPS_PER_METRIC)
        await rest(budget)
        each = _decoded(raw, _PodMetrics)
        used = [one.usage or {} for one in each.containers or () if container in ("", one.name)]
        if used and all(resource in usage for usage in used):
            total = sum(_milli(usage[resource]) for usage in used)
            values[each.metadata.name] = PodMetric(total, pods.moment(each.timestamp), seconds(each.window))
    return values


async def of_pods(
    client: Client, metric: str, namespace: str, selector: str, metric_selector: str
) -> Metrics:
    """Return a custom metric of Pods.

    Raises:
        Uncountable: no metrics are available.
    """
    path = f"namespaces/{_part(namespace)}/pods/*/{_part(metric)}"
    found = await _custom(client, path, {"labelSelector": selector, "metricLabelSelector": metric_selector})
    if not found:
        raise Uncountable("no metrics returned from custom metrics API")
    values: Metrics = {}
    budget = Budget("the metrics of Pods")
    for each in found:
        budget.spend(STEPS_PER_METRIC)
        await rest(budget)
        given = each.window if each.window_seconds is None else each.window_seconds
        window = WINDOW_SECONDS if given is None else float(given)
        values[each.described_object.name] = PodMetric(
            _milli(each.value), pods.moment(each.timestamp), window
        )
    return values


async def of_object(  # noqa: PLR0917 - what a metric is asked for by
    client: Client,
    metric: str,
    namespace: str,
    resource: Resource | None,
    about: Reference,
    metric_selector: str,
) -> int:
    """Return a custom metric of an object, in thousandths; `resource`: None if the tenant has no such kind.

    Raises:
        Uncountable: no metrics are available.
    """
    if resource is None:
        text = f'no matches for kind "{about.kind}" in group "{about.api_version.rpartition("/")[0]}"'
        raise Uncountable(f"unable to fetch metrics from custom metrics API: {text}")
    plural = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    path = f"namespaces/{_part(namespace)}/{plural}/{_part(about.name)}/{_part(metric)}"
    if (about.kind, resource.group) == ("Namespace", ""):
        path = f"namespaces/{_part(namespace)}/metrics/{_part(metric)}"
    found = await _custom(client, path, {"metricLabelSelector": metric_selector})
    if len(found) != 1:
        text = f"expected exactly one metric value, but got {len(found)}" if found else "no metrics returned"
        raise Uncountable(f"unable to fetch metrics from custom metrics API: {text}")
    return _milli(found[0].value)


async def external(client: Client, metric: str, namespace: str, selector: str) -> int:
    """Return the sum of an external metric's values, in thousandths.

    Raises:
        Uncountable: no metrics are available.
    """
    path = f"{EXTERNAL_METRICS}/namespaces/{_part(namespace)}/{_part(metric)}"
    try:
        found = await _items(client, path, {"labelSelector": selector})
    except KubeError as error:
        where = f" (get {metric}.external.metrics.k8s.io)" if isinstance(error, ApiError) else ""
        raise Uncountable(
            f"unable to fetch metrics from external metrics API: {said(error)}{where}"
        ) from error
    if not found:
        raise Uncountable("no metrics returned from external metrics API")
    return min(sum(_milli(_decoded(raw, _Value).value) for raw in found), 2**63 - 1)


async def _custom(client: Client, path: str, params: Mapping[str, str]) -> list[_Value]:
    """Get custom metrics in the newest served version."""
    error: KubeError | None = None
    for base in CUSTOM_METRICS:
        try:
            await client.request("GET", base)
        except NotFound:
            continue
        except KubeError as caught:
            error = caught
            break
        try:
            return [_decoded(each, _Value) for each in await _items(client, f"{base}/{path}", params)]
        except KubeError as caught:
            error = caught
            break
    text = "no custom metrics API (custom.metrics.k8s.io) registered" if error is None else said(error)
    raise Uncountable(f"unable to fetch metrics from custom metrics API: {text}") from error


async def _items(client: Client, path: str, params: Mapping[str, str]) -> tuple[msgspec.Raw, ...]:
    """Get a list.

    Raises:
        KubeError: the request failed.
        Uncountable: the answer is not a list.
    """
    wanted = {name: value for name, value in params.items() if value}
    answer = await client.request("GET", path, params=wanted)
    try:
        return msgspec.json.decode(answer, type=_Items).items or ()
    except msgspec.MsgspecError as error:
        raise Uncountable(f"unable to fetch metrics: {error}") from error


def _decoded(raw: msgspec.Raw, type_: Any) -> Any:
    """Decode one item.

    Raises:
        Uncountable: it is invalid.
    """
    try:
        return msgspec.json.decode(raw, type=type_)
    except msgspec.MsgspecError as error:
        raise Uncountable(f"unable to fetch metrics: {error}") from error


def _milli(text: str) -> int:
    """Return a quantity in thousandths.

    Raises:
        Uncountable: it is not a quantity.
    """
    try:
        return milli(text)
    except InvalidQuantity as error:
        raise Uncountable(f"unable to fetch metrics: {error}") from error


def _part(text: str) -> str:
    """Return one segment of a path, with a user's text escaped."""
    return quote(text, safe="")


def seconds(duration: str) -> float:
    """Return a Go duration (`1m30s`) in seconds; an invalid one is 0."""
    if len(duration) > _LONGEST_DURATION:
        return 0.0
    return sum(float(each[1]) * _SECONDS[each[2]] for each in _DURATION.finditer(duration))

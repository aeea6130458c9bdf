"""HorizontalPodAutoscalers at an API server: requests, statuses, Events and scaling."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from controllers_world import NAMESPACE, TENANT, Shelf

from vcsync.controllers.framework.mirror import Key, placed
from vcsync.controllers.framework.plan import Emit, View
from vcsync.controllers.framework.worker import ReconcileContext
from vcsync.controllers.hpa import hpa_controller, replicas
from vcsync.controllers.hpa.hpa_controller import Autoscaler, horizontal_pod_autoscaler
from vcsync.kube.cache import Change
from vcsync.kube.errors import Conflict, Forbidden, KubeError, NotFound, Status
from vcsync.kube.resources import HORIZONTAL_POD_AUTOSCALERS, PODS, Resource
from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.objects.merge_patch import merge_patch

CPU: dict[str, Any] = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
NO_METRICS = (
    "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics "
    "API: the server could not find the requested resource (get pods.metrics.k8s.io)"
)


class Tenant:
    """A tenant's API server with one HorizontalPodAutoscaler; `answers`: responses by path."""

    def __init__(self, **spec: Any) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.shelves = {HORIZONTAL_POD_AUTOSCALERS: Shelf(), PODS: Shelf()}
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.refuses: list[KubeError] = []
        self.events: list[Emit] = []
        self.patched: list[Any] = []
        self.autoscaler = Autoscaler()
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        whole = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": [CPU], **spec}
        self.put_hpa("web", whole)
        self.scale(2)
        for name in ("a", "b"):
            self.put_pod(name)

    def put_hpa(self, name: str, spec: dict[str, Any]) -> None:
        metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "resourceVersion": "1"}
        self.shelves[HORIZONTAL_POD_AUTOSCALERS].bodies[NAMESPACE, name] = {
            "metadata": metadata,
            "spec": spec,
        }

    def put_pod(self, name: str, app: str = "web") -> None:
        since = (self.now - timedelta(hours=1)).isoformat()
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
        self.shelves[PODS].bodies[NAMESPACE, name] = {
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "labels": {"app": app}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
            "status": {"phase": "Running", "startTime": since, "conditions": conditions},
        }

    def scale(
        self,
        replicas: int,
        selector: str = "app=web",
        path: str = "/apis/apps/v1/namespaces/default/deployments/web/scale",
    ) -> None:
        self.answers[path] = {
            "spec": {"replicas": replicas},
            "status": {"replicas": replicas, "selector": selector},
        }

    def used(self, **values: str) -> None:
        """Set the CPU usage of Pods in the metrics API."""
        items = [
            {
                "metadata": {"name": name},
                "timestamp": self.now.isoformat(),
                "window": "30s",
                "containers": [{"name": "c", "usage": {"cpu": value, "memory": "64Mi"}}],
            }
            for name, value in values.items()
        ]
        self.answers["/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"] = {"items": items}

    async def view(self, name: str = "web") -> float | None:
        view = View(self.shelves, self.now, lambda: "xxxxx")
        context = ReconcileContext(view, self, self.events.append)  # type: ignore[arg-type]
        return await self.autoscaler.work(context, Key(TENANT, NAMESPACE, name))

    # Requests

    async def request(
        self, method: str, path: str, *, params: Any = None, body: bytes | None = None, **_: Any
    ) -> bytes:
        self.asked.append(f"{method} {path}{f' {params}' if params else ''}")
        if method == "PATCH":
            if self.refuses:
                raise self.refuses.pop()
            change = msgspec.json.decode(body or b"")
            self.answers[path]["spec"] |= change["spec"]
            return b"{}"
        if path not in self.answers:
            raise NotFound(Status(404, message="the response of 19 bytes is not a Kubernetes Status"))
        return msgspec.json.encode(self.answers[path])

    async def patch(
        self, _resource: Resource, name: str, patch: Any, namespace: str, *, subresource: str
    ) -> Envelope:
        assert subresource == "status"
        self.patched.append(patch["status"])
        bodies = self.shelves[HORIZONTAL_POD_AUTOSCALERS].bodies
        bodies[namespace, name] = merge_patch(bodies[namespace, name], {"status": patch["status"]})
        return placed(parse(encode(bodies[namespace, name])), TENANT)

    # Results

    @property
    def size(self) -> int:
        found: int = self.answers["/apis/apps/v1/namespaces/default/deployments/web/scale"]["spec"][
            "replicas"
        ]
        return found

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.shelves[HORIZONTAL_POD_AUTOSCALERS].bodies[NAMESPACE, "web"]["status"]
        return found

    def condition(self, type_: str) -> tuple[str, str, str]:
        [found] = [each for each in self.status["conditions"] if each["type"] == type_]
        return found["status"], found["reason"], found["message"]

    def emitted(self) -> list[tuple[str, str]]:
        return [(each.reason, each.message) for each in self.events]


async def test_it_scales_by_usage() -> None:
    tenant = Tenant()
    tenant.used(a="900m", b="1")
    assert await tenant.view() == 15
    assert tenant.size == 4
    text = "New size: 4; reason: cpu resource utilization (percentage of request) above target"
    assert tenant.emitted() == [("SuccessfulRescale", text)]
    assert tenant.condition("AbleToScale") == (
        "True",
        "SucceededRescale",
        "the HPA controller was able to update the target scale to 4",
    )
    assert tenant.condition("ScalingActive")[1] == "ValidMetricFound"
    assert tenant.condition("ScalingLimited")[:2] == ("False", "DesiredWithinRange")
    assert (tenant.status["currentReplicas"], tenant.status["desiredReplicas"]) == (2, 4)
    assert tenant.status["lastScaleTime"] == "2026-01-01T00:00:00Z"
    current = {"averageUtilization": 95, "averageValue": "950m"}
    assert tenant.status["currentMetrics"] == [
        {"type": "Resource", "resource": {"name": "cpu", "current": current}}
    ]
    assert (
        "GET /apis/metrics.k8s.io/v1beta1/namespaces/default/pods {'labelSelector': 'app=web'}"
        in tenant.asked
    )


async def test_an_unchanged_status_is_not_written() -> None:
    tenant = Tenant()
    tenant.used(a="500m", b="500m")
    await tenant.view()
    tenant.patched.clear()
    tenant.now += timedelta(seconds=15)
    await tenant.view()
    assert (tenant.patched, tenant.emitted(), tenant.size) == ([], [], 2)
    assert tenant.condition("AbleToScale") == (
        "True",
        "ReadyForNewScale",
        "recommended size matches current size",
    )


async def test_a_missing_metrics_api_has_kubernetes_message() -> None:
    tenant = Tenant()
    assert await tenant.view() == 15
    active = (
        "False",
        "FailedGetResourceMetric",
        f"the HPA was unable to compute the replica count: {NO_METRICS}",
    )
    assert tenant.condition("ScalingActive") == active
    text = f"invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {NO_METRICS}"
    assert tenant.emitted() == [
        ("FailedGetResourceMetric", NO_METRICS),
        ("FailedComputeMetricsReplicas", text),
    ]
    assert tenant.condition("AbleToScale")[:2] == ("True", "SucceededGetScale")
    assert tenant.status["currentReplicas"] == 2
    assert tenant.size == 2


@pytest.mark.parametrize(
    ("metric", "reason", "text"),
    [
        (
            {"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"averageValue": "10"}}},
            "FailedGetPodsMetric",
            (
                "unable to get metric qps: unable to fetch metrics from custom metrics API: no custom metrics API "
                "(custom.metrics.k8s.io) registered"
            ),
        ),
        (
            {
                "type": "Object",
                "object": {
                    "metric": {"name": "qps"},
                    "describedObject": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
                    "target": {"value": "10"},
                },
            },
            "FailedGetObjectMetric",
            (
                "unable to get metric qps: Deployment on default web/unable to fetch metrics from custom metrics API: no custom "
                "metrics API (custom.metrics.k8s.io) registered"
            ),
        ),
        (
            {"type": "External", "external": {"metric": {"name": "q"}, "target": {"value": "10"}}},
            "FailedGetExternalMetric",
            (
                "unable to get external metric default/q/nil: unable to fetch metrics from "
                "external metrics API: the server could not find the requested resource (get q.external.metrics.k8s.io)"
            ),
        ),
        (
            {
                "type": "ContainerResource",
                "containerResource": {"name": "memory", "container": "c", "target": {"averageValue": "1Gi"}},
            },
            "FailedGetContainerResourceMetric",
            (
                "failed to get memory usage: unable to get metrics for resource memory: unable to fetch metrics from resource "
                "metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"
            ),
        ),
    ],
)
async def test_every_type_of_metric_reports_its_error(metric: dict[str, Any], reason: str, text: str) -> None:
    tenant = Tenant(metrics=[metric])
    await tenant.view()
    assert tenant.emitted()[0] == (reason, text)
    assert tenant.condition("ScalingActive")[:2] == ("False", reason)


CUSTOM = "/apis/custom.metrics.k8s.io/v1beta2"


@pytest.mark.parametrize(
    ("metric", "path", "answer", "size"),
    [
        (
            {
                "type": "Pods",
                "pods": {
                    "metric": {"name": "qps", "selector": {"matchLabels": {"verb": "get"}}},
                    "target": {"averageValue": "10"},
                },
            },
            f"{CUSTOM}/namespaces/default/pods/*/qps",
            {
                "items": [
                    {"describedObject": {"name": name}, "timestamp": "2026-01-01T00:00:00Z", "value": "20"}
                    for name in ("a", "b")
                ]
            },
            4,
        ),
        (
            {
                "type": "Object",
                "object": {
                    "metric": {"name": "qps"},
                    "describedObject": {"kind": "Deployment", "name": "x/../y", "apiVersion": "apps/v1"},
                    "target": {"averageValue": "10"},
                },
            },
            f"{CUSTOM}/namespaces/default/deployments.apps/x%2F..%2Fy/qps",
            {"items": [{"value": "30"}]},
            3,
        ),
        (
            {"type": "External", "external": {"metric": {"name": "q"}, "target": {"value": "10"}}},
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/q",
            {"items": [{"value": "5"}, {"value": "10"}]},
            3,
        ),
    ],
)
async def test_custom_and_external_metrics_are_requested(
    metric: dict[str, Any], path: str, answer: dict[str, Any], size: int
) -> None:
    tenant = Tenant(metrics=[metric])
    tenant.answers |= {CUSTOM: {}, path: answer}
    await tenant.view()
    assert tenant.size == size, tenant.emitted()


async def test_messages_about_a_metric_format_its_selector_as_kubernetes_does() -> None:
    selector = {
        "matchLabels": {"x": "y", "a": "b"},
        "matchExpressions": [{"key": "k", "operator": "In", "values": ["1", "2"]}],
    }
    metric = {"name": "q", "selector": selector}
    tenant = Tenant(
        metrics=[{"type": "External", "external": {"metric": metric, "target": {"averageValue": "1"}}}]
    )
    await tenant.view()
    emitted = (
        "unable to get external metric default/q/&LabelSelector{MatchLabels:map[string]string{a: b,x: y,},"
        "MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[1 2],},},}: "
    )
    first, last = tenant.emitted()
    assert first[1].startswith(emitted)
    outer = "first error is: failed to get q external metric value: failed to get q external metric: "
    assert outer + first[1] in last[1]


async def test_one_unavailable_metric_of_two_prevents_only_scaling_down() -> None:
    silent = {"type": "External", "external": {"metric": {"name": "q"}, "target": {"value": "10"}}}
    tenant = Tenant(metrics=[silent, CPU])
    tenant.used(a="1", b="1")
    await tenant.view()
    assert tenant.size == 4
    assert tenant.status["currentMetrics"][0] == {"type": ""}
    tenant = Tenant(metrics=[silent, CPU])
    tenant.used(a="100m", b="100m")
    await tenant.view()
    assert tenant.condition("ScalingActive")[1] == "FailedGetExternalMetric"
    assert tenant.emitted()[-1][1].startswith(
        "invalid metrics (1 invalid out of 2), first error is: failed to get q external"
    )


@pytest.mark.parametrize(
    ("replicas", "size", "reason"),
    [
        (12, 10, "Current number of replicas above Spec.MaxReplicas"),
        (1, 3, "Current number of replicas below Spec.MinReplicas"),
    ],
)
async def test_bounds_apply_without_metrics(replicas: int, size: int, reason: str) -> None:
    tenant = Tenant(minReplicas=3)
    tenant.scale(replicas)
    await tenant.view()
    assert tenant.size == size
    assert tenant.emitted() == [("SuccessfulRescale", f"New size: {size}; reason: {reason}")]


async def test_a_target_scaled_to_zero_is_not_scaled() -> None:
    tenant = Tenant()
    tenant.scale(0)
    await tenant.view()
    text = "scaling is disabled since the replica count of the target is zero"
    assert tenant.condition("ScalingActive") == ("False", "ScalingDisabled", text)
    assert tenant.emitted() == []


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
            "the server could not find the requested resource",
        ),
        (
            {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w"},
            'no matches for kind "Widget" in group "example.com"',
        ),
    ],
)
async def test_a_missing_target_is_reported(target: dict[str, str], text: str) -> None:
    tenant = Tenant(scaleTargetRef=target)
    tenant.answers |= {"/api": {"items": []}, "/apis": {"items": []}}
    assert await tenant.view() == 15
    message = f"the HPA controller was unable to get the target's current scale: {text}"
    assert tenant.condition("AbleToScale") == ("False", "FailedGetScale", message)
    assert tenant.emitted() == [("FailedGetScale", text)]


async def test_custom_resources_are_scaled_too() -> None:
    widgets = {
        "resource": "widgets",
        "responseKind": {"kind": "Widget"},
        "scope": "Namespaced",
        "verbs": ["get", "list"],
    }
    group = {"metadata": {"name": "example.com"}, "versions": [{"version": "v1", "resources": [widgets]}]}
    tenant = Tenant(scaleTargetRef={"apiVersion": "example.com/v1", "kind": "Widget", "name": "w"})
    tenant.answers |= {"/api": {"items": []}, "/apis": {"items": [group]}}
    path = "/apis/example.com/v1/namespaces/default/widgets/w/scale"
    tenant.scale(2, path=path)
    tenant.used(a="1", b="1")
    await tenant.view()
    assert tenant.answers[path]["spec"]["replicas"] == 4


@pytest.mark.parametrize(
    ("selector", "condition", "event", "text"),
    [
        ("", "InvalidSelector", "SelectorRequired", "selector is required"),
        (
            "a b c",
            "InvalidSelector",
            "InvalidSelector",
            "couldn't convert selector into a corresponding internal",
        ),
    ],
)
async def test_a_target_with_an_invalid_selector_is_reported(
    selector: str, condition: str, event: str, text: str
) -> None:
    tenant = Tenant()
    tenant.scale(2, selector)
    await tenant.view()
    assert tenant.condition("ScalingActive")[:2] == ("False", condition)
    assert [each[0] for each in tenant.emitted()] == [event, "FailedComputeMetricsReplicas"]
    assert tenant.emitted()[0][1].startswith(text)


async def test_two_autoscalers_of_the_same_pods_are_reported() -> None:
    tenant = Tenant()
    tenant.used(a="1", b="1")
    tenant.put_hpa("other", tenant.shelves[HORIZONTAL_POD_AUTOSCALERS].bodies[NAMESPACE, "web"]["spec"])
    await tenant.view("other")
    tenant.events.clear()
    await tenant.view()
    text = "pods by selector app=web are controlled by multiple HPAs: [{other default} {web default}]"
    assert tenant.condition("ScalingActive") == ("False", "AmbiguousSelector", text)
    assert tenant.emitted()[0] == ("AmbiguousSelector", text)
    del tenant.shelves[HORIZONTAL_POD_AUTOSCALERS].bodies[NAMESPACE, "other"]
    assert await tenant.view("other") is None
    await tenant.view()
    assert tenant.condition("ScalingActive")[1] == "ValidMetricFound"


async def test_a_conflict_is_retried_and_a_refusal_reported() -> None:
    tenant = Tenant()
    tenant.used(a="1", b="1")
    tenant.refuses = [Conflict(Status(409, "Conflict", "changed"))]
    await tenant.view()
    assert tenant.size == 4
    tenant = Tenant()
    tenant.used(a="1", b="1")
    tenant.refuses = [Forbidden(Status(403, "Forbidden", "no"))]
    await tenant.view()
    assert tenant.condition("AbleToScale") == (
        "False",
        "FailedUpdateScale",
        "the HPA controller was unable to update the target scale: no",
    )
    assert tenant.emitted()[0][0] == "FailedRescale"
    assert tenant.size == 2


@pytest.mark.parametrize(
    "answer",
    [{"items": 5}, {"items": [5]}, {"items": []}, {"items": [{"containers": [{"usage": {"cpu": "x"}}]}]}],
)
async def test_invalid_metrics_are_reported(answer: dict[str, Any]) -> None:
    tenant = Tenant()
    tenant.answers["/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"] = answer
    assert await tenant.view() == 15
    assert tenant.condition("ScalingActive")[:2] == ("False", "FailedGetResourceMetric")


async def test_the_history_of_a_deleted_autoscaler_is_dropped() -> None:
    tenant = Tenant()
    tenant.used(a="1", b="1")
    await tenant.view()
    bodies = tenant.shelves[HORIZONTAL_POD_AUTOSCALERS].bodies
    body = bodies.pop((NAMESPACE, "web"))
    assert await tenant.view() is None
    assert (tenant.autoscaler._memories, tenant.autoscaler._selectors) == ({}, {})
    [watch] = horizontal_pod_autoscaler().watches
    there = placed(parse(encode(body)), TENANT)
    emitted = placed(parse(encode(body | {"status": {}})), TENANT)
    changed = placed(parse(encode(body | {"spec": {"maxReplicas": 3}})), TENANT)
    view = View(tenant.shelves, tenant.now, lambda: "")
    key = Key(TENANT, NAMESPACE, "web")
    found = [
        list(watch.keys(change, view))
        for change in (Change(None, there), Change(there, emitted), Change(there, changed))
    ]
    assert found == [[key], [], [key]]


async def test_the_selector_of_a_scale_has_a_limit() -> None:
    tenant = Tenant()
    tenant.used(a="1", b="1")
    tenant.scale(2, "," * (hpa_controller.LONGEST_SELECTOR + 1))
    await tenant.view()
    text = "the selector of the target's scale is longer than 16384 characters"
    assert tenant.condition("ScalingActive") == ("False", "InvalidSelector", text)
    assert tenant.size == 2


async def test_a_selector_with_too_many_requirements_for_its_pods_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hpa_controller, "MOST_STEPS", 10_000)
    tenant = Tenant()
    tenant.used(a="1", b="1")
    tenant.scale(2, ",".join(f"!a{each}" for each in range(2000)))
    for each in range(10):
        tenant.put_pod(f"pod-{each}")
    await tenant.view()
    assert tenant.condition("ScalingActive")[1] == "InvalidSelector"
    assert "takes more than 10000 steps" in tenant.condition("ScalingActive")[2]
    assert tenant.size == 2


async def test_an_autoscaler_has_a_limit_of_metrics() -> None:
    tenant = Tenant(metrics=[CPU] * (hpa_controller.MOST_METRICS + 1))
    tenant.used(a="1", b="1")
    await tenant.view()
    text = "spec.metrics: 101 metrics, but at most 100 are evaluated"
    assert tenant.condition("ScalingActive") == ("False", "TooManyMetrics", text)
    assert not [each for each in tenant.asked if "metrics.k8s.io" in each]


async def test_changes_of_an_autoscaler_are_gathered() -> None:
    tenant = Tenant()
    body = tenant.shelves[HORIZONTAL_POD_AUTOSCALERS].get(TENANT, NAMESPACE, "web")
    [watch] = horizontal_pod_autoscaler().watches
    assert watch.gather is not None
    view = View(tenant.shelves, tenant.now, lambda: "xxxxx")
    key = Key(TENANT, NAMESPACE, "web")
    assert watch.gather(Change(None, body), view, key) == 0
    assert watch.gather(Change(body, body), view, key) == 1


@pytest.mark.parametrize("pods", [2, 150])
@pytest.mark.parametrize(
    "target",
    [{"type": "Utilization", "averageUtilization": 50}, {"type": "AverageValue", "averageValue": "1"}],
)
async def test_a_thread_decides_about_many_pods(
    monkeypatch: pytest.MonkeyPatch, pods: int, target: dict[str, Any]
) -> None:
    threads: list[threading.Thread] = []
    sort_out = replicas.sort_out

    def noted(*args: Any) -> Any:
        threads.append(threading.current_thread())
        return sort_out(*args)

    monkeypatch.setattr(replicas, "sort_out", noted)
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    tenant = Tenant(metrics=[metric, metric], maxReplicas=1000)
    tenant.scale(pods)
    for number in range(pods):
        tenant.put_pod(f"p{number}")
    tenant.used(**{name: "2" for _, name in tenant.shelves[PODS].bodies})
    await tenant.view()
    assert tenant.size > pods
    assert len(threads) == 2
    assert [each is threading.main_thread() for each in threads] == [pods == 2] * 2

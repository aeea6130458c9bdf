"""HorizontalPodAutoscalers: scales targets by metrics, within the limits of size and rate.

Behaviour: Kubernetes' `pkg/controller/podautoscaler/horizontal.go`. As upstream, recent recommendations and changes are
in memory only.
"""

import asyncio
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.controllers.framework.event_handlers import standing
from vcsync.controllers.framework.mirror import Key, key_of
from vcsync.controllers.framework.plan import View, Watch
from vcsync.controllers.framework.worker import ReconcileContext, Worker
from vcsync.controllers.hpa.metrics import MetricResult, MetricUnavailable, Scaled, ask
from vcsync.controllers.hpa.metrics_client import said
from vcsync.controllers.hpa.objects import CountedPod, Reference, Spec, counted
from vcsync.controllers.hpa.rates import Memory, normalize
from vcsync.controllers.hpa.replicas import tolerances
from vcsync.controllers.hpa.report import StatusReport
from vcsync.kube.cache import Change
from vcsync.kube.discovery import discover
from vcsync.kube.errors import Conflict, KubeError
from vcsync.kube.resources import (
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from vcsync.objects.budget import Budget, BudgetExceeded
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.selectors import InvalidSelector, Selector, parse_selector
from vcsync.process.loop_turns import rest

NAME = "horizontal-pod-autoscaler-controller"
REPORTER = "horizontal-pod-autoscaler"
"""The source of Kubernetes' Events about HorizontalPodAutoscalers."""
SYNC_SECONDS = 15.0
"""`--horizontal-pod-autoscaler-sync-period`."""
ATTEMPTS = 5
LONGEST_SELECTOR = 16384
"""Most characters of the selector in a scale. kube-controller-manager has no limit."""
MOST_METRICS = 100
"""Most metrics of one autoscaler; each is a request every `SYNC_SECONDS`. kube-controller-manager has no limit."""
MOST_STEPS = 1_000_000
"""Most steps of each comparison of selectors with Pods in one reconcile, about a second."""
STEPS_PER_POD, BYTES_PER_STEP = 20, 1_000
GATHER_SECONDS = 1.0
KNOWN = {
    (each.group, each.kind): each
    for each in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS)
}


class _Replicas(Struct):
    replicas: int = 0
    selector: str = ""


class _Scale(Struct):
    spec: _Replicas = msgspec.field(default_factory=_Replicas)
    status: _Replicas = msgspec.field(default_factory=_Replicas)


class _Found(Struct, frozen=True):
    """The scaled object and its current size."""

    resource: Resource
    scale: _Scale


class Failed(Exception):
    """Ends a reconcile whose failure has been recorded in the report."""


class Autoscaler:
    """Scales the targets of HorizontalPodAutoscalers of all tenants."""

    def __init__(self) -> None:
        """Start without history."""
        self._memories: dict[Key, tuple[str, Memory]] = {}
        self._selectors: dict[Key, Selector] = {}
        self._turn = asyncio.Semaphore(1)

    async def work(self, context: ReconcileContext, key: Key) -> float | None:
        """Reconcile one HorizontalPodAutoscaler.

        Returns:
            seconds until the next reconcile; None: it is gone.

        Raises:
            KubeError: its status could not be written.
        """
        found = context.view.of[HORIZONTAL_POD_AUTOSCALERS].get(*key)
        if found is None:
            self._memories.pop(key, None)
            self._selectors.pop(key, None)
            return None
        uid, memory = self._memories.get(key, ("", Memory()))
        if uid != found.uid:
            memory = Memory()
            self._memories[key] = (found.uid, memory)
        visit = _Visit(context, found, memory, self._selectors, self._turn)
        with suppress(Failed):
            await visit.run()
        await visit.report.write_status()
        return SYNC_SECONDS


class _Visit:
    """One reconcile of one HorizontalPodAutoscaler."""

    def __init__(
        self,
        context: ReconcileContext,
        hpa: Envelope,
        memory: Memory,
        selectors: dict[Key, Selector],
        turn: asyncio.Semaphore,
    ) -> None:
        self._turn = turn
        self._desk = context
        self._key = key_of(hpa)
        self._memory = memory
        self._selectors = selectors
        self._spec = decode(hpa.spec, Spec)
        self.report = StatusReport(context, hpa)

    @property
    def _now(self) -> datetime:
        return self._desk.view.now

    async def run(self) -> None:
        """Scale if metrics require it.

        Raises:
            Failed: the reconcile cannot continue.
        """
        found = await self._target()
        self.report.condition(
            "AbleToScale",
            "True",
            "SucceededGetScale",
            "the HPA controller was able to get the target's current scale",
        )
        current = found.scale.spec.replicas
        self._memory.begin(current, self._now)
        desired, reason, metrics = await self._desired(found, current)
        if desired != current:
            await self._rescale(found, current, desired, reason, metrics)
        self.report.set(current, desired, metrics, rescaled=desired != current)

    # ---- The target --------------------------------------------------------------------

    async def _target(self) -> _Found:
        reference = self._spec.scale_target_ref
        try:
            resource = await self._resource_of(reference)
            if resource is not None:
                return _Found(resource, await self._scale(resource))
        except KubeError as error:
            raise self._no_scale(said(error)) from error
        group = reference.api_version.rpartition("/")[0]
        raise self._no_scale(f'no matches for kind "{reference.kind}" in group "{group}"')

    def _no_scale(self, text: str) -> Failed:
        self.report.emit("Warning", "FailedGetScale", text)
        message = f"the HPA controller was unable to get the target's current scale: {text}"
        self.report.condition("AbleToScale", "False", "FailedGetScale", message)
        return Failed()

    async def _resource_of(self, reference: Reference) -> Resource | None:
        """Return the resource of an object; None: the tenant has no such kind.

        Raises:
            KubeError: discovery failed.
        """
        group = reference.api_version.rpartition("/")[0]
        if (group, reference.kind) in KNOWN:
            return KNOWN[group, reference.kind]
        for each in (await discover(self._desk.client)).resources:
            if (each.resource.group, each.resource.kind) == (group, reference.kind):
                return each.resource
        return None

    async def _scale(self, resource: Resource) -> _Scale:
        path = resource.path(
            namespace=self._key.namespace if resource.namespaced else "",
            name=self._spec.scale_target_ref.name,
            subresource="scale",
        )
        return decode(await self._desk.client.request("GET", path), _Scale)

    # ---- The desired size --------------------------------------------------------------

    async def _desired(self, found: _Found, current: int) -> tuple[int, str, Any]:
        """Return the desired size, the reason, and the metrics for the status."""
        least, most = self._spec.min_replicas, self._spec.max_replicas
        if not current:
            text = "scaling is disabled since the replica count of the target is zero"
            self.report.condition("ScalingActive", "False", "ScalingDisabled", text)
            return 0, "", None
        if current > most:
            return most, "Current number of replicas above Spec.MaxReplicas", None
        if current < least:
            return least, "Current number of replicas below Spec.MinReplicas", None
        asked, name, metrics = await self._ask(found, current)
        reason = f"{name} above target" if asked > current else "All metrics below target"
        normal = normalize(self._spec, self._memory, current, asked, self._now)
        self.report.condition("AbleToScale", "True", *normal.able)
        self.report.condition("ScalingLimited", str(normal.limited), *normal.limit)
        return normal.replicas, reason if asked != current else "", metrics

    async def _ask(self, found: _Found, current: int) -> tuple[int, str, list[Any]]:
        """Evaluate all metrics; the largest result counts.

        Raises:
            Failed: too few of them are available.
        """
        wanted = self._spec.metrics or ()
        if len(wanted) > MOST_METRICS:
            text = f"spec.metrics: {len(wanted)} metrics, but at most {MOST_METRICS} are evaluated"
            self.report.condition("ScalingActive", "False", "TooManyMetrics", text)
            self.report.emit("Warning", "TooManyMetrics", text)
            self.report.set(current, self.report.desired, None, rescaled=False)
            raise Failed
        scaled = await self._scaled(found)
        metrics: list[Any] = [{"type": ""} for _ in wanted]
        most: MetricResult | None = None
        silent: list[MetricUnavailable] = []
        for index, metric in enumerate(wanted):
            try:
                each = await ask(scaled, metric)
            except MetricUnavailable as error:
                silent.append(error)
                self.report.emit("Warning", error.reason, error.inner)
                continue
            metrics[index] = each.status
            if most is None or each.replicas > most.replicas:
                most = each
        if most is None or (silent and most.replicas < current):
            self._give_up(silent, len(wanted), current, metrics)
        assert most is not None  # noqa: S101 - _give_up has raised otherwise
        text = f"the HPA was able to successfully calculate a replica count from {most.name}"
        self.report.condition("ScalingActive", "True", "ValidMetricFound", text)
        return most.replicas, most.name, metrics

    def _give_up(
        self, silent: Sequence[MetricUnavailable], wanted: int, current: int, metrics: list[Any]
    ) -> None:
        first = silent[0]
        text = f"the HPA was unable to compute the replica count: {first.inner}"
        self.report.condition("ScalingActive", "False", first.reason, text)
        self.report.set(current, self.report.desired, metrics, rescaled=False)
        text = f"invalid metrics ({len(silent)} invalid out of {wanted}), first error is: {first}"
        self.report.emit("Warning", "FailedComputeMetricsReplicas", text)
        raise Failed

    async def _scaled(self, found: _Found) -> Scaled:
        """Return the target with its Pods.

        Raises:
            Failed: its Pods cannot be determined.
        """
        text = found.scale.status.selector
        current = found.scale.spec.replicas
        if len(text) > LONGEST_SELECTOR:
            message = f"the selector of the target's scale is longer than {LONGEST_SELECTOR} characters"
            raise self._bad_selector("InvalidSelector", message, message, current)
        if not text:
            message = "the HPA target's scale is missing a selector"
            raise self._bad_selector("SelectorRequired", "selector is required", message, current)
        try:
            selector = parse_selector(text)
        except InvalidSelector as error:
            message = f"couldn't convert selector into a corresponding internal selector object: {error}"
            raise self._bad_selector("InvalidSelector", message, message, current) from error
        self._selectors[self._key] = selector
        try:
            mine, counted_pods = await self._mine(selector)
            others = await self._others(mine)
        except BudgetExceeded as error:
            message = (
                f"{error}: use a selector with fewer requirements, or fewer autoscalers in the namespace"
            )
            raise self._bad_selector("InvalidSelector", message, message, current) from error
        if others:
            named = " ".join(f"{{{each.name} {each.namespace}}}" for each in sorted({*others, self._key}))
            message = f"pods by selector {text} are controlled by multiple HPAs: [{named}]"
            raise self._bad_selector("AmbiguousSelector", message, message, current)
        return Scaled(
            self._key.namespace,
            current,
            found.scale.status.replicas,
            text,
            counted_pods,
            tolerances(self._spec.behavior),
            self._now,
            self._desk.client,
            self._resource_of,
            self._turn,
        )

    async def _mine(self, selector: Selector) -> tuple[list[Envelope], list[CountedPod]]:
        """Return the Pods of the target.

        Raises:
            BudgetExceeded: there are too many requirements for that many Pods.
        """
        budget = Budget("the comparison of a selector with all Pods", steps=MOST_STEPS)
        mine: list[Envelope] = []
        counted_pods: list[CountedPod] = []
        weight = _weight(selector)
        for pod in self._desk.view.of[PODS].within(self._key.tenant, self._key.namespace):
            budget.spend(weight)
            if selector.matches(pod.labels):
                budget.spend(STEPS_PER_POD + (len(pod.spec) + len(pod.status)) // BYTES_PER_STEP)
                mine.append(pod)
                counted_pods.append(counted(pod))
            await rest(budget)
        return mine, counted_pods

    async def _others(self, mine: Sequence[Envelope]) -> list[Key]:
        """Return the other autoscalers that scale some of the same Pods.

        Raises:
            BudgetExceeded: there are too many autoscalers for that many Pods.
        """
        budget = Budget(
            "the comparison of all autoscalers of a namespace with the Pods of one", steps=MOST_STEPS
        )
        labels = {pair for pod in mine for pair in pod.labels.items()}
        found: list[Key] = []
        for each in self._desk.view.of[HORIZONTAL_POD_AUTOSCALERS].within(
            self._key.tenant, self._key.namespace
        ):
            key, selector = key_of(each), self._selectors.get(key_of(each))
            budget.spend(weight := 1 if selector is None else _weight(selector))
            if key == self._key or selector is None or not _may_match(selector, labels):
                continue
            for pod in mine:
                budget.spend(weight)
                await rest(budget)
                if selector.matches(pod.labels):
                    found.append(key)
                    break
        return found

    def _bad_selector(self, reason: str, text: str, message: str, current: int) -> Failed:
        self.report.emit("Warning", reason, text)
        condition = "AmbiguousSelector" if reason == "AmbiguousSelector" else "InvalidSelector"
        self.report.condition("ScalingActive", "False", condition, message)
        self.report.set(current, self.report.desired, None, rescaled=False)
        self.report.emit("Warning", "FailedComputeMetricsReplicas", text)
        return Failed()

    # ---- Scaling and reporting ---------------------------------------------------------

    async def _rescale(self, found: _Found, current: int, desired: int, reason: str, metrics: Any) -> None:
        """Set the new size of the target.

        Raises:
            Failed: the write failed.
        """
        name = self._spec.scale_target_ref.name
        namespace = self._key.namespace if found.resource.namespaced else ""
        path = found.resource.path(namespace=namespace, name=name, subresource="scale")
        patch = msgspec.json.encode({"spec": {"replicas": desired}})
        for attempt in range(ATTEMPTS):
            try:
                await self._desk.client.request(
                    "PATCH", path, body=patch, content_type="application/merge-patch+json"
                )
            except Conflict as error:
                if attempt == ATTEMPTS - 1:
                    self._not_rescaled(error, current, desired, reason, metrics)
            except KubeError as error:
                self._not_rescaled(error, current, desired, reason, metrics)
            else:
                break
        text = f"the HPA controller was able to update the target scale to {desired}"
        self.report.condition("AbleToScale", "True", "SucceededRescale", text)
        self.report.emit("Normal", "SuccessfulRescale", f"New size: {desired}; reason: {reason}")
        self._memory.scaled(self._spec.behavior, current, desired, self._now)

    def _not_rescaled(self, error: KubeError, current: int, desired: int, reason: str, metrics: Any) -> None:
        text = f"New size: {desired}; reason: {reason}; error: {said(error)}"
        self.report.emit("Warning", "FailedRescale", text)
        text = f"the HPA controller was unable to update the target scale: {said(error)}"
        self.report.condition("AbleToScale", "False", "FailedUpdateScale", text)
        self.report.set(current, self.report.desired, metrics, rescaled=False)
        raise Failed from error


def _weight(selector: Selector) -> int:
    """Return the steps that the comparison of a selector with the labels of one object may take."""
    return 1 + sum(1 + len(each.values) for each in selector.expressions)


def _may_match(selector: Selector, labels: Set[tuple[str, str]]) -> bool:
    """Return whether each of a selector's requirements of a value is met by one label at least, of any Pod."""
    return all(
        any((each.key, value) in labels for value in each.values)
        for each in selector.expressions
        if each.operator == "In"
    )


def _gathered(change: Change, _look: View, _key: Key) -> float:
    """Return the seconds until a changed autoscaler is looked at: each look adds to the history of recommendations."""
    return 0.0 if change.old is None or change.new is None else GATHER_SECONDS


def _keys(change: Change, _look: View) -> Iterable[Key]:
    """Return an autoscaler that is new, gone, or has another spec; changes of its status need no reconcile."""
    old, new = change.old, change.new
    if old is not None and new is not None and (old.uid, old.spec) == (new.uid, new.spec):
        return ()
    return [key_of(standing(change))]


def horizontal_pod_autoscaler() -> Worker:
    """Return the controller, without history."""
    return Worker(
        NAME,
        (Watch(HORIZONTAL_POD_AUTOSCALERS, _keys, _gathered),),
        Autoscaler().work,
        reads=(PODS,),
        reports=REPORTER,
    )

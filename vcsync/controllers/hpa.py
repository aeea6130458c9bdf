"""HorizontalPodAutoscalers: as many Pods as metrics ask for, no faster and no more than is allowed.

Behaviour: Kubernetes' `pkg/controller/podautoscaler/horizontal.go`. What was recommended and done lately is remembered in
memory only, as there.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.controllers.hpa_account import Account
from vcsync.controllers.hpa_metrics import said
from vcsync.controllers.hpa_objects import Reference, Spec, counted
from vcsync.controllers.hpa_rates import Memory, normalize
from vcsync.controllers.hpa_replicas import tolerances
from vcsync.controllers.hpa_sizes import Said, Scaled, Silent, ask
from vcsync.controllers.mirror import Key, key_of
from vcsync.controllers.plan import Look, Watch
from vcsync.controllers.pool_metrics import PoolMetrics
from vcsync.controllers.waking import standing
from vcsync.controllers.working import Desk, Worker
from vcsync.kube.cache import Change
from vcsync.kube.discovery import discover
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.errors import Conflict, KubeError
from vcsync.kube.resources import (
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from vcsync.kube.selectors import InvalidSelector, Selector, parse_selector

NAME = "horizontal-pod-autoscaler-controller"
REPORTER = "horizontal-pod-autoscaler"
"""Whom Kubernetes' Events of them are from."""
SYNC_SECONDS = 15.0
"""`--horizontal-pod-autoscaler-sync-period`."""
ATTEMPTS = 5
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
    """What is scaled, and its present size."""

    resource: Resource
    scale: _Scale


class Failed(Exception):
    """A look ends here; what is to be told has been noted."""


class Autoscaler:
    """Scales what HorizontalPodAutoscalers of all tenants refer to."""

    def __init__(self, pool: PoolMetrics | None = None) -> None:
        """Remember nothing yet; `pool` tells what Pods use if their tenant's API does not."""
        self._pool = pool
        self._memories: dict[Key, tuple[str, Memory]] = {}
        self._selectors: dict[Key, Selector] = {}

    async def work(self, desk: Desk, key: Key) -> float | None:
        """Look at one HorizontalPodAutoscaler.

        Returns:
            seconds after which to look again; None: it is gone.

        Raises:
            KubeError: its status could not be told.
        """
        found = desk.look.of[HORIZONTAL_POD_AUTOSCALERS].get(*key)
        if found is None:
            self._memories.pop(key, None)
            self._selectors.pop(key, None)
            return None
        uid, memory = self._memories.get(key, ("", Memory()))
        if uid != found.uid:
            memory = Memory()
            self._memories[key] = (found.uid, memory)
        visit = _Visit(desk, found, memory, self._selectors, self._pool)
        with suppress(Failed):
            await visit.run()
        await visit.account.tell()
        return SYNC_SECONDS


class _Visit:
    """One look at one HorizontalPodAutoscaler."""

    def __init__(
        self,
        desk: Desk,
        hpa: Envelope,
        memory: Memory,
        selectors: dict[Key, Selector],
        pool: PoolMetrics | None,
    ) -> None:
        self._desk = desk
        self._key = key_of(hpa)
        self._memory = memory
        self._selectors = selectors
        self._pool = pool
        self._spec = decode(hpa.spec, Spec)
        self.account = Account(desk, hpa)

    @property
    def _now(self) -> datetime:
        return self._desk.look.now

    async def run(self) -> None:
        """Scale if metrics say so.

        Raises:
            Failed: nothing more can be done now.
        """
        found = await self._target()
        self.account.condition(
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
        self.account.set(current, desired, metrics, rescaled=desired != current)

    # ---- What is scaled ----------------------------------------------------------------

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
        self.account.emit("Warning", "FailedGetScale", text)
        message = f"the HPA controller was unable to get the target's current scale: {text}"
        self.account.condition("AbleToScale", "False", "FailedGetScale", message)
        return Failed()

    async def _resource_of(self, reference: Reference) -> Resource | None:
        """Return the type of an object; None: the tenant has none such.

        Raises:
            KubeError: it cannot be told.
        """
        group = reference.api_version.rpartition("/")[0]
        if (group, reference.kind) in KNOWN:
            return KNOWN[group, reference.kind]
        for each in (await discover(self._desk.client)).found:
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

    # ---- How many ----------------------------------------------------------------------

    async def _desired(self, found: _Found, current: int) -> tuple[int, str, Any]:
        """Return how many there should be, why, and what is told of the metrics."""
        least, most = self._spec.min_replicas, self._spec.max_replicas
        if not current:
            text = "scaling is disabled since the replica count of the target is zero"
            self.account.condition("ScalingActive", "False", "ScalingDisabled", text)
            return 0, "", None
        if current > most:
            return most, "Current number of replicas above Spec.MaxReplicas", None
        if current < least:
            return least, "Current number of replicas below Spec.MinReplicas", None
        asked, name, metrics = await self._ask(found, current)
        reason = f"{name} above target" if asked > current else "All metrics below target"
        normal = normalize(self._spec, self._memory, current, asked, self._now)
        self.account.condition("AbleToScale", "True", *normal.able)
        self.account.condition("ScalingLimited", str(normal.limited), *normal.limit)
        return normal.replicas, reason if asked != current else "", metrics

    async def _ask(self, found: _Found, current: int) -> tuple[int, str, list[Any]]:
        """Ask all metrics; the one that asks for most counts.

        Raises:
            Failed: too few of them say anything.
        """
        wanted = self._spec.metrics or ()
        scaled = self._scaled(found)
        metrics: list[Any] = [{"type": ""} for _ in wanted]
        most: Said | None = None
        silent: list[Silent] = []
        for index, metric in enumerate(wanted):
            try:
                each = await ask(scaled, metric)
            except Silent as error:
                silent.append(error)
                self.account.emit("Warning", error.reason, error.inner)
                continue
            metrics[index] = each.status
            if most is None or each.replicas > most.replicas:
                most = each
        if most is None or (silent and most.replicas < current):
            self._give_up(silent, len(wanted), current, metrics)
        assert most is not None  # noqa: S101 - else it was given up
        text = f"the HPA was able to successfully calculate a replica count from {most.name}"
        self.account.condition("ScalingActive", "True", "ValidMetricFound", text)
        return most.replicas, most.name, metrics

    def _give_up(self, silent: Sequence[Silent], wanted: int, current: int, metrics: list[Any]) -> None:
        first = silent[0]
        text = f"the HPA was unable to compute the replica count: {first.inner}"
        self.account.condition("ScalingActive", "False", first.reason, text)
        self.account.set(current, self.account.desired, metrics, rescaled=False)
        text = f"invalid metrics ({len(silent)} invalid out of {wanted}), first error is: {first}"
        self.account.emit("Warning", "FailedComputeMetricsReplicas", text)
        raise Failed

    def _scaled(self, found: _Found) -> Scaled:
        """Return what is scaled, with its Pods.

        Raises:
            Failed: its Pods cannot be told from others.
        """
        text = found.scale.status.selector
        current = found.scale.spec.replicas
        if not text:
            message = "the HPA target's scale is missing a selector"
            raise self._bad_selector("SelectorRequired", "selector is required", message, current)
        try:
            selector = parse_selector(text)
        except InvalidSelector as error:
            message = f"couldn't convert selector into a corresponding internal selector object: {error}"
            raise self._bad_selector("InvalidSelector", message, message, current) from error
        self._selectors[self._key] = selector
        everyone = self._desk.look.of[PODS].within(self._key.tenant, self._key.namespace)
        mine = [pod for pod in everyone if selector.matches(pod.labels)]
        others = self._others(mine)
        if others:
            named = " ".join(f"{{{each.name} {each.namespace}}}" for each in sorted({*others, self._key}))
            message = f"pods by selector {text} are controlled by multiple HPAs: [{named}]"
            raise self._bad_selector("AmbiguousSelector", message, message, current)
        return Scaled(
            self._key.namespace,
            current,
            found.scale.status.replicas,
            text,
            [counted(pod) for pod in mine],
            tolerances(self._spec.behavior),
            self._now,
            self._desk.client,
            self._resource_of,
            partial(self._elsewhere, mine),
        )

    async def _elsewhere(self, mine: Sequence[Envelope]) -> Sequence[msgspec.Raw] | None:
        if self._pool is None:
            return None
        return await self._pool.of_pods(self._desk.look, self._key.tenant, self._key.namespace, mine)

    def _others(self, mine: Sequence[Envelope]) -> list[Key]:
        """Return the others that some of the same Pods are scaled by."""
        return [
            key
            for each in self._desk.look.of[HORIZONTAL_POD_AUTOSCALERS].within(
                self._key.tenant, self._key.namespace
            )
            if (key := key_of(each)) != self._key
            and (selector := self._selectors.get(key)) is not None
            and any(selector.matches(pod.labels) for pod in mine)
        ]

    def _bad_selector(self, reason: str, text: str, message: str, current: int) -> Failed:
        self.account.emit("Warning", reason, text)
        condition = "AmbiguousSelector" if reason == "AmbiguousSelector" else "InvalidSelector"
        self.account.condition("ScalingActive", "False", condition, message)
        self.account.set(current, self.account.desired, None, rescaled=False)
        self.account.emit("Warning", "FailedComputeMetricsReplicas", text)
        return Failed()

    # ---- Doing and telling -------------------------------------------------------------

    async def _rescale(self, found: _Found, current: int, desired: int, reason: str, metrics: Any) -> None:
        """Give the target its new size.

        Raises:
            Failed: it cannot be.
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
        self.account.condition("AbleToScale", "True", "SucceededRescale", text)
        self.account.emit("Normal", "SuccessfulRescale", f"New size: {desired}; reason: {reason}")
        self._memory.scaled(self._spec.behavior, current, desired, self._now)

    def _not_rescaled(self, error: KubeError, current: int, desired: int, reason: str, metrics: Any) -> None:
        text = f"New size: {desired}; reason: {reason}; error: {said(error)}"
        self.account.emit("Warning", "FailedRescale", text)
        text = f"the HPA controller was unable to update the target scale: {said(error)}"
        self.account.condition("AbleToScale", "False", "FailedUpdateScale", text)
        self.account.set(current, self.account.desired, metrics, rescaled=False)
        raise Failed from error


def _keys(change: Change, _look: Look) -> Iterable[Key]:
    """One that is new, gone, or asks for something else; what is told of it in its status changes nothing."""
    old, new = change.old, change.new
    if old is not None and new is not None and (old.uid, old.spec) == (new.uid, new.spec):
        return ()
    return [key_of(standing(change))]


def horizontal_pod_autoscaler(pool: PoolMetrics | None = None) -> Worker:
    """Return the controller, which remembers nothing yet.

    Args:
        pool: tells what Pods use if their tenant's API does not.
    """
    return Worker(
        NAME,
        (Watch(HORIZONTAL_POD_AUTOSCALERS, _keys),),
        Autoscaler(pool).work,
        reads=(PODS, NAMESPACES),
        close=None if pool is None else pool.close,
        reports=REPORTER,
    )

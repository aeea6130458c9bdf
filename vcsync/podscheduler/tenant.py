"""One connected tenant of the pod scheduler: its Pods, the books on them, and what is written to them."""

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import NotFound
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.kube.resources import PODS
from vcsync.podscheduler.book import Assign, Book, Wait
from vcsync.podscheduler.pods import Key, Pod, assignment, read, unschedulable
from vcsync.scheduling.shares import PodDecision
from vcsync.scheduling.snapshot import SuperView

_FAILED = "FailedScheduling"
DEALING_SECONDS = 2.0
"""A Pod of a namespace without slices is told so after this long: a new namespace's slices are being dealt meanwhile."""


class PodDoor(Struct, frozen=True):
    """What is done to a tenant's Pods. All answers are taken note of before the functions return.

    `patch(namespace, name, patch)`, `patch_status(namespace, name, patch)`, `gone(namespace, name, uid)`: the
    API server said so. `emit(pod, message)`: a Warning about it.
    """

    patch: Callable[[str, str, dict[str, Any]], Awaitable[None]]
    patch_status: Callable[[str, str, dict[str, Any]], Awaitable[None]]
    gone: Callable[[str, str, str], None]
    emit: Callable[[Pod, str], None]


class Outcome(Struct, frozen=True):
    """What became of a Pod: `assigned`, `waiting` or `left`; the decision, if one was made; seconds it took."""

    kind: str
    super_id: str = ""
    decision: PodDecision | None = None
    latency: float = 0.0


class TenantPods:
    """Follows a tenant's Pods in the books and schedules one at a time.

    `add(item, urgent)` asks for `schedule` of a Pod, or with an empty name for `wake` of a namespace;
    `add_after(item, seconds)` asks for it later. Nothing is asked for before `begin`: first all Pods must be counted.
    """

    def __init__(
        self,
        door: PodDoor,
        views: Callable[[], Mapping[str, SuperView]],
        add: Callable[[Key, bool], None],
        add_after: Callable[[Key, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.book = Book()
        self._door = door
        self._views = views
        self._add = add
        self._add_after = add_after
        self._clock = clock
        self._begun = False

    def begin(self) -> None:
        """All Pods and shares are in the books: look at whoever is not settled."""
        self._begun = True
        for pod in list(self.book.pods.values()):
            self._look(pod)

    def observe(self, change: Change) -> None:
        """Take in a change of a Pod (as `slim` made it)."""
        if change.new is None:
            if change.old is not None and self.book.gone(change.old.key):
                self._freed(change.old.namespace)
            return
        pod = read(change.new, self._clock())
        if self.book.see(pod):
            self._freed(pod.namespace)
        self._look(pod)

    def grant(self, namespace: str, size: Mapping[str, int], placements: Mapping[str, int]) -> None:
        """Take in what a namespace holds. Pods whose label no longer stands are looked at, and all that wait."""
        if self.book.grant(namespace, size, placements) and self._begun:
            for pod in [pod for pod in self.book.pods.values() if pod.namespace == namespace]:
                self._look(pod)

    def pool_changed(self) -> None:
        """Look at all Pods that wait: a super cluster's health or settings are different."""
        for namespace in self.book.namespaces() if self._begun else ():
            for key in self.book.waiting(namespace):
                self._add(key, False)

    def wake(self, namespace: str) -> None:
        """Look at those waiting Pods of a namespace that may fit now."""
        for key in self.book.worth_a_try(namespace):
            self._add(key, False)

    async def schedule(self, key: Key) -> Outcome:
        """Decide on a Pod and write it down.

        Raises:
            KubeError: it could not be written; the decision no longer counts.
        """
        pod = self.book.pods.get(key)
        if pod is None:
            return Outcome("left")
        verdict = self.book.decide(pod, self._views())
        try:
            if isinstance(verdict, Assign):
                return await self._assign(pod, verdict)
            if isinstance(verdict, Wait):
                return await self._wait(pod, verdict)
        except NotFound:
            self._door.gone(pod.namespace, pod.name, pod.uid)
        return Outcome("left")

    async def _assign(self, pod: Pod, verdict: Assign) -> Outcome:
        self.book.assume(pod, verdict.super_id)
        try:
            await self._door.patch(pod.namespace, pod.name, assignment(pod, verdict.super_id))
        finally:
            if self.book.settle(pod.key):
                self._freed(pod.namespace)
        return Outcome("assigned", verdict.super_id, verdict.decision, self._clock() - pod.seen_at)

    async def _wait(self, pod: Pod, verdict: Wait) -> Outcome:
        outcome = Outcome("waiting", "", verdict.decision)
        message = verdict.decision.reasons()
        told_before = self.book.told(pod)
        if not verdict.signature and not pod.told:
            patience = pod.seen_at + DEALING_SECONDS - self._clock()
            if patience > 0:
                self.book.wait_untold(pod)
                self._add_after(pod.key, patience)
                return outcome
        if pod.label or pod.annotation:
            # Of a super cluster that it cannot have, or no longer: it must not be taken up there. The answer leads here
            # again.
            await self._door.patch(pod.namespace, pod.name, assignment(pod, None))
            return outcome
        self.book.wait(pod, verdict.signature)
        if told_before == verdict.signature or (told_before is None and pod.told == message):
            return outcome
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            await self._door.patch_status(pod.namespace, pod.name, unschedulable(pod, message, now))
        except BaseException:
            if self.book.told(pod) is not None:
                self.book.wait_untold(pod)
            raise
        self._door.emit(pod, message)
        return outcome

    def _look(self, pod: Pod) -> None:
        if self._begun and not self.book.settled(pod, self._views()):
            self._add(pod.key, self.book.told(pod) is None)

    def _freed(self, namespace: str) -> None:
        if self._begun and self.book.waiting(namespace):
            self._add((namespace, ""), False)


def pod_door(
    client: Client,
    events: EventRecorder,
    observe: Callable[[Envelope], None],
    gone: Callable[[str, str, str], None],
) -> PodDoor:
    """Write to a tenant's control plane; `observe` and `gone` hear of every answer."""

    async def patch(namespace: str, name: str, change: dict[str, Any]) -> None:
        observe(await client.patch(PODS, name, change, namespace))

    async def patch_status(namespace: str, name: str, change: dict[str, Any]) -> None:
        observe(await client.patch(PODS, name, change, namespace, kind="strategic", subresource="status"))

    def emit(pod: Pod, message: str) -> None:
        subject = ObjectRef("v1", "Pod", pod.name, pod.namespace, pod.uid)
        events.emit(subject, "Warning", _FAILED, message, now=time.time())

    return PodDoor(patch, patch_status, gone, emit)

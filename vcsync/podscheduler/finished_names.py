"""Frees the names of one tenant's Pods that have failed without a node, once no super cluster can have a copy of them.

The garbage collector of Kubernetes marks a Pod as failed that is deleted without a node. The Pod scheduler does not follow Pods
that have finished, so it lists them when a super cluster may be out of the question: source `pkg/controller/podgc`,
`gcUnscheduledTerminating`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import structlog

from vcsync.api.names import COPY_FINALIZER
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, KubeError, NotFound
from vcsync.kube.long_lists import take_pages
from vcsync.kube.resources import PODS
from vcsync.objects.envelope import Envelope
from vcsync.podscheduler.pods import Pod, read, slim

FAILED_WITHOUT_NODE: Final = "spec.nodeName=,status.phase=Failed"
"""Field selector of the Pods that are listed."""
MOST_PAGES: Final = 200
"""Pages of 500 Pods that are read at most."""
MOST_AT_A_TIME: Final = 1000
"""Pods whose names are freed after one list. If there are more, they are listed again."""
PAUSE_SECONDS: Final = (1.0, 60.0)
"""Shortest pause between two lists, and the longest after failures."""
REST: Final = 20.0
"""Times as long as the last look took, until the next one begins."""

_log = structlog.get_logger(__name__)


class Pods(Protocol):
    """A tenant's Pods, with the decisions on their names; see `TenantPods`."""

    def may_have_a_copy(self, pod: Pod) -> bool:
        """Return whether the super cluster that the label of a Pod names may have a copy, by what this process has seen."""
        ...

    def free_name(self, pod: Pod) -> Awaitable[None]:
        """Free the name of a Pod of which no super cluster can have a copy."""
        ...


class FinishedNames:
    """Frees the names of Pods that have finished.

    Args:
        client: the tenant's control plane.
        pods: what is known of its Pods.
        held: the error of `free_name` if a super cluster may have a copy after all.
        sleep: waits for some seconds.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        client: Client,
        pods: Pods,
        held: type[Exception],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._pods = pods
        self._held = held
        self._sleep = sleep
        self._clock = clock
        self._wanted = asyncio.Event()
        self._wanted.set()  # an earlier term may have ended before its look

    def look_again(self) -> None:
        """List the Pods again, since a super cluster may not have copies of some any more."""
        self._wanted.set()

    async def run(self) -> None:
        """Free names until cancelled. A tenant's lists take a small share of the time."""
        least, most = PAUSE_SECONDS
        pause = least
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            began = self._clock()
            try:
                await self._look()
                pause = least
            except KubeError as error:
                _log.info("names of finished pods are not freed", client=self._client.name, error=str(error))
                self._wanted.set()
                pause = min(most, 2 * pause)
            await self._sleep(max(pause, REST * (self._clock() - began)))

    async def _look(self) -> None:
        found: list[Pod] = []

        def take(items: Sequence[Envelope]) -> None:
            for item in items:
                if COPY_FINALIZER in item.finalizers and len(found) <= MOST_AT_A_TIME:
                    pod = read(slim(item), 0.0)
                    if not self._pods.may_have_a_copy(pod):
                        found.append(pod)

        await take_pages(self._client.pages(PODS, field_selector=FAILED_WITHOUT_NODE), take, MOST_PAGES)
        for pod in found[:MOST_AT_A_TIME]:
            try:
                await self._pods.free_name(pod)
            except (NotFound, Conflict, self._held):
                continue
        if len(found) > MOST_AT_A_TIME:
            self._wanted.set()

"""Connects the control plane of `vcsync up` with the pod scheduler beside it, so that Pods are placed at their creation."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from vcsync.cli.run.roles import Settings, make_podscheduler
from vcsync.cli.run.supervision import MakeRole, Role
from vcsync.podscheduler import PodScheduler
from vcsync.podscheduler.promises import Promise


class LocalPodScheduler:
    """The pod scheduler of this process, while it runs; see `pod_placement.Placer`."""

    def __init__(self) -> None:
        self._running: PodScheduler | None = None

    def make(self, settings: Settings) -> MakeRole:
        """Return the factory of the pod scheduler."""
        make = make_podscheduler(settings)

        @asynccontextmanager
        async def running() -> AsyncIterator[Role]:
            async with make() as role:
                self._running = role
                try:
                    yield role
                finally:
                    self._running = None

        return running

    async def promise(  # noqa: PLR0917 - parts, each of its own type
        self,
        tenant: str,
        control_plane: str,
        namespace: str,
        name: str,
        spec: bytes,
        labels: Mapping[str, str],
    ) -> Promise | None:
        """See `pod_placement.Placer.promise`. The scheduler answers from memory, so nothing is awaited."""
        running = self._running
        if running is None:
            return None
        return running.promise(tenant, control_plane, namespace, name, spec, labels)

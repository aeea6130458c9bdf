"""Roles that run in the process of `vcsync up` only: the control plane, its controllers, hollow super clusters."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace
from prometheus_client.metrics_core import Metric

from vcsync.apiserver.admission.pod_placement import Placer
from vcsync.apiserver.admission.policies.typechecking import warnings
from vcsync.cli.controllers.commands import AUTHORITY
from vcsync.cli.controlplane.kubelet_options import LOOPBACK
from vcsync.cli.controlplane.process import endpoint_of, run_control_plane
from vcsync.cli.controlplane.settings import ControlPlaneSettings
from vcsync.cli.hollow.kubelets import kubelet_tls
from vcsync.cli.run.supervision import MakeRole, Role
from vcsync.cli.up import spaces as up_spaces
from vcsync.controllers.manager.role import Controllers
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.registration import issued
from vcsync.simulate.addresses import network_of
from vcsync.simulate.cluster import HollowCluster, Serving
from vcsync.simulate.cluster import Settings as HollowSettings

CONTROL_PLANE = "controlplane"
IDENTITY = "up"
PER_TENANT = 2
"""Maximum number of one tenant's objects that each role processes at a time: in one process they wait for CPU, not for a network.

More of them would only delay tenants with few objects. With one alone, a slow webhook would delay all others."""


class ControlPlaneRole:
    """The embedded control plane, with its state while it does not serve.

    Args:
        settings: its settings.
        began: done when it serves for the first time.
        placer: the pod scheduler of this process.
    """

    def __init__(self, settings: ControlPlaneSettings, began: asyncio.Future[None], placer: Placer) -> None:
        self._placer = placer
        self._settings = settings
        self._began = began
        self._serves = False

    async def run(self) -> None:
        """Serve until cancelled."""
        await run_control_plane(self._settings, self._serving, self._placer)

    def ready(self) -> tuple[bool, str]:
        """Whether it serves."""
        return self._serves, "" if self._serves else "starts"

    def status(self) -> dict[str, Any]:
        """Address of its status endpoint."""
        return {"role": CONTROL_PLANE, "url": endpoint_of(self._settings).url}

    def metrics(self) -> Iterable[Metric]:
        """Return nothing: it serves its own metrics."""
        return ()

    def _serving(self) -> None:
        self._serves = True
        if not self._began.done():
            self._began.set_result(None)


def make_control_plane(
    settings: ControlPlaneSettings, began: asyncio.Future[None], placer: Placer
) -> MakeRole:
    """Return the factory of the control plane.

    Args:
        settings: its settings.
        began: done when it serves for the first time, or fails with the reason why it cannot. It is restarted
            only if it has served once: a fault at the first start needs the operator.
        placer: the pod scheduler of this process.
    """

    @asynccontextmanager
    async def make() -> AsyncIterator[Role]:
        try:
            yield ControlPlaneRole(settings, began, placer)
        except Exception as error:
            if began.done():
                raise
            began.set_exception(error)
            await asyncio.Event().wait()  # The code that waits for the first start ends everything.

    return make


def make_controllers(server: Client, settings: ControlPlaneSettings) -> MakeRole:
    """Return the factory of the controllers of all tenants."""

    @asynccontextmanager
    async def make() -> AsyncIterator[Role]:
        authority = (settings.data / AUTHORITY).read_text()
        yield Controllers(
            server,
            identity=IDENTITY,
            authority=authority,
            check=warnings,
            leader_elect=False,
            per_tenant=PER_TENANT,
        )

    return make


def make_hollow(server: Client, super_id: str, settings: HollowSettings, number: int) -> MakeRole:
    """Return the factory of a hollow super cluster in an existing space.

    Clusters with different `number` have different addresses for Pods.
    """
    settings = replace(settings, per_namespace=PER_TENANT, network=network_of(number))

    @asynccontextmanager
    async def make() -> AsyncIterator[Role]:
        kubeconfig = await issued.kubeconfig(server, super_id)
        tls = kubelet_tls(await up_spaces.keys(server, super_id), LOOPBACK)
        async with Client(Connection.from_kubeconfig_bytes(kubeconfig), name=super_id) as client:
            yield HollowCluster(client, settings, Serving(LOOPBACK, 0, tls))

    return make

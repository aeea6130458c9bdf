"""The roles that only `vcsync up` has in its process: the control plane, its controllers, hollow super clusters."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace
from prometheus_client.metrics_core import Metric

from vcsync.cli import issued, up_spaces
from vcsync.cli.controllers import AUTHORITY, measured
from vcsync.cli.controlplane import ControlPlaneSettings
from vcsync.cli.controlplane_kubelets import LOOPBACK
from vcsync.cli.controlplane_process import endpoint_of, run_control_plane
from vcsync.cli.hollow_kubelets import kubelet_tls
from vcsync.cli.supervise import MakeRole, Role
from vcsync.controllers.service import Controllers
from vcsync.controlplane.admission.policies.typechecking import warnings
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.simulate.addresses import network_of
from vcsync.simulate.cluster import HollowCluster, Serving
from vcsync.simulate.cluster import Settings as HollowSettings

CONTROL_PLANE = "controlplane"
IDENTITY = "up"
PER_TENANT = 2
"""Objects of one tenant that each role has in work at once: in one process they wait for its time, not for a network.

More of them only keep others waiting, who have few; with one alone, what a slow webhook holds up would hold up all."""


class ControlPlaneRole:
    """The embedded control plane, while it serves and when it does not.

    Args:
        settings: of it.
        began: is done once it served for the first time.
    """

    def __init__(self, settings: ControlPlaneSettings, began: asyncio.Future[None]) -> None:
        self._settings = settings
        self._began = began
        self._serves = False

    async def run(self) -> None:
        """Serve until cancelled."""
        await run_control_plane(self._settings, self._serving)

    def ready(self) -> tuple[bool, str]:
        """Whether it serves."""
        return self._serves, "" if self._serves else "starts"

    def status(self) -> dict[str, Any]:
        """Where it serves."""
        return {"role": CONTROL_PLANE, "url": endpoint_of(self._settings).url}

    def metrics(self) -> Iterable[Metric]:
        """None here: it serves its own."""
        return ()

    def _serving(self) -> None:
        self._serves = True
        if not self._began.done():
            self._began.set_result(None)


def make_control_plane(settings: ControlPlaneSettings, began: asyncio.Future[None]) -> MakeRole:
    """Return what makes the control plane.

    Args:
        settings: of it.
        began: gets done when it serves for the first time, or the error why it cannot. It is started anew
            only if it served once: what is wrong from the beginning is the operator's to mend.
    """

    @asynccontextmanager
    async def make() -> AsyncIterator[Role]:
        try:
            yield ControlPlaneRole(settings, began)
        except Exception as error:
            if began.done():
                raise
            began.set_exception(error)
            await asyncio.Event().wait()  # whoever waited for the beginning ends everything

    return make


def make_controllers(server: Client, settings: ControlPlaneSettings) -> MakeRole:
    """Return what makes the controllers of all tenants."""

    @asynccontextmanager
    async def make() -> AsyncIterator[Role]:
        authority = (settings.data / AUTHORITY).read_text()
        yield Controllers(
            server,
            identity=IDENTITY,
            authority=authority,
            check=warnings,
            connect=measured,
            leader_elect=False,
            per_tenant=PER_TENANT,
        )

    return make


def make_hollow(server: Client, super_id: str, settings: HollowSettings, number: int) -> MakeRole:
    """Return what makes a hollow super cluster of a space that is there.

    Its Pods have other addresses than those of clusters with another `number`.
    """
    settings = replace(settings, per_namespace=PER_TENANT, network=network_of(number))

    @asynccontextmanager
    async def make() -> AsyncIterator[Role]:
        kubeconfig = await issued.kubeconfig(server, super_id)
        tls = kubelet_tls(await up_spaces.keys(server, super_id), LOOPBACK)
        async with Client(Connection.from_kubeconfig_bytes(kubeconfig), name=super_id) as client:
            yield HollowCluster(client, settings, Serving(LOOPBACK, 0, tls))

    return make

"""The process of `vcsync up`: all roles started in order, kept running, ended in order."""

import asyncio
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from vcsync.api import names
from vcsync.api.conditions import condition_of
from vcsync.api.objects import SuperCluster
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.cli import pool_role, up_roles, up_spaces
from vcsync.cli.controllers import AUTHORITY
from vcsync.cli.controlplane_process import SWITCH_SECONDS, endpoint_of
from vcsync.cli.embedded import ADMIN_KUBECONFIG
from vcsync.cli.roles import Settings, make_nsscheduler, make_podscheduler
from vcsync.cli.signals import until_signalled
from vcsync.cli.supervise import Keeper
from vcsync.cli.up import LISTEN_FILE, LOOPBACK, Wanted, free_port
from vcsync.controlplane.tenants.folder import DataFolder
from vcsync.kube import logs, loop
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import KubeError
from vcsync.status import StatusServer
from vcsync.status.server import DEFAULT_LISTEN
from vcsync.status.sources import readiness

STILL_SECONDS = 30.0
"""How often to say what is not ready yet."""
POLL_SECONDS = 0.05

Say = Callable[[str], None]


@dataclass(frozen=True)
class System:
    """A system that runs. `server`: client of the control plane's root, as the operator; `url`: where it is."""

    wanted: Wanted
    server: Client
    keeper: Keeper
    url: str
    status: str

    @property
    def data(self) -> Path:
        """Folder of its store and of all kubeconfigs."""
        return self.wanted.plane.data

    def kubeconfig(self, tenant: str) -> Path:
        """Return where the kubeconfig of a tenant's administrator is."""
        return up_spaces.kubeconfig_path(self.data, tenant)

    async def not_ready(self) -> list[str]:
        """Return what does not do its work yet, a line each."""
        all_ready, lines = readiness(self.keeper.sources)
        if not all_ready:
            return [line for line in lines if line.startswith("[-]")]
        try:
            pool = [SuperCluster.from_envelope(each) for each in await self.server.list(SUPER_CLUSTERS)]
        except KubeError as error:
            return [f"[-] super clusters: {error}"]
        return [f"[-] super cluster {each.name}: {why}" for each in pool if (why := unready(each))]

    async def wait_ready(self, say: Say) -> None:
        """Wait until every role and every super cluster does its work; say now and then what does not."""
        told = time.monotonic()
        while left := await self.not_ready():
            if time.monotonic() - told > STILL_SECONDS:
                told = time.monotonic()
                say("\n  ".join(("still waits:", *left)))
            await asyncio.sleep(POLL_SECONDS)


def unready(super_cluster: SuperCluster) -> str:
    """Say why a super cluster is not ready; empty: it is."""
    ready = condition_of(super_cluster.status.conditions, "Ready")
    if ready is None:
        return "no sign of life yet"
    return "" if ready.status == "True" else ready.message or ready.reason


def serve(wanted: Wanted, log_level: str, log_format: str) -> None:
    """Run until SIGTERM or Ctrl-C, which end it gracefully.

    Raises:
        FailedError, WrongInputError, KubeError: it cannot start; the text says why.
    """
    logs.configure(log_level, "console" if log_format == "console" else "json")
    sys.setswitchinterval(SWITCH_SECONDS)
    loop.run(until_signalled(_serve(wanted)))


async def _serve(wanted: Wanted) -> None:
    begun = time.monotonic()
    async with running(wanted, click.echo) as system:
        await system.wait_ready(click.echo)
        loop.tune_gc()
        click.echo(_next_steps(system, time.monotonic() - begun))
        await asyncio.Event().wait()


@asynccontextmanager
async def running(wanted: Wanted, say: Say) -> AsyncIterator[System]:
    """Start everything in order; what runs is kept running and ended, the control plane last, with the context.

    Raises:
        FailedError, WrongInputError, KubeError: it cannot start; the text says why.
    """
    settings = wanted.plane
    folder = settings.data / up_spaces.ROLES
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        core = await stack.enter_async_context(Keeper())
        began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        core.start(up_roles.CONTROL_PLANE, up_roles.make_control_plane(settings, began))
        await began
        host, port = settings.listen
        DataFolder.write(
            settings.data / LISTEN_FILE, f"{host}:{port}\n" if ":" not in host else f"[{host}]:{port}\n"
        )
        url = endpoint_of(settings).url
        say(f"control plane serves at {url}")
        connection = Connection.from_kubeconfig_file(settings.data / ADMIN_KUBECONFIG)
        server = await stack.enter_async_context(Client(connection, name="control plane"))
        keeper = await stack.enter_async_context(Keeper(core.sources))
        status = await _status_server(stack, wanted.status, keeper)
        keeper.start(names.ROLE_CONTROLLERS, up_roles.make_controllers(server, settings))
        await up_spaces.install(server)
        await up_spaces.add_members(server, wanted.members, settings.data, say)
        for number, super_id in enumerate(wanted.members.hollow):
            keeper.start(f"hollow/{super_id}", up_roles.make_hollow(server, super_id, wanted.cluster, number))
        paths = await up_spaces.write_role_kubeconfigs(server, folder, names.ROLES)
        roles = Settings(
            dict(paths),
            status,
            leader_elect=False,
            identity=up_roles.IDENTITY,
            tuning=wanted.tuning,
            per_tenant=up_roles.PER_TENANT,
        )
        keeper.start(names.ROLE_NSSCHEDULER, make_nsscheduler(roles))
        keeper.start(names.ROLE_PODSCHEDULER, make_podscheduler(roles))
        keeper.start(pool_role.NAME, pool_role.make_pool(roles, keeper))
        yield System(wanted, server, keeper, url, status)


async def _status_server(stack: AsyncExitStack, listen: str | None, keeper: Keeper) -> str:
    """Serve the status where it was asked for, or at a free port; return its address."""
    at = listen or f"{LOOPBACK}:{free_port(int(DEFAULT_LISTEN.rpartition(':')[2]))}"
    return (await stack.enter_async_context(StatusServer(at, keeper.sources, option="--status"))).address


def _next_steps(system: System, seconds: float) -> str:
    """Return what to type next."""
    data, operator = system.data, system.data / ADMIN_KUBECONFIG
    programs = Path(sys.executable).parent
    lines = [
        f"ready after {seconds:.1f} s: {system.url} (its CA: {data / AUTHORITY})",
        f"page for people: http://{system.status}/ (for programs: http://{system.status}/status)",
        "",
    ]
    if shutil.which("kubectl") is None:
        lines += [
            "There is no kubectl on the PATH; https://kubernetes.io/docs/tasks/tools tells how to get it.",
            "",
        ]
    if system.wanted.members.tenants:
        tenant = system.wanted.members.tenants[0]
        lines += [
            f"As tenant {tenant}:",
            f"  export KUBECONFIG={system.kubeconfig(tenant)}",
            "  kubectl create quota all --hard=cpu=8,memory=16Gi",
            "  kubectl create deployment web --image=nginx --replicas=6",
            "  kubectl set resources deployment web --requests=cpu=500m,memory=128Mi",
            "  kubectl get pods -o wide",
            "",
        ]
    lines.append("As the operator:")
    if shutil.which("vcsync") is None:
        lines.append(f"  export PATH={programs}:$PATH")
    lines += [
        f"  export VCSYNC_META={operator}",
        f"  vcsync status --endpoint {system.status}",
    ]
    if system.wanted.members.tenants:
        lines.append(f"  vcsync explain namespace {system.wanted.members.tenants[0]}/default")
    return "\n".join((*lines, "", "Ctrl-C ends it."))

"""The process of `vcsync up`: starts all roles in order, keeps them running, and ends them in order."""

import asyncio
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from vcsync.api import names
from vcsync.api.objects import SuperCluster
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.apiserver.operator.folder import DataFolder
from vcsync.cli.command.status_endpoint import Listen, serve_status
from vcsync.cli.command.terminal import say
from vcsync.cli.controllers.commands import AUTHORITY
from vcsync.cli.controlplane.process import SWITCH_SECONDS, endpoint_of
from vcsync.cli.run import pool_role
from vcsync.cli.run.roles import Settings, make_nsscheduler, make_tenants
from vcsync.cli.run.supervision import Keeper
from vcsync.cli.tenant.embedded import ADMIN_KUBECONFIG
from vcsync.cli.up import memory as up_memory
from vcsync.cli.up import roles as up_roles
from vcsync.cli.up import spaces as up_spaces
from vcsync.cli.up.placing import LocalPodScheduler
from vcsync.cli.up.settings import LISTEN_FILE, LOOPBACK, ROLES, Wanted, free_port
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import KubeError
from vcsync.process import logs, loop
from vcsync.process.signals import until_signalled
from vcsync.status import StatusServer
from vcsync.status.server import DEFAULT_LISTEN, is_loopback, parse_listen
from vcsync.status.sources import readiness
from vcsync.tenancy.health import judge_stored

INSTALL_SECONDS = 120.0
"""Timeout of a call that installs CRDs, which the control plane compiles. A busy machine takes long for its first one."""
STILL_SECONDS = 30.0
"""Seconds between two reports of parts that are not ready yet."""
POLL_SECONDS = 0.05

Say = Callable[[str], None]


@dataclass(frozen=True)
class System:
    """A running system.

    `server`: client of the control plane's root, as the operator; `url`: its address; `status`: address of the status endpoint;
    `page`: URL of its page, without a slash at its end.
    """

    wanted: Wanted
    server: Client
    keeper: Keeper
    url: str
    status: str
    page: str

    @property
    def data(self) -> Path:
        """The folder of its store and of all kubeconfigs."""
        return self.wanted.plane.data

    def kubeconfig(self, tenant: str) -> Path:
        """Return the path of the kubeconfig of a tenant's administrator."""
        return up_spaces.kubeconfig_path(self.data, tenant)

    async def not_ready(self) -> list[str]:
        """Return the parts that are not ready yet, as lines."""
        all_ready, lines = readiness(self.keeper.sources)
        if not all_ready:
            return [line for line in lines if line.startswith("[-]")]
        try:
            pool = [SuperCluster.from_envelope(each) for each in await self.server.list(SUPER_CLUSTERS)]
        except KubeError as error:
            return [f"[-] super clusters: {error}"]
        return [f"[-] super cluster {each.name}: {why}" for each in pool if (why := unready(each))]

    async def wait_ready(self, say: Say) -> None:
        """Wait until every role and every super cluster is ready; regularly report those that are not."""
        reported = time.monotonic()
        while left := await self.not_ready():
            if time.monotonic() - reported > STILL_SECONDS:
                reported = time.monotonic()
                say("\n  ".join(("still waiting for:", *left)))
            await asyncio.sleep(POLL_SECONDS)


def unready(super_cluster: SuperCluster) -> str:
    """Return why a super cluster is not ready; empty: it is."""
    return judge_stored(super_cluster, datetime.now(UTC)).reason


def serve(wanted: Wanted, log_level: str, log_format: str) -> None:
    """Run until SIGTERM or Ctrl-C, then shut down gracefully.

    Raises:
        FailedError, WrongInputError, KubeError: it cannot start; the text says why.
    """
    logs.configure(log_level, "console" if log_format == "console" else "json")
    sys.setswitchinterval(SWITCH_SECONDS)
    loop.run(until_signalled(_serve(wanted)))


async def _serve(wanted: Wanted) -> None:
    begun = time.monotonic()
    async with running(wanted, say) as system:
        await system.wait_ready(say)
        loop.tune_gc()
        say(_next_steps(system, time.monotonic() - begun))
        await asyncio.Event().wait()


@asynccontextmanager
async def running(wanted: Wanted, say: Say) -> AsyncIterator[System]:
    """Start everything in order. The roles run until the context ends; the control plane ends last.

    Raises:
        FailedError, WrongInputError, KubeError: it cannot start; the text says why.
    """
    settings = wanted.plane
    folder = settings.data / ROLES
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        core = await stack.enter_async_context(Keeper())
        began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        podscheduler = LocalPodScheduler()
        core.start(up_roles.CONTROL_PLANE, up_roles.make_control_plane(settings, began, podscheduler))
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
        status = await _status_server(stack, wanted, keeper, connection)
        keeper.start(names.ROLE_CONTROLLERS, up_roles.make_controllers(server, settings))
        async with Client(connection, name="control plane", timeout=INSTALL_SECONDS) as patient:
            await up_spaces.install(patient)
        for line in wanted.past.changed:
            say(line)
        there = await up_spaces.registered_now(server)
        members, lines = up_memory.without_removed(
            wanted.members, wanted.past.memory, there, wanted.past.named
        )
        for line in lines:
            say(line)
        await up_spaces.add_members(server, members, settings.data, say)
        up_memory.write(settings.data, up_memory.with_members(wanted.past.memory, members))
        wanted = replace(wanted, members=members)
        for number, super_id in enumerate(wanted.members.hollow):
            keeper.start(f"hollow/{super_id}", up_roles.make_hollow(server, super_id, wanted.cluster, number))
        paths = await up_spaces.write_role_kubeconfigs(server, folder, names.META_ACCOUNTS)
        roles = Settings(
            dict(paths),
            Listen(status.address),
            leader_elect=False,
            identity=up_roles.IDENTITY,
            tuning=wanted.tuning,
            per_tenant=up_roles.PER_TENANT,
        )
        keeper.start(names.ROLE_NSSCHEDULER, make_nsscheduler(roles))
        keeper.start(names.ROLE_PODSCHEDULER, podscheduler.make(roles))
        defaults = {**up_spaces.SPEC, **wanted.members.limits}
        keeper.start(names.ROLE_TENANTS, make_tenants(roles, defaults))
        keeper.start(pool_role.NAME, pool_role.make_pool(roles, keeper))
        yield System(wanted, server, keeper, url, status.address, status.url)


async def _status_server(
    stack: AsyncExitStack, wanted: Wanted, keeper: Keeper, connection: Connection
) -> StatusServer:
    """Serve the status at the given address, or at a free port. Other machines see the control plane's certificate."""
    at = Listen(wanted.status or f"{LOOPBACK}:{free_port(int(DEFAULT_LISTEN.rpartition(':')[2]))}")
    if not is_loopback(parse_listen(at.address)[0]):
        folder = DataFolder(wanted.plane.data)
        at = Listen(at.address, folder.certificate, folder.key)
    serving = serve_status(at, keeper.sources, lambda: connection, option="--status")
    return await stack.enter_async_context(serving)


def _next_steps(system: System, seconds: float) -> str:
    """Return the next commands to type."""
    data, operator = system.data, system.data / ADMIN_KUBECONFIG
    programs = Path(sys.executable).parent
    lines = [
        f"ready after {seconds:.1f} s: {system.url} (its CA: {data / AUTHORITY})",
        f"page for people: {system.page}/ (for programs: {system.page}/status)",
        "",
    ]
    if shutil.which("kubectl") is None:
        lines += [
            "There is no kubectl on the PATH; https://kubernetes.io/docs/tasks/tools describes how to install it.",
            "",
        ]
    if system.wanted.members.tenants:
        tenant = system.wanted.members.tenants[0]
        lines += [
            f"As tenant {tenant}:",
            f"  export KUBECONFIG={system.kubeconfig(tenant)}",
            "  kubectl create deployment web --image=nginx --replicas=6",
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

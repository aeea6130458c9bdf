"""`vcsync hollow fail | restore | press`: sets the simulated state of nodes of a hollow super cluster.

The state is an annotation of the Node, which `kubectl annotate` can write as well; the simulated kubelets read it.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from vcsync.api.names import HOLLOW_STATE, require_super_id
from vcsync.cli.command.errors import FailedError
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.cli.tenant.embedded import control_plane, reaching, require_embedded
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import NODES
from vcsync.simulate.nodes import DISK, DOWN, MEMORY

_space = click.argument("super_id", metavar="ID")
_nodes = click.argument("nodes", metavar="NODE...", nargs=-1, required=True)


@click.group(
    name="hollow",
    epilog=example("vcsync hollow fail r1 node-3", "vcsync hollow restore r1 node-3"),
)
def hollow() -> None:
    """Let nodes of a hollow super cluster fail, run short, and recover; use kubectl to cordon them."""


@hollow.command(epilog=example("vcsync hollow fail r1 node-3 --data /var/lib/vcsync"))
@_space
@_nodes
@reaching
def fail(super_id: str, nodes: tuple[str, ...], data: Path | None, meta: str | None) -> None:
    """Let kubelets of the super cluster ID stop reporting.

    Their nodes are tainted as unreachable immediately, without the grace period of a real cluster. Their Pods become
    not ready, and keep running until a controller evicts them when their tolerations end.
    """
    asyncio.run(_mark(super_id, nodes, DOWN, data, meta))
    say(f"down: {' '.join(nodes)}")


@hollow.command(epilog=example("vcsync hollow restore r1 node-3"))
@_space
@_nodes
@reaching
def restore(super_id: str, nodes: tuple[str, ...], data: Path | None, meta: str | None) -> None:
    """Let nodes of the super cluster ID recover."""
    asyncio.run(_mark(super_id, nodes, None, data, meta))
    say(f"well: {' '.join(nodes)}")


@hollow.command(epilog=example("vcsync hollow press r1 node-3 --disk"))
@_space
@_nodes
@click.option("--disk", is_flag=True, help="Short of disk space instead of memory.")
@reaching
def press(super_id: str, nodes: tuple[str, ...], disk: bool, data: Path | None, meta: str | None) -> None:
    """Let nodes of the super cluster ID run short of memory: they evict the Pods without requests."""
    asyncio.run(_mark(super_id, nodes, DISK if disk else MEMORY, data, meta))
    say(f"short of {'disk space' if disk else 'memory'}: {' '.join(nodes)}")


async def _mark(
    super_id: str, nodes: Sequence[str], state: str | None, data: Path | None, meta: str | None
) -> None:
    """Set the simulated state of nodes; None: healthy.

    Raises:
        FailedError: the super cluster or a node does not exist here.
    """
    require_super_id(super_id)
    async with control_plane(data, meta) as server:
        client = server.below(f"/tenants/{super_id}")
        for name in nodes:
            try:
                await client.patch(NODES, name, {"metadata": {"annotations": {HOLLOW_STATE: state}}})
            except NotFound as error:
                if error.status.message.startswith("nodes "):
                    raise FailedError(f"super cluster {super_id} has no node {name}") from error
                require_embedded(server, error)
                raise FailedError(f"hollow super cluster {super_id} does not exist here") from error

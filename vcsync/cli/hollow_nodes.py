"""`vcsync hollow fail | restore | press`: what befalls nodes of a hollow super cluster.

It is written on the Node, where `kubectl annotate` can write it as well; the kubelets that pretend go by it.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from vcsync.api.names import HOLLOW_STATE, require_super_id
from vcsync.cli.embedded import control_plane, reaching, require_embedded
from vcsync.cli.errors import FailedError
from vcsync.cli.help import example
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
    """Let nodes of a hollow super cluster fail, run short, and come back; to cordon them there is kubectl."""


@hollow.command(epilog=example("vcsync hollow fail r1 node-3 --data /var/lib/vcsync"))
@_space
@_nodes
@reaching
def fail(super_id: str, nodes: tuple[str, ...], data: Path | None, meta: str | None) -> None:
    """Let kubelets of the super cluster ID fall silent.

    Their nodes are tainted as unreachable at once, without the grace that a real cluster gives them. Nothing happens
    to what runs there, but that its Pods are not ready; a controller evicts them when their tolerations end.
    """
    asyncio.run(_mark(super_id, nodes, DOWN, data, meta))
    click.echo(f"down: {' '.join(nodes)}")


@hollow.command(epilog=example("vcsync hollow restore r1 node-3"))
@_space
@_nodes
@reaching
def restore(super_id: str, nodes: tuple[str, ...], data: Path | None, meta: str | None) -> None:
    """Let all be well again with nodes of the super cluster ID."""
    asyncio.run(_mark(super_id, nodes, None, data, meta))
    click.echo(f"well: {' '.join(nodes)}")


@hollow.command(epilog=example("vcsync hollow press r1 node-3 --disk"))
@_space
@_nodes
@click.option("--disk", is_flag=True, help="Short of disk space instead of memory.")
@reaching
def press(super_id: str, nodes: tuple[str, ...], disk: bool, data: Path | None, meta: str | None) -> None:
    """Let nodes of the super cluster ID run short of memory: they evict the Pods that ask for nothing."""
    asyncio.run(_mark(super_id, nodes, DISK if disk else MEMORY, data, meta))
    click.echo(f"short of {'disk space' if disk else 'memory'}: {' '.join(nodes)}")


async def _mark(
    super_id: str, nodes: Sequence[str], state: str | None, data: Path | None, meta: str | None
) -> None:
    """Write on nodes how they fare; None: well.

    Raises:
        FailedError: there is no such super cluster here, or no such node.
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
                raise FailedError(f"there is no hollow super cluster {super_id} here") from error

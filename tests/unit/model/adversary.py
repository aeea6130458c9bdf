"""What a tenant may write, and what nobody should believe: labels, annotations, statements in the name of syncers."""

from __future__ import annotations

from collections.abc import Callable

from vcsync.api import names
from vcsync.api.refusals import REFUSED, RETURNED, WITHDRAWN, Said, refusal_annotation
from vcsync.kube.errors import KubeError
from vcsync.kube.resources import PODS

from .api_server import Body
from .setting import NS
from .world import World


def relabel(world: World, pod: Body, super_id: str, *, annotate: bool) -> None:
    """Write another super cluster into a Pod's label, and perhaps into the annotation with which the scheduler confirms it."""
    change: Body = {"labels": {names.SUPER_CLUSTER: super_id or None}}
    if annotate:
        change["annotations"] = {names.SUPER_CLUSTER: super_id or None}
    _write(world, pod, change)


def lie(world: World, pod: Body, super_id: str, state: str) -> None:
    """Say in the name of a super cluster's syncer what it has not said."""
    _write(
        world,
        pod,
        {"annotations": refusal_annotation(super_id, Said(state=state, reason="Quota", returns=1))},
    )


def _write(world: World, pod: Body, change: Body) -> None:
    """Patch a Pod. The tenant alone bears what becomes of this Pod, and of its namesakes."""
    metadata = pod["metadata"]
    world.tampered |= {metadata["uid"], metadata["name"]}
    try:
        world.setting.tenant.patch(PODS, metadata["name"], {"metadata": change}, NS, who="user")
    except KubeError:
        return


WAYS: dict[str, Callable[[World, Body, str], None]] = {
    "returned": lambda world, pod, super_id: lie(world, pod, super_id, RETURNED),
    "withdrawn": lambda world, pod, super_id: lie(world, pod, super_id, WITHDRAWN),
    "refused": lambda world, pod, super_id: lie(world, pod, super_id, REFUSED),
    "nothing": lambda world, pod, super_id: lie(world, pod, super_id, ""),
    "label": lambda world, pod, super_id: relabel(world, pod, super_id, annotate=False),
    "label and annotation": lambda world, pod, super_id: relabel(world, pod, super_id, annotate=True),
    "no label": lambda world, pod, _: relabel(world, pod, "", annotate=False),
    "nowhere": lambda world, pod, _: relabel(world, pod, "nowhere", annotate=True),
}
"""What a tenant writes -> how."""

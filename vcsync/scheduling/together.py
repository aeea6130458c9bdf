"""Refuses super clusters whose Pods do not reach the other Pods of a Service that keeps them together. Pure."""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from vcsync.api.names import KEEP_TOGETHER
from vcsync.scheduling.snapshot import Health, SuperView


class Kept(Struct, frozen=True, gc=False):
    """A Service that keeps its Pods together, and the super clusters for new ones. They reach the Pods of each other."""

    service: str
    super_ids: tuple[str, ...]


def home(
    pods: Mapping[str, int], granted: Collection[str], views: Mapping[str, SuperView]
) -> tuple[str, ...]:
    """Return the super clusters for new Pods of a Service, in order; empty if its next Pod may go anywhere.

    These are the ones that reach most of the Pods that the Service has. Super clusters of the same network reach each
    other. Pods that are to move or are lost do not count: the Service may move with them.

    Args:
        pods: super cluster -> number of Pods.
        granted: super clusters with slices of the namespace.
        views: the pool.
    """
    counts: dict[tuple[str, str], int] = {}
    for super_id, count in pods.items():
        view = views.get(super_id)
        stays = view is not None and view.health is not Health.LOST and not view.draining
        if count > 0 and stays and super_id in granted:
            group = _group(super_id, views)
            counts[group] = counts.get(group, 0) + count
    if not counts:
        return ()
    # Among equal groups it is the lowest one, so that every process decides the same.
    best = min(counts, key=lambda group: (-counts[group], group))
    return tuple(sorted(each for each in granted if _group(each, views) == best))


def refusal(kept: Iterable[Kept], super_id: str) -> str | None:
    """Return why the Services of a Pod exclude a super cluster; None if they do not. All of them must accept it."""
    reasons = [
        f"Service {each.service} keeps its Pods together on {', '.join(each.super_ids)} (label {KEEP_TOGETHER})"
        for each in kept
        if each.super_ids and super_id not in each.super_ids
    ]
    return "; ".join(reasons) or None


def _group(super_id: str, views: Mapping[str, SuperView]) -> tuple[str, str]:
    view = views.get(super_id)
    network = "" if view is None else view.network_id
    return (network, "") if network else ("", super_id)

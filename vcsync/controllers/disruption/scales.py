"""The number of Pods that the owners of Pods request. Pure.

Owners of Kubernetes' own kinds are mirrored. The scales of others are asked for before; see `foreign_scales`.

Behaviour: Kubernetes' `pkg/controller/disruption`.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from vcsync.controllers.framework import ownership
from vcsync.controllers.framework.mirror import namespace_of
from vcsync.controllers.framework.plan import View
from vcsync.kube.resources import (
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from vcsync.objects.envelope import Envelope, OwnerReference, decode

OWNERS = (REPLICATION_CONTROLLERS, REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS)


class UnknownScale(Exception):
    """An owner does not exist, or its number of replicas is unknown; the text is Kubernetes' message."""


class NotAsked(Exception):
    """The scale of an owner has not been asked for yet, since it owns Pods only since then."""


Foreign = Mapping[str, int | str | None]
"""UID of an owner of another kind -> its replicas; None: it does not exist; a text: why they are unknown."""


class _Spec(Struct):
    replicas: int = 1


def expected(view: View, pods: Iterable[Envelope], foreign: Foreign | None) -> tuple[int, list[str]]:
    """Return the total number of Pods that their owners request, and the names of unmanaged Pods.

    Args:
        view: the mirrors.
        pods: the Pods.
        foreign: the scales of owners that no mirror has; None: they cannot be asked for.

    Raises:
        UnknownScale: an owner does not exist, or has no scale.
        NotAsked: the scale of an owner is missing in `foreign`.
    """
    scales: dict[str, int] = {}
    unmanaged = []
    for pod in pods:
        controller = ownership.controller_of(pod)
        if controller is None:
            unmanaged.append(pod.name)
            continue
        if controller.uid in scales:
            continue
        if foreign is not None and is_foreign(controller):
            scales[controller.uid] = _asked(foreign, controller, pod)
            continue
        owner = _owner(view, pod, controller)
        if owner is None:
            raise UnknownScale(f'found no controllers for pod "{pod.name}"')
        scales[owner.uid] = decode(owner.spec, _Spec).replicas
    return sum(scales.values()), unmanaged


def is_foreign(controller: OwnerReference) -> bool:
    """Return whether no mirror has the objects of an owner's kind."""
    return _resource(controller) is None


def _asked(foreign: Foreign, controller: OwnerReference, pod: Envelope) -> int:
    if controller.uid not in foreign:
        raise NotAsked(controller.uid)
    replicas = foreign[controller.uid]
    if isinstance(replicas, str):
        raise UnknownScale(replicas)
    if replicas is None:
        raise UnknownScale(f'found no controllers for pod "{pod.name}"')
    return replicas


def _owner(view: View, pod: Envelope, reference: OwnerReference) -> Envelope | None:
    """Return the object that sets the replicas of a Pod's owner: for a ReplicaSet of a Deployment, the Deployment."""
    owner = _find(view, pod, reference)
    above = None if owner is None else ownership.controller_of(owner)
    if above is not None and above.kind == DEPLOYMENTS.kind and reference.kind == REPLICA_SETS.kind:
        return _find(view, pod, above)
    return owner


def _find(view: View, pod: Envelope, reference: OwnerReference) -> Envelope | None:
    resource = _resource(reference)
    if resource is None:
        kind = f"{reference.kind.lower()}s.{reference.apiVersion.rpartition('/')[0]}".rstrip(".")
        raise UnknownScale(f"{kind} does not implement the scale subresource")
    owner = view.of[resource].get(pod.tenant, namespace_of(pod), reference.name)
    return owner if owner is not None and owner.uid == reference.uid else None


def _resource(reference: OwnerReference) -> Resource | None:
    group = reference.apiVersion.rpartition("/")[0]
    return next((each for each in OWNERS if (each.kind, each.group) == (reference.kind, group)), None)

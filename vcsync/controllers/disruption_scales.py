"""How many Pods the owners of some Pods ask for. Pure.

Behaviour: Kubernetes' `pkg/controller/disruption`.
"""

from collections.abc import Iterable

from msgspec import Struct

from vcsync.controllers import owning
from vcsync.controllers.mirror import namespace_of
from vcsync.controllers.plan import Look
from vcsync.kube.envelope import Envelope, OwnerReference, decode
from vcsync.kube.resources import (
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)

OWNERS = (REPLICATION_CONTROLLERS, REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS)


class UnknownScale(Exception):
    """A Pod's owner is not there, or nothing tells how many Pods it asks for; the text says so as Kubernetes does."""


class _Spec(Struct):
    replicas: int = 1


def expected(look: Look, pods: Iterable[Envelope]) -> tuple[int, list[str]]:
    """Return how many Pods their owners ask for together, and the names of Pods that nobody controls.

    Raises:
        UnknownScale: an owner is not there, or has no scale.
    """
    scales: dict[str, int] = {}
    unmanaged = []
    for pod in pods:
        controller = owning.controller_of(pod)
        if controller is None:
            unmanaged.append(pod.name)
            continue
        if controller.uid in scales:
            continue
        owner = _owner(look, pod, controller)
        if owner is None:
            raise UnknownScale(f'found no controllers for pod "{pod.name}"')
        scales[owner.uid] = decode(owner.spec, _Spec).replicas
    return sum(scales.values()), unmanaged


def _owner(look: Look, pod: Envelope, reference: OwnerReference) -> Envelope | None:
    """Return whoever decides on the number of a Pod's owner: of a Deployment's ReplicaSet that is the Deployment."""
    owner = _find(look, pod, reference)
    above = None if owner is None else owning.controller_of(owner)
    if above is not None and above.kind == DEPLOYMENTS.kind and reference.kind == REPLICA_SETS.kind:
        return _find(look, pod, above)
    return owner


def _find(look: Look, pod: Envelope, reference: OwnerReference) -> Envelope | None:
    resource = _resource(reference)
    if resource is None:
        kind = f"{reference.kind.lower()}s.{reference.apiVersion.rpartition('/')[0]}".rstrip(".")
        raise UnknownScale(f"{kind} does not implement the scale subresource")
    owner = look.of[resource].get(pod.tenant, namespace_of(pod), reference.name)
    return owner if owner is not None and owner.uid == reference.uid else None


def _resource(reference: OwnerReference) -> Resource | None:
    group = reference.apiVersion.rpartition("/")[0]
    return next((each for each in OWNERS if (each.kind, each.group) == (reference.kind, group)), None)

"""The claims that a Pod uses. Pure."""

from msgspec import Struct

from vcsync.controllers.framework.ownership import controller_of
from vcsync.objects.envelope import Envelope, decode


class _Source(Struct, gc=False, rename="camel"):
    claim_name: str = ""


class _Volume(Struct, gc=False, rename="camel"):
    name: str = ""
    persistent_volume_claim: _Source | None = None
    ephemeral: dict[str, object] | None = None


class _Spec(Struct, gc=False):
    volumes: tuple[_Volume, ...] | None = None


def claims_used(pod: Envelope) -> frozenset[str]:
    """Return the names of the claims that a Pod names, and of those for its ephemeral volumes."""
    return _named(pod) | _made(pod)


def is_used(pod: Envelope, claim: Envelope) -> bool:
    """Return whether a Pod protects a claim. It protects a claim that was created for it only until it has ended."""
    if claim.name in _named(pod):
        return True
    shut_down = pod.deleting and pod.deletion_grace_seconds == 0
    controller = controller_of(claim)
    mine = controller is not None and controller.uid == pod.uid
    return not shut_down and mine and claim.name in _made(pod)


def _named(pod: Envelope) -> frozenset[str]:
    if b'"persistentVolumeClaim"' not in pod.spec:
        return frozenset()
    sources = (each.persistent_volume_claim for each in decode(pod.spec, _Spec).volumes or ())
    return frozenset(each.claim_name for each in sources if each is not None)


def _made(pod: Envelope) -> frozenset[str]:
    if b'"ephemeral"' not in pod.spec:
        return frozenset()
    volumes = decode(pod.spec, _Spec).volumes or ()
    return frozenset(f"{pod.name}-{each.name}" for each in volumes if each.ephemeral is not None)

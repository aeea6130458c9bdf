"""Which objects of a controller a change concerns. Pure."""

from collections.abc import Callable, Iterable

from vcsync.controllers.mirror import Key, key_of
from vcsync.controllers.plan import Look
from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope


def own(change: Change, _look: Look) -> Iterable[Key]:
    """The object itself: for the resource that a controller's keys are of."""
    return [key_of(standing(change))]


def owner(kind: str, group: str = "") -> Callable[[Change, Look], Iterable[Key]]:
    """Return what finds the controlling owner of this kind, before and after the change."""

    def keys(change: Change, _look: Look) -> Iterable[Key]:
        found: dict[Key, None] = {}
        for envelope in (change.old, change.new):
            for each in () if envelope is None else envelope.owners:
                of = each.apiVersion.rpartition("/")[0]
                if each.controller and each.kind == kind and of == group:
                    found[key_of(standing(change))._replace(name=each.name)] = None
        return found

    return keys


def standing(change: Change) -> Envelope:
    """Return the object as it is, or was last."""
    envelope = change.new or change.old
    assert envelope is not None  # noqa: S101 - a change has one side at least
    return envelope

"""Which objects of a controller a change concerns. Pure."""

from collections.abc import Callable, Iterable

from vcsync.controllers import owning
from vcsync.controllers.mirror import Key, key_of, namespace_of
from vcsync.controllers.plan import Look
from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope
from vcsync.kube.resources import PODS, Resource
from vcsync.kube.selectors import Selector


def gathering(pace: float, most: float) -> Callable[[Change, Look, Key], float]:
    """Return for how long changes are gathered where each look reads all Pods of a namespace, thousands perhaps.

    Args:
        pace: Pods of a namespace for a second.
        most: seconds at most.
    """

    def gathered(_change: Change, look: Look, key: Key) -> float:
        return min(look.of[PODS].count(key.tenant, key.namespace) / pace, most)

    return gathered


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


def claimant(
    resource: Resource, selector: Callable[[Envelope], Selector]
) -> Callable[[Change, Look], Iterable[Key]]:
    """Return what finds who controls an object, or did; of one that nobody controls, whoever may adopt it.

    Args:
        resource: the owners'.
        selector: reads what an owner selects.
    """
    controlling = owner(resource.kind, resource.group)

    def keys(change: Change, look: Look) -> Iterable[Key]:
        controlled = list(controlling(change, look))
        new = change.new
        if controlled or new is None or owning.controller_of(new) is not None:
            return controlled
        candidates = look.of[resource].within(new.tenant, namespace_of(new))
        return [key_of(each) for each in candidates if selector(each).matches(new.labels)]

    return keys


def standing(change: Change) -> Envelope:
    """Return the object as it is, or was last."""
    envelope = change.new or change.old
    assert envelope is not None  # noqa: S101 - a change has one side at least
    return envelope

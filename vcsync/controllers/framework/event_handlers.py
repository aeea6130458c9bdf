"""Maps changes to the keys of controllers. Pure."""

from collections.abc import Callable, Iterable

from vcsync.controllers.framework import ownership
from vcsync.controllers.framework.mirror import Key, key_of, namespace_of
from vcsync.controllers.framework.plan import View
from vcsync.controllers.framework.selector_index import LOOKED_AT_ONCE, LOOKED_BYTES_AT_ONCE, Crowded, few
from vcsync.kube.cache import Change
from vcsync.kube.resources import NAMESPACES, PODS, Resource
from vcsync.objects.envelope import Envelope

NAMESPACES_AT_ONCE = 1000
"""Most namespaces of a tenant that one event handler looks at."""


def gathering(pace: float, most: float) -> Callable[[Change, View, Key], float]:
    """Return a function for `Watch.gather`, for reconciles that read all Pods of a namespace, possibly thousands.

    Args:
        pace: Pods of a namespace per second of delay.
        most: maximum in seconds.
    """

    def gathered(_change: Change, view: View, key: Key) -> float:
        return min(view.of[PODS].count(key.tenant, key.namespace) / pace, most)

    return gathered


def own(change: Change, _look: View) -> Iterable[Key]:
    """Return the key of the changed object itself, for the resource of the controller's keys."""
    return [key_of(standing(change))]


def owner(kind: str, group: str = "") -> Callable[[Change, View], Iterable[Key]]:
    """Return a function that finds the controlling owner of this kind, before and after the change."""

    def keys(change: Change, _look: View) -> Iterable[Key]:
        found: dict[Key, None] = {}
        for envelope in (change.old, change.new):
            for each in () if envelope is None else envelope.owners:
                of = each.apiVersion.rpartition("/")[0]
                if each.controller and each.kind == kind and of == group:
                    found[key_of(standing(change))._replace(name=each.name)] = None
        return found

    return keys


def claimant(resource: Resource) -> Callable[[Change, View], Iterable[Key]]:
    """Return a function that finds the controllers of an object, past and current, or its possible adopters.

    Args:
        resource: resource of the owners, with a selector.
    """
    controlling = owner(resource.kind, resource.group)

    def keys(change: Change, view: View) -> Iterable[Key]:
        controlled = list(controlling(change, view))
        new = change.new
        if controlled or new is None or ownership.controller_of(new) is not None:
            return controlled
        return [key_of(each) for each in selecting(resource, Change(None, new), view)]

    return keys


def selecting(resource: Resource, change: Change, view: View) -> list[Envelope]:
    """Return the objects whose selector matches the labels of a changed object, past or current.

    Raises:
        Crowded: They are too many or too large, or too many selectors would have to be looked at.
    """
    at, labels = standing(change), [each.labels for each in (change.new, change.old) if each is not None]
    if len(labels) > 1 and labels[0] == labels[1]:
        labels.pop()
    return few(view.of[resource].selecting(at.tenant, namespace_of(at), *labels))


def looked_at(found: Iterable[Envelope]) -> list[Envelope]:
    """Return objects that an event handler may look at.

    Raises:
        Crowded: They are too many, or too large.
    """
    return few(found, LOOKED_AT_ONCE, LOOKED_BYTES_AT_ONCE)


def dependents(view: View, resource: Resource, owner: Envelope) -> list[Envelope]:
    """Return the objects that an owner controls, to look at them.

    Raises:
        Crowded: They are too many, or too large.
    """
    objects = view.of[resource]
    if objects.count_owned(owner.uid) > LOOKED_AT_ONCE:
        raise Crowded
    return looked_at(ownership.controlled(objects, owner))


def everyone(view: View, resource: Resource, tenant: str, namespace: str = "") -> list[Envelope]:
    """Return the objects of a namespace, or of a resource that is not namespaced, to look at them.

    Raises:
        Crowded: They are too many, or too large.
    """
    objects = view.of[resource]
    if objects.count(tenant, namespace) > LOOKED_AT_ONCE:
        raise Crowded
    return looked_at(objects.within(tenant, namespace))


def everywhere(view: View, resource: Resource, tenant: str) -> list[Envelope]:
    """Return the objects of all namespaces of a tenant, to look at them. The controller reads namespaces, too.

    Raises:
        Crowded: They, or the namespaces, are too many, or too large.
    """
    objects, namespaces = view.of[resource], view.of[NAMESPACES]
    if objects.total(tenant) > LOOKED_AT_ONCE or namespaces.count(tenant, "") > NAMESPACES_AT_ONCE:
        raise Crowded
    return looked_at(
        each for around in namespaces.within(tenant) for each in objects.within(tenant, around.name)
    )


def standing(change: Change) -> Envelope:
    """Return the object in its current or last state."""
    envelope = change.new or change.old
    assert envelope is not None  # noqa: S101 - a change has one side at least
    return envelope

"""Keeps the last transitions of each object with controller, time and the version they are based on. Pure.

Memory is limited, and shared fairly between tenants.
"""

from collections import OrderedDict, deque
from typing import NamedTuple

from vcsync.fairqueue.reconciles import current
from vcsync.fairqueue.sizes import GroupSizes

MOST_TRANSITIONS = 8
"""Transitions kept for each object. The oldest is dropped first."""
MOST_OBJECTS = 10_000
"""Objects whose transitions are kept, over all tenants."""


class ObjectName(NamedTuple):
    """A tenant's object: plural name of its resource, namespace (empty for cluster-scoped objects) and name."""

    resource: str
    namespace: str
    name: str


class Transition(NamedTuple):
    """One decision about an object that has been carried out.

    Attributes:
        time: seconds since 1970.
        controller: name of the controller that decided.
        reconcile: id of the reconcile, as in its log lines; empty outside of a reconcile.
        what: the action, in a few words.
        version: the object's resourceVersion the decision was based on; empty if the object did not exist or its
            version is not known.
    """

    time: float
    controller: str
    reconcile: str
    what: str
    version: str


class Timeline:
    """Keeps the last transitions of each object.

    When the timeline is full, it drops an object of the tenant that has the most objects: the one whose last transition
    is oldest. A tenant that floods the timeline loses only its own transitions. Dropping takes constant time, however
    many tenants there are.

    Args:
        controller: name of the controller that is recorded for transitions outside of a reconcile.
        objects: the largest number of objects whose transitions are kept.
    """

    def __init__(self, controller: str, objects: int = MOST_OBJECTS) -> None:
        self._controller = controller
        self._most = objects
        self._count = 0
        self._tenants: dict[str, OrderedDict[ObjectName, deque[Transition]]] = {}
        self._sizes = GroupSizes()

    def __len__(self) -> int:
        return self._count

    def add(self, tenant: str, name: ObjectName, what: str, *, now: float, version: str = "") -> None:
        """Record an action of the current reconcile on an object.

        A transition that repeats the last one (same controller, same `what`) replaces it.

        Args:
            tenant: cluster key of the tenant that owns the object.
            name: the object.
            what: the action, in a few words. Contents of the object must not appear: they may be secret.
            now: seconds since 1970.
            version: the resourceVersion the decision was based on.
        """
        reconcile = current.get()
        by, number = (reconcile.controller, reconcile.id) if reconcile else (self._controller, "")
        objects = self._tenants.setdefault(tenant, OrderedDict())
        transitions = objects.get(name)
        if transitions is None:
            transitions = objects[name] = deque(maxlen=MOST_TRANSITIONS)
            self._count += 1
            self._sizes.change(tenant, len(objects) - 1, len(objects))
        elif transitions[-1].what == what and transitions[-1].controller == by:
            transitions.pop()
        transitions.append(Transition(now, by, number, what, version))
        objects.move_to_end(name)
        if self._count > self._most:
            self._drop_one()

    def of(self, tenant: str, name: ObjectName) -> tuple[Transition, ...]:
        """Return an object's last transitions, oldest first."""
        objects = self._tenants.get(tenant)
        return () if objects is None else tuple(objects.get(name, ()))

    def forget(self, tenant: str) -> None:
        """Forget all objects of a tenant."""
        size = len(self._tenants.pop(tenant, ()))
        self._count -= size
        self._sizes.change(tenant, size, 0)

    def _drop_one(self) -> None:
        tenant = self._sizes.largest()
        objects = self._tenants[tenant]
        objects.popitem(last=False)
        self._count -= 1
        self._sizes.change(tenant, len(objects) + 1, len(objects))
        if not objects:
            del self._tenants[tenant]

"""Declarations of controllers, the input of their decisions, and their actions. Pure.

A controller is a declaration: its watches, the keys that a change concerns, and a function that reads the mirrors and
returns actions. The engine executes the actions.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from vcsync.controllers.framework.mirror import Key, namespace_of
from vcsync.kube.cache import Change
from vcsync.kube.client import Client, PatchKind, Propagation
from vcsync.kube.errors import ApiError, KubeError
from vcsync.kube.events import EventType, ObjectRef
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope, OwnerReference


class Objects(Protocol):
    """The read-only part of a mirror; see `mirror.Mirror`."""

    def get(self, tenant: str, namespace: str, name: str) -> Envelope | None:
        """Return an object; None: it does not exist."""
        ...

    def within(self, tenant: str, namespace: str = "") -> Iterable[Envelope]:
        """Iterate over the objects of one namespace."""
        ...

    def count(self, tenant: str, namespace: str) -> int:
        """Return the number of objects in a namespace."""
        ...

    def total(self, tenant: str) -> int:
        """Return the number of objects in all namespaces of a tenant."""
        ...

    def owned(self, uid: str) -> list[Envelope]:
        """Return the objects that name this owner."""
        ...

    def count_owned(self, uid: str) -> int:
        """Return the number of objects that name this owner."""
        ...

    def orphans(self, tenant: str, namespace: str) -> list[Envelope]:
        """Return the objects of a namespace that name no owner."""
        ...

    def selecting(self, tenant: str, namespace: str, *labels: Mapping[str, str]) -> list[Envelope]:
        """Return the objects of a namespace whose selector matches any of some labels.

        Raises:
            Crowded: Too many selectors would have to be looked at.
        """
        ...


class View(Struct, frozen=True):
    """The complete input of a plan. `of[resource]` contains that resource's objects; `now` is UTC.

    `suffix()` returns five new characters for a name at each call.
    """

    of: Mapping[Resource, Objects]
    now: datetime
    suffix: Callable[[], str]


class Create(Struct, frozen=True):
    """Create an object. `body` contains its name, so that a retry after a lost answer cannot create a second one."""

    resource: Resource
    namespace: str
    body: dict[str, Any]


class Patch(Struct, frozen=True):
    """Patch an object; `metadata.uid` and `metadata.resourceVersion` of the patch are preconditions."""

    resource: Resource
    namespace: str
    name: str
    patch: Mapping[str, Any] | Sequence[Any]
    kind: PatchKind = "merge"
    subresource: str = ""


def status_patch(
    resource: Resource, of: Envelope, status: Mapping[str, Any], *, unchanged: bool = False
) -> Patch:
    """Return the patch of (parts of) an object's status.

    Args:
        resource: resource of the object.
        of: the object; another object of its name is not changed.
        status: the fields to change.
        unchanged: whether the patch fails if the object was written meanwhile.
    """
    metadata = {"uid": of.uid, **({"resourceVersion": of.resource_version} if unchanged else {})}
    return Patch(
        resource, namespace_of(of), of.name, {"metadata": metadata, "status": status}, "merge", "status"
    )


class Delete(Struct, frozen=True):
    """Delete exactly this object, if it still exists."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    grace_seconds: int | None = None
    propagation: Propagation | None = None


class Post(Struct, frozen=True):
    """Post to a subresource, such as an eviction."""

    resource: Resource
    namespace: str
    name: str
    subresource: str
    body: dict[str, Any]


class Absent(Struct, frozen=True):
    """Continue only if exactly this object is gone. The API server is asked, because a mirror may not have seen it yet."""

    resource: Resource
    namespace: str
    name: str
    uid: str


class Emit(Struct, frozen=True):
    """Report an Event."""

    about: ObjectRef
    type: EventType
    reason: str
    message: str


Action = Create | Patch | Delete | Post | Absent | Emit


class Failure(Struct, frozen=True):
    """A failed action. Earlier actions of its step were done, later ones were not."""

    action: Action
    error: KubeError

    @property
    def said(self) -> str:
        """Return the message for users: the server's own message without the request, if the server answered."""
        return (self.error.status.message if isinstance(self.error, ApiError) else "") or str(self.error)


class Outcome(Struct, frozen=True):
    """The result of the steps of a plan. `done`: the actions that succeeded."""

    done: Sequence[Action]
    failures: Sequence[Failure] = ()


MOST_CREATIONS = 1500
"""Most objects that one reconcile of any controller creates. Most controllers have lower limits of their own."""


def first_creations(steps: Sequence[Sequence[Action]]) -> tuple[Sequence[Sequence[Action]], bool]:
    """Return steps up to the last creation that one reconcile may make, and whether these are all."""
    room, found = MOST_CREATIONS, list[Sequence[Action]]()
    for step in steps:
        creations = sum(isinstance(each, Create) for each in step)
        if creations > room:
            places = [place for place, each in enumerate(step) if isinstance(each, Create)]
            return [*found, step[: places[room]]], False
        room -= creations
        found.append(step)
    return found, True


Finish = Callable[[View, Outcome], Iterable[Action]]


class Plan(Struct, frozen=True):
    """The actions for one key.

    Attributes:
        steps: steps in order; the actions of a step run concurrently, a few at first. A failure ends the plan.
        finish: returns the last writes, such as status, also after a failure; the mirrors then contain the results.
        again: seconds until the next reconcile; None: after the next change.
    """

    steps: Sequence[Sequence[Action]] = ()
    finish: Finish | None = None
    again: float | None = None


NOTHING = Plan()


class Watch(Struct, frozen=True):
    """One watch of a controller.

    Attributes:
        resource: the watched resource.
        keys: returns the controller's objects that a change may concern, or raises `Crowded`: these may be all of the
            changed object's namespace, or of the tenant if it or they have none, and are looked at later, in turns.
        gather: seconds for which changes of the same object are collected, if a reconcile is expensive or
            a change takes effect only later.
        fields: field selector, for controllers that need few of many objects. The mirror may contain more objects if
            another controller needs them.
    """

    resource: Resource
    keys: Callable[[Change, View], Iterable[Key]]
    gather: Callable[[Change, View, Key], float] | None = None
    fields: str = ""


class Preparation(Struct, frozen=True):
    """Reads what no mirror has before each plan of a controller, and remembers it for the plan.

    Attributes:
        wanted: returns what is to be read for a key, like a plan.
        read: reads that from the key's tenant.
    """

    wanted: Callable[[View, Key], Sequence[OwnerReference]]
    read: Callable[[Client, Key, Sequence[OwnerReference]], Awaitable[None]]


class Controller(Struct, frozen=True):
    """One controller.

    Attributes:
        name: its name in kube-controller-manager, and the source of its Events unless `reports` is set.
        watches: its watches; its keys are objects of the first one's resource.
        reads: further resources that it reads but that do not trigger it.
        plan: returns the actions for a key; must not change its input.
        preparation: reads what no mirror has before each plan.
    """

    name: str
    watches: tuple[Watch, ...]
    plan: Callable[[View, Key], Plan]
    reads: tuple[Resource, ...] = ()
    reports: str = ""
    preparation: Preparation | None = None

    @property
    def reporter(self) -> str:
        """Return the source of its Events."""
        return self.reports or self.name

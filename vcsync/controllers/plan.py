"""What a controller decides and what it is given to decide by. Pure.

A controller is a declaration: what it watches, which keys a change means, and a function that looks at the mirrors and
says what is to be done. The engine does it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from vcsync.controllers.mirror import Key, namespace_of
from vcsync.kube.cache import Change
from vcsync.kube.client import PatchKind, Propagation
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import ApiError, KubeError
from vcsync.kube.events import EventType, ObjectRef
from vcsync.kube.resources import Resource


class Objects(Protocol):
    """What of a mirror may be read; see `mirror.Mirror`."""

    def get(self, tenant: str, namespace: str, name: str) -> Envelope | None:
        """Return an object; None: there is none."""
        ...

    def within(self, tenant: str, namespace: str = "") -> Iterable[Envelope]:
        """Iterate over the objects of one namespace."""
        ...

    def count(self, tenant: str, namespace: str) -> int:
        """Return how many objects a namespace has."""
        ...

    def owned(self, uid: str) -> list[Envelope]:
        """Return the objects that name this owner."""
        ...

    def orphans(self, tenant: str, namespace: str) -> list[Envelope]:
        """Return the objects of a namespace that name no owner."""
        ...


class Look(Struct, frozen=True):
    """All that a decision may depend on. `of[resource]` are that resource's objects; `now` is UTC.

    `suffix()` gives five characters for a name, another at each call.
    """

    of: Mapping[Resource, Objects]
    now: datetime
    suffix: Callable[[], str]


class Create(Struct, frozen=True):
    """Create an object. `body` names it: so that a lost answer cannot double it."""

    resource: Resource
    namespace: str
    body: dict[str, Any]


class Patch(Struct, frozen=True):
    """Patch an object; `metadata.uid` and `metadata.resourceVersion` in it are preconditions."""

    resource: Resource
    namespace: str
    name: str
    patch: Mapping[str, Any] | Sequence[Any]
    kind: PatchKind = "merge"
    subresource: str = ""


def status_patch(
    resource: Resource, of: Envelope, status: Mapping[str, Any], *, unchanged: bool = False
) -> Patch:
    """Return what writes (parts of) an object's status.

    Args:
        resource: the object's.
        of: the object; another of its name is left alone.
        status: what is to change.
        unchanged: whether it is to hold only if nobody wrote the object meanwhile.
    """
    metadata = {"uid": of.uid, **({"resourceVersion": of.resource_version} if unchanged else {})}
    return Patch(
        resource, namespace_of(of), of.name, {"metadata": metadata, "status": status}, "merge", "status"
    )


class Delete(Struct, frozen=True):
    """Delete this very object, if it still stands."""

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
    """Go on only if this very object is not there: the API server is asked, as a mirror may not have seen it yet."""

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
    """An action that failed; what it came after in its step was done, what came behind was not."""

    action: Action
    error: KubeError

    @property
    def said(self) -> str:
        """What owners of objects are told: the server's own words if it answered, not how it was asked."""
        return (self.error.status.message if isinstance(self.error, ApiError) else "") or str(self.error)


class Outcome(Struct, frozen=True):
    """What became of the steps of a plan. `done` are the actions that succeeded."""

    done: Sequence[Action]
    failures: Sequence[Failure] = ()


Finish = Callable[[Look, Outcome], Iterable[Action]]


class Plan(Struct, frozen=True):
    """What is to be done about a key.

    Attributes:
        steps: one after another; the actions of a step side by side, a few at first. A failure ends it.
        finish: what to write in the end in any case, such as status; the mirrors know by then what was done.
        again: seconds after which to look again; None: when something changes.
    """

    steps: Sequence[Sequence[Action]] = ()
    finish: Finish | None = None
    again: float | None = None


NOTHING = Plan()


class Watch(Struct, frozen=True):
    """What a controller listens to.

    Attributes:
        resource: whose changes.
        keys: which of the controller's objects a change may concern.
        gather: seconds until a change is looked at, with further ones of the same object: where looking is dear, or
            where the change means something later only.
        fields: a field selector, for those who need few of many objects. Others may have more of them mirrored.
    """

    resource: Resource
    keys: Callable[[Change, Look], Iterable[Key]]
    gather: Callable[[Change, Look, Key], float] | None = None
    fields: str = ""


class Controller(Struct, frozen=True):
    """One controller.

    Attributes:
        name: as kube-controller-manager calls it; reports Events under it, unless `reports` says otherwise.
        watches: the first one's resource is what its keys are of.
        reads: further resources that it looks at without being woken by them.
        plan: decides about a key; must not change what it is given.
    """

    name: str
    watches: tuple[Watch, ...]
    plan: Callable[[Look, Key], Plan]
    reads: tuple[Resource, ...] = ()
    reports: str = ""

    @property
    def reporter(self) -> str:
        """Whom its Events are from."""
        return self.reports or self.name

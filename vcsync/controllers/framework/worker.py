"""Controllers whose decisions need more than mirrors: they call the API server while they work.

Nearly all controllers are pure plans (`plan.Controller`). Objects of any kind, including custom ones of a single
tenant, cannot be mirrored in advance: the namespace controller must discover and list them while it works.
"""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from vcsync.controllers.framework.mirror import Key
from vcsync.controllers.framework.plan import Emit, View, Watch
from vcsync.fairqueue import ObjectName
from vcsync.kube.client import Client
from vcsync.kube.resources import Resource


class ReconcileContext(Struct, frozen=True):
    """The context of one reconcile.

    Attributes:
        view: the mirrors at the start.
        client: client of the key's tenant.
        emit: reports an Event.
        note: records a write of the worker in the timeline: the object, the action, and the resourceVersion that the
            decision was based on.
    """

    view: View
    client: Client
    emit: Callable[[Emit], None] = lambda _event: None
    note: Callable[[ObjectName, str, str], None] = lambda _name, _what, _version: None


class Worker(Struct, frozen=True):
    """One controller that does its own I/O, in the same queue as the others.

    Attributes:
        name: its name in kube-controller-manager.
        watches: its watches; its keys are objects of the first one's resource.
        work: reconciles a key; returns the seconds until the next reconcile, or None to wait for the next change.
            A KubeError that it raises is retried with backoff.
        reads: further resources that it reads but that do not trigger it.
        reports: source of its Events, if it differs from the name.
    """

    name: str
    watches: tuple[Watch, ...]
    work: Callable[[ReconcileContext, Key], Awaitable[float | None]]
    reads: tuple[Resource, ...] = ()
    reports: str = ""

    @property
    def reporter(self) -> str:
        """Return the source of its Events."""
        return self.reports or self.name

"""A controller whose decisions need more than mirrors hold: it asks the API server while it works.

Nearly all controllers are pure plans (`plan.Controller`). What may hold objects of any kind, custom ones of a single
tenant among them, cannot be mirrored beforehand: who empties namespaces must discover and list at the moment it looks.
"""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from vcsync.controllers.mirror import Key
from vcsync.controllers.plan import Emit, Look, Watch
from vcsync.kube.client import Client
from vcsync.kube.resources import Resource


class Desk(Struct, frozen=True):
    """What one piece of work is done with.

    Attributes:
        look: the mirrors, as they were when it began.
        client: of the key's tenant.
        emit: reports an Event.
    """

    look: Look
    client: Client
    emit: Callable[[Emit], None] = lambda _event: None


class Worker(Struct, frozen=True):
    """One controller that does its own I/O, below the same queue as the others.

    Attributes:
        name: as kube-controller-manager calls it.
        watches: the first one's resource is what its keys are of.
        work: brings a key nearer to what it should be; returns seconds after which to look again, None: when something
            changes. What it raises (KubeError) is tried again with backoff.
        reads: further resources that it looks at without being woken by them.
        close: called when nobody works any more.
        reports: whom its Events are from, if not its name says it.
    """

    name: str
    watches: tuple[Watch, ...]
    work: Callable[[Desk, Key], Awaitable[float | None]]
    reads: tuple[Resource, ...] = ()
    close: Callable[[], Awaitable[None]] | None = None
    reports: str = ""

    @property
    def reporter(self) -> str:
        """Whom its Events are from."""
        return self.reports or self.name

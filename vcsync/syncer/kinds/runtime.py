"""Maps a tenant's RuntimeClasses to the super cluster's with the same handler."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from vcsync.kube.resources import RUNTIME_CLASSES
from vcsync.objects.envelope import Envelope, decode
from vcsync.syncer.kinds.plan import Dependency


class _RuntimeClass(Struct, gc=False):
    handler: str = ""


def runtime_classes(theirs: Iterable[Envelope], here: Iterable[Envelope]) -> dict[str, str]:
    """Return the tenant's RuntimeClass name -> the super cluster's; "" if it has none with the handler.

    Handlers are configured on nodes (KEP-585), so only the super cluster's classes show which handlers exist. Names, overhead
    and node selection differ: the operator chooses those of the super cluster, and the tenant its own.

    Args:
        theirs: the tenant's RuntimeClasses.
        here: the super cluster's RuntimeClasses. Among several with the same handler, the class with the tenant's name is
            used, else the first by name.
    """
    by_handler: dict[str, list[str]] = {}
    for runtime_class in here:
        by_handler.setdefault(_handler(runtime_class), []).append(runtime_class.name)
    chosen = {}
    for runtime_class in theirs:
        offered = by_handler.get(_handler(runtime_class), [])
        chosen[runtime_class.name] = (
            runtime_class.name if runtime_class.name in offered else min(offered, default="")
        )
    return chosen


def runtime_class_dependency(name: str) -> Dependency:
    """Return the dependency of a Pod that names a RuntimeClass.

    The dependency represents the pair: Pods that wait for it are woken when the class gets another counterpart in the super
    cluster, whichever side has changed.
    """
    return Dependency("tenant", RUNTIME_CLASSES, "", name)


def _handler(runtime_class: Envelope) -> str:
    return decode(runtime_class.rest, _RuntimeClass).handler if runtime_class.rest else ""

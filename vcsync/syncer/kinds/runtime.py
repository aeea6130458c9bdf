"""Maps a tenant's RuntimeClasses to those that the operator of the super cluster publishes."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from vcsync.api import names
from vcsync.kube.resources import RUNTIME_CLASSES
from vcsync.objects.envelope import Envelope, decode
from vcsync.published.kind import is_public
from vcsync.syncer.kinds.plan import Dependency


class _RuntimeClass(Struct, gc=False):
    handler: str = ""


def runtime_classes(theirs: Iterable[Envelope], here: Iterable[Envelope]) -> dict[str, str]:
    """Return the tenant's RuntimeClass name -> the super cluster's; "" if the operator publishes none for it.

    A class that vcsync has published to the tenant stands for the class of the same name. Another is the tenant's own, and stands
    for one with its handler: handlers are configured on nodes (KEP-585), so only the super cluster's classes show which exist.
    Names, overhead and node selection differ: the operator chooses those of the super cluster, and the tenant its own.

    Args:
        theirs: the tenant's RuntimeClasses.
        here: RuntimeClasses of the super cluster. Among several published ones with the same handler, the class with the tenant's
            name is used, else the first by name.
    """
    by_handler: dict[str, list[str]] = {}
    published = {
        runtime_class.name: _handler(runtime_class) for runtime_class in here if is_public(runtime_class)
    }
    for name, handler in published.items():
        by_handler.setdefault(handler, []).append(name)
    chosen = {}
    for runtime_class in theirs:
        name, handler = runtime_class.name, _handler(runtime_class)
        offered = list(published) if handler == names.RUNTIME_HANDLER else by_handler.get(handler, [])
        other = "" if handler == names.RUNTIME_HANDLER else min(offered, default="")
        chosen[name] = name if name in offered else other
    return chosen


def runtime_class_dependency(name: str) -> Dependency:
    """Return the dependency of a Pod that names a RuntimeClass.

    The dependency represents the pair: Pods that wait for it are woken when the class gets another counterpart in the super
    cluster, whichever side has changed.
    """
    return Dependency("tenant", RUNTIME_CLASSES, "", name)


def _handler(runtime_class: Envelope) -> str:
    return decode(runtime_class.rest, _RuntimeClass).handler if runtime_class.rest else ""

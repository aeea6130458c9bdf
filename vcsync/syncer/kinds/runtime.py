"""Which RuntimeClass of a super cluster stands for a tenant's: one with the same handler."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.resources import RUNTIME_CLASSES
from vcsync.syncer.kinds.plan import Dependency


class _RuntimeClass(Struct, gc=False):
    handler: str = ""


def runtime_classes(theirs: Iterable[Envelope], here: Iterable[Envelope]) -> dict[str, str]:
    """The tenant's RuntimeClass name -> the super cluster's, "" where that has none with its handler.

    A handler is set up on nodes (KEP-585), so the super cluster's classes say which there are; their names, overhead and
    node selection are the operator's, those of the tenant's classes the tenant's.

    Args:
        theirs: the tenant's RuntimeClasses.
        here: the super cluster's. Of several with one handler the one named as the tenant's counts, else the first by name.
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
    """What a Pod that names a RuntimeClass waits for.

    It stands for the pair: whoever waits is woken as soon as the class has another counterpart here than before,
    whichever side has changed.
    """
    return Dependency("tenant", RUNTIME_CLASSES, "", name)


def _handler(runtime_class: Envelope) -> str:
    return decode(runtime_class.rest, _RuntimeClass).handler if runtime_class.rest else ""

"""PriorityClasses that operators publish. What Pods get is decided by the operator's class of that name. Pure."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from vcsync.api import names
from vcsync.api.specs import PublishedPriorityClass
from vcsync.kube.resources import PRIORITY_CLASSES
from vcsync.objects.envelope import Envelope, decode
from vcsync.published.kind import Body, PublishedKind, is_public

SYSTEM: Final = "system-"
"""Prefix of the names of Kubernetes' own classes. Their Pods preempt all others, and are never preempted."""
_NEVER: Final = "Never"


class _PriorityClass(Struct, gc=False, rename="camel"):
    value: int = 0
    preemption_policy: str = "PreemptLowerPriority"


def describe(found: Envelope) -> PublishedPriorityClass | None:
    """Return what tenants may know of a PriorityClass; None for Kubernetes' own, whatever labels they have.

    `globalDefault` is not told: where a Pod runs, its own class or the default class there applies already.
    """
    if found.name.startswith(SYSTEM):
        return None
    read = decode(found.rest, _PriorityClass) if found.rest else _PriorityClass()
    return PublishedPriorityClass(
        name=found.name,
        value=read.value,
        preemption_policy="Never" if read.preemption_policy == _NEVER else "PreemptLowerPriority",
    )


def content(by_super: Mapping[str, PublishedPriorityClass]) -> Body:
    """Return the tenant's class. If super clusters differ, the cautious value counts."""
    classes = by_super.values()
    preempts = all(each.preemption_policy != _NEVER for each in classes)
    return {
        "value": min(each.value for each in classes),
        "preemptionPolicy": "PreemptLowerPriority" if preempts else _NEVER,
    }


def may_use(found: Envelope | None) -> bool:
    """Return whether Pods of tenants may have a PriorityClass of a super cluster."""
    return found is not None and is_public(found) and not found.name.startswith(SYSTEM)


KIND: Final = PublishedKind(
    resource=PRIORITY_CLASSES,
    field="priority_classes",
    describe=describe,
    content=content,
    fixed=("value", "preemptionPolicy"),
    # No field of a PriorityClass can hold a name of ours.
    owned=lambda found: names.PUBLISHED_BY in found.annotations,
    hidden="Pods that name it get the priority of the operator's class where they run",
)

"""RuntimeClasses that operators publish. Tenants get neither the handler nor the nodes that have it. Pure."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from vcsync.api import names
from vcsync.api.specs import PublishedRuntimeClass
from vcsync.kube.resources import RUNTIME_CLASSES
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.quantity import InvalidQuantity, canonical, milli
from vcsync.published.kind import Body, PublishedKind, content_of


class _Overhead(Struct, gc=False, rename="camel"):
    pod_fixed: dict[str, str | int | float] | None = None


class _RuntimeClass(Struct, gc=False, rename="camel"):
    overhead: _Overhead | None = None


def describe(found: Envelope) -> PublishedRuntimeClass:
    """Return what tenants may know of a RuntimeClass: its overhead counts against their quotas and slices."""
    read = decode(found.rest, _RuntimeClass) if found.rest else _RuntimeClass()
    fixed = (read.overhead.pod_fixed if read.overhead is not None else None) or {}
    overhead = {}
    for name, amount in sorted(fixed.items()):
        with suppress(InvalidQuantity):  # API servers accept none
            overhead[name] = canonical(milli(str(amount)), like=str(amount))
    return PublishedRuntimeClass(name=found.name, overhead=overhead)


def content(by_super: Mapping[str, PublishedRuntimeClass]) -> Body:
    """Return the tenant's class. If super clusters differ, the largest overhead counts.

    Its handler is vcsync. Handlers are configured on nodes, and the name alone decides which class a Pod gets there.
    """
    overhead: dict[str, str] = {}
    for each in by_super.values():
        for name, amount in each.overhead.items():
            if name not in overhead or milli(amount) > milli(overhead[name]):
                overhead[name] = amount
    body: Body = {"handler": names.RUNTIME_HANDLER}
    return {**body, "overhead": {"podFixed": dict(sorted(overhead.items()))}} if overhead else body


def handler(found: Envelope) -> Any:
    """Return the handler of a RuntimeClass."""
    return content_of(found).get("handler", "")


KIND: Final = PublishedKind(
    resource=RUNTIME_CLASSES,
    field="runtime_classes",
    describe=describe,
    content=content,
    fixed=("handler", "overhead", "scheduling"),
    owned=lambda found: bool(handler(found) == names.RUNTIME_HANDLER),
    hidden="yours counts for Pods that name it, and they get the operator's class with your handler, if there is one",
)

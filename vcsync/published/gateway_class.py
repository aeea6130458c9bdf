"""GatewayClasses that operators publish. Their parameters are the operator's and are not read. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from vcsync.api import names
from vcsync.api.specs import PublishedGatewayClass
from vcsync.kube.resources import GATEWAY_CLASSES
from vcsync.objects.envelope import Envelope, decode
from vcsync.published.kind import Body, PublishedKind

_LONGEST: Final = 64
"""Most characters of a description, as in the schema of the Gateway API."""


class _GatewayClass(Struct, gc=False, rename="camel"):
    controller_name: str = ""
    description: str | None = None


def describe(found: Envelope) -> PublishedGatewayClass:
    """Return what tenants may know of a GatewayClass."""
    read = decode(found.spec, _GatewayClass)
    return PublishedGatewayClass(
        name=found.name, controller_name=read.controller_name, description=(read.description or "")[:_LONGEST]
    )


def content(by_super: Mapping[str, Any]) -> Body:
    """Return the tenant's class: that of the first super cluster by its id.

    Gateways stay in the tenant, so the class names the operator's controller: one that serves the tenant's Gateways finds
    them by this name.
    """
    first = by_super[min(by_super)]
    spec = {"controllerName": first.controller_name}
    return {"spec": spec | ({"description": first.description} if first.description else {})}


def _is_owned(found: Envelope) -> bool:
    """Return whether vcsync has made a class: no field of a GatewayClass can hold a name of ours, as with DeviceClasses."""
    return names.PUBLISHED_BY in found.annotations


KIND: Final = PublishedKind(
    resource=GATEWAY_CLASSES,
    field="gateway_classes",
    describe=describe,
    content=content,
    # The schema of the Gateway API forbids to change it. A class that Gateways use may have a finalizer of their controller,
    # so nothing else has it made again.
    fixed=("spec.controllerName",),
    changing=("spec",),
    owned=_is_owned,
    hidden="your Gateways that name it belong to the controller of your class",
)

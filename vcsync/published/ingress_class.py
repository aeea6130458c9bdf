"""IngressClasses that operators publish. Tenants get neither the controller nor its parameters. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from vcsync.api import names
from vcsync.api.specs import PublishedIngressClass
from vcsync.kube.resources import INGRESS_CLASSES
from vcsync.objects.envelope import Envelope, untyped
from vcsync.published.kind import Body, PublishedKind

DEFAULT: Final = "ingressclass.kubernetes.io/is-default-class"


def describe(found: Envelope) -> PublishedIngressClass:
    """Return what tenants may know of an IngressClass."""
    return PublishedIngressClass(name=found.name, default=found.annotations.get(DEFAULT) == names.TRUE)


def content(by_super: Mapping[str, Any]) -> Body:
    """Return the tenant's class.

    Its controller is vcsync. An ingress controller that a tenant runs takes the classes with its own controller name, so
    with the operator's it would serve Ingresses of published classes as well, and write their status.
    """
    del by_super
    return {"spec": {"controller": names.INGRESS_CONTROLLER}}


def _is_owned(found: Envelope) -> bool:
    return bool(untyped(found.spec).get("controller") == names.INGRESS_CONTROLLER)


KIND: Final = PublishedKind(
    resource=INGRESS_CLASSES,
    field="ingress_classes",
    describe=describe,
    content=content,
    fixed=("spec",),
    owned=_is_owned,
    default=DEFAULT,
    # An Ingress without a class then gets the default of each super cluster there, instead of one that some of them lack.
    one_default=True,
    hidden="Ingresses that name it get the operator's class where your Pods run",
)

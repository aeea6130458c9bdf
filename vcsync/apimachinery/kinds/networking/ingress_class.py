"""The kind IngressClass: defaults, validation and columns. Pure.

Source: Kubernetes' `pkg/apis/networking/validation`,
`pkg/registry/networking/ingressclass` and `pkg/printers/internalversion`.
"""

from datetime import datetime

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.networking.references import object_reference
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, immutable, one_of, part, say, text
from vcsync.apimachinery.wire import cells


def _class_default(found: Object) -> None:
    parameters = part(found, "spec").get("parameters")
    if isinstance(parameters, dict):
        fill(parameters, {"scope": "Cluster"})


def _class(found: Object) -> Findings:
    spec = part(found, "spec")
    controller = text(spec, "controller")
    if names.size(controller) > 250:
        yield errors.too_long("spec.controller", 250)
    yield from _prefixed_path("spec.controller", controller)
    parameters = spec.get("parameters")
    if parameters is None:
        return
    path = "spec.parameters"
    yield from object_reference(path, parameters)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    yield from one_of(f"{path}.scope", scope or "", ("Cluster", "Namespace"))
    if scope == "Namespace":
        if namespace is None:
            yield errors.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
        else:
            yield from say(f"{path}.namespace", namespace, names.dns_label(namespace))
    if scope == "Cluster" and namespace is not None:
        yield errors.not_allowed(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")


def _prefixed_path(path: str, value: str) -> Findings:
    domain, slash, rest = value.partition("/")
    if not value:
        yield errors.required(path)
    elif not (slash and domain and rest):
        yield errors.wrong(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from say(path, domain, names.dns_subdomain(domain))
        yield from say(path, rest, names.http_path(rest))


def _class_update(new: Object, old: Object) -> list[FieldError]:
    now, was = text(part(new, "spec"), "controller"), text(part(old, "spec"), "controller")
    return [*immutable("spec.controller", now, was), *_class(new)]


DEFAULT_INGRESS_CLASS = "ingressclass.kubernetes.io/is-default-class"


def class_name(obj: cells.Object, _: datetime) -> str:
    """Return the name of an IngressClass, marked if it is the default."""
    default = cells.look(obj, "metadata.annotations", {}).get(DEFAULT_INGRESS_CLASS) == "true"
    return f"{cells.look(obj, 'metadata.name', '')}{' (default)' if default else ''}"


def parameters(obj: cells.Object, _: datetime) -> str:
    """Return the object that configures an IngressClass."""
    found = cells.look(obj, "spec.parameters")
    if found is None:
        return cells.NONE
    group = f".{found['apiGroup']}" if found.get("apiGroup") is not None else ""
    return f"{found.get('kind', '')}{group}/{found.get('name', '')}"


KIND = Kind(
    group="networking.k8s.io",
    kind="IngressClass",
    plural="ingressclasses",
    generation=("spec",),
    default=_class_default,
    validate=lambda found: list(_class(found)),
    validate_update=_class_update,
    columns={
        "Name": class_name,
        "Controller": cells.field("spec.controller"),
        "Parameters": parameters,
        "Age": cells.age,
    },
    repeats_finalizer_findings=True,
)

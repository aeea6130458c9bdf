"""Validation of references from Ingresses and IngressClasses to other objects. Pure.

Source: Kubernetes' `pkg/apis/networking/validation`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, say, text


def object_reference(path: str, found: Object) -> Findings:
    """Yield the findings on a reference by group, kind and name."""
    group = found.get("apiGroup")
    if group is not None:
        yield from say(f"{path}.apiGroup", group, names.dns_subdomain(group))
    yield from segments(path, found, ("kind", "name"))


def segments(path: str, found: Object, keys: tuple[str, ...]) -> Findings:
    """Yield the findings on fields that must be path segments."""
    for key in keys:
        value = text(found, key)
        if not value:
            yield errors.required(f"{path}.{key}")
        else:
            yield from say(f"{path}.{key}", value, names.path_segment(value))

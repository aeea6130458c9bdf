"""The kind IPAddress: validation of its name and parent, and columns. Pure.

Source: Kubernetes' `pkg/apis/networking/validation`,
`pkg/registry/networking/ipaddress` and `pkg/printers/internalversion`.
"""

from datetime import datetime

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.addresses import canonical_address
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.networking.references import segments
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import IMMUTABLE, Findings, Object, part, say, text
from vcsync.apimachinery.wire import cells


def _parent(found: Object) -> Findings:
    parent = part(found, "spec").get("parentRef")
    if parent is None:
        yield errors.required("spec.parentRef")
        return
    group, namespace = text(parent, "group"), text(parent, "namespace")
    if group:
        yield from say("spec.parentRef.group", group, names.dns_subdomain(group))
    yield from segments("spec.parentRef", parent, ("resource", "name"))
    if namespace:
        yield from say("spec.parentRef.namespace", namespace, names.path_segment(namespace))


def _parent_update(new: Object, old: Object) -> list[FieldError]:
    parent = part(new, "spec").get("parentRef")
    shown = parent and {
        key.capitalize(): text(parent, key) for key in ("group", "resource", "namespace", "name")
    }
    found = list(_parent(new))
    if parent != part(old, "spec").get("parentRef"):
        found.append(errors.wrong("spec.parentRef", shown, IMMUTABLE))
    return found


def _address_name(name: str, _: bool) -> list[str]:
    return [each.body.split(": ", 2)[2] for each in canonical_address("", name)]


def _address_prefix(found: Object) -> Findings:
    """Check a generateName as upstream checks updates. No IP address starts with a valid prefix."""
    prefix = text(part(found, "metadata"), "generateName")
    if prefix:
        yield from say("metadata.generateName", prefix, _address_name(prefix, True))


def parent(obj: cells.Object, _: datetime) -> str:
    """Return the object that an IPAddress belongs to."""
    found = cells.look(obj, "spec.parentRef")
    if found is None:
        return cells.NONE
    group = f".{found['group']}" if found.get("group") else ""
    place = f"/{found['namespace']}" if found.get("namespace") else ""
    return f"{found.get('resource', '')}{group}".lower() + f"{place}/{found.get('name', '')}"


KIND = Kind(
    group="networking.k8s.io",
    kind="IPAddress",
    plural="ipaddresses",
    validate=lambda found: list(_parent(found)),
    validate_update=lambda new, old: [*_address_prefix(new), *_parent_update(new, old)],
    validate_name=_address_name,
    columns={"Name": cells.name, "ParentRef": parent, "Age": cells.age},
    repeats_finalizer_findings=True,
)

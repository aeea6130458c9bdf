"""The definition of a published kind, and the way of its objects from super clusters into a tenant. Pure.

A syncer describes the published objects of its super cluster in the status of the SuperCluster. The namespace scheduler makes
the union over the pool from these descriptions.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from vcsync.api import names
from vcsync.api.specs import MAX_PUBLISHED
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope, untyped
from vcsync.objects.merge_patch import create_merge_patch

SELECTED: Final = {names.SUPER_PUBLIC: names.TRUE}
"""Labels of published objects, in super clusters and in tenants."""
SELECTOR: Final = f"{names.SUPER_PUBLIC}={names.TRUE}"
"""Label selector of published objects, in super clusters and in tenants."""

Body = dict[str, Any]


class PublishedKind(Struct, frozen=True, kw_only=True):
    """One kind of classes that operators publish.

    Attributes:
        resource: its resource, the same in super clusters and in tenants.
        field: name of the field of `SuperClusterStatus` and `SuperView` with the descriptions.
        describe: returns what tenants may know of an object of a super cluster; None if it must not be published.
        content: returns the tenant's object without its metadata, from the descriptions by super cluster.
        fixed: fields that cannot change after the creation, or that published objects do not have. A dot leads into a field.
        changing: fields that follow the operators' objects.
        owned: returns whether vcsync has made an object of a tenant that has the label, by a field that cannot change.
        default: annotation of the default class; "" if tenants get no default.
        one_default: whether no class is the tenant's default if super clusters have different ones.
        hidden: what it means that the tenant has an object of its own with the name of a published one.
    """

    resource: Resource
    field: str
    describe: Callable[[Envelope], Any]
    content: Callable[[Mapping[str, Any]], Body]
    fixed: tuple[str, ...]
    changing: tuple[str, ...] = ()
    owned: Callable[[Envelope], bool]
    default: str = ""
    one_default: bool = False
    hidden: str

    @property
    def status_field(self) -> str:
        """Name of the field in the JSON of a SuperCluster's status."""
        head, *others = self.field.split("_")
        return head + "".join(each.capitalize() for each in others)


def is_public(found: Envelope) -> bool:
    """Return whether the operator of a super cluster publishes an object."""
    return found.labels.get(names.SUPER_PUBLIC) == names.TRUE and not found.deleting


def described(kind: PublishedKind, objects: Iterable[Envelope]) -> tuple[Any, ...]:
    """Return the descriptions of the published objects of a super cluster by their names, at most `MAX_PUBLISHED`."""
    found = (kind.describe(each) for each in objects if is_public(each))
    return tuple(sorted((each for each in found if each is not None), key=_name)[:MAX_PUBLISHED])


def _name(description: Any) -> str:
    name: str = description.name
    return name


def wanted(kind: PublishedKind, pool: Iterable[Any]) -> dict[str, Body]:
    """Return the objects to publish to a tenant, by name.

    Args:
        kind: their kind.
        pool: the views of the super clusters. A lost one counts, since what uses its classes remains there.
    """
    by_name: dict[str, dict[str, Any]] = {}
    for view in pool:
        for each in getattr(view, kind.field):
            by_name.setdefault(each.name, {})[view.id] = each
    defaults = {name for name, found in by_name.items() if kind.default and _is_default(found)}
    if kind.one_default and len(defaults) > 1:
        defaults = set()
    return {name: _body(kind, name, found, name in defaults) for name, found in sorted(by_name.items())}


def _is_default(by_super: Mapping[str, Any]) -> bool:
    return any(each.default for each in by_super.values())


def _body(kind: PublishedKind, name: str, by_super: Mapping[str, Any], default: bool) -> Body:
    annotations = {names.PUBLISHED_BY: ",".join(sorted(by_super))}
    if default:
        annotations[kind.default] = names.TRUE
    metadata = {"name": name, "labels": {names.SUPER_PUBLIC: names.TRUE}, "annotations": annotations}
    typed = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": metadata}
    return {**typed, **kind.content(by_super)}


def is_ours(kind: PublishedKind, found: Envelope) -> bool:
    """Return whether an object of a tenant was published by vcsync."""
    return found.labels.get(names.SUPER_PUBLIC) == names.TRUE and kind.owned(found)


def difference(kind: PublishedKind, found: Envelope, body: Body) -> Body | None:
    """Return the merge patch that makes an object as wanted, empty if it is; None if it must be created again.

    Whether it is the default is up to the tenant after its creation.
    """
    there = content_of(found)
    if any((_at(there, field) or None) != (_at(body, field) or None) for field in kind.fixed):
        return None
    patch: Body = {}
    published_by = body["metadata"]["annotations"][names.PUBLISHED_BY]
    if found.annotations.get(names.PUBLISHED_BY) != published_by:
        patch["metadata"] = {"annotations": {names.PUBLISHED_BY: published_by}}
    for field in kind.changing:
        before, after = there.get(field) or None, body.get(field) or None
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            if part := create_merge_patch(before, after):
                patch[field] = part
        elif before != after:
            patch[field] = body.get(field)
    return patch


def _at(content: Body, path: str) -> Any:
    found: Any = content
    for field in path.split("."):
        found = found.get(field) if isinstance(found, Mapping) else None
    return found


def content_of(found: Envelope) -> Body:
    """Return an object's fields besides its metadata."""
    content = dict(untyped(found.rest)) if found.rest else {}
    if found.spec:
        content["spec"] = untyped(found.spec)
    return content

"""Equivalent resources of an object (matchPolicy Equivalent), and conversion between them."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema import walk
from vcsync.apiserver.apiextensions.catalogue import Catalogue, Served
from vcsync.apiserver.discovery.served import builtin_kinds
from vcsync.apiserver.request.resource import Kind

Object = dict[str, Any]


@cache
def _builtin() -> Mapping[tuple[str, str], Sequence[Resource]]:
    """Return the built-in resources that share their objects, by storage key."""
    found: dict[tuple[str, str], list[Resource]] = {}
    for kind in builtin_kinds().values():
        resource = kind.resource
        found.setdefault((resource.storage_group, resource.plural), []).append(resource)
    return found


class Versions:
    """The kinds of all tenants in all versions.

    Args:
        catalogue: Custom kinds.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def equivalents(self, tenant: str, resource: Resource) -> Sequence[Resource]:
        """Return the resources that share their objects with this one, including itself."""
        if not resource.custom:
            return _builtin().get((resource.storage_group, resource.plural), (resource,))
        same = (resource.group, resource.plural)
        return [each for each in self._catalogue.resources(tenant) if (each.group, each.plural) == same]

    async def converted(self, tenant: str, kind: Kind, served: Object, to: Resource) -> Object:
        """Return a copy of a served object in the version of an equivalent resource.

        Raises:
            StatusError: 500, the object cannot be converted.
        """
        if served.get("apiVersion") == to.api_version:
            return copied(served)
        other = self.kind(tenant, to)
        if isinstance(kind, Served):
            return await kind.into(copied(served), to.api_version)
        found = other.served(kind.working(copied(served)))
        return found if other.schema is None else walk.normalize(found, other.schema)

    def kind(self, tenant: str, resource: Resource) -> Kind:
        """Return the kind of a resource.

        Raises:
            StatusError: 500, it is no longer served.
        """
        at = (resource.group, resource.version, resource.plural)
        found = builtin_kinds().get(at) or self._catalogue.find(tenant, *at)
        if found is None:
            raise errors.internal(f"unable to convert to {resource.api_version}: unknown kind")
        return found

"""One object in all served versions of its resource (matchPolicy Equivalent), and from each to another."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from vcsync.controlplane import errors
from vcsync.controlplane.crd.catalogue import Catalogue, Served
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest.copies import copied
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.rest.space import builtin_kinds
from vcsync.controlplane.schema import walk

Object = dict[str, Any]


@cache
def _builtin() -> Mapping[tuple[str, str], Sequence[Resource]]:
    """Return the built-in resources of which the objects are the same, by where they are kept."""
    found: dict[tuple[str, str], list[Resource]] = {}
    for kind in builtin_kinds().values():
        resource = kind.resource
        found.setdefault((resource.storage_group, resource.plural), []).append(resource)
    return found


class Versions:
    """Knows every tenant's kinds in all their versions."""

    def __init__(self, catalogue: Catalogue) -> None:
        """Take who knows the custom ones."""
        self._catalogue = catalogue

    def equivalents(self, tenant: str, resource: Resource) -> Sequence[Resource]:
        """Return the resources whose objects are those of this one, itself among them."""
        if not resource.custom:
            return _builtin().get((resource.storage_group, resource.plural), (resource,))
        same = (resource.group, resource.plural)
        return [each for each in self._catalogue.resources(tenant) if (each.group, each.plural) == same]

    async def converted(self, tenant: str, kind: Kind, served: Object, to: Resource) -> Object:
        """Return a copy of a served object as another resource of the same objects serves it.

        Raises:
            StatusError: 500, it cannot be converted.
        """
        if served.get("apiVersion") == to.api_version:
            return copied(served)
        other = self.kind(tenant, to)
        if isinstance(kind, Served):
            return await kind.into(copied(served), to.api_version)
        found = other.served(kind.working(copied(served)))
        return found if other.schema is None else walk.normalize(found, other.schema)

    def kind(self, tenant: str, resource: Resource) -> Kind:
        """Return what serves a resource.

        Raises:
            StatusError: 500, it is served no more.
        """
        at = (resource.group, resource.version, resource.plural)
        found = builtin_kinds().get(at) or self._catalogue.find(tenant, *at)
        if found is None:
            raise errors.internal(f"unable to convert to {resource.api_version}: unknown kind")
        return found

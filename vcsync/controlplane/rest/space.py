"""One tenant's view: which resources it has, built-in and its own."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

from vcsync.controlplane import openapi
from vcsync.controlplane.admission.policies import findings
from vcsync.controlplane.behaviour import Behaviour
from vcsync.controlplane.cel import conditions, devices
from vcsync.controlplane.crd import definition
from vcsync.controlplane.crd.catalogue import Catalogue, Served
from vcsync.controlplane.kinds import BEHAVIOURS
from vcsync.controlplane.kinds.views import VIEWS, View
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest.kind import BuiltinKind, Conversion, Kind
from vcsync.controlplane.schema import builtin
from vcsync.controlplane.store.interface import Store

DEFINITIONS = "apiextensions.k8s.io"


class Spaces:
    """Every tenant's kinds."""

    def __init__(self, catalogue: Catalogue, store: Store) -> None:
        """Take who knows the custom ones, and where it reads them."""
        self.catalogue = catalogue
        self._store = store

    async def prepare(self, tenant: str) -> None:
        """Know a tenant's own kinds before anything else is asked about it."""
        if not self.catalogue.loaded(tenant):
            await self.catalogue.load(tenant, self._store)

    def kind(self, tenant: str, group: str, version: str, plural: str) -> Kind | None:
        """Find a kind; None: the tenant has none such."""
        return builtin_kinds().get((group, version, plural)) or self.catalogue.find(
            tenant, group, version, plural
        )

    def custom(self, tenant: str) -> Sequence[Resource]:
        """Return what only this tenant has, in the order of discovery."""
        return self.catalogue.resources(tenant)

    def published(self, tenant: str) -> Sequence[openapi.Custom]:
        """Return what OpenAPI documents tell of this tenant's own kinds."""
        served = self.catalogue.served(tenant)
        return [
            openapi.Custom(each.resource, partial(_definitions, each), each.fingerprints) for each in served
        ]


@cache
def served_version(group: str) -> bool:
    """Whether a built-in group of that name is served."""
    return any(each.group == group for each in builtin.resources())


def _definitions(served: Served, version: int) -> Mapping[str, Any]:
    return served.published(v2=version == 2)


DEPRECATED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "v1": {"Endpoints": ("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",)}
}
"""What every answer about a built-in kind warns of, by version and kind."""


@cache
def builtin_kinds() -> Mapping[tuple[str, str, str], Kind]:
    """Return the built-in kinds by group, version and plural."""
    kinds: dict[tuple[str, str, str], Kind] = {}
    behaviours = {
        **BEHAVIOURS,
        (DEFINITIONS, "CustomResourceDefinition"): definition.BEHAVIOUR,
        **{key: conditions.compiled(BEHAVIOURS[key]) for key in conditions.KINDS},
        **findings.compiled(BEHAVIOURS),
        **devices.compiled(BEHAVIOURS),
    }
    for resource in builtin.resources():
        own = behaviours.get((resource.group, resource.kind))
        behaviour = own or behaviours.get((resource.storage_group, resource.kind)) or Behaviour(generation=())
        schema = builtin.schema(resource.group, resource.version, resource.kind)
        view = VIEWS.get((resource.group, resource.version, resource.kind))
        conversion = None if view is None else _conversion(view, resource.storage_api_version)
        kinds[resource.group, resource.version, resource.plural] = BuiltinKind(
            resource,
            behaviour,
            schema,
            conversion,
            DEPRECATED.get(resource.api_version, {}).get(resource.kind, ()),
        )
    return kinds


def _conversion(view: View, storage: str) -> Conversion:
    def convert(obj: dict[str, Any], wanted: str) -> dict[str, Any]:
        found = view.to_storage(obj) if wanted == storage else view.from_storage(obj)
        return {**found, "apiVersion": wanted}

    return convert

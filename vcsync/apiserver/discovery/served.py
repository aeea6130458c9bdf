"""Finds the kinds of a tenant: the built-in ones and its custom resources."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import msgspec

from vcsync.apimachinery.cel import conditions, devices
from vcsync.apimachinery.crd import definition
from vcsync.apimachinery.errors import unavailable
from vcsync.apimachinery.kinds.all_kinds import by_plural
from vcsync.apimachinery.kinds.apiregistration import api_service
from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS
from vcsync.apimachinery.kinds.common.kind import View
from vcsync.apimachinery.policies import findings
from vcsync.apimachinery.resources import Resource, object_key
from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.strategy import Behaviour
from vcsync.apimachinery.validation import names
from vcsync.apiserver import openapi
from vcsync.apiserver.apiextensions.catalogue import Catalogue, Served
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.resource import BuiltinKind, Conversion, Kind
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Store
from vcsync.apiserver.tenants.builtin_resources import BuiltinResources, every_resource, without_nodes

DEFINITIONS = "apiextensions.k8s.io"


class Spaces:
    """The kinds of every tenant.

    Args:
        catalogue: Holds the custom resources of tenants.
        store: The store from which the catalogue loads them.
        only_virtual_nodes: Returns whether users of a tenant can only read Nodes; see `tenants.builtin_resources`.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        store: Store,
        only_virtual_nodes: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.catalogue = catalogue
        self._store = store
        self._only_virtual_nodes = only_virtual_nodes

    async def prepare(self, tenant: str) -> None:
        """Load the custom resources of a tenant. Must be called before the other methods."""
        if not self.catalogue.loaded(tenant):
            await self.catalogue.load(tenant, self._store)

    def kind(self, tenant: str, group: str, version: str, plural: str) -> Kind | None:
        """Return a kind of a tenant, or None if there is no such kind."""
        return builtin_kinds().get((group, version, plural)) or self.catalogue.find(
            tenant, group, version, plural
        )

    async def require_not_aggregated(self, tenant: str, group: str, version: str) -> None:
        """Refuse a request for a group and version that an APIService of the tenant assigns to a Service.

        Raises:
            StatusError: 503, as from a kube-apiserver that cannot reach the Service.
            StoreError: The store cannot be read.
        """
        name = f"{version}.{group}"
        if names.path_segment(name):
            return
        record = await self._store.get_cached(
            object_key(tenant, api_service.KIND.group, api_service.KIND.plural, "", name)
        )
        if record is not None and not api_service.is_local(msgspec.json.decode(record.value)):
            raise unavailable(f"APIService {name} is not available: {api_service.NOT_FORWARDED}")

    def is_current(self, scope: Scope) -> bool:
        """Return whether the kind of a scope is still the one that its tenant has."""
        resource = scope.kind.resource
        return scope.kind is self.kind(scope.tenant, resource.group, resource.version, resource.plural)

    def builtin(self, tenant: str, caller: Caller) -> BuiltinResources:
        """Return the built-in resources of a tenant that a caller sees in discovery and in OpenAPI documents."""
        limited = not caller.system and self._only_virtual_nodes(tenant)
        return without_nodes() if limited else every_resource()

    def custom(self, tenant: str) -> Sequence[Resource]:
        """Return the custom resources of a tenant in the order of discovery."""
        return self.catalogue.resources(tenant)

    def published(self, tenant: str) -> Sequence[openapi.Custom]:
        """Return the custom resources of a tenant for OpenAPI documents."""
        served = self.catalogue.served(tenant)
        return [
            openapi.Custom(each.resource, partial(_definitions, each), each.fingerprints) for each in served
        ]


@cache
def served_version(group: str) -> bool:
    """Return whether a built-in group with this name is served."""
    return any(each.group == group for each in builtin.resources())


def _definitions(served: Served, version: int) -> Mapping[str, Any]:
    return served.published(v2=version == 2)


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
        declared = by_plural(resource.group, resource.plural)
        view = None if declared is None else declared.views.get(resource.version)
        conversion = None if view is None else _conversion(view, resource.storage_api_version)
        kinds[resource.group, resource.version, resource.plural] = BuiltinKind(
            resource,
            behaviour,
            schema,
            conversion,
            () if declared is None else declared.deprecations.get(resource.version, ()),
        )
    return kinds


def _conversion(view: View, storage: str) -> Conversion:
    def convert(obj: dict[str, Any], wanted: str) -> dict[str, Any]:
        converted = view.to_storage(obj) if wanted == storage else view.from_storage(obj)
        return {**converted, "apiVersion": wanted}

    return convert

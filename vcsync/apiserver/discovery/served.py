"""Finds the kinds of a tenant: the built-in ones and its custom resources."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from vcsync.apimachinery.cel import conditions, devices
from vcsync.apimachinery.crd import definition
from vcsync.apimachinery.kinds.all_kinds import by_plural
from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS
from vcsync.apimachinery.kinds.common.kind import View
from vcsync.apimachinery.policies import findings
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.strategy import Behaviour
from vcsync.apiserver import openapi
from vcsync.apiserver.apiextensions.catalogue import Catalogue, Served
from vcsync.apiserver.discovery.metrics_version import METRICS
from vcsync.apiserver.discovery.remote_api_services import RemoteApiService, RemoteApiServices
from vcsync.apiserver.discovery.remote_versions import RemoteVersion
from vcsync.apiserver.request.caller import SYSTEM, Caller
from vcsync.apiserver.request.request_info import ALL
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
        remote: APIServices of tenants that name a Service. None: there are none.
        metrics: Whether this server has the resource metrics API of tenants that have no server of their own for it.

    Attributes:
        catalogue: As in the arguments.
        remote: APIServices of tenants that name a Service.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        store: Store,
        only_virtual_nodes: Callable[[str], bool] = lambda _: False,
        remote: RemoteApiServices | None = None,
        *,
        metrics: bool = False,
    ) -> None:
        self.catalogue = catalogue
        self.remote = remote or RemoteApiServices()
        self._reads_remote = remote is not None
        self._store = store
        self._only_virtual_nodes = only_virtual_nodes
        self._metrics = metrics

    async def prepare(self, tenant: str) -> None:
        """Load the custom resources and APIServices of a tenant. Must be called before the other methods."""
        if not self.catalogue.loaded(tenant):
            await self.catalogue.load(tenant, self._store)
        if self._reads_remote and not self.remote.loaded(tenant):
            await self.remote.load(tenant, self._store)

    def kind(self, tenant: str, group: str, version: str, plural: str) -> Kind | None:
        """Return a kind of a tenant, or None if there is no such kind."""
        return builtin_kinds().get((group, version, plural)) or self.catalogue.find(
            tenant, group, version, plural
        )

    def remote_api_service(self, tenant: str, group: str, version: str) -> RemoteApiService | None:
        """Return the APIService that assigns a group and version to a Service, or None if the server itself serves it.

        Built-in versions and those of definitions stay with this server, whatever APIServices say.
        """
        found = self.remote.find(tenant, group, version)
        return None if found is None or (group, version) in self._local_versions(tenant) else found

    def remote_versions(self, tenant: str) -> Sequence[RemoteVersion]:
        """Return the versions that aggregated API servers of a tenant serve, for discovery.

        As upstream, these include versions whose server is not available. Versions are left out to which nothing is ever
        forwarded.
        """
        found = [self.remote.version(each) for each in self._forwarded(tenant)]
        return [*found, METRICS] if self.serves_metrics(tenant) else found

    def serves_metrics(self, tenant: str) -> bool:
        """Tell whether this server has the resource metrics API of a tenant."""
        return (
            self._metrics
            and tenant not in (SYSTEM, ALL)
            and self.remote.find(tenant, METRICS.group, METRICS.version) is None
            and (METRICS.group, METRICS.version) not in self._local_versions(tenant)
        )

    def remote_documents(self, tenant: str) -> Mapping[str, str]:
        """Return path and query of the OpenAPI documents of version 3 that aggregated API servers of a tenant have."""
        found = {}
        for each in self._forwarded(tenant):
            query = self.remote.served(each).openapi
            if query is not None and each.available:
                found[f"apis/{each.group}/{each.version}"] = query
        return found

    def _forwarded(self, tenant: str) -> list[RemoteApiService]:
        found = self.remote.forwarded(tenant)
        local = self._local_versions(tenant) if found else ()
        return [each for each in found if (each.group, each.version) not in local]

    def _local_versions(self, tenant: str) -> frozenset[tuple[str, str]]:
        own = self.catalogue.resources(tenant)
        return _builtin_versions() | {(each.group, each.version) for each in own}

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


def served_version(group: str) -> bool:
    """Return whether a built-in group with this name is served."""
    return group in _builtin_groups()


@cache
def _builtin_groups() -> frozenset[str]:
    return frozenset(each.group for each in builtin.resources())


@cache
def _builtin_versions() -> frozenset[tuple[str, str]]:
    return frozenset((each.group, each.version) for each in builtin.resources())


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

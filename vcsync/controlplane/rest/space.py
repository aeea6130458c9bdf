"""One tenant's view: which resources it has, built-in and its own."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from vcsync.controlplane.behaviour import Behaviour, Object
from vcsync.controlplane.kinds import BEHAVIOURS
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest.kind import BuiltinKind, Conversion, Kind
from vcsync.controlplane.schema import builtin

CONVERSIONS: Mapping[tuple[str, str], Conversion] = {}


class Customs(Protocol):
    """What a tenant's CustomResourceDefinitions give it."""

    def resources(self, tenant: str) -> Sequence[Resource]:
        """All served versions."""
        ...

    def find(self, tenant: str, group: str, version: str, plural: str) -> Any:
        """Return one, None: there is none."""
        ...


class NoCustoms:
    """No custom resources."""

    def resources(self, tenant: str) -> Sequence[Resource]:
        """There are none."""
        return ()

    def find(self, tenant: str, group: str, version: str, plural: str) -> Any:
        """There are none."""
        return None


class Spaces:
    """Every tenant's kinds."""

    def __init__(self, customs: Customs | None = None) -> None:
        """Take who knows the custom ones."""
        self.customs = customs or NoCustoms()

    def kind(self, tenant: str, group: str, version: str, plural: str) -> Kind | None:
        """Find a kind; None: the tenant has none such."""
        found = builtin_kinds().get((group, version, plural))
        if found is not None:
            return found
        served = self.customs.find(tenant, group, version, plural)
        return CustomKind(served) if served is not None else None

    def resources(self, tenant: str) -> Sequence[Resource]:
        """Return everything that is served to a tenant."""
        return (*builtin.resources(), *self.customs.resources(tenant))


@cache
def builtin_kinds() -> Mapping[tuple[str, str, str], Kind]:
    """Return the built-in kinds by group, version and plural."""
    kinds: dict[tuple[str, str, str], Kind] = {}
    for resource in builtin.resources():
        behaviour = BEHAVIOURS.get((resource.storage_group, resource.kind)) or Behaviour(generation=())
        schema = builtin.schema(resource.group, resource.version, resource.kind)
        conversion = CONVERSIONS.get((resource.storage_group, resource.kind))
        kinds[resource.group, resource.version, resource.plural] = BuiltinKind(
            resource, behaviour, schema, conversion
        )
    return kinds


class CustomKind:
    """A kind that a tenant's CustomResourceDefinition makes."""

    def __init__(self, served: Any) -> None:
        """Take what the definition's version serves."""
        self._served = served
        self.resource: Resource = served.resource
        self.behaviour: Behaviour = served.behaviour
        self.schema = served.schema
        self.direct: bool = served.direct
        self.scale = served.scale
        self.columns = served.columns
        self.warning: str = served.warning
        self.refusal = served.refuse_create

    def decode(self, obj: Object) -> list[str]:
        """Prune and default; tell what was unknown."""
        found: list[str] = self._served.decode(obj)
        return found

    def working(self, served: Object) -> Object:
        """Rules of custom resources are written for the served version."""
        return served

    def served(self, working: Object) -> Object:
        """Rules of custom resources are written for the served version."""
        return working

    async def load(self, stored: list[Object]) -> list[Object]:
        """Convert, prune and default."""
        found: list[Object] = await self._served.read_form(stored)
        return found

    async def store(self, working: Object) -> Object:
        """Convert to the storage version."""
        found: Object = await self._served.store_form(working)
        return found



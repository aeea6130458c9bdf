"""The APIServices of tenants that name a Service, in memory, with what is known of the aggregated API servers behind them.

Upstream calls these APIServices remote, and those that the server itself serves local. The APIServices of a tenant are
read with its first request. Tenants write them: nothing in them says anything about another tenant.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
import structlog

from vcsync.apimachinery.kinds.apiregistration import api_service
from vcsync.apimachinery.resources import collection_key
from vcsync.apiserver.discovery.remote_versions import RemoteVersion
from vcsync.apiserver.storage.interface import Change, Store

GROUP, PLURAL = api_service.KIND.group, api_service.KIND.plural
MOST = 32
"""Remote APIServices of one tenant that are served, the oldest ones. Each takes checks and memory."""
MAX_RESOURCES_BYTES = 1 << 20
"""Bytes of resources in discovery documents that are kept for all aggregated API servers of one tenant."""
TOO_MANY = f"more than {MOST} APIServices of this control plane name a Service"
UNCHECKED = "it has not been checked yet"
_INFIX = f"/{GROUP}/{PLURAL}/"
_log = structlog.get_logger(__name__)


class ServiceReference(msgspec.Struct, frozen=True):
    """The Service that an APIService names."""

    namespace: str = ""
    name: str = ""
    port: int = 443


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition of an APIService."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    uid: str = ""


class _Spec(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    service: ServiceReference | None = None
    ca_bundle: str = msgspec.field(name="caBundle", default="")
    insecure: bool = msgspec.field(name="insecureSkipTLSVerify", default=False)
    group_priority: int = msgspec.field(name="groupPriorityMinimum", default=0)
    version_priority: int = msgspec.field(name="versionPriority", default=0)


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[Condition, ...] | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Object).decode


@dataclass(frozen=True, slots=True)
class Destination:
    """Destination of the requests of a remote APIService. A change of it makes everything known of the server outdated.

    Attributes:
        service: The Service.
        ca_bundle: Trusted authorities, as PEM in base64. Empty: those of the system.
        insecure: Whether the certificate of the server is not verified.
    """

    service: ServiceReference
    ca_bundle: str = ""
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class RemoteApiService:
    """One APIService that names a Service.

    Attributes:
        tenant: The tenant.
        uid: UID of the APIService.
        group: Group that it serves.
        version: Version that it serves.
        destination: Where requests go.
        group_priority: Its `groupPriorityMinimum`.
        version_priority: Its `versionPriority`.
        condition: Its condition Available, or None.
        created: Revision of its creation.
        revision: Revision of its last change.
    """

    tenant: str
    uid: str
    group: str
    version: str
    destination: Destination
    group_priority: int
    version_priority: int
    condition: Condition | None
    created: int
    revision: int

    @property
    def name(self) -> str:
        """Name of the APIService."""
        return f"{self.version}.{self.group}"

    @property
    def available(self) -> bool:
        """Whether the condition Available is true."""
        return self.condition is not None and self.condition.status == "True"

    @property
    def reason(self) -> str:
        """Reason of the condition Available, for clients."""
        return (self.condition.message if self.condition is not None else "") or UNCHECKED


@dataclass(frozen=True, slots=True)
class Served:
    """Discovery documents of an aggregated API server for one group and version.

    Attributes:
        resources: As in `remote_versions.RemoteVersion`.
        current: Whether the last check has read them.
        openapi: Query of the URL of its OpenAPI document of version 3, such as `hash=...`. None: it has none.
    """

    resources: bytes = b"[]"
    current: bool = False
    openapi: str | None = None


_NOTHING = Served()


@dataclass(slots=True)
class _Tenant:
    services: dict[str, RemoteApiService] = field(default_factory=dict)
    served: dict[str, Served] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    loaded: bool = False
    sorted: frozenset[str] | None = None

    @property
    def oldest(self) -> frozenset[str]:
        """Names of the oldest APIServices, `MOST` at most."""
        if self.sorted is None:
            self.sorted = _oldest(self.services)
        return self.sorted


class RemoteApiServices:
    """The remote APIServices of all tenants with requests.

    Args:
        forwards: Returns whether the operator allows Services of a tenant to be called.

    Attributes:
        on_change: Called with tenant and name of each remote APIService that is found, changed or gone.
        on_forget: Called with each tenant that is forgotten.
    """

    def __init__(self, forwards: Callable[[str], bool] = lambda _: False) -> None:
        self.forwards = forwards
        self.on_change: Callable[[str, str], None] = lambda _tenant, _name: None
        self.on_forget: Callable[[str], None] = lambda _tenant: None
        self._tenants: dict[str, _Tenant] = {}

    def loaded(self, tenant: str) -> bool:
        """Return whether the APIServices of a tenant have been read."""
        known = self._tenants.get(tenant)
        return known is not None and known.loaded

    async def load(self, tenant: str, store: Store) -> None:
        """Read the APIServices of a tenant, once. `apply` must receive all changes from before this call on.

        Raises:
            StoreError: The store cannot be read.
        """
        known = self._tenants.setdefault(tenant, _Tenant())
        if known.loaded:
            return
        page = await store.range(collection_key(tenant, GROUP, PLURAL), counted=False)
        if known.loaded or self._tenants.get(tenant) is not known:
            return
        known.loaded = True
        for record in page.records:
            name = record.key.rpartition("/")[2]
            if record.revision > known.removed.get(name, 0):
                self._take(tenant, known, name, (record.value, record.created, record.revision))
        known.removed.clear()

    def apply(self, change: Change) -> None:
        """Apply a change of the store."""
        tenant, found, name = change.key.partition(_INFIX)
        known = self._tenants.get(tenant) if found else None
        if known is None:
            return
        if change.value is not None:
            self._take(tenant, known, name, (change.value, change.created, change.revision))
        else:
            self._drop(tenant, known, name, change.revision)

    def _take(self, tenant: str, known: _Tenant, name: str, stored: tuple[bytes, int, int]) -> None:
        value, created, revision = stored
        before = known.services.get(name)
        if before is not None and revision <= before.revision:
            return
        found = _read(tenant, value, created, revision)
        if found is None or found.name != name:
            self._drop(tenant, known, name, revision)
            return
        if before is not None and (before.uid, before.destination) != (found.uid, found.destination):
            known.served.pop(name, None)
        known.services[name] = found
        if before is None or before.created != found.created:
            known.sorted = None
        self.on_change(tenant, name)

    def _drop(self, tenant: str, known: _Tenant, name: str, revision: int) -> None:
        if not known.loaded:
            known.removed[name] = revision
        known.served.pop(name, None)
        if name in known.services:
            left = known.oldest
            del known.services[name]
            known.sorted = None
            for each in (name, *(known.oldest - left)):
                self.on_change(tenant, each)

    def forget(self, tenant: str) -> None:
        """Drop the APIServices of a tenant, so that they are read again on demand."""
        self._tenants.pop(tenant, None)
        self.on_forget(tenant)

    def tenants(self) -> list[str]:
        """Return the tenants whose APIServices have been read."""
        return list(self._tenants)

    def get(self, tenant: str, name: str) -> RemoteApiService | None:
        """Return a remote APIService by its name, or None."""
        known = self._tenants.get(tenant)
        return known.services.get(name) if known is not None else None

    def find(self, tenant: str, group: str, version: str) -> RemoteApiService | None:
        """Return the remote APIService of a group and version, or None."""
        known = self._tenants.get(tenant)
        return known.services.get(f"{version}.{group}") if known is not None and known.services else None

    def all(self, tenant: str) -> Iterable[RemoteApiService]:
        """Return the remote APIServices of a tenant."""
        known = self._tenants.get(tenant)
        return known.services.values() if known is not None else ()

    def forwarded(self, tenant: str) -> list[RemoteApiService]:
        """Return the remote APIServices of a tenant to which requests may be forwarded, `MOST` at most."""
        known = self._tenants.get(tenant)
        if known is None or not known.services or not self.forwards(tenant):
            return []
        return [known.services[name] for name in sorted(known.oldest)]

    def refusal(self, service: RemoteApiService) -> str:
        """Return why requests are never forwarded to a Service, or an empty text if they may be."""
        known = self._tenants.get(service.tenant)
        if not self.forwards(service.tenant):
            return api_service.NOT_FORWARDED
        return TOO_MANY if known is not None and service.name not in known.oldest else ""

    def learn(self, service: RemoteApiService, served: Served) -> None:
        """Keep what the discovery documents of an aggregated API server say.

        Resources that are too large together with those of the tenant's other servers are not kept.
        """
        known = self._tenants.get(service.tenant)
        if known is None or known.services.get(service.name) is None:
            return
        others = sum(len(each.resources) for name, each in known.served.items() if name != service.name)
        if others + len(served.resources) > MAX_RESOURCES_BYTES:
            served = _NOTHING
        known.served[service.name] = served

    def outdated(self, service: RemoteApiService) -> None:
        """Keep the resources of an aggregated API server that could not be read again, as outdated ones."""
        known = self._tenants.get(service.tenant)
        before = known.served.get(service.name) if known is not None else None
        if known is not None and before is not None:
            known.served[service.name] = Served(before.resources, openapi=before.openapi)

    def served(self, service: RemoteApiService) -> Served:
        """Return what the discovery documents of an aggregated API server said last."""
        known = self._tenants.get(service.tenant)
        return known.served.get(service.name, _NOTHING) if known is not None else _NOTHING

    def version(self, service: RemoteApiService) -> RemoteVersion:
        """Return a remote APIService as discovery lists it."""
        served = self.served(service)
        return RemoteVersion(
            service.group,
            service.version,
            service.group_priority,
            service.version_priority,
            served.resources,
            served.current and service.available,
        )


def _read(tenant: str, value: bytes, created: int, revision: int) -> RemoteApiService | None:
    """Return a stored APIService, or None if it names no Service."""
    try:
        found = _decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        _log.error(
            "a stored APIService cannot be read and is not served", tenant=tenant, error=type(error).__name__
        )
        return None
    spec = found.spec
    if spec.service is None:
        return None
    conditions = (found.status.conditions if found.status is not None else None) or ()
    return RemoteApiService(
        tenant,
        found.metadata.uid,
        spec.group,
        spec.version,
        Destination(spec.service, spec.ca_bundle, spec.insecure),
        spec.group_priority,
        spec.version_priority,
        next((each for each in conditions if each.type == api_service.AVAILABLE), None),
        created,
        revision,
    )


def _oldest(services: Mapping[str, RemoteApiService]) -> frozenset[str]:
    if len(services) <= MOST:
        return frozenset(services)
    return frozenset(sorted(services, key=lambda name: (services[name].created, name))[:MOST])

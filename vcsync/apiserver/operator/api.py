"""The operator's HTTP API for tenants, below /vcsync/v1/. `vcsync tenant` is its client.

GET and POST tenants; GET, PATCH and DELETE tenants/NAME (DELETE: ?gracePeriodSeconds=N);
GET tenants/NAME/kubeconfig?user=U&group=G, or ?credential=none, and &host=name for the tenant's host name in the URL;
GET tenants/NAME/export; POST tenants/NAME/rotate; POST tenants/NAME/revoke; GET tenants/NAME/revocations;
GET tenants/NAME/usage?from=TIME&to=TIME, also for NAME `all`; POST tenants/NAME/release.
The controllers use POST tenants/NAME/certificates and POST tenants/NAME/tokens, whose results are signed with the tenant's keys,
and POST tenants/NAME/stalls, which tells whose work stalled them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec

from vcsync.api.networks import NetworkSpec
from vcsync.apimachinery.errors import (
    StatusError,
    bad_request,
    forbidden,
    method_not_allowed,
    not_found,
    page_not_found,
)
from vcsync.apiserver.authentication.revocations import Revocation, Revocations
from vcsync.apiserver.authorization.authorizer import Authorizer
from vcsync.apiserver.operator import kubeconfig
from vcsync.apiserver.operator.lifecycle import Endpoint, Lifecycle
from vcsync.apiserver.operator.signer import Issuer
from vcsync.apiserver.operator.tenant_deletion import TenantDeletion
from vcsync.apiserver.operator.tenant_quota import set_quota, shown_quota
from vcsync.apiserver.operator.upstream_check import check_upstream
from vcsync.apiserver.operator.usage import usage_of
from vcsync.apiserver.request.caller import ELSEWHERE, MASTERS, SYSTEM, Attributes, Caller
from vcsync.apiserver.requestlimits.reports import Reports
from vcsync.apiserver.storage.interface import Store
from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.records import Authority, Controllers, Nodes, TenantRecord, Upstream
from vcsync.apiserver.tenants.registry import TenantRegistry
from vcsync.apiserver.tenants.request_limits import TenantLimits, in_force

PREFIX = "/vcsync/v1/"
JSON = "application/json"
YAML = "application/yaml"
MAX_USER = 64
"""Characters of a user name: the limit of a certificate's common name."""

MAX_SERIAL = 40
"""Hex digits of a serial number: RFC 5280 allows 20 bytes."""

MAX_GRACE_SECONDS = 7 * 24 * 3600
"""Longest time for which finalizers of a deleted tenant are respected."""

MAX_DIGITS = 10
"""Digits of a number of seconds. Python refuses to parse very long numbers."""

MAX_PARTS = 3
"""Parts of a path: `tenants`, a name, and a subresource."""

Query = Mapping[str, Sequence[str]]
Read = Callable[[], Awaitable[bytes]]
"""Reads the body of a request. Raises StatusError 400, 408, 413 or 429."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class _Request:
    """A request.

    Attributes:
        name: Name of the tenant, or nothing for the collection.
        query: Parameters of the URL.
        read: Reads the body.
    """

    name: str
    query: Query
    read: Read


class _NewTenant(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    controllers: Controllers = "vcsync"
    nodes: Nodes = "virtual"
    upstream: Upstream | None = None
    network: NetworkSpec | None = None


_Limit = Annotated[int, msgspec.Meta(ge=0)] | None | msgspec.UnsetType
"""None: the default of the control plane."""


class _Change(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    controllers: Controllers | msgspec.UnsetType = msgspec.UNSET
    storage_bytes: _Limit = msgspec.UNSET
    storage_objects: _Limit = msgspec.UNSET
    upstream: Upstream | msgspec.UnsetType = msgspec.UNSET
    limits: TenantLimits | msgspec.UnsetType | None = msgspec.UNSET
    weight: Annotated[int, msgspec.Meta(ge=1, le=1000)] | msgspec.UnsetType = msgspec.UNSET
    quota: dict[str, str] | msgspec.UnsetType | None = msgspec.UNSET
    suspended: bool | msgspec.UnsetType = msgspec.UNSET


class _Reference(msgspec.Struct, forbid_unknown_fields=True):
    """The object for which something is signed."""

    name: str
    uid: str
    namespace: str = ""


class _Revoke(msgspec.Struct, forbid_unknown_fields=True):
    serial: str = ""
    user: str = ""


class _Stalled(msgspec.Struct, forbid_unknown_fields=True):
    work: str
    sure: bool


class OperatorApi:
    """Answers requests for the operator's API."""

    def __init__(
        self,
        *,
        store: Store,
        registry: TenantRegistry,
        lifecycle: Lifecycle,
        deletion: TenantDeletion,
        revocations: Revocations,
        issuer: Issuer,
        authorizer: Authorizer,
        server: Authority,
        clock: Callable[[], float],
        endpoint: Endpoint,
        default_limits: TenantLimits,
        reports: Reports,
    ) -> None:
        """Create the API.

        Args:
            store: The store, which has the rows of usage.
            registry: All tenants.
            lifecycle: Creates and changes tenants.
            deletion: Deletes tenants.
            revocations: Revoked certificates.
            issuer: Signs for controllers.
            authorizer: Authorizes requests.
            server: Authority of the serving certificate, for kubeconfigs.
            clock: Returns seconds since the epoch.
            endpoint: Where clients reach the server, for kubeconfigs.
            default_limits: Limits of requests of tenants that set none.
            reports: Tells which limits refused requests recently.
        """
        self._store = store
        self._registry = registry
        self._lifecycle = lifecycle
        self._deletion = deletion
        self._revocations = revocations
        self._issuer = issuer
        self._authorizer = authorizer
        self._server = server
        self._clock = clock
        self._endpoint = endpoint
        self._default_limits = default_limits
        self._reports = reports

    async def handle(self, caller: Caller, method: str, path: str, query: Query, read: Read) -> Answer:
        """Answer a request whose path starts with `/vcsync/v1/`.

        The body is read only for authorized callers, and only if it is used.

        Raises:
            StatusError: The request is refused.
            StoreError: The store cannot be read or written.
        """
        if not caller.system:
            raise StatusError(403, "Forbidden", ELSEWHERE, empty_details=True)
        await self._authorizer.authorize(caller, Attributes(method.lower(), path, resource_request=False))
        parts = path.removeprefix(PREFIX).split("/")
        if parts[0] != "tenants" or not all(parts):
            raise page_not_found()
        name, subresource = (*parts[1:], "", "")[:2]
        if name == SYSTEM and MASTERS not in caller.user.groups:
            # A credential of the operator's space would give the caller more than its own rights.
            raise forbidden("tenants", "", name, "only system:masters may use the operator's own space here")
        methods = self.routes.get((bool(name), subresource))
        if methods is None or len(parts) > MAX_PARTS:
            raise page_not_found()
        if method not in methods:
            raise method_not_allowed()
        return await methods[method](self, _Request(name, query, read))

    async def _list(self, _: _Request) -> Answer:
        found = [self._shown(record) async for record, _ in self._registry.records()]
        return _json(200, {"items": found})

    async def _create(self, request: _Request) -> Answer:
        body = await request.read()
        try:
            wanted = msgspec.json.decode(body, type=_NewTenant)
        except msgspec.MsgspecError as error:
            raise bad_request(f"give a name as JSON: {error}") from error
        if wanted.upstream is not None:
            check_upstream(wanted.upstream)
        if wanted.network is not None:
            _check_network(wanted, wanted.network)
        made = await self._lifecycle.create(
            wanted.name, wanted.controllers, wanted.nodes, wanted.upstream, wanted.network
        )
        return _json(201, self._shown(made))

    async def _show(self, request: _Request) -> Answer:
        name = request.name
        if self._registry.admits(name):
            quota = await shown_quota(self._store, name)
            return _json(200, {**self._shown(await self._record(name)), "quota": quota})
        record, left = await self._deletion.status(name)
        return _json(200, {**self._shown(record), "deadline": record.deadline, "left": left})

    async def _change(self, request: _Request) -> Answer:
        name, body = request.name, await request.read()
        try:
            wanted = msgspec.json.decode(body, type=_Change)
        except msgspec.MsgspecError as error:
            raise bad_request(f"give what is to change as JSON: {error}") from error
        storage, requests = (
            {field: given for field in fields if (given := getattr(wanted, field)) is not msgspec.UNSET}
            for fields in (("storage_bytes", "storage_objects"), ("limits", "weight"))
        )
        record = None
        if wanted.quota is not msgspec.UNSET:
            await set_quota(self._store, name, wanted.quota)
        if wanted.upstream is not msgspec.UNSET:
            check_upstream(wanted.upstream)
            record = await self._lifecycle.set_upstream(name, wanted.upstream)
        if wanted.controllers is not msgspec.UNSET:
            record = await self._lifecycle.set_controllers(name, wanted.controllers)
        if storage:
            record = await self._lifecycle.limit_storage(name, **storage)
        if requests:
            record = await self._lifecycle.limit_requests(name, **requests)
        if wanted.suspended is not msgspec.UNSET:
            record = await self._lifecycle.suspend(name, suspended=wanted.suspended)
        return _json(200, self._shown(record or await self._record(name)))

    async def _delete(self, request: _Request) -> Answer:
        given = (_values(request.query, "gracePeriodSeconds") or ["0"])[0]
        if not given.isdecimal() or len(given) > MAX_DIGITS or int(given) > MAX_GRACE_SECONDS:
            raise bad_request(f"gracePeriodSeconds: give a number from 0 to {MAX_GRACE_SECONDS}")
        record = await self._deletion.delete(request.name, int(given))
        return _json(202 if record.phase == "Draining" else 200, self._shown(record))

    async def _rotate(self, request: _Request) -> Answer:
        return _json(200, self._shown(await self._lifecycle.rotate(request.name)))

    async def _revoke(self, request: _Request) -> Answer:
        name = request.name
        await self._record(name)
        body = await request.read()
        try:
            wanted = msgspec.json.decode(body, type=_Revoke)
            serial = f"{int(wanted.serial.replace(':', ''), 16):x}" if wanted.serial else ""
        except (msgspec.MsgspecError, ValueError) as error:
            raise bad_request(f"give a serial number in hex, or a user, as JSON: {error}") from error
        if bool(serial) == bool(wanted.user) or len(wanted.user) > MAX_USER or len(serial) > MAX_SERIAL:
            raise bad_request("give either a serial number in hex or a user")
        # New certificates begin in the current second at the earliest, so revoke up to the second before.
        at = int(self._clock()) - 1 if wanted.user else 0
        revocation = Revocation(serial, wanted.user, at)
        await self._revocations.revoke(name, revocation)
        return _json(201, revocation)

    async def _revoked(self, request: _Request) -> Answer:
        await self._record(request.name)
        return _json(200, {"items": self._revocations.of(request.name)})

    async def _stalled(self, request: _Request) -> Answer:
        try:
            told = msgspec.json.decode(await request.read(), type=_Stalled)
        except msgspec.MsgspecError as error:
            raise bad_request(f"say what ran as JSON: {error}") from error
        return _json(200, self._shown(await self._lifecycle.stalled(request.name, told.work, sure=told.sure)))

    async def _release(self, request: _Request) -> Answer:
        return _json(200, self._shown(await self._lifecycle.release(request.name)))

    async def _usage(self, request: _Request) -> Answer:
        begin, end = _values(request.query, "from"), _values(request.query, "to")
        return _json(200, {"items": await usage_of(self._store, request.name, begin, end, self._clock())})

    async def _certificate(self, request: _Request) -> Answer:
        reference = _reference(await request.read())
        return _json(200, await self._issuer.certificate(request.name, reference.name, reference.uid))

    async def _token(self, request: _Request) -> Answer:
        reference = _reference(await request.read())
        token = await self._issuer.token(request.name, reference.namespace, reference.name, reference.uid)
        return _json(200, {"token": token})

    async def _kubeconfig(self, request: _Request) -> Answer:
        user = (_values(request.query, "user") or [kubeconfig.ADMIN])[0]
        if not 0 < len(user) <= MAX_USER:
            raise bad_request(f"a user's name has 1 to {MAX_USER} characters")
        groups = _values(request.query, "group")
        if not all(0 < len(group) <= MAX_USER for group in groups):
            raise bad_request(f"a group's name has 1 to {MAX_USER} characters")
        by_host = _values(request.query, "host") == ["name"]
        if _values(request.query, "credential") == ["none"]:
            await self._record(request.name)
            return Answer(200, YAML, self._rendered(request.name, user, None, by_host=by_host))
        return Answer(200, YAML, await self.kubeconfig(request.name, user, groups, by_host=by_host))

    def _rendered(self, tenant: str, user: str, pair: pki.Pair | None, *, by_host: bool) -> bytes:
        return kubeconfig.kubeconfig(
            tenant=tenant,
            url=self._endpoint.url_of(tenant) if by_host else self._endpoint.url,
            server_authority=self._server.certificate,
            user=user,
            pair=pair,
        )

    async def kubeconfig(
        self,
        tenant: str,
        user: str = kubeconfig.ADMIN,
        groups: Sequence[str] = (),
        *,
        by_host: bool = False,
    ) -> bytes:
        """Return a kubeconfig with a new certificate for a user of a tenant.

        Args:
            tenant: Name of the tenant.
            user: Name of the user.
            groups: Groups of the user. Empty: those of an administrator, or none.
            by_host: Whether its URL has the host name of the tenant, if tenants have host names.

        Raises:
            StatusError: 404, the tenant does not exist.
            StoreError: The store cannot be read.
        """
        authority = (await self._record(tenant)).authority
        if authority is None:
            raise not_found("tenants", "", tenant)
        known = tuple(groups) or kubeconfig.default_groups(tenant, user)
        after = self._revocations.issue_after(tenant, user)
        pair = pki.issue_client(authority, user, known, self._clock(), after=after)
        return self._rendered(tenant, user, pair, by_host=by_host)

    async def _export(self, request: _Request) -> Answer:
        record = await self._record(request.name)
        return _json(200, {"files": dict(kubeconfig.controller_files(record, self._server.certificate))})

    async def _record(self, tenant: str) -> TenantRecord:
        found = await self._registry.credentials(tenant)
        if found is None:
            raise not_found("tenants", "", tenant)
        return found.record

    def _shown(self, record: TenantRecord) -> dict[str, Any]:
        return {
            "name": record.name,
            "uid": record.uid,
            "created": record.created,
            "phase": record.phase,
            "controllers": record.controllers,
            "nodes": record.nodes,
            "storageBytes": record.storage_bytes,
            "storageObjects": record.storage_objects,
            "weight": record.weight,
            "limits": record.limits,
            "limitsReached": self._reports.refused(record.name),
            "limitsInForce": None
            if record.name == SYSTEM
            else in_force(record.request_limits, self._default_limits),
            "server": record.upstream.server if record.upstream else "",
            "readable": record.upstream.readable if record.upstream else (),
            "suspended": record.suspended,
            "stalls": record.stalls,
            "aside": record.aside,
        }

    routes: ClassVar[
        Mapping[tuple[bool, str], Mapping[str, Callable[["OperatorApi", _Request], Awaitable[Answer]]]]
    ] = {
        (False, ""): {"GET": _list, "POST": _create},
        (True, ""): {"GET": _show, "PATCH": _change, "DELETE": _delete},
        (True, "kubeconfig"): {"GET": _kubeconfig},
        (True, "export"): {"GET": _export},
        (True, "rotate"): {"POST": _rotate},
        (True, "revoke"): {"POST": _revoke},
        (True, "revocations"): {"GET": _revoked},
        (True, "usage"): {"GET": _usage},
        (True, "stalls"): {"POST": _stalled},
        (True, "release"): {"POST": _release},
        (True, "certificates"): {"POST": _certificate},
        (True, "tokens"): {"POST": _token},
    }
    """Handlers by (whether the path names a tenant, subresource) and method."""


def _check_network(tenant: _NewTenant, network: NetworkSpec) -> None:
    """Return if a new tenant can have a network.

    Raises:
        StatusError: 400.
    """
    if problem := network.problem():
        raise bad_request(f"network: {problem}")
    if tenant.upstream is not None or (tenant.controllers, tenant.nodes) != ("vcsync", "virtual"):
        raise bad_request(
            "network: tenants with controllers, nodes or a server of their own have none: remove it"
        )


def _reference(body: bytes) -> _Reference:
    try:
        return msgspec.json.decode(body, type=_Reference)
    except msgspec.MsgspecError as error:
        raise bad_request(f"name an object as JSON: {error}") from error


def _values(query: Query, key: str) -> list[str]:
    found = query.get(key) or ()
    return [found] if isinstance(found, str) else list(found)


def _json(status: int, body: Any) -> Answer:
    return Answer(status, JSON, msgspec.json.encode(body))

"""The operator's HTTP API for tenants, below /vcsync/v1/; `vcsync tenant` speaks it.

GET and POST tenants; GET, PATCH and DELETE tenants/NAME (DELETE: ?gracePeriodSeconds=N);
GET tenants/NAME/kubeconfig?user=U&group=G; GET tenants/NAME/export; POST tenants/NAME/rotate;
POST tenants/NAME/revoke; GET tenants/NAME/revocations. Our controllers ask besides for what only tenants' keys sign:
POST tenants/NAME/certificates; POST tenants/NAME/tokens.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec

from vcsync.controlplane.errors import StatusError, bad_request, method_not_allowed, not_found, page_not_found
from vcsync.controlplane.identity.authorizer import Authorizer
from vcsync.controlplane.identity.caller import ELSEWHERE, Attributes, Caller
from vcsync.controlplane.identity.revocations import Revocation, Revocations
from vcsync.controlplane.tenants import kubeconfig, pki
from vcsync.controlplane.tenants.departing import Departures
from vcsync.controlplane.tenants.issuing import Issuer
from vcsync.controlplane.tenants.lifecycle import Lifecycle
from vcsync.controlplane.tenants.records import Authority, Controllers, Nodes, TenantRecord
from vcsync.controlplane.tenants.registry import TenantRegistry

PREFIX = "/vcsync/v1/"
JSON = "application/json"
YAML = "application/yaml"
MAX_USER = 64
"""Characters of a user's name: a certificate's common name has no more."""

MAX_SERIAL = 40
"""Hex digits of a serial number: RFC 5280 has 20 bytes at most."""

MAX_GRACE_SECONDS = 7 * 24 * 3600
"""That finalizers of a deleted tenant may be respected for."""

MAX_DIGITS = 10
"""Of a number of seconds; more of them Python would not even read."""

MAX_PARTS = 3
"""Of a path: `tenants`, a name, and what of it."""

Query = Mapping[str, Sequence[str]]
Read = Callable[[], Awaitable[bytes]]
"""Reads a request's body; raises StatusError 400, 408, 413, 429."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client is sent."""

    status: int
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request asks. `name`: the tenant's, empty if it names none; `read`: its body, read when it is needed."""

    name: str
    query: Query
    read: Read


class _NewTenant(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    controllers: Controllers = "vcsync"
    nodes: Nodes = "virtual"


_Limit = Annotated[int, msgspec.Meta(ge=0)] | None | msgspec.UnsetType
"""None: what holds for all."""


class _Change(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    controllers: Controllers | msgspec.UnsetType = msgspec.UNSET
    storage_bytes: _Limit = msgspec.UNSET
    storage_objects: _Limit = msgspec.UNSET


class _Meant(msgspec.Struct, forbid_unknown_fields=True):
    """Which object something is to be signed for."""

    name: str
    uid: str
    namespace: str = ""


class _Revoke(msgspec.Struct, forbid_unknown_fields=True):
    serial: str = ""
    user: str = ""


class Admin:
    """Answers the operator."""

    def __init__(
        self,
        *,
        registry: TenantRegistry,
        lifecycle: Lifecycle,
        departures: Departures,
        revocations: Revocations,
        issuer: Issuer,
        authorizer: Authorizer,
        server: Authority,
        clock: Callable[[], float],
        url: str,
    ) -> None:
        """Take what knows and changes tenants, who may, and what kubeconfigs tell of the server."""
        self._registry = registry
        self._lifecycle = lifecycle
        self._departures = departures
        self._revocations = revocations
        self._issuer = issuer
        self._authorizer = authorizer
        self._server = server
        self._clock = clock
        self._url = url

    async def handle(self, caller: Caller, method: str, path: str, query: Query, read: Read) -> Answer:
        """Answer one request; `path` begins with `/vcsync/v1/`.

        The body is read once the caller may do what it asks for, and only where there is use for it.

        Raises:
            StatusError: whatever stands in the way.
            StoreError: the store cannot be read or written.
        """
        if not caller.system:
            raise StatusError(403, "Forbidden", ELSEWHERE, empty_details=True)
        await self._authorizer.authorize(caller, Attributes(method.lower(), path, resource_request=False))
        parts = path.removeprefix(PREFIX).split("/")
        if parts[0] != "tenants" or not all(parts):
            raise page_not_found()
        name, what = (*parts[1:], "", "")[:2]
        answers = self.routes.get((bool(name), what))
        if answers is None or len(parts) > MAX_PARTS:
            raise page_not_found()
        if method not in answers:
            raise method_not_allowed()
        return await answers[method](self, _Asked(name, query, read))

    async def _list(self, _: _Asked) -> Answer:
        found = [_shown(record) async for record, _ in self._registry.records()]
        return _json(200, {"items": found})

    async def _create(self, asked: _Asked) -> Answer:
        body = await asked.read()
        try:
            wanted = msgspec.json.decode(body, type=_NewTenant)
        except msgspec.MsgspecError as error:
            raise bad_request(f"give a name as JSON: {error}") from error
        made = await self._lifecycle.create(wanted.name, wanted.controllers, wanted.nodes)
        return _json(201, _shown(made))

    async def _show(self, asked: _Asked) -> Answer:
        name = asked.name
        if self._registry.admits(name):
            return _json(200, _shown(await self._record(name)))
        record, left = await self._departures.look(name)
        return _json(200, {**_shown(record), "deadline": record.deadline, "left": left})

    async def _change(self, asked: _Asked) -> Answer:
        name, body = asked.name, await asked.read()
        try:
            wanted = msgspec.json.decode(body, type=_Change)
        except msgspec.MsgspecError as error:
            raise bad_request(f"give what is to change as JSON: {error}") from error
        limits = {
            field: given
            for field in ("storage_bytes", "storage_objects")
            if (given := getattr(wanted, field)) is not msgspec.UNSET
        }
        record = None
        if wanted.controllers is not msgspec.UNSET:
            record = await self._lifecycle.give_controllers(name, wanted.controllers)
        if limits:
            record = await self._lifecycle.limit_storage(name, **limits)
        return _json(200, _shown(record or await self._record(name)))

    async def _delete(self, asked: _Asked) -> Answer:
        given = (_values(asked.query, "gracePeriodSeconds") or ["0"])[0]
        if not given.isdecimal() or len(given) > MAX_DIGITS or int(given) > MAX_GRACE_SECONDS:
            raise bad_request(f"gracePeriodSeconds: give a number from 0 to {MAX_GRACE_SECONDS}")
        record = await self._departures.delete(asked.name, int(given))
        return _json(202 if record.phase == "Draining" else 200, _shown(record))

    async def _rotate(self, asked: _Asked) -> Answer:
        return _json(200, _shown(await self._lifecycle.rotate(asked.name)))

    async def _revoke(self, asked: _Asked) -> Answer:
        name = asked.name
        await self._record(name)
        body = await asked.read()
        try:
            wanted = msgspec.json.decode(body, type=_Revoke)
            serial = f"{int(wanted.serial.replace(':', ''), 16):x}" if wanted.serial else ""
        except (msgspec.MsgspecError, ValueError) as error:
            raise bad_request(f"give a serial number in hex, or a user, as JSON: {error}") from error
        if bool(serial) == bool(wanted.user) or len(wanted.user) > MAX_USER or len(serial) > MAX_SERIAL:
            raise bad_request("give either a serial number in hex or a user")
        # The second that has begun is left to the certificates that follow: they begin in it at the earliest.
        at = int(self._clock()) - 1 if wanted.user else 0
        revocation = Revocation(serial, wanted.user, at)
        await self._revocations.revoke(name, revocation)
        return _json(201, revocation)

    async def _revoked(self, asked: _Asked) -> Answer:
        await self._record(asked.name)
        return _json(200, {"items": self._revocations.of(asked.name)})

    async def _certificate(self, asked: _Asked) -> Answer:
        meant = _meant(await asked.read())
        return _json(200, await self._issuer.certificate(asked.name, meant.name, meant.uid))

    async def _token(self, asked: _Asked) -> Answer:
        meant = _meant(await asked.read())
        token = await self._issuer.token(asked.name, meant.namespace, meant.name, meant.uid)
        return _json(200, {"token": token})

    async def _kubeconfig(self, asked: _Asked) -> Answer:
        user = (_values(asked.query, "user") or [kubeconfig.ADMIN])[0]
        if not 0 < len(user) <= MAX_USER:
            raise bad_request(f"a user's name has 1 to {MAX_USER} characters")
        groups = _values(asked.query, "group")
        if not all(0 < len(group) <= MAX_USER for group in groups):
            raise bad_request(f"a group's name has 1 to {MAX_USER} characters")
        return Answer(200, YAML, await self.kubeconfig(asked.name, user, groups))

    async def kubeconfig(
        self, tenant: str, user: str = kubeconfig.ADMIN, groups: Sequence[str] = ()
    ) -> bytes:
        """Return a kubeconfig with a new certificate for a user of a tenant.

        Raises:
            StatusError: 404, there is no such tenant.
            StoreError: the store cannot be read.
        """
        authority = (await self._record(tenant)).authority
        if authority is None:
            raise not_found("tenants", "", tenant)
        known = tuple(groups) or kubeconfig.default_groups(tenant, user)
        after = self._revocations.issue_after(tenant, user)
        pair = pki.issue_client(authority, user, known, self._clock(), after=after)
        return kubeconfig.kubeconfig(
            tenant=tenant, url=self._url, server_authority=self._server.certificate, user=user, pair=pair
        )

    async def _export(self, asked: _Asked) -> Answer:
        record = await self._record(asked.name)
        return _json(200, {"files": dict(kubeconfig.controller_files(record, self._server.certificate))})

    async def _record(self, tenant: str) -> TenantRecord:
        found = await self._registry.credentials(tenant)
        if found is None:
            raise not_found("tenants", "", tenant)
        return found.record

    routes: ClassVar[
        Mapping[tuple[bool, str], Mapping[str, Callable[["Admin", _Asked], Awaitable[Answer]]]]
    ] = {
        (False, ""): {"GET": _list, "POST": _create},
        (True, ""): {"GET": _show, "PATCH": _change, "DELETE": _delete},
        (True, "kubeconfig"): {"GET": _kubeconfig},
        (True, "export"): {"GET": _export},
        (True, "rotate"): {"POST": _rotate},
        (True, "revoke"): {"POST": _revoke},
        (True, "revocations"): {"GET": _revoked},
        (True, "certificates"): {"POST": _certificate},
        (True, "tokens"): {"POST": _token},
    }
    """What answers: by whether a tenant is named, what of it, and the method."""


def _meant(body: bytes) -> _Meant:
    try:
        return msgspec.json.decode(body, type=_Meant)
    except msgspec.MsgspecError as error:
        raise bad_request(f"name an object as JSON: {error}") from error


def _values(query: Query, key: str) -> list[str]:
    found = query.get(key) or ()
    return [found] if isinstance(found, str) else list(found)


def _shown(record: TenantRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "uid": record.uid,
        "created": record.created,
        "phase": record.phase,
        "controllers": record.controllers,
        "nodes": record.nodes,
        "storageBytes": record.storage_bytes,
        "storageObjects": record.storage_objects,
    }


def _json(status: int, body: Any) -> Answer:
    return Answer(status, JSON, msgspec.json.encode(body))

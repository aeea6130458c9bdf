"""Ends long-running requests, such as watches, once the credentials of their caller are no longer valid.

A request is authenticated again when an object changes that its credentials depend on: the revocation list of its
tenant, the tenant itself, or the ServiceAccount, Pod or Node that a token is bound to. The request of a guest also
depends on its grants, their acceptance, and the time at which they expire. A request that does more than read, such as
exec, ends when its tenant is suspended; every request ends when its tenant is set aside.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.resources import object_key
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authentication.revocations import PREFIX as REVOKED
from vcsync.apiserver.authorization.policy import ACCOUNT_PREFIX
from vcsync.apiserver.grants.grant import grant_key, offer_key
from vcsync.apiserver.request.caller import ALL, Caller, Granted
from vcsync.apiserver.storage.interface import Change, StoreError
from vcsync.apiserver.tenants.records import TENANTS

SETTLE_SECONDS = 0.2
"""Time for which changes are collected before requests are authenticated again."""
RETRY_SECONDS = 1.0
"""Time until a request is authenticated again whose credentials could not be checked because the store failed."""
BATCH = 50
"""Requests that are authenticated again before the event loop runs other tasks."""
BOUND_OBJECT_EXTRA = {
    "pods": "authentication.kubernetes.io/pod-name",
    "nodes": "authentication.kubernetes.io/node-name",
}
"""Plural of the kinds that a token can be bound to, and the key of the user's extra that names the object."""
_log = structlog.get_logger(__name__)

Authenticate = Callable[[bytes | None, str | None, str | None], Awaitable[Caller]]
"""See `filters.identity.Identity.authenticate`."""
Guests = Callable[[Caller, str], Awaitable[Caller]]
"""See `grants.index.GrantIndex.guest`."""


@dataclass(eq=False, slots=True)
class LongRunningRequest:
    """A registered request; `end` it.

    Attributes:
        requests: Where the request is registered.
        caller: The caller that the credentials belong to, before impersonation.
        tenant: Tenant that the URL names, if it names one.
        certificate: Client certificate in DER form, if the request has one.
        authorization: Value of the Authorization header, if the request has one.
        abort: Aborts the connection of the request.
        grants: Grants that admitted the caller as a guest of `tenant`.
        reads: Whether a suspended tenant may make the request.
        keys: Keys of the store on which the validity of the credentials and grants depends.
        timer: Checks the request again when the first of its grants expires.
    """

    requests: "LongRunningRequests"
    caller: Caller
    tenant: str | None
    certificate: bytes | None
    authorization: str | None
    abort: Callable[[], None]
    grants: tuple[Granted, ...] = ()
    reads: bool = True
    keys: tuple[str, ...] = ()
    timer: asyncio.TimerHandle | None = None

    def end(self) -> None:
        """Unregister the request."""
        self.requests.unregister(self)


class LongRunningRequests:
    """All long-running requests of this process.

    Args:
        authenticate: Returns the caller that credentials belong to.
        exists: Returns whether a tenant exists.
        guests: Returns a caller as a guest of a tenant, or unchanged. None: there are no grants.
        clock: Returns seconds since the epoch.
        suspended: Returns whether a tenant is suspended.
        aside: Returns why a tenant is set aside, or an empty text if it is not.
    """

    def __init__(
        self,
        authenticate: Authenticate,
        exists: Callable[[str], bool],
        guests: Guests | None = None,
        clock: Callable[[], float] = time.time,
        *,
        suspended: Callable[[str], bool] = lambda _: False,
        aside: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._authenticate = authenticate
        self._exists = exists
        self._guests = guests
        self._suspended = suspended
        self._aside = aside
        self._clock = clock
        self._by_key: defaultdict[str, set[LongRunningRequest]] = defaultdict(set)
        self._due: dict[LongRunningRequest, None] = {}
        self._wake = asyncio.Event()

    def register(
        self,
        caller: Caller,
        tenant: str | None,
        certificate: bytes | None,
        authorization: str | None,
        abort: Callable[[], None],
        *,
        grants: tuple[Granted, ...] = (),
        reads: bool = True,
    ) -> LongRunningRequest:
        """Register a request that has just been authenticated. The arguments are those of `LongRunningRequest`."""
        keys = {f"{TENANTS}{each}" for each in (caller.tenant, tenant) if each and each != ALL}
        keys |= {f"{REVOKED}{caller.tenant}", *bound_object_keys(caller)}
        for grant in grants:
            keys |= {grant_key(tenant or "", grant.name), offer_key(caller.tenant, f"{tenant}.{grant.name}")}
        request = LongRunningRequest(
            self, caller, tenant, certificate, authorization, abort, grants, reads, tuple(keys)
        )
        self._schedule(request)
        for key in request.keys:
            self._by_key[key].add(request)
        return request

    def unregister(self, request: LongRunningRequest) -> None:
        """Forget a request that has ended."""
        self._due.pop(request, None)
        if request.timer is not None:
            request.timer.cancel()
        for key in request.keys:
            requests = self._by_key.get(key)
            if requests is not None:
                requests.discard(request)
                if not requests:
                    del self._by_key[key]

    def _schedule(self, request: LongRunningRequest) -> None:
        """Check a request again when the first of its grants expires."""
        ends = [each.expires for each in request.grants if each.expires is not None]
        if ends:
            seconds = max(min(ends) - self._clock(), SETTLE_SECONDS)
            request.timer = asyncio.get_running_loop().call_later(seconds, self._retry, request)

    def changed(self, changes: Sequence[Change]) -> None:
        """Check the requests that changes of the store concern again. Each change costs one look-up in a dict."""
        for change in changes:
            key = change.key
            if key.startswith(REVOKED):
                key = REVOKED + key.removeprefix(REVOKED).partition("/")[0]
            requests = self._by_key.get(key)
            if requests:
                self._enqueue(requests)

    def missed(self) -> None:
        """Check every request again, because changes of the store may have been missed."""
        for requests in self._by_key.values():
            self._enqueue(requests)

    def _enqueue(self, requests: set[LongRunningRequest]) -> None:
        self._due.update(dict.fromkeys(requests))
        self._wake.set()

    async def run(self) -> None:
        """Authenticate the requests that are due again, until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            self._wake.clear()
            due, self._due = self._due, {}
            for number, request in enumerate(due):
                if number % BATCH == 0:
                    await asyncio.sleep(0)
                if not await self._is_valid(request):
                    _log.info(
                        "a long-running request was ended: its credentials are invalid, or its tenant is suspended or set aside",
                        tenant=request.caller.tenant,
                    )
                    request.end()
                    request.abort()
                elif request.timer is not None and request.timer.when() <= asyncio.get_running_loop().time():
                    self._schedule(request)

    async def _is_valid(self, request: LongRunningRequest) -> bool:
        """Return whether the credentials of a request still belong to its caller. If the store fails, they do for now."""
        try:
            caller = await self._authenticate(request.certificate, request.authorization, request.tenant)
            if request.grants and not await self._is_admitted(request, caller):
                return False
        except StatusError:
            return False
        except StoreError:
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._retry, request)
            return True
        tenant = request.tenant or caller.tenant
        if not caller.system and (self._aside(tenant) or (not request.reads and self._suspended(tenant))):
            return False
        gone = request.tenant and request.tenant != ALL and not self._exists(request.tenant)
        same = caller.tenant == request.caller.tenant and caller.user.name == request.caller.user.name
        return same and not gone

    async def _is_admitted(self, request: LongRunningRequest, caller: Caller) -> bool:
        """Return whether all grants that admitted a guest still do, unchanged."""
        if self._guests is None:
            return False
        now = (await self._guests(caller, request.tenant or "")).grants
        return set(request.grants) <= set(now)

    def _retry(self, request: LongRunningRequest) -> None:
        if any(request in self._by_key.get(key, ()) for key in request.keys):
            self._enqueue({request})


def bound_object_keys(caller: Caller) -> list[str]:
    """Return the keys of the ServiceAccount, Pod and Node that the token of a caller is bound to."""
    user, tenant = caller.user, caller.tenant
    if not user.name.startswith(ACCOUNT_PREFIX):
        return []
    namespace, _, name = user.name.removeprefix(ACCOUNT_PREFIX).partition(":")
    keys = [object_key(tenant, "", "serviceaccounts", namespace, name)]
    for plural, extra in BOUND_OBJECT_EXTRA.items():
        if bound := _first(user, extra):
            keys.append(object_key(tenant, "", plural, namespace if plural == "pods" else "", bound))
    return keys


def _first(user: User, key: str) -> str:
    return next(iter(user.extra.get(key, ())), "")

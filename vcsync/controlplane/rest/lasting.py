"""Requests that last, such as watches, end when whoever asked counts no more.

A certificate is revoked, a token's account or Pod is deleted, a tenant goes: whatever hangs on it is looked at again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.identity.caller import ALL, Caller
from vcsync.controlplane.identity.policy import ACCOUNT_PREFIX
from vcsync.controlplane.identity.revocations import PREFIX as REVOKED
from vcsync.controlplane.resources import object_key
from vcsync.controlplane.store.interface import Change, StoreError
from vcsync.controlplane.tenants.records import TENANTS

SETTLE_SECONDS = 0.2
"""How long changes are collected before requests are looked at."""
RETRY_SECONDS = 1.0
AT_ONCE = 50
"""Requests that are looked at before others in the event loop get their turn."""
EXTRA = {
    "pods": "authentication.kubernetes.io/pod-name",
    "nodes": "authentication.kubernetes.io/node-name",
}
"""Where a user's extra tells what a token hangs on."""
_log = structlog.get_logger(__name__)

Authenticate = Callable[[bytes | None, str | None, str | None], Awaitable[Caller]]
"""See `way.Identity.authenticate`."""


@dataclass(eq=False, slots=True)
class Open:
    """A request that lasts; `end` it.

    Attributes:
        caller: who asked, by the credentials alone.
        tenant: whose objects it is about; as the URL names it, if it does.
        certificate, authorization: the credentials.
        cut: ends it from outside.
        keys: of what else it hangs on.
    """

    lasting: "Lasting"
    caller: Caller
    tenant: str | None
    certificate: bytes | None
    authorization: str | None
    cut: Callable[[], None]
    keys: tuple[str, ...] = ()

    def end(self) -> None:
        """Take note that it is over."""
        self.lasting.forget(self)


class Lasting:
    """All requests that last."""

    def __init__(self, authenticate: Authenticate, exists: Callable[[str], bool]) -> None:
        """Take what finds out who asks, and whether there is a tenant."""
        self._authenticate = authenticate
        self._exists = exists
        self._by_key: defaultdict[str, set[Open]] = defaultdict(set)
        self._due: dict[Open, None] = {}
        self._wake = asyncio.Event()

    def begin(
        self,
        caller: Caller,
        tenant: str | None,
        certificate: bytes | None,
        authorization: str | None,
        cut: Callable[[], None],
    ) -> Open:
        """Take note of a request whose caller has just been found out; see `Open`."""
        keys = {f"{TENANTS}{each}" for each in (caller.tenant, tenant) if each and each != ALL}
        keys |= {f"{REVOKED}{caller.tenant}"}
        found = Open(self, caller, tenant, certificate, authorization, cut, (*keys, *hanging_on(caller)))
        for key in found.keys:
            self._by_key[key].add(found)
        return found

    def forget(self, one: Open) -> None:
        """Drop a request that is over."""
        self._due.pop(one, None)
        for key in one.keys:
            known = self._by_key.get(key)
            if known is not None:
                known.discard(one)
                if not known:
                    del self._by_key[key]

    def changed(self, changes: Sequence[Change]) -> None:
        """Take note of changes of the store; a look into a dict for each."""
        for change in changes:
            key = change.key
            if key.startswith(REVOKED):
                key = REVOKED + key.removeprefix(REVOKED).partition("/")[0]
            known = self._by_key.get(key)
            if known:
                self._look_at(known)

    def missed(self) -> None:
        """Look at everything: changes may have been missed."""
        for known in self._by_key.values():
            self._look_at(known)

    def _look_at(self, known: set[Open]) -> None:
        self._due.update(dict.fromkeys(known))
        self._wake.set()

    async def run(self) -> None:
        """Look at what is due until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            self._wake.clear()
            due, self._due = self._due, {}
            for number, each in enumerate(due):
                if number % AT_ONCE == 0:
                    await asyncio.sleep(0)
                if not await self._counts(each):
                    _log.info("a request was ended: its caller counts no more", tenant=each.caller.tenant)
                    each.end()
                    each.cut()

    async def _counts(self, one: Open) -> bool:
        try:
            again = await self._authenticate(one.certificate, one.authorization, one.tenant)
        except StatusError:
            return False
        except StoreError:
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._again, one)
            return True
        gone = one.tenant and one.tenant != ALL and not self._exists(one.tenant)
        return again.tenant == one.caller.tenant and again.user.name == one.caller.user.name and not gone

    def _again(self, one: Open) -> None:
        if any(one in self._by_key.get(key, ()) for key in one.keys):
            self._look_at({one})


def hanging_on(caller: Caller) -> list[str]:
    """Return the keys of the ServiceAccount, Pod and node without which a caller's token counts no more."""
    user, tenant = caller.user, caller.tenant
    if not user.name.startswith(ACCOUNT_PREFIX):
        return []
    namespace, _, name = user.name.removeprefix(ACCOUNT_PREFIX).partition(":")
    keys = [object_key(tenant, "", "serviceaccounts", namespace, name)]
    for plural, extra in EXTRA.items():
        if bound := _only(user, extra):
            keys.append(object_key(tenant, "", plural, namespace if plural == "pods" else "", bound))
    return keys


def _only(user: User, key: str) -> str:
    return next(iter(user.extra.get(key, ())), "")

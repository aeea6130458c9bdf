"""Authenticates ServiceAccount tokens of external control planes by the keys that their API servers publish.

The signature tells the gateway who calls, for limits, audit and metering. The API server receives the token itself and
decides whether it is still valid.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authentication import tokens
from vcsync.apiserver.authentication.authenticator import account_user
from vcsync.apiserver.authentication.jwt_keys import Key, parse_keys, signed_claims
from vcsync.apiserver.authentication.provider_calls import CallError
from vcsync.apiserver.authentication.tokens import TokenError
from vcsync.apiserver.storage.interface import StoreError

KEPT_SECONDS = 600.0
"""Time after which keys are read again."""
RETRY_SECONDS = 10.0
"""Least time between two reads of the keys of one tenant, whatever tokens arrive."""
FIRST_SECONDS = 5.0
"""Time for which a token waits for the first read of its tenant's keys."""
MAX_READS = 16
"""Concurrent reads."""

ReadKeys = Callable[[str], Awaitable[bytes]]
"""Returns the JSON Web Key Set of a tenant's API server; see `forward.Forwarder.key_set`."""
_log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True)
class _KeySet:
    """The keys of one tenant. `first` is set after the first attempt to read them."""

    keys: tuple[Key, ...] = ()
    asked: float = float("-inf")
    first: asyncio.Event = field(default_factory=asyncio.Event)


class AccountTokens:
    """Authenticates tokens; implements `authenticator.ControlPlaneTokens`.

    A token waits only for the first read of its tenant's keys. Later reads happen in the background, so that the time of
    an answer does not tell which tenants have an external control plane.

    Args:
        serves: Tells whether the control plane of a tenant is external.
        read: Reads the keys of a tenant.
        now: Returns seconds since the epoch.
        monotonic: Returns seconds that only grow.
    """

    def __init__(
        self,
        serves: Callable[[str], bool],
        read: ReadKeys,
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._serves = serves
        self._read = read
        self._now = now
        self._monotonic = monotonic
        self._sets: dict[str, _KeySet] = {}
        self._due: dict[str, None] = {}
        self._wake = asyncio.Event()

    async def identify(self, token: str, tenant: str) -> User | None:
        """Return the user of a token that the API server of a tenant has issued, or None for other tokens."""
        if len(token) > tokens.MAX_BYTES or not token.isascii() or not self._serves(tenant):
            return None
        known = self._sets.setdefault(tenant, _KeySet())
        try:
            claims = signed_claims(token, known.keys)
            if claims is None and not known.first.is_set():
                self._request(tenant, known)
                await _event(known.first)
                claims = signed_claims(token, known.keys)
            if claims is None or self._monotonic() - known.asked > KEPT_SECONDS:
                self._request(tenant, known)
            if claims is None:
                return None
            found = tokens.account_claims(claims)
            tokens.check_time(found, self._now())
        except TokenError as error:
            _log.info("token of an external control plane refused", tenant=tenant, reason=str(error))
            return None
        return account_user(found)

    def _request(self, tenant: str, known: _KeySet) -> None:
        """Have the keys of a tenant read, unless that has happened within `RETRY_SECONDS`."""
        if self._monotonic() - known.asked < RETRY_SECONDS:
            return
        known.asked = self._monotonic()
        self._due[tenant] = None
        self._wake.set()

    def forget(self, tenant: str) -> None:
        """Forget the keys of a tenant whose API server may be another one."""
        self._sets.pop(tenant, None)

    async def run(self) -> None:
        """Read keys until cancelled."""
        free = asyncio.Semaphore(MAX_READS)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._wake.wait()
                self._wake.clear()
                due, self._due = self._due, {}
                for tenant in due:
                    await free.acquire()
                    tasks.create_task(self._refresh(tenant)).add_done_callback(lambda _: free.release())

    async def _refresh(self, tenant: str) -> None:
        """Read the keys of a tenant. If that fails, the known ones stay valid."""
        known = self._sets.get(tenant)
        if known is None:
            return
        try:
            known.keys = tuple(parse_keys(await self._read(tenant)))
        except (StatusError, StoreError, CallError) as error:
            _log.warning("keys of an external control plane cannot be read", tenant=tenant, error=str(error))
        finally:
            known.first.set()


async def _event(event: asyncio.Event) -> None:
    """Wait for an event, for `FIRST_SECONDS` at most."""
    try:
        async with asyncio.timeout(FIRST_SECONDS):
            await event.wait()
    except TimeoutError:
        return

"""Authenticates ServiceAccount tokens of external control planes by the keys that their API servers publish.

The signature tells the gateway who calls, for limits, audit and metering. The API server receives the token itself and
decides whether it is still valid.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric import rsa

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
MAX_READS = 256
"""Concurrent reads. There is one at most for each tenant, so that those that hang leave room for the others."""
MAX_RSA_BITS, MAX_EXPONENT = 4096, 2**32
"""Largest RSA keys. Tenants publish the keys, and larger ones would take milliseconds of the event loop for each token."""

ReadKeys = Callable[[str], Awaitable[bytes]]
"""Returns the JSON Web Key Set of a tenant's API server; see `forward.Forwarder.key_set`."""
_log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True)
class _KeySet:
    """The keys of one tenant, by id. `first` is set after the first attempt to read them."""

    keys: Mapping[str, Key] = field(default_factory=dict)
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
            claims = _claims(token, known.keys)
            if claims is None and not known.first.is_set():
                self._request(tenant, known)
                await _event(known.first)
                claims = _claims(token, known.keys)
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
                    tasks.create_task(self._refresh(tenant, free))

    async def _refresh(self, tenant: str, free: asyncio.Semaphore) -> None:
        """Read the keys of a tenant. If that fails, the known ones stay valid."""
        known = self._sets.get(tenant)
        if known is None:
            return
        try:
            async with free:
                known.keys = _usable(parse_keys(await self._read(tenant)))
        except (StatusError, StoreError, CallError) as error:
            _log.warning("keys of an external control plane cannot be read", tenant=tenant, error=str(error))
        except Exception:  # noqa: BLE001 - the tenant writes the document, and must not stop the others
            _log.exception("keys of an external control plane cannot be used", tenant=tenant)
        finally:
            known.first.set()


def _usable(keys: Iterable[Key]) -> dict[str, Key]:
    """Return the keys of moderate size, by id. A token is checked against one key only, that of its id."""
    return {each.id: each for each in keys if each.id and _is_moderate(each)}


def _is_moderate(key: Key) -> bool:
    if not isinstance(key.key, rsa.RSAPublicKey):
        return True
    return key.key.key_size <= MAX_RSA_BITS and key.key.public_numbers().e < MAX_EXPONENT


def _claims(token: str, keys: Mapping[str, Key]) -> dict[str, Any] | None:
    """Return the claims of a token if the key of its id has signed it, or None.

    Raises:
        TokenError: It is no JSON web token, or is signed by an algorithm that is not accepted.
    """
    try:
        identifier = jwt.get_unverified_header(token).get("kid")
    except (jwt.PyJWTError, RecursionError) as error:
        raise TokenError("it is no JSON web token") from error
    key = keys.get(identifier) if isinstance(identifier, str) else None
    return None if key is None else signed_claims(token, (key,))


async def _event(event: asyncio.Event) -> None:
    """Wait for an event, for `FIRST_SECONDS` at most."""
    try:
        async with asyncio.timeout(FIRST_SECONDS):
            await event.wait()
    except TimeoutError:
        return

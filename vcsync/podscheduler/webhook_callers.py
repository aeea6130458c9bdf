"""The tenants that may ask about new Pods, by their tokens. A token is a Secret in the root namespace of its tenant."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256

import structlog

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError
from vcsync.podscheduler.admission_reviews import NewPod
from vcsync.podscheduler.promises import Promise
from vcsync.podscheduler.replays import Replays
from vcsync.tenancy.secrets import BadSecret, read_secret

READ_SECONDS = 60.0
"""Seconds between two reads of a tenant's token, for few tenants..."""
READ_SECONDS_EACH = 3.0
"""...and for each tenant, if that is more."""
MIN_TOKEN = 32
"""Shortest token. A shorter one could be guessed."""
OUTCOMES = ("placed", "left", "repeated", "refused", "limited", "late")
"""Outcomes of calls: a Pod gets a super cluster, gets none, or the answer that was given before; the call is forged or
malformed; the tenant calls too often; nobody waits for the answer any more."""

Ask = Callable[[NewPod], Promise | None]

_log = structlog.get_logger(__name__)


def digest(token: str) -> bytes:
    """Return by what a token is found. A look-up by it tells nothing about other tokens by the time that it takes."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


class Caller:
    """One tenant that may ask.

    Attributes:
        tenant: cluster key.
        ask: asks its session for a promise.
        replays: the latest answers.
    """

    def __init__(self, tenant: str, ask: Ask) -> None:
        self.tenant = tenant
        self.ask = ask
        self.replays = Replays(time.monotonic)


class Callers:
    """The tenants that may ask in one term.

    Args:
        meta: client of the meta cluster.
        sessions: the sessions, for their number.
    """

    def __init__(self, meta: Client, sessions: Mapping[str, object]) -> None:
        self._meta = meta
        self._sessions = sessions
        self._by_digest: dict[bytes, Caller] = {}
        self.counts = Counter(dict.fromkeys(OUTCOMES, 0))

    def __len__(self) -> int:
        return len(self._by_digest)

    def find(self, token: str) -> Caller | None:
        """Return the tenant that has a token; None if nobody has it."""
        return self._by_digest.get(digest(token))

    async def follow(self, tenant: str, ask: Ask) -> None:
        """Know a tenant's token until cancelled. A token that cannot be read again stays valid.

        Args:
            tenant: cluster key.
            ask: asks the tenant's session for a promise.
        """
        caller, known = Caller(tenant, ask), b""
        try:
            while True:
                try:
                    wanted = await self._read(tenant)
                    if wanted != known:
                        self._forget(known, caller)
                        known = wanted if self._know(wanted, caller) else b""
                except (KubeError, BadSecret) as error:
                    _log.warning(
                        "the token of the placement webhook cannot be read",
                        tenant=tenant,
                        error=str(error),
                    )
                await asyncio.sleep(max(READ_SECONDS, READ_SECONDS_EACH * len(self._sessions)))
        finally:
            self._forget(known, caller)

    async def _read(self, tenant: str) -> bytes:
        found = await read_secret(self._meta, names.PLACEMENT_SECRET, tenant)
        if found is None:
            return b""
        token = found.get(names.PLACEMENT_TOKEN_KEY, b"").decode("utf-8", "replace")
        if len(token) < MIN_TOKEN:
            raise BadSecret(
                f"Secret {tenant}/{names.PLACEMENT_SECRET}, key {names.PLACEMENT_TOKEN_KEY}: it is shorter than {MIN_TOKEN} "
                "characters; 'vcsync tenant renew --placement-webhook' makes another one"
            )
        return digest(token)

    def _know(self, wanted: bytes, caller: Caller) -> bool:
        """Remember a token, unless another tenant has it."""
        if wanted in self._by_digest:
            _log.error(
                "two tenants have one token for the placement webhook; renew one of them",
                tenant=caller.tenant,
                other=self._by_digest[wanted].tenant,
            )
            return False
        if wanted:
            self._by_digest[wanted] = caller
        return True

    def _forget(self, known: bytes, caller: Caller) -> None:
        if self._by_digest.get(known) is caller:
            del self._by_digest[known]

"""Bootstrap tokens: `ID.SECRET`, with which nodes join a cluster, stored in Secrets of kube-system.

A token does not name its tenant: it belongs to the tenant that has a Secret for it. The tenants that have a Secret for an
id are cached; their Secrets are read at every use.

Behaviour: kubernetes `plugin/pkg/auth/authenticator/token/bootstrap`.
"""

import asyncio
import base64
import binascii
import hmac
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
import structlog

from vcsync.apimachinery.resources import collection_key, object_key
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authentication.provider_claims import Identified
from vcsync.apiserver.authentication.tokens import TokenError
from vcsync.apiserver.storage.interface import Change, Store
from vcsync.patterns.linear import linear

NAMESPACE = "kube-system"
NAME_PREFIX = "bootstrap-token-"
TYPE = "bootstrap.kubernetes.io/token"
USER_PREFIX = "system:bootstrap:"
GROUP = "system:bootstrappers"
PAGE = 500
_TOKEN = linear(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_EXTRA_GROUP = linear(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_MARK = object_key("", "", "secrets", NAMESPACE, NAME_PREFIX)

_log = structlog.get_logger(__name__)


class BootstrapTokens:
    """Authenticates bootstrap tokens of all tenants."""

    def __init__(
        self, store: Store, tenants: Callable[[], Sequence[str]], clock: Callable[[], float]
    ) -> None:
        """Create an authenticator. Nothing is read before the first token arrives.

        Args:
            store: The store.
            tenants: Returns all tenants.
            clock: Returns seconds since the epoch.
        """
        self._store = store
        self._tenants = tenants
        self._clock = clock
        self._holders: dict[str, set[str]] = {}
        self._watching = self._complete = False
        self._reading = asyncio.Lock()

    def changed(self, changes: Iterable[Change]) -> None:
        """Apply changes of Secrets that may hold tokens. Other changes cost little."""
        for change in changes:
            if self._watching and _MARK in change.key:
                self._hold(change.key, there=change.value is not None)

    def forget_all(self) -> None:
        """Drop the cache, because changes may have been missed."""
        self._complete = False

    def _hold(self, key: str, *, there: bool = True) -> None:
        """Update the cached tenants of the Secret with a key."""
        tenant, _, identifier = key.partition(_MARK)
        if there:
            self._holders.setdefault(identifier, set()).add(tenant)
        elif holders := self._holders.get(identifier):
            holders.discard(tenant)
            if not holders:
                del self._holders[identifier]

    async def identify(self, token: str) -> Identified | None:
        """Return the user of a token, or None if it is not a bootstrap token.

        Raises:
            TokenError: The bootstrap token is invalid.
            StoreError: The store cannot be read.
        """
        parts = _TOKEN.fullmatch(token)
        if parts is None:
            return None
        await self._look()
        identifier, secret = parts.groups()
        found = []
        for tenant in sorted(self._holders.get(identifier, ())):
            groups = await self._groups(tenant, identifier, secret)
            if groups is not None:
                user = User(f"{USER_PREFIX}{identifier}", groups=groups)
                found.append(Identified(user, tenant))
        if len(found) > 1:
            raise TokenError("several tenants have that bootstrap token")
        if not found:
            raise TokenError("no tenant has that bootstrap token")
        return found[0]

    async def _look(self) -> None:
        if self._complete:
            return
        async with self._reading:
            if self._complete:
                return
            self._holders = {}
            self._watching = True  # from here on `changed` misses nothing
            for tenant in self._tenants():
                await self._look_at(tenant)
            self._complete = True

    async def _look_at(self, tenant: str) -> None:
        prefix, after = collection_key(tenant, "", "secrets", NAMESPACE) + NAME_PREFIX, ""
        while True:
            page = await self._store.range(prefix, after=after, limit=PAGE)
            for record in page.records:
                self._hold(record.key)
            if not page.more:
                return
            after = page.records[-1].key

    async def _groups(self, tenant: str, identifier: str, secret: str) -> tuple[str, ...] | None:
        """Return the groups that a tenant's Secret grants a token, or None if the tenant has no such token."""
        key = object_key(tenant, "", "secrets", NAMESPACE, NAME_PREFIX + identifier)
        record, _ = await self._store.get(key)
        if record is None:
            return None
        found: dict[str, Any] = msgspec.json.decode(record.value)
        data = {name: _text(value) for name, value in (found.get("data") or {}).items()}
        problem = self._problem(found, data, identifier, secret)
        groups = [each for each in data.get("auth-extra-groups", "").split(",") if each]
        if not problem and not all(map(_EXTRA_GROUP.fullmatch, groups)):
            problem = "auth-extra-groups"
        if problem:
            _log.info("bootstrap token refused", tenant=tenant, id=identifier, wrong=problem)
            return None
        return tuple(sorted({GROUP, *groups}))

    def _problem(self, found: dict[str, Any], data: dict[str, str], identifier: str, secret: str) -> str:
        """Return why the token of a Secret is invalid, or an empty text if it is valid."""
        if found["metadata"].get("deletionTimestamp"):
            return "deletionTimestamp"
        if found.get("type") != TYPE:
            return "type"
        if not hmac.compare_digest(data.get("token-secret", "").encode(), secret.encode()):
            return "token-secret"
        if data.get("token-id") != identifier:
            return "token-id"
        if self._expired(data.get("expiration", "")):
            return "expiration"
        return (
            "" if data.get("usage-bootstrap-authentication") == "true" else "usage-bootstrap-authentication"
        )

    def _expired(self, text: str) -> bool:
        """Tell whether a token has expired. An invalid time counts as expired."""
        if not text:
            return False
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            return True
        return at.tzinfo is None or at.timestamp() <= self._clock()


def _text(value: Any) -> str:
    try:
        return base64.b64decode(value or "").decode()
    except (binascii.Error, UnicodeDecodeError, TypeError, ValueError):
        return ""

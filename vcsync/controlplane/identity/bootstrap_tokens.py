"""Bootstrap tokens: `ID.SECRET`, good for what joins a cluster, kept in Secrets of kube-system.

Behaviour: kubernetes `plugin/pkg/auth/authenticator/token/bootstrap`. A token does not name its tenant: it is of that
one whose Secret holds it. Which tenants have a Secret of its id is remembered; their Secrets are read at every use.
"""

import asyncio
import base64
import binascii
import hmac
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
import structlog

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.identity.outside import Identified
from vcsync.controlplane.identity.tokens import TokenError
from vcsync.controlplane.resources import collection_key, object_key
from vcsync.controlplane.store.interface import Change, Store

NAMESPACE = "kube-system"
NAME_PREFIX = "bootstrap-token-"
TYPE = "bootstrap.kubernetes.io/token"
USER_PREFIX = "system:bootstrap:"
GROUP = "system:bootstrappers"
PAGE = 500
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_EXTRA_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_MARK = object_key("", "", "secrets", NAMESPACE, NAME_PREFIX)

_log = structlog.get_logger(__name__)


class BootstrapTokens:
    """Knows callers by bootstrap tokens of any tenant."""

    def __init__(
        self, store: Store, tenants: Callable[[], Sequence[str]], clock: Callable[[], float]
    ) -> None:
        """Take the store, what lists tenants, and the time. Nothing is read before the first token comes."""
        self._store = store
        self._tenants = tenants
        self._clock = clock
        self._holders: dict[str, set[str]] = {}
        self._watching = self._complete = False
        self._reading = asyncio.Lock()

    def changed(self, changes: Iterable[Change]) -> None:
        """Take note of Secrets that may hold tokens; cheap for all other changes."""
        for change in changes:
            if self._watching and _MARK in change.key:
                self._hold(change.key, there=change.value is not None)

    def forget_all(self) -> None:
        """Look for Secrets anew when the next token comes; changes may have been missed."""
        self._complete = False

    def _hold(self, key: str, *, there: bool = True) -> None:
        """Remember whose Secret this is."""
        tenant, _, identifier = key.partition(_MARK)
        if there:
            self._holders.setdefault(identifier, set()).add(tenant)
        elif holders := self._holders.get(identifier):
            holders.discard(tenant)
            if not holders:
                del self._holders[identifier]

    async def identify(self, token: str) -> Identified | None:
        """Return whom a token identifies; None: it is none of these.

        Raises:
            TokenError: it looks like one, but identifies nobody.
            StoreError: the store cannot be read.
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
            self._watching = True  # what changes from here on is not missed
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
        """Return the groups that a tenant's Secret gives to who shows it; None: it does not hold that token."""
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
        """Return what of a Secret keeps its token from counting; empty: nothing."""
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
        """Tell whether a token's time is over; what is no time has been over always."""
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

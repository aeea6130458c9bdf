"""Lets the requests of tenants through, or refuses them with 429, by the limits of the tenant and of the user."""

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import Literal

import structlog

from vcsync.api import names
from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.request.caller import UNAUTHENTICATED, Caller, quoted
from vcsync.apiserver.requestlimits.account import (
    BYTES,
    CONCURRENT,
    READS,
    WATCHES,
    WRITES,
    Account,
    Kind,
    Refusal,
)
from vcsync.apiserver.requestlimits.refusal_counts import RefusalCounts
from vcsync.apiserver.requestlimits.shares import WHOLE, Share
from vcsync.apiserver.requestlimits.users import Users
from vcsync.apiserver.storage.interface import Change
from vcsync.apiserver.tenants.records import TENANTS
from vcsync.apiserver.tenants.request_limits import (
    FIELDS,
    RequestLimits,
    TenantLimits,
    in_force,
)

Holder = Literal["tenant", "user", "roles", "anonymous"]
"""Owner of a limit: the tenant, a user, vcsync's own programs in the tenant, or anonymous callers."""

ROLE_LIMITS = RequestLimits(
    reads_per_second=200,
    read_burst=400,
    writes_per_second=100,
    write_burst=200,
    concurrent_requests=100,
    watches=500,
    bytes_per_second=50 * 2**20,
)
"""Least limits of vcsync's own programs in a tenant, all of them together."""

PAUSE_SECONDS = 1.0
"""Longest pause of a stream before it looks at the limit again, which may have changed."""

MAX_NAME = 100
"""Characters of a user name in a message."""

_log = structlog.get_logger(__name__)
_ROLES = frozenset(
    f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(role)}" for role in names.ROLES
)
_UNITS = {
    READS: "reads per second",
    WRITES: "writes per second",
    CONCURRENT: "concurrent requests",
    WATCHES: "open watches",
    BYTES: "bytes per second",
}


class Passage:
    """A request that was let through; `end` it.

    Args:
        accounts: The accounts against which it counts.
        kind: What it counts as.
        clock: Returns seconds; never goes back.
    """

    __slots__ = ("_accounts", "_clock", "_ended", "_kind")

    def __init__(self, accounts: tuple[Account, ...], kind: Kind, clock: Callable[[], float]) -> None:
        self._accounts = accounts
        self._kind = kind
        self._clock = clock
        self._ended = False

    def spend(self, size: int) -> None:
        """Count bytes of a body."""
        now = self._clock()
        for account in self._accounts:
            account.spend(size, now)

    @property
    def debt(self) -> float:
        """Seconds until the bytes that were counted are within the limits, or 0 if they are."""
        now = self._clock()
        return max(account.debt(now) for account in self._accounts)

    async def pace(self) -> None:
        """Wait until the bytes that were counted are within the limits."""
        # Other requests add to the debt meanwhile, and the limit may change: no event says when it is paid.
        while (seconds := self.debt) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(seconds, PAUSE_SECONDS))

    def end(self) -> None:
        """Stop counting the request as a concurrent one. Further calls have no effect."""
        if not self._ended:
            self._ended = True
            for account in self._accounts:
                account.end(self._kind)


class _State:
    """The accounts of one tenant.

    Attributes:
        own: The limits of the tenant's record that the accounts have.
        share: The part of them that the accounts have.
        limited: Whether there are any limits.
    """

    __slots__ = ("_anonymous", "_roles", "_tenant", "_users", "limited", "own", "share")

    def __init__(self) -> None:
        self.own: TenantLimits | None = None
        self.share: Share | None = None
        self.limited = False
        self._tenant: Account | None = None
        self._roles: Account | None = None
        self._anonymous: Account | None = None
        self._users: Users | None = None

    def configure(self, own: TenantLimits | None, defaults: TenantLimits, share: Share, now: float) -> None:
        limits = in_force(own, defaults)
        self.own, self.share, self.limited = own, share, limits is not None
        if limits is None:
            self._tenant = self._roles = self._anonymous = self._users = None
            return
        self._tenant = _configured(self._tenant, limits, share, now)
        self._anonymous = _configured(self._anonymous, limits, share, now)
        self._roles = _configured(self._roles, _at_least(limits, ROLE_LIMITS), share, now)
        if limits.user is None:
            self._users = None
        elif self._users is None:
            self._users = Users(limits.user, share)
        else:
            self._users.configure(limits.user, share, now)

    def accounts(self, caller: Caller, now: float) -> tuple[tuple[Holder, Account], ...]:
        """Return the accounts of a caller. That of the user comes first, so that a message names the narrower limit."""
        tenant, roles, anonymous = self._tenant, self._roles, self._anonymous
        if tenant is None or roles is None or anonymous is None:
            return ()
        user = caller.user
        if UNAUTHENTICATED in user.groups:
            return (("anonymous", anonymous),)
        if user.name in _ROLES:
            return (("roles", roles),)
        if self._users is None:
            return (("tenant", tenant),)
        return (("user", self._users.account(user.name, now)), ("tenant", tenant))


class Limiter:
    """Applies the limits of all tenants.

    Args:
        limits_of: Returns the limits of a tenant's record, or None if it has none.
        defaults: Limits of tenants and users where the record sets none.
        clock: Returns seconds; never goes back.

    Attributes:
        counts: Number of refused requests.
    """

    def __init__(
        self,
        limits_of: Callable[[str], TenantLimits | None],
        defaults: TenantLimits,
        clock: Callable[[], float],
    ) -> None:
        self._limits_of = limits_of
        self._defaults = defaults
        self._has_defaults = in_force(None, defaults) is not None
        self._clock = clock
        self._states: dict[str, _State] = {}
        self.counts = RefusalCounts()
        self._share = WHOLE

    def enter(self, tenant: str, caller: Caller, kind: Kind) -> Passage | None:
        """Let a request through. Returns None if there is no limit for it.

        Args:
            tenant: The tenant, which must exist.
            caller: The caller that the credentials belong to, before impersonation.
            kind: What the request counts as.

        Raises:
            StatusError: 429, the message names the limit and whose it is.
        """
        own = self._limits_of(tenant)
        if (own is None and not self._has_defaults) or caller.system:
            return None
        state, now = self._state(tenant, own), self._clock()
        if not state.limited:
            return None
        found = state.accounts(caller, now)
        for holder, account in found:
            refusal = account.refusal(kind, now)
            if refusal is not None:
                if self.counts.add(tenant, holder, refusal.limit, now):
                    _log.warning(
                        "requests of a tenant are refused", tenant=tenant, holder=holder, limit=refusal.limit
                    )
                raise refused(tenant, caller.user.name, holder, refusal)
        accounts = tuple(account for _, account in found)
        for account in accounts:
            account.begin(kind, now)
        return Passage(accounts, kind, self._clock)

    def set_share(self, share: Share) -> None:
        """Take another part of every limit."""
        self._share = share

    def _state(self, tenant: str, own: TenantLimits | None) -> _State:
        state = self._states.get(tenant)
        if state is None:
            state = self._states[tenant] = _State()
        if state.own is not own or state.share is not self._share:
            state.configure(own, self._defaults, self._share, self._clock())
        return state

    def refused_recently(self) -> dict[str, list[str]]:
        """Return the limits that refused requests recently, by tenant; see `RefusalCounts.recently`."""
        return self.counts.recently(self._clock())

    def changed(self, changes: Iterable[Change]) -> None:
        """Forget deleted tenants."""
        for change in changes:
            if change.value is None and change.key.startswith(TENANTS):
                self._states.pop(change.key.removeprefix(TENANTS), None)

    def keep(self, tenants: Iterable[str]) -> None:
        """Forget all other tenants, because deletions may have been missed."""
        for tenant in self._states.keys() - set(tenants):
            del self._states[tenant]


def refused(tenant: str, user: str, holder: Holder, refusal: Refusal) -> StatusError:
    """Return the 429 of a refused request."""
    seconds = max(1, math.ceil(refusal.seconds))
    limit = f"limit of {refusal.most} {_UNITS[refusal.limit]}"
    who = {
        "tenant": f"tenant {quoted(tenant)} has reached its {limit} (limits.{refusal.limit})",
        "user": f"user {quoted(user[:MAX_NAME])} has reached the {limit} of each user of tenant {quoted(tenant)} "
        f"(limits.user.{refusal.limit})",
        "roles": f"vcsync's own accounts in tenant {quoted(tenant)} have reached their {limit}",
        "anonymous": f"anonymous callers of tenant {quoted(tenant)} have reached their {limit}",
    }[holder]
    return errors.too_many_requests(f"{who}; try again in {seconds} s", seconds)


def _configured(account: Account | None, limits: RequestLimits, share: Share, now: float) -> Account:
    if account is None:
        return Account(limits, share, now)
    account.configure(limits, share, now)
    return account


def _at_least(limits: RequestLimits, least: RequestLimits) -> RequestLimits:
    """Return limits, each of them at least as large as another one. No limit stays no limit."""
    chosen = {}
    for field in FIELDS:
        value = getattr(limits, field)
        chosen[field] = value if value is None else max(value, getattr(least, field))
    return RequestLimits(**chosen)

"""The accounts of the users of one tenant. Their number is bounded, whatever names the users have. Pure."""

from vcsync.apiserver.requestlimits.account import Account
from vcsync.apiserver.requestlimits.shares import Share
from vcsync.apiserver.tenants.request_limits import RequestLimits

MAX_USERS = 256
"""Users of a tenant with an account of their own. All others share one."""
SWEEP_SECONDS = 1.0
"""Shortest time between two searches for idle accounts, each of which looks at all accounts of a tenant."""


class Users:
    """Finds the account of a user.

    Args:
        limits: Limits of each user.
        share: The part of them that this process takes.
        most: Users with an account of their own.
    """

    def __init__(self, limits: RequestLimits, share: Share, most: int = MAX_USERS) -> None:
        self._limits, self._share, self._most = limits, share, most
        self._accounts: dict[str, Account] = {}
        self._others: Account | None = None
        self._swept = 0.0

    def configure(self, limits: RequestLimits, share: Share, now: float) -> None:
        """Apply other limits, or another share of them, to all users."""
        self._limits, self._share = limits, share
        for account in self._accounts.values():
            account.configure(limits, share, now)
        if self._others is not None:
            self._others.configure(limits, share, now)

    def account(self, name: str, now: float) -> Account:
        """Return the account of a user: its own, or the one of all users beyond the most.

        An idle account is forgotten when a new user needs its place. That changes nothing for its user, because the
        next account of the user is in the same state.
        """
        found = self._accounts.get(name)
        if found is not None:
            return found
        if len(self._accounts) >= self._most and not self._make_room(now):
            if self._others is None:
                self._others = Account(self._limits, self._share, now)
            return self._others
        found = self._accounts[name] = Account(self._limits, self._share, now)
        return found

    def _make_room(self, now: float) -> bool:
        if now - self._swept < SWEEP_SECONDS:
            return False
        self._swept = now
        for name in [name for name, account in self._accounts.items() if account.is_idle(now)]:
            del self._accounts[name]
        return len(self._accounts) < self._most

    def __len__(self) -> int:
        return len(self._accounts)

"""Authorization: who may do what, by the RBAC objects of the tenant from which the credential comes.

Policies are read when somebody of a tenant asks, and changed with every role or binding of it that changes; a tenant
in which nobody asks costs nothing.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vcsync.controlplane.identity import escalation, impersonation, nodes
from vcsync.controlplane.identity.bootstrap import default_policy
from vcsync.controlplane.identity.caller import MASTERS, Asked, Caller, Decision, refusal
from vcsync.controlplane.identity.policy import Policy
from vcsync.controlplane.identity.policy_reader import MARK, apply, is_rbac, read_policy
from vcsync.controlplane.identity.remembered import Remembered
from vcsync.controlplane.store.interface import Change, Store, tenant_of

MAX_POLICIES = 1000
"""Tenants whose policy is kept in memory."""

MAX_ACTORS = 10_000
"""Users of whom it is remembered how they act as others."""


@dataclass(slots=True)
class _Known:
    """A policy, and the revision that it was read at: changes up to there are in it."""

    policy: Policy
    revision: int


@dataclass(slots=True)
class _Loading:
    """What happened to a tenant's policy while it is read. `lost`: what it cannot be told, it must not be kept."""

    changes: list[Change] = field(default_factory=list)
    lost: bool = False


class Authorizer:
    """Decides by RBAC, and about nodes by what they and their Pods are."""

    def __init__(self, store: Store, exists: Callable[[str], bool], *, capacity: int = MAX_POLICIES) -> None:
        """Take the store, what tells whether there is a tenant, and how many policies to keep."""
        self._store = store
        self._exists = exists
        self._capacity = capacity
        self._policies: OrderedDict[str, _Known] = OrderedDict()
        self._acted: impersonation.Worked = Remembered(MAX_ACTORS)
        self._loading: dict[str, list[_Loading]] = {}

    def changed(self, changes: Iterable[Change]) -> None:
        """Take over changes of roles and bindings; cheap for all other changes."""
        for change in changes:
            if MARK in change.key and is_rbac(change.key):
                self._change(change)

    def _change(self, change: Change) -> None:
        tenant = tenant_of(change.key)
        for loading in self._loading.get(tenant, ()):
            loading.changes.append(change)
        known = self._policies.get(tenant)
        if known is not None and change.revision > known.revision:
            apply(known.policy, change)

    def forget(self, tenant: str) -> None:
        """Read a tenant's policy anew when it is next asked for."""
        self._policies.pop(tenant, None)
        for loading in self._loading.get(tenant, ()):
            loading.lost = True

    def forget_all(self) -> None:
        """Read every policy anew when it is next asked for."""
        for tenant in {*self._policies, *self._loading}:
            self.forget(tenant)

    async def policy(self, tenant: str) -> Policy:
        """Return a tenant's policy; of no tenant, or one that does not exist: what holds in a fresh one.

        Raises:
            StoreError: the store cannot be read.
        """
        found = self._policies.get(tenant)
        if found is not None:
            self._policies.move_to_end(tenant)
            return found.policy
        if not tenant or not self._exists(tenant):
            return default_policy()
        return await self._load(tenant)

    async def _load(self, tenant: str) -> Policy:
        """Read a policy and keep it, with what changed meanwhile."""
        loading = _Loading()
        self._loading.setdefault(tenant, []).append(loading)
        try:
            revision = await self._store.revision()
            known = _Known(await read_policy(self._store, tenant, revision), revision)
        finally:
            self._loading[tenant].remove(loading)
            if not self._loading[tenant]:
                del self._loading[tenant]
        for change in loading.changes:
            if change.revision > revision:
                apply(known.policy, change)
        if not loading.lost:
            self._policies[tenant] = known
            while len(self._policies) > self._capacity:
                self._policies.popitem(last=False)
        return known.policy

    async def decide(self, caller: Caller, asked: Asked) -> Decision:
        """Tell whether a caller may.

        Raises:
            StoreError: the store cannot be read.
        """
        if caller.system and MASTERS in caller.user.groups:
            return Decision(True)
        decision = (await self.policy(caller.tenant)).decide(caller.user, asked)
        node = nodes.node_of(caller.user)
        if decision.allowed or node is None or not self._exists(caller.tenant):
            return decision
        own = await nodes.decide(self._store, caller.tenant, node, asked)
        return own if own.allowed else Decision(False, "\n".join(filter(None, (own.reason, decision.reason))))

    async def authorize(self, caller: Caller, asked: Asked) -> None:
        """Make sure that a caller may.

        Raises:
            StatusError: 403, it may not.
            StoreError: the store cannot be read.
        """
        decision = await self.decide(caller, asked)
        if not decision.allowed:
            raise refusal(caller, asked, decision.reason)

    async def impersonate(
        self,
        caller: Caller,
        headers: Mapping[str, str] | Iterable[tuple[str, str]],
        tenant: str,
        asked: Asked | None = None,
    ) -> Caller:
        """Return whom the caller wants to act as by Impersonate-* headers; without any, the caller.

        `tenant`: what the request is about; a system caller who impersonates somebody there becomes a caller of
        that tenant. `asked`: the request, for grants that are limited to it.

        Raises:
            StatusError: 400 for headers without a user, 403 when it may not.
        """
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        wanted = impersonation.wanted_user(pairs)
        if wanted is None:
            return caller
        return await impersonation.impersonated(self.decide, caller, wanted, tenant, asked, self._acted)

    async def check_role_write(
        self,
        caller: Caller,
        plural: str,
        namespace: str,
        new: Mapping[str, Any],
        old: Mapping[str, Any] | None,
    ) -> None:
        """Make sure that a write of a role or binding grants nothing that the caller does not hold.

        Raises:
            StatusError: 403, it does; 404, a binding refers to no role.
        """
        if caller.system and MASTERS in caller.user.groups:
            return
        policy = await self.policy(caller.tenant)
        escalation.check(escalation.Write(policy, caller.user, plural, namespace, new, old))

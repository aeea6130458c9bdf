"""Authorization: who may do what, by the RBAC objects of the tenant from which the credential comes.

Policies are read when somebody of a tenant asks, and forgotten when a role or binding of it changes; a tenant in
which nobody asks costs nothing.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from vcsync.controlplane.identity import escalation, impersonation, nodes
from vcsync.controlplane.identity.bootstrap import default_policy
from vcsync.controlplane.identity.caller import MASTERS, Asked, Caller, Decision, refusal
from vcsync.controlplane.identity.policy import GROUP, Policy
from vcsync.controlplane.identity.policy_reader import read_policy
from vcsync.controlplane.store.interface import Change, Store

MAX_POLICIES = 1000
"""Tenants whose policy is kept in memory."""

_MARK = f"/{GROUP}/"


class Authorizer:
    """Decides by RBAC; nodes may read besides what their Pods name."""

    def __init__(self, store: Store, exists: Callable[[str], bool], *, capacity: int = MAX_POLICIES) -> None:
        """Take the store, what tells whether there is a tenant, and how many policies to keep."""
        self._store = store
        self._exists = exists
        self._capacity = capacity
        self._policies: OrderedDict[str, Policy] = OrderedDict()
        self._changed: dict[str, int] = {}
        self._loading: dict[str, int] = {}

    def changed(self, changes: Iterable[Change]) -> None:
        """Forget what changes of roles and bindings make untrue; cheap for all other changes."""
        for change in changes:
            if _MARK in change.key:
                self.forget(change.key.partition("/")[0])

    def forget(self, tenant: str) -> None:
        """Read a tenant's policy anew when it is next asked for."""
        self._policies.pop(tenant, None)
        if tenant in self._loading:
            self._changed[tenant] = self._changed.get(tenant, 0) + 1

    def forget_all(self) -> None:
        """Read every policy anew when it is next asked for."""
        self._policies.clear()
        for tenant in self._loading:
            self._changed[tenant] = self._changed.get(tenant, 0) + 1

    async def policy(self, tenant: str) -> Policy:
        """Return a tenant's policy; of no tenant, or one that does not exist: what holds in a fresh one.

        Raises:
            StoreError: the store cannot be read.
        """
        found = self._policies.get(tenant)
        if found is not None:
            self._policies.move_to_end(tenant)
            return found
        if not tenant or not self._exists(tenant):
            return default_policy()
        return await self._load(tenant)

    async def _load(self, tenant: str) -> Policy:
        """Read a policy; keep it unless something changed meanwhile, which it may or may not hold."""
        self._loading[tenant] = self._loading.get(tenant, 0) + 1
        before = self._changed.get(tenant, 0)
        try:
            policy = await read_policy(self._store, tenant)
            if self._changed.get(tenant, 0) == before:
                self._policies[tenant] = policy
                while len(self._policies) > self._capacity:
                    self._policies.popitem(last=False)
            return policy
        finally:
            self._loading[tenant] -= 1
            if not self._loading[tenant]:
                del self._loading[tenant]
                self._changed.pop(tenant, None)

    async def decide(self, caller: Caller, asked: Asked) -> Decision:
        """Tell whether a caller may.

        Raises:
            StoreError: the store cannot be read.
        """
        if caller.system and MASTERS in caller.user.groups:
            return Decision(True)
        decision = (await self.policy(caller.tenant)).decide(caller.user, asked)
        node = nodes.node_of(caller.user)
        if (
            decision.allowed
            or not node
            or not nodes.is_read_by_nodes(asked)
            or not self._exists(caller.tenant)
        ):
            return decision
        return await nodes.decide(self._store, caller.tenant, node, asked)

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
        return await impersonation.impersonated(self.decide, caller, wanted, tenant, asked)

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

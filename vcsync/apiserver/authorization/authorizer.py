"""Authorizes callers by the RBAC objects of their tenant, and nodes by their Pods.

The policy of a tenant is read at its first request and follows the changes of its roles and bindings. Tenants without
requests cost nothing.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vcsync.api.grants import GRANTS
from vcsync.apimachinery.errors import forbidden
from vcsync.apiserver.authorization import escalation, guests, impersonation, nodes
from vcsync.apiserver.authorization.bootstrap import default_policy
from vcsync.apiserver.authorization.policy import Policy
from vcsync.apiserver.authorization.policy_reader import MARK, apply, is_rbac, read_policy
from vcsync.apiserver.request.caller import (
    MASTERS,
    UNAUTHENTICATED,
    Asked,
    Attributes,
    Caller,
    Decision,
    Granted,
    refusal,
)
from vcsync.apiserver.storage.interface import Change, Store, StoreError, tenant_of
from vcsync.apiserver.tenants.builtin_resources import prohibition
from vcsync.objects.recently_used import RecentlyUsed
from vcsync.process.loop_turns import turn

MAX_POLICIES = 1000
"""Tenants whose policy is cached."""

MAX_ACTORS = 10_000
"""Users whose last mode of impersonation is cached."""


@dataclass(slots=True)
class _Known:
    """A policy and the revision at which it was read; it contains the changes up to that revision."""

    policy: Policy
    revision: int


@dataclass(slots=True)
class _Loading:
    """A policy that is being read. Other requests that need it wait, because a tenant can make it large.

    Attributes:
        changes: Changes that arrive meanwhile.
        lost: Whether changes were missed, so that the policy must not be cached.
        ended: Set when it is read or cannot be read.
        error: Why it cannot be read.
    """

    changes: list[Change] = field(default_factory=list)
    lost: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    error: StoreError | None = None


class Authorizer:
    """Decides by RBAC and, for nodes, by their relation to the requested object.

    Args:
        store: The store.
        exists: Returns whether a tenant exists.
        only_virtual_nodes: Returns whether users of a tenant can only read Nodes; see `tenants.builtin_resources`.
        capacity: Policies that are cached.
    """

    def __init__(
        self,
        store: Store,
        exists: Callable[[str], bool],
        only_virtual_nodes: Callable[[str], bool] = lambda _: False,
        *,
        capacity: int = MAX_POLICIES,
    ) -> None:
        self._store = store
        self._exists = exists
        self._only_virtual_nodes = only_virtual_nodes
        self._capacity = capacity
        self._policies: OrderedDict[str, _Known] = OrderedDict()
        self._acted: impersonation.Worked = RecentlyUsed(MAX_ACTORS)
        self._loading: dict[str, _Loading] = {}

    def changed(self, changes: Iterable[Change]) -> None:
        """Apply changes of roles and bindings. Other changes cost little."""
        for change in changes:
            if MARK in change.key and is_rbac(change.key):
                self._change(change)

    def _change(self, change: Change) -> None:
        tenant = tenant_of(change.key)
        loading = self._loading.get(tenant)
        if loading is not None:
            loading.changes.append(change)
        known = self._policies.get(tenant)
        if known is not None and change.revision > known.revision:
            apply(known.policy, change)

    def forget(self, tenant: str) -> None:
        """Drop the cached policy of a tenant."""
        self._policies.pop(tenant, None)
        if tenant in self._loading:
            self._loading[tenant].lost = True

    def forget_all(self) -> None:
        """Drop all cached policies."""
        for tenant in {*self._policies, *self._loading}:
            self.forget(tenant)

    async def policy(self, tenant: str) -> Policy:
        """Return the policy of a tenant. If the tenant does not exist, return that of a new tenant.

        Raises:
            StoreError: The store cannot be read.
        """
        found = self._policies.get(tenant)
        if found is not None:
            self._policies.move_to_end(tenant)
            return found.policy
        if not tenant or not self._exists(tenant):
            return default_policy()
        while (found := self._policies.get(tenant)) is None:
            loading = self._loading.get(tenant)
            if loading is None:
                return await self._load(tenant)
            await loading.ended.wait()
            if loading.error is not None:
                raise loading.error
        return found.policy

    async def _load(self, tenant: str) -> Policy:
        """Read and cache a policy, and apply the changes that arrive meanwhile."""
        loading = self._loading[tenant] = _Loading()
        try:
            revision = await self._store.revision()
            known = _Known(await read_policy(self._store, tenant, revision), revision)
        except StoreError as error:
            loading.error = error
            raise
        finally:
            del self._loading[tenant]
            loading.ended.set()
        for change in loading.changes:
            if change.revision > revision:
                apply(known.policy, change)
        if not loading.lost:
            self._policies[tenant] = known
            while len(self._policies) > self._capacity:
                self._policies.popitem(last=False)
        return known.policy

    async def decide(self, caller: Caller, asked: Asked) -> Decision:
        """Return whether a caller may make a request.

        Raises:
            StoreError: The store cannot be read.
        """
        if caller.system and MASTERS in caller.user.groups:
            return Decision(True)
        if not caller.system and self._only_virtual_nodes(caller.tenant):
            prohibited = prohibition(caller, asked)
            if prohibited:
                # The reason would tell anybody that the tenant exists, and what kind of control plane it has.
                return Decision(False, "" if UNAUTHENTICATED in caller.user.groups else prohibited)
        if caller.home:
            return guests.decide(await self.policy(caller.tenant), caller.grants, asked)
        policy = await self.policy(caller.tenant)
        held = await policy.held_in_turns(caller.user, asked.namespace)
        decision = held.decide(asked)
        if held.slow:
            await turn()
        node = nodes.node_of(caller.user)
        if decision.allowed or node is None or not self._exists(caller.tenant):
            return decision
        own = await nodes.decide(self._store, caller.tenant, node, asked)
        return own if own.allowed else Decision(False, "\n".join(filter(None, (own.reason, decision.reason))))

    async def authorize(self, caller: Caller, asked: Asked) -> None:
        """Refuse a request that the caller may not make.

        Raises:
            StatusError: 403, it may not.
            StoreError: The store cannot be read.
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
        """Return the user that the Impersonate-* headers name; without such headers, the caller.

        A system caller that impersonates a user of a tenant becomes a caller of that tenant.

        Args:
            caller: The caller.
            headers: Headers of the request.
            tenant: Tenant that the request is about.
            asked: The request, for permissions that are limited to it.

        Raises:
            StatusError: 400, the headers name no user; 403, the caller may not impersonate it, as guests never may.
        """
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        wanted = impersonation.wanted_user(pairs)
        if wanted is None:
            return caller
        if caller.home:
            raise refusal(
                caller, Attributes("impersonate", resource="users", name=wanted.name), guests.REFUSED
            )
        return await impersonation.impersonated(self.decide, caller, wanted, tenant, asked, self._acted)

    async def check_grant_write(self, caller: Caller, grant: Granted) -> None:
        """Refuse a write of a TenantGrant that would grant more than the caller may bind.

        Raises:
            StatusError: 403, it grants more, or the caller is a guest; 404, it refers to a role that does not exist.
        """
        if caller.system and MASTERS in caller.user.groups:
            return
        if caller.home:
            raise forbidden(GRANTS.plural, GRANTS.group, grant.name, guests.REFUSED)
        await escalation.check_grant(await self.policy(caller.tenant), caller.user, grant)

    async def check_role_write(
        self,
        caller: Caller,
        plural: str,
        namespace: str,
        new: Mapping[str, Any],
        old: Mapping[str, Any] | None,
    ) -> None:
        """Refuse a write of a role or binding that would grant more than the caller has.

        Raises:
            StatusError: 403, it grants more; 404, a binding refers to a role that does not exist.
        """
        if caller.system and MASTERS in caller.user.groups:
            return
        policy = await self.policy(caller.tenant)
        await escalation.check(escalation.Write(policy, caller.user, plural, namespace, new, old))

"""Carries out a plan's actions on the two APIs, in order, and shows the answers to the caches."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol

from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import AlreadyExists, Conflict, NotFound
from vcsync.kube.resources import PODS, SECRETS, SERVICE_ACCOUNTS, Resource
from vcsync.syncer.kinds import token
from vcsync.syncer.kinds.plan import (
    Action,
    Bind,
    Create,
    Delete,
    EnsureNode,
    Notify,
    Patch,
    RequestToken,
    Side,
    TenantContext,
)

BINDING_SECONDS = 30.0
"""How long the watch may be behind with a binding; after that the Pod is bound again."""
BINDINGS_REMEMBERED = 4096


class Stale(Exception):
    """The plan was made from something that is no longer so; the caches know better now, the item is planned again."""


class NameStands(Exception):
    """A Create met an object of that name; planning again with it decides whose it is.

    Attributes:
        action: the Create.
        existing: the object that stands there.
    """

    def __init__(self, action: Create, existing: Envelope) -> None:
        super().__init__(f"{action.resource.plural} {existing.name} stands already")
        self.action = action
        self.existing = existing


class Caches(Protocol):
    """Where answers are shown, so that the caches know of our own writes before the watch tells them."""

    def observe(self, side: Side, resource: Resource, answer: Envelope) -> None:
        """An object as the server has it now."""

    def observe_gone(
        self, side: Side, resource: Resource, namespace: str, name: str, uid: str, *, for_good: bool = True
    ) -> None:
        """An object that no longer exists; not `for_good`: a read has not found it."""


class Hands:
    """Executes actions for one tenant on one super cluster.

    Args:
        tenant_client: client of the tenant's control plane.
        super_client: client of the super cluster.
        caches: where answers are shown.
        ensure_node: makes the virtual node of a super cluster's node.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        tenant_client: Client,
        super_client: Client,
        caches: Caches,
        ensure_node: Callable[[str, TenantContext], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._clients: dict[Side, Client] = {"tenant": tenant_client, "super": super_client}
        self._caches = caches
        self._ensure_node = ensure_node
        self._bound: OrderedDict[str, float] = OrderedDict()

    async def carry_out(
        self,
        action: Action,
        context: TenantContext,
        *,
        confirm: Callable[[Delete], Awaitable[None]],
        notify: Callable[[Notify], None],
    ) -> None:
        """Execute one action and observe its answer.

        Args:
            action: what to do.
            context: the tenant, as its kinds see it.
            confirm: reads the source live before a deletion that the tenant did not ask for; raises Stale if it stands.
            notify: emits an Event about the item's tenant object.

        Raises:
            Stale: the object changed meanwhile; the cache has been brought up to date.
            NameStands: a Create met an object of that name.
            KubeError: the API refused or could not be reached.
        """
        match action:
            case Create():
                await self._create(action)
            case Patch():
                await self._patch(action)
            case Delete():
                if action.confirm:
                    await confirm(action)
                await self._delete(action)
            case Bind():
                await self._bind(action)
            case EnsureNode():
                await self._ensure_node(action.node, context)
            case Notify():
                notify(action)
            case RequestToken():
                await self._request_token(action, context)

    async def reread(
        self, side: Side, resource: Resource, namespace: str, name: str, uid: str
    ) -> Envelope | None:
        """Read an object live and show the cache what came of it; None when it is gone.

        That the tenant has it no more is for its watch to tell: a control plane that lost its data denies one object after the
        other, and only the whole list shows how much is missing.
        """
        try:
            answer = await self._clients[side].get(resource, name, namespace)
        except NotFound:
            if side == "super":
                self._caches.observe_gone(side, resource, namespace, name, uid, for_good=False)
            return None
        self._caches.observe(side, resource, answer)
        return answer

    async def _create(self, action: Create) -> None:
        name = action.body["metadata"]["name"]
        try:
            answer = await self._clients[action.side].create(action.resource, action.body, action.namespace)
        except AlreadyExists:
            existing = await self.reread(action.side, action.resource, action.namespace, name, "")
            if existing is None:
                raise Stale(f"{action.resource.plural} {name} went as it was looked at") from None
            raise NameStands(action, existing) from None
        self._caches.observe(action.side, action.resource, answer)

    async def _patch(self, action: Patch) -> None:
        client = self._clients[action.side]
        try:
            answer = await client.patch(
                action.resource,
                action.name,
                action.patch,
                action.namespace,
                kind=action.kind,
                subresource=action.subresource,
            )
        except (Conflict, NotFound) as error:
            await self.reread(action.side, action.resource, action.namespace, action.name, action.uid)
            raise Stale(str(error)) from error
        self._caches.observe(action.side, action.resource, answer)

    async def _delete(self, action: Delete) -> None:
        client = self._clients[action.side]
        try:
            standing = await client.delete(
                action.resource,
                action.name,
                action.namespace,
                uid=action.uid,
                grace_seconds=action.grace_seconds,
                propagation="Background",
            )
        except NotFound:
            standing = None
        except Conflict as error:
            await self.reread(action.side, action.resource, action.namespace, action.name, action.uid)
            raise Stale(str(error)) from error
        if standing is None:
            self._caches.observe_gone(action.side, action.resource, action.namespace, action.name, action.uid)
        elif standing.deleting and action.grace_seconds != 0:
            # Otherwise the answer may show an object that is gone already (Pods are returned as they last stood); the
            # watch will tell.
            self._caches.observe(action.side, action.resource, standing)

    async def _bind(self, action: Bind) -> None:
        """Bind a Pod, once: the answer does not show the Pod, so until the watch does the plan asks for it again."""
        if self._clock() - self._bound.get(action.uid, -BINDING_SECONDS) < BINDING_SECONDS:
            return
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": action.name, "namespace": action.namespace, "uid": action.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": action.node},
        }
        try:
            await self._clients["tenant"].create_raw(
                PODS, body, action.namespace, name=action.name, subresource="binding"
            )
        except (Conflict, NotFound) as error:
            await self.reread("tenant", PODS, action.namespace, action.name, action.uid)
            raise Stale(str(error)) from error
        self._bound[action.uid] = self._clock()
        if len(self._bound) > BINDINGS_REMEMBERED:
            self._bound.popitem(last=False)

    async def _request_token(self, action: RequestToken, context: TenantContext) -> None:
        granted = {}
        for source in action.tokens:
            answer = await self._clients["tenant"].create_raw(
                SERVICE_ACCOUNTS,
                token.token_request(action, source),
                action.namespace,
                name=action.service_account,
                subresource="token",
            )
            granted[source.key] = token.granted(answer)
        now = datetime.now(UTC)
        if action.secret_uid:
            await self._patch(token.secret_patch(action, granted, issued=now))
        else:
            body = token.secret_body(action, granted, context, issued=now)
            await self._create(Create("super", SECRETS, action.super_namespace, body))

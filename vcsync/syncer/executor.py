"""Executes the actions of a plan on both APIs, in order, and passes the answers on to the caches."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol

from vcsync.api.names import BOUND_STATUS
from vcsync.kube.client import Client
from vcsync.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from vcsync.kube.resources import PODS, SECRETS, SERVICE_ACCOUNTS, Resource
from vcsync.objects.envelope import Envelope
from vcsync.syncer.caches import node_of
from vcsync.syncer.kinds import token
from vcsync.syncer.kinds.plan import (
    Action,
    Bind,
    ConfirmAbsent,
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
"""Seconds to wait for the watch to report a binding. After that the Pod is bound again."""
FIRST_STATUS_SECONDS = 1.0
"""Seconds to wait for a kubelet's first status before a Pod is bound without it, if both could be one write."""
BINDINGS_REMEMBERED = 4096
"""Number of Pods whose binding is remembered. The oldest is forgotten first."""
UNANSWERED_SECONDS = 60.0
"""Seconds for which a creation without an answer may still be executed: kube-apiserver's default of `--request-timeout`."""

_UNKNOWN_OUTCOME = 500

_METHOD_NOT_ALLOWED = 405


class Stale(Exception):
    """The plan was made from an outdated object. The caches have been updated, and the item is planned again."""


class TooEarly(Exception):
    """An action waits for news that may make it complete. A change of the item ends the wait.

    Args:
        why: for what it waits.
        after: seconds after which it is executed without.
    """

    def __init__(self, why: str, after: float) -> None:
        super().__init__(why)
        self.after = after


class ObjectExists(Exception):
    """An object that a Create or ConfirmAbsent names exists. The item is planned again, with knowledge of that object.

    Attributes:
        action: the action.
        existing: the object that has the name.
    """

    def __init__(self, action: Create | ConfirmAbsent, existing: Envelope) -> None:
        super().__init__(f"{action.resource.plural} {existing.name} exists already")
        self.action = action
        self.existing = existing


class Caches(Protocol):
    """Takes the answers to the executor's requests, so that caches have its writes before their watches report them."""

    def observe(self, side: Side, resource: Resource, answer: Envelope) -> None:
        """Take the present state of an object."""

    def observe_gone(
        self, side: Side, resource: Resource, namespace: str, name: str, uid: str, *, final: bool = True
    ) -> None:
        """Record that an object does not exist. `final` is false if only a read did not find it."""


class Executor:
    """Executes actions for one tenant on one super cluster.

    Args:
        tenant_client: client of the tenant's control plane.
        super_client: client of the super cluster.
        caches: takes the answers.
        ensure_node: creates the virtual node of a super cluster's node if it does not exist.
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
        # UIDs of Pods whose binding waits for a kubelet's first status, and since when.
        self._early: OrderedDict[str, float] = OrderedDict()
        # (plural, namespace, name) of creations without an answer, and since when.
        self._unanswered: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        # Until an answer shows that the tenant's API server does not have the subresource.
        self._binds_with_status = True

    async def execute(
        self,
        action: Action,
        context: TenantContext,
        *,
        confirm: Callable[[Delete], Awaitable[None]],
        notify: Callable[[Notify], None],
    ) -> None:
        """Execute one action and pass its answer on to the caches.

        Args:
            action: the action.
            context: the tenant's settings for the kinds.
            confirm: reads the source live before a deletion without an observed request, and raises Stale if the source
                exists.
            notify: emits an Event about the item's object in the tenant.

        Raises:
            Stale: the object has changed meanwhile. The cache has been updated.
            ObjectExists: an object that a Create or ConfirmAbsent names exists.
            TooEarly: a Bind waits for the first status, or a ConfirmAbsent for the end of a creation without an answer.
            KubeError: the API refused the request or could not be reached.
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
            case ConfirmAbsent():
                await self._confirm_absent(action)
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
        """Read an object live, and pass the answer on to its cache.

        A missing object is not removed from the tenant's cache; only its watch reports that. A control plane that lost its
        data answers 404 for one object after the other, and only a whole list shows how many objects are missing.

        Returns:
            The object, or None if it does not exist.
        """
        try:
            answer = await self._clients[side].get(resource, name, namespace)
        except NotFound:
            if side == "super":
                self._caches.observe_gone(side, resource, namespace, name, uid, final=False)
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
                raise Stale(f"{action.resource.plural} {name} was deleted before it could be read") from None
            raise ObjectExists(action, existing) from None
        except KubeError as error:
            if action.side == "super" and _is_unknown(error):
                self._unanswered[action.resource.plural, action.namespace, name] = self._clock()
                if len(self._unanswered) > BINDINGS_REMEMBERED:
                    self._unanswered.popitem(last=False)
            raise
        self._unanswered.pop((action.resource.plural, action.namespace, name), None)
        self._caches.observe(action.side, action.resource, answer)

    async def _confirm_absent(self, action: ConfirmAbsent) -> None:
        """Read an object live. An earlier creation without an answer may still be executed for a while."""
        key = action.resource.plural, action.namespace, action.name
        if (since := self._unanswered.get(key)) is not None:
            if (left := since + UNANSWERED_SECONDS - self._clock()) > 0:
                why = (
                    f"a request to create the {action.resource.kind} had no answer, and may still be executed"
                )
                raise TooEarly(why, left)
            del self._unanswered[key]
        existing = await self.reread(action.side, action.resource, action.namespace, action.name, "")
        if existing is not None:
            raise ObjectExists(action, existing)

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
            remaining = await client.delete(
                action.resource,
                action.name,
                action.namespace,
                uid=action.uid,
                resource_version=action.resource_version or None,
                grace_seconds=action.grace_seconds,
                propagation="Background",
            )
        except NotFound:
            remaining = None
        except Conflict as error:
            await self.reread(action.side, action.resource, action.namespace, action.name, action.uid)
            raise Stale(str(error)) from error
        if remaining is None:
            self._caches.observe_gone(action.side, action.resource, action.namespace, action.name, action.uid)
        elif remaining.deleting and action.grace_seconds != 0:
            # With a grace period of 0 the answer may show a Pod that is gone already. The watch reports the true state.
            self._caches.observe(action.side, action.resource, remaining)

    async def _bind(self, action: Bind) -> None:
        """Bind a Pod and write its status: in one write if the tenant's API server offers it, otherwise in two.

        What is refused as one write is tried as two, so that a policy against one part does not hinder the other. A Pod whose
        status can come with its binding is bound when its kubelet reports for the first time, which takes milliseconds.
        """
        if self._binds_with_status:
            self._await_first_status(action)
            if await self._bind_with_status(action):
                return
        await self._post_binding(action)
        # What requires the Pod's version is written when the watch shows the Pod that is bound.
        if action.status is not None and "resourceVersion" not in action.status["metadata"]:
            await self._patch(
                Patch(
                    "tenant",
                    PODS,
                    action.namespace,
                    action.name,
                    action.uid,
                    action.status,
                    subresource="status",
                )
            )

    def _await_first_status(self, action: Bind) -> None:
        """Return if a Pod is to be bound now.

        Raises:
            TooEarly: its kubelet has reported nothing yet, and may do so soon.
        """
        if not action.early:
            self._early.pop(action.uid, None)
            return
        now = self._clock()
        left = self._early.setdefault(action.uid, now) + FIRST_STATUS_SECONDS - now
        if len(self._early) > BINDINGS_REMEMBERED:
            self._early.popitem(last=False)
        if left > 0:
            raise TooEarly(
                "the Pod is bound with its first status, which its kubelet has not written yet", left
            )

    async def _bind_with_status(self, action: Bind) -> bool:
        """Bind a Pod and write its status by the subresource of embedded control planes. Return whether that is done.

        Raises:
            Stale: the Pod cannot be bound any more. The cache has been updated.
            KubeError: the API server did not answer, or is overloaded.
        """
        status = action.status or {}
        metadata = {
            **status.get("metadata", {}),
            "uid": action.uid,
            "resourceVersion": action.resource_version,
        }
        body = {**status, "metadata": metadata, "spec": {"nodeName": action.node}}
        try:
            answer = await self._clients["tenant"].patch(
                PODS, action.name, body, action.namespace, subresource=BOUND_STATUS
            )
        except (Unauthorized, TooManyRequests):
            raise
        except ApiError as error:
            if _is_unserved(error):
                self._binds_with_status = False
            elif isinstance(error, Conflict | NotFound):
                await self.reread("tenant", PODS, action.namespace, action.name, action.uid)
                raise Stale(str(error)) from error
            return False
        if node_of(answer) != action.node:
            self._binds_with_status = False
            return False
        self._caches.observe("tenant", PODS, answer)
        return True

    async def _post_binding(self, action: Bind) -> None:
        """Bind a Pod once.

        The answer does not contain the Pod, so the plan asks for the binding again until the watch shows it.
        """
        if self._clock() - self._bound.get(action.uid, -BINDING_SECONDS) < BINDING_SECONDS:
            return
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": action.name,
                "namespace": action.namespace,
                "uid": action.uid,
                "resourceVersion": action.resource_version,
            },
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


def _is_unknown(error: KubeError) -> bool:
    """Return whether a request that failed may have been executed, or may still be."""
    if isinstance(error, Unreachable):
        return error.sent
    return not isinstance(error, ApiError) or error.status.code >= _UNKNOWN_OUTCOME


def _is_unserved(error: ApiError) -> bool:
    """Return whether an answer to a request for the subresource `boundstatus` shows that the API server does not have it.

    For a subresource that does not exist, kube-apiserver answers 403 that names it, since no role grants it, or 404 without
    details. The 404 of a Pod that does not exist names the Pod.
    """
    status = error.status
    if status.code == _METHOD_NOT_ALLOWED:
        return True
    if isinstance(error, NotFound):
        return not (status.details and status.details.name)
    return isinstance(error, Forbidden) and f"pods/{BOUND_STATUS}" in status.message

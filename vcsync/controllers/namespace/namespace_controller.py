"""Empties namespaces that are being deleted, then removes their finalizer.

Behaviour: Kubernetes' `pkg/controller/namespace/deletion`, with OrderedNamespaceDeletion: Pods are deleted first.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from vcsync.controllers.framework import pods
from vcsync.controllers.framework.event_handlers import standing
from vcsync.controllers.framework.mirror import Key, key_of, namespace_of
from vcsync.controllers.framework.plan import View, Watch
from vcsync.controllers.framework.worker import ReconcileContext, Worker
from vcsync.controllers.namespace.conditions import Remains, conditions
from vcsync.fairqueue import ObjectName
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.discovery import DiscoveredResource, discover
from vcsync.kube.errors import Conflict, KubeError, NotFound
from vcsync.kube.resources import NAMESPACES, PODS
from vcsync.objects.budget import Budget
from vcsync.objects.conditions import Condition
from vcsync.objects.envelope import Envelope, decode, to_dict
from vcsync.objects.times import time_text
from vcsync.process.loop_turns import rest

FINALIZER = "kubernetes"
AT_ONCE = 8
"""Resources of one namespace processed concurrently."""
MOST_PAGES = 10
"""Pages of one resource that are read at once. Lists of aggregated API servers may be endless; others continue with a retry."""
FINALIZER_SECONDS = 15.0
"""Seconds that objects with finalizers get before the namespace is processed again."""
AGAIN_AT_MOST = 60.0


class _Spec(Struct):
    finalizers: tuple[str, ...] | None = None


class _Status(Struct):
    phase: str = ""
    conditions: tuple[Condition, ...] | None = None


class _PodSpec(Struct, rename="camel"):
    termination_grace_period_seconds: int | None = None


STEPS_PER_POD = 20
"""Steps that the decoding of a Pod takes."""


class NotEmptied(KubeError):
    """A namespace could not be emptied; it is retried."""


async def work(context: ReconcileContext, key: Key) -> float | None:
    """Empty a namespace that is being deleted and remove the finalizer from it.

    Returns:
        seconds until the next attempt: some of its objects are still ending.

    Raises:
        KubeError: a request failed; the namespace's conditions contain the reason.
    """
    known = context.view.of[NAMESPACES].get(*key)
    if known is None or not known.deleting:
        return None
    try:
        namespace = await context.client.get(NAMESPACES, key.name)
    except NotFound:
        return None
    if not namespace.deleting or not decode(namespace.spec, _Spec).finalizers:
        return None
    remains = await _empty(context, key)
    namespace = await _report(context, namespace, remains)
    if remains.discovery or remains.failures:
        raise NotEmptied("; ".join([*remains.discovery, *remains.failures]), endpoint=context.client.name)
    if remains.seconds:
        return min(remains.seconds / 2 + 1, AGAIN_AT_MOST)
    await _let_go(context.client, namespace)
    return None


async def _empty(context: ReconcileContext, key: Key) -> Remains:
    """Delete all objects in a namespace, Pods first, and return those that remain."""
    remains = Remains()
    try:
        discovery = await discover(context.client)
    except KubeError as error:
        remains.discovery.append(str(error))
        return remains
    remains.stale = discovery.stale
    remains.discovery += [f"{each}: stale GroupVersion discovery" for each in discovery.stale]
    first = [each for each in discovery.resources if each.resource == PODS]
    others = [
        each
        for each in discovery.resources
        if each.resource.namespaced and each.resource != PODS and {"delete", "list"} <= each.verbs
    ]
    for found in (first, others):
        await _clear_all(context, key, found, remains)
        if remains.counts:
            break
    return remains


async def _clear_all(
    context: ReconcileContext, key: Key, found: Iterable[DiscoveredResource], remains: Remains
) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(each: DiscoveredResource) -> None:
        async with gate:
            try:
                await _clear(context, key, each, remains)
            except KubeError as error:
                remains.failures.append(str(error))

    await asyncio.gather(*(one(each) for each in found))


async def _clear(context: ReconcileContext, key: Key, found: DiscoveredResource, remains: Remains) -> None:
    """Delete one resource's objects in a namespace and record the remaining ones.

    Raises:
        KubeError: it failed, or objects without finalizers remain.
    """
    resource, client = found.resource, context.client.metadata_only()
    try:
        if not await client.list(resource, key.name, limit=1, most_pages=1):
            return
        grace = await _grace(context.view, key) if resource == PODS else 0.0
        if "deletecollection" in found.verbs:
            await client.delete_collection(resource, key.name)
        else:
            await _delete_each(client, found, key.name)
        context.note(ObjectName(NAMESPACES.plural, "", key.name), f"deleted all {resource.plural} in it", "")
        left = await client.list(resource, key.name, most_pages=MOST_PAGES)
    except NotFound:
        # Its definition was deleted meanwhile, and its objects with it.
        return
    if not left:
        return
    finalizers = Counter(name for each in left for name in each.finalizers)
    remains.counts[f"{resource.plural}.{resource.group}"] = len(left)
    remains.finalizers.update(finalizers)
    if not grace and not finalizers:
        kind = f"{resource.group}/{resource.version}, Resource={resource.plural}"
        raise NotEmptied(f"unexpected items still remain in namespace: {key.name} for gvr: {kind}")
    remains.seconds = max(remains.seconds, grace or FINALIZER_SECONDS)


async def _delete_each(client: Client, found: DiscoveredResource, namespace: str) -> None:
    for each in await client.list(found.resource, namespace, most_pages=MOST_PAGES):
        try:
            await client.delete(found.resource, each.name, namespace, uid=each.uid, propagation="Background")
        except (NotFound, Conflict):
            # The object is gone, or was replaced; the following list shows it.
            continue


async def _grace(view: View, key: Key) -> float:
    """Return the seconds that the Pods of a namespace may still take to stop; 0: their time is over."""
    namespace = view.of[NAMESPACES].get(*key)
    longest, budget = 0, Budget("the Pods of a namespace")
    for pod in view.of[PODS].within(key.tenant, key.name):
        if pods.status(pod).phase not in pods.FINISHED:
            longest = max(longest, decode(pod.spec, _PodSpec).termination_grace_period_seconds or 0)
        budget.spend(STEPS_PER_POD)
        await rest(budget)
    passed = (
        0.0 if namespace is None else (view.now - pods.moment(namespace.deletion_timestamp)).total_seconds()
    )
    return float(longest) if passed < longest else 0.0


async def _report(context: ReconcileContext, namespace: Envelope, remains: Remains) -> Envelope:
    """Write the remaining contents into a namespace's status, if they have changed; return the new object."""
    before = decode(namespace.status, _Status)
    after = conditions(before.conditions or (), remains, time_text(context.view.now))
    if after == (before.conditions or ()) and before.phase == "Terminating":
        return namespace
    status = {
        "phase": "Terminating",
        "conditions": [
            {
                "type": each.type,
                "status": each.status,
                "lastTransitionTime": each.last_transition_time,
                "reason": each.reason,
                "message": each.message,
            }
            for each in after
        ],
    }
    patch = {"metadata": {"uid": namespace.uid}, "status": status}
    return await context.client.patch(NAMESPACES, namespace.name, patch, subresource="status")


async def _let_go(client: Client, namespace: Envelope) -> None:
    """Remove the finalizer from an empty namespace."""
    body = to_dict(namespace, api_version="v1", kind="Namespace")
    kept = [each for each in decode(namespace.spec, _Spec).finalizers or () if each != FINALIZER]
    body["spec"] = {**(body.get("spec") or {}), "finalizers": kept}
    try:
        await client.replace(NAMESPACES, namespace.name, body, subresource="finalize")
    except NotFound:
        return


def _deleting(change: Change, _look: View) -> Iterable[Key]:
    return [key_of(change.new)] if change.new is not None and change.new.deleting else ()


def _pod_gone(change: Change, view: View) -> Iterable[Key]:
    """Return the namespace that waited for its last Pod."""
    if change.new is not None:
        return ()
    pod = standing(change)
    tenant, namespace = pod.tenant, namespace_of(pod)
    around = view.of[NAMESPACES].get(tenant, "", namespace)
    if around is None or not around.deleting or view.of[PODS].count(tenant, namespace):
        return ()
    return [Key(tenant, "", namespace)]


NAMESPACE = Worker("namespace-controller", (Watch(NAMESPACES, _deleting), Watch(PODS, _pod_gone)), work)

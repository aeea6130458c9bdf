"""Empties namespaces that are to go, then lets them go.

Behaviour: Kubernetes' `pkg/controller/namespace/deletion`, with OrderedNamespaceDeletion: Pods go first.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from vcsync.controllers import pods
from vcsync.controllers.mirror import Key, key_of, namespace_of
from vcsync.controllers.namespace_conditions import Remains, conditions
from vcsync.controllers.plan import Look, Watch
from vcsync.controllers.waking import standing
from vcsync.controllers.working import Desk, Worker
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.discovery import Found, discover
from vcsync.kube.envelope import Envelope, decode, to_dict
from vcsync.kube.errors import Conflict, KubeError, NotFound
from vcsync.kube.resources import NAMESPACES, PODS

FINALIZER = "kubernetes"
AT_ONCE = 8
"""Resources of one namespace looked at side by side."""
FINALIZER_SECONDS = 15.0
"""What objects with finalizers are given before the namespace is looked at again in earnest."""
AGAIN_AT_MOST = 60.0


class _Spec(Struct):
    finalizers: tuple[str, ...] | None = None


class _Status(Struct):
    phase: str = ""
    conditions: tuple[pods.Condition, ...] | None = None


class _PodSpec(Struct, rename="camel"):
    termination_grace_period_seconds: int | None = None


class NotEmptied(KubeError):
    """A namespace could not be emptied; it is tried again."""


async def work(desk: Desk, key: Key) -> float | None:
    """Empty a namespace and take our finalizer from it, if it is to go.

    Returns:
        seconds after which to look again: something in it takes its time.

    Raises:
        KubeError: something failed; the namespace's conditions tell what.
    """
    known = desk.look.of[NAMESPACES].get(*key)
    if known is None or not known.deleting:
        return None
    try:
        namespace = await desk.client.get(NAMESPACES, key.name)
    except NotFound:
        return None
    if not namespace.deleting or not decode(namespace.spec, _Spec).finalizers:
        return None
    remains = await _empty(desk, key)
    namespace = await _report(desk, namespace, remains)
    if remains.discovery or remains.failures:
        raise NotEmptied("; ".join([*remains.discovery, *remains.failures]), endpoint=desk.client.name)
    if remains.seconds:
        return min(remains.seconds / 2 + 1, AGAIN_AT_MOST)
    await _let_go(desk.client, namespace)
    return None


async def _empty(desk: Desk, key: Key) -> Remains:
    """Delete all that is in a namespace, Pods before anything else, and return what is left."""
    remains = Remains()
    try:
        discovery = await discover(desk.client)
    except KubeError as error:
        remains.discovery.append(str(error))
        return remains
    remains.stale = discovery.stale
    remains.discovery += [f"{each}: stale GroupVersion discovery" for each in discovery.stale]
    first = [each for each in discovery.found if each.resource == PODS]
    others = [
        each
        for each in discovery.found
        if each.resource.namespaced and each.resource != PODS and {"delete", "list"} <= each.verbs
    ]
    for found in (first, others):
        await _clear_all(desk, key, found, remains)
        if remains.counts:
            break
    return remains


async def _clear_all(desk: Desk, key: Key, found: Iterable[Found], remains: Remains) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(each: Found) -> None:
        async with gate:
            try:
                await _clear(desk, key, each, remains)
            except KubeError as error:
                remains.failures.append(str(error))

    await asyncio.gather(*(one(each) for each in found))


async def _clear(desk: Desk, key: Key, found: Found, remains: Remains) -> None:
    """Delete one resource's objects in a namespace and note which are left.

    Raises:
        KubeError: it failed, or objects stay although nothing holds them.
    """
    resource, client = found.resource, desk.client.metadata_only()
    try:
        if not await client.list(resource, key.name, limit=1):
            return
        grace = _grace(desk.look, key) if resource == PODS else 0.0
        if "deletecollection" in found.verbs:
            await client.delete_collection(resource, key.name)
        else:
            await _delete_each(client, found, key.name)
        left = await client.list(resource, key.name)
    except NotFound:
        return  # its definition has gone meanwhile, and its objects with it
    if not left:
        return
    finalizers = Counter(name for each in left for name in each.finalizers)
    remains.counts[f"{resource.plural}.{resource.group}"] = len(left)
    remains.finalizers.update(finalizers)
    if not grace and not finalizers:
        kind = f"{resource.group}/{resource.version}, Resource={resource.plural}"
        raise NotEmptied(f"unexpected items still remain in namespace: {key.name} for gvr: {kind}")
    remains.seconds = max(remains.seconds, grace or FINALIZER_SECONDS)


async def _delete_each(client: Client, found: Found, namespace: str) -> None:
    for each in await client.list(found.resource, namespace):
        try:
            await client.delete(found.resource, each.name, namespace, uid=each.uid, propagation="Background")
        except (NotFound, Conflict):
            continue  # gone, or another by now: the list that follows tells


def _grace(look: Look, key: Key) -> float:
    """Seconds that the Pods of a namespace may still take to stop; 0: they should have stopped by now."""
    namespace = look.of[NAMESPACES].get(*key)
    running = [
        pod
        for pod in look.of[PODS].within(key.tenant, key.name)
        if pods.status(pod).phase not in pods.FINISHED
    ]
    longest = max(
        (decode(pod.spec, _PodSpec).termination_grace_period_seconds or 0 for pod in running), default=0
    )
    passed = (
        0.0 if namespace is None else (look.now - pods.moment(namespace.deletion_timestamp)).total_seconds()
    )
    return float(longest) if passed < longest else 0.0


async def _report(desk: Desk, namespace: Envelope, remains: Remains) -> Envelope:
    """Tell in a namespace's status what is left, if that has changed; return it as it is then."""
    before = decode(namespace.status, _Status)
    after = conditions(before.conditions or (), remains, pods.told(desk.look.now))
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
    return await desk.client.patch(NAMESPACES, namespace.name, patch, subresource="status")


async def _let_go(client: Client, namespace: Envelope) -> None:
    """Take our finalizer from an empty namespace."""
    body = to_dict(namespace, api_version="v1", kind="Namespace")
    kept = [each for each in decode(namespace.spec, _Spec).finalizers or () if each != FINALIZER]
    body["spec"] = {**(body.get("spec") or {}), "finalizers": kept}
    try:
        await client.replace(NAMESPACES, namespace.name, body, subresource="finalize")
    except NotFound:
        return


def _deleting(change: Change, _look: Look) -> Iterable[Key]:
    return [key_of(change.new)] if change.new is not None and change.new.deleting else ()


def _pod_gone(change: Change, look: Look) -> Iterable[Key]:
    """The namespace that waited for its last Pod."""
    if change.new is not None:
        return ()
    pod = standing(change)
    tenant, namespace = pod.tenant, namespace_of(pod)
    around = look.of[NAMESPACES].get(tenant, "", namespace)
    if around is None or not around.deleting or any(look.of[PODS].within(tenant, namespace)):
        return ()
    return [Key(tenant, "", namespace)]


NAMESPACE = Worker("namespace-controller", (Watch(NAMESPACES, _deleting), Watch(PODS, _pod_gone)), work)

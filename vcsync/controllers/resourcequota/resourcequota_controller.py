"""ResourceQuotas: recounts their usage and writes it to their status.

Behaviour: Kubernetes' `pkg/controller/resourcequota`. Admission charges every creation with the quota's resourceVersion
as a condition. A count that starts after the quota was read, and is written at that version, therefore misses no object
that was admitted meanwhile. The count uses the API server, not mirrors.
"""

from collections.abc import Iterable, Mapping
from contextlib import aclosing
from typing import Any

from msgspec import Raw, Struct

from vcsync.controllers.framework.event_handlers import standing
from vcsync.controllers.framework.mirror import Key, key_of, namespace_of
from vcsync.controllers.framework.plan import View, Watch
from vcsync.controllers.framework.selector_index import few
from vcsync.controllers.framework.worker import ReconcileContext, Worker
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.discovery import discover
from vcsync.kube.errors import Conflict, KubeError, NotFound
from vcsync.kube.resources import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
    Resource,
)
from vcsync.objects.budget import Budget
from vcsync.objects.envelope import Envelope, decode, to_dict
from vcsync.objects.quantity import InvalidQuantity, milli
from vcsync.process.loop_turns import rest
from vcsync.quota.scopes import in_scope, selectors
from vcsync.quota.usage import ENDED, NONE, Usage, count_name, counted, usage

NAME = "resourcequota-controller"
AGAIN_SECONDS = 300.0
"""Seconds until a quota is recounted in any case (`--resource-quota-sync-period`)."""
ATTEMPTS = 5
AT_ONCE = 50
STEPS_PER_OBJECT = 50
"""Number of objects that are counted before the event loop runs other tasks."""
MOST_PAGES = 20_000
"""Pages of one resource that are counted. Lists of aggregated API servers may be endless."""
PACE, GATHER_SECONDS = 1000.0, 10.0
"""Deletions are collected for the number of a kind's objects divided by this, in seconds, up to a maximum."""
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced=True)
WHOLE = (PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS, RESOURCE_CLAIMS)
"""Resources whose objects count for more than their number."""
KNOWN = (*WHOLE, CONFIG_MAPS, SECRETS, REPLICATION_CONTROLLERS, RESOURCE_QUOTAS)
_PLURALS = frozenset(each.plural for each in KNOWN if not each.group)


class _Spec(Struct):
    hard: dict[str, str] | None = None


class _Status(Struct):
    hard: dict[str, str] | None = None
    used: dict[str, str] | None = None


class _Phase(Struct):
    phase: str | None = None


async def work(context: ReconcileContext, key: Key) -> float | None:
    """Recount the usage of a quota and write it to the status.

    Raises:
        KubeError: a resource could not be counted; Conflict: the quota keeps changing.
    """
    for attempt in range(ATTEMPTS):
        try:
            quota = await context.client.get(RESOURCE_QUOTAS, key.name, key.namespace)
            await _count(context.client, quota)
        except NotFound:
            return None
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            break
    return AGAIN_SECONDS


async def _count(client: Client, quota: Envelope) -> None:
    hard = decode(quota.spec, _Spec).hard or {}
    before = decode(quota.status, _Status)
    used = {name: value for name, value in (before.used or {}).items() if name in hard}
    body = to_dict(quota)
    for resource in await _resources(client, hard):
        names = counted(resource.group, resource.plural, hard)
        total = await _total(client, resource, body, names) if names else {}
        used |= {name: str(each) for name, each in total.items()}
    if _same(before.hard, hard) and _same(before.used, used):
        return
    status = {"hard": _replacing(before.hard, hard), "used": _replacing(before.used, used)}
    metadata = {"uid": quota.uid, "resourceVersion": quota.resource_version}
    patch = {"metadata": metadata, "status": status}
    await client.patch(RESOURCE_QUOTAS, quota.name, patch, quota.namespace, subresource="status")


async def _resources(client: Client, hard: Iterable[str]) -> list[Resource]:
    """Return the resources that a quota may count; only object counts of other resources need discovery."""
    known = {count_name(each.group, each.plural) for each in KNOWN}
    others = {name for name in hard if name.startswith("count/")} - known
    if not others:
        return list(KNOWN)
    found = [
        each
        for each in (await discover(client)).resources
        if each.resource.namespaced and "list" in each.verbs
    ]
    named = [
        each.resource for each in found if count_name(each.resource.group, each.resource.plural) in others
    ]
    return [*KNOWN, *named]


async def _total(client: Client, resource: Resource, quota: dict[str, Any], names: Iterable[str]) -> Usage:
    """Sum what the objects of one resource count against a quota; missing resources count 0.

    Raises:
        KubeError: they could not be read.
    """
    reader = client if resource in WHOLE else client.metadata_only()
    scopes = selectors(quota)
    budget = Budget("the objects of a namespace")
    total = dict.fromkeys(names, NONE)
    async with aclosing(reader.pages(resource, quota["metadata"]["namespace"], limit=AT_ONCE)) as pages:
        number = 0
        async for page in pages:
            if (number := number + 1) > MOST_PAGES:
                raise KubeError(f"{resource.plural}: the list does not end", endpoint=client.name)
            for body in map(to_dict, page.items):
                budget.spend(STEPS_PER_OBJECT + len(scopes))
                await rest(budget)
                if not all(in_scope(resource.group, resource.plural, scope, body) for scope in scopes):
                    continue
                found = usage(resource.group, resource.plural, body)
                for name in total.keys() & found.keys():
                    total[name] += found[name]
    return total


def _same(one: Mapping[str, str] | None, other: Mapping[str, str]) -> bool:
    return one is not None and {name: milli(each) for name, each in one.items()} == {
        name: milli(each) for name, each in other.items()
    }


def _replacing(before: Mapping[str, str] | None, after: Mapping[str, str]) -> dict[str, str | None]:
    """Return the merge patch from one mapping to the other."""
    return {**dict.fromkeys(before or {}), **after}


def counting(view: View, tenant: str, namespace: str, group: str, plural: str) -> list[Key]:
    """Return the quotas of a namespace against which objects of a kind count.

    Raises:
        Crowded: The namespace has too many quotas, or too large ones.
    """
    return [
        key_of(each)
        for each in few(view.of[RESOURCE_QUOTAS].within(tenant, namespace))
        if counted(group, plural, decode(each.spec, _Spec).hard or {})
    ]


def _of_quota(change: Change, _look: View) -> Iterable[Key]:
    """Return a quota that is new or has other limits; charges by admission need no recount."""
    old, new = change.old, change.new
    if new is None or (old is not None and old.spec == new.spec):
        return ()
    return [key_of(new)]


def gathered(view: View, key: Key) -> float:
    """Return the seconds until a decrease is processed: a recount reads all objects, possibly thousands."""
    quota = view.of[RESOURCE_QUOTAS].get(*key)
    used = {} if quota is None else decode(quota.status, _Status).used or {}
    counts = [_number(each) for name, each in used.items() if name.startswith("count/") or name in _PLURALS]
    objects = max([view.of[PODS].count(key.tenant, key.namespace), *counts])
    return min(objects / PACE, GATHER_SECONDS)


def _number(text: str) -> float:
    """Parse a number; 0 for an invalid one that a tenant wrote."""
    try:
        return milli(text) / 1000
    except InvalidQuantity:
        return 0.0


def _less(resource: Resource) -> Watch:
    """Return the quotas whose usage may decrease: the object is gone, or may count less. Admission handles increases.

    If an object moves between quotas, as a Pod that gets a deadline does, both are recounted.
    """
    group, plural = resource.group, resource.plural

    def keys(change: Change, view: View) -> Iterable[Key]:
        each = standing(change)
        if change.old is None:
            return ()
        if change.new is not None and resource is PODS and _alike(change.old, change.new):
            return ()
        quotas = counting(view, each.tenant, namespace_of(each), group, plural)
        if not quotas or change.new is None:
            return quotas
        old, new = to_dict(change.old), to_dict(change.new)
        if usage(group, plural, old) != usage(group, plural, new):
            return quotas
        return [key for key in quotas if _within(view, key, old) != _within(view, key, new)]

    def _within(view: View, key: Key, body: dict[str, Any]) -> bool:
        quota = view.of[RESOURCE_QUOTAS].get(*key)
        scopes = [] if quota is None else selectors(to_dict(quota))
        return all(in_scope(group, plural, scope, body) for scope in scopes)

    return Watch(resource, keys, lambda _change, view, key: gathered(view, key))


def _alike(old: Envelope, new: Envelope) -> bool:
    """Return quickly whether a Pod counts as before: most changes of Pods concern their node, metadata and state."""
    if decode(old.status, _Phase).phase in ENDED or decode(new.status, _Phase).phase in ENDED:
        return False
    return old.spec == new.spec or _without_node(old.spec) == _without_node(new.spec)


def _without_node(spec: bytes) -> dict[str, Raw]:
    fields = decode(spec, dict[str, Raw])
    fields.pop("nodeName", None)
    return fields


RESOURCE_QUOTA = Worker(
    NAME,
    (
        Watch(RESOURCE_QUOTAS, _of_quota),
        *(_less(each) for each in (PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS)),
    ),
    work,
)

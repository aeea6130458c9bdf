"""An event costs a limited amount, however many objects of its tenant it may concern.

The rows are the handlers that find objects without a selector of theirs. They are measured by the instructions of one event.
"""

from typing import Any, NamedTuple

import pytest
from counted_work import work_of
from test_controllers_handlers import CONTROLLERS, TENANT, Server

from vcsync.api import names
from vcsync.api.networks import NETWORKS
from vcsync.controllers.framework import event_handlers
from vcsync.controllers.framework.engine import EVERYTHING, Engine, Item
from vcsync.controllers.framework.mirror import Key, placed
from vcsync.kube.cache import Change
from vcsync.kube.resources import (
    DAEMON_SETS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Resource,
)
from vcsync.objects.envelope import Envelope, encode, parse

SPACES = ("kube-system", "default", "shop")
FEW, MANY = 300, 1200
"""Objects. Both are more than one event looks at."""
Body = dict[str, Any]


def envelope(
    resource: Resource, name: str, version: int, namespace: str = "default", **more: Any
) -> Envelope:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    if resource.namespaced:
        metadata["namespace"] = namespace
    return parse(encode({"metadata": {**metadata, **more.pop("metadata", {})}, **more}))


class Row(NamedTuple):
    """A handler: its controller, the changed object before and after, and the many objects.

    `mine`: one of these, which the change concerns. `later`: all of them are queued later, by the namespace of the item.
    """

    controller: str
    watched: Resource
    old: Body | None
    new: Body | None
    name: str
    many: Resource
    body: Body
    mine: tuple[str, Body]
    later: str | None = None
    place: str = "default"


TAINTED = {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}
OWNED = {
    "metadata": {
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "uid-x", "controller": True}
        ],
        "finalizers": ["batch.kubernetes.io/job-tracking"],
    }
}
EPHEMERAL = {"spec": {"volumes": [{"name": "v-w", "ephemeral": {"volumeClaimTemplate": {}}}]}}
FROM_TEMPLATE = {"spec": {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "x"}]}}
TOKEN: Body = {
    "type": "kubernetes.io/service-account-token",
    "metadata": {"annotations": {"kubernetes.io/service-account.name": "x"}},
}
ENDED = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}

ROWS = [
    Row("statefulset-controller", PERSISTENT_VOLUME_CLAIMS, {}, None, "data-of-my-set-0", STATEFUL_SETS, {}, ("my-set", {})),
    Row("ephemeral-volume-controller", PERSISTENT_VOLUME_CLAIMS, {}, None, "my-pod-v-w", PODS, EPHEMERAL, ("my-pod", EPHEMERAL)),
    Row("persistentvolume-controller", PERSISTENT_VOLUME_CLAIMS, None, {}, "x", PERSISTENT_VOLUMES,
        {"spec": {"claimRef": {"uid": "another"}}}, ("mine", {"spec": {"claimRef": {"uid": "uid-x"}}})),
    Row("persistentvolume-binder-controller", STORAGE_CLASSES, None, {}, "x", PERSISTENT_VOLUME_CLAIMS, {}, ("mine", {}), ""),
    Row("daemonset-controller", NODES, None, {}, "x", DAEMON_SETS, {}, ("mine", {}), ""),
    Row("taint-eviction-controller", NODES, {}, TAINTED, "x", PODS,
        {"spec": {"nodeName": "y"}}, ("mine", {"spec": {"nodeName": "x"}}), ""),
    Row("resourceclaim-controller", RESOURCE_CLAIM_TEMPLATES, None, {}, "x", PODS, {}, ("mine", FROM_TEMPLATE), "default"),
    Row("network-controller", SERVICES, None, {}, names.TENANT_DNS_SERVICE, NETWORKS, {}, ("mine", {}), "", "kube-system"),
    Row("serviceaccount-token-controller", SERVICE_ACCOUNTS, None, {}, "x", SECRETS, {}, ("mine", TOKEN), "default"),
    Row("job-orphan-pod-controller", JOBS, None, ENDED, "x", PODS, OWNED, ("mine", OWNED), "default"),
]  # fmt: skip
IDS = [f"{row.controller} {row.watched.plural}" for row in ROWS]


def put(engine: Engine, resource: Resource, new: Envelope) -> None:
    """Let a mirror see an object. A mirror of some objects only does not take answers to writes."""
    mirror = engine.mirrors[resource]
    found = mirror.reflector.cache.observe(placed(new, TENANT))
    assert found is not None
    mirror._changed(found)


def filled(row: Row, count: int) -> Engine:
    """Return an engine with so many objects, the first one of which the change concerns."""
    engine = Engine(Server(), [CONTROLLERS[row.controller]])  # type: ignore[arg-type]
    if NAMESPACES in engine.mirrors:
        for version, name in enumerate(SPACES):
            put(engine, NAMESPACES, envelope(NAMESPACES, name, version + 1))
    put(engine, row.many, envelope(row.many, row.mine[0], 1, **row.mine[1]))
    for number in range(count - 1):
        put(engine, row.many, envelope(row.many, f"m-{number}", number + 2, **row.body))
    engine.end_tenant(TENANT)
    return engine


def change(row: Row) -> Change:
    sides = [
        None
        if body is None
        else placed(envelope(row.watched, row.name, 9000 + at, row.place, **body), TENANT)
        for at, body in enumerate((row.old, row.new))
    ]
    return Change(*sides)


def steps(row: Row, count: int) -> int:
    engine, event = filled(row, count), change(row)
    wake = engine._waker(engine._watches(row.watched))
    wake(event)  # Caches are filled, and the queue has what the event adds.
    return work_of(lambda: wake(event)).steps


@pytest.mark.parametrize("row", ROWS, ids=IDS)
async def test_an_event_costs_a_limited_amount(row: Row) -> None:
    small, large = steps(row, FEW), steps(row, MANY)
    assert large <= 1.1 * small + 50


@pytest.mark.parametrize("row", ROWS, ids=IDS)
async def test_the_objects_that_it_concerns_are_found_at_once_among_few(row: Row) -> None:
    engine = filled(row, 5)
    [watch] = [each for _, each in engine._watches(row.watched)]
    namespace = "default" if row.many.namespaced else ""
    assert Key(TENANT, namespace, row.mine[0]) in list(watch.keys(change(row), engine.view()))


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.later is not None], ids=lambda row: row.controller
)
async def test_they_are_queued_once_and_later_among_many(row: Row) -> None:
    engine = filled(row, FEW)
    wake = engine._waker(engine._watches(row.watched))
    for _ in range(3):
        wake(change(row))
    queue = engine.work.queue
    assert (queue.statistics().queued, queue.statistics().delayed) == (0, 1)
    assert row.later is not None
    await engine._handle(TENANT, Item(row.controller, row.later, EVERYTHING))
    assert queue.statistics().queued == FEW


async def test_objects_of_all_namespaces_of_one_tenant_are_counted() -> None:
    engine = Engine(Server(), [CONTROLLERS["daemonset-controller"]])  # type: ignore[arg-type]
    mirror = engine.mirrors[DAEMON_SETS]
    for version, space in enumerate(SPACES):
        mirror.observe(TENANT, envelope(DAEMON_SETS, "a", version + 1, space))
        mirror.observe("other", envelope(DAEMON_SETS, "a", version + 1, space))
    assert (mirror.total(TENANT), mirror.count(TENANT, "shop")) == (3, 1)
    mirror.observe(TENANT, envelope(DAEMON_SETS, "a", 9, "shop"))
    mirror.observe_gone(Key(TENANT, "default", "a"), "uid-a")
    assert (mirror.total(TENANT), mirror.total("other"), mirror.total("nobody")) == (2, 3, 0)


async def test_many_namespaces_are_a_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(each for each in ROWS if each.controller == "daemonset-controller")
    monkeypatch.setattr(event_handlers, "NAMESPACES_AT_ONCE", len(SPACES) - 1)
    engine = filled(row, 2)
    engine._waker(engine._watches(row.watched))(change(row))
    assert engine.work.queue.statistics().queued == 0
    await engine._handle(TENANT, Item(row.controller, "", EVERYTHING))
    assert engine.work.queue.statistics().queued == 2

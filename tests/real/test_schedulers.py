"""Both schedulers with a real meta cluster and a real tenant; super clusters exist only as reports."""

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from hack.testbed import TestBed
from tests.real.waiting import soon
from vcsync.api import names
from vcsync.api.crd import crds
from vcsync.api.objects import NamespacePlacement, VirtualCluster
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import AlreadyExists, Conflict, NotFound
from vcsync.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from vcsync.nsscheduler import NamespaceScheduler
from vcsync.objects.envelope import Envelope, untyped
from vcsync.podscheduler import PodScheduler

SLICE = json.dumps({"cpu": "100m", "memory": "100Mi"})
READY = ("Reachable", "Ready")


class World:
    """A tenant (with its VirtualCluster) and two reported super clusters."""

    def __init__(self, meta: Client, tenant: Client, kubeconfig: bytes) -> None:
        self.meta = meta
        self.tenant = tenant
        self.kubeconfig = kubeconfig
        self.mark = uuid.uuid4().hex[:6]
        self.supers = [f"a{self.mark}", f"b{self.mark}"]
        self.namespace = f"ns-{self.mark}"
        self.root = f"root-{self.mark}"
        self.vc = f"vc-{self.mark}"

    async def build(self) -> None:
        for definition in crds():
            with suppress(AlreadyExists):
                await self.meta.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        for namespace in (self.root, names.SYSTEM_NAMESPACE, names.DEFAULT_VC_NAMESPACE):
            with suppress(AlreadyExists):
                await self.meta.create(NAMESPACES, {"metadata": {"name": namespace}})
        for super_id in self.supers:
            await self.report(super_id)
        secret = {
            "metadata": {"name": names.ADMIN_KUBECONFIG_SECRET},
            "data": {names.ADMIN_KUBECONFIG_SECRET: base64.b64encode(self.kubeconfig).decode()},
        }
        await self.meta.create(SECRETS, secret, self.root)
        await self.meta.create(
            VIRTUAL_CLUSTERS,
            {
                "metadata": {"name": self.vc, "finalizers": [names.VIRTUAL_CLUSTER_DRAIN_FINALIZER]},
                "spec": {},
            },
            names.DEFAULT_VC_NAMESPACE,
        )
        status = {"status": {"phase": "Running", "clusterNamespace": self.root}}
        await self.meta.patch(
            VIRTUAL_CLUSTERS, self.vc, status, names.DEFAULT_VC_NAMESPACE, subresource="status"
        )
        await self.tenant.create(
            NAMESPACES, {"metadata": {"name": self.namespace, "annotations": {names.SLICE: SLICE}}}
        )

        # Pods are refused without the ServiceAccount.
        async def account() -> Envelope:
            return await self.tenant.get(SERVICE_ACCOUNTS, "default", self.namespace)

        await soon(account)

    async def report(self, super_id: str, cpu: str = "1", memory: str = "1Gi", **spec: Any) -> None:
        """Write the status of a super cluster, like its syncer."""

        async def create() -> bool:  # the CRD may be new
            with suppress(AlreadyExists):
                await self.meta.create(
                    SUPER_CLUSTERS, {"metadata": {"name": super_id}, "spec": {"id": super_id, **spec}}
                )
            return True

        await soon(create)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        conditions = [
            {"type": kind, "status": "True", "reason": "Test", "lastTransitionTime": now} for kind in READY
        ]
        amounts = {"cpu": cpu, "memory": memory}
        status = {
            "allocatable": amounts,
            "largestNode": amounts,
            "heartbeatTime": now,
            "conditions": conditions,
        }
        await self.meta.patch(SUPER_CLUSTERS, super_id, {"status": status}, subresource="status")

    async def quota(self, cpu: str, memory: str, name: str = "quota") -> None:
        body = {"metadata": {"name": name}, "spec": {"hard": {"cpu": cpu, "memory": memory}}}
        try:
            await self.tenant.create(RESOURCE_QUOTAS, body, self.namespace)
        except AlreadyExists:
            await self.tenant.patch(RESOURCE_QUOTAS, name, {"spec": body["spec"]}, self.namespace)

        async def admitted() -> bool:
            # Admission uses the status, which the tenant's quota controller writes with a delay.
            found = await self.tenant.get(RESOURCE_QUOTAS, name, self.namespace)
            assert untyped(found.status).get("hard") == {"cpu": cpu, "memory": memory}
            return True

        await soon(admitted)

    async def placements(self) -> dict[str, int] | None:
        """Return the placements that the tenant sees; annotation and labels must agree."""
        found = await self.tenant.get(NAMESPACES, self.namespace)
        text = found.annotations.get(names.PLACEMENTS)
        shown = None if text is None else json.loads(text)
        prefix = names.PLACEMENT_DOMAIN + "/"
        labels = {
            key.removeprefix(prefix): int(value)
            for key, value in found.labels.items()
            if key.startswith(prefix)
        }
        assert labels == (shown or {})
        return shown

    async def shows(self, expected: dict[str, int] | None) -> None:
        async def same() -> bool:
            found = await self.placements()
            assert found == expected
            return True

        await soon(same)

    async def entry(self) -> NamespacePlacement | None:
        try:
            return NamespacePlacement.from_envelope(
                await self.meta.get(NAMESPACE_PLACEMENTS, self.namespace, self.root)
            )
        except NotFound:
            return None

    async def drained(self) -> None:
        """Remove the finalizers of the namespace's entry, as the syncers do."""
        change = {"metadata": {"finalizers": None}}
        await self.meta.patch(NAMESPACE_PLACEMENTS, self.namespace, change, self.root)

    async def pod(self, name: str, cpu: str = "50m", memory: str = "10Mi", **metadata: Any) -> None:
        amounts = {"cpu": cpu, "memory": memory}
        container = {"name": "c", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
        body = {"metadata": {"name": name, **metadata}, "spec": {"containers": [container]}}
        await self.tenant.create(PODS, body, self.namespace)

    async def placed(self, name: str) -> str:
        """Wait until a Pod has a super cluster in label and annotation, and return it."""

        async def label() -> str:
            pod = await self.tenant.get(PODS, name, self.namespace)
            found = pod.labels.get(names.SUPER_CLUSTER, "")
            assert pod.annotations.get(names.SUPER_CLUSTER, "") == found
            return found

        found = await soon(label)
        assert isinstance(found, str)
        return found

    async def placed_at(self, name: str, super_id: str) -> bool:
        """Wait until a Pod is assigned to a super cluster."""

        async def there() -> bool:
            assert await self.placed(name) == super_id
            return True

        return bool(await soon(there))

    async def waits(self, name: str, says: str) -> None:
        """Wait until a Pod's condition has the expected reason and no super cluster was chosen."""

        async def reported() -> bool:
            pod = await self.tenant.get(PODS, name, self.namespace)
            conditions = untyped(pod.status).get("conditions", [])
            messages = [each["message"] for each in conditions if each["reason"] == "Unschedulable"]
            assert names.SUPER_CLUSTER not in pod.labels
            assert messages, conditions
            assert says in messages[0]
            return True

        await soon(reported)

    async def events(self, reason: str) -> list[Envelope]:
        found = await self.tenant.list(EVENTS, self.namespace)
        return [event for event in found if untyped(event.rest)["reason"] == reason]

    async def clean(self) -> None:
        """Remove all objects, like the syncers."""
        with suppress(NotFound):
            await self.tenant.delete(NAMESPACES, self.namespace)
        with suppress(NotFound):
            await self.meta.patch(
                VIRTUAL_CLUSTERS, self.vc, {"metadata": {"finalizers": None}}, names.DEFAULT_VC_NAMESPACE
            )
            await self.meta.delete(VIRTUAL_CLUSTERS, self.vc, names.DEFAULT_VC_NAMESPACE)
        for item in await self.meta.list(NAMESPACE_PLACEMENTS, self.root):
            with suppress(NotFound):
                await self.meta.patch(
                    NAMESPACE_PLACEMENTS, item.name, {"metadata": {"finalizers": None}}, self.root
                )
                await self.meta.delete(NAMESPACE_PLACEMENTS, item.name, self.root)
        for super_id in self.supers:
            with suppress(NotFound):
                await self.meta.delete(SUPER_CLUSTERS, super_id)
        await self.meta.delete(NAMESPACES, self.root)


def connect(kubeconfig: bytes, name: str) -> Client:
    return Client(Connection.from_kubeconfig_bytes(kubeconfig), name=name)


@asynccontextmanager
async def running(*roles: NamespaceScheduler | PodScheduler) -> AsyncIterator[None]:
    """Run roles until the block ends; their failures fail the test."""
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(role.run()) for role in roles]
        try:
            yield
        finally:
            for task in started:
                task.cancel()


def schedulers(meta: Client) -> tuple[NamespaceScheduler, PodScheduler]:
    return (
        NamespaceScheduler(meta, identity="test", leader_elect=False),
        PodScheduler(meta, identity="test", leader_elect=False),
    )


@pytest.fixture
async def still(testbed: TestBed) -> AsyncIterator[World]:
    """The world without running schedulers."""
    kubeconfig = testbed.tenants["acme"].kubeconfig.read_bytes()
    async with AsyncExitStack() as stack:
        meta = await stack.enter_async_context(connect(testbed.meta.kubeconfig.read_bytes(), "meta"))
        tenant = await stack.enter_async_context(connect(kubeconfig, "acme"))
        built = World(meta, tenant, kubeconfig)
        try:
            await built.build()
            yield built
        finally:
            await built.clean()


@pytest.fixture
async def world(still: World) -> AsyncIterator[World]:
    """The world with both schedulers running."""
    async with running(*schedulers(still.meta)):
        yield still


async def test_the_walk_through(world: World) -> None:
    a, b = world.supers
    await world.quota("200m", "200Mi")
    await world.shows({a: 1, b: 1})
    entry = await world.entry()
    assert entry is not None
    assert entry.status.placements == {a: 1, b: 1}
    assert entry.status.waiting == 0
    assert set(entry.finalizers) == {names.drain_finalizer(a), names.drain_finalizer(b)}
    await soon(lambda: world.events("Scheduled"))

    await world.pod("one", "100m", "100Mi")
    assert await world.placed("one") == a
    await world.pod("two", "100m", "100Mi")
    assert await world.placed("two") == b


async def test_a_tenant_gets_one_event_for_each_priority_class_of_its_own(still: World) -> None:
    before, after = (f"{still.namespace}-{name}" for name in ("before", "after"))

    async def create(name: str) -> None:
        await still.tenant.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 1000})

    async def events() -> dict[str, Envelope]:
        found = [(event, untyped(event.rest)) for event in await still.tenant.list(EVENTS, "default")]
        named = [
            (rest["involvedObject"]["name"], event)
            for event, rest in found
            if rest["reason"] == "WithoutEffect"
        ]
        own = [(name, event) for name, event in named if name in (before, after)]
        assert len(own) == len(dict(own))
        return dict(own)

    async def so_many(count: int) -> dict[str, Envelope]:
        found = await events()
        assert len(found) == count
        return found

    await create(before)
    try:
        async with running(*schedulers(still.meta)):
            first = await soon(lambda: so_many(1))
            assert "this one gives Pods no precedence there" in untyped(first[before].rest)["message"]
        async with running(*schedulers(still.meta)):  # another term
            await create(after)
            second = await soon(lambda: so_many(2))
        assert second[before].resource_version == first[before].resource_version
    finally:
        for name in (before, after):
            with suppress(NotFound):
                await still.tenant.delete(PRIORITY_CLASSES, name)


async def test_a_pod_too_large_for_any_share_waits_and_is_placed_when_the_slices_grow(world: World) -> None:
    a, b = world.supers
    await world.quota("200m", "200Mi")
    await world.shows({a: 1, b: 1})
    await world.pod("large", "150m")
    await world.waits("large", f"{a}: cpu 150m asked, 100m of 100m free")
    await soon(lambda: world.events("FailedScheduling"))
    await world.quota("400m", "400Mi")
    await world.shows({a: 2, b: 2})
    assert await world.placed("large") in (a, b)
    assert len(await world.events("FailedScheduling")) == 1


async def test_a_pod_waits_for_the_quota_of_its_namespace(world: World) -> None:
    await world.pod("early")
    await world.waits("early", "holds no slices")
    await soon(lambda: world.events("NoQuota"))
    await world.quota("100m", "100Mi")
    assert await world.placed("early") in world.supers


async def test_a_freed_share_goes_to_a_waiting_pod(world: World) -> None:
    await world.quota("100m", "100Mi")
    await world.pod("first", "100m")
    assert await world.placed("first")
    await world.quota("101m", "101Mi", "quota")  # the quota lets a second in, on a second slice
    await world.pod("second", "1m")
    await world.placed("second")
    await world.quota("300m", "300Mi")
    await world.pod("third", "101m")
    await world.waits("third", "cpu 101m asked")
    await world.quota("600m", "600Mi")
    assert await world.placed("third")


def gone(world: World) -> Callable[[], Awaitable[bool]]:
    """Return a condition that holds once the namespace has no entry."""

    async def check() -> bool:
        return await world.entry() is None

    return check


async def test_a_removed_quota_takes_the_slices_away_and_the_entry_ends_once_the_syncers_are_done(
    world: World,
) -> None:
    a, b = world.supers
    await world.quota("200m", "200Mi")
    await world.shows({a: 1, b: 1})
    await world.tenant.delete(RESOURCE_QUOTAS, "quota", world.namespace)
    await world.shows(None)
    entry = await world.entry()
    assert entry is not None
    assert (entry.deleting, entry.status.placements, set(entry.status.clearing)) == (False, {}, {a, b})
    await world.drained()
    await soon(gone(world))


async def test_a_quota_that_comes_back_gets_its_slices_while_the_syncers_still_clear(world: World) -> None:
    a, b = world.supers
    await world.quota("200m", "200Mi")
    await world.shows({a: 1, b: 1})
    await world.tenant.delete(RESOURCE_QUOTAS, "quota", world.namespace)
    await world.shows(None)
    await world.quota("100m", "100Mi")
    await world.shows({a: 1})


async def test_the_mirror_is_restored_after_a_tenants_change(world: World) -> None:
    a, b = world.supers
    await world.quota("200m", "200Mi")
    await world.shows({a: 1, b: 1})
    forged = {
        "metadata": {
            "annotations": {names.PLACEMENTS: '{"elsewhere":9}'},
            "labels": {names.placement_label("elsewhere"): "9", names.placement_label(a): None},
        }
    }
    await world.tenant.patch(NAMESPACES, world.namespace, forged)
    await world.shows({a: 1, b: 1})
    entry = await world.entry()
    assert entry is not None
    assert entry.status.placements == {a: 1, b: 1}


async def test_a_tenants_labels_move_its_pods_only_to_super_clusters_with_its_slices(world: World) -> None:
    a, b = world.supers
    await world.quota("100m", "100Mi")
    await world.shows({a: 1})
    await world.pod("forged", labels={names.SUPER_CLUSTER: b})
    assert await world.placed_at("forged", a)
    await world.pod("chosen", labels={names.SUPER_CLUSTER: a})
    assert await world.placed("chosen") == a
    await world.tenant.patch(
        PODS, "chosen", {"metadata": {"labels": {names.SUPER_CLUSTER: None}}}, world.namespace
    )
    assert await world.placed_at("chosen", a)


async def test_the_label_of_a_bound_pod_is_restored(world: World) -> None:
    a, b = world.supers
    await world.quota("200m", "200Mi")
    await world.shows({a: 1, b: 1})
    await world.pod("bound")
    home = await world.placed("bound")
    target = {"apiVersion": "v1", "kind": "Node", "name": f"node-1.{home}"}
    await world.tenant.create(
        PODS,
        {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "bound"}, "target": target},
        world.namespace,
        name="bound",
        subresource="binding",
    )
    other = b if home == a else a
    await world.tenant.patch(
        PODS, "bound", {"metadata": {"labels": {names.SUPER_CLUSTER: other}}}, world.namespace
    )
    assert await world.placed_at("bound", home)


async def test_a_malformed_slice_annotation_is_reported_and_moves_nothing(world: World) -> None:
    a, b = world.supers
    await world.quota("200m", "200Mi")
    await world.shows({a: 1, b: 1})
    await world.tenant.patch(
        NAMESPACES, world.namespace, {"metadata": {"annotations": {names.SLICE: '{"cpu":"0"}'}}}
    )
    [event] = await soon(lambda: world.events("InvalidSlice"))
    assert "field 'cpu': '0' must be more than zero" in untyped(event.rest)["message"]
    entry = await world.entry()
    assert entry is not None
    assert [condition.reason for condition in entry.status.conditions] == ["InvalidSlice"]
    await world.shows({a: 1, b: 1})
    smaller = json.dumps({"cpu": "50m", "memory": "50Mi"})
    await world.tenant.patch(
        NAMESPACES, world.namespace, {"metadata": {"annotations": {names.SLICE: smaller}}}
    )
    await world.shows({a: 2, b: 2})


async def test_slices_wait_for_capacity_and_are_placed_when_it_appears(world: World) -> None:
    a, b = world.supers
    for super_id in world.supers:
        await world.report(super_id, cpu="100m")
    await asyncio.sleep(0.5)
    await world.quota("400m", "400Mi")
    await world.shows({a: 1, b: 1})
    [event] = await soon(lambda: world.events("FailedScheduling"))
    assert "2 of 4 slices wait" in untyped(event.rest)["message"]
    # The free capacity is visible only to operators.
    assert "of 100m free" not in untyped(event.rest)["message"]
    await world.report(b, cpu="300m")
    await world.shows({a: 1, b: 3})


async def test_a_restart_changes_nothing(still: World) -> None:
    a, b = still.supers
    async with running(*schedulers(still.meta)):
        await still.quota("200m", "200Mi")
        await still.shows({a: 1, b: 1})
        await still.pod("one")
        home = await still.placed("one")
    before = await still.entry()
    pod = await still.tenant.get(PODS, "one", still.namespace)
    async with running(*schedulers(still.meta)):
        await still.pod("two")
        assert await still.placed("two") != home
        await asyncio.sleep(0.5)
    after = await still.entry()
    assert before is not None
    assert after is not None
    assert after.resource_version == before.resource_version
    assert (await still.tenant.get(PODS, "one", still.namespace)).resource_version == pod.resource_version


async def test_a_deleted_virtual_cluster_is_released_when_its_ledger_is_empty(world: World) -> None:
    await world.quota("200m", "200Mi")
    await soon(world.placements)
    await world.meta.delete(VIRTUAL_CLUSTERS, world.vc, names.DEFAULT_VC_NAMESPACE)

    async def draining() -> bool:
        entry = await world.entry()
        return entry is not None and entry.deleting

    await soon(draining)
    still_there = VirtualCluster.from_envelope(
        await world.meta.get(VIRTUAL_CLUSTERS, world.vc, names.DEFAULT_VC_NAMESPACE)
    )
    assert names.VIRTUAL_CLUSTER_DRAIN_FINALIZER in still_there.finalizers
    await world.drained()

    async def gone() -> bool:
        try:
            await world.meta.get(VIRTUAL_CLUSTERS, world.vc, names.DEFAULT_VC_NAMESPACE)
        except NotFound:
            return True
        return False

    await soon(gone)


async def test_an_unreachable_tenant_does_not_delay_others(world: World, testbed: TestBed) -> None:
    root, vc = f"dead-{world.mark}", f"dead-{world.mark}"
    dead = world.kubeconfig.replace(testbed.tenants["acme"].url.encode(), b"https://127.0.0.1:1")
    assert dead != world.kubeconfig
    await world.meta.create(NAMESPACES, {"metadata": {"name": root}})
    data = {names.KUBECONFIG_KEY: base64.b64encode(dead).decode()}
    for role in names.ROLES:
        secret = {"metadata": {"name": names.role_secret(role)}, "data": data}
        await world.meta.create(SECRETS, secret, root)
    await world.meta.create(
        VIRTUAL_CLUSTERS, {"metadata": {"name": vc}, "spec": {}}, names.DEFAULT_VC_NAMESPACE
    )
    status = {"status": {"phase": "Running", "clusterNamespace": root}}
    await world.meta.patch(VIRTUAL_CLUSTERS, vc, status, names.DEFAULT_VC_NAMESPACE, subresource="status")
    try:
        await world.quota("200m", "200Mi")
        await soon(world.placements)
        await world.pod("one")
        assert await world.placed("one")
    finally:
        await world.meta.delete(VIRTUAL_CLUSTERS, vc, names.DEFAULT_VC_NAMESPACE)
        await world.meta.delete(NAMESPACES, root)


async def test_a_standby_takes_over_and_both_report_their_state(still: World) -> None:
    first, second = (NamespaceScheduler(still.meta, identity=name) for name in ("first", "second"))
    pods = PodScheduler(still.meta, identity="first")

    async def leads(role: NamespaceScheduler) -> bool:
        return bool(role.status()["leader"] and role.ready() == (True, "leading"))

    async with running(pods):
        async with running(first):
            await soon(lambda: leads(first), 40)
            async with running(second):
                await still.quota("200m", "200Mi")
                await soon(still.placements)
                await still.pod("large", "150m")
                await still.waits("large", "150m asked")
                assert not second.status()["leader"]
                assert second.ready()[1].startswith("standby")
                explained = first.explain_namespace(still.root, still.namespace)
                assert explained is not None
                assert explained["placements"] == dict.fromkeys(still.supers, 1)

                async def outcome() -> str:
                    """The Pod may show it before the answer to that write has reached the scheduler."""
                    pod = pods.explain_pod(still.root, still.namespace, "large")
                    return "" if pod is None else str(pod["outcome"])

                await soon(outcome)
                assert await outcome() == "waiting"
                for role in (first, second, pods):
                    json.dumps(role.status())
                    assert [family.name for family in role.metrics()]
                assert first.status()["tenants"][still.root]["synced"]
                seen_by_first = await still.meta.get(NAMESPACE_PLACEMENTS, still.namespace, still.root)
                # Namespaces of earlier tests may still be going, with Pods that wait in them.
                assert pods.status()["tenants"][still.root]["waiting"] >= 1
        async with running(second):
            await soon(lambda: leads(second), 40)
            late = {
                "metadata": {"resourceVersion": seen_by_first.resource_version},
                "status": {"placements": {}},
            }
            with pytest.raises(Conflict):
                await still.meta.patch(
                    NAMESPACE_PLACEMENTS, still.namespace, late, still.root, subresource="status"
                )
            await still.quota("400m", "400Mi")
            await still.shows(dict.fromkeys(still.supers, 2))
            assert await still.placed("large")


async def test_no_decision_precedes_the_reports_of_all_super_clusters_or_the_time_limit(
    still: World,
) -> None:
    silent = f"c{still.mark}"
    await still.meta.create(SUPER_CLUSTERS, {"metadata": {"name": silent}, "spec": {"id": silent}})
    roles = (
        NamespaceScheduler(still.meta, identity="a", leader_elect=False),
        PodScheduler(still.meta, identity="a", leader_elect=False),
    )
    reasons: set[str] = set()

    async def reasons_and_began() -> bool:
        for role in roles:
            reasons.add(role.ready()[1])
        # A super cluster that never reports is not a reason to be unready, and is named in the text.
        return all(ready and text.startswith("leading") for ready, text in (role.ready() for role in roles))

    try:
        async with running(roles[0]), running(roles[1]):
            await soon(reasons_and_began, 40)
    finally:
        await still.meta.delete(SUPER_CLUSTERS, silent)
    assert any(text.startswith("waiting up to") and silent in text for text in reasons)

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from vcsync.api import names
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.fairqueue import Backoff
from vcsync.kube.breaker import BreakerState
from vcsync.kube.errors import NotFound, ServerError, Status, Unauthorized, Unreachable
from vcsync.kube.transport import ClientStatistics
from vcsync.objects.envelope import Envelope, ListPage, WatchEvent, parse
from vcsync.tenancy import TenantHandle, TenantRegistry, TenantState
from vcsync.tenancy.caches import CachesNotSynced
from vcsync.tenancy.proof import WrongControlPlane
from vcsync.tenancy.registry import TenantTooLarge
from vcsync.tenancy.status import troubles_metric


class MetaServer:
    """A meta cluster in memory, with the methods of a client that the registry and its reflector use."""

    name = "meta"

    def __init__(self) -> None:
        self.secrets: dict[tuple[str, str], dict[str, str]] = {}
        self.broken: Exception | None = None
        self.reads = 0
        self.events: list[dict[str, Any]] = []
        self._objects: dict[str, dict[str, Any]] = {}
        self._events: asyncio.Queue[WatchEvent] = asyncio.Queue()
        self._version = 0

    def put(self, name: str, *, phase: str = "Running", key: str = "", **metadata: Any) -> None:
        self._version += 1
        meta = {"name": name, "namespace": "vcsync", "uid": f"uid-{name}", **metadata}
        body = {
            "metadata": meta | {"resourceVersion": str(self._version)},
            "spec": metadata.pop("spec", {}),
            "status": {"phase": phase, "clusterNamespace": key or f"root-{name}"},
        }
        body["metadata"].pop("spec", None)
        kind = "MODIFIED" if name in self._objects else "ADDED"
        self._objects[name] = body
        self._events.put_nowait(WatchEvent(kind, self._parse(name)))

    def remove(self, name: str) -> None:
        self._version += 1
        self._objects[name]["metadata"]["resourceVersion"] = str(self._version)
        self._events.put_nowait(WatchEvent("DELETED", self._parse(name)))
        del self._objects[name]

    def credentials(self, key: str, text: str, *, secret: str = "kubeconfig-syncer") -> None:
        data = base64.b64encode(text.encode()).decode()
        self.secrets[f"root-{key}", secret] = {"kubeconfig" if secret != "admin-kubeconfig" else secret: data}

    def _parse(self, name: str) -> Envelope:
        return parse(json.dumps(self._objects[name]).encode())

    # The client's side

    async def pages(self, *_: Any, **__: Any) -> AsyncIterator[ListPage]:
        yield ListPage([self._parse(name) for name in self._objects], str(self._version), "", None)

    async def watch_batches(
        self, *_: Any, send_initial_events: bool = False, **__: Any
    ) -> AsyncIterator[Any]:
        if send_initial_events:
            for name in self._objects:
                yield [WatchEvent("ADDED", self._parse(name))]
            end = {"k8s.io/initial-events-end": "true"}
            bookmark = Envelope("", resource_version=str(self._version), annotations=end)
            yield [WatchEvent("BOOKMARK", bookmark)]
        yield ()
        while True:
            yield [await self._events.get()]

    async def create(self, _resource: Any, body: dict[str, Any], _namespace: str = "") -> None:
        self.events.append(body)

    async def patch(self, *_: Any, **__: Any) -> None:
        pass

    async def get(self, _resource: Any, name: str, namespace: str = "") -> Envelope:
        self.reads += 1
        if self.broken is not None:
            raise self.broken
        data = self.secrets.get((namespace, name))
        if data is None:
            raise NotFound(Status(404))
        return parse(json.dumps({"metadata": {"name": name}, "data": data}).encode())


class FakeClient:
    """A tenant's client: only its credentials and its end matter."""

    def __init__(self, kubeconfig: bytes, name: str) -> None:
        self.kubeconfig = kubeconfig.decode()
        self.name = name
        self.closed = False
        self.on_unauthorized_callbacks: list[Callable[[], None]] = []
        self.trouble: tuple[str | None, float | None] = (None, None)
        self.last_success_at = 1.0

    async def get(self, *_: object) -> Envelope:
        return Envelope("kube-system", uid="uid-of-another")

    async def version(self) -> dict[str, Any]:
        if self.kubeconfig == "hangs":
            await asyncio.Event().wait()
        if self.kubeconfig == "unreachable":
            raise Unreachable("no route")
        if self.kubeconfig == "refuses":
            raise Unauthorized(Status(401))
        return {}

    def on_unauthorized(self, callback: Callable[[], None]) -> None:
        self.on_unauthorized_callbacks.append(callback)

    def refuse(self) -> None:
        self.trouble = ("GET /api: 401 Unauthorized", 2.0)
        for callback in self.on_unauthorized_callbacks:
            callback()

    def statistics(self) -> ClientStatistics:
        return ClientStatistics({}, 0, 0, BreakerState.CLOSED, *self.trouble, self.last_success_at)

    async def __aenter__(self) -> "FakeClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed = True


class Stage:
    """A running registry, and a diary of the starts and ends of tenants' tasks."""

    def __init__(self) -> None:
        self.meta = MetaServer()
        self.diary: list[str] = []
        self.handles: dict[str, TenantHandle] = {}
        self.clients: list[FakeClient] = []
        self.behave: Callable[[TenantHandle], Any] | None = None
        self.registry: TenantRegistry | None = None

    async def serve(self, handle: TenantHandle) -> None:
        self.handles[handle.key] = handle
        self.diary.append(f"start {handle.key} {handle.client.kubeconfig}")
        try:
            if self.behave is not None:
                await self.behave(handle)
            handle.ready()
            await asyncio.Event().wait()
        finally:
            await self.parting()
            self.diary.append(f"end {handle.key}")

    async def parting(self) -> None:
        """The steps of a task when it is cancelled."""

    def make_client(self, kubeconfig: bytes, key: str) -> FakeClient:
        self.clients.append(FakeClient(kubeconfig, key))
        return self.clients[-1]

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[TenantRegistry]:
        options.setdefault("backoff", Backoff(base=0.001, cap=0.001))
        self.registry = TenantRegistry(
            self.meta, "syncer", self.serve, make_client=self.make_client, **options
        )
        task = asyncio.create_task(self.registry.run())
        try:
            yield self.registry
        finally:
            task.cancel()
            await asyncio.wait((task,))
            assert task.cancelled()

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(5):
            while not condition():
                await asyncio.sleep(0.001)

    async def reads(self, *lines: str) -> None:
        """Wait until the diary reads so."""
        try:
            await self.until(lambda: self.diary == list(lines))
        except TimeoutError:
            assert self.diary == list(lines)

    def state(self, key: str) -> TenantState | None:
        assert self.registry is not None
        return next((each.state for each in self.registry.statistics() if each.key == key), None)


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_each_running_virtual_cluster_has_a_task_until_it_goes(stage):
    for key in ("a", "b", "c"):
        stage.meta.credentials(key, f"config-{key}")
    stage.meta.put("a")
    stage.meta.put("c", phase="Pending")
    async with stage.running() as registry:
        await stage.reads("start root-a config-a")
        stage.meta.put("b")
        await stage.reads("start root-a config-a", "start root-b config-b")
        await stage.until(lambda: stage.state("root-b") is TenantState.READY)
        assert registry.tenants() == ["root-a", "root-b"]
        stage.diary.clear()
        stage.meta.put("c")
        await stage.reads("start root-c config-c")
        stage.meta.remove("a")
        stage.meta.put("b", deletionTimestamp="2026-01-01T00:00:00Z")
        stage.meta.put("c", phase="Error")
        await stage.reads("start root-c config-c", "end root-a", "end root-b", "end root-c")
        assert registry.tenants() == []
    assert all(client.closed for client in stage.clients)


async def test_stopping_ends_all_tasks(stage):
    stage.meta.credentials("a", "config")
    stage.meta.put("a")
    async with stage.running():
        await stage.reads("start root-a config")
    assert stage.diary == ["start root-a config", "end root-a"]
    assert stage.clients[0].closed


async def test_a_failure_of_one_tenant_does_not_affect_others(stage):
    failures = ["first", "second"]

    async def behave(handle):
        if handle.key == "root-a" and failures:
            raise RuntimeError(failures.pop(0))

    stage.behave = behave
    for key in ("a", "b"):
        stage.meta.credentials(key, key)
        stage.meta.put(key)
    async with stage.running() as registry:
        await stage.until(lambda: stage.state("root-a") is TenantState.READY)
        assert stage.diary.count("start root-a a") == 3
        assert stage.diary.count("start root-b b") == 1
        [entry] = [each for each in registry.statistics() if each.key == "root-a"]
        assert (entry.failures, entry.last_error) == (2, "RuntimeError: second")


async def test_a_task_that_returns_is_an_error(stage):
    async def behave(_handle):
        raise ExceptionGroup("tasks", [ValueError("inner"), ValueError("other")])

    stage.behave = behave
    stage.meta.credentials("a", "x")
    stage.meta.put("a")
    async with stage.running() as registry:
        await stage.until(lambda: len(stage.diary) >= 4)
        [entry] = registry.statistics()
        assert entry.last_error == "ValueError: inner (and 1 more)"


async def test_changed_credentials_swap_the_connection_of_that_tenant_only(stage):
    for key in ("a", "b"):
        stage.meta.credentials(key, "old")
        stage.meta.put(key)
    async with stage.running():
        await stage.until(lambda: len(stage.diary) == 2)
        stage.diary.clear()
        stage.meta.credentials("a", "new")
        stage.handles["root-a"].refused()
        await stage.reads("end root-a", "start root-a new")
        assert [client.closed for client in stage.clients] == [True, False, False]


async def test_credentials_are_read_again_after_an_interval_and_when_the_object_changes(stage):
    stage.meta.credentials("a", "1")
    stage.meta.put("a")
    async with stage.running(refresh_seconds=0.01):
        await stage.reads("start root-a 1")
        stage.meta.credentials("a", "2")
        await stage.reads("start root-a 1", "end root-a", "start root-a 2")
    stage.diary.clear()
    async with stage.running(refresh_seconds=1000):
        await stage.reads("start root-a 2")
        stage.meta.credentials("a", "3")
        stage.meta.put("a", labels={"touched": "true"})
        await stage.reads("start root-a 2", "end root-a", "start root-a 3")


async def test_the_connection_remains_if_credentials_cannot_be_read_again(stage):
    stage.meta.credentials("a", "1")
    stage.meta.put("a")
    async with stage.running(refresh_seconds=0.01) as registry:
        await stage.reads("start root-a 1")
        stage.meta.broken = ServerError(Status(500, "", "no"))
        await stage.until(lambda: registry.statistics()[0].last_error)
        assert "credentials cannot be re-read: ServerError" in registry.statistics()[0].last_error
        assert stage.diary == ["start root-a 1"]


async def test_refused_credentials_are_reported_until_they_are_replaced(stage, monkeypatch):
    monkeypatch.setattr("vcsync.tenancy.registry._RECHECK_SECONDS", 0.0)
    stage.meta.credentials("a", "1")
    stage.meta.put("a")
    async with stage.running(refresh_seconds=1000) as registry:
        await stage.until(lambda: stage.state("root-a") is TenantState.READY)
        assert registry.statistics()[0].last_error == ""
        stage.clients[0].refuse()
        stage.clients[0].refuse()
        await stage.until(lambda: stage.meta.events)
        for text in (stage.meta.events[0]["message"], registry.statistics()[0].last_error):
            assert "401" in text
            assert "put a valid kubeconfig into Secret root-a/kubeconfig-syncer" in text
        assert (stage.meta.events[0]["type"], stage.meta.events[0]["reason"]) == (
            "Warning",
            "CredentialsRefused",
        )
        assert stage.meta.events[0]["involvedObject"] == {
            "apiVersion": VIRTUAL_CLUSTERS.api_version,
            "kind": "VirtualCluster",
            "namespace": "vcsync",
            "name": "a",
            "uid": "uid-a",
        }
        assert stage.diary == ["start root-a 1"], "streams that are up go on"
        stage.meta.credentials("a", "2")
        stage.meta.put("a", labels={"touched": "true"})
        await stage.until(lambda: stage.diary[-1] == "start root-a 2")
        await stage.until(lambda: registry.statistics()[0].last_error == "")
    assert len(stage.meta.events) == 1


async def test_unusable_credentials_and_virtual_clusters_are_reported(stage):
    stage.meta.secrets["root-a", "kubeconfig-syncer"] = {}
    stage.meta.put("a")
    stage.meta.put("b", key="root-a")
    async with stage.running():
        await stage.until(lambda: len(stage.meta.events) >= 2)
    messages = {event["reason"]: event["message"] for event in stage.meta.events}
    assert "has no key 'kubeconfig'" in messages["CredentialsInvalid"]
    assert "put a valid kubeconfig into Secret root-a/kubeconfig-syncer" in messages["CredentialsInvalid"]
    assert "give it another status.clusterNamespace" in messages["Refused"]


async def test_credentials_are_found_in_the_agreed_order(stage):
    inline = base64.b64encode(b"inline").decode()
    stage.meta.credentials("own", "own")
    stage.meta.credentials("own", "admin", secret="admin-kubeconfig")
    stage.meta.credentials("admin", "admin", secret="admin-kubeconfig")
    for name in ("own", "admin", "none"):
        stage.meta.put(name)
    stage.meta.put("inline", annotations={names.ADMIN_KUBECONFIG: inline})
    async with stage.running() as registry:
        await stage.until(lambda: len(stage.diary) == 3)
        assert set(stage.diary) == {
            "start root-own own",
            "start root-admin admin",
            "start root-inline inline",
        }
        await stage.until(lambda: stage.state("root-none") is TenantState.BACKOFF)
        [entry] = [each for each in registry.statistics() if each.key == "root-none"]
        assert (
            "create one of the Secrets root-none/kubeconfig-syncer, root-none/admin-kubeconfig"
            in entry.last_error
        )


@pytest.mark.parametrize(
    ("data", "says"),
    [({}, "has no key 'kubeconfig'"), ({"kubeconfig": "?"}, "key 'kubeconfig': not base64")],
)
async def test_a_malformed_secret_is_named_and_not_repeated(stage, data, says):
    stage.meta.secrets["root-a", "kubeconfig-syncer"] = data
    stage.meta.put("a")
    async with stage.running() as registry:
        await stage.until(lambda: registry.statistics() and registry.statistics()[0].last_error)
        assert says in registry.statistics()[0].last_error


async def test_the_number_of_tenants_in_set_up_is_limited(stage):
    hold = asyncio.Event()

    async def behave(_handle):
        await hold.wait()

    stage.behave = behave
    for number in range(5):
        stage.meta.credentials(str(number), "x")
        stage.meta.put(str(number))
    async with stage.running(connecting=2):
        await stage.until(lambda: len(stage.diary) == 2)
        await asyncio.sleep(0.02)
        assert len(stage.diary) == 2
        hold.set()
        await stage.until(lambda: len(stage.diary) == 5)


async def test_tenants_that_do_not_answer_use_no_set_up_slots(stage):
    for number in range(100):
        stage.meta.credentials(f"hangs{number}", "hangs")
        stage.meta.put(f"hangs{number}")
    stage.meta.credentials("healthy", "x")
    stage.meta.put("healthy")
    stage.meta.credentials("refuses", "refuses")
    stage.meta.put("refuses")
    async with stage.running(connecting=1, setup_seconds=1000):
        await stage.until(lambda: len(stage.diary) == 2)


async def test_a_tenant_that_cannot_be_reached_is_served_as_soon_as_it_can(stage):
    stage.meta.credentials("a", "unreachable")
    stage.meta.put("a")
    async with stage.running():
        await stage.reads("start root-a unreachable")


async def test_a_tenant_that_does_not_get_ready_releases_its_slot(stage):
    async def behave(_handle):
        await asyncio.Event().wait()

    stage.behave = behave
    for key in ("a", "b"):
        stage.meta.credentials(key, "x")
        stage.meta.put(key)
    async with stage.running(connecting=1, setup_seconds=0.01):
        await stage.until(lambda: len(stage.diary) == 2)


@pytest.mark.parametrize("goes_on", [False, True])
async def test_a_tenant_that_stops_answering_in_set_up_releases_its_slot_early(stage, monkeypatch, goes_on):
    monkeypatch.setattr("vcsync.tenancy.registry._SILENT_SECONDS", 0.01)

    async def behave(handle):
        while goes_on and handle.key == "root-a":
            handle.client.last_success_at += 1.0
            await asyncio.sleep(0)
        await asyncio.Event().wait()

    stage.behave = behave
    for key in ("a", "b"):
        stage.meta.credentials(key, "x")
        stage.meta.put(key)
    async with stage.running(connecting=1, setup_seconds=1000):
        await stage.until(lambda: len(stage.diary) == (1 if goes_on else 2))
        await asyncio.sleep(0.05)
        assert len(stage.diary) == (1 if goes_on else 2)


async def test_a_cluster_key_belongs_to_one_virtual_cluster_until_that_goes(stage):
    stage.meta.credentials("a", "x")
    stage.meta.put("a")
    stage.meta.put("b", key="root-a")
    async with stage.running() as registry:
        await stage.reads("start root-a x")
        [refused] = [each for each in registry.statistics() if each.state is TenantState.REFUSED]
        assert refused.virtual_cluster == "vcsync/b"
        assert "cluster key root-a belongs to VirtualCluster vcsync/a" in refused.last_error
        stage.meta.remove("a")
        await stage.reads("start root-a x", "end root-a", "start root-a x")
        assert registry.handle("root-a").virtual_cluster.name == "b"
        assert not [each for each in registry.statistics() if each.state is TenantState.REFUSED]


async def test_a_virtual_cluster_with_the_same_name_and_another_uid_is_another_tenant(stage):
    stage.meta.credentials("a", "x")
    stage.meta.put("a")
    async with stage.running():
        await stage.reads("start root-a x")
        stage.meta.put("a", uid="other")
        await stage.reads("start root-a x", "end root-a", "start root-a x")


async def test_two_tasks_for_one_key_never_overlap(stage):
    release = asyncio.Event()
    stage.parting = release.wait
    stage.meta.credentials("a", "x")
    stage.meta.put("a")
    async with stage.running() as registry:
        await stage.reads("start root-a x")
        stage.meta.put("a", uid="other")
        await stage.until(lambda: registry.handle("root-a") is None)
        await asyncio.sleep(0.02)
        assert stage.diary == ["start root-a x"]
        release.set()
        await stage.reads("start root-a x", "end root-a", "start root-a x")


async def test_tasks_see_changes_of_their_virtual_cluster(stage):
    stage.meta.credentials("a", "x")
    stage.meta.put("a")
    changed = []
    async with stage.running(on_change=lambda change: changed.append(change.new.name)):
        await stage.reads("start root-a x")
        handle = stage.handles["root-a"]
        assert handle.virtual_cluster.spec.weight == 1
        stage.meta.put("a", spec={"weight": 7})
        async with asyncio.timeout(5):
            await handle.changed.wait()
        assert handle.virtual_cluster.spec.weight == 7
        assert changed == ["a", "a"]


async def test_an_unreadable_virtual_cluster_is_refused_and_a_served_one_stays_as_it_was(stage):
    stage.meta.credentials("a", "x")
    stage.meta.put("a")
    async with stage.running() as registry:
        await stage.reads("start root-a x")
        stage.meta.put("a", spec={"weight": "heavy"})
        await stage.until(lambda: any(each.state is TenantState.REFUSED for each in registry.statistics()))
        assert stage.diary == ["start root-a x"]
        stage.meta.put("a")
        await stage.until(lambda: all(each.state is TenantState.READY for each in registry.statistics()))


async def test_only_accepted_tenants_are_served(stage):
    for key in ("a", "b"):
        stage.meta.credentials(key, "x")
        stage.meta.put(key)
    async with stage.running(accept=lambda virtual_cluster: virtual_cluster.name == "b"):
        await stage.reads("start root-b x")


async def test_unauthorized_ends_in_backoff_and_reads_credentials_again(stage):
    async def behave(handle):
        if handle.client.kubeconfig == "old":
            stage.meta.credentials("a", "new")
            raise Unauthorized(Status(401))

    stage.behave = behave
    stage.meta.credentials("a", "old")
    stage.meta.put("a")
    async with stage.running():
        await stage.reads("start root-a old", "end root-a", "start root-a new")


async def test_refused_credentials_are_reported_once_although_sessions_fail(stage, monkeypatch):
    monkeypatch.setattr("vcsync.tenancy.registry._RECHECK_SECONDS", 0.0)
    reported = asyncio.Event()

    async def behave(_handle):
        stage.clients[-1].refuse()
        await reported.wait()
        raise CachesNotSynced("could not read within 120 s: pods")

    stage.behave = behave
    stage.meta.credentials("a", "1")
    stage.meta.put("a")
    async with stage.running(refresh_seconds=1000) as registry:
        await stage.until(lambda: stage.meta.events)
        reported.set()
        await stage.until(lambda: len(stage.clients) >= 5)
        assert registry.statistics()[0].failures >= 3
    reasons = [event["reason"] for event in stage.meta.events]
    assert reasons == ["CredentialsRefused", "CachesNotSynced"]
    assert stage.meta.events[1]["message"] == ("syncer: CachesNotSynced: could not read within 120 s: pods")


async def test_a_tenant_that_is_too_large_is_reported_and_tried_again(stage):
    async def behave(_handle: TenantHandle) -> None:
        raise ExceptionGroup("tasks", [TenantTooLarge("it has more than 256 MiB")])

    stage.behave = behave
    stage.meta.credentials("a", "1")
    stage.meta.put("a")
    async with stage.running() as registry:
        await stage.until(lambda: stage.meta.events)
        assert stage.meta.events[0]["reason"] == "TenantTooLarge"
        assert stage.meta.events[0]["message"] == "it has more than 256 MiB"
        assert stage.meta.events[0]["involvedObject"]["name"] == "a"
        assert "256 MiB" in registry.statistics()[0].last_error
        (trouble,) = registry.troubles()
        assert (trouble.tenant, trouble.type, trouble.message) == (
            "root-a",
            "TenantTooLarge",
            "it has more than 256 MiB",
        )
        stage.behave = None
        await stage.until(
            lambda: stage.state("a") is TenantState.READY or stage.state("root-a") is TenantState.READY
        )
        assert registry.troubles() == []


async def test_a_control_plane_that_was_not_registered_is_reported_and_not_served(stage: Stage) -> None:
    stage.meta.credentials("a", "1")
    stage.meta.put("a", annotations={names.CONTROL_PLANE_UID: "its-own"})
    async with stage.running() as registry:
        await stage.until(lambda: stage.meta.events)
        assert stage.meta.events[0]["reason"] == "WrongControlPlane"
        assert stage.meta.events[0]["involvedObject"]["name"] == "a"
        assert "now uid-of-another" in stage.meta.events[0]["message"]
        assert "now uid-of-another" in registry.statistics()[0].last_error
        assert stage.diary == []
        stage.meta.put("a", annotations={names.CONTROL_PLANE_UID: "uid-of-another"})
        await stage.reads("start root-a 1")


async def test_a_failure_is_shown_with_its_age_and_the_age_of_the_state(stage: Stage) -> None:
    now = [100.0]
    stage.meta.put("a")
    async with stage.running(clock=lambda: now[0], backoff=Backoff(base=1000.0, cap=1000.0)) as registry:
        await stage.until(lambda: stage.state("root-a") is TenantState.BACKOFF)
        now[0] += 5
        [shown] = registry.statistics()
        assert (shown.since, shown.last_error_age, shown.failures) == (5.0, 5.0, 1)


async def test_an_error_of_the_connection_is_shown_until_something_succeeds(stage: Stage) -> None:
    stage.meta.credentials("a", "1")
    stage.meta.put("a")
    async with stage.running() as registry:
        await stage.until(lambda: stage.state("root-a") is TenantState.READY)
        stage.clients[0].trouble = ("GET /api: reset", 1.5)
        assert registry.statistics()[0].last_error == "GET /api: reset"
        stage.clients[0].trouble = ("GET /api: reset", 0.5)  # the last success was at 1.0
        assert registry.statistics()[0].last_error == ""


async def test_a_tenant_that_is_not_served_has_no_handle(stage: Stage) -> None:
    async with stage.running() as registry:
        assert registry.handle("root-nobody") is None


async def test_a_connection_is_named_after_its_tenant_and_writes_in_its_roles_name(stage: Stage) -> None:
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    served: asyncio.Future[TenantHandle] = asyncio.get_running_loop().create_future()

    async def serve(handle: TenantHandle) -> None:
        served.set_result(handle)
        await asyncio.Event().wait()

    stage.meta.credentials("a", json.dumps(kubeconfig))
    stage.meta.put("a")
    registry = TenantRegistry(stage.meta, "syncer", serve, setup_seconds=0.01)  # type: ignore[arg-type]
    task = asyncio.create_task(registry.run())
    try:
        async with asyncio.timeout(20):
            client = (await served).client
        assert client.name == "tenant/root-a"
        assert client._manager == {"fieldManager": "vcsync/syncer"}
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_a_wrong_control_plane_is_reported_until_the_right_one_answers(stage):
    found = {"uid": "another"}

    async def get(*_: object) -> Any:
        return SimpleNamespace(uid=found["uid"])

    def make_client(kubeconfig: bytes, key: str) -> FakeClient:
        client = FakeClient(kubeconfig, key)
        client.get = get
        return client

    stage.make_client = make_client
    stage.meta.credentials("a", "1")
    stage.meta.put("a", annotations={names.CONTROL_PLANE_UID: "own"})
    async with stage.running() as registry:
        await stage.until(registry.troubles)
        (trouble,) = registry.troubles()
        assert (trouble.tenant, trouble.type) == ("root-a", "WrongControlPlane")
        assert "vcsync tenant accept a" in trouble.message
        metric = {each.labels["type"]: each.value for each in troubles_metric(registry).samples}
        assert metric == {"WrongControlPlane": 1.0, "TenantTooLarge": 0.0}
        found["uid"] = "own"
        await stage.until(lambda: stage.state("root-a") is TenantState.READY)
        assert registry.troubles() == []


async def test_a_proof_is_not_reused_after_another_list(stage):
    """An exchanged control plane could have emptied a small tenant within two seconds of the last proof."""
    found = {"uid": "own"}

    async def get(*_: object) -> Any:
        return SimpleNamespace(uid=found["uid"])

    def make_client(kubeconfig: bytes, key: str) -> FakeClient:
        client = FakeClient(kubeconfig, key)
        client.get = get
        return client

    stage.make_client = make_client
    stage.meta.credentials("a", "1")
    stage.meta.put("a", annotations={names.CONTROL_PLANE_UID: "own"})
    async with stage.running(clock=lambda: 100.0):
        await stage.until(lambda: stage.state("root-a") is TenantState.READY)
        handle = stage.handles["root-a"]
        await handle.prove(2)
        found["uid"] = "another"
        await handle.prove(2)
        with pytest.raises(WrongControlPlane):
            await handle.prove(3)
        with pytest.raises(WrongControlPlane):
            await handle.prove(3)

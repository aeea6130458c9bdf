"""Token Secrets of ServiceAccounts: filled, deleted with their account, and deleted when unused."""

import base64
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from controllers_world import TENANT, World

from vcsync.controllers.framework.mirror import placed
from vcsync.controllers.framework.worker import ReconcileContext, Worker
from vcsync.controllers.serviceaccount.legacy_token_plan import LEGACY_TOKENS, TRACKING
from vcsync.controllers.serviceaccount.tokens_controller import ONLY_TOKENS, token_secrets
from vcsync.fairqueue import ObjectName
from vcsync.kube.cache import Change
from vcsync.kube.errors import Conflict, KubeError, NotFound, Status
from vcsync.kube.resources import CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS, Resource
from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.objects.merge_patch import merge_patch

PREFIX = "kubernetes.io/service-account."
TYPE = "kubernetes.io/service-account-token"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Server:
    """The control plane as the controller uses it; `hidden`: accounts that the mirror does not contain yet."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.hidden: list[dict[str, Any]] = []
        self.signed: list[Any] = []
        self.noted: list[tuple[ObjectName, str]] = []
        self.error: KubeError | None = None

    def metadata_only(self) -> "Server":
        return self

    async def request(self, method: str, path: str, *, body: bytes) -> bytes:
        if self.error is not None:
            raise self.error
        self.signed.append((f"{method} {path}", msgspec.json.decode(body)))
        return msgspec.json.encode({"token": "signed"})

    async def get(self, resource: Resource, name: str, namespace: str) -> Envelope:
        bodies = [*self.world.bodies(resource), *(self.hidden if resource is SERVICE_ACCOUNTS else ())]
        found = next((each for each in bodies if each["metadata"]["name"] == name), None)
        if found is None:
            raise NotFound(Status(404))
        return parse(encode(found))

    async def patch(self, resource: Resource, name: str, patch: dict[str, Any], namespace: str) -> None:
        there = self.world.body(resource, name, namespace)
        metadata = dict(patch["metadata"])
        if metadata.pop("resourceVersion") != there["metadata"]["resourceVersion"]:
            raise Conflict(Status(409))
        self.world.put(resource, merge_patch(there, {**patch, "metadata": metadata}), namespace)

    async def delete(self, resource: Resource, name: str, namespace: str, *, uid: str) -> None:
        assert uid == self.world.body(resource, name, namespace)["metadata"]["uid"]
        self.world.remove(resource, name, namespace)


@pytest.fixture
def world() -> World:
    made = World([LEGACY_TOKENS])
    made.put(SERVICE_ACCOUNTS, {"metadata": {"name": "robot"}})
    return made


@pytest.fixture
def server(world: World) -> Server:
    return Server(world)


@pytest.fixture
def controller(server: Server) -> Worker:
    return token_secrets(server, "AUTHORITY")  # type: ignore[arg-type]


def secret(world: World, name: str = "s", of: str = "robot", **content: Any) -> dict[str, Any]:
    annotations = {f"{PREFIX}name": of, **content.pop("annotations", {})}
    metadata = {"name": name, "annotations": annotations, **content.pop("metadata", {})}
    return world.put(SECRETS, {"metadata": metadata, "type": TYPE, **content})


async def work(controller: Worker, world: World, server: Server, name: str = "s") -> None:
    key = world.key("default", name)
    context = ReconcileContext(
        world.view(), server, note=lambda about, what, _version: server.noted.append((about, what))
    )  # type: ignore[arg-type]
    assert await controller.work(context, key) is None


def uid_of(world: World, resource: Resource, name: str) -> str:
    return str(world.body(resource, name)["metadata"]["uid"])


async def test_a_secret_is_filled(world: World, server: Server, controller: Worker) -> None:
    secret(world)
    await work(controller, world, server)
    body = world.body(SECRETS, "s")
    assert body["data"] == {"ca.crt": b64("AUTHORITY"), "namespace": b64("default"), "token": b64("signed")}
    assert body["metadata"]["annotations"] == {
        f"{PREFIX}name": "robot",
        f"{PREFIX}uid": uid_of(world, SERVICE_ACCOUNTS, "robot"),
    }
    asked = {"namespace": "default", "name": "s", "uid": uid_of(world, SECRETS, "s")}
    assert server.signed == [("POST /vcsync/v1/tenants/acme/tokens", asked)]
    version = body["metadata"]["resourceVersion"]
    await work(controller, world, server)
    assert world.body(SECRETS, "s")["metadata"]["resourceVersion"] == version


async def test_an_existing_token_stays_and_an_old_ca_is_replaced(
    world: World, server: Server, controller: Worker
) -> None:
    secret(world, data={"token": b64("mine"), "namespace": b64("mine"), "ca.crt": b64("OLD"), "x": "eQ=="})
    await work(controller, world, server)
    data = {"token": b64("mine"), "namespace": b64("mine"), "ca.crt": b64("AUTHORITY"), "x": "eQ=="}
    assert world.body(SECRETS, "s")["data"] == data
    assert not server.signed


async def test_a_secret_is_deleted_with_its_account(world: World, server: Server, controller: Worker) -> None:
    secret(world)
    secret(world, "of-another", annotations={f"{PREFIX}uid": "uid-of-an-earlier-one"})
    secret(world, "of-a-new-one", of="new")
    world.remove(SERVICE_ACCOUNTS, "robot")
    world.put(SERVICE_ACCOUNTS, {"metadata": {"name": "robot", "uid": "another"}})
    server.hidden.append({"metadata": {"name": "new", "uid": "u"}})
    for name in ("s", "of-another", "of-a-new-one"):
        await work(controller, world, server, name)
    assert sorted(each["metadata"]["name"] for each in world.bodies(SECRETS)) == ["of-a-new-one", "s"]
    assert server.noted == [(ObjectName("secrets", "default", "of-another"), "deleted")]
    world.remove(SERVICE_ACCOUNTS, "robot")
    await work(controller, world, server)
    assert [each["metadata"]["name"] for each in world.bodies(SECRETS)] == ["of-a-new-one"]


@pytest.mark.parametrize("error", [Conflict, NotFound])
async def test_a_secret_that_changed_meanwhile_is_not_written(
    world: World, server: Server, controller: Worker, error: type[Conflict | NotFound]
) -> None:
    secret(world)
    server.error = error(Status(409))
    await work(controller, world, server)
    assert "data" not in world.body(SECRETS, "s")


@pytest.mark.parametrize(
    "content",
    [
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}},
        {"type": "Opaque"},
        {"of": ""},
    ],
)
async def test_other_secrets_are_ignored(
    world: World, server: Server, controller: Worker, content: dict[str, Any]
) -> None:
    secret(world, **content)
    await work(controller, world, server)
    assert "data" not in world.body(SECRETS, "s")


async def test_an_account_lists_no_secret_that_is_gone(
    world: World, server: Server, controller: Worker
) -> None:
    listed = {"metadata": {"name": "robot"}, "secrets": [{"name": "s"}, {"name": "kept"}]}
    world.put(SERVICE_ACCOUNTS, listed)
    await work(controller, world, server)
    assert world.body(SERVICE_ACCOUNTS, "robot")["secrets"] == [{"name": "kept"}]


def test_only_token_secrets_are_queued(world: World, controller: Worker) -> None:
    watch = controller.watches[0]
    assert watch.fields == ONLY_TOKENS
    for name, content, wakes in (("s", {}, True), ("other", {"type": "Opaque"}, False)):
        secret(world, name, **content)
        found = placed(parse(encode(world.body(SECRETS, name))), TENANT)
        assert bool(list(watch.keys(Change(found, None), world.view()))) == wakes


async def test_a_new_or_deleted_account_queues_its_secrets(world: World, controller: Worker) -> None:
    secret(world)
    secret(world, "other", of="other")
    account = placed(parse(encode(world.body(SERVICE_ACCOUNTS, "robot"))), TENANT)
    keys = controller.watches[1].keys
    for change in (Change(None, account), Change(account, None)):
        assert list(keys(change, world.view())) == [world.key("default", "s")]
    assert list(keys(Change(account, account), world.view())) == []


# ---- Tokens that nobody uses ---------------------------------------------------------------

DAY = 24 * 3600.0
OLD = "2024-01-01T00:00:00Z"
USED, INVALID = "kubernetes.io/legacy-token-last-used", "kubernetes.io/legacy-token-invalid-since"


def tracked(world: World, since: str = "2024-06-01") -> None:
    world.put(CONFIG_MAPS, {"metadata": {"name": TRACKING}, "data": {"since": since}}, "kube-system")


def listed(world: World, **content: Any) -> None:
    labels = content.pop("labels", {})
    world.put(SERVICE_ACCOUNTS, {"metadata": {"name": "robot"}, "secrets": [{"name": "s"}]})
    secret(world, metadata={"creationTimestamp": OLD, "labels": labels}, **content)


def labels(world: World) -> dict[str, str]:
    found: dict[str, str] = world.body(SECRETS, "s")["metadata"].get("labels", {})
    return found


def test_an_unused_token_is_marked_and_deleted_a_year_later(world: World) -> None:
    tracked(world)
    listed(world)
    world.settle()
    assert labels(world) == {INVALID: "2026-01-01"}
    world.pass_time(365 * DAY)
    world.settle()
    assert world.bodies(SECRETS)
    world.pass_time(DAY)
    world.settle()
    assert not world.bodies(SECRETS)


def test_a_token_used_long_ago_is_marked(world: World) -> None:
    tracked(world)
    listed(world, labels={USED: "2024-12-31"})
    world.settle()
    assert labels(world)[INVALID] == "2026-01-01"


@pytest.mark.parametrize("last_used", ["2025-01-01", "2026-01-01", "yesterday", ""])
def test_a_token_that_may_have_been_used_within_a_year_is_kept(world: World, last_used: str) -> None:
    tracked(world)
    listed(world, labels={USED: last_used})
    world.settle()
    assert INVALID not in labels(world)


@pytest.mark.parametrize("since", ["2025-01-01", "nonsense", ""])
def test_no_token_is_marked_before_use_is_tracked_for_a_year(world: World, since: str) -> None:
    tracked(world, since)
    listed(world)
    world.settle()
    assert INVALID not in labels(world)


def test_requested_tokens_are_kept(world: World) -> None:
    tracked(world)
    secret(world, metadata={"creationTimestamp": OLD})
    world.settle()
    assert INVALID not in labels(world)


def test_tokens_of_an_earlier_account_of_the_name_are_kept(world: World) -> None:
    tracked(world)
    listed(world, annotations={f"{PREFIX}uid": "uid-of-an-earlier-one"})
    world.settle()
    assert INVALID not in labels(world)


def test_a_young_token_is_kept(world: World) -> None:
    tracked(world)
    listed(world)
    made = (world.now - timedelta(days=365)).strftime("%Y-%m-%dT%H:%M:%SZ")
    world.change(SECRETS, "s", {"metadata": {"creationTimestamp": made}})
    world.settle()
    assert INVALID not in labels(world)


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
        {"imagePullSecrets": [{"name": "s"}]},
        {"containers": [{"env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}]},
    ],
)
def test_a_token_that_a_pod_uses_is_kept(world: World, spec: dict[str, Any]) -> None:
    tracked(world)
    listed(world)
    world.put(PODS, {"metadata": {"name": "p"}, "spec": spec})
    world.settle()
    assert INVALID not in labels(world)

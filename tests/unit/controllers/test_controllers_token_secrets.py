"""Secrets that hold a ServiceAccount's token: filled, deleted with their account, given up when nobody uses them."""

import base64
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from controllers_world import TENANT, World

from vcsync.controllers.legacy_tokens import LEGACY_TOKENS, TRACKING
from vcsync.controllers.mirror import placed
from vcsync.controllers.token_secrets import ONLY_TOKENS, token_secrets
from vcsync.controllers.working import Desk, Worker
from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope, encode, parse
from vcsync.kube.errors import Conflict, KubeError, NotFound, Status
from vcsync.kube.patches import merge_patch
from vcsync.kube.resources import CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS, Resource

PREFIX = "kubernetes.io/service-account."
TYPE = "kubernetes.io/service-account-token"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Server:
    """The control plane as the controller uses it; `hidden` are accounts that the mirror does not know yet."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.hidden: list[dict[str, Any]] = []
        self.signed: list[Any] = []
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
    assert await controller.work(Desk(world.look(), server), key) is None  # type: ignore[arg-type]


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


async def test_a_token_that_is_there_stays_and_an_old_authority_is_replaced(
    world: World, server: Server, controller: Worker
) -> None:
    secret(world, data={"token": b64("mine"), "namespace": b64("mine"), "ca.crt": b64("OLD"), "x": "eQ=="})
    await work(controller, world, server)
    data = {"token": b64("mine"), "namespace": b64("mine"), "ca.crt": b64("AUTHORITY"), "x": "eQ=="}
    assert world.body(SECRETS, "s")["data"] == data
    assert not server.signed


async def test_a_secret_goes_with_its_account(world: World, server: Server, controller: Worker) -> None:
    secret(world)
    secret(world, "of-another", annotations={f"{PREFIX}uid": "uid-of-an-earlier-one"})
    secret(world, "of-a-new-one", of="new")
    world.remove(SERVICE_ACCOUNTS, "robot")
    world.put(SERVICE_ACCOUNTS, {"metadata": {"name": "robot", "uid": "another"}})
    server.hidden.append({"metadata": {"name": "new", "uid": "u"}})
    for name in ("s", "of-another", "of-a-new-one"):
        await work(controller, world, server, name)
    assert sorted(each["metadata"]["name"] for each in world.bodies(SECRETS)) == ["of-a-new-one", "s"]
    world.remove(SERVICE_ACCOUNTS, "robot")
    await work(controller, world, server)
    assert [each["metadata"]["name"] for each in world.bodies(SECRETS)] == ["of-a-new-one"]


@pytest.mark.parametrize("error", [Conflict, NotFound])
async def test_what_has_changed_meanwhile_is_left(
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
async def test_others_are_left_alone(
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


def test_only_secrets_for_tokens_are_looked_at(world: World, controller: Worker) -> None:
    watch = controller.watches[0]
    assert watch.fields == ONLY_TOKENS
    for name, content, wakes in (("s", {}, True), ("other", {"type": "Opaque"}, False)):
        secret(world, name, **content)
        found = placed(parse(encode(world.body(SECRETS, name))), TENANT)
        assert bool(list(watch.keys(Change(found, None), world.look()))) == wakes


async def test_an_account_that_comes_or_goes_wakes_its_secrets(world: World, controller: Worker) -> None:
    secret(world)
    secret(world, "other", of="other")
    account = placed(parse(encode(world.body(SERVICE_ACCOUNTS, "robot"))), TENANT)
    keys = controller.watches[1].keys
    for change in (Change(None, account), Change(account, None)):
        assert list(keys(change, world.look())) == [world.key("default", "s")]
    assert list(keys(Change(account, account), world.look())) == []


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


def test_a_token_that_nobody_uses_is_marked_and_a_year_later_deleted(world: World) -> None:
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


def test_one_that_was_used_long_ago_is_marked_too(world: World) -> None:
    tracked(world)
    listed(world, labels={USED: "2024-12-31"})
    world.settle()
    assert labels(world)[INVALID] == "2026-01-01"


@pytest.mark.parametrize("told", ["2025-01-01", "2026-01-01", "yesterday", ""])
def test_one_that_was_used_within_a_year_or_may_have_been_stays(world: World, told: str) -> None:
    tracked(world)
    listed(world, labels={USED: told})
    world.settle()
    assert INVALID not in labels(world)


@pytest.mark.parametrize("since", ["2025-01-01", "nonsense", ""])
def test_nothing_is_given_up_before_use_has_been_tracked_for_a_year(world: World, since: str) -> None:
    tracked(world, since)
    listed(world)
    world.settle()
    assert INVALID not in labels(world)


def test_what_users_asked_for_stays(world: World) -> None:
    tracked(world)
    secret(world, metadata={"creationTimestamp": OLD})
    world.settle()
    assert INVALID not in labels(world)


def test_what_an_earlier_account_of_the_name_had_stays(world: World) -> None:
    tracked(world)
    listed(world, annotations={f"{PREFIX}uid": "uid-of-an-earlier-one"})
    world.settle()
    assert INVALID not in labels(world)


def test_a_young_one_stays(world: World) -> None:
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
def test_what_a_pod_mounts_stays(world: World, spec: dict[str, Any]) -> None:
    tracked(world)
    listed(world)
    world.put(PODS, {"metadata": {"name": "p"}, "spec": spec})
    world.settle()
    assert INVALID not in labels(world)

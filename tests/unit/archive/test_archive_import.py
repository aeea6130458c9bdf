"""Exports from one control plane in memory and imports into another one, whatever fails in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest

from vcsync.archive import importer
from vcsync.archive.exporter import export
from vcsync.archive.files import Header, Writer, check, objects
from vcsync.archive.importer import ATTEMPTS, Imported, Importer
from vcsync.kube.errors import (
    AlreadyExists,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    ServerError,
    Status,
    Unreachable,
)

KINDS = {
    ("", "v1", "namespaces", "Namespace", False),
    ("", "v1", "configmaps", "ConfigMap", True),
    ("", "v1", "secrets", "Secret", True),
    ("", "v1", "serviceaccounts", "ServiceAccount", True),
    ("", "v1", "pods", "Pod", True),
    ("", "v1", "resourcequotas", "ResourceQuota", True),
    ("", "v1", "events", "Event", True),
    ("apps", "v1", "deployments", "Deployment", True),
    ("apps", "v1", "replicasets", "ReplicaSet", True),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False),
}
LAMP = ("example.com", "v1", "lamps", "Lamp", True)


class Killed(Exception):
    """The program ends here."""


class Server:
    """A control plane in memory: objects by path."""

    name = "acme"

    def __init__(self) -> None:
        self.kinds = set(KINDS)
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        self.fail: dict[int, Exception] = {}
        self.refuse: dict[str, str] = {}
        self.calls = 0
        self.serves_lamps = True
        self.stale: set[str] = set()

    def put(self, path: str, **rest: Any) -> dict[str, Any]:
        parts = path.strip("/").split("/")
        metadata = {"name": parts[-1], "uid": f"{id(self)}-{len(self.objects)}", "resourceVersion": "7"}
        if "namespaces" in parts and parts[-2] != "namespaces":
            metadata["namespace"] = parts[parts.index("namespaces") + 1]
        self.objects[path] = {**rest, "metadata": metadata | rest.get("metadata", {})}
        return self.objects[path]

    async def request(
        self, method: str, path: str, *, params: Any = None, body: bytes = b"", **_: Any
    ) -> bytes:
        self.calls += 1
        if self.calls in self.fail:
            raise self.fail[self.calls]
        if path in ("/api", "/apis"):
            return self._discovery(path)
        path = unquote(path)
        if method == "GET" and (params or path not in self.objects):
            return self._read(path, params or {})
        if method == "GET":
            return msgspec.json.encode(self.objects[path])
        found = msgspec.json.decode(body)
        if method == "PUT":
            self.objects[path.removesuffix("/status")]["status"] = found["status"]
            return body
        target = f"{path}/{found['metadata']['name']}"
        if target in self.refuse:
            raise Forbidden(Status(403, "Forbidden", self.refuse[target]))
        if target in self.objects:
            raise AlreadyExists(Status(409, "AlreadyExists", "it exists"))
        self.writes.append(target)
        found["metadata"].pop("uid", None)
        made = self.put(target, **found)
        if found["kind"] == "CustomResourceDefinition" and self.serves_lamps:
            self.kinds.add(LAMP)
        return msgspec.json.encode(made)

    async def patch(self, resource: Any, name: str, patch: dict[str, Any], namespace: str) -> None:
        found = self.objects[resource.path(namespace=namespace, name=name)]
        found["metadata"] = found["metadata"] | patch.pop("metadata", {})
        found.update(patch)

    def _discovery(self, path: str) -> bytes:
        items = [
            {
                "metadata": {"name": group},
                "versions": [
                    {
                        "version": version,
                        "freshness": "Stale" if group in self.stale else "Current",
                        "resources": [
                            {
                                "resource": plural,
                                "responseKind": {"kind": kind},
                                "scope": "Namespaced" if namespaced else "Cluster",
                                "verbs": ["list", "create"],
                            }
                        ],
                    }
                ],
            }
            for group, version, plural, kind, namespaced in sorted(self.kinds)
            if (path == "/api") == (not group)
        ]
        return msgspec.json.encode({"items": items})

    def _read(self, path: str, params: dict[str, str]) -> bytes:
        base, _, plural = path.rpartition("/")
        found = [
            value
            for key, value in sorted(self.objects.items())
            if key.startswith(f"{base}/") and key.split("/")[-2] == plural
        ]
        if not params:
            raise NotFound(Status(404, "NotFound", "not found"))
        start, size = int(params.get("continue") or 0), 2
        after = str(start + size) if start + size < len(found) else ""
        items = [
            {key: value for key, value in each.items() if key != "kind"}
            for each in found[start : start + size]
        ]
        return msgspec.json.encode({"metadata": {"resourceVersion": "7", "continue": after}, "items": items})


async def no_pause(_: float) -> None:
    return


def source() -> Server:
    server = Server()
    server.kinds.add(LAMP)
    server.put(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/lamps.example.com",
        spec={"group": "example.com", "names": {"kind": "Lamp"}},
    )
    server.put("/api/v1/namespaces/default", metadata={"labels": {"team": "red"}})
    server.put("/api/v1/namespaces/shop")
    lamp = server.put(
        "/apis/example.com/v1/namespaces/shop/lamps/red", spec={"bulbs": 2}, status={"lit": True}
    )
    web = server.put("/apis/apps/v1/namespaces/shop/deployments/web", metadata=owned(lamp))
    server.put("/apis/apps/v1/namespaces/shop/replicasets/web-1", metadata=owned(web))
    # An owner that comes later in the order of archives.
    server.put("/api/v1/namespaces/shop/configmaps/plain", metadata=owned(lamp), data={"a": "b"})
    server.put("/api/v1/namespaces/shop/secrets/word", data={"w": "eA=="})
    server.put("/api/v1/namespaces/shop/pods/web-1-x", metadata=owned(web))
    server.put("/api/v1/namespaces/shop/resourcequotas/quota", spec={"hard": {"pods": "0"}})
    server.put("/api/v1/namespaces/shop/events/e")
    server.put("/api/v1/namespaces/shop/serviceaccounts/default", imagePullSecrets=[{"name": "word"}])
    return server


def owned(owner: dict[str, Any]) -> dict[str, Any]:
    return {"ownerReferences": [{"uid": owner["metadata"]["uid"], "name": "o", "controller": True}]}


def fresh() -> Server:
    server = Server()
    server.put("/api/v1/namespaces/default", kind="Namespace")
    return server


@pytest.fixture
async def archive(tmp_path: Path) -> Path:
    path = tmp_path / "acme.tenant"
    done = await export(source(), path, tenant="acme", now="now", with_keys=True, note=lambda _: None)  # type: ignore[arg-type]
    assert (done.written, done.left_out) == (10, {"its controller makes it": 1})
    assert check(path)[0].resource_version == "7"
    return path


async def load(server: Server, path: Path, said: list[str] | None = None) -> Imported:
    notes = said if said is not None else []
    return await Importer(server, path, check(path)[1], notes.append, no_pause).run()  # type: ignore[arg-type]


def expect_all(server: Server) -> None:
    objects = server.objects
    assert not [
        path
        for path in source().objects
        if path not in objects and "/events/" not in path and "/pods/" not in path
    ]
    lamp = objects["/apis/example.com/v1/namespaces/shop/lamps/red"]
    assert lamp["status"] == {"lit": True}
    for child, owner in (
        ("/api/v1/namespaces/shop/configmaps/plain", lamp),
        ("/apis/apps/v1/namespaces/shop/deployments/web", lamp),
        (
            "/apis/apps/v1/namespaces/shop/replicasets/web-1",
            objects["/apis/apps/v1/namespaces/shop/deployments/web"],
        ),
    ):
        assert objects[child]["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    assert objects["/api/v1/namespaces/default"]["metadata"]["labels"] == {"team": "red"}


async def test_everything_returns_with_new_owners_and_limits_come_last(archive: Path) -> None:
    server = fresh()
    done = await load(server, archive)
    assert (done.created, done.existed, done.skipped) == (9, 1, 0)
    expect_all(server)
    assert server.writes[-1] == "/api/v1/namespaces/shop/resourcequotas/quota"
    again = await load(server, archive)
    assert (again.created, again.existed, again.skipped) == (0, 10, 0)


@pytest.mark.parametrize("cut", range(1, 40))
async def test_an_import_that_is_cut_at_any_request_continues(archive: Path, cut: int) -> None:
    server = fresh()
    server.fail = {cut: Killed()}
    try:
        await load(server, archive)
    except Killed:
        await load(server, archive)
    expect_all(server)


@pytest.mark.parametrize("at", range(1, 30))
async def test_short_failures_are_outlived(archive: Path, at: int) -> None:
    server = fresh()
    server.fail = {at: Unreachable("reset"), at + 1: ServerError(Status(503, "", "busy"))}
    assert (await load(server, archive)).skipped == 0
    expect_all(server)


async def test_a_server_that_is_gone_ends_the_import(archive: Path) -> None:
    server = fresh()
    server.fail = {each: Unreachable("refused") for each in range(8, 8 + ATTEMPTS)}
    with pytest.raises(Unreachable):
        await load(server, archive)
    assert server.calls == 8 + ATTEMPTS - 1


async def test_what_is_refused_is_named_and_the_rest_is_imported(archive: Path) -> None:
    server, said = fresh(), list[str]()
    server.refuse["/apis/apps/v1/namespaces/shop/deployments/web"] = "no room"
    done = await load(server, archive, said)
    assert done.skipped == 1
    assert "skipped deployment shop/web: no room" in said
    # The reference to an owner that does not exist would let the garbage collector delete the object.
    assert (
        "ownerReferences" not in server.objects["/apis/apps/v1/namespaces/shop/replicasets/web-1"]["metadata"]
    )


async def test_kinds_that_are_not_served_are_skipped_after_a_wait(archive: Path) -> None:
    server, said = fresh(), list[str]()
    server.serves_lamps = False
    done = await load(server, archive, said)
    assert done.skipped == 1
    assert "skipped lamp shop/red: this control plane does not serve its kind" in said


async def test_secrets_without_contents_are_skipped(tmp_path: Path) -> None:
    path, said = tmp_path / "plain", list[str]()
    await export(source(), path, tenant="acme", now="now", with_keys=False, note=lambda _: None)  # type: ignore[arg-type]
    server = fresh()
    assert (await load(server, path, said)).skipped == 1
    assert "skipped secret shop/word: it was exported without its contents" in said
    assert "/api/v1/namespaces/shop/secrets/word" not in server.objects


HOSTILE = [
    {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}},
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x", "namespace": "shop"}},
    {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x", "namespace": "shop"}},
    {"apiVersion": "v1", "kind": "TokenReview", "metadata": {"name": "x"}},
    {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "x"}, "spec": {"claimRef": 7}},
]


async def test_strange_objects_are_skipped_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with Writer(path, Header(version=1, tenant="acme", created="now")) as writer:
        for each in HOSTILE:
            writer.add(each)
        writer.add(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a?b#c;d", "namespace": "shop"}}
        )
    server = fresh()
    server.kinds.add(("", "v1", "persistentvolumes", "PersistentVolume", False))
    done = await load(server, path)
    assert (done.skipped, done.created) == (len(HOSTILE), 1)
    assert server.writes == ["/api/v1/namespaces/shop/configmaps/a?b#c;d"]


async def test_owners_in_a_circle_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with Writer(path, Header(version=1, tenant="acme", created="now")) as writer:
        for name, owner in (("a", "b"), ("b", "a")):
            metadata = {"name": name, "namespace": "shop", "uid": name, "ownerReferences": [{"uid": owner}]}
            writer.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    assert (await load(fresh(), path)).created == 2


@pytest.mark.parametrize("length", [15, 60])
async def test_a_chain_of_owners_in_reverse_order_is_read_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """Each pass over the file creates one more of them, so that the file would be read once for each."""
    path, said, decoded = tmp_path / "file", list[str](), 0
    with Writer(path, Header(version=1, tenant="acme", created="now")) as writer:
        for at in reversed(range(length)):
            owners = [{"uid": f"u{at - 1}", "name": f"n{at - 1}"}] if at else []
            metadata = {"name": f"n{at}", "namespace": "shop", "uid": f"u{at}", "ownerReferences": owners}
            writer.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def counted(*arguments: Any) -> Any:
        nonlocal decoded
        for each in objects(*arguments):
            decoded += 1
            yield each

    monkeypatch.setattr(importer, "objects", counted)
    server = fresh()
    assert (await load(server, path, said)).created == length
    assert decoded <= (importer.MOST_PASSES + 4) * length
    owned = [each for each in server.objects.values() if each["metadata"].get("ownerReferences")]
    deep = [each for each in said if "nested deeper than 20" in each]
    assert (len(owned), len(deep)) == ((length - 1, 0) if length < importer.MOST_PASSES else (19, 1))


async def test_definitions_are_waited_for_within_bounds(tmp_path: Path) -> None:
    path, waited = tmp_path / "file", 0.0
    with Writer(path, Header(version=1, tenant="acme", created="now")) as writer:
        for at in range(20):
            names = {"plural": f"x{at}s", "kind": f"X{at}"}
            writer.add(
                {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {"name": f"x{at}s.example.com"},
                    "spec": {"group": "example.com", "names": names},
                }
            )
            writer.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{at}"}})

    async def pause(seconds: float) -> None:
        nonlocal waited
        waited += seconds

    server: Any = fresh()
    server.serves_lamps = False
    done = await Importer(server, path, check(path)[1], lambda _: None, pause).run()
    assert done.created == 40
    assert waited < importer.DEFINITIONS_SECONDS + 5


async def test_an_export_beyond_the_history_says_so_and_leaves_no_file(tmp_path: Path) -> None:
    server = source()
    server.fail = {6: Gone(Status(410, "Expired", "too old"))}
    with pytest.raises(KubeError):
        await export(server, tmp_path / "x", tenant="acme", now="now", with_keys=False, note=lambda _: None)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


async def test_resources_of_aggregated_servers_that_do_not_answer_are_left_out(tmp_path: Path) -> None:
    server = source()
    server.stale = {"example.com"}
    done = await export(
        server, tmp_path / "x", tenant="acme", now="now", with_keys=False, note=lambda _: None
    )  # type: ignore[arg-type]
    assert done.unavailable == ["lamps.example.com"]
    assert done.written
    assert not [each for _, each in objects(tmp_path / "x") if each["kind"] == "Lamp"]

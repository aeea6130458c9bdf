"""`/api/v1/tenants` in the operator's space: the same objects as in vcsync's own group, in another form, for nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from asked_plane import Everybody, Response
from hypothesis import given
from hypothesis import strategies as st

from vcsync.api.crd import crds
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.request.caller import SYSTEM, Caller
from vcsync.apiserver.request.core_tenants import in_own_group, own_body
from vcsync.apiserver.request.request_info import parse_query, request_info

CORE, OWN = "/api/v1/tenants", "/apis/tenancy.x-k8s.io/v1alpha1/tenants"
API_VERSION = "tenancy.x-k8s.io/v1alpha1"
MERGE, APPLY, YAML = "application/merge-patch+json", "application/apply-patch+yaml", "application/yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


class Spaces(Everybody):
    """The operator, and with a token a tenant's administrator. The tenants are `system`, a and b."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.allowed = True

    async def authenticate(self, certificate, authorization, tenant):
        if authorization:
            return Caller(User("admin", groups=("admins",)), "a", False)
        return Caller(User("operator", groups=("system:masters",)), SYSTEM, True)

    def exists(self, tenant):
        return tenant in (SYSTEM, "a", "b")

    def tenants(self):
        return [SYSTEM, "a", "b"]

    async def authorize(self, caller, info, audit):
        self.asked.append((info.verb, info.group, info.resource))
        if not self.allowed:
            raise StatusError(403, "Forbidden", "no")


@pytest.fixture
async def identity():
    return Spaces()


@pytest.fixture
async def plane(store, identity):
    made = assemble(store, identity)
    await made.start("127.0.0.1", 0, None)
    yield made
    await made.stop()


@pytest.fixture
async def operator(api):
    (tenants,) = (each for each in crds() if each["spec"]["names"]["plural"] == "tenants")
    made = await api("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", tenants)
    assert made.status == 201, made.body
    names = {**tenants["spec"]["names"]}
    conditions = [{"type": kind, "status": "True", "reason": "R", "message": "",
                   "lastTransitionTime": "2026-01-01T00:00:00Z"} for kind in ("NamesAccepted", "Established")]  # fmt: skip
    status = {"conditions": conditions, "acceptedNames": names, "storedVersions": ["v1alpha1"]}
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{tenants['metadata']['name']}"
    changed = await api("PATCH", f"{path}/status", {"status": status}, content_type=MERGE)
    assert changed.status == 200, changed.body
    return api


def tenant(name: str = "umbrella", api_version: str = "v1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "Tenant", "metadata": {"name": name}, "spec": spec}


def same(first: Response, second: Response) -> None:
    """Both answers are one object, but for its form."""
    assert first.status == second.status
    assert (first["apiVersion"], second["apiVersion"]) == ("v1", API_VERSION)
    assert {**first.body, "apiVersion": ""} == {**second.body, "apiVersion": ""}


async def test_one_object_has_two_forms(operator) -> None:
    made = await operator("POST", CORE, tenant(weight=3))
    assert (made.status, made["apiVersion"], made["kind"]) == (201, "v1", "Tenant")
    same(await operator("GET", f"{CORE}/umbrella"), await operator("GET", f"{OWN}/umbrella"))
    assert (await operator("POST", CORE, tenant())).status == 409
    assert (await operator("POST", OWN, tenant(api_version=API_VERSION))).status == 409
    other = await operator("POST", OWN, tenant("globex", API_VERSION))
    assert other.status == 201
    lists = [await operator("GET", path) for path in (CORE, OWN)]
    assert [each["kind"] for each in lists] == ["TenantList", "TenantList"]
    assert [each["apiVersion"] for each in lists] == ["v1", API_VERSION]
    assert lists[0]["metadata.resourceVersion"] == lists[1]["metadata.resourceVersion"]
    assert [each["apiVersion"] for each in lists[0]["items"]] == ["v1", "v1"]
    assert [each["metadata"] for each in lists[0]["items"]] == [
        each["metadata"] for each in lists[1]["items"]
    ]
    page = await operator("GET", f"{CORE}?limit=1")
    rest = await operator("GET", f"{OWN}?limit=1&continue={page['metadata.continue']}")
    assert [page["items.0.metadata.name"], rest["items.0.metadata.name"]] == ["globex", "umbrella"]


async def test_conflicts_agree(operator) -> None:
    await operator("POST", CORE, tenant(weight=3))
    read = (await operator("GET", f"{CORE}/umbrella")).body
    patched = await operator("PATCH", f"{OWN}/umbrella", {"spec": {"weight": 4}}, content_type=MERGE)
    assert patched["metadata.generation"] == 2
    assert (await operator("PUT", f"{CORE}/umbrella", read)).status == 409
    read["metadata"]["resourceVersion"] = patched["metadata.resourceVersion"]
    read["spec"]["weight"] = 5
    updated = await operator("PUT", f"{CORE}/umbrella", read)
    assert (updated.status, updated["apiVersion"], updated["spec.weight"]) == (200, "v1", 5)
    for content, body in (
        (MERGE, {"apiVersion": "v1", "kind": "Tenant", "spec": {"weight": 6}}),
        (MERGE, {"spec": {"weight": 6}}),
        ("application/json-patch+json", [{"op": "replace", "path": "/spec/weight", "value": 6}]),
        (APPLY, tenant(weight=6)),
        (APPLY, b"apiVersion: v1\nkind: Tenant\nmetadata: {name: umbrella}\nspec: {weight: 6}\n"),
    ):
        done = await operator(
            "PATCH",
            f"{CORE}/umbrella?fieldManager=x{'&force=true' if content == APPLY else ''}",
            body,
            content_type=content,
        )
        assert (done.status, done["apiVersion"], done["spec.weight"]) == (200, "v1", 6), done.body
    status = {"status": {"phase": "Running"}}
    shown = await operator("PATCH", f"{CORE}/umbrella/status", status, content_type=MERGE)
    assert (shown.status, shown["apiVersion"], shown["status.phase"]) == (200, "v1", "Running")
    same(await operator("GET", f"{CORE}/umbrella/status"), await operator("GET", f"{OWN}/umbrella/status"))


async def test_watches_agree_and_resume_each_other(operator) -> None:
    start = (await operator("GET", CORE))["metadata.resourceVersion"]
    await operator("POST", CORE, tenant())
    await operator("PATCH", f"{OWN}/umbrella", {"spec": {"weight": 4}}, content_type=MERGE)
    await operator("DELETE", f"{CORE}/umbrella")
    query = f"?watch=1&resourceVersion={start}"
    core, own = [await operator.watch(f"{path}{query}", 3) for path in (CORE, OWN)]
    assert [each["type"] for each in core] == ["ADDED", "MODIFIED", "DELETED"]
    assert {each["object"]["apiVersion"] for each in core} == {"v1"}
    assert {each["object"]["apiVersion"] for each in own} == {API_VERSION}
    plain = [[{**each["object"], "apiVersion": ""} for each in events] for events in (core, own)]
    assert plain[0] == plain[1]
    later = core[0]["object"]["metadata"]["resourceVersion"]
    assert (await operator.watch(f"{OWN}?watch=1&resourceVersion={later}", 2)) == own[1:]
    # Events that come while a watch is open take another way than those of the past.
    now = (await operator("GET", OWN))["metadata.resourceVersion"]
    stream = await operator.stream(f"{CORE}?watch=1&resourceVersion={now}")
    following = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)
    await operator("POST", OWN, tenant("globex", API_VERSION))
    async with asyncio.timeout(20):
        event = await following
    await stream.aclose()
    assert (event["type"], event["object"]["apiVersion"], event["object"]["metadata"]["name"]) == (
        "ADDED",
        "v1",
        "globex",
    )
    assert (await operator.watch(f"/api/v1/watch/tenants{query}", 1))[0]["object"]["apiVersion"] == "v1"


async def test_tables_and_partial_objects_are_those_of_the_own_group(operator) -> None:
    await operator("POST", CORE, tenant(weight=3))
    for accept in (TABLE, PARTIAL):
        first, second = [await operator("GET", f"{path}/umbrella", accept=accept) for path in (CORE, OWN)]
        assert first.body == second.body
    whole = await operator("GET", f"{CORE}?includeObject=Object", accept=TABLE)
    assert whole["rows.0.object.metadata.name"] == "umbrella"


async def test_what_arktos_clients_send_besides_is_ignored_with_a_warning(operator) -> None:
    body = tenant(storageClusterId="0", finalizers=["arktos"])
    refused = await operator("POST", f"{CORE}?fieldValidation=Strict", body)
    assert refused.status == 400
    assert 'unknown field "spec.storageClusterId"' in refused["message"]
    made = await operator("POST", CORE, body)
    assert made.status == 201
    assert "storageClusterId" not in made["spec"]
    assert any("spec.storageClusterId" in each for each in made.warnings)
    yaml = await operator(
        "POST", CORE, b"apiVersion: v1\nkind: Tenant\nmetadata: {name: globex}\nspec: {}\n", content_type=YAML
    )
    assert (yaml.status, yaml["apiVersion"]) == (201, "v1")


async def test_the_formats_are_those_of_custom_resources(operator) -> None:
    await operator("POST", CORE, tenant())
    protobuf = "application/vnd.kubernetes.protobuf"
    assert (await operator("GET", f"{CORE}/umbrella", accept=protobuf)).status == 406
    assert (await operator("POST", CORE, b"k8s\0", content_type=protobuf)).status == 400
    strategic = "application/strategic-merge-patch+json"
    assert (await operator("PATCH", f"{CORE}/umbrella", {}, content_type=strategic)).status == 415
    assert (await operator("PUT", f"{CORE}/umbrella/finalize", tenant())).status == 404


REFUSED = [
    (b"{", 400),
    (b"[]", 400),
    (msgspec.json.encode(tenant() | {"kind": "Pod"}), 422),
    (msgspec.json.encode(tenant(api_version="v2")), 400),
    (msgspec.json.encode(tenant("a.b")), 422),
    (msgspec.json.encode(tenant("all")), 422),
    (msgspec.json.encode(tenant(weight=0)), 422),
]


@pytest.mark.parametrize(("body", "code"), REFUSED)
async def test_wrong_bodies_are_refused_as_in_the_own_group(operator, body: bytes, code: int) -> None:
    found = await operator("POST", CORE, body)
    assert found.status == code, found.body
    if b'"v1"' in body:
        other = await operator("POST", OWN, body.replace(b'"v1"', b'"tenancy.x-k8s.io/v1alpha1"'))
        assert (other.status, other["message"]) == (found.status, found["message"])


async def test_the_permissions_are_those_on_the_own_group(operator, identity) -> None:
    identity.asked.clear()
    await operator("GET", CORE)
    await operator("DELETE", f"{CORE}/x")
    assert identity.asked == [(verb, "tenancy.x-k8s.io", "tenants") for verb in ("list", "delete")]
    identity.allowed = False
    assert (await operator("GET", CORE)).status == 403


async def test_nobody_else_finds_them(operator) -> None:
    await operator("POST", CORE, tenant())
    for path in (
        CORE,
        f"{CORE}/umbrella",
        f"{CORE}/a",
        f"/tenants/a{CORE}",
        f"/tenants/a{CORE}/umbrella",
        f"{CORE}/a/tenants",
    ):
        found = await operator("GET", path, authorization="Bearer a")
        assert found.status in (403, 404), (path, found.body)
        assert b"umbrella" not in found.raw or "umbrella" in path
    for path in (f"/tenants/a{CORE}", f"{CORE}/a/tenants"):
        assert (await operator("GET", path)).status == 404
    assert (await operator("GET", f"/tenants/{SYSTEM}{CORE}/umbrella")).status == 200
    names = [each["name"] for each in (await operator("GET", "/api/v1"))["resources"]]
    assert "tenants" not in names


async def test_without_the_definition_there_is_nothing(api) -> None:
    assert (await api("GET", CORE)).status == 404


@given(
    st.binary(max_size=40)
    | st.recursive(st.none() | st.integers() | st.text(max_size=3), st.lists).map(msgspec.json.encode)
)
def test_a_body_that_is_no_tenant_of_the_core_group_stays(body: bytes) -> None:
    for content in ("application/json", YAML, APPLY, ""):
        assert own_body(body, content) == body


def test_other_requests_stay() -> None:
    for path in (
        "/api/v1/pods",
        "/apis/x/v1/tenants",
        "/api/v2/tenants",
        "/tenants/a/api/v1/tenants",
        "/api/v1",
        "/version",
    ):
        info = request_info("GET", path, parse_query(""))
        assert in_own_group(info) is info

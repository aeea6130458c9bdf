"""Lists: selectors, pages, snapshots."""

import base64
import json

import pytest

from vcsync.apimachinery.wire import encode
from vcsync.apimachinery.wire.negotiation import Representation

BASE = "/api/v1/namespaces/default/configmaps"


async def fill(api, count, base=BASE):
    for number in range(count):
        made = await api(
            "POST", base, {"metadata": {"name": f"c{number:02}", "labels": {"n": str(number % 3)}}}
        )
        assert made.status == 201


async def test_pages_show_one_snapshot(api):
    await fill(api, 7)
    first = await api("GET", f"{BASE}?limit=3")
    assert first["metadata.remainingItemCount"] == 4
    token = first["metadata.continue"]
    assert json.loads(base64.urlsafe_b64decode(token + "=="))["v"] == "meta.k8s.io/v1"
    await api("DELETE", f"{BASE}/c05")
    await api("POST", BASE, {"metadata": {"name": "c99"}})
    second = await api("GET", f"{BASE}?limit=3&continue={token}")
    third = await api("GET", f"{BASE}?limit=3&continue={second['metadata.continue']}")
    names = [each["metadata"]["name"] for page in (first, second, third) for each in page["items"]]
    assert names == [f"c{number:02}" for number in range(7)]
    assert third["metadata"].keys() == {"resourceVersion"}
    versions = {page["metadata.resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("labelSelector=n%3D0", ["c00", "c03"]),
        ("labelSelector=n+in+(1,2)", ["c01", "c02", "c04"]),
        ("labelSelector=!n", []),
        ("fieldSelector=metadata.name%3Dc02", ["c02"]),
        ("fieldSelector=metadata.name!%3Dc02", ["c00", "c01", "c03", "c04"]),
        ("fieldSelector=metadata.name%3Dc02,metadata.namespace%3Dother", []),
        ("labelSelector=n%3D0&limit=1", ["c00"]),
    ],
)
async def test_selectors_select(api, query, names):
    await fill(api, 5)
    response = await api("GET", f"{BASE}?{query}")
    assert [each["metadata"]["name"] for each in response["items"]] == names


async def test_pages_of_a_selection_continue(api):
    await fill(api, 5)
    first = await api("GET", f"{BASE}?labelSelector=n%3D0&limit=1")
    assert "remainingItemCount" not in first["metadata"]
    second = await api("GET", f"{BASE}?labelSelector=n%3D0&limit=1&continue={first['metadata.continue']}")
    assert second["items.0.metadata.name"] == "c03"


async def test_items_of_built_in_kinds_do_not_repeat_their_kind(api):
    await fill(api, 1)
    response = await api("GET", BASE)
    assert response["kind"] == "ConfigMapList"
    assert response["items.0"].keys() == {"metadata"}


async def test_all_tenants_are_listed_with_their_names(api):
    await fill(api, 2)
    await fill(api, 2, f"/tenants/b{BASE}")
    response = await api("GET", "/api/v1/tenants/all/configmaps")
    assert [(each["metadata"]["tenant"], each["metadata"]["name"]) for each in response["items"]] == [
        ("a", "c00"), ("a", "c01"), ("b", "c00"), ("b", "c01"),
    ]  # fmt: skip
    pages = await api("GET", "/api/v1/tenants/all/configmaps?limit=3")
    rest = await api("GET", f"/api/v1/tenants/all/configmaps?limit=3&continue={pages['metadata.continue']}")
    assert len(pages["items"]) + len(rest["items"]) == 4
    assert (await api("POST", "/api/v1/tenants/all/namespaces/default/configmaps", {})).status == 405


async def test_a_snapshot_can_be_requested(api):
    await fill(api, 1)
    version = (await api("GET", BASE))["metadata.resourceVersion"]
    await api("DELETE", f"{BASE}/c00")
    old = await api("GET", f"{BASE}?resourceVersion={version}&resourceVersionMatch=Exact")
    assert len(old["items"]) == 1
    assert old["metadata.resourceVersion"] == version
    new = await api("GET", f"{BASE}?resourceVersion={version}&resourceVersionMatch=NotOlderThan")
    assert new["items"] == []


async def test_compacted_snapshots_are_gone_and_pages_can_continue_inconsistently(api, store):
    await fill(api, 4)
    first = await api("GET", f"{BASE}?limit=2")
    await api("DELETE", f"{BASE}/c00")
    await store.compact(await store.revision())
    gone = await api(
        "GET", f"{BASE}?resourceVersion={first['metadata.resourceVersion']}&resourceVersionMatch=Exact"
    )
    assert (gone.status, gone["reason"]) == (410, "Expired")
    page = await api("GET", f"{BASE}?limit=2&continue={first['metadata.continue']}")
    assert (page.status, page["reason"]) == (410, "Expired")
    rest = await api("GET", f"{BASE}?limit=2&continue={page['metadata.continue']}")
    assert [each["metadata"]["name"] for each in rest["items"]] == ["c02", "c03"]


REFUSED = [
    ("resourceVersion=x", 400, "invalid resource version"),
    ("resourceVersion=999999&resourceVersionMatch=Exact", 504, "Timeout: Too large resource version: 999999"),
    (
        "resourceVersionMatch=Exact",
        422,
        "resourceVersionMatch is forbidden unless resourceVersion is provided",
    ),
    ("resourceVersion=0&resourceVersionMatch=Exact", 422, 'resourceVersionMatch "exact" is forbidden'),
    ("resourceVersion=1&resourceVersionMatch=Some", 422, "Unsupported value"),
    ("continue=nonsense", 400, "invalid continue token"),
    ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
    ("labelSelector=a+b", 400, "unable to parse requirement"),
    ("fieldSelector=a", 400, "invalid selector: 'a'; can't understand 'a'"),
    (
        "fieldSelector=spec.x%3D1",
        400,
        '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
    ),
    ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
]


@pytest.mark.parametrize(("query", "status", "message"), REFUSED, ids=[row[0] for row in REFUSED])
async def test_invalid_list_options_are_refused(api, query, status, message):
    response = await api("GET", f"{BASE}?{query}")
    assert response.status == status, response.body
    assert message in response["message"]


async def test_a_continue_token_is_valid_for_its_collection_only(api):
    await api("POST", f"/tenants/b{BASE}", {"metadata": {"name": "secret"}})
    forged = (
        base64.urlsafe_b64encode(
            json.dumps({"v": "meta.k8s.io/v1", "rv": -1, "start": "../../../b/core/configmaps/"}).encode()
        )
        .decode()
        .rstrip("=")
    )
    response = await api("GET", f"{BASE}?continue={forged}")
    assert response.status == 400


async def test_collections_are_deleted_by_selector(api):
    await fill(api, 6)
    response = await api("DELETE", f"{BASE}?labelSelector=n%3D0")
    assert response.status == 200
    assert [each["metadata"]["name"] for each in response["items"]] == ["c00", "c03"]
    assert len((await api("GET", BASE))["items"]) == 4


@pytest.mark.parametrize("target", ["", ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"])
@pytest.mark.parametrize("count", [0, 2, 30])
async def test_lists_in_yaml_and_indented_are_the_same_as_in_json(api, target, count):
    await fill(api, count)
    plain = await api("GET", BASE, accept=f"application/json{target}")
    for query, media, how in (
        ("", "application/yaml", Representation("yaml")),
        ("?pretty=true", "application/json", Representation("json", pretty=True)),
    ):
        response = await api("GET", f"{BASE}{query}", accept=f"{media}{target}")
        assert response.raw == encode.written(plain.raw.removesuffix(b"\n"), how)

"""CustomResourceDefinitions cannot shadow built-in resources."""

import asyncio
from typing import Any

import msgspec
import pytest

from vcsync.apimachinery.resources import collection_key, object_key
from vcsync.apimachinery.schema import builtin
from vcsync.apiserver.storage.interface import Put

RBAC = "rbac.authorization.k8s.io"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = {"Content_Type": "application/merge-patch+json"}
UNAPPROVED = {"api-approved.kubernetes.io": "unapproved, for a test"}


def definition(group: str, plural: str, kind: str, **names: Any) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": UNAPPROVED},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": plural, "kind": kind, **names},
            "versions": [
                {"name": "v9", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


def stored_definition(plural: str, kind: str, **names: Any) -> Put:
    """Return what puts a definition of earlier times, which is established, into the store."""
    old = definition(RBAC, plural, kind, **names)
    old["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    conditions = [{"type": each, "status": "True"} for each in ("NamesAccepted", "Established")]
    old["status"] = {
        "acceptedNames": old["spec"]["names"],
        "conditions": conditions,
        "storedVersions": ["v9"],
    }
    key = object_key("a", "apiextensions.k8s.io", "customresourcedefinitions", "", f"{plural}.{RBAC}")
    return Put(key, msgspec.json.encode({part: old[part] for part in ("metadata", "spec", "status")}))


SHADOWED = sorted({(each.group, each.plural, each.kind) for each in builtin.resources() if "." in each.group})


@pytest.mark.parametrize(("group", "plural", "kind"), SHADOWED)
async def test_built_in_resources_cannot_be_redefined(api, group: str, plural: str, kind: str) -> None:
    response = await api("POST", DEFINITIONS, definition(group, plural, kind))

    assert response.status == 422
    assert f'spec.names.plural: Forbidden: "{plural}" is built in' in response.body["message"]


@pytest.mark.parametrize(
    ("names", "field"),
    [
        ({"kind": "ClusterRole"}, "spec.names.kind"),
        ({"kind": "Own", "listKind": "ClusterRoleList"}, "spec.names.listKind"),
        ({"kind": "Own", "singular": "clusterrole"}, "spec.names.singular"),
        ({"kind": "Own", "shortNames": ["own", "roles"]}, "spec.names.shortNames[1]"),
    ],
)
async def test_other_names_cannot_shadow_built_in_resources(api, names: dict[str, Any], field: str) -> None:
    response = await api("POST", DEFINITIONS, definition(RBAC, "owns", **names))

    assert response.status == 422
    assert field in response.body["message"]


@pytest.mark.parametrize(
    ("names", "field"),
    [
        ({"listKind": "ClusterRoleList"}, "spec.names.listKind"),
        ({"singular": "clusterrole"}, "spec.names.singular"),
        ({"shortNames": ["own", "roles"]}, "spec.names.shortNames[1]"),
    ],
)
async def test_changed_names_cannot_shadow_built_in_resources(api, names: dict[str, Any], field: str) -> None:
    assert (await api("POST", DEFINITIONS, definition(RBAC, "owns", "Own"))).status == 201
    await served(api, f"/apis/{RBAC}/v9/owns")
    path = f"{DEFINITIONS}/owns.{RBAC}"

    response = await api("PATCH", path, {"spec": {"names": names}}, **MERGE)

    assert response.status == 422
    assert field in response.body["message"]


async def test_accepted_names_do_not_prevent_other_changes(api, store) -> None:
    await store.txn([], [stored_definition("owns", "Own", shortNames=["roles"])])
    path = f"{DEFINITIONS}/owns.{RBAC}"
    await served(api, path)

    response = await api("PATCH", path, {"spec": {"names": {"categories": ["all"]}}}, **MERGE)

    assert response.status == 200, response.body


@pytest.mark.parametrize(
    "accepted",
    [
        {"plural": "clusterroles", "kind": "Own"},
        {"plural": "owns", "kind": "ClusterRole"},
        {"plural": "clusterroles", "kind": "ClusterRole", "singular": "clusterrole"},
    ],
)
async def test_names_written_to_the_status_cannot_shadow_built_in_resources(
    api, accepted: dict[str, Any]
) -> None:
    assert (await api("POST", DEFINITIONS, definition(RBAC, "owns", "Own"))).status == 201
    await served(api, f"/apis/{RBAC}/v9/owns")
    path = f"{DEFINITIONS}/owns.{RBAC}"
    # The names of what is being deleted are settled by nobody any more.
    assert (await api("PATCH", path, {"metadata": {"finalizers": ["a.b/c"]}}, **MERGE)).status == 200
    assert (await api("DELETE", path)).status == 200
    async with asyncio.timeout(20):
        while (await api("GET", path))["metadata.finalizers"] != ["a.b/c"]:
            await asyncio.sleep(0.01)

    response = await api("PATCH", f"{path}/status", {"status": {"acceptedNames": accepted}}, **MERGE)

    assert response.status == 200
    async with asyncio.timeout(20):
        while (await api("GET", f"/apis/{RBAC}/v9")).status == 200:
            await asyncio.sleep(0.01)
    assert (await api("GET", f"/apis/{RBAC}/v9/clusterroles")).status == 404


async def served(api, path: str) -> None:
    async with asyncio.timeout(20):
        while (await api("GET", path)).status == 404:
            await asyncio.sleep(0.01)


async def test_custom_resources_of_a_built_in_group_are_stored_separately(api, store) -> None:
    assert (await api("POST", DEFINITIONS, definition(RBAC, "owns", "Own"))).status == 201
    await served(api, f"/apis/{RBAC}/v9/owns")

    own = {"apiVersion": f"{RBAC}/v9", "kind": "Own", "metadata": {"name": "x"}, "rules": 5}
    made = await api("POST", f"/apis/{RBAC}/v9/owns", own)

    assert made.status == 201
    keys = [record.key for record in (await store.range("a/")).records]
    assert [key for key in keys if key.endswith("/x")] == [f"a/custom:{RBAC}/owns/x"]


async def test_an_old_shadowing_definition_is_not_served_and_deletes_nothing(api, store) -> None:
    role = {"metadata": {"name": "kept"}, "rules": []}
    assert (await api("POST", f"/apis/{RBAC}/v1/clusterroles", role)).status == 201
    name = f"clusterroles.{RBAC}"
    await store.txn([], [stored_definition("clusterroles", "ClusterRole")])
    await served(api, f"{DEFINITIONS}/{name}")

    assert (await api("GET", f"/apis/{RBAC}/v9/clusterroles")).status == 404
    assert (await api("DELETE", f"{DEFINITIONS}/{name}")).status == 200
    async with asyncio.timeout(20):
        while (await api("GET", f"{DEFINITIONS}/{name}")).status != 404:
            await asyncio.sleep(0.01)
    assert (await api("GET", f"/apis/{RBAC}/v1/clusterroles/kept")).status == 200
    assert len((await store.range(collection_key("a", RBAC, "clusterroles"))).records) == 1

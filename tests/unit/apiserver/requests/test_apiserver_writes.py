"""Creates, updates and patches: defaults, immutable fields and refusals."""

import asyncio

import pytest
from asked_plane import Everybody, ask

from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.storage.interface import Put

CORE = "/api/v1/namespaces/default"
BASE = "/api/v1/namespaces/default/configmaps"


async def test_creating_an_object_sets_server_fields(api, config_map):
    made = await api("POST", BASE, config_map("a"))
    assert made.status == 201
    metadata = made["metadata"]
    assert metadata["namespace"] == "default"
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert metadata["managedFields"][0]["operation"] == "Update"
    again = await api("GET", f"{BASE}/a")
    assert again.body == made.body


async def test_server_fields_of_clients_are_ignored(api, config_map):
    given = config_map("a")
    given["metadata"] |= {
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
    }
    made = await api("POST", BASE, given)
    assert made["metadata.uid"] != "mine"
    assert not made["metadata.creationTimestamp"].startswith("2001")
    assert "deletionTimestamp" not in made["metadata"]


CHANGED = (
    'Operation cannot be fulfilled on configmaps "there": the object has been modified; please apply your changes '
    "to the latest version and try again"
)
REFUSED = [
    # method, path, body, status, reason, message
    ("POST", BASE, {"metadata": {"name": "there"}}, 409, "AlreadyExists", 'configmaps "there" already exists'),
    ("POST", BASE, {"metadata": {}}, 422, "Invalid",
     'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'),
    ("POST", BASE, {"metadata": {"name": "x", "namespace": "other"}}, 400, "BadRequest",
     "the namespace of the provided object does not match the namespace sent on the request"),
    ("POST", "/api/v1/namespaces/none/configmaps", {"metadata": {"name": "x"}}, 404, "NotFound",
     'namespaces "none" not found'),
    ("GET", f"{BASE}/none", None, 404, "NotFound", 'configmaps "none" not found'),
    ("PUT", f"{BASE}/none", {"metadata": {"name": "none"}}, 404, "NotFound", 'configmaps "none" not found'),
    ("PUT", f"{BASE}/there", {"metadata": {"name": "x"}}, 400, "BadRequest",
     "the name of the object (x) does not match the name on the URL (there)"),
    ("PUT", f"{BASE}/there", {"metadata": {"name": "there", "resourceVersion": "1"}}, 409, "Conflict",
     CHANGED),
    ("PUT", f"{BASE}/there", {"metadata": {"name": "there", "uid": "other"}}, 409, "Conflict", None),
    ("DELETE", f"{BASE}/none", None, 404, "NotFound", 'configmaps "none" not found'),
    ("GET", "/api/v1/nothing", None, 404, "NotFound", "the server could not find the requested resource"),
    ("GET", f"{BASE}/there/scale", None, 404, "NotFound", None),
    ("PUT", BASE, {"metadata": {"name": "x"}}, 405, "MethodNotAllowed",
     "the server does not allow this method on the requested resource"),
    ("POST", f"{BASE}/there", {"metadata": {"name": "x"}}, 405, "MethodNotAllowed", None),
    ("POST", BASE, b"{", 400, "BadRequest", None),
    ("POST", BASE, {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "x"}}, 400, "BadRequest", None),
    ("POST", f"{BASE}?dryRun=Some", {"metadata": {"name": "x"}}, 422, "Invalid", None),
    ("POST", f"{BASE}?fieldValidation=Some", {"metadata": {"name": "x"}}, 422, "Invalid", None),
    ("POST", BASE, {"metadata": {"name": "x", "labels": {"a b": "c"}}}, 422, "Invalid", None),
    ("POST", BASE, {"metadata": {"name": "x", "finalizers": ["orphan", "foregroundDeletion"]}}, 422, "Invalid", None),
    ("POST", BASE, {"metadata": {"name": "x", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}},
     422, "Invalid", 'ConfigMap "x" is invalid: metadata.ownerReferences.uid: Invalid value: "": must not be empty'),
    ("PATCH", f"{BASE}/there?force=true", {}, 422, "Invalid", None),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row[0]} {row[1]} {row[2]}")
async def test_refusals_have_the_messages_of_the_api(api, row):
    method, path, body, status, reason, message = row
    await api("POST", BASE, {"metadata": {"name": "there"}})
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    response = await api(method, path, body, Content_Type=content)
    assert (response.status, response["reason"]) == (status, reason), response.body
    assert response["kind"] == "Status"
    if message:
        assert response["message"] == message


async def test_generated_names_are_unique(api):
    names = set()
    for _ in range(5):
        made = await api("POST", BASE, {"metadata": {"generateName": "x-"}})
        names.add(made["metadata.name"])
    assert len(names) == 5
    assert all(name.startswith("x-") and len(name) == 7 for name in names)


async def test_an_update_that_changes_nothing_writes_nothing(api, config_map):
    made = (await api("POST", BASE, config_map("a"))).body
    again = await api("PUT", f"{BASE}/a", made)
    assert again.status == 200
    assert again["metadata.resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_an_update_keeps_fields_that_clients_cannot_change(api, config_map):
    made = (await api("POST", BASE, config_map("a"))).body
    new = {"metadata": {"name": "a", "creationTimestamp": "2001-01-01T00:00:00Z"}, "data": {"k": "w"}}
    changed = await api("PUT", f"{BASE}/a", new)
    assert changed["data"] == {"k": "w"}
    for key in ("uid", "creationTimestamp"):
        assert changed[f"metadata.{key}"] == made["metadata"][key]
    assert int(changed["metadata.resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_a_dry_run_changes_nothing(api, config_map):
    made = await api("POST", f"{BASE}?dryRun=All", config_map("a"))
    assert made.status == 201
    assert made["metadata.uid"]
    assert (await api("GET", f"{BASE}/a")).status == 404
    await api("POST", BASE, config_map("a"))
    changed = await api("PUT", f"{BASE}/a?dryRun=All", {"metadata": {"name": "a"}, "data": {"k": "w"}})
    assert changed["data.k"] == "w"
    assert (await api("GET", f"{BASE}/a"))["data.k"] == "v"
    assert (await api("DELETE", f"{BASE}/a?dryRun=All")).status == 200
    assert (await api("GET", f"{BASE}/a")).status == 200


async def test_concurrent_patches_all_take_effect(api, config_map):
    await api("POST", BASE, config_map("a"))

    async def patch(number):
        return await api(
            "PATCH", f"{BASE}/a", {"data": {f"k{number}": "v"}}, Content_Type="application/merge-patch+json"
        )

    response = await asyncio.gather(*(patch(number) for number in range(10)))
    assert {each.status for each in response} == {200}
    assert len((await api("GET", f"{BASE}/a"))["data"]) == 11


@pytest.mark.parametrize(
    ("form", "patch", "data"),
    [
        ("application/merge-patch+json", {"data": {"k": None, "a": "b"}}, {"a": "b"}),
        ("application/json-patch+json", [{"op": "replace", "path": "/data/k", "value": "w"}], {"k": "w"}),
        ("application/strategic-merge-patch+json", {"data": {"a": "b"}}, {"k": "v", "a": "b"}),
        ("application/apply-patch+yaml", b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: z}",
         {"k": "v", "x": "z"}),
    ],
)  # fmt: skip
async def test_every_type_of_patch_is_applied(api, config_map, form, patch, data):
    await api("POST", BASE, config_map("a"))
    response = await api("PATCH", f"{BASE}/a?fieldManager=me", patch, Content_Type=form)
    assert response.status == 200, response.body
    assert response["data"] == data


async def test_applying_creates_a_missing_object(api):
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"},"data":{"a":"b"}}'
    response = await api(
        "PATCH", f"{BASE}/new?fieldManager=me", body, Content_Type="application/apply-patch+yaml"
    )
    assert response.status == 201, response.body
    (entry,) = response["metadata.managedFields"]
    assert (entry["manager"], entry["operation"], entry["fieldsV1"]) == (
        "me",
        "Apply",
        {"f:data": {"f:a": {}}},
    )
    refused = await api("PATCH", f"{BASE}/x", body, Content_Type="application/apply-patch+yaml")
    assert refused.status == 422
    assert refused["message"].endswith("fieldManager: Required value: is required for apply patch")


@pytest.mark.parametrize(
    ("validation", "status", "warned"), [("Strict", 400, 0), ("Warn", 201, 1), ("Ignore", 201, 0)]
)
async def test_field_validation_decides_about_unknown_fields(api, validation, status, warned):
    response = await api(
        "POST", f"{BASE}?fieldValidation={validation}", {"metadata": {"name": "a"}, "date": {}}
    )
    assert response.status == status
    assert len(response.warnings) == warned


async def test_generation_counts_changes_of_spec_only(api):
    path = "/apis/apps/v1/namespaces/default/deployments"
    spec = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
    made = await api("POST", path, {"metadata": {"name": "d"}, "spec": spec, "status": {"replicas": 5}})
    assert made.status == 201, made.body
    assert made["metadata.generation"] == 1
    assert "replicas" not in (made["status"] or {})
    merge = {"Content_Type": "application/merge-patch+json"}
    labelled = await api("PATCH", f"{path}/d", {"metadata": {"labels": {"x": "y"}}}, **merge)
    assert labelled["metadata.generation"] == 1
    scaled = await api("PATCH", f"{path}/d", {"spec": {"replicas": 3}}, **merge)
    assert scaled["metadata.generation"] == 2
    status = await api(
        "PATCH", f"{path}/d/status", {"spec": {"replicas": 9}, "status": {"replicas": 2}}, **merge
    )
    assert (status["metadata.generation"], status["spec.replicas"], status["status.replicas"]) == (2, 3, 2)


async def test_tenants_do_not_see_each_other(api, config_map):
    await api("POST", BASE, config_map("a"))
    assert (await api("GET", f"/tenants/b{BASE}/a")).status == 404
    await api("POST", f"/tenants/b{BASE}", config_map("a"))
    assert len((await api("GET", f"/tenants/b{BASE}"))["items"]) == 1
    missing = await api("GET", "/tenants/none/api/v1/pods")
    assert missing.status == 404


async def test_nothing_is_created_in_a_terminating_namespace(api, config_map):
    deleted = await api("DELETE", "/api/v1/namespaces/other")
    assert deleted["status.phase"] == "Terminating"
    response = await api("POST", "/api/v1/namespaces/other/configmaps", config_map("a"))
    assert (response.status, response["reason"]) == (403, "Forbidden")
    assert response["details.causes.0.reason"] == "NamespaceTerminating"
    finalized = await api(
        "PUT",
        "/api/v1/namespaces/other/finalize",
        {"metadata": {"name": "other"}, "spec": {"finalizers": []}},
    )
    assert finalized.status == 200, finalized.body
    assert (await api("GET", "/api/v1/namespaces/other")).status == 404
    assert (await api("DELETE", "/api/v1/namespaces/default")).status == 403


@pytest.mark.parametrize(
    "path", ["/nothing", "/apis/none", "/apis/none/v1", "/apis/none/v1/things", "/healthz/none"]
)
async def test_unknown_paths_are_refused_in_plain_text(api, path):
    response = await api("GET", path)
    assert (response.status, response.body) == (404, b"404 page not found\n")


@pytest.mark.parametrize("entries", [[], [{}]])
async def test_managed_fields_can_be_reset(api, config_map, entries):
    await api("POST", BASE, config_map("a"))
    merge = {"Content_Type": "application/merge-patch+json"}
    response = await api("PATCH", f"{BASE}/a", {"metadata": {"managedFields": entries}}, **merge)
    assert "managedFields" not in response["metadata"]
    await api("POST", BASE, config_map("b"))
    given = (await api("GET", f"{BASE}/b")).body
    given["metadata"]["managedFields"] = entries
    assert "managedFields" not in (await api("PUT", f"{BASE}/b", given))["metadata"]


@pytest.mark.parametrize("body", [{}, {"spec": {"ports": [{"port": 80}]}}, {"spec": {"clusterIP": "None"}}])
async def test_services_without_a_name_are_refused(api, body):
    answer = await api("POST", "/api/v1/namespaces/default/services", body)
    assert answer.status == 422
    assert "name or generateName is required" in answer["message"]


async def test_invalid_utf8_becomes_the_replacement_character_with_any_owners(api):
    body = b'{"metadata":{"name":"odd","annotations":{"a":"x\xffy"},"managedFields":[]}}'
    made = await api("POST", "/api/v1/namespaces/default/configmaps", body)
    assert made.status == 201, made.body
    assert made["metadata.annotations.a"] == "x\ufffdy"


async def test_a_uid_matches_no_object_that_does_not_exist(api):
    body = {"metadata": {"name": "e", "uid": "u-1"}, "subsets": []}
    found = await api("PUT", f"{CORE}/endpoints/e", body)
    assert found.status == 409
    assert found.body["message"].endswith("UID in precondition: u-1, UID in object meta: ")


async def test_admission_sees_the_operation(store):
    seen = []

    async def admit(asked):
        seen.append(asked.operation)

    chain = assemble(store, Everybody(), admit=(admit,)).server.chain
    await ask(chain, "POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
    await ask(
        chain,
        "PATCH",
        "/api/v1/namespaces/n",
        {"metadata": {"labels": {"a": "b"}}},
        Content_Type="application/merge-patch+json",
    )
    assert seen == ["CREATE", "UPDATE"]


async def test_only_events_expire_after_an_hour(api, store, monkeypatch):
    lifetimes = []
    txn = store.txn

    async def noted(conditions, operations, *more, **options):
        lifetimes.extend(each.ttl for each in operations if isinstance(each, Put))
        return await txn(conditions, operations, *more, **options)

    monkeypatch.setattr(store, "txn", noted)
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Made",
        "type": "Normal",
    }
    assert (await api("POST", f"{CORE}/events", event)).status == 201
    assert lifetimes == [3600]
    lifetimes.clear()
    assert (await api("POST", f"{CORE}/configmaps", {"metadata": {"name": "one"}})).status == 201
    assert lifetimes == [None]


async def test_an_event_cannot_be_an_owner(api):
    owner = {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}
    body = {"metadata": {"name": "one", "ownerReferences": [owner]}}
    found = await api("POST", f"{CORE}/configmaps", body)
    assert found.status == 422
    (cause,) = found.body["details"]["causes"]
    assert cause["field"] == "metadata.ownerReferences"
    assert cause["message"].endswith(": /v1, Kind=Event is disallowed from being an owner")

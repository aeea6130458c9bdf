"""Creates, updates, patches: what is filled in, kept, refused."""

import asyncio

import pytest

BASE = "/api/v1/namespaces/default/configmaps"


async def test_a_created_object_gets_what_the_server_gives(api, config_map):
    made = await api("POST", BASE, config_map("a"))
    assert made.status == 201
    metadata = made["metadata"]
    assert metadata["namespace"] == "default"
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert metadata["managedFields"][0]["operation"] == "Update"
    again = await api("GET", f"{BASE}/a")
    assert again.body == made.body


async def test_what_only_the_server_sets_is_not_taken_from_clients(api, config_map):
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
async def test_what_is_wrong_is_refused_in_the_words_of_the_api(api, row):
    method, path, body, status, reason, message = row
    await api("POST", BASE, {"metadata": {"name": "there"}})
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    told = await api(method, path, body, Content_Type=content)
    assert (told.status, told["reason"]) == (status, reason), told.body
    assert told["kind"] == "Status"
    if message:
        assert told["message"] == message


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


async def test_an_update_keeps_what_clients_cannot_change(api, config_map):
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

    told = await asyncio.gather(*(patch(number) for number in range(10)))
    assert {each.status for each in told} == {200}
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
async def test_every_kind_of_patch_is_understood(api, config_map, form, patch, data):
    await api("POST", BASE, config_map("a"))
    told = await api("PATCH", f"{BASE}/a?fieldManager=me", patch, Content_Type=form)
    assert told.status == 200, told.body
    assert told["data"] == data


async def test_applying_creates_what_is_not_there(api):
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"},"data":{"a":"b"}}'
    told = await api(
        "PATCH", f"{BASE}/new?fieldManager=me", body, Content_Type="application/apply-patch+yaml"
    )
    assert told.status == 201, told.body
    assert told["metadata.managedFields.0.operation"] == "Apply"
    refused = await api("PATCH", f"{BASE}/x", body, Content_Type="application/apply-patch+yaml")
    assert refused.status == 422
    assert refused["message"].endswith("fieldManager: Required value: is required for apply patch")


@pytest.mark.parametrize(
    ("validation", "status", "warned"), [("Strict", 400, 0), ("Warn", 201, 1), ("Ignore", 201, 0)]
)
async def test_unknown_fields_are_treated_as_asked(api, validation, status, warned):
    told = await api("POST", f"{BASE}?fieldValidation={validation}", {"metadata": {"name": "a"}, "date": {}})
    assert told.status == status
    assert len(told.warnings) == warned


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


async def test_nothing_is_created_in_a_namespace_that_goes(api, config_map):
    deleted = await api("DELETE", "/api/v1/namespaces/other")
    assert deleted["status.phase"] == "Terminating"
    told = await api("POST", "/api/v1/namespaces/other/configmaps", config_map("a"))
    assert (told.status, told["reason"]) == (403, "Forbidden")
    assert told["details.causes.0.reason"] == "NamespaceTerminating"
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
async def test_where_nothing_begins_the_answer_is_plain(api, path):
    told = await api("GET", path)
    assert (told.status, told.body) == (404, b"404 page not found\n")


@pytest.mark.parametrize("entries", [[], [{}]])
async def test_managed_fields_can_be_reset(api, config_map, entries):
    await api("POST", BASE, config_map("a"))
    merge = {"Content_Type": "application/merge-patch+json"}
    told = await api("PATCH", f"{BASE}/a", {"metadata": {"managedFields": entries}}, **merge)
    assert "managedFields" not in told["metadata"]
    await api("POST", BASE, config_map("b"))
    given = (await api("GET", f"{BASE}/b")).body
    given["metadata"]["managedFields"] = entries
    assert "managedFields" not in (await api("PUT", f"{BASE}/b", given))["metadata"]


@pytest.mark.parametrize("body", [{}, {"spec": {"ports": [{"port": 80}]}}, {"spec": {"clusterIP": "None"}}])
async def test_services_without_a_name_are_refused(api, body):
    answer = await api("POST", "/api/v1/namespaces/default/services", body)
    assert answer.status == 422
    assert "name or generateName is required" in answer["message"]


async def test_bytes_that_are_no_text_become_the_replacement_character_whatever_owners_are_sent(api):
    body = b'{"metadata":{"name":"odd","annotations":{"a":"x\xffy"},"managedFields":[]}}'
    made = await api("POST", "/api/v1/namespaces/default/configmaps", body)
    assert made.status == 201, made.body
    assert made["metadata.annotations.a"] == "x\ufffdy"

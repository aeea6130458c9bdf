"""APIServices of definitions: the server creates, restores and deletes them."""

from served_definitions import DEFINITIONS, until

from vcsync.apiserver.apiextensions import api_services

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
DEFINITION = f"{DEFINITIONS}/gadgets.example.org"
JSON_PATCH = {"Content_Type": "application/json-patch+json"}


async def shown(api):
    """Return the versions of the group that have an APIService."""
    items = (await api("GET", API_SERVICES))["items"]
    return {each["spec"]["version"] for each in items if each["spec"].get("group") == "example.org"}


async def becomes(api, *versions):
    async def done():
        return await shown(api) == set(versions)

    await until(done)


async def test_every_served_version_has_one(api, gadgets):
    await becomes(api, "v1", "v2")
    found = await api("GET", f"{API_SERVICES}/v1.example.org")
    assert found["metadata.labels"] == {"kube-aggregator.kubernetes.io/automanaged": "true"}
    assert found["spec"] == {
        "group": "example.org",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 100,
    }
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")


async def test_a_version_that_is_not_served_any_more_loses_it(api, gadgets):
    await becomes(api, "v1", "v2")
    stop = [{"op": "replace", "path": "/spec/versions/1/served", "value": False}]
    await api("PATCH", DEFINITION, stop, **JSON_PATCH)
    await becomes(api, "v1")


async def test_a_deleted_one_comes_back_while_the_definition_exists(api, gadgets):
    await becomes(api, "v1", "v2")
    before = (await api("GET", f"{API_SERVICES}/v1.example.org"))["metadata.uid"]
    await api("DELETE", f"{API_SERVICES}/v1.example.org")

    async def renewed():
        found = await api("GET", f"{API_SERVICES}/v1.example.org")
        return found.status == 200 and found["metadata.uid"] != before

    await until(renewed)
    await api("DELETE", DEFINITION)
    await becomes(api)


async def test_one_that_a_user_made_stays(api, gadgets):
    await becomes(api, "v1", "v2")
    spec = {"group": "example.org", "version": "v3", "groupPriorityMinimum": 1, "versionPriority": 1}
    made = await api("POST", API_SERVICES, {"metadata": {"name": "v3.example.org"}, "spec": spec})
    assert made.status == 201
    await api("DELETE", DEFINITION)
    await becomes(api, "v3")


async def test_a_definition_with_many_versions_delays_no_other_and_stays_within_the_limit(
    api, gadgets, monkeypatch
):
    monkeypatch.setattr(api_services, "PER_TURN", 1)
    await becomes(api, "v1", "v2")
    standing = len((await api("GET", API_SERVICES))["items"])
    monkeypatch.setattr(api_services, "MOST", standing + 2)
    names = {"plural": "many", "singular": "many", "kind": "Many", "listKind": "ManyList"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [
        {"name": f"v{at}", "served": True, "storage": at == 3, "schema": schema} for at in range(3, 9)
    ]
    spec = {"group": "many.example.org", "scope": "Cluster", "names": names, "versions": versions}
    made = await api("POST", DEFINITIONS, {"metadata": {"name": "many.many.example.org"}, "spec": spec})
    assert made.status == 201, made.body

    async def full():
        return len((await api("GET", API_SERVICES))["items"]) == standing + 2

    await until(full)

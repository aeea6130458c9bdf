"""Versions, defaults and names of custom resources whose definitions have several versions or share a group."""

from typing import Any

import msgspec
from served_definitions import DEFINITIONS, until

MERGE = {"Content_Type": "application/merge-patch+json"}


async def define(
    api: Any, plural: str, versions: list[dict[str, Any]], kind: str, group: str = "many.example"
) -> Any:
    """Create a definition and wait until its newest version is served."""
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": versions}
    made = await api("POST", DEFINITIONS, {"metadata": {"name": f"{plural}.{group}"}, "spec": spec})
    assert made.status == 201, made.body

    async def served() -> bool:
        path = f"/apis/{group}/{versions[-1]['name']}/{plural}"
        return (await api("GET", path)).status == 200

    await until(served)
    return made


def version(name: str, *, storage: bool = True, **spec: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}}


async def test_the_versions_of_a_group_are_sorted_over_all_its_definitions(api):
    await define(api, "alarms", [version("v1beta3")], "Alarm")
    await define(api, "tools", [version("v1beta3", storage=False), version("v1")], "Tool")
    group = await api("GET", "/apis/many.example")
    assert [each["version"] for each in group.body["versions"]] == ["v1", "v1beta3"]
    assert group["preferredVersion.version"] == "v1"
    listed = await api("GET", "/apis")
    (found,) = [each for each in listed.body["groups"] if each["name"] == "many.example"]
    assert found["preferredVersion"]["version"] == "v1"
    aggregated = await api(
        "GET", "/apis", Accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    )
    items = msgspec.json.decode(aggregated.raw)
    (found,) = [each for each in items["items"] if each["metadata"].get("name") == "many.example"]
    assert [each["version"] for each in found["versions"]] == ["v1", "v1beta3"]
    beta = await api("GET", "/apis/many.example/v1beta3")
    assert [each["name"] for each in beta.body["resources"]] == ["alarms", "tools"]


def text(default: str) -> dict[str, Any]:
    return {"type": "string", "default": default}


async def test_objects_have_the_defaults_of_the_version_in_which_they_are_stored(api):
    first = version("v1", storage=False, common=text("one"), only1=text("only1"))
    await define(
        api, "defs", [first, version("v2", common=text("two"), only2=text("only2"))], "Def", "f.example"
    )
    paths = {name: f"/apis/f.example/{name}/defs" for name in ("v1", "v2")}
    body = {"apiVersion": "f.example/v1", "kind": "Def", "metadata": {"name": "d"}, "spec": {}}
    made = await api("POST", paths["v1"], body)
    # The defaults of the version of the request count in the request, and what the stored version does not know is lost.
    assert (made.status, made["spec"]) == (201, {"common": "one"})
    assert (await api("GET", f"{paths['v1']}/d"))["spec"] == {"common": "one"}
    assert (await api("GET", f"{paths['v2']}/d"))["spec"] == {"common": "one", "only2": "only2"}
    assert (await api("GET", paths["v1"]))["items.0.spec"] == {"common": "one"}
    patched = await api("PATCH", f"{paths['v2']}/d", {"metadata": {"labels": {"a": "b"}}}, **MERGE)
    assert patched["spec"] == {"common": "one", "only2": "only2"}
    again = await api("PUT", f"{paths['v1']}/d", (await api("GET", f"{paths['v1']}/d")).body)
    assert (again.status, again["metadata.generation"], again["spec"]) == (200, 2, {"common": "one"})


async def test_a_name_of_a_definition_cannot_become_another_part_of_its_names(api):
    await define(api, "names", [version("v1")], "Name", "f.example")
    path = f"{DEFINITIONS}/names.f.example"

    async def condition() -> dict[str, Any]:
        found = await api("GET", path)
        return next(each for each in found["status.conditions"] if each["type"] == "NamesAccepted")

    for change, reason in (
        ({"shortNames": ["names"]}, "ShortNamesConflict"),
        ({"singular": "names", "shortNames": None}, "SingularConflict"),
    ):
        changed = await api("PATCH", path, {"spec": {"names": change}}, **MERGE)
        assert changed.status == 200, changed.body

        async def refused(reason: str = reason) -> bool:
            found = await condition()
            return (found["status"], found["reason"], found["message"]) == (
                "False",
                reason,
                '"names" is already in use',
            )

        await until(refused)
        found = await api("GET", path)
        assert (found["status.acceptedNames.singular"], found["status.acceptedNames.plural"]) == (
            "name",
            "names",
        )
        assert "shortNames" not in found["status.acceptedNames"]

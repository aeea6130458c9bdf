"""Server-side apply and field management."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.kinds import all_kinds
from vcsync.apimachinery.patch import apply, managed, scale
from vcsync.apimachinery.patch.managed import Tracking
from vcsync.apimachinery.schema import builtin, walk
from vcsync.apimachinery.schema.node import Schema

T1, T2 = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def tracking(kind: str = "ConfigMap", **more: Any) -> Tracking:
    schema = builtin.schema("", "v1", kind)
    assert schema is not None
    return Tracking(schema, "v1", kind, empty=managed.empty_object("", "v1", kind), **more)


def config(data: dict[str, Any] | None, **metadata: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", **metadata}}
    return made if data is None else {**made, "data": data}


def applied(
    live: dict[str, Any] | None, what: dict[str, Any], by: str, now: str = T1, force: bool = False
) -> Any:
    return apply.apply(live, what, manager=by, force=force, now=now, tracking=tracking())


def written(live: dict[str, Any] | None, new: dict[str, Any], by: str, now: str = T1) -> dict[str, Any]:
    entries = managed.update(live, new, manager=by, now=now, tracking=tracking())
    return {**new, "metadata": {**new["metadata"], "managedFields": entries}}


def owners(obj: dict[str, Any]) -> dict[str, list[str]]:
    """Return the keys of `data` that each manager owns."""
    entries = obj["metadata"].get("managedFields") or []
    return {
        f"{each['manager']} {each['operation']}": [
            key for key in each["fieldsV1"].get("f:data", {}) if key != "."
        ]
        for each in entries
    }


def test_fields_no_longer_applied_are_removed_unless_others_own_them() -> None:
    first = applied(None, config({"a": "1", "b": "1", "c": "1"}), "one")
    shared = applied(first, config({"b": "1"}), "two")
    changed = applied(shared, config({"c": "1"}), "one")
    assert changed["data"] == {"b": "1", "c": "1"}
    assert owners(changed) == {"one Apply": ["f:c"], "two Apply": ["f:b"]}


def test_a_conflict_names_manager_version_and_field() -> None:
    live = written(None, config({"a": "1"}), "kubectl-client-side-apply")
    with pytest.raises(StatusError) as refusal:
        applied(live, config({"a": "2"}), "me")
    assert refusal.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.a',
        "reason": "Conflict",
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "kubectl-client-side-apply" using v1',
                    "field": ".data.a",
                }
            ]
        },
        "code": 409,
    }


def test_several_conflicts_are_listed_by_manager() -> None:
    live = applied(applied(None, config({"a": "1", "b": "1"}), "one"), config({"c": "1"}), "two")
    with pytest.raises(StatusError) as refusal:
        applied(live, config({"a": "2", "b": "2", "c": "2"}), "me")
    assert refusal.value.message == (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .data.a\n- .data.b\nconflicts with "two":\n- .data.c'
    )


def test_force_takes_the_field_over() -> None:
    live = applied(None, config({"a": "1", "b": "1"}), "one")
    changed = applied(live, config({"a": "2"}), "two", force=True)
    assert changed["data"] == {"a": "2", "b": "1"}
    assert owners(changed) == {"one Apply": ["f:b"], "two Apply": ["f:a"]}


def test_applying_the_same_value_shares_the_field() -> None:
    live = applied(None, config({"a": "1"}), "one")
    shared = applied(live, config({"a": "1"}), "two", now=T2)
    assert owners(shared) == {"one Apply": ["f:a"], "two Apply": ["f:a"]}


def test_an_update_owns_the_fields_that_it_changes() -> None:
    live = applied(None, config({"a": "1", "b": "1"}), "one")
    changed = written(live, {**live, "data": {"a": "2", "b": "1", "c": "1"}}, "two", now=T2)
    assert owners(changed) == {"one Apply": ["f:b"], "two Update": ["f:a", "f:c"]}
    assert [each["time"] for each in changed["metadata"]["managedFields"]] == [T1, T2]


def test_an_update_without_changes_keeps_times() -> None:
    live = written(None, config({"a": "1"}), "one")
    again = written(live, config({"a": "1"}), "one", now=T2)
    assert again["metadata"]["managedFields"] == live["metadata"]["managedFields"]


def test_times_are_restored_if_nothing_else_changed() -> None:
    old = written(None, config({"a": "1"}), "one", now=T1)
    new = written(None, config({"a": "1"}), "one", now=T2)
    managed.keep_times(old, new)
    assert new == old
    other = written(None, config({"a": "2"}), "one", now=T2)
    managed.keep_times(old, other)
    assert other["metadata"]["managedFields"][0]["time"] == T2


def test_untracked_fields_get_an_owner_before_the_first_apply() -> None:
    changed = applied(config({"a": "1", "b": "1"}), config({"b": "1"}), "me")
    assert owners(changed) == {"me Apply": ["f:b"], "before-first-apply Update": ["f:a", "f:b"]}


@pytest.mark.parametrize("reset", [[], [{}]])
def test_an_empty_list_ends_tracking(reset: list[Any]) -> None:
    live = written(None, config({"a": "1"}), "one")
    assert (
        managed.update(
            live, config({"a": "1"}, managedFields=reset), manager="two", now=T2, tracking=tracking()
        )
        is None
    )


@pytest.mark.parametrize(
    "entry",
    [
        "text",
        {"manager": "x", "operation": "Other"},
        {"manager": "x", "operation": "Apply", "apiVersion": "", "fieldsType": "FieldsV1"},
        {"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV2"},
        {"manager": 3, "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"},
        {
            "manager": "x",
            "operation": "Apply",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"q": {}},
        },
    ],
)
def test_invalid_edits_of_managed_fields_are_ignored(entry: Any) -> None:
    live = written(None, config({"a": "1"}), "one")
    again = written(live, config({"a": "1"}, managedFields=[entry]), "two")
    assert again["metadata"]["managedFields"] == live["metadata"]["managedFields"]


def test_the_number_of_updaters_is_limited() -> None:
    live = written(None, config({"k": "1"}), "m00")
    for number in range(1, 30):
        live = written(live, {**live, "data": {**live["data"], f"k{number}": "1"}}, f"m{number:02}")
    assert len(live["metadata"]["managedFields"]) == 10
    assert "ancient-changes Update" in owners(live)


def test_managers_of_a_removed_version_own_nothing() -> None:
    live = written(None, config({"a": "1"}), "one")
    live["metadata"]["managedFields"][0]["apiVersion"] = "v0"
    now_served = tracking(versions=frozenset({"v1"}))
    entries = managed.update(
        live, {**live, "data": {"a": "1", "b": "1"}}, manager="two", now=T2, tracking=now_served
    )
    assert [each["manager"] for each in entries or ()] == ["two"]


def test_a_write_to_the_object_does_not_own_status() -> None:
    pods = tracking("Pod", reset=all_kinds.reset("", "pods"))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "labels": {"a": "b"}},
        "status": {"phase": "Running"},
    }
    entries = managed.update(None, pod, manager="me", now=T1, tracking=pods)
    assert entries is not None
    assert entries[0]["fieldsV1"] == {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}


def test_a_resize_owns_resources_only() -> None:
    reset = all_kinds.reset("", "pods", "resize")
    container: dict[str, Any] = {".": {}, "f:image": {}, "f:resources": {"f:limits": {"f:cpu": {}}}}
    written_fields = {
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {"f:containers": {'k:{"name":"c"}': container}},
    }
    assert reset.kept(written_fields) == {
        "f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:resources": {"f:limits": {"f:cpu": {}}}}}}
    }


def test_kubectl_may_take_fields_of_client_side_apply() -> None:
    last = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1"}}'
    live = written(None, config({"a": "1"}, annotations={LAST_APPLIED: last}), "kubectl-client-side-apply")
    changed = applied(live, config({"a": "2"}), "kubectl")
    assert changed["data"] == {"a": "2"}
    assert '"a":"2"' in changed["metadata"]["annotations"][LAST_APPLIED]
    with pytest.raises(StatusError, match="conflict"):
        applied(live, config({"a": "2"}), "other")


@pytest.mark.parametrize(
    ("what", "code", "message"),
    [
        ({"apiVersion": "v2", "kind": "ConfigMap"}, 400, "invalid object type: /v2, Kind=ConfigMap"),
        (None, 400, "invalid object type: /, Kind="),
        (
            [],
            400,
            (
                "error decoding YAML: error unmarshaling JSON: while decoding JSON:"
                " json: cannot unmarshal array into Go value of type map[string]interface {}"
            ),
        ),
        (config({}, managedFields=[]), 400, "metadata.managedFields must be nil"),
        (
            config({"a": 1}, namespace="d"),
            500,
            (
                "failed to create typed patch object (d/x; /v1, Kind=ConfigMap):"
                " .data.a: expected string, got &value.valueUnstructured{Value:1}"
            ),
        ),
        (
            {**config({}), "foo": 1},
            500,
            "failed to create typed patch object (/x; /v1, Kind=ConfigMap): .foo: field not declared in schema",
        ),
        (
            config({}, finalizers=["a", "a"]),
            500,
            (
                "failed to create typed patch object (/x; /v1, Kind=ConfigMap):"
                ' .metadata.finalizers: duplicate entries for key [="a"]'
            ),
        ),
        (
            config({}, labels=["a"]),
            500,
            "failed to create typed patch object (/x; /v1, Kind=ConfigMap): .metadata.labels: expected map, got &{[a]}",
        ),
    ],
)
def test_objects_that_do_not_fit_are_refused_with_upstreams_messages(
    what: dict[str, Any], code: int, message: str
) -> None:
    with pytest.raises(StatusError) as refusal:
        applied(None, what, "me")
    assert (refusal.value.code, refusal.value.message) == (code, message)


@pytest.mark.parametrize(
    ("field_manager", "user_agent", "name"),
    [
        ("me", "kubectl/v1", "me"),
        ("", "kubectl/v1.36 (linux)", "kubectl"),
        ("", "a\x00b\x7f/1", "ab"),
        ("", "é" * 100, "é" * 64),
        ("", "", ""),
    ],
)
def test_the_name_of_a_manager_is_from_the_request_or_the_user_agent(
    field_manager: str, user_agent: str, name: str
) -> None:
    assert managed.manager_name(field_manager, user_agent) == name


def test_a_nameless_manager_is_unknown() -> None:
    assert owners(written(None, config({"a": "1"}), "")) == {"unknown Update": ["f:a"]}


def test_replicas_of_object_and_scale_are_the_same_field() -> None:
    paths = {"apps/v1": scale.path(".spec.replicas")}
    replicas: dict[str, Any] = {"f:spec": {"f:replicas": {}}}
    parent = [
        {
            "manager": "one",
            "operation": "Apply",
            "apiVersion": "apps/v1",
            "time": T1,
            "fieldsType": "FieldsV1",
            "fieldsV1": replicas,
        },
        {
            "manager": "two",
            "operation": "Update",
            "apiVersion": "apps/v1",
            "time": T1,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:paused": {}}},
        },
    ]
    shown = scale.to_scale(parent, paths)
    assert shown == [{**parent[0], "apiVersion": "autoscaling/v1"}]
    taken = [{**shown[0], "manager": "three", "operation": "Update", "subresource": "scale", "time": T2}]
    assert scale.to_parent(parent, taken, "apps/v1", paths) == [
        {
            "manager": "three",
            "operation": "Update",
            "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": replicas,
            "subresource": "scale",
        },
        parent[1],
    ]


DATA = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), min_size=1, max_size=3)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(["one", "two"]), DATA), min_size=1, max_size=6))
def test_the_object_has_the_values_of_the_last_forced_applies(
    steps: list[tuple[str, dict[str, str]]],
) -> None:
    live = None
    schema = builtin.schema("", "v1", "ConfigMap")
    assert schema is not None
    for manager, data in steps:
        live = walk.normalize(applied(live, config(data), manager, force=True), schema)
        assert data.items() <= (live.get("data") or {}).items()
        again = walk.normalize(applied(live, config(data), manager), schema)
        assert again == live, "applying again changes nothing"
    owned = {key for keys in owners(live or {}).values() for key in keys}
    assert owned == {f"f:{key}" for key in (live or {}).get("data") or {}}


TEXT = Schema("string")
VERSIONS = {
    f"example.com/{version}": Schema(
        "object",
        properties={
            "apiVersion": TEXT,
            "kind": TEXT,
            "metadata": builtin.definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
            "spec": Schema("object", properties={name: TEXT, "both": TEXT}),
        },
    )
    for version, name in (("v1", "old"), ("v2", "new"))
}


def converted(obj: dict[str, Any], version: str) -> managed.Converted | None:
    """Convert between two versions. A field has the name `old` in the first and `new` in the second."""
    schema = VERSIONS.get(version)
    if schema is None:
        return None
    renamed = {"old": "new", "new": "old"} if obj["apiVersion"] != version else {}
    spec = {renamed.get(name, name): each for name, each in (obj.get("spec") or {}).items()}
    return {**obj, "apiVersion": version, "spec": spec}, schema


def renamed_tracking(version: str) -> Tracking:
    name = f"example.com/{version}"
    return Tracking(VERSIONS[name], name, "Thing", convert=converted)


def thing(version: str, **spec: str) -> dict[str, Any]:
    return {"apiVersion": f"example.com/{version}", "kind": "Thing", "metadata": {"name": "x"}, "spec": spec}


def applied_thing(
    live: dict[str, Any] | None, what: dict[str, Any], by: str, version: str, force: bool = False
) -> Any:
    return apply.apply(live, what, manager=by, force=force, now=T1, tracking=renamed_tracking(version))


def in_version(obj: dict[str, Any], version: str) -> dict[str, Any]:
    found = converted(obj, f"example.com/{version}")
    assert found is not None
    return found[0]


def test_fields_of_another_version_are_compared_in_the_converted_object() -> None:
    live = in_version(applied_thing(None, thing("v1", old="1", both="1"), "one", "v1"), "v2")
    with pytest.raises(StatusError, match=r"\.spec\.old"):
        applied_thing(live, thing("v2", new="2"), "two", "v2")
    taken = applied_thing(live, thing("v2", new="2"), "two", "v2", force=True)
    assert taken["spec"] == {"new": "2", "both": "1"}
    assert [each["fieldsV1"] for each in taken["metadata"]["managedFields"]] == [
        {"f:spec": {"f:both": {}}},
        {"f:spec": {"f:new": {}}},
    ]


def test_fields_applied_in_another_version_are_removed_too() -> None:
    live = in_version(applied_thing(None, thing("v1", old="1", both="1"), "one", "v1"), "v2")
    changed = applied_thing(live, thing("v2", both="1"), "one", "v2")
    assert changed["spec"] == {"both": "1"}
    assert changed["apiVersion"] == "example.com/v2"


def test_managers_of_a_version_that_cannot_be_read_are_removed() -> None:
    live = applied_thing(None, thing("v1", old="1"), "one", "v1")
    live["metadata"]["managedFields"][0]["apiVersion"] = "example.com/v0"
    changed = applied_thing(live, thing("v1", old="2"), "two", "v1")
    assert [each["manager"] for each in changed["metadata"]["managedFields"]] == ["two"]


@pytest.mark.parametrize("metadata", ["x", ["x"], 1, True])
def test_metadata_of_a_wrong_type_does_not_fit_the_schema(metadata: Any) -> None:
    with pytest.raises(StatusError) as refused:
        applied(None, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, "a")
    assert refused.value.code == 500
    assert refused.value.message.startswith(
        "failed to create typed patch object (/; /v1, Kind=ConfigMap): .metadata"
    )

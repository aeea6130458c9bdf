"""Tables, compared with the rows of a real API server for the same objects (`real_rows.jsonl`)."""

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.kinds import tables as builtin_tables
from vcsync.apimachinery.kinds.all_kinds import KINDS, by_kind
from vcsync.apimachinery.wire import cells, jsonpath, tables

ROWS = [json.loads(line) for line in (Path(__file__).parent / "real_rows.jsonl").read_text().splitlines()]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    json_path: str
    format: str = ""
    description: str = ""
    priority: int = 0

    @property
    def path(self) -> jsonpath.Path | None:
        return jsonpath.parse_all([self.json_path])[0]


def name_of(row: Any) -> str:
    return f"{row[1]}-{row[3]['metadata']['name']}"


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_row_is_that_of_kube_apiserver(row: Any) -> None:
    group, kind, now, obj, wanted, conditions = row
    made = builtin_tables.table(
        group, kind, [obj], now=datetime.fromisoformat(now), metadata={}, include="None"
    )
    assert made["rows"][0]["cells"] == wanted
    assert made["rows"][0].get("conditions", []) == conditions


def test_every_kind_with_its_own_cells_has_columns_and_recorded_rows() -> None:
    columns = builtin_tables.recorded_columns()
    with_cells = [(each.group, each.kind) for each in KINDS if each.columns is not None]
    assert not [key for key in with_cells if key not in columns]
    compared = Counter(row[1] for row in ROWS)
    assert len(compared) > 45
    assert compared["Pod"] >= 20


def test_every_cell_is_in_its_column() -> None:
    for key, columns in builtin_tables.recorded_columns().items():
        declared = by_kind(*key)
        printer = builtin_tables.PLAIN if declared is None or declared.columns is None else declared.columns
        assert [name for column in columns if (name := column["name"]) not in printer] == [], key


def test_a_row_contains_the_requested_part_of_its_object() -> None:
    obj = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}, "type": "t"}

    def carried(include: str) -> Any:
        made = builtin_tables.table(
            "", "Secret", [obj], now=NOW, metadata={}, include=include, version="v1beta1"
        )
        return made["rows"][0]["object"]

    metadata = {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1beta1",
        "metadata": {"name": "a"},
    }
    assert carried("") == carried("Metadata") == metadata
    assert carried("Object") == obj
    assert carried("None") is None


def test_later_events_of_a_watch_have_no_columns() -> None:
    made = builtin_tables.table("", "Secret", [], now=NOW, metadata={"resourceVersion": "5"}, headers=False)
    assert made["columnDefinitions"] is None
    assert made["metadata"] == {"resourceVersion": "5"}
    assert (made["kind"], made["apiVersion"], made["rows"]) == ("Table", "meta.k8s.io/v1", [])


def test_flow_schemas_are_in_the_order_in_which_they_match() -> None:
    objects = [
        {"metadata": {"name": name}, "spec": {"matchingPrecedence": at}}
        for name, at in (("a", 2), ("c", 1), ("b", 1))
    ]
    made = builtin_tables.table("flowcontrol.apiserver.k8s.io", "FlowSchema", objects, now=NOW, metadata={})
    assert [row["cells"][0] for row in made["rows"]] == ["b", "c", "a"]


def test_a_scale_shows_desired_and_actual_replicas() -> None:
    obj = {"metadata": {"name": "a"}, "spec": {"replicas": 2}, "status": {"replicas": 1}}
    made = builtin_tables.table("autoscaling", "Scale", [obj], now=NOW, metadata={})
    assert [column["name"] for column in made["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert made["rows"][0]["cells"] == ["a", 2, 1, "<unknown>"]


def test_kinds_without_a_printer_show_name_and_creation() -> None:
    obj = {"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    made = builtin_tables.table("x.example", "Unheard", [obj], now=NOW, metadata={})
    assert [column["name"] for column in made["columnDefinitions"]] == ["Name", "Created At"]
    assert made["rows"][0]["cells"] == ["a", "2026-01-01T00:00:00Z"]
    assert builtin_tables.table("x.example", "Unheard", [], now=NOW, metadata={})["rows"] is None


@pytest.mark.parametrize("query", ["", "None", "Metadata", "Object"])
def test_valid_include_parameters_are_accepted(query: str) -> None:
    assert tables.include_object(query) == query


def test_an_invalid_include_parameter_is_refused() -> None:
    with pytest.raises(StatusError) as refusal:
        tables.include_object("Foo")
    assert refusal.value.message == (
        'Unable to convert to Table as requested: includeObject: Invalid value: "Foo": '
        "must be 'Metadata', 'Object', 'None', or empty"
    )


SPEC = {
    "s": "x",
    "l": ["a", 1, None],
    "o": {"b": [1, True], "a": {"z": 1.5}},
    "n": 5,
    "f": 2.75,
    "f2": 1e21,
    "f3": 2.0,
    "b": True,
    "d": "2026-01-02T03:03:05Z",
    "bad": "x",
    "nul": None,
}


@pytest.mark.parametrize(
    ("kind", "path", "wanted"),
    [
        ("string", ".spec.s", "x"),
        ("string", ".spec.l", '["a",1,null]'),
        ("string", ".spec.l[*]", "a"),
        ("string", ".spec.o", '{"a":{"z":1.5},"b":[1,true]}'),
        ("string", ".spec.n", "5"),
        ("integer", ".spec.n", 5),
        ("number", ".spec.f", 2.75),
        ("integer", ".spec.f", 2),
        ("string", ".spec.f", "2.75"),
        ("string", ".spec.f2", "1e+21"),
        ("string", ".spec.f3", "2"),
        ("boolean", ".spec.b", True),
        ("string", ".spec.b", "true"),
        ("integer", ".spec.b", None),
        ("date", ".spec.d", "60s"),
        ("date", ".spec.bad", "<invalid>"),
        ("string", ".spec.missing", None),
        ("string", ".spec.nul", "<no value>"),
        ("string", "not a path[", None),
    ],
)
def test_a_cell_of_a_custom_resource_has_the_value_at_its_path(kind: str, path: str, wanted: Any) -> None:
    obj = {"metadata": {"name": "a"}, "spec": SPEC}
    made = tables.custom_table([Column("C", kind, path)], [obj], now=NOW, metadata={})
    assert made["rows"][0]["cells"] == [wanted]
    assert made["columnDefinitions"] == [
        {"name": "C", "type": kind, "format": "", "description": "", "priority": 0}
    ]


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (130, "2m10s"),
        (599, "9m59s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (11100, "3h5m"),
        (8 * 3600, "8h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (8 * 365 * 86400 + 86400, "8y"),
    ],
)
def test_durations_are_formatted_as_in_kubectl(seconds: int, wanted: str) -> None:
    assert cells.lasting(timedelta(seconds=seconds)) == wanted


TENANTS = [{"tenant": "a"}, {"annotations": {"tenancy.x-k8s.io/tenant": "b"}}, {}]


def test_tables_of_all_tenants_begin_with_the_tenant() -> None:
    objects = [{"metadata": {"name": "x", **metadata}, "spec": SPEC} for metadata in TENANTS]
    builtin = builtin_tables.table("autoscaling", "Scale", objects, now=NOW, metadata={}, tenants=True)
    custom = tables.custom_table(
        [Column("C", "string", ".spec.s")], objects, now=NOW, metadata={}, tenants=True
    )
    for made in (builtin, custom):
        assert made["columnDefinitions"][0]["name"] == "Tenant"
        assert [row["cells"][0] for row in made["rows"]] == ["a", "b", ""]
        assert {len(row["cells"]) for row in made["rows"]} == {len(made["columnDefinitions"])}


def test_flow_schemas_of_all_tenants_keep_their_tenants_when_they_are_sorted() -> None:
    objects = [
        {"metadata": {"name": name, "tenant": tenant}, "spec": {"matchingPrecedence": at}}
        for name, tenant, at in (("a", "umbrella", 2), ("c", "acme", 1))
    ]
    made = builtin_tables.table(
        "flowcontrol.apiserver.k8s.io", "FlowSchema", objects, now=NOW, metadata={}, tenants=True
    )
    assert [row["cells"][:2] for row in made["rows"]] == [["acme", "c"], ["umbrella", "a"]]

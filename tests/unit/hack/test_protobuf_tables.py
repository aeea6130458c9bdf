"""The table of wire types is checked without the Go modules that it was made from."""

from pathlib import Path

import pytest

from hack import protobuf_tables


def test_the_committed_table_is_up_to_date() -> None:
    assert protobuf_tables.check() == ""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"core/v1.Pod"', '"core/v1.Pad"', "table has changed"),
        ('"modules":"', '"modules":"0', "modules has changed"),
    ],
)
def test_a_changed_table_is_found(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = protobuf_tables.TABLE.read_text().replace(old, new, 1)
    copy = tmp_path / "vcsync" / "types.jsonl"
    copy.parent.mkdir()
    copy.write_text(changed)
    monkeypatch.setattr(protobuf_tables, "ROOT", tmp_path)
    monkeypatch.setattr(protobuf_tables, "TABLE", copy)
    assert message in protobuf_tables.check()


def test_a_message_becomes_a_line_with_its_fields_from_proto_and_go() -> None:
    package = protobuf_tables.Package(
        name="core/v1",
        proto="k8s.io.api.core.v1",
        group="",
        messages={
            "Thing": "  optional .k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta metadata = 1;\n"
            "  map<string, Part> parts = 2;\n  repeated string names = 3;\n"
        },
        structs={
            "Thing": '\tmetav1.TypeMeta `json:",inline"`\n'
            '\tmetav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`\n'
            '\tParts map[string]Part `json:"parts" protobuf:"bytes,2,rep,name=parts"`\n'
            '\tNames *[]string `json:"theNames,omitempty" protobuf:"bytes,3,rep,name=names"`\n'
        },
    )
    assert list(protobuf_tables.lines(iter([package]))) == [
        ["core/v1", ""],
        [
            "core/v1.Thing",
            "k",
            [
                [1, "meta/v1.ObjectMeta", "metadata", "o", "v1.ObjectMeta"],
                [2, "{string}core/v1.Part", "parts", "", "map[string]v1.Part"],
                [3, "string[]", "theNames", "po", "[]string"],
            ],
        ],
    ]

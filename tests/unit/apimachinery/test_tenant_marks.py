"""Names of tenants on objects in responses that cover several tenants."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.tenant_marks import ANNOTATION, TenantMark, remove, with_tenant

TEXTS = st.text(max_size=20) | st.sampled_from([ANNOTATION, '"annotations":{', "annotations", "tenant"])
MAPS = st.dictionaries(TEXTS, TEXTS, max_size=4)
FIELDS = [{"manager": "m", "fieldsV1": {"annotations": {"a": {}}}}]
METADATA = st.fixed_dictionaries(
    {"name": TEXTS},
    optional={"managedFields": st.just(FIELDS), "labels": MAPS, "annotations": MAPS, "uid": TEXTS},
)
SPEC = {"template": {"metadata": {"annotations": {"a": "b"}}}}
OBJECTS = st.builds(
    lambda metadata, rest: {"metadata": metadata, **rest}, METADATA, st.sampled_from([{}, {"spec": SPEC}])
)


def marked(obj: dict[str, Any], mark: TenantMark) -> dict[str, Any]:
    value = json.dumps(obj, separators=(",", ":"), ensure_ascii=False).encode()
    pairs: dict[str, Any] = json.loads(with_tenant(value, "acme", mark), object_pairs_hook=without_repeats)
    return pairs


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys)
    return dict(pairs)


@given(OBJECTS)
def test_the_annotation_is_added_or_replaced_and_nothing_else_changes(obj: dict[str, Any]) -> None:
    annotations = {**obj["metadata"].get("annotations", {}), ANNOTATION: "acme"}
    expected = {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
    assert marked(obj, TenantMark.ANNOTATION) == expected


@given(OBJECTS)
def test_the_field_is_added_and_nothing_else_changes(obj: dict[str, Any]) -> None:
    expected = {**obj, "metadata": {**obj["metadata"], "tenant": "acme"}}
    assert marked(obj, TenantMark.FIELD) == expected


@pytest.mark.parametrize(
    ("annotations", "left"),
    [
        (None, None),
        ({}, {}),
        ({"a": "b"}, {"a": "b"}),
        ({"a": "b", ANNOTATION: "umbrella"}, {"a": "b"}),
        ({ANNOTATION: "umbrella"}, None),
    ],
)
def test_a_write_drops_the_annotation(
    annotations: dict[str, str] | None, left: dict[str, str] | None
) -> None:
    metadata: dict[str, Any] = (
        {"name": "x"} if annotations is None else {"name": "x", "annotations": annotations}
    )
    remove(metadata)
    assert metadata == ({"name": "x"} if left is None else {"name": "x", "annotations": left})

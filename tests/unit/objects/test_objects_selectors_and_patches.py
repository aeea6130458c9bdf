"""Label selectors and merge patches."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.objects.merge_patch import create_merge_patch, merge_patch
from vcsync.objects.selectors import InvalidSelector, LabelSelector, compile_selector, parse_selector

LABELS = {"app": "web", "tier": "front", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web , tier = front", True),
        ("app=web,tier=back", False),
        ("app!=web", False),
        ("other!=web", True),
        ("app in (web, api)", True),
        ("app in (api)", False),
        ("app notin (web)", False),
        ("other notin (web)", True),
        ("app", True),
        ("!app", False),
        ("!other", True),
        ("empty=", True),
        ("app=", False),
        ("example.org/app=web", False),
    ],
)
def test_the_string_form_matches(text: str, matches: bool) -> None:
    assert parse_selector(text).matches(LABELS) == matches
    assert parse_selector(str(parse_selector(text))).matches(LABELS) == matches


@pytest.mark.parametrize(
    "text", ["=a", "a in b", "a in (b", "a==b==c", "a b", "a=b c", ",", "a=b,", "-a", "a=(b)"]
)
def test_invalid_selectors_are_refused(text: str) -> None:
    with pytest.raises(InvalidSelector):
        parse_selector(text)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "api"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}, False),
    ],
)
def test_the_structured_form_matches(selector: dict[str, Any], matches: bool) -> None:
    assert compile_selector(msgspec.convert(selector, LabelSelector)).matches(LABELS) == matches


@pytest.mark.parametrize(("operator", "values"), [("In", []), ("NotIn", []), ("Exists", ["x"])])
def test_values_must_fit_the_operator(operator: str, values: list[str]) -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}
    with pytest.raises(InvalidSelector, match=operator):
        compile_selector(msgspec.convert(selector, LabelSelector))


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [  # RFC 7396, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_follow_the_rfc(target: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy(target)
    assert merge_patch(target, patch) == result
    assert target == before


_values = st.recursive(
    st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
_objects = st.dictionaries(st.sampled_from("abc"), _values, max_size=3)


@settings(deadline=None)
@given(_objects, _objects)
def test_the_smallest_patch_converts_and_is_none_for_equal_objects(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    patch = create_merge_patch(old, new)
    assert merge_patch(old, patch if patch is not None else {}) == new
    assert create_merge_patch(new, new) is None


def test_the_smallest_patch_omits_unchanged_fields() -> None:
    old = {"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"x": [1]}}
    new = {"metadata": {"labels": {"a": "1", "b": "3"}}, "spec": {"x": [1]}}
    assert create_merge_patch(old, new) == {"metadata": {"labels": {"b": "3"}}}
    assert create_merge_patch({"a": True}, {"a": 1}) == {"a": 1}

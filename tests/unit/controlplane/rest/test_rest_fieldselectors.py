import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.controlplane.rest.fieldselectors import InvalidFieldSelector, parse_field_selector


@pytest.mark.parametrize(
    ("text", "fields", "matches"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "b"}, True),
        ("a=b", {"a": "c"}, False),
        ("a!=b", {"a": "c"}, True),
        ("a!=b", {}, True),
        ("a=", {}, True),
        ("a=b,c!=d", {"a": "b", "c": "e"}, True),
        ("a=b,c!=d", {"a": "b", "c": "d"}, False),
        (r"a=x\,y", {"a": "x,y"}, True),
        (r"a=x\=y", {"a": "x=y"}, True),
        ("a=b,", {"a": "b"}, True),
    ],
)
def test_terms_are_all_to_hold(text, fields, matches):
    assert parse_field_selector(text).matches(fields) is matches


@pytest.mark.parametrize("text", ["a", "a=b,c", r"a=\x", "a=b=c", "a=b\\"])
def test_what_is_no_selector_is_refused(text):
    with pytest.raises(InvalidFieldSelector):
        parse_field_selector(text)


@given(st.text())
def test_any_text_is_parsed_or_refused(text):
    try:
        parse_field_selector(text)
    except InvalidFieldSelector:
        return


@given(st.text(max_size=20))
def test_escaped_values_are_read_back(value):
    escaped = value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
    assert parse_field_selector(f"f={escaped}").exact("f") == value

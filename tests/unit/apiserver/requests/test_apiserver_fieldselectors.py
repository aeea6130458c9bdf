import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.selectors.field_selectors import (
    FieldSelector,
    InvalidFieldSelector,
    Term,
    parse_field_selector,
)
from vcsync.apimachinery.selectors.label_selectors import LabelSelector, Requirement

TEXTS = st.sampled_from(("", "a", "b", "c", "3", "7"))
MAPS = st.dictionaries(TEXTS, TEXTS, max_size=4)
OPERATORS = st.sampled_from(("in", "notin", "exists", "absent", "gt", "lt"))
REQUIREMENTS = st.builds(
    Requirement, TEXTS, OPERATORS, st.frozensets(st.sampled_from(("3", "7")), min_size=1)
)


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
def test_all_terms_must_hold(text, fields, matches):
    assert parse_field_selector(text).matches(fields) is matches


@pytest.mark.parametrize("text", ["a", "a=b,c", r"a=\x", "a=b=c", "a=b\\"])
def test_invalid_field_selectors_are_refused(text):
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


@given(st.lists(st.builds(Term, TEXTS, TEXTS, st.booleans())), MAPS)
def test_any_number_of_terms_must_hold(terms, fields):
    holds = all((fields.get(each.field, "") == each.value) == each.equal for each in terms)
    assert FieldSelector(tuple(terms)).matches(fields) is holds


@given(st.lists(REQUIREMENTS, min_size=9), MAPS)
def test_any_number_of_requirements_must_be_met(requirements, labels):
    met = all(each.matches(labels) for each in requirements)
    assert LabelSelector(tuple(requirements)).matches(labels) is met

"""The index of selectors answers like a loop over all objects, after any history."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.controllers.framework import selector_index
from vcsync.controllers.framework.selector_index import SELECTORS, Crowded, SelectorIndex, few
from vcsync.kube.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    Resource,
)
from vcsync.objects.envelope import Envelope, encode
from vcsync.objects.selectors import Expression, LabelSelector, Selector, compile_selector

KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("xyz")
LABELS = st.dictionaries(KEYS, VALUES)
VALUED = st.builds(
    Expression,
    KEYS,
    st.sampled_from(("In", "NotIn")),
    st.lists(VALUES, min_size=1, max_size=3).map(tuple),
)
BARE = st.builds(Expression, KEYS, st.sampled_from(("Exists", "DoesNotExist")))
SELECTOR = st.lists(VALUED | BARE, max_size=4).map(lambda found: Selector(tuple(found)))
NAMES = st.tuples(st.sampled_from(("acme/one", "acme/two", "other/one")), st.sampled_from("pqrs"))
HISTORY = st.lists(st.tuples(NAMES, st.none() | st.just("gone") | SELECTOR), max_size=30)


@given(HISTORY, st.lists(LABELS, max_size=5))
def test_the_index_answers_like_a_loop_over_all(
    history: list[tuple[tuple[str, str], Selector | str | None]], asked: list[Mapping[str, str]]
) -> None:
    index, plain = SelectorIndex(), dict[tuple[str, str], Selector]()
    for place, what in history:
        plain.pop(place, None)
        if isinstance(what, str):
            index.drop(*place)
            continue
        index.put(*place, what)
        if what is not None:
            plain[place] = what
    for labels in asked:
        for namespace in ("acme/one", "acme/two", "other/one"):
            loop = [
                name
                for (where, name), selector in plain.items()
                if where == namespace and selector.matches(labels)
            ]
            assert sorted(index.matching(namespace, labels)) == sorted(loop)
    for place, _ in history:
        index.drop(*place)
    assert not index._drawers
    assert not index._places


def pair(**labels: str) -> Selector:
    return compile_selector(LabelSelector(labels))


def test_a_common_pair_does_not_hide_what_tells_objects_apart() -> None:
    index = SelectorIndex()
    for number in range(1000):
        index.put("acme/one", f"s{number}", pair(instance="all", name=f"n{number}"))
    assert index.matching("acme/one", {"instance": "all", "name": "n7"}) == ["s7"]


def test_a_search_looks_at_a_limited_number_of_selectors() -> None:
    index = SelectorIndex()
    for number in range(selector_index.TERMS_AT_ONCE):
        index.put("acme/one", f"s{number}", Selector())
    assert len(index.matching("acme/one", {})) == selector_index.TERMS_AT_ONCE
    index.put("acme/one", "more", Selector())
    with pytest.raises(Crowded):
        index.matching("acme/one", {})
    assert index.matching("acme/two", {}) == []


def test_a_long_selector_is_not_kept() -> None:
    index = SelectorIndex()
    values = tuple(str(each) for each in range(selector_index.MOST_TERMS))
    index.put("acme/one", "long", Selector((Expression("a", "In", ("x",)), Expression("b", "NotIn", values))))
    assert index.matching("acme/one", {"a": "y"}) == []
    with pytest.raises(Crowded):
        index.matching("acme/one", {"a": "x"})
    index.drop("acme/one", "long")
    assert index.matching("acme/one", {"a": "x"}) == []


def test_a_handler_decodes_a_limited_number_of_objects() -> None:
    size = selector_index.BYTES_AT_ONCE // 2
    assert len(few([Envelope("a", spec=b" " * size), Envelope("b", status=b" " * size)])) == 2
    with pytest.raises(Crowded):
        few([Envelope("a", spec=b" " * size), Envelope("b", rest=b" " * (size + 1))])
    with pytest.raises(Crowded):
        few([Envelope("a")] * (selector_index.OBJECTS_AT_ONCE + 1))


@pytest.mark.parametrize(
    ("resource", "spec", "matches"),
    [
        (SERVICES, {"selector": {"a": "x"}}, True),
        (SERVICES, {"selector": {"a": "y"}}, False),
        (SERVICES, {"selector": {}}, None),
        (SERVICES, {"selector": {"a": "x"}, "type": "ExternalName"}, None),
        (REPLICATION_CONTROLLERS, {"selector": {"a": "x"}}, True),
        (DEPLOYMENTS, {"selector": {"matchLabels": {"a": "x"}}}, True),
        (DEPLOYMENTS, {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, None),
        (DEPLOYMENTS, {"selector": 7}, None),
        (POD_DISRUPTION_BUDGETS, {"selector": {}}, True),
        (POD_DISRUPTION_BUDGETS, {}, None),
    ],
)
def test_the_selector_of_an_object(resource: Resource, spec: dict[str, Any], matches: bool | None) -> None:
    found = SELECTORS[resource](Envelope("x", spec=encode(spec)))
    assert (None if found is None else found.matches({"a": "x"})) == matches

"""Node selectors and required node affinity."""

import msgspec
import pytest

from vcsync.objects.node_selectors import Affinity, Requirement, Term, selects

LABELS = {"zone": "a", "rank": "5", "empty": ""}


@pytest.mark.parametrize(
    ("key", "operator", "values", "meets"),
    [
        ("zone", "In", ("a", "b"), True),
        ("zone", "In", ("b",), False),
        ("zone", "In", None, False),
        ("gone", "In", ("a",), False),
        ("zone", "NotIn", ("a",), False),
        ("zone", "NotIn", ("b",), True),
        ("gone", "NotIn", ("a",), True),
        ("empty", "Exists", None, True),
        ("gone", "Exists", None, False),
        ("empty", "DoesNotExist", None, False),
        ("gone", "DoesNotExist", None, True),
        ("rank", "Gt", ("4",), True),
        ("rank", "Gt", ("5",), False),
        ("rank", "Gt", ("6",), False),
        ("rank", "Lt", ("6",), True),
        ("rank", "Lt", ("5",), False),
        ("rank", "Lt", ("4",), False),
        ("rank", "Gt", (), False),
        ("zone", "Gt", ("4",), False),
        ("gone", "Lt", ("4",), False),
        ("rank", "Gt", ("many",), False),
        ("zone", "Near", ("a",), False),
    ],
)
def test_a_requirement_matches_labels(
    key: str, operator: str, values: tuple[str, ...] | None, meets: bool
) -> None:
    term = Term(match_expressions=(Requirement(key, operator, values),))
    assert selects({}, (term,), "node-1", LABELS) is meets


@pytest.mark.parametrize(
    ("selector", "selected"),
    [({}, True), ({"zone": "a"}, True), ({"zone": "b"}, False), ({"zone": "a", "gone": "x"}, False)],
)
def test_a_node_selector_requires_all_of_its_labels(selector: dict[str, str], selected: bool) -> None:
    assert selects(selector, None, "node-1", LABELS) is selected


def test_all_requirements_of_one_term_must_hold() -> None:
    here = Requirement("zone", "In", ("a",))
    there = Requirement("zone", "In", ("b",))
    named = Requirement("metadata.name", "In", ("node-1",))
    other = Requirement("metadata.name", "In", ("node-2",))
    assert selects({}, (Term((there,)), Term((here,))), "node-1", LABELS)
    assert not selects({}, (Term((here, there)),), "node-1", LABELS)
    assert selects({}, (Term((here,), (named,)),), "node-1", LABELS)
    assert not selects({}, (Term((here,), (other,)),), "node-1", LABELS)
    assert not selects({}, (Term((there,), (named,)),), "node-1", LABELS)
    assert selects({}, (Term(None, (named,)),), "node-1", LABELS)
    assert not selects({"zone": "b"}, (Term((here,)),), "node-1", LABELS)


def test_empty_terms_match_no_node() -> None:
    assert not selects({}, (Term(),), "node-1", LABELS)
    assert not selects({}, (), "node-1", LABELS)


@pytest.mark.parametrize(
    ("affinity", "terms"),
    [
        ({}, None),
        ({"nodeAffinity": {}}, None),
        ({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}, ()),
        (
            {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "k", "operator": "In", "values": ["v"]}]}
                        ]
                    }
                }
            },
            (Term(match_fields=(Requirement("k", "In", ("v",)),)),),
        ),
    ],
)
def test_only_required_node_affinity_decides(
    affinity: dict[str, object], terms: tuple[Term, ...] | None
) -> None:
    assert msgspec.convert(affinity, Affinity).terms == terms

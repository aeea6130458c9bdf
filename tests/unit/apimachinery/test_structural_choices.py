"""Values of enumerations in schemas of custom resources."""

import itertools
from typing import Any

import pytest

from vcsync.apimachinery.structural import choices, validation
from vcsync.apimachinery.structural.choices import Choices, choices_of


@pytest.mark.parametrize(
    ("value", "written", "valid"),
    [
        ("a", ["a", "b"], True),
        ("c", ["a", "b"], False),
        ("1", [1], False),
        (1, [1.0], True),
        (1.5, [1, 1.5], True),
        (True, [1], False),
        (1, [True], False),
        (True, [True], True),
        (None, [None, "a"], False),
        ([1, "a"], [[1, "a"]], True),
        (["a", 1], [[1, "a"]], False),
        ({"b": [1], "a": None}, [{"a": None, "b": [1]}], True),
        ({"a": 1}, [{"a": 2}], False),
        ([], [{}], False),
        ("[1]", [[1]], False),
        ([1.0], [[1]], True),
        ([True], [[1]], False),
        ({}, [[]], False),
    ],
)
def test_only_equal_values_of_the_same_type_are_allowed(value: Any, written: list[Any], valid: bool) -> None:
    assert (value in Choices(written)) is valid


def test_a_refusal_names_the_values() -> None:
    found = validation.validate("", {"a": "x"}, {"properties": {"a": {"type": "string", "enum": ["b", "c"]}}})
    assert [str(each) for each in found] == ['a: Unsupported value: "x": supported values: "b", "c"']


@pytest.mark.parametrize("kind", [str, int, lambda n: [n], lambda n: {"a": n}])
def test_a_long_enumeration_is_prepared_once_for_all_items(
    monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    keys = 0
    plain = choices._key

    def counted(value: Any) -> Any:
        nonlocal keys
        keys += 1
        return plain(value)

    monkeypatch.setattr(choices, "_key", counted)
    many = [kind(each) for each in range(2000)]
    schema = {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True, "enum": many}}
    assert not validation.validate("", many, schema)
    assert keys <= 4000


def test_values_cannot_be_chosen_so_that_all_have_one_hash() -> None:
    """-1 and -2 have the same hash, and so have all lists of them."""
    written = [list(each) for each in itertools.product((-1, -2), repeat=8)]
    assert len({hash(tuple(each)) for each in written}) == 1
    assert len({hash(each) for each in Choices(written)._keys}) == len(written)


def test_another_list_is_prepared_anew() -> None:
    first, second = [str(each) for each in range(20)], [str(each) for each in range(20)]
    assert choices_of(first) is choices_of(first)
    assert choices_of(first) is not choices_of(second)

"""Printer columns that visit many values: each row ends after a stated number of steps."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from vcsync.apimachinery.crd import columns
from vcsync.apimachinery.wire import jsonpath, tables
from vcsync.objects.budget import Budget, BudgetExceeded

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EVERYTHING = f"[{','.join('*' * 32)}]"

MISSING = ",".join(["'b'"] * 200)


def declared(*paths: str, kind: str = "string") -> tuple[columns.Column, ...]:
    return columns.columns(
        {"additionalPrinterColumns": [{"name": "C", "type": kind, "jsonPath": path} for path in paths]}
    )


def cells(found: tuple[columns.Column, ...], spec: Any, budget: Budget | None = None) -> list[Any]:
    obj = {"metadata": {"name": "a"}, "spec": spec}
    made = tables.custom_table(found, [obj], now=NOW, metadata={}, budget=budget)
    shown: list[Any] = made["rows"][0]["cells"]
    return shown


class Counted(list[Any]):
    """A list that counts how many of its items are looked at."""

    looks = 0

    def __iter__(self) -> Iterator[Any]:
        for each in super().__iter__():
            Counted.looks += 1
            yield each


@pytest.mark.parametrize(
    "path",
    [
        f".spec{EVERYTHING}{EVERYTHING}[?(@.x)]",
        ".spec.a.l[?(@.x)]",
        f".spec{EVERYTHING}{EVERYTHING}{EVERYTHING}{EVERYTHING}.x",
        ".spec.." * 20 + "x",
        ".spec.a.l[::,::,::,::].x",
        f".spec.a.l[*][{MISSING}]",
    ],
)
def test_a_path_that_visits_many_values_ends_and_its_cell_says_so(path: str) -> None:
    Counted.looks = 0
    found = declared(path, ".metadata.name")
    shown = cells(found, {"a": {"l": Counted([0] * 20_000)}})
    assert shown == ["a", tables.BEYOND_BUDGET, tables.BEYOND_BUDGET]
    assert Counted.looks <= 2 * 20_000 + tables.ROW_VALUES


@pytest.mark.parametrize("kind", ["string", "integer", "number", "boolean", "date"])
def test_the_cell_is_the_same_text_in_columns_of_every_type(kind: str) -> None:
    found = declared(".spec[?(@.x)]", kind=kind)
    assert cells(found, [0] * tables.ROW_VALUES) == ["a", tables.BEYOND_BUDGET]


def test_a_row_shows_values_of_many_conditions_and_of_a_large_list() -> None:
    conditions = [{"type": f"C{at}", "status": "True"} for at in range(50)]
    found = declared(*(f'.spec.c[?(@.type=="C{at}")].status' for at in range(50)), ".spec.l[*].x")
    assert cells(found, {"c": conditions, "l": [{"x": 1}] * 9000}) == ["a", *["True"] * 50, "1"]


def test_large_texts_in_many_columns_end_the_row() -> None:
    text = "x" * (tables.ROW_VALUES * tables.TEXT_BYTES // 4)
    shown = cells(declared(*[".spec"] * 6), {"t": text})
    assert [len(each) > 100 for each in shown] == [False, True, True, True, False, False, False]
    assert shown[-1] == tables.BEYOND_BUDGET


def test_paths_are_compiled_once_and_only_up_to_a_length_in_sum() -> None:
    path = "." + "a" * 1000
    found = declared(*[path] * 40, ".[")
    assert [each.path is not None for each in found] == [True] * 42
    compiled = jsonpath.MAX_COMPILED // len(path)
    assert cells(found, {}) == ["a", *[None] * compiled, *[tables.BEYOND_BUDGET] * (41 - compiled)]
    assert cells(declared(".[", ".metadata.name"), {}) == ["a", None, "a"]


def test_the_rows_of_a_table_take_steps_of_its_budget() -> None:
    budget = Budget("the Table")
    cells(declared(".spec[?(@.x)]"), [0] * 1000, budget)
    assert budget.taken > 1000
    assert budget.piece_ended()


def test_the_longest_path_does_not_need_a_deep_stack() -> None:
    budget = Budget("the path", 1000)
    spec: dict[str, Any] = {}
    spec["a"] = spec
    path = ".a" * (jsonpath.MAX_LENGTH // 2)
    assert jsonpath.first(jsonpath.parse(path), spec, budget) == (True, spec)
    with pytest.raises(BudgetExceeded):
        list(jsonpath.find(jsonpath.parse(".." * 300), spec, budget))

"""Packages import each other in one direction only, and no file imports itself through others."""

import pytest

from hack import house


def test_the_checkout_has_no_packages_that_import_each_other_and_no_circles() -> None:
    assert house.main() == 0


@pytest.mark.parametrize(
    ("imports", "pairs"),
    [
        ({"a.x": {"b.y"}, "b.y": set()}, 0),
        ({"a.x": {"b.y"}, "b.z": {"a.x"}, "b.y": set()}, 1),
        ({"a.x": {"a.y"}, "a.y": set()}, 0),
        ({"a.b.x": {"a.y"}, "a.z": {"a.b.x"}, "a.y": set()}, 1),
    ],
)
def test_packages_that_import_each_other_are_found(imports: dict[str, set[str]], pairs: int) -> None:
    assert len(house.both_ways(imports, {"a", "b", "a.b"})) == pairs


def test_a_circle_of_files_is_found() -> None:
    assert house.circles({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert not house.circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})

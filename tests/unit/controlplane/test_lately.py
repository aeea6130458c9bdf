"""Short texts are read once, long ones each time, and nothing is kept of them."""

import pytest

from vcsync.controlplane.lately import lately


@pytest.mark.parametrize(("text", "read"), [("", 1), ("short", 1), ("a text", 2), ("longer" * 1000, 2)])
def test_only_short_texts_are_remembered(text: str, read: int) -> None:
    asked: list[str] = []

    @lately(most=10, longest=5)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    assert [length(text), length(text)] == [len(text)] * 2
    assert len(asked) == read


def test_what_was_refused_is_tried_again() -> None:
    tried: list[bytes] = []

    @lately(most=10, longest=5)
    def refuse(text: bytes) -> int:
        tried.append(text)
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            refuse(b"no")
    assert len(tried) == 2


def test_only_so_many_are_remembered() -> None:
    asked: list[str] = []

    @lately(most=2, longest=5)
    def same(text: str) -> str:
        asked.append(text)
        return text

    for text in ("a", "b", "c", "a"):
        same(text)
    assert asked == ["a", "b", "c", "a"]

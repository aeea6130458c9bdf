"""Results for short texts are cached; those for long texts are not."""

import pytest

from vcsync.objects.text_cache import cache_short_texts


@pytest.mark.parametrize(("text", "read"), [("", 1), ("short", 1), ("a text", 2), ("longer" * 1000, 2)])
def test_only_short_texts_are_cached(text: str, read: int) -> None:
    asked: list[str] = []

    @cache_short_texts(most=10, longest=5)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    assert [length(text), length(text)] == [len(text)] * 2
    assert len(asked) == read


def test_errors_are_not_cached() -> None:
    tried: list[bytes] = []

    @cache_short_texts(most=10, longest=5)
    def refuse(text: bytes) -> int:
        tried.append(text)
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            refuse(b"no")
    assert len(tried) == 2


def test_the_number_of_cached_results_is_limited() -> None:
    asked: list[str] = []

    @cache_short_texts(most=2, longest=5)
    def same(text: str) -> str:
        asked.append(text)
        return text

    for text in ("a", "b", "c", "a"):
        same(text)
    assert asked == ["a", "b", "c", "a"]

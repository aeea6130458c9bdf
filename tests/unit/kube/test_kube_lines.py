"""Splitting of a stream of bytes into lines."""

import pytest

from vcsync.kube.lines import LineSplitter, LineTooLong


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_do_not_depend_on_chunks(size: int) -> None:
    text = b"one\ntwo\n\nthree" + b"x" * 50 + b"\nfour"
    splitter = LineSplitter()
    lines = [
        line for start in range(0, len(text), size) for line in splitter.feed(text[start : start + size])
    ]
    assert lines == [b"one", b"two", b"three" + b"x" * 50]
    assert splitter.pending == 4


def test_an_endless_line_is_an_error() -> None:
    splitter = LineSplitter(longest=10)
    splitter.feed(b"12345\n1234567890")
    with pytest.raises(LineTooLong):
        splitter.feed(b"1")


def test_bytes_after_the_last_line_break_are_pending() -> None:
    splitter = LineSplitter()
    assert splitter.pending == 0
    assert splitter.feed(b"ab") == ()
    assert splitter.feed(b"c") == ()
    assert splitter.pending == 3
    assert splitter.feed(b"d\n\nef") == [b"abcd"]
    assert splitter.pending == 2
    assert splitter.feed(b"\n") == [b"ef"]
    assert splitter.pending == 0


def test_the_limit_applies_to_each_line() -> None:
    splitter = LineSplitter(longest=3)
    for _ in range(5):
        assert splitter.feed(b"ab\n") == [b"ab"]
    assert splitter.feed(b"abc") == ()
    with pytest.raises(LineTooLong, match=r"^a line of more than 3 bytes$"):
        splitter.feed(b"d")

"""Warnings fit into headers."""

from hypothesis import given
from hypothesis import strategies as st

from vcsync.controlplane.rest.warning_headers import warning_headers


def test_each_is_told_once():
    assert warning_headers(["a", "", 'say "b" \\', "a"]) == ['299 - "a"', '299 - "say \\"b\\" \\\\"']


def test_line_breaks_make_no_headers():
    assert warning_headers(["a\r\nSet-Cookie: x"]) == ['299 - "a  Set-Cookie: x"']


def test_long_ones_are_whole_until_there_are_too_many():
    long = "x" * 4000
    assert warning_headers([long]) == [f'299 - "{long}"']
    found = warning_headers([long, "y" * 500])
    assert found == [f'299 - "{"x" * 256}"', f'299 - "{"y" * 256}"']


@given(st.lists(st.text(max_size=600), max_size=100))
def test_all_together_are_bounded(texts):
    found = warning_headers(texts)
    assert sum(len(each) for each in found) <= 2 * (4096 + 256) + 10 * len(found)
    assert not any(character in each for each in found for character in "\r\n\0")

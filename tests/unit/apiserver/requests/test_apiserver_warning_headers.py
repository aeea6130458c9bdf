"""Warning headers are limited in size."""

from hypothesis import given
from hypothesis import strategies as st

from vcsync.apiserver.serving.warning_headers import warning_headers


def test_duplicate_warnings_are_dropped():
    assert warning_headers(["a", "", 'say "b" \\', "a"]) == ['299 - "a"', '299 - "say \\"b\\" \\\\"']


def test_line_breaks_do_not_start_a_header():
    assert warning_headers(["a\r\nSet-Cookie: x"]) == ['299 - "a  Set-Cookie: x"']


def test_warnings_are_truncated_when_they_exceed_the_limit():
    long = "x" * 4000
    assert warning_headers([long]) == [f'299 - "{long}"']
    found = warning_headers([long, "y" * 500])
    assert found == [f'299 - "{"x" * 256}"', f'299 - "{"y" * 256}"']


@given(st.lists(st.text(max_size=600), max_size=100))
def test_the_total_size_of_warnings_is_limited(texts):
    found = warning_headers(texts)
    assert sum(len(each) for each in found) <= 2 * (4096 + 256) + 10 * len(found)
    assert not any(character in each for each in found for character in "\r\n\0")

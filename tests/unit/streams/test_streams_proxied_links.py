"""Translation of the paths in proxied pages and redirects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.streams.proxied_links import Links, proxied_path

BELOW = "/api/v1/namespaces/k-shop/pods/web:80/proxy"
SHOWN = "/api/v1/namespaces/shop/services/web/proxy"
LINKS = Links(BELOW, SHOWN)
PIECES = st.lists(
    st.sampled_from([BELOW, SHOWN, "/a", "x", '"', BELOW[:9], SHOWN[:7], BELOW[5:]]), max_size=12
)


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (f'<a href="{BELOW}/cart">', f'<a href="{SHOWN}/cart">'),
        ('<a href="cart">', '<a href="cart">'),
        (f'<a href="{BELOW}{SHOWN}/cart">', f'<a href="{SHOWN}/cart">'),
        ("https://example.com/cart", "https://example.com/cart"),
    ],
)
def test_links_lead_through_the_path_of_the_client(sent: str, received: str) -> None:
    assert LINKS.translated(sent.encode()) == received.encode()
    assert LINKS.location(sent) == received


@given(PIECES, st.lists(st.integers(0, 400), max_size=8))
def test_a_page_in_pieces_is_translated_like_a_whole_one(parts: list[str], cuts: list[int]) -> None:
    page = "".join(parts).encode()
    ends = sorted({min(each, len(page)) for each in cuts} | {len(page)})
    translator, sent, begin = LINKS.page(), b"", 0
    for end in ends:
        sent += translator.feed(page[begin:end]) if end > begin else b""
        begin = end
    assert sent + translator.feed(b"") == LINKS.translated(page)


@given(st.integers(1, 50))
def test_a_page_without_links_is_not_kept(pieces: int) -> None:
    translator = LINKS.page()
    sent = sum(len(translator.feed(b"x" * 1000)) for _ in range(pieces))
    assert 1000 * pieces - sent < len(BELOW) + len(SHOWN)


@pytest.mark.parametrize(
    ("decoded", "encoded"),
    [
        ("", ""),
        ("/a/b", "/a/b"),
        ("/ä b?#%", "/%C3%A4%20b%3F%23%25"),
        ("//x\r\nHost: y", "//x%0D%0AHost:%20y"),
        ("/%2e%2e/", "/%252e%252e/"),
    ],
)
def test_paths_are_encoded_again(decoded: str, encoded: str) -> None:
    assert proxied_path(decoded) == encoded

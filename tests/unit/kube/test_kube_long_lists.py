"""Lists of control planes that are not trusted."""

from collections.abc import AsyncGenerator
from contextlib import suppress

import pytest

from vcsync.kube.errors import KubeError
from vcsync.kube.long_lists import has_any, take_pages
from vcsync.objects.envelope import Envelope, ListPage


class Pages:
    """Pages with two objects each, and how many of them were read."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.read = 0
        self.closed = False

    async def list(self) -> AsyncGenerator[ListPage, None]:
        try:
            while self.read < self.count:
                self.read += 1
                first = 2 * self.read
                yield ListPage([Envelope(str(first)), Envelope(str(first + 1))], "1", "more", None)
        finally:
            self.closed = True


async def test_each_page_is_taken() -> None:
    pages, taken = Pages(3), list[str]()
    await take_pages(pages.list(), lambda page: taken.extend(each.name for each in page), 3)
    assert taken == ["2", "3", "4", "5", "6", "7"]


async def test_a_list_is_read_up_to_the_object_that_is_looked_for() -> None:
    pages = Pages(10)
    assert await has_any(pages.list(), lambda each: each.name == "5", 10)
    assert (pages.read, pages.closed) == (2, True)
    assert not await has_any(Pages(3).list(), lambda each: each.name == "99", 3)


@pytest.mark.parametrize("count", [4, 1_000_000])
async def test_a_list_with_more_pages_is_an_error_that_names_the_limit(count: int) -> None:
    pages = Pages(count)
    with pytest.raises(KubeError, match="more than 3 pages"):
        await take_pages(pages.list(), lambda _: None, 3)
    assert (pages.read, pages.closed) == (4, True)
    pages = Pages(count)
    with pytest.raises(KubeError, match="more than 3 pages"):
        await has_any(pages.list(), lambda _: False, 3)
    assert (pages.read, pages.closed) == (4, True)


async def test_pages_are_closed_when_they_cannot_be_taken() -> None:
    def refuse(_: object) -> None:
        raise ValueError

    pages = Pages(3)
    with suppress(ValueError):
        await take_pages(pages.list(), refuse, 3)
    assert pages.closed

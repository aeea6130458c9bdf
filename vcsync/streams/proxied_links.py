"""Translates the paths in what a super cluster's API server answers to a request for the subresource `proxy`. Pure.

That API server makes links of HTML pages and the `Location` of redirects lead through itself (apimachinery's
`pkg/util/proxy/transport.go`), by the path that it was called with. A tenant must get its own path there, and does not learn
the name of its super namespace.
"""

from urllib.parse import quote

SAFE = "/:@!$&'()*+,;=~"
"""Characters that a path may contain besides letters, digits and `-._`."""


def proxied_path(path: str) -> str:
    """Return the percent-encoded form of a decoded path without dot segments."""
    return quote(path, safe=SAFE)


class Links:
    """The path of a proxied program for its client, and that for a super cluster.

    Args:
        below: Path up to `/proxy` at the super cluster.
        shown: Path up to `/proxy` that the client used.
    """

    def __init__(self, below: str, shown: str) -> None:
        self._below = below.encode()
        self._shown = shown.encode()

    def translated(self, text: bytes) -> bytes:
        """Return a text with the client's paths.

        A program that knows the path of its clients has written it into its links; the super cluster has put its own before.
        """
        return text.replace(self._below + self._shown, self._shown).replace(self._below, self._shown)

    def location(self, target: str) -> str:
        """Return the target of a redirect."""
        return self.translated(target.encode("latin-1", "replace")).decode("latin-1")

    def page(self) -> "PageTranslator":
        """Return a translator of one page."""
        return PageTranslator(self)

    def boundary(self, text: bytes) -> int:
        """Return the number of bytes at the beginning of a text that no further bytes can change."""
        longest = len(self._below) + len(self._shown)
        end = max(0, len(text) - longest + 1)
        begin = text.rfind(self._below, max(0, end - longest), end + len(self._below) - 1)
        return begin if 0 <= begin < end < begin + longest else end


class PageTranslator:
    """Translates a page that arrives in pieces.

    Args:
        links: The paths.
    """

    def __init__(self, links: Links) -> None:
        self._links = links
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """Take bytes of the page, and return those that can be sent. No bytes are the end of the page."""
        text = self._held + piece
        ready = self._links.boundary(text) if piece else len(text)
        self._held = text[ready:]
        return self._links.translated(text[:ready])

"""The headers that pass between a client and an external API server. Pure.

Both directions have a list of what passes, not of what is stripped: hop-by-hop headers, credentials, cookies,
`Impersonate-*`, `X-Remote-*`, `X-Forwarded-*` and headers that somebody thinks of later never pass.
"""

from collections.abc import Iterable, Mapping

Pairs = list[tuple[str, str]]

REQUEST = frozenset(
    {
        "accept",
        "accept-encoding",
        "content-encoding",
        "content-type",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "kubectl-command",
        "kubectl-session",
        "range",
        "user-agent",
    }
)
"""Headers of a request that are sent to the API server."""
RESPONSE = frozenset(
    {
        "accept-ranges",
        "content-encoding",
        "content-range",
        "etag",
        "last-modified",
        "retry-after",
        "vary",
        "warning",
        "x-content-type-options",
    }
)
"""Headers of an answer that are sent to the client, besides its content type. `Location` would name the server."""


def request_headers(sent: Mapping[str, str]) -> Pairs:
    """Return the headers of a client's request that are forwarded, with their order and repetitions."""
    return [(name, value) for name, value in sent.items() if name.lower() in REQUEST]


def response_headers(answered: Iterable[tuple[str, str]]) -> Pairs:
    """Return the headers of an API server's answer that are sent to the client, with their order and repetitions."""
    return [(name, value) for name, value in answered if name.lower() in RESPONSE]


def body_length(sent: Mapping[str, str]) -> int | None:
    """Return the length of a request's body in bytes, 0 if it has none, or None if it is chunked.

    The HTTP parser has refused requests with both headers, and lengths that are not numbers.
    """
    if "Transfer-Encoding" in sent:
        return None
    return int(sent.get("Content-Length", "0"))

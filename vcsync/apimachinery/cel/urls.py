"""URLs as Go's `net/url` parses and writes them, and their CEL functions. Pure.

Source: `urls.go` of k8s.io/apiserver's `pkg/cel/library`. Go works on bytes, so each character of the texts in this
module stands for one byte of UTF-8.
"""

import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from vcsync.apimachinery import gotext
from vcsync.apimachinery.cel import addresses
from vcsync.apimachinery.cel.arguments import Function, of_types, succeeds
from vcsync.apimachinery.cel.values import CelError, Work
from vcsync.patterns.linear import linear

_PLAIN = frozenset(string.ascii_letters + string.digits + "-_.~")
_IN_HOST = _PLAIN | frozenset("!$&'()*+,;=:[]<>\"")
_IN_PATH = _PLAIN | frozenset("$&+,/:;=@")
_IN_USER = _PLAIN | frozenset("$&+,;=")
_IN_FRAGMENT = _PLAIN | frozenset("$&+,/:;=?@!()*")
_ALSO_ENCODED = frozenset("!$&'()*+,;=:@[]%")
"""Characters that Go leaves alone in a path that was written with them, though it escapes some of them itself."""
_USER = _PLAIN | frozenset(":!$&'()*+,;=%@")
_ESCAPE = linear("%[0-9a-fA-F]{2}")
_SCHEME = linear("(?s)([a-zA-Z][a-zA-Z0-9+.-]*):(.*)")
_PORT = linear("(?::[0-9]*)?")
_MOST_PARAMETERS = 10_000


class InvalidUrl(ValueError):
    """The text is no URL. The message is Go's."""


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL. Two URLs are equal if Go writes them equally, which is `written`."""

    scheme: str = field(compare=False)
    host: str = field(compare=False)
    path: str = field(compare=False)
    query: str = field(compare=False)
    written: str
    type_name: ClassVar[str] = "kubernetes.URL"


@dataclass(slots=True)
class _Parts:
    """Parts that Go's parser finds. `path` is unescaped, `raw_path` is as it was written."""

    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    host: str = ""
    path: str = ""
    raw_path: str = ""
    query: str = ""
    asked: bool = False
    hostless: bool = False
    fragment: str = ""
    raw_fragment: str = ""


def _bytes(text: str) -> str:
    """Return a text with one character for each byte of its UTF-8."""
    return text.encode("utf-8", "replace").decode("latin-1")


def _text(raw: str) -> str:
    """Return the text of a string of bytes."""
    return raw.encode("latin-1").decode("utf-8", "replace")


def _quoted(raw: str) -> str:
    return gotext.quoted(_text(raw))


def _decoded(raw: str) -> str:
    """Replace the escapes of a text in which all are well-formed."""
    return _ESCAPE.sub(lambda found: chr(int(found[0][1:], 16)), raw)


def _unescape(raw: str, refused: Callable[[str], bool] = lambda _: False) -> str:
    """Replace escapes. `refused` tells whether an escape may not stand in this part of a URL.

    Raises:
        InvalidUrl: an escape is malformed or refused.
    """
    at = raw.find("%")
    while at >= 0:
        escape = raw[at : at + 3]
        if not _ESCAPE.fullmatch(escape) or refused(escape):
            raise InvalidUrl(f"invalid URL escape {_quoted(escape)}")
        at = raw.find("%", at + 3)
    return _decoded(raw)


def _refused_in_host(escape: str) -> bool:
    """Return whether a host may not have an escape: it may escape only `%` and what is not ASCII."""
    return int(escape[1:], 16) < 0x80 and escape != "%25"


def _refused_in_zone(escape: str) -> bool:
    """Return whether a zone may not have an escape: it may escape `%`, a space, and the characters of a host."""
    return escape not in ("%25", "%20") and _decoded(escape) not in _IN_HOST


def _unescape_host(raw: str, refused: Callable[[str], bool] = _refused_in_host) -> str:
    at = 0
    while at < len(raw):
        if raw[at] == "%":
            _unescape(raw[at : at + 3], refused)
            at += 3
            continue
        if raw[at] < "\x80" and raw[at] not in _IN_HOST:
            raise InvalidUrl(f"invalid character {_quoted(raw[at])} in host name")
        at += 1
    return _decoded(raw)


def _escape(raw: str, allowed: frozenset[str]) -> str:
    return "".join(each if each in allowed else f"%{ord(each):02X}" for each in raw)


def _scheme(raw: str) -> tuple[str, str]:
    if raw.startswith(":"):
        raise InvalidUrl("missing protocol scheme")
    match = _SCHEME.fullmatch(raw)
    return (match[1].lower(), match[2]) if match is not None else ("", raw)


def _port_checked(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise InvalidUrl(f"invalid port {_quoted(port)} after host")


def _bracketed(raw: str) -> str:
    """Return the host of an authority that starts with `[`."""
    end = raw.rfind("]")
    if end < 0:
        raise InvalidUrl("missing ']' in host")
    _port_checked(raw[end + 1 :])
    inner = raw[1:end]
    zone_at = inner.find("%25")
    if zone_at >= 0:
        name = _unescape_host(inner[:zone_at]) + _unescape_host(inner[zone_at:], _refused_in_zone)
    else:
        name = _unescape_host(inner)
    try:
        address, _ = addresses.parse(_text(name))
    except addresses.InvalidAddress as why:
        raise InvalidUrl(f"invalid host: {why}") from None
    if address.version == 4:
        raise InvalidUrl("invalid IP-literal")
    return f"[{name}]{raw[end + 1 :]}"


def _host(scheme: str, raw: str) -> str:
    bracket = raw.rfind("[")
    if bracket > 0:
        raise InvalidUrl("invalid IP-literal")
    if bracket == 0:
        return _bracketed(raw)
    # Some databases list several hosts with ports. Only HTTP is strict about colons.
    colon = raw.find(":") if scheme in ("http", "https") else raw.rfind(":")
    if colon >= 0:
        _port_checked(raw[colon:])
    return _unescape_host(raw)


def _authority(parts: _Parts, raw: str) -> None:
    user, at, host = raw.rpartition("@")
    parts.host = _host(parts.scheme, host)
    if not at:
        return
    if not _USER.issuperset(user):
        raise InvalidUrl("net/url: invalid userinfo")
    name, colon, password = user.partition(":")
    parts.user = _escape(_unescape(name), _IN_USER)
    if colon:
        parts.user += f":{_escape(_unescape(password), _IN_USER)}"


def _parsed(raw: str, *, of_request: bool) -> _Parts:
    """Parse a URL without fragment. That of a request is absolute, or an absolute path."""
    if any(each < " " or each == "\x7f" for each in raw):
        raise InvalidUrl("net/url: invalid control character in URL")
    if not raw and of_request:
        raise InvalidUrl("empty url")
    if raw == "*":
        return _Parts(path="*")
    scheme, rest = _scheme(raw)
    parts = _Parts(scheme)
    rest, mark, parts.query = rest.partition("?")
    parts.asked = bool(mark)
    if not rest.startswith("/"):
        if scheme:
            parts.opaque = rest
            return parts
        if of_request:
            raise InvalidUrl("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise InvalidUrl("first path segment in URL cannot contain colon")
    if rest.startswith("//") and (scheme or not (of_request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        _authority(parts, authority)
        rest = slash + path
    else:
        parts.hostless = bool(scheme)
    parts.path = _unescape(rest)
    parts.raw_path = rest
    return parts


def _whole(raw: str) -> _Parts:
    """Parse a URL with its fragment."""
    before, _, fragment = raw.partition("#")
    try:
        parts = _parsed(before, of_request=False)
    except InvalidUrl as why:
        raise InvalidUrl(f"parse {_quoted(before)}: {why}") from None
    try:
        parts.fragment, parts.raw_fragment = _unescape(fragment), fragment
    except InvalidUrl as why:
        raise InvalidUrl(f"parse {_quoted(raw)}: {why}") from None
    return parts


def _encoded(value: str, raw: str, allowed: frozenset[str]) -> str:
    """Return the escaped form: as it was written, if that is valid."""
    return raw if (allowed | _ALSO_ENCODED).issuperset(raw) else _escape(value, allowed)


def _escaped_path(parts: _Parts) -> str:
    return "*" if parts.path == "*" else _encoded(parts.path, parts.raw_path, _IN_PATH)


def _written(parts: _Parts) -> str:
    """Write a URL as Go's `URL.String` does."""
    found = f"{parts.scheme}:" if parts.scheme else ""
    if parts.opaque:
        found += parts.opaque
    else:
        named = bool(parts.host) or parts.user is not None
        if (named or (parts.scheme and not parts.hostless)) and (named or parts.path):
            user = f"{parts.user}@" if parts.user is not None else ""
            found += f"//{user}{_escape(parts.host, _IN_HOST)}"
        found += _escaped_path(parts)
    if parts.asked:
        found += f"?{parts.query}"
    if parts.fragment:
        found += f"#{_encoded(parts.fragment, parts.raw_fragment, _IN_FRAGMENT)}"
    return found


def _checked(text: str) -> None:
    raw = _bytes(text)
    try:
        _parsed(raw, of_request=True)
    except InvalidUrl as why:
        told = f"URL parse error during conversion from string: parse {_quoted(raw)}: {why}"
        raise CelError(told) from None


@of_types(str)
def _is_url(_: Work, text: str) -> None:
    _checked(text)


@of_types(str)
def _url(_: Work, text: str) -> Url:
    # The first parser refuses relative URLs, the second one knows fragments.
    _checked(text)
    try:
        parts = _whole(_bytes(text))
    except InvalidUrl as why:
        raise CelError(f"URL parse error during conversion from string: {why}") from None
    written, path = _written(parts), _escaped_path(parts)
    return Url(parts.scheme, _text(parts.host), _text(path), parts.query, written)


def _host_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    if not colon or not _PORT.fullmatch(f":{port}"):
        name, port = host, ""
    return (name[1:-1] if name.startswith("[") and name.endswith("]") else name), port


def _query(url: Url) -> dict[str, list[str]]:
    """Return the parameters. Those that cannot be read are left out."""
    found: dict[str, list[str]] = {}
    settings = url.query.split("&")
    if len(settings) > _MOST_PARAMETERS:
        return found
    for each in settings:
        if not each or ";" in each:
            continue
        name, _, value = each.partition("=")
        try:
            own, read = _text(_unescape(name.replace("+", " "))), _text(_unescape(value.replace("+", " ")))
        except InvalidUrl:
            continue
        found.setdefault(own, []).append(read)
    return found


def _about(get: Callable[[Url], Any]) -> Function:
    return of_types(Url)(lambda _, value: get(value))


FUNCTIONS: dict[str, Function] = {
    "url": _url,
    "isURL": succeeds(_is_url),
    "getScheme": _about(lambda value: value.scheme),
    "getHost": _about(lambda value: value.host),
    "getHostname": _about(lambda value: _host_port(value.host)[0]),
    "getPort": _about(lambda value: _host_port(value.host)[1]),
    "getEscapedPath": _about(lambda value: value.path),
    "getQuery": _about(_query),
}
"""Implementation of each function, by name."""

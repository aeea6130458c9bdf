"""Decodes JSON like Go's encoding/json: lenient UTF-8, limits, its error messages, findings of repeated keys. Pure.

msgspec decodes. The scanner of this module runs only for invalid texts, to find the message of Go's encoding/json.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from vcsync.apimachinery import numbers
from vcsync.apimachinery.message_size import extended

MAX_DEPTH = 256
"""Most nested objects and lists. kube-apiserver accepts 10,000; no stored object needs more than a few dozen."""

MAX_OBJECTS = 200_000
"""Most objects and lists in one text. Each takes two bytes there, and hundreds in memory."""

MOST_FINDINGS = 100
"""Most repeated and unknown fields that are reported about one text, as in sigs.k8s.io/json."""

_LONGEST_INTEGER = 1000
"""Most characters of an integer that is decoded exactly. Longer ones are no float64."""
LONGEST_NUMBER = 100
"""Most characters of a number that a message quotes."""

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?")
_SPACED_KEY = re.compile(rb'"[ \t\r\n]+:')
_SPACED = (b'" ', b'"\t', b'"\r', b'"\n')
_LITERALS = {b"t": b"true", b"f": b"false", b"n": b"null"}

_decode = msgspec.json.Decoder(float_hook=numbers.number).decode
_decode_written = msgspec.json.Decoder(float_hook=numbers.Written).decode


class NotJSON(ValueError):
    """A text is not JSON. The message is that of Go's encoding/json."""


def loads(data: bytes) -> Any:
    """Decode a text. Bytes that are not UTF-8 become U+FFFD; the last one of equal keys counts.

    Numbers are as Go decodes and encodes those of untyped documents; see `numbers`.

    Raises:
        NotJSON: The text is not JSON, is nested too deeply, or has a number that is no float64.
    """
    value = _loads(data, _decode, numbers.number)
    return _settled(value) if numbers.may_exceed_int64(data) else value


class _HasFraction(Exception):
    """A text has a number with a fraction or an exponent."""


def _refuse(text: str) -> float:
    raise _HasFraction(text)


_decode_integers = msgspec.json.Decoder(float_hook=_refuse).decode


def loads_written(data: bytes) -> tuple[Any, bool]:
    """Decode a text for a Go type, whose decoder reads the texts of numbers.

    Returns:
        The value, and whether it has numbers with a fraction or an exponent. They are `numbers.Written`.

    Raises:
        NotJSON: The text is not JSON, or it is nested too deeply.
    """
    try:
        return _loads(data, _decode_integers, _refuse), False
    except _HasFraction:
        return _loads(data, _decode_written, numbers.Written), True


def _loads(data: bytes, decode: Callable[[bytes], Any], fraction: Callable[[str], float]) -> Any:
    opened = data.count(b"{") + data.count(b"[")
    if opened > MAX_OBJECTS:
        raise NotJSON("too many objects and lists")
    if opened > MAX_DEPTH and _too_deep(data):
        raise NotJSON(complaint(data))
    try:
        return decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _lenient(data, fraction)


def _settled(value: Any) -> Any:
    try:
        return numbers.settled(value)
    except numbers.OutOfRange as error:
        raise no_float(error) from None


class NoFloat(NotJSON):
    """A number of an untyped document is no float64."""


def no_float(error: numbers.OutOfRange) -> NoFloat:
    """Return the error of Go's decoder about a number of an untyped document that is no float64."""
    return NoFloat(
        f"json: cannot unmarshal number {str(error)[:LONGEST_NUMBER]} into Go value of type float64"
    )


def duplicates(data: bytes, value: Any) -> list[str]:
    """Return the paths of keys that occur twice in an object, in the order of the text, at most `MOST_FINDINGS`.

    `value` is the decoded text. This is cheap without repeated keys: then the text has as many keys as the encoded value.
    Only spaces after a key, or a backslash at its end, can hide a repeated key from this comparison.
    """
    if not _hides_keys(data) and _keys(data) == _keys(numbers.encoded(value)):
        return []
    repeated = (path for path, again in key_order(data) if again)
    found: dict[str, None] = {}
    while len(found) < MOST_FINDINGS and (path := next(repeated, None)) is not None:
        found[path] = None
    return list(found)


def key_order(data: bytes) -> Iterator[tuple[str, bool]]:
    """Yield the path of every key in the order of the text, and whether its object had the key before."""
    pairs = json.loads(data.decode("utf-8", "replace"), object_pairs_hook=_Pairs)
    return _paths(pairs, "")


def complaint(data: bytes) -> str:
    """Return the error of Go's encoding/json for an invalid text."""
    try:
        end = _Scanner(data).document()
    except NotJSON as error:
        return str(error)
    return _unexpected(data, end, "after top-level value")


class _Pairs(list[tuple[str, Any]]):
    """An object with all of its keys, including repeated ones."""


def _lenient(data: bytes, fraction: Callable[[str], float]) -> Any:
    """Decode texts that msgspec refuses and Go accepts: with invalid UTF-8, lone surrogates or very long integers."""

    def integer(text: str) -> float:
        return int(text) if len(text) <= _LONGEST_INTEGER else fraction(text)

    try:
        return _valid_text(
            json.loads(
                data.decode("utf-8", "replace"),
                parse_constant=_constant,
                parse_float=fraction,
                parse_int=integer,
            )
        )
    except numbers.OutOfRange as error:
        raise no_float(error) from None
    except (ValueError, RecursionError):
        raise NotJSON(complaint(data)) from None


def _constant(name: str) -> Any:
    raise ValueError(name)


def _valid_text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_valid_text(each) for each in value]
    if isinstance(value, dict):
        return {_valid_text(key): _valid_text(each) for key, each in value.items()}
    return value


def _hides_keys(data: bytes) -> bool:
    if b'\\\\"' in data:
        return True
    return any(each in data for each in _SPACED) and _SPACED_KEY.search(data) is not None


def _keys(data: bytes) -> int:
    """Count the `":` of a text outside of strings."""
    return data.count(b'":') - data.count(b'\\":')


def _paths(value: Any, path: str) -> Iterator[tuple[str, bool]]:
    if isinstance(value, _Pairs):
        seen = set()
        for key, each in value:
            place = extended(path, f".{key}" if path else key)
            yield place, key in seen
            seen.add(key)
            yield from _paths(each, place)
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _paths(each, extended(path, f"[{at}]"))


def _too_deep(data: bytes) -> bool:
    depth = 0
    for match in re.finditer(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', data, re.S):
        first = data[match.start()]
        if first in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif first in b"]}":
            depth -= 1
    return False


class _Scanner:
    """Scans a JSON text up to its first error."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def document(self) -> int:
        """Scan one value, and return the offset of the text that follows it (the end of the text if nothing follows)."""
        closing: list[bytes] = []
        self._value(closing)
        while closing:
            self._after_value(closing)
        self._space()
        return self.at

    def _value(self, closing: list[bytes]) -> None:
        """Scan a scalar, or the beginning of an object or list including its first value."""
        self._space()
        first = self.data[self.at : self.at + 1]
        if first in (b"{", b"["):
            if len(closing) >= MAX_DEPTH:
                raise self._wrong("exceeded max depth")
            self.at += 1
            self._space()
            end = b"}" if first == b"{" else b"]"
            if self.data[self.at : self.at + 1] == end:
                self.at += 1
                return
            closing.append(end)
            if first == b"{":
                self._key()
            self._value(closing)
        elif first == b'"':
            self._string()
        elif first in _LITERALS:
            self._literal(_LITERALS[first])
        elif first.isdigit() or first == b"-":
            self._number()
        else:
            raise self._wrong("looking for beginning of value")

    def _after_value(self, closing: list[bytes]) -> None:
        self._space()
        found = self.data[self.at : self.at + 1]
        if found == closing[-1]:
            self.at += 1
            closing.pop()
        elif found == b",":
            self.at += 1
            if closing[-1] == b"}":
                self._space()
                self._key()
            self._value(closing)
        else:
            raise self._wrong("after object key:value pair" if closing[-1] == b"}" else "after array element")

    def _key(self) -> None:
        if self.data[self.at : self.at + 1] != b'"':
            raise self._wrong("looking for beginning of object key string")
        self._string()
        self._space()
        if self.data[self.at : self.at + 1] != b":":
            raise self._wrong("after object key")
        self.at += 1

    def _string(self) -> None:
        match = _STRING.match(self.data, self.at)
        self.at = match.end() if match else self.at
        if self.data[self.at : self.at + 1] == b'"':
            self.at += 1
        elif self.data[self.at : self.at + 1] != b"\\":
            raise self._wrong("in string literal")
        elif self.data[self.at + 1 : self.at + 2] == b"u":
            self.at += 2
            while self.data[self.at : self.at + 1] in tuple(
                b"0123456789abcdefABCDEF"[i : i + 1] for i in range(22)
            ):
                self.at += 1
            raise self._wrong("in \\u hexadecimal character escape")
        else:
            self.at += 1
            raise self._wrong("in string escape code")

    def _literal(self, word: bytes) -> None:
        for wanted in word:
            if self.data[self.at : self.at + 1] != bytes([wanted]):
                raise self._wrong(f"in literal {word.decode()} (expecting '{chr(wanted)}')")
            self.at += 1

    def _number(self) -> None:
        match = _NUMBER.match(self.data, self.at)
        text = match[0] if match else b""
        self.at += len(text)
        for ends, where in (
            ((b"-",), "in numeric literal"),
            ((b".",), "after decimal point in numeric literal"),
            ((b"e", b"E", b"+"), "in exponent of numeric literal"),
        ):
            if text.endswith(ends) or (where.startswith("in exp") and text[-2:].lower() == b"e-"):
                raise self._wrong(where)

    def _space(self) -> None:
        match = _SPACE.match(self.data, self.at)
        self.at = match.end() if match else self.at

    def _wrong(self, where: str) -> NotJSON:
        return NotJSON(_unexpected(self.data, self.at, where))


def _unexpected(data: bytes, at: int, where: str) -> str:
    if at >= len(data):
        return "unexpected end of JSON input"
    return f"invalid character {_quoted(chr(data[at]))} {where}"


def _quoted(character: str) -> str:
    """Quote one character as Go's scanner does."""
    if character == "'":
        return "'\\''"
    if character == '"':
        return "'\"'"
    if character.isprintable():
        return f"'{character}'" if character != "\\" else "'\\\\'"
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
    code = ord(character)
    plain = f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"
    return f"'{named.get(character, plain)}'"

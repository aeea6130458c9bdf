"""Converts YAML bodies to JSON values like the YAML 1.1 reader of kube-apiserver. Pure.

It processes the events of the parser, with limits on depth, size and alias expansion, because tenants send the bodies.
"""

import base64
import binascii
import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from vcsync.apimachinery import numbers
from vcsync.apimachinery.wire.gojson import MAX_DEPTH

MAX_NODES = 400_000
"""Most values of one document, including those that aliases repeat."""

_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d?-\d\d?(?:$|[Tt ])", re.ASCII)
_TAG = "tag:yaml.org,2002:"
_STRING_TAG, _BINARY_TAG, _TIME_TAG = f"{_TAG}str", f"{_TAG}binary", f"{_TAG}timestamp"
_TYPES: Mapping[str, tuple[type, ...]] = {
    f"{_TAG}bool": (bool,),
    f"{_TAG}int": (int,),
    f"{_TAG}float": (int, float),
    f"{_TAG}null": (type(None),),
    _TIME_TAG: (str,),
}
"""Tag -> types of values that may have it. Values with other tags are texts, as in Go."""
_NO_NUMBERS: Mapping[str, str] = {
    **dict.fromkeys((f"{sign}.{name}" for sign in ("", "+") for name in ("inf", "Inf", "INF")), "+Inf"),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), "-Inf"),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), "NaN"),
}
"""Numbers of YAML that JSON lacks, and their names in Go."""


class NotYAML(ValueError):
    """A text is not YAML, or has no JSON equivalent. The message is that of Go."""


class Document(NamedTuple):
    """The first document of a text, and its findings of repeated keys: `line 4: key "a" already set in map`."""

    value: Any
    duplicates: list[str]


def loads(data: bytes) -> Document:
    """Parse the first document.

    Raises:
        NotYAML: The text is not YAML, is too deep or too large, or has no JSON equivalent.
    """
    loader: Any = None
    try:
        text = data.decode("utf-8", "replace")
        loader = yaml.CSafeLoader(text)
        return _Builder(_events(loader)).document()
    except yaml.reader.ReaderError:
        raise NotYAML("yaml: control characters are not allowed") from None
    except yaml.MarkedYAMLError as error:
        raise NotYAML(_message(error)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise error if isinstance(error, NotYAML) else NotYAML(f"yaml: {error}") from None
    finally:
        if loader is not None:
            loader.dispose()


def ambiguous(text: str) -> bool:
    """Return whether a plain scalar with this text would not be parsed as a string, or is a time."""
    try:
        return _TIME.match(text) is not None or not isinstance(_plain(text), str)
    except NotYAML:
        return True


def _events(loader: Any) -> Iterator[Any]:
    while loader.check_event():
        yield loader.get_event()


class _Builder:
    """Builds a value from the events of a document."""

    def __init__(self, events: Iterator[Any]) -> None:
        self.events = events
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.open: set[str] = set()
        self.duplicates: list[str] = []
        self.nodes = 0

    def document(self) -> Document:
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                return Document(self._value(next(self.events), 0), self.duplicates)
        return Document(None, [])

    def _value(self, event: Any, depth: int) -> Any:
        before = self.nodes
        self._count(1)
        if depth > MAX_DEPTH:
            raise NotYAML("yaml: exceeded max depth")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.anchor:
            self.open.add(event.anchor)
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(depth)
        else:
            value = self._mapping(depth)
        if event.anchor:
            self.anchors[event.anchor] = (value, self.nodes - before)
            self.open.discard(event.anchor)
        return value

    def _alias(self, event: Any) -> Any:
        if event.anchor in self.open:
            raise NotYAML(f"yaml: anchor '{event.anchor}' value contains itself")
        if event.anchor not in self.anchors:
            raise NotYAML(f"yaml: unknown anchor '{event.anchor}' referenced")
        value, size = self.anchors[event.anchor]
        self._count(size)
        return value

    def _count(self, more: int) -> None:
        self.nodes += more
        if self.nodes > MAX_NODES:
            raise NotYAML("yaml: document contains excessive aliasing")

    def _sequence(self, depth: int) -> list[Any]:
        result = []
        for event in self.events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            result.append(self._value(event, depth + 1))
        return result

    def _mapping(self, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            plain_merge = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and not event.style
            key = _key(self._value(event, depth + 1))
            value = self._value(next(self.events), depth + 1)
            if plain_merge:
                merged = _merge(value) | merged
                continue
            if key in result:
                line = event.start_mark.line + 1
                self.duplicates.append(f'line {line}: key "{key}" already set in map')
            result[key] = value
        return merged | result if merged else result


def _merge(value: Any) -> dict[str, Any]:
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in parts):
        raise NotYAML("yaml: map merge requires map or sequence of maps as the value")
    result: dict[str, Any] = {}
    for each in parts:
        result = each | result
    return result


def _key(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise NotYAML("yaml: unsupported map key: only texts, numbers and booleans can be keys")


def _scalar(event: Any) -> Any:
    text = event.value
    if event.tag is None:
        return text if event.style else _plain(text)
    return _tagged(event.tag, text)


def _tagged(tag: str, text: str) -> Any:
    if tag == _BINARY_TAG:
        return _binary(text)
    if tag not in _TYPES:
        return text
    value = text if tag == _TIME_TAG and _TIME.match(text) else _plain(text)
    if type(value) not in _TYPES[tag]:
        found = next(name for name, types in _KINDS if isinstance(value, types))
        raise NotYAML(f"yaml: cannot decode !!{found} `{text[:_SHOWN]}` as a !!{tag.removeprefix(_TAG)}")
    return value


_SHOWN = 100
"""Most characters of a scalar that a message quotes."""
_KINDS = (("bool", bool), ("int", int), ("float", float), ("str", str), ("null", type(None)))


def _binary(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "replace")
    except binascii.Error:
        raise NotYAML("yaml: !!binary value contains invalid base64 data") from None


def _plain(text: str) -> Any:
    """Resolve a plain scalar like Go's reader of YAML 1.1: `y` is true, `010` is eight, times are strings."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if _INTEGER.fullmatch(text):
        number = _integer(text)
        if number is not None:
            return numbers.integer(number)
    plain = text.replace("_", "") if text[0] in "+-0123456789" else text
    if _FLOAT.fullmatch(plain):
        with contextlib.suppress(numbers.OutOfRange):  # Go keeps the text of a number that is no float64
            return numbers.number(plain)
    if text in _NO_NUMBERS:
        raise NotYAML(f"json: unsupported value: {_NO_NUMBERS[text]}")
    return text


def _integer(text: str) -> int | None:
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.removeprefix("+"))
    digits = digits.replace("_", "")
    if len(digits) > 64:
        return None
    base = {"0x": 16, "0b": 2, "0o": 8}.get(digits[:2], 8 if len(digits) > 1 and digits[0] == "0" else 10)
    try:
        value = sign * int(digits[2:] if digits[:2] in ("0x", "0b", "0o") else digits, base)
    except ValueError:
        return None
    return value if -(1 << 63) <= value < (1 << 64) else None


def _message(error: yaml.MarkedYAMLError) -> str:
    """Return the message of Go's reader for an error of the parser. Both are based on libyaml."""
    scanner = isinstance(error, yaml.scanner.ScannerError)
    for mark in (error.context_mark, error.problem_mark):
        if mark is not None and mark.line:
            return f"yaml: line {mark.line + (1 if scanner else 0)}: {error.problem}"
    return f"yaml: {error.problem}"

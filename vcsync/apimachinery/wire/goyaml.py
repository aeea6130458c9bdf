"""Converts YAML bodies to JSON values like the YAML 1.1 reader of kube-apiserver. Pure.

It processes the events of the parser, with limits on depth, size and alias expansion, because tenants send the bodies.
"""

import re
from collections.abc import Iterator
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
_STRING_TAG = "tag:yaml.org,2002:str"
_BINARY_TAG = "tag:yaml.org,2002:binary"


class NotYAML(ValueError):
    """A text is not YAML, or has no JSON equivalent. The message begins with `yaml: `, as in Go."""


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
    if event.style or event.tag not in (None, "!"):
        return _tagged(event.tag, text) if not event.style or event.tag else text
    return _plain(text)


def _tagged(tag: str | None, text: str) -> Any:
    if tag in (None, "!", _STRING_TAG, _BINARY_TAG):
        return text
    return _plain(text)


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
    if _FLOAT.fullmatch(text):
        try:
            return numbers.number(text)
        except numbers.OutOfRange:
            raise NotYAML("yaml: number is out of range") from None
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

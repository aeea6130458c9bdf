"""The built-in API types with their fields, numbers and JSON names, from a table generated of Go's types. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

import msgspec

META_GROUP = "meta.k8s.io"
META = "meta/v1"
"""Package whose kinds (Status, DeleteOptions, WatchEvent, ...) belong to every group."""

EVERYWHERE = frozenset(
    {
        "CreateOptions",
        "DeleteOptions",
        "GetOptions",
        "ListOptions",
        "PatchOptions",
        "UpdateOptions",
        "WatchEvent",
    }
)
OF_META = frozenset({"PartialObjectMetadata", "PartialObjectMetadataList", "Table", "TableOptions"})
"""Kinds of both versions of `meta.k8s.io`."""
UNVERSIONED = frozenset({"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"})
"""Kinds of `meta/v1` that are registered for every apiVersion, whether its group exists or not."""
UNVERSIONED_OPTIONS = UNVERSIONED | {"CreateOptions", "DeleteOptions", "UpdateOptions"}
"""Kinds that the scheme of options registers for every apiVersion: typed clients send that of their own group.

Source: `apimachinery/pkg/apis/meta/internalversion/register.go` in Kubernetes.
"""

_TYPE = re.compile(r"(?:\{(?P<key>\w+)\})?(?P<base>[^\[]+)(?P<list>\[\])?")


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: Number in protobuf.
        base: Protobuf scalar or name of a message. For maps and lists, the type of the values or items.
        key: Type of the keys of a map; empty: the field is not a map.
        many: Whether the field is a list.
        name: Name in JSON; `-` if JSON does not contain it.
        pointer: Whether an absent value differs from zero.
        omits: Whether JSON omits a zero value.
        omits_struct: Whether JSON omits even a zero struct.
        inline: Whether its members are inline in the JSON of the message.
        go: The type as in messages of Go.
    """

    number: int
    base: str
    key: str
    many: bool
    name: str
    pointer: bool
    omits: bool
    omits_struct: bool
    inline: bool
    go: str


@dataclass(frozen=True, slots=True)
class Message:
    """One type.

    Attributes:
        name: Package and name of the Go struct.
        kind: Whether it has kind and apiVersion.
        bare: Whether its JSON is the list of its only field.
        fields: Its fields.
    """

    name: str
    kind: bool
    bare: bool
    fields: tuple[Field, ...]

    @property
    def short(self) -> str:
        """The Go name of the struct, without its package."""
        return self.name.rpartition(".")[2]


Find = Callable[[str, str, str], Message | None]
"""Scheme: returns the type of a group, version and kind, or None if it is not registered."""


@dataclass(frozen=True, slots=True)
class _Table:
    groups: dict[tuple[str, str], str]
    messages: dict[str, Message]


def message(name: str) -> Message:
    """Return the message with a name such as `core/v1.Pod`.

    Raises:
        KeyError: The message does not exist.
    """
    return _table().messages[name]


def find(group: str, version: str, kind: str) -> Message | None:
    """Return the type of a kind, or None if it is not built in."""
    table = _table()
    if kind in UNVERSIONED:
        return table.messages[f"{META}.{kind}"]
    package = table.groups.get((group, version))
    if package is None:
        return None
    found = table.messages.get(f"{package}.{kind}")
    common = kind in EVERYWHERE or (kind == "List" and package == "core/v1")
    if (found is None or not found.kind) and (common or (kind in OF_META and package == "meta/v1beta1")):
        found = table.messages.get(f"{META}.{kind}")
    if found is None or not (found.kind or kind == "WatchEvent"):
        return None
    return found


def find_options(group: str, version: str, kind: str) -> Message | None:
    """Return the type of a kind in the scheme that decodes the options of requests, or None if it has no such kind."""
    if kind in UNVERSIONED_OPTIONS:
        return _table().messages[f"{META}.{kind}"]
    return find(group, version, kind) if group == META_GROUP and kind != "List" else None


@cache
def _table() -> _Table:
    groups: dict[tuple[str, str], str] = {}
    messages: dict[str, Message] = {}
    text = resources.files(__package__ or "").joinpath("types.jsonl").read_bytes()
    for line in text.splitlines()[1:]:
        entry = msgspec.json.decode(line)
        if len(entry) == 2:
            package, group = entry
            groups[group, package.rpartition("/")[2]] = package
            continue
        name, code, fields = entry
        messages[name] = Message(name, code == "k", code == "l", tuple(_field(*each) for each in fields))
    return _Table(groups, messages)


def _field(number: int, text: str, name: str, flags: str, go: str) -> Field:
    parts = _TYPE.fullmatch(text)
    if parts is None:
        raise ValueError(f"the table of types is damaged: {text!r}")
    return Field(
        number=number,
        base=parts["base"],
        key=parts["key"] or "",
        many=parts["list"] is not None,
        name=name,
        pointer="p" in flags,
        omits="o" in flags,
        omits_struct="z" in flags,
        inline="i" in flags,
        go=go,
    )

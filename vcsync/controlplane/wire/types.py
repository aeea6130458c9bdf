"""The built-in API types as Go declares them: fields, numbers, JSON names. Read from the generated table. Pure."""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

import msgspec

META = "meta/v1"
"""The package whose kinds (Status, DeleteOptions, WatchEvent, ...) belong to every group."""

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
"""Kinds that both versions of `meta.k8s.io` have in common."""
UNVERSIONED = frozenset({"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "List", "Status"})
"""Kinds of `meta/v1` that are known as plain `v1`."""

_TYPE = re.compile(r"(?:\{(?P<key>\w+)\})?(?P<base>[^\[]+)(?P<list>\[\])?")


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: on the protobuf wire.
        base: a protobuf scalar or the name of a message; of the values of a map, of the items of a list.
        key: type of a map's keys, empty if it is none.
        many: whether it is a list.
        name: in JSON; `-` if it is not there.
        pointer: whether absence and zero differ.
        omits: whether a zero value is left out of JSON.
        omits_struct: whether even a zero struct is left out.
        inline: whether its members stand in the JSON of the message itself.
        go: the type as Go's messages write it.
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
    """One type. `kind`: it has kind and apiVersion; `bare`: its JSON is the list of its only field."""

    name: str
    kind: bool
    bare: bool
    fields: tuple[Field, ...]

    @property
    def short(self) -> str:
        """The Go name of the struct, without its package."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class _Table:
    groups: dict[tuple[str, str], str]
    messages: dict[str, Message]


def message(name: str) -> Message:
    """Return the message of a name like `core/v1.Pod`; KeyError if there is none."""
    return _table().messages[name]


def find(group: str, version: str, kind: str) -> Message | None:
    """Return the type of a kind, None if it is not built in."""
    table = _table()
    package = table.groups.get((group, version))
    if package is None:
        return None
    found = table.messages.get(f"{package}.{kind}")
    common = kind in EVERYWHERE or (kind in UNVERSIONED and package == "core/v1")
    if (found is None or not found.kind) and (common or (kind in OF_META and package == "meta/v1beta1")):
        found = table.messages.get(f"{META}.{kind}")
    if found is None or not (found.kind or kind == "WatchEvent"):
        return None
    return found


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

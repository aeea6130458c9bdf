"""Protobuf descriptors of the types that expressions see, for the checker. Pure."""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, struct_pb2, timestamp_pb2

from vcsync.apimachinery.cel.declared import Declared

PACKAGE = "schema"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int": _Field.TYPE_INT64, "uint": _Field.TYPE_UINT64, "double": _Field.TYPE_DOUBLE, "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING, "bytes": _Field.TYPE_BYTES,
}  # fmt: skip
_WELL_KNOWN = {
    "timestamp": ".google.protobuf.Timestamp", "duration": ".google.protobuf.Duration",
    "dyn": ".google.protobuf.Value", "list": ".google.protobuf.ListValue", "map": ".google.protobuf.Struct",
}  # fmt: skip


def named(name: str, *parameters: Any) -> dict[str, Any]:
    """Return a type as environment configurations write it."""
    return {"type_name": name, "params": list(parameters)} if parameters else {"type_name": name}


class Messages:
    """The descriptors of the objects of one schema."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self.file = descriptor_pb2.FileDescriptorProto(
            name=f"{PACKAGE}.proto", package=PACKAGE, syntax="proto2"
        )
        self.made = descriptor_pb2.FileDescriptorProto(name="made.proto", syntax="proto2")
        for made in (self.file, self.made):
            made.dependency.extend(each.DESCRIPTOR.name for each in (struct_pb2, timestamp_pb2, duration_pb2))

    def message(self, declared: Declared) -> str:
        """Return the name of an object's message, which is created on the first call."""
        known = self._names.get(id(declared))
        if known is not None:
            return known
        named = f"_{declared.title}" if declared.title else ""
        own_name = f"T{len(self.file.message_type)}{named}"
        self._names[id(declared)] = f"{PACKAGE}.{own_name}"
        message = self.file.message_type.add(name=own_name)
        entries: set[str] = set()
        for number, (name, (_, type_)) in enumerate(declared.fields.items(), 1):
            shift = 1000 if number >= 19000 else 0  # the numbers in between are reserved
            own = message.field.add(
                name=name, number=number + shift, label=_Field.LABEL_OPTIONAL, json_name=f"f{number}"
            )
            self._fill(message, own, type_, entries)
        return self._names[id(declared)]

    def _fill(self, message: Any, own: Any, type_: Declared, entries: set[str]) -> None:
        element = type_.element
        if type_.kind in ("list", "map") and element is not None and element.kind not in ("list", "map"):
            if type_.kind == "list":
                own.label = _Field.LABEL_REPEATED
                self._scalar(own, element)
                return
            entry = "".join(each[:1].upper() + each[1:] for each in own.name.split("_")) + "Entry"
            if entry not in entries:
                entries.add(entry)
                nested = message.nested_type.add(name=entry)
                nested.options.map_entry = True
                nested.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING)
                self._scalar(nested.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL), element)
                own.label, own.type = _Field.LABEL_REPEATED, _Field.TYPE_MESSAGE
                own.type_name = f".{PACKAGE}.{message.name}.{entry}"
                return
        self._scalar(own, type_)

    def _scalar(self, own: Any, type_: Declared) -> None:
        if type_.kind in _SCALARS:
            own.type = _SCALARS[type_.kind]
            return
        own.type = _Field.TYPE_MESSAGE
        own.type_name = (
            f".{self.message(type_)}"
            if type_.kind == "object"
            else _WELL_KNOWN.get(type_.kind, _WELL_KNOWN["dyn"])
        )

    def type(self, declared: Declared) -> dict[str, Any]:
        """Return the checker's type of a declared type."""
        if declared.kind == "object":
            return named(self.message(declared))
        if declared.element is not None:
            element = self.type(declared.element)
            return (
                named("list", element) if declared.kind == "list" else named("map", named("string"), element)
            )
        return named(declared.kind)

    def make(self, structs: Mapping[str, Mapping[str, str]]) -> None:
        """Declare the types that expressions may construct: name -> field -> kind."""
        for name, kinds in structs.items():
            message = self.made.message_type.add(name=name)
            for number, (field, kind) in enumerate(kinds.items(), 1):
                own = message.field.add(
                    name=field, number=number, label=_Field.LABEL_OPTIONAL, json_name=f"f{number}"
                )
                self._scalar(own, Declared(kind))

    def pool(self) -> Any:
        """Return a descriptor pool with all messages."""
        pool = descriptor_pool.DescriptorPool()
        for each in (struct_pb2, timestamp_pb2, duration_pb2):
            pool.AddSerializedFile(each.DESCRIPTOR.serialized_pb)
        for made in (self.file, self.made):
            pool.AddSerializedFile(made.SerializeToString())
        return pool

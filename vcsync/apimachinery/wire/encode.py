"""Encodes objects and lists in the form that a client requests. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import yaml

from vcsync.apimachinery.wire import goyaml, protobuf
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.objects.text_cache import cache_short_texts

Object = Mapping[str, Any]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class _Dumper(yaml.CSafeDumper):
    """Writes repeated values in full instead of as aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _represent(dumper: Any, text: str) -> Any:
    """Choose between quotes, blocks and plain style for a text as Go's writer does."""
    style = "|" if "\n" in text else '"' if goyaml.ambiguous(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent)


def document(obj: Object, how: Representation) -> bytes:
    """Encode an object, review, Status or list with kind and apiVersion.

    Raises:
        ProtobufError: The format is protobuf, and the kind is not built in.
    """
    if how.format == "protobuf":
        return protobuf.encode(dict(obj))
    if how.format == "yaml":
        return to_yaml(obj)
    data = _encode(obj)
    return indented(data) if how.pretty else data + b"\n"


def written(data: bytes, how: Representation) -> bytes:
    """Encode a JSON text in the requested form, as `document` does. For JSON it is not decoded."""
    if how.format == "json":
        return indented(data) if how.pretty else data + b"\n"
    return document(_decode(data), how)


def indented(data: bytes) -> bytes:
    """Indent JSON as kube-apiserver does: two spaces, no newline at the end."""
    return msgspec.json.format(data, indent=2)


def to_yaml(obj: Object) -> bytes:
    """Encode YAML as kube-apiserver does: with sorted keys."""
    plain = _decode(_encode(obj))
    text: str = yaml.dump(plain, Dumper=_Dumper, sort_keys=True, width=80, allow_unicode=True)
    return text.encode()


@cache_short_texts(1024, 512)
def list_head(kind: str, api_version: str) -> bytes:
    """Return the beginning of the JSON of a list, up to its metadata."""
    return b'{"kind":%b,"apiVersion":%b,"metadata":' % (_encode(kind), _encode(api_version))


def list_metadata(revision: int, continuation: str = "", remaining: int | None = None) -> dict[str, Any]:
    """Return the metadata of a list. A `revision` of 0 is omitted."""
    metadata: dict[str, Any] = {}
    if revision:
        metadata["resourceVersion"] = str(revision)
    if continuation:
        metadata["continue"] = continuation
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    return metadata


def json_list(kind: str, api_version: str, metadata: Object, items: Iterable[bytes]) -> bytes:
    """Join the JSON of objects into a list, without a newline at the end."""
    return b"".join((list_head(kind, api_version), _encode(metadata), b',"items":[', b",".join(items), b"]}"))


def watch_event(change: str, obj: bytes) -> bytes:
    """Encode one event of a watch in JSON."""
    return b'{"type":"%b","object":%b}\n' % (change.encode(), obj)

"""The form in which caches keep objects: typed metadata, and the original bytes of all other fields.

Decoding whole objects into dicts takes ten times the time and four times the memory. An envelope loses only
`managedFields`. A function that needs another field decodes it into a type that names only the parts it needs.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeVar, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.json import Decoder, Encoder

T = TypeVar("T")

_NO_STRINGS: dict[str, str] = {}
_NO_BYTES = b""


class OwnerReference(Struct, frozen=True, gc=False):
    """One entry of `metadata.ownerReferences`, under its wire names."""

    apiVersion: str = ""  # noqa: N815
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None  # noqa: N815


class Envelope(Struct, frozen=True, gc=False):
    """One object of a Kubernetes API. Never edited in place; its dicts may be shared and are read-only.

    Attributes:
        spec: The raw JSON of the field `spec`, empty if absent.
        status: The raw JSON of the field `status`, empty if absent.
        rest: A JSON object of all other top-level fields except apiVersion, kind and metadata, empty if there are none.
        tenant: Tenant of the object. Set only if a list or watch covers all tenants of an embedded control plane.
    """

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = _NO_STRINGS
    annotations: dict[str, str] = _NO_STRINGS
    owners: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_seconds: int | None = None
    generate_name: str = ""
    spec: bytes = _NO_BYTES
    status: bytes = _NO_BYTES
    rest: bytes = _NO_BYTES
    tenant: str = ""

    @property
    def version(self) -> int:
        """The resourceVersion as a number that grows with every change of the resource type; 0 if it is not a number.

        Kubernetes has guaranteed since 1.35 that resourceVersions of a resource can be ordered (KEP-5504). All servers
        on etcd have always behaved like this.
        """
        text = self.resource_version
        return int(text) if text.isdecimal() else 0

    @property
    def key(self) -> tuple[str, str]:
        """(namespace, name), which identifies the object among those that exist at the same time."""
        return self.namespace, self.name

    @property
    def deleting(self) -> bool:
        """Whether its deletion has been requested."""
        return self.deletion_timestamp is not None


class ListPage(Struct, frozen=True):
    """One page of a LIST.

    Attributes:
        items: Objects of the page.
        resource_version: resourceVersion of the list.
        continue_token: Token for the next page; empty: this is the last one.
        remaining: Number of objects on later pages; None: unknown.
    """

    items: list[Envelope]
    resource_version: str
    continue_token: str
    remaining: int | None


class WatchEvent(Struct, frozen=True, gc=False):
    """One event of a watch.

    Attributes:
        type: Type of the event. `UNREADABLE` is an object that cannot be parsed.
        object: The object. For BOOKMARK it has no name, only a resourceVersion and perhaps annotations. For UNREADABLE it
            has the readable parts of its name.
        why: For UNREADABLE, the error.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "UNREADABLE"]
    object: Envelope
    why: str = ""


class ErrorEvent(Exception):
    """A watch sent an event of type ERROR.

    Attributes:
        status: The raw Status object.
    """

    def __init__(self, status: bytes) -> None:
        super().__init__("watch event of type ERROR")
        self.status = status


class _Metadata(Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    generate_name: str = ""
    tenant: str = ""


class _ListMetadata(Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class _RawList(Struct, gc=False):
    items: list[Raw] | None  # required: an object without `items` is not an empty list
    metadata: _ListMetadata = _ListMetadata()


class _Event(Struct, gc=False):
    type: str
    object: dict[str, Raw]


class _RawEvent(Struct, gc=False):
    object: Raw


_decode_fields = Decoder(dict[str, Raw]).decode
_decode_metadata = Decoder(_Metadata).decode
_decode_raw_list = Decoder(_RawList).decode
_decode_event = Decoder(_Event).decode
_decode_raw_event = Decoder(_RawEvent).decode
_decode_any = Decoder().decode
_encode = Encoder().encode
_NO_METADATA = Raw(b"{}")
_NULL = b"null"


def parse(raw: bytes | Raw) -> Envelope:
    """Parse one object. The result shares no memory with `raw`.

    Raises:
        msgspec.DecodeError: The text is not the JSON of a Kubernetes object.
    """
    return _from_fields(_decode_fields(raw))


def parse_list(body: bytes) -> ListPage:
    """Parse the body of a LIST answer.

    Raises:
        msgspec.DecodeError: The body is not the JSON of a list of Kubernetes objects.
    """
    raw = split_list(body)
    return ListPage(
        [parse(item) for item in raw.items], raw.resource_version, raw.continue_token, raw.remaining
    )


def named(raw: bytes | Raw) -> Envelope:
    """Return the readable parts of the name of an object that cannot be parsed."""
    try:
        return _named(_decode_fields(raw))
    except msgspec.DecodeError:
        return Envelope("")


def _named(fields: Mapping[str, Raw]) -> Envelope:
    try:
        metadata = msgspec.json.decode(fields.get("metadata", _NO_METADATA), type=dict[str, Any])
    except msgspec.DecodeError:
        metadata = {}
    texts = {key: value for key, value in metadata.items() if isinstance(value, str)}
    return Envelope(
        texts.get("name", ""),
        texts.get("namespace", ""),
        texts.get("uid", ""),
        resource_version=texts.get("resourceVersion", ""),
        tenant=texts.get("tenant", ""),
    )


class RawPage(Struct, frozen=True):
    """A LIST answer whose items are not parsed yet. They refer to the bytes of the answer."""

    items: Sequence[Raw]
    resource_version: str
    continue_token: str
    remaining: int | None


def split_list(body: bytes) -> RawPage:
    """Split the body of a LIST answer into its raw items, so that large lists can be parsed in parts."""
    page = _decode_raw_list(body)
    meta = page.metadata
    return RawPage(page.items or (), meta.resource_version, meta.continue_, meta.remaining_item_count)


def parse_event(line: bytes) -> WatchEvent:
    """Parse one line of a watch stream.

    Raises:
        ErrorEvent: The event has the type ERROR.
        msgspec.DecodeError: The line is not a watch event.
    """
    event = _decode_event(line)
    if event.type == "ERROR":
        raise ErrorEvent(bytes(_decode_raw_event(line).object))
    try:
        return WatchEvent(event.type, _from_fields(dict(event.object)))  # type: ignore[arg-type]
    except msgspec.DecodeError as error:
        if event.type == "DELETED":  # only the name of a deleted object is needed
            return WatchEvent("DELETED", _named(event.object))
        return WatchEvent("UNREADABLE", _named(event.object), str(error))


def _from_fields(fields: dict[str, Raw]) -> Envelope:
    meta = _decode_metadata(fields.pop("metadata", _NO_METADATA))
    spec = fields.pop("spec", None)
    status = fields.pop("status", None)
    fields.pop("kind", None)
    fields.pop("apiVersion", None)
    # bytes() copies: a Raw would keep the whole response alive for as long as the object is cached.
    return Envelope(
        meta.name,
        meta.namespace,
        meta.uid,
        meta.resource_version,
        meta.generation,
        meta.labels or _NO_STRINGS,
        meta.annotations or _NO_STRINGS,
        meta.owner_references or (),
        meta.finalizers or (),
        meta.creation_timestamp or "",
        meta.deletion_timestamp,
        meta.deletion_grace_period_seconds,
        meta.generate_name,
        _NO_BYTES if spec is None else bytes(spec),
        _NO_BYTES if status is None else bytes(status),
        _join(fields) if fields else _NO_BYTES,
        meta.tenant,
    )


def _join(fields: dict[str, Raw]) -> bytes:
    return b"{" + b",".join([_encode(name) + b":" + bytes(value) for name, value in fields.items()]) + b"}"


@lru_cache(maxsize=1024)
def _decoder(kind: Any) -> Decoder[Any]:
    return Decoder(kind)


def decode(raw: bytes, type_: type[T]) -> T:
    """Decode a field (`spec`, `status`, `rest`) into a type. Parts that the type does not name are ignored.

    An absent field (empty bytes) or `null` decodes as an empty object.

    Raises:
        msgspec.ValidationError: The field does not fit the type.
    """
    result: T = _decoder(cast("Hashable", type_)).decode(raw if raw and raw != _NULL else b"{}")
    return result


def untyped(raw: bytes) -> Any:
    """Decode a field (`spec`, `status`, `rest`) into dicts and lists. An absent field is an empty dict."""
    return _decode_any(raw) if raw else {}


def encode(value: Any) -> bytes:
    """Encode any value that msgspec supports as JSON."""
    return _encode(value)


def to_dict(envelope: Envelope, *, api_version: str = "", kind: str = "") -> dict[str, Any]:
    """Return the whole object as a new dict. It contains `apiVersion` and `kind` only if the arguments are not empty."""
    whole: dict[str, Any] = {}
    if api_version:
        whole["apiVersion"] = api_version
    if kind:
        whole["kind"] = kind
    whole["metadata"] = _metadata_dict(envelope)
    for name, raw in (("spec", envelope.spec), ("status", envelope.status)):
        if raw:
            whole[name] = _decode_any(raw)
    if envelope.rest:
        whole.update(_decode_any(envelope.rest))
    return whole


def _metadata_dict(envelope: Envelope) -> dict[str, Any]:
    owners = [
        {name: value for name, value in msgspec.structs.asdict(owner).items() if value is not None}
        for owner in envelope.owners
    ]
    fields: tuple[tuple[str, Any], ...] = (
        ("name", envelope.name),
        ("generateName", envelope.generate_name),
        ("namespace", envelope.namespace),
        ("uid", envelope.uid),
        ("resourceVersion", envelope.resource_version),
        ("generation", envelope.generation),
        ("creationTimestamp", envelope.creation_timestamp),
        ("deletionTimestamp", envelope.deletion_timestamp),
        ("labels", dict(envelope.labels)),
        ("annotations", dict(envelope.annotations)),
        ("ownerReferences", owners),
        ("finalizers", list(envelope.finalizers)),
    )
    metadata = {name: value for name, value in fields if value}
    if envelope.deletion_grace_seconds is not None:  # 0 differs from absent: it means immediate deletion
        metadata["deletionGracePeriodSeconds"] = envelope.deletion_grace_seconds
    return metadata


def strip(envelope: Envelope, *, spec: bool = True, status: bool = True) -> Envelope:
    """Return a copy without spec, status or both, for caches that do not need them."""
    return msgspec.structs.replace(
        envelope,
        spec=_NO_BYTES if spec else envelope.spec,
        status=_NO_BYTES if status else envelope.status,
    )

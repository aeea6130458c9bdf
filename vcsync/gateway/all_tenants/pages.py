"""One page of a list of one control plane: its items, marked and checked. Pure."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from vcsync.gateway.all_tenants.known_objects import ObjectState
from vcsync.gateway.all_tenants.shapes import (
    TABLE,
    Malformed,
    Rows,
    Shape,
    Template,
    check_types,
    mark_object,
)
from vcsync.gateway.all_tenants.versions import MAX_POSITION, BadToken, parse_number

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, rename="camel"):
    metadata: _ListMeta
    kind: str = ""
    api_version: str = ""
    items: list[msgspec.Raw] | None = None
    rows: list[msgspec.Raw] | None = None
    column_definitions: list[dict[str, Any]] | None = None


_list = msgspec.json.Decoder(_List).decode


class Page(NamedTuple):
    """One page of a list.

    Attributes:
        template: What the page says about its kind.
        version: Resource version of the list.
        more: Continue token; empty: it is the last page.
        items: JSON of each item, or of each row.
    """

    template: Template
    version: int
    more: str
    items: list[msgspec.Raw]


def read_page(data: bytes) -> Page:
    """Read a page.

    Raises:
        Malformed: It is no list.
    """
    try:
        found = _list(data)
        version = parse_number(found.metadata.resource_version)
    except (msgspec.MsgspecError, BadToken, RecursionError, UnicodeDecodeError) as error:
        raise Malformed(f"a list is malformed: {error}") from None
    more = found.metadata.continue_
    if len(more.encode()) > MAX_POSITION or not more.isprintable():
        raise Malformed("a list has a malformed continue token")
    items = found.rows if found.kind == TABLE else found.items
    template = Template(
        found.kind.removesuffix("List"), found.kind, found.api_version, found.column_definitions or ()
    )
    return Page(template, version, more, items or [])


Marked = Callable[[msgspec.Raw], tuple[dict[str, Any], ObjectState | None]]
"""Returns an item that names its tenant, and who it is."""


def marker(page: Page, template: Template, shape: Shape, tenant: str) -> Marked:
    """Return what makes the items of an external control plane's page items of the answer. It raises `Malformed`."""
    rows = Rows(template, tenant, shape.mark)
    if shape.target == TABLE:
        rows.learn(list(page.template.columns))

    def marked(item: msgspec.Raw) -> tuple[dict[str, Any], ObjectState | None]:
        obj = decoded(item)
        if shape.target == TABLE:
            return rows.row(obj)
        seen = mark_object(obj, tenant, shape.mark)
        # Clients decode the whole list by its kind.
        obj |= {
            key: own
            for key, own in (("kind", template.kind), ("apiVersion", template.api_version))
            if key in obj
        }
        check_types(obj, template, shape)
        return obj, seen

    return marked


def decoded(data: bytes | msgspec.Raw) -> Any:
    """Return a JSON value, all of which is checked: what follows is sent to a client.

    Raises:
        Malformed: It is no JSON.
    """
    try:
        return _decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError) as error:
        raise Malformed(f"an object is malformed: {error}") from None


def encoded(value: Any) -> bytes:
    """Return a value as JSON.

    Raises:
        Malformed: It contains a number that JSON libraries do not agree about.
    """
    try:
        return _encode(value)
    except (OverflowError, RecursionError, ValueError) as error:
        raise Malformed(f"an object is malformed: {error}") from None

"""The annotation on a NamespacePlacement by which slices are asked to move to other super clusters. Pure.

`vcsync rebalance` and the namespace scheduler write it. The leader carries it out, and removes it then, or says why it does not.
Tenants have no access to the meta cluster.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from vcsync.api import names

MOST_MOVES: Final = 64
"""Most moves of one request."""
_LONGEST_REASON: Final = 1024
_Id = Annotated[str, Meta(max_length=63)]
_Slices = Annotated[int, Meta(ge=1, le=1000)]


class Wanted(Struct, frozen=True, forbid_unknown_fields=True):
    """Slices that are to go from one super cluster to another."""

    source: _Id = field(name="from")
    target: _Id = field(name="to")
    slices: _Slices


class MoveRequest(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The moves of one namespace.

    Attributes:
        at: when they were asked for, in RFC 3339; the same for all namespaces of one rebalance.
        order: its place among the namespaces of the rebalance.
        moves: what is to move.
        left: super cluster -> number of slices that stay there when they have moved. So a request that was carried out is known,
            and one about other placements is refused.
        refused: why it does not; empty while it may.
        stay: super cluster -> number of slices that its Pods with claims need there, as far as that was a reason.
    """

    at: Annotated[str, Meta(max_length=64)]
    order: int = 0
    moves: Annotated[tuple[Wanted, ...], Meta(max_length=MOST_MOVES)] = ()
    left: dict[_Id, Annotated[int, Meta(ge=0)]] = {}
    refused: str = ""
    stay: dict[_Id, int] = {}


_decode = msgspec.json.Decoder(MoveRequest).decode


def request_of(annotations: Mapping[str, str]) -> MoveRequest | None:
    """Return the request on a NamespacePlacement with these annotations; None if there is none. A malformed one is refused."""
    text = annotations.get(names.MOVES)
    if text is None:
        return None
    try:
        return _decode(text)
    except msgspec.DecodeError as error:
        return MoveRequest(at="", refused=f"annotation {names.MOVES}: {error}; run 'vcsync rebalance' again")


def request_annotation(request: MoveRequest | None) -> dict[str, Any]:
    """Return the annotation as part of a merge patch; None removes it."""
    if request is None:
        return {names.MOVES: None}
    short = msgspec.structs.replace(request, refused=request.refused[:_LONGEST_REASON])
    return {names.MOVES: msgspec.json.encode(short).decode()}

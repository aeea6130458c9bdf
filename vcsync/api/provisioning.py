"""The annotation by which a super cluster tells whether it may have a copy of a claim. Pure."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import Struct

from vcsync.api import names

MOST_RETURNS: Final = 3
"""Number of times that a super cluster gives a claim back that it cannot provision. After that the claim stays there."""
REQUESTED: Final = "requested"
"""State: the super cluster may have a copy, and a volume for it."""
RETURNING: Final = "returning"
"""State: the super cluster removes its copy, which has no volume, and then gives the claim back."""

_LONGEST = 64  # characters of a reason
_MOST = 64  # super clusters whose annotations are read; a tenant can write any number


class Provisioning(Struct, frozen=True, omit_defaults=True):
    """The statement of one super cluster about one claim.

    Attributes:
        state: `REQUESTED` or `RETURNING`; empty if the super cluster certainly has no copy.
        returns: how often it has given the claim back, because it could not provision it.
        reason: why it gave the claim back last.
    """

    state: str = ""
    returns: int = 0
    reason: str = ""

    @property
    def may_have_copy(self) -> bool:
        """Whether the super cluster may have a copy of the claim."""
        return bool(self.state)


NOTHING: Final = Provisioning()
_decode = msgspec.json.Decoder(Provisioning).decode


def provisioning(annotations: Mapping[str, str], super_id: str) -> Provisioning:
    """Return what a super cluster says about a claim with these annotations.

    A tenant can write the annotation. A malformed one says that the super cluster may have a copy, which is the cautious
    reading.
    """
    text = annotations.get(names.PROVISIONING_PREFIX + super_id)
    if text is None:
        return NOTHING
    try:
        found = _decode(text)
    except msgspec.DecodeError:
        return Provisioning(REQUESTED)
    state = found.state if found.state in ("", RETURNING) else REQUESTED
    return Provisioning(state, max(0, found.returns), found.reason[:_LONGEST])


def all_provisioning(annotations: Mapping[str, str]) -> dict[str, Provisioning]:
    """Return what all super clusters say about a claim with these annotations, by id."""
    prefix = names.PROVISIONING_PREFIX
    ids = (key.removeprefix(prefix) for key in annotations if key.startswith(prefix))
    return {super_id: provisioning(annotations, super_id) for super_id in islice(ids, _MOST)}


def provisioning_annotation(super_id: str, said: Provisioning) -> dict[str, Any]:
    """Return the annotation as part of a merge patch; the value is None if there is nothing to say."""
    text = None if said == NOTHING else msgspec.json.encode(said).decode()
    return {names.PROVISIONING_PREFIX + super_id: text}

"""The annotation by which a super cluster tells that it refuses a Pod, and by which any Pod is taken back from it. Pure.

A syncer says `REFUSED`. If another super cluster can take the Pod, or the Pod cannot stay for a reason of the Pod scheduler's,
the Pod scheduler says `WITHDRAWN`. The syncer removes the copy, confirms that it is gone, and says `RETURNED`. Only then does
the Pod scheduler decide again.

A tenant can write the annotation. It can only move its own Pod between super clusters on which the namespace has slices, which
it can do by the label as well.
"""

from collections.abc import Container, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from vcsync.api import names

REFUSED: Final = "refused"
"""State: the super cluster refuses the Pod. It tries on, and may have a copy."""
WITHDRAWN: Final = "withdrawn"
"""State: the Pod scheduler takes its decision back. The super cluster may still have a copy."""
RETURNED: Final = "returned"
"""State: the super cluster has no copy, and makes none until the Pod scheduler assigns the Pod to it again."""

QUOTA: Final = "QuotaExceeded"
"""Reason: the ResourceQuota of the super namespace is used up."""
ADMISSION: Final = "AdmissionRefused"
"""Reason: the super cluster's API server refuses the copy."""
UNSCHEDULABLE: Final = "Unschedulable"
"""Reason: the super cluster's scheduler finds no node for the copy."""

SLICES_LEFT: Final = "SlicesLeft"
"""Reason of the Pod scheduler: the namespace has no slices there any more."""
NO_ROOM: Final = "NoRoom"
"""Reason of the Pod scheduler: its slices are used up where the tenant's own label has sent the Pod."""
CLAIMS: Final = "Claims"
"""Reason of the Pod scheduler: the Pod's claims are elsewhere, or cannot be served there."""
NOT_SELECTED: Final = "NotSelected"
"""Reason of the Pod scheduler: the Pod's constraints exclude the super cluster."""
NOT_PUBLISHED: Final = "NotPublished"
"""Reason of the Pod scheduler: the super cluster does not publish the Pod's RuntimeClass."""

MOST_RETURNS: Final = 1000
"""Largest number of returns that is read."""
_STATES = ("", REFUSED, WITHDRAWN, RETURNED)
_WORDS = {
    QUOTA: "its slices there are still in use",
    ADMISSION: "it does not admit the Pod",
    UNSCHEDULABLE: "none of its nodes can run the Pod",
    SLICES_LEFT: "its namespace has no slices there any more",
    NO_ROOM: "its namespace's slices there are used up",
    CLAIMS: "its claims cannot be used there",
    NOT_SELECTED: "its node selector or affinity excludes that super cluster",
    NOT_PUBLISHED: "its RuntimeClass is not published there",
}
_OF_SCHEDULER = frozenset({SLICES_LEFT, NO_ROOM, CLAIMS, NOT_SELECTED, NOT_PUBLISHED})


class Said(Struct, frozen=True, omit_defaults=True, gc=False):
    """The statement about one Pod in one super cluster.

    Attributes:
        state: `REFUSED`, `WITHDRAWN` or `RETURNED`; empty if the super cluster does not refuse the Pod.
        returns: how often it has given the Pod back.
        reason: why it refused the Pod last, or why the Pod scheduler has taken it back; one of the reasons above.
    """

    state: str = ""
    returns: int = 0
    reason: str = ""

    @property
    def why(self) -> str:
        """The reason in words, for the tenant."""
        return _WORDS.get(self.reason, "it does not say why")

    @property
    def refuses(self) -> bool:
        """Return whether the super cluster has refused the Pod, and not the Pod scheduler alone has taken it back."""
        return bool(self.state) and self.reason not in _OF_SCHEDULER


NOTHING: Final = Said()
_decode = msgspec.json.Decoder(Said).decode


def said_by(annotations: Mapping[str, str], super_id: str) -> Said:
    """Return what is said about a Pod with these annotations in a super cluster. A malformed annotation says nothing."""
    text = annotations.get(names.REFUSAL_PREFIX + super_id)
    if text is None:
        return NOTHING
    try:
        found = _decode(text)
    except msgspec.DecodeError:
        return NOTHING
    if found.state not in _STATES:
        return NOTHING
    reason = found.reason if found.reason in _WORDS else ""
    return Said(found.state, min(max(0, found.returns), MOST_RETURNS), reason)


def said_by_all(annotations: Mapping[str, str], known: Container[str] | None = None) -> dict[str, Said]:
    """Return what is said about a Pod with these annotations, by the id of the super cluster.

    Args:
        annotations: the Pod's annotations.
        known: ids of the super clusters of the pool; None for any. A tenant can write any number of others.
    """
    prefix = names.REFUSAL_PREFIX
    ids = (key.removeprefix(prefix) for key in annotations if key.startswith(prefix))
    found = {
        super_id: said_by(annotations, super_id) for super_id in ids if known is None or super_id in known
    }
    return {super_id: said for super_id, said in found.items() if said != NOTHING}


def refusal_annotation(super_id: str, said: Said) -> dict[str, Any]:
    """Return the annotation as part of a merge patch; the value is None if there is nothing to say."""
    text = None if said == NOTHING else msgspec.json.encode(said).decode()
    return {names.REFUSAL_PREFIX + super_id: text}

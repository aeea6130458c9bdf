"""Compares the placements of a snapshot with the decisions of this version's core on the same inputs. Pure."""

from msgspec import Struct

from vcsync.whatif.settle import Core
from vcsync.whatif.snapshot import Counts, Snapshot


class Difference(Struct, frozen=True, kw_only=True, rename="camel"):
    """A namespace about which the core decides otherwise.

    Attributes:
        tenant: name of the tenant.
        namespace: the namespace.
        stored: super cluster -> number of slices in the snapshot.
        decided: the same as the core decides now.
        stored_waiting: number of slices that wait in the snapshot.
        decided_waiting: the same as the core decides now.
    """

    tenant: str
    namespace: str
    stored: Counts
    decided: Counts
    stored_waiting: int
    decided_waiting: int


class Replay(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a replay.

    Attributes:
        decided: number of namespaces that were decided about.
        skipped: number of namespaces about which nothing is decided, since they are leaving or their tenant is suspended.
        differences: namespaces with another result.
    """

    decided: int
    skipped: int
    differences: tuple[Difference, ...]


def replay(snapshot: Snapshot) -> Replay:
    """Decide about each namespace, given all others as the snapshot has them, and compare.

    A difference does not lead to others: no decision counts for the next one. A namespace leaves lost super clusters if its
    tenant's policy lets it at the time of the snapshot, and if it is known what must stay.
    """
    core = Core(snapshot)
    names = snapshot.names()
    by_key = {each.key: each for each in snapshot.namespaces}
    differences = []
    for key in sorted(core.keys):
        stored, decision = by_key[key], core.decide(key, core.leaving_now(key))
        placed = {super_id: slices for super_id, slices in stored.placements.items() if slices}
        if (placed, stored.waiting) != (decision.placements, decision.waiting):
            differences.append(
                Difference(
                    tenant=names[key[0]],
                    namespace=key[1],
                    stored=placed,
                    decided=decision.placements,
                    stored_waiting=stored.waiting,
                    decided_waiting=decision.waiting,
                )
            )
    return Replay(
        decided=len(core.keys),
        skipped=len(snapshot.namespaces) - len(core.keys),
        differences=tuple(differences),
    )

"""Computes how many objects a namespace may have, and distributes them over its super clusters. Pure.

The number belongs to the namespace as a whole. A ledger entry names it by slice, in thousandths rounded up, so that the slices
together have exactly the whole: `whole_of` says how. The slices of an operator's size have whole numbers.
"""

from collections.abc import Mapping
from fractions import Fraction
from heapq import heapify, heapreplace
from math import ceil

from vcsync.scheduling.resources import Resources
from vcsync.scheduling.slices import OBJECTS, share_of_whole, slices_for


def slice_objects(
    quota: Mapping[str, int], size: Mapping[str, int], slices: int, *references: Mapping[str, int]
) -> Resources:
    """Return how many objects of each kind one of a namespace's slices stands for, in thousandths.

    All slices together have as many as their share of a reference says, rounded up, and at least one. They never have more than
    slices of the operator's size would have for the same quota, so that a tenant gains nothing by the size it chooses.

    Args:
        quota: amounts that the namespace may use.
        size: CPU and memory of the namespace's slices.
        slices: number of slices, at least one.
        references: operators' slices, the one that applies to the namespace first. The first that names a kind counts.
    """
    operators = references[0]
    objects: Resources = {}
    for reference in references:
        share = min(
            slices * share_of_whole(size, reference),
            slices_for(quota, operators) * share_of_whole(operators, reference),
        )
        for name in OBJECTS:
            if name in reference and name not in objects:
                whole = max(1, ceil(share * reference[name] / 1000))
                objects[name] = ceil(Fraction(whole * 1000, slices))
    return objects


def whole_of(amount: int, slices: int) -> int:
    """Return how many objects a namespace may have in all super clusters together.

    Args:
        amount: what one slice stands for, in thousandths.
        slices: number of slices, those that wait included. Up to 1,000 of them add less than one object by rounding.
    """
    return amount * slices // 1000


def dealt(whole: int, placements: Mapping[str, int], waiting: int = 0) -> dict[str, int]:
    """Distribute a namespace's objects over its super clusters in proportion to slices, by the method of d'Hondt.

    Each super cluster gets its exact share rounded down at least, and the super clusters with most slices get the rest, among
    equal ones the first by id. A larger whole leaves no super cluster with less, and so do more slices the super cluster that
    gets them. Slices that wait keep their share back.

    Args:
        whole: number of objects.
        placements: super cluster -> number of slices.
        waiting: number of slices without a super cluster.
    """
    parties = [(False, super_id, slices) for super_id, slices in placements.items() if slices > 0]
    if waiting > 0:
        parties.append((True, "", waiting))
    total = sum(slices for _, _, slices in parties)
    seats = {(waits, super_id): whole * slices // total for waits, super_id, slices in parties}
    # The next object goes to the most slices for an object that a super cluster would have then.
    queue = [
        (Fraction(-slices, seats[waits, super_id] + 1), waits, super_id, slices)
        for waits, super_id, slices in parties
    ]
    heapify(queue)
    for _ in range(whole - sum(seats.values()) if parties else 0):
        _, waits, super_id, slices = queue[0]
        seats[waits, super_id] += 1
        heapreplace(queue, (Fraction(-slices, seats[waits, super_id] + 1), waits, super_id, slices))
    return {super_id: count for (waits, super_id), count in seats.items() if not waits}

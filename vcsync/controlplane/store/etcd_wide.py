"""Transactions with more conditions or operations than etcd takes in one (`--max-txn-ops`). Pure.

Operations go into transactions within the transaction: all of them are done, at one revision. Conditions cannot, as one
within would not undo the others. But that many keys below one folder are not there may be one condition: that nothing in
the folder has changed since it was read.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsync.controlplane.store.interface import AREA, MAX_CONDITIONS, Compare, folder_of

GROUP = MAX_CONDITIONS
"""Operations within one inner transaction: with what the outer one has, no more than etcd allows."""


@dataclass(frozen=True, slots=True)
class Wide:
    """A wide transaction's conditions.

    Attributes:
        exact: are asked as they are.
        areas: folder -> the keys below it of which none may be there.
    """

    exact: Sequence[Compare]
    areas: Mapping[str, Sequence[Compare]]


def plan(compares: Sequence[Compare]) -> Wide:
    """Settle which conditions are asked together."""
    absent: defaultdict[str, list[Compare]] = defaultdict(list)
    for each in compares:
        if not each.revision:
            absent[folder_of(each.key)].append(each)
    areas = {folder: found for folder, found in absent.items() if len(found) > AREA}
    return Wide([each for each in compares if each.revision or folder_of(each.key) not in areas], areas)


def unchanged(folder: bytes, end: bytes, revision: int) -> dict[str, Any]:
    """Return the condition that nothing between two keys was written after a revision."""
    return {
        "target": "MOD",
        "result": "LESS",
        "key": folder,
        "range_end": end,
        "mod_revision": revision + 1,
    }


def grouped(operations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return operations that do as many within each."""
    return [
        {"request_txn": {"success": operations[start : start + GROUP]}}
        for start in range(0, len(operations), GROUP)
    ]

"""Transactions with more conditions or operations than etcd allows in one (`--max-txn-ops`). Pure.

Operations can be nested: a transaction within the transaction executes all of them at the same revision. Conditions
cannot be nested, because a failed inner condition does not undo the outer transaction. However, one condition can replace
the absence of many keys below one folder: nothing in the folder has changed since it was read.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsync.apiserver.storage import etcd_messages
from vcsync.apiserver.storage.interface import AREA, MAX_CONDITIONS, Compare, folder_of

GROUP = MAX_CONDITIONS
"""Operations within one inner transaction. Inner and outer transactions together stay within etcd's limit."""


@dataclass(frozen=True, slots=True)
class Wide:
    """The conditions of a wide transaction.

    Attributes:
        exact: Conditions that etcd checks as they are.
        areas: Folder -> conditions on keys below it, none of which may exist.
    """

    exact: Sequence[Compare]
    areas: Mapping[str, Sequence[Compare]]


def plan(compares: Sequence[Compare]) -> Wide:
    """Decide which conditions are checked together."""
    absent: defaultdict[str, list[Compare]] = defaultdict(list)
    for each in compares:
        if not each.revision:
            absent[folder_of(each.key)].append(each)
    areas = {folder: conditions for folder, conditions in absent.items() if len(conditions) > AREA}
    return Wide([each for each in compares if each.revision or folder_of(each.key) not in areas], areas)


def unchanged(folder: bytes, end: bytes, revision: int) -> dict[str, Any]:
    """Return the condition that no key of a range was written after a revision."""
    return {
        "target": etcd_messages.MOD,
        "result": etcd_messages.LESS,
        "key": folder,
        "range_end": end,
        "mod_revision": revision + 1,
    }


def grouped(operations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the operations as inner transactions of at most `GROUP` operations each."""
    return [
        {"request_txn": {"success": operations[start : start + GROUP]}}
        for start in range(0, len(operations), GROUP)
    ]

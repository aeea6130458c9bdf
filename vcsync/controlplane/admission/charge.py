"""Charges a write to the ResourceQuotas of its namespace, or says which of them refuses it. Pure.

Source: apiserver's `plugin/resourcequota/controller.go`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsync.controlplane.admission.settings import Limited
from vcsync.controlplane.behaviour import Object
from vcsync.kube.quantity import milli
from vcsync.quota.scopes import in_scope, selectors
from vcsync.quota.usage import (
    NONE,
    Amount,
    Usage,
    amount,
    counted,
    missing_in_pod,
    usage,
)


class QuotaExceeded(Exception):
    """The write would exceed a quota, or cannot be counted; the text is what `forbidden:` is followed by."""


class NotCovered(Exception):
    """No quota covers a scope that needs one; the text is the whole message."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write of one object.

    Attributes:
        old: None: it is created.
        told: it only tells what is so: it is counted, and never refused for what it comes to.
    """

    group: str
    plural: str
    new: Object
    old: Object | None
    told: bool = False


def charge(
    write: Write, quotas: Sequence[Object], limited: Sequence[Limited] = ()
) -> list[tuple[int, dict[str, str]]]:
    """Return for each quota that the write counts against its position and its `status.used` afterwards.

    Args:
        write: the write.
        quotas: of its namespace.
        limited: what must be covered by a quota.

    Raises:
        QuotaExceeded: it does not fit, or is not covered.
    """
    charged = []
    before = None if write.old is None else usage(write.group, write.plural, write.old)
    after = usage(write.group, write.plural, write.new)
    if limited:
        _check_covered(write, quotas, limited, after if before is None else _more(after, before))
    for position, quota in enumerate(quotas):
        if not matches(write, quota, write.new):
            continue
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        tracked = counted(write.group, write.plural, hard)
        _check_countable(write, quota, tracked, used)
        counts_less = before is not None and matches(write, quota, write.old or {})
        delta = _more(after, before or {}) if counts_less else after
        asked = {name: delta[name] for name in tracked if delta.get(name, NONE).milli}
        if asked:
            charged.append((position, _charged(quota, asked, hard, used, told=write.told)))
    return charged


def _check_covered(write: Write, quotas: Sequence[Object], limited: Sequence[Limited], more: Usage) -> None:
    """Refuse what needs a quota and has none that covers it."""
    if not any(each.milli for each in more.values()):
        return
    found = usage(write.group, write.plural, write.new)
    named = {
        name
        for each in limited
        if (each.group, each.plural) == (write.group, write.plural)
        for name, used in found.items()
        if used.milli > 0 and any(part in name for part in each.contains)
    }
    covering = [quota for quota in quotas if matches(write, quota, write.new)]
    for quota in covering:
        named -= set(counted(write.group, write.plural, (quota.get("status") or {}).get("hard") or {}))
    if named:
        raise QuotaExceeded(f"insufficient quota to consume: {','.join(sorted(named))}")
    scopes = [
        scope
        for each in limited
        for scope in each.scopes
        if in_scope(write.group, write.plural, scope, write.new)
    ]
    there = {
        scope["scopeName"]
        for quota in quotas
        for scope in selectors(quota)
        if in_scope(write.group, write.plural, scope, write.new)
    }
    missing = [scope for scope in scopes if scope["scopeName"] not in there]
    if missing:
        raise NotCovered(f"insufficient quota to match these scopes: [{' '.join(map(_shown, missing))}]")


def _shown(selector: Mapping[str, Any]) -> str:
    """Write a selector as Go writes the struct."""
    values = " ".join(selector.get("values") or ())
    return f"{{{selector['scopeName']} {selector.get('operator') or ''} [{values}]}}"


def matches(write: Write, quota: Object, obj: Object) -> bool:
    """Whether an object counts against a quota: it limits something of its kind, and the scopes fit."""
    hard = (quota.get("status") or {}).get("hard") or {}
    if not counted(write.group, write.plural, hard):
        return False
    return all(in_scope(write.group, write.plural, selector, obj) for selector in selectors(quota))


def _check_countable(write: Write, quota: Object, tracked: Sequence[str], used: Mapping[str, str]) -> None:
    name = quota["metadata"]["name"]
    if (write.group, write.plural) == ("", "pods"):
        missing = missing_in_pod(tracked, write.new)
        if missing:
            raise QuotaExceeded(f"failed quota: {name}: must specify {missing}")
    if any(each not in used for each in tracked):
        raise QuotaExceeded(f"status unknown for quota: {name}, resources: {','.join(tracked)}")


def _charged(
    quota: Object, asked: Usage, hard: Mapping[str, str], used: Mapping[str, str], *, told: bool
) -> dict[str, str]:
    then = {name: amount(used[name]) + more for name, more in asked.items()}
    over = [name for name, total in then.items() if total.milli > milli(hard[name])]
    if over and not told:
        raise QuotaExceeded(
            f"exceeded quota: {quota['metadata']['name']}, "
            f"requested: {_told({name: str(asked[name]) for name in over})}, "
            f"used: {_told({name: used[name] for name in over})}, "
            f"limited: {_told({name: hard[name] for name in over})}"
        )
    return {**used, **{name: str(total) for name, total in then.items()}}


def _told(amounts: Mapping[str, str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def _more(after: Usage, before: Usage) -> Usage:
    return {
        name: Amount(max(0, each.milli - before.get(name, NONE).milli), each.like)
        for name, each in after.items()
    }

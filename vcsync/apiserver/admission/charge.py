"""Charges a write to the ResourceQuotas of its namespace, or refuses it. Pure.

Source: apiserver's `plugin/resourcequota/controller.go`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.settings import Limited
from vcsync.objects.quantity import milli
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
    """The write would exceed a quota or cannot be counted. The message follows `forbidden:`."""


class NotCovered(Exception):
    """A scope requires a quota and no quota covers it. The text is the complete message."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write of one object.

    Attributes:
        old: The current object, or None if it is created.
        reports_status: Whether it writes the status. Such a write is charged, but it is never refused.
    """

    group: str
    plural: str
    new: Object
    old: Object | None
    reports_status: bool = False


def charge(
    write: Write, quotas: Sequence[Object], limited: Sequence[Limited] = ()
) -> list[tuple[int, dict[str, str]]]:
    """Return (position, new `status.used`) for each quota that the write is charged to.

    Args:
        write: The write.
        quotas: The quotas of its namespace.
        limited: Resources that must be covered by a quota.

    Raises:
        QuotaExceeded: The write exceeds a quota or is not covered.
    """
    return [each for each in charges(write, quotas, limited) if each is not None]


def charges(
    write: Write, quotas: Sequence[Object], limited: Sequence[Limited] = ()
) -> Iterator[tuple[int, dict[str, str]] | None]:
    """Yield for each quota what `charge` returns of it. None: the write is not charged to it."""
    before = None if write.old is None else usage(write.group, write.plural, write.old)
    after = usage(write.group, write.plural, write.new)
    if limited:
        _check_covered(write, quotas, limited, after if before is None else _more(after, before))
    for position, quota in enumerate(quotas):
        if not matches(write, quota, write.new):
            yield None
            continue
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        tracked = counted(write.group, write.plural, hard)
        _check_countable(write, quota, tracked, used)
        counts_less = before is not None and matches(write, quota, write.old or {})
        delta = _more(after, before or {}) if counts_less else after
        asked = {name: delta[name] for name in tracked if delta.get(name, NONE).milli}
        enforce = not write.reports_status
        yield (position, _charged(quota, asked, hard, used, enforce=enforce)) if asked else None


def _check_covered(write: Write, quotas: Sequence[Object], limited: Sequence[Limited], more: Usage) -> None:
    """Refuse a write that requires a quota and is not covered by one."""
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
    """Return a selector as Go formats the struct."""
    values = " ".join(selector.get("values") or ())
    return f"{{{selector['scopeName']} {selector.get('operator') or ''} [{values}]}}"


def matches(write: Write, quota: Object, obj: Object) -> bool:
    """Return whether an object is charged to a quota: the quota limits a resource of its kind, and its scopes match."""
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
    quota: Object, asked: Usage, hard: Mapping[str, str], used: Mapping[str, str], *, enforce: bool
) -> dict[str, str]:
    then = {name: amount(used[name]) + more for name, more in asked.items()}
    over = [name for name, total in then.items() if total.milli > milli(hard[name])]
    if over and enforce:
        raise QuotaExceeded(
            f"exceeded quota: {quota['metadata']['name']}, "
            f"requested: {_joined({name: str(asked[name]) for name in over})}, "
            f"used: {_joined({name: used[name] for name in over})}, "
            f"limited: {_joined({name: hard[name] for name in over})}"
        )
    return {**used, **{name: str(total) for name, total in then.items()}}


def _joined(amounts: Mapping[str, str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def _more(after: Usage, before: Usage) -> Usage:
    return {
        name: Amount(max(0, each.milli - before.get(name, NONE).milli), each.like)
        for name, each in after.items()
    }

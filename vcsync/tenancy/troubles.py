"""Conditions of a VirtualCluster that report why its tenant is not fully served. True means a problem. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain

from msgspec import Struct

from vcsync.api.objects import SuperCluster
from vcsync.api.specs import Trouble, TroubleType, VirtualClusterCondition
from vcsync.tenancy.brake import Brake

MOST_REPORTED = 100
"""Largest number of troubles that one syncer reports. The others appear in its `/status` only."""
LONGEST_REPORTED = 1024
"""Largest number of characters of a reported message."""
_LONGEST_MESSAGE = 4096


class _Reasons(Struct, frozen=True):
    """The reasons of a condition while it is True (`present`), and after that (`past`)."""

    present: str
    past: str


TYPES: Mapping[TroubleType, _Reasons] = {
    "Braked": _Reasons("TooManyDeletions", "NothingWaits"),
    "WrongControlPlane": _Reasons("AnotherUID", "RightUID"),
    "TenantTooLarge": _Reasons("TooMuchMemory", "FitsIntoMemory"),
}
"""The types of conditions, each with its reasons."""

Messages = dict[str, dict[TroubleType, str]]
"""Cluster key -> type -> message."""


def braked(brakes: Iterable[Brake]) -> list[Trouble]:
    """Return the troubles of deletions that are held back."""
    return [
        _trouble(brake.tenant, "Braked", f"{brake.text()}: {brake.remedy}")
        for brake in brakes
        if brake.tenant
    ]


def present(tenant: str, messages: Mapping[TroubleType, str]) -> list[Trouble]:
    """Return the troubles of one tenant's connection."""
    return [_trouble(tenant, kind, message) for kind, message in messages.items()]


def reported(troubles: Iterable[Trouble]) -> tuple[Trouble, ...]:
    """Return the troubles that a syncer reports: sorted, and at most `MOST_REPORTED`.

    A tenant with many troubles does not displace those of others: the first one of each tenant comes first, then the second ones.
    """
    numbers: Counter[str] = Counter()
    ranked = []
    for each in sorted(troubles, key=_order):
        ranked.append((numbers[each.tenant], each))
        numbers[each.tenant] += 1
    chosen = sorted(ranked, key=lambda pair: (pair[0], *_order(pair[1])))[:MOST_REPORTED]
    return tuple(sorted((each for _, each in chosen), key=_order))


def merged(supers: Iterable[SuperCluster], own: Iterable[Trouble]) -> Messages:
    """Merge the reports of all syncers and the caller's own troubles. Equal messages appear once."""
    reports = (report for super_cluster in supers for report in super_cluster.status.reports.values())
    by_tenant: dict[str, dict[TroubleType, dict[str, None]]] = {}
    for trouble in chain(own, chain.from_iterable(reports)):
        by_tenant.setdefault(trouble.tenant, {}).setdefault(trouble.type, {})[trouble.message] = None
    return {
        tenant: {kind: "; ".join(messages)[:_LONGEST_MESSAGE] for kind, messages in kinds.items()}
        for tenant, kinds in by_tenant.items()
    }


def updated_conditions(
    old: Iterable[VirtualClusterCondition], messages: Mapping[TroubleType, str], now: str
) -> tuple[VirtualClusterCondition, ...] | None:
    """Return a VirtualCluster's new conditions; None if they do not change.

    Conditions of other types remain. A trouble that never occurred has no condition.

    Args:
        old: the present conditions.
        messages: type -> message of the present troubles.
        now: the current time in RFC 3339.
    """
    before = tuple(old)
    after = list(before)
    for kind, reasons in TYPES.items():
        place = next((index for index, condition in enumerate(after) if condition.type == kind), None)
        message = messages.get(kind, "")
        if place is None and not message:
            continue
        known = after[place] if place is not None else None
        status = "True" if message else "False"
        same = known is not None and known.status == status
        condition = VirtualClusterCondition(
            type=kind,
            status=status,
            reason=reasons.present if message else reasons.past,
            message=message,
            last_transition_time=known.last_transition_time if known is not None and same else now,
        )
        if place is None:
            after.append(condition)
        else:
            after[place] = condition
    return tuple(after) if tuple(after) != before else None


def problems(conditions: Iterable[VirtualClusterCondition]) -> list[VirtualClusterCondition]:
    """Return the conditions of a VirtualCluster that report a trouble."""
    return [condition for condition in conditions if condition.type in TYPES and condition.status == "True"]


def _order(trouble: Trouble) -> tuple[str, str, str]:
    return trouble.tenant, trouble.type, trouble.message


def _trouble(tenant: str, kind: TroubleType, message: str) -> Trouble:
    return Trouble(tenant=tenant, type=kind, message=message[:LONGEST_REPORTED])

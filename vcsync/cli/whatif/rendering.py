"""Formats answers of `vcsync what-if` and `vcsync rebalance` as tables and plain values. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from vcsync.cli.command.output import table
from vcsync.cli.tenant.limits import shown_failover
from vcsync.objects.readable_amounts import readable
from vcsync.whatif.advice import Advice
from vcsync.whatif.answer import Answer, NamespaceChange, SuperChange, Use, decimal
from vcsync.whatif.lost import LostSlices, LostSuper, PodFates
from vcsync.whatif.rebalance import Proposal, ShownScore
from vcsync.whatif.snapshot import as_plain

_SUPERS = ("SUPER CLUSTER", "SLICES", "CPU", "MEMORY", "PODS", "PRICE PER HOUR")
_MOVES = ("NAMESPACE", "FROM", "TO", "WAITING", "SLICE")
_LOST = ("LOST", "NAMESPACE", "POLICY", "LEAVE", "STAY", "BECAUSE")
_PODS = (
    "LOST",
    "NAMESPACE",
    "PODS",
    "REPLACED",
    "WAIT FOR FENCE",
    "WAIT FOR RETURN",
    "REPLACED OR WAIT",
)


def counts(slices: Mapping[str, int], waiting: int = 0) -> str:
    """Format numbers of slices for one cell: `r1: 2, r2: 1, 3 wait`."""
    parts = [f"{super_id}: {number}" for super_id, number in sorted(slices.items())]
    if waiting:
        parts.append(f"{waiting} wait{'s' if waiting == 1 else ''}")
    return ", ".join(parts)


def answer_text(found: Answer) -> str:
    """Format an answer for people: sentences, then super clusters, namespaces, what is lost, and reasons of those that wait."""
    states = {each.super_cluster: _state(each) for each in found.lost}
    supers = [_super_row(each, states.get(each.super_cluster, "")) for each in found.super_clusters]
    parts = ["\n".join(_summary(found)), table(_SUPERS, supers)]
    rows = [_move_row(each) for each in found.namespaces]
    if rows:
        parts.append(table(_MOVES, rows))
    if found.lost_slices:
        parts.append(table(_LOST, map(_lost_row, found.lost_slices)))
    if pods := [_pods_row(each, each.pods) for each in found.lost_slices if each.pods is not None]:
        parts.append(table(_PODS, pods))
    waits = [(_name(each), each.reason) for each in found.namespaces if each.reason]
    if waits:
        parts.append(table(("NAMESPACE", "WAITS BECAUSE"), waits))
    return "\n\n".join(parts)


def _summary(found: Answer) -> Iterator[str]:
    stay = f"{found.staying} stay{'s' if found.staying == 1 else ''} on what is lost, " if found.lost else ""
    yield f"{found.moved} slice{_s(found.moved)} move{'s' if found.moved == 1 else ''}, {stay}{_waiting(found)}."
    if found.price_before or found.price_after:
        yield f"The price per hour goes from {decimal(found.price_before)} to {decimal(found.price_after)}."
    yield from map(_lost_sentence, found.lost)
    if left := sum(each.leave for each in found.lost_slices):
        back = sum(each.leave for each in found.lost_slices if each.fail_back != "Never")
        leave = f"{left} slice{_s(left)} that leave{'s' if left == 1 else ''}"
        yield f"Of {leave}, {back} may go back after the return, as the tenants' fail-back says."
    if any(each.pods is None and each.failover.policy == "MoveStateless" for each in found.lost_slices):
        yield "Slices with the policy MoveStateless are counted as if no Pod had a claim, since Pods are not known: give --pods."
    if not found.settled:
        yield f"Decisions did not come to an end in {found.rounds} rounds."


def _state(lost: LostSuper) -> str:
    return "fenced" if lost.fenced else "lost" if lost.health == "Lost" else "out of touch"


def _lost_sentence(lost: LostSuper) -> str:
    if not lost.namespaces:
        return f"{lost.super_cluster} is {_state(lost)}, and has no slices."
    waves = f", in {lost.waves} wave{_s(lost.waves)}" if lost.waves else ""
    return (
        f"{lost.super_cluster} is {_state(lost)}: {lost.leaving} of {lost.namespaces} namespaces "
        f"leave{'s' if lost.leaving == 1 else ''} it{waves}."
    )


def _lost_row(each: LostSlices) -> tuple[str, ...]:
    return (
        each.super_cluster,
        _name(each),
        shown_failover(each.failover),
        str(each.leave),
        str(sum(stay.slices for stay in each.stay)),
        "; ".join(f"{stay.slices}: {stay.reason}" for stay in each.stay) or "-",
    )


def _pods_row(each: LostSlices, pods: PodFates) -> tuple[str, ...]:
    numbers = (pods.replaced, pods.wait_for_fence, pods.wait_for_return, pods.replaced_or_wait)
    return each.super_cluster, _name(each), str(sum(numbers)), *map(str, numbers)


def _waiting(found: Answer) -> str:
    before = "" if found.waiting_before == found.waiting_after else f" instead of {found.waiting_before}"
    return f"{found.waiting_after} wait{'s' if found.waiting_after == 1 else ''}{before}"


def _s(number: int) -> str:
    return "" if number == 1 else "s"


def _super_row(each: SuperChange, state: str) -> tuple[str, ...]:
    shown = "removed" if each.after is None else "added" if each.before is None else state
    return (
        each.super_cluster + (f" ({shown})" if shown else ""),
        _change(*(str(use.slices) if use else "" for use in (each.before, each.after))),
        *(
            _change(*(_share(use, name) for use in (each.before, each.after)))
            for name in ("cpu", "memory", "pods")
        ),
        _change(*(decimal(use.price) if use else "" for use in (each.before, each.after))),
    )


def _share(use: Use | None, name: str) -> str:
    if use is None or name not in use.used:
        return ""
    return f"{readable(use.used[name], name)} of {readable(use.capacity.get(name, '0'), name)}"


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before or '-'} -> {after or '-'}"


def _move_row(each: NamespaceChange) -> tuple[str, ...]:
    return (
        _name(each),
        counts(each.leave),
        counts(each.enter),
        _change(str(each.waiting_before or ""), str(each.waiting_after or "")),
        _change(_size(each.size_before), _size(each.size_after)),
    )


def _name(each: NamespaceChange | LostSlices) -> str:
    return f"{each.tenant}/{each.namespace}"


def _size(size: Mapping[str, str]) -> str:
    return ",".join(
        f"{name}={readable(size[name], name)}" for name in ("cpu", "memory", "pods") if name in size
    )


def advice_text(found: Advice) -> str:
    """Format an advice on headroom for people."""
    if found.percent is None:
        first = f"No headroom survives the loss of any one super cluster: {found.reason}."
    else:
        first = (
            f"A headroom of {found.percent}% on each super cluster survives the loss of any one of them. "
            "After a loss, set the headroom of the others to 0, so that its slices may use it."
        )
    header = ("LOST", "ITS SLICES", "ROOM ELSEWHERE", "PRESENT SLICES THAT WAIT")
    rows = [
        (each.super_cluster, str(each.slices), str(each.room), str(each.waiting)) for each in found.losses
    ]
    counted = f"Slices are counted in the largest size, {_size(found.slice_size)}."
    return "\n\n".join((f"{first}\n{counted}", table(header, rows)))


_PRICES = frozenset({"price", "priceBefore", "priceAfter"})


def answer_plain(found: Answer) -> Any:
    """Return an answer as plain values for JSON and YAML. Prices are decimal numbers in quotes."""
    return _priced(as_plain(found))


def _priced(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: decimal(each) if name in _PRICES and isinstance(each, int) else _priced(each)
            for name, each in value.items()
        }
    return [_priced(each) for each in value] if isinstance(value, list | tuple) else value


_GROUPING = {
    "spread": "slices of a namespace apart",
    "pack": "slices of a namespace together",
    "cheap": "saved of the dearest price",
}


def proposal_text(found: Proposal, policy: str) -> str:
    """Format a proposal for people: a sentence, then the score, super clusters and moves."""
    if not found.moves:
        return f"Nothing moves: no move makes the score of {found.before.total}% better."
    many = "" if found.moved == 1 else "s"
    first = (
        f"{found.moved} slice{many} of at most {found.budget} move{'s' if not many else ''}. "
        f"The score goes from {found.before.total}% to {found.after.total}%."
    )
    return "\n\n".join(
        (
            first,
            table(("SCORE", "BEFORE", "AFTER"), _score_rows(found.before, found.after, policy)),
            table(
                ("SUPER CLUSTER", "SLICES"),
                [
                    (
                        each.super_cluster + ("" if each.moves else " (takes no part)"),
                        str(each.slices_before)
                        if each.slices_before == each.slices_after
                        else f"{each.slices_before} -> {each.slices_after}",
                    )
                    for each in found.super_clusters
                ],
            ),
            table(
                ("NAMESPACE", "FROM", "TO", "SLICES"),
                [
                    (f"{each.tenant}/{each.namespace}", each.source, each.target, str(each.slices))
                    for each in found.moves
                ],
            ),
        )
    )


def _score_rows(before: ShownScore, after: ShownScore, policy: str) -> list[tuple[str, str, str]]:
    return [
        ("balance of use", f"{before.balance}%", f"{after.balance}%"),
        (_GROUPING[policy], f"{before.grouping}%", f"{after.grouping}%"),
        ("mean", f"{before.total}%", f"{after.total}%"),
    ]

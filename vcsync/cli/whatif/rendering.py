"""Formats answers of `vcsync what-if` and `vcsync rebalance` as tables and plain values. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from vcsync.cli.command.output import table
from vcsync.objects.readable_amounts import readable
from vcsync.whatif.advice import Advice
from vcsync.whatif.answer import Answer, NamespaceChange, SuperChange, Use, decimal
from vcsync.whatif.rebalance import Proposal, ShownScore
from vcsync.whatif.snapshot import as_plain

_SUPERS = ("SUPER CLUSTER", "SLICES", "CPU", "MEMORY", "PODS", "PRICE PER HOUR")
_MOVES = ("NAMESPACE", "FROM", "TO", "WAITING", "SLICE")


def counts(slices: Mapping[str, int], waiting: int = 0) -> str:
    """Format numbers of slices for one cell: `r1: 2, r2: 1, 3 wait`."""
    parts = [f"{super_id}: {number}" for super_id, number in sorted(slices.items())]
    if waiting:
        parts.append(f"{waiting} wait{'s' if waiting == 1 else ''}")
    return ", ".join(parts)


def answer_text(found: Answer) -> str:
    """Format an answer for people: a sentence, then super clusters, namespaces, and reasons of those that wait."""
    parts = ["\n".join(_summary(found)), table(_SUPERS, map(_super_row, found.super_clusters))]
    rows = [_move_row(each) for each in found.namespaces]
    if rows:
        parts.append(table(_MOVES, rows))
    waits = [(_name(each), each.reason) for each in found.namespaces if each.reason]
    if waits:
        parts.append(table(("NAMESPACE", "WAITS BECAUSE"), waits))
    return "\n\n".join(parts)


def _summary(found: Answer) -> Iterator[str]:
    yield f"{found.moved} slice{_s(found.moved)} move{'s' if found.moved == 1 else ''}, {_waiting(found)}."
    if found.price_before or found.price_after:
        yield f"The price per hour goes from {decimal(found.price_before)} to {decimal(found.price_after)}."
    if not found.settled:
        yield f"Decisions did not come to an end in {found.rounds} rounds."


def _waiting(found: Answer) -> str:
    before = "" if found.waiting_before == found.waiting_after else f" instead of {found.waiting_before}"
    return f"{found.waiting_after} wait{'s' if found.waiting_after == 1 else ''}{before}"


def _s(number: int) -> str:
    return "" if number == 1 else "s"


def _super_row(each: SuperChange) -> tuple[str, ...]:
    state = " (lost)" if each.after is None else " (added)" if each.before is None else ""
    return (
        each.super_cluster + state,
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


def _name(each: NamespaceChange) -> str:
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

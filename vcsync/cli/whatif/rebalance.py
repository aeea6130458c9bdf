"""`vcsync rebalance`: moves placed slices so that the pool is used more evenly, within a budget."""

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import get_args

import click
from msgspec import Struct

from vcsync.api.moves import MoveRequest, request_annotation, request_of
from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.api.specs import FailBack
from vcsync.cli.command.common import meta_client, meta_option, note, output_option
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.output import document, print_names, table
from vcsync.cli.command.terminal import say
from vcsync.cli.whatif.reading import policy_choice, read_pool
from vcsync.cli.whatif.rendering import proposal_text
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.scheduling.ledger import Key
from vcsync.scheduling.rebalance import DEFAULT_BUDGET
from vcsync.tenancy.movable import requests_of
from vcsync.whatif.rebalance import Found, Proposal, propose
from vcsync.whatif.snapshot import as_plain

_POLL_SECONDS = 1.0


@click.command(
    epilog=example(
        "vcsync rebalance --dry-run",
        "vcsync rebalance --budget 50 --super r1 --super r3",
    ),
)
@click.option("--dry-run", is_flag=True, help="Only show the moves, and the score before and after.")
@click.option(
    "--budget",
    type=click.IntRange(min=1, max=100_000),
    default=DEFAULT_BUDGET,
    show_default=True,
    help="Most slices that move.",
)
@click.option(
    "--super",
    "supers",
    multiple=True,
    metavar="ID",
    help="Move slices only between these super clusters (default: all); repeat it.",
)
@click.option(
    "--policy",
    type=policy_choice,
    default="spread",
    show_default=True,
    help="The namespace scheduler's --policy, which the meta cluster does not know.",
)
@click.option(
    "--fail-back",
    type=click.Choice(get_args(FailBack)),
    default="Never",
    show_default=True,
    help="The namespace scheduler's --fail-back, which the meta cluster does not know either.",
)
@click.option("--no-wait", is_flag=True, help="Do not wait until the slices have moved.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=600.0,
    show_default=True,
    help="Seconds to wait until the slices have moved.",
)
@click.option(
    "--cancel", is_flag=True, help="Take back all moves that have not begun, and move nothing more."
)
@output_option
@meta_option
def rebalance(  # noqa: PLR0917  one command's options
    dry_run: bool,
    budget: int,
    supers: tuple[str, ...],
    policy: str,
    fail_back: FailBack,
    no_wait: bool,
    timeout: float,
    cancel: bool,
    form: str,
    meta: str | None,
) -> None:
    """Move placed slices to super clusters where the pool's score is better with them.

    The leader of the namespace scheduler carries out the moves in waves. It judges each again by its own state of the pool, and
    leaves slices that Pods with claims need. The old place is drained as always, so PodDisruptionBudgets are honoured.
    """
    if cancel:
        asyncio.run(_cancel(meta))
        return
    if len(set(supers)) == 1:
        raise WrongInputError("--super: give at least two super clusters, since slices move between them")
    wish = _Wish(budget, supers, policy, fail_back)
    asyncio.run(_rebalance(wish, dry_run, 0 if no_wait else timeout, form, meta))


class _Wish(Struct, frozen=True):
    """The options about the moves."""

    budget: int
    supers: tuple[str, ...]
    policy: str
    fail_back: FailBack


async def _rebalance(wish: _Wish, dry_run: bool, patience: float, form: str, meta: str | None) -> None:
    async with meta_client(meta) as client:
        pool = await read_pool(client)
        unknown = sorted(set(wish.supers) - {each.name for each in pool[0]})
        if unknown:
            raise WrongInputError(
                f"--super {unknown[0]}: there is no such super cluster; 'vcsync super list' shows them"
            )
        now = datetime.now(UTC)
        found = propose(
            *pool,
            now=now,
            policy=wish.policy,
            budget=wish.budget,
            only=wish.supers,
            fail_back=wish.fail_back,
        )
        _tell(found.proposal, wish.policy, form)
        if dry_run or not found.moves:
            return
        await ask(client, found, now)
        if patience:
            await wait(client, found, patience)
        else:
            note("The namespace scheduler moves them.")


async def ask(client: Client, found: Found, now: datetime) -> None:
    """Write the requests for the moves.

    Raises:
        KubeError: the meta cluster refused or did not answer.
    """
    for (root, name), request in requests_of(found.moves, found.entries, now).items():
        await _annotate(client, (root, name), request)


async def _annotate(client: Client, key: Key, request: MoveRequest | None) -> None:
    change = {"metadata": {"annotations": request_annotation(request)}}
    try:
        await client.patch(NAMESPACE_PLACEMENTS, key[1], change, key[0])
    except NotFound:  # its namespace was deleted
        return


async def _requests(client: Client) -> dict[Key, MoveRequest]:
    found = await client.list(NAMESPACE_PLACEMENTS)
    asked = ((each.key, request_of(each.annotations)) for each in found)
    return {key: request for key, request in asked if request is not None}


async def wait(client: Client, found: Found, patience: float) -> None:
    """Wait until no request is left but those that were refused.

    Raises:
        FailedError: some were refused, or some are left when the time is over.
    """
    keys = {move.key for move in found.moves}
    until, before = time.monotonic() + patience, -1
    while True:
        requests = {key: each for key, each in (await _requests(client)).items() if key in keys}
        left = [key for key, each in requests.items() if not each.refused]
        if len(left) != before:
            before = len(left)
            note(f"{len(keys) - len(requests)} of {len(keys)} namespaces have moved")
        if not left:
            break
        if time.monotonic() > until:
            raise FailedError(
                f"{len(left)} namespaces have not moved after {patience:g} seconds; the namespace scheduler goes on if it runs "
                "('vcsync status'), and 'vcsync rebalance --cancel' takes the moves back"
            )
        await asyncio.sleep(_POLL_SECONDS)
    if requests:
        _tell_refused(found, requests)
        raise FailedError(f"{len(requests)} of {len(keys)} namespaces did not move")


def _tell_refused(found: Found, requests: Mapping[Key, MoveRequest]) -> None:
    shown = {
        move.key: f"{each.tenant}/{each.namespace}"
        for move, each in zip(found.moves, found.proposal.moves, strict=True)
    }
    rows = [(shown[key], each.refused) for key, each in sorted(requests.items())]
    note(table(("NAMESPACE", "NOT MOVED BECAUSE"), rows))


async def _cancel(meta: str | None) -> None:
    async with meta_client(meta) as client:
        number = await cancel_all(client)
    say(f"the moves of {number} namespace{'' if number == 1 else 's'} were taken back")


async def cancel_all(client: Client) -> int:
    """Remove all requests that are not refused. Return their number."""
    keys = [key for key, each in (await _requests(client)).items() if not each.refused]
    for key in keys:
        await _annotate(client, key, None)
    return len(keys)


def _tell(found: Proposal, policy: str, form: str) -> None:
    if form in ("table", "wide"):
        say(proposal_text(found, policy))
    elif form == "name":
        print_names(f"namespace/{each.tenant}/{each.namespace}" for each in found.moves)
    else:
        say(document(as_plain(found), form))

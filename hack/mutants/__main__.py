"""`python -m hack.mutants`: counts the small faults that each room's own unit tests detect."""

import sys
from pathlib import Path

import click

from hack.checkout import ROOT
from hack.mutants.rooms import ROOMS
from hack.mutants.run import MutationError, Verdict, judge


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--room", "rooms", multiple=True, type=click.Choice(list(ROOMS)), help="Room (default all).")
@click.option("--sample", default=150, show_default=True, help="Number of mutants of each room to try.")
@click.option("--seed", default=1, show_default=True, help="Seed of the sample.")
@click.option(
    "--aim", default=90, show_default=True, help="Percent of a room's sample that tests must detect."
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=ROOT / ".mutants",
    help="Folder for copies of the checkout (default .mutants).",
)
def main(rooms: tuple[str, ...], sample: int, seed: int, aim: int, folder: Path) -> None:
    """Insert small faults into rooms, one at a time, and run the room's own unit tests on each.

    Prints the faults that no test detects as diffs. The exit code is 1 if a room misses the aim.
    """
    verdicts: dict[str, Verdict] = {}
    for name in rooms or tuple(ROOMS):
        try:
            verdicts[name] = judge(
                ROOMS[name],
                folder / name,
                sample,
                seed,
                lambda line, name=name: click.echo(f"{name}: {line}"),  # type: ignore[misc]
            )
        except MutationError as error:
            raise click.ClickException(f"{name}: {error}") from error
        for survivor in verdicts[name].survivors:
            click.echo(f"\n{name}: {survivor.status}: {survivor.name}\n{survivor.diff}")
    click.echo(f"\n{'room':<16}{'mutants':>9}{'tried':>7}{'noticed':>9}{'share':>8}")
    for name, verdict in verdicts.items():
        share = 100 * verdict.killed / max(verdict.tried, 1)
        click.echo(f"{name:<16}{verdict.made:>9}{verdict.tried:>7}{verdict.killed:>9}{share:>7.1f}%")
    sys.exit(any(100 * each.killed < aim * each.tried for each in verdicts.values()))


if __name__ == "__main__":
    main()

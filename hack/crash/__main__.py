"""Command line of the crash test."""

import sys
import tempfile
from pathlib import Path

import click

from hack.crash.rounds import Tally, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=1000, show_default=True, help="Number of times to kill the writer.")
@click.option("--longest", default=0.3, show_default=True, help="Maximum seconds that a writer writes.")
@click.option("--seed", default=1, show_default=True, help="Seed of the random moments.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="An empty folder for the database (default: a temporary one).",
)
def main(rounds: int, longest: float, seed: int, folder: Path | None) -> None:
    """Kill a writer to the SQLite store in many rounds; every acknowledged write must exist afterwards."""

    def progress(tally: Tally) -> None:
        if tally.rounds % 50 == 0:
            click.echo(f"{tally.rounds} rounds, {tally.acknowledged} acknowledged transactions, none lost")

    with tempfile.TemporaryDirectory(prefix="vcsync-crash-") as temporary:
        tally = run(folder or Path(temporary), rounds, longest, seed, progress)
    for problem in tally.problems:
        click.echo(problem, err=True)
    click.echo(
        f"{tally.rounds} rounds, {tally.acknowledged} acknowledged transactions, {len(tally.problems)} problems"
    )
    sys.exit(1 if tally.problems else 0)


if __name__ == "__main__":
    main()

"""Command line of the fuzzer."""

import asyncio
import sys
import tempfile
from pathlib import Path

import click

from hack.fuzz import growing
from hack.fuzz.run import Tally, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--requests", default=1_000_000, show_default=True, help="Number of requests to send.")
@click.option("--seed", default=1, show_default=True, help="Seed of all random choices.")
@click.option("--only", default="", help="Send only the requests of these numbers: 17,204.")
@click.option(
    "--grow",
    default=0.0,
    metavar="SECONDS",
    help="Instead, send inputs that grow, and report those that cost superlinear time.",
)
@click.option("--grow-only", default="", metavar="TEXT", help="Grow only inputs whose name contains this.")
@click.option("--log", type=click.Path(dir_okay=False, path_type=Path), help="Keep the server's log here.")
def main(requests: int, seed: int, only: str, grow: float, grow_only: str, log: Path | None) -> None:
    """Send hostile requests to one tenant of an embedded control plane; the exit code is 1 if there are findings."""
    if grow:
        _grow(grow, seed, grow_only)
    printed = 0

    def progress(tally: Tally) -> None:
        nonlocal printed
        for each in tally.findings[printed:]:
            click.echo(each, err=True)
        printed = len(tally.findings)
        click.echo(
            f"{tally.sent:,} requests, {tally.sent / tally.seconds:.0f}/s, slowest {tally.slowest[0]:.1f} s (number {tally.slowest[1]}), "
            f"memory {tally.memory[1] / 2**20:.0f} MB, {len(tally.findings)} findings"
        )

    numbers = tuple(int(each) for each in only.split(",") if each)
    with tempfile.TemporaryDirectory(prefix="vcsync-fuzz-") as folder:
        tally = asyncio.run(run(Path(folder), requests, seed, only=numbers, progress=progress))
        if log is not None:
            log.write_bytes((Path(folder) / "controlplane.log").read_bytes())
    for each in tally.findings[printed:]:
        click.echo(each, err=True)
    codes = ", ".join(f"{code or 'closed'}: {count:,}" for code, count in sorted(tally.codes.items()))
    click.echo(
        f"{tally.sent:,} requests in {tally.seconds:.0f} s; answers {codes}; {len(tally.findings)} findings"
    )
    quiet, quiet_worst, loaded, worst = tally.latency
    click.echo(
        f"the other tenant's reads: {quiet:.1f} ms (99%: {quiet_worst:.1f}) at rest, {loaded:.1f} ms ({worst:.1f}) during "
        f"the run: {loaded / quiet if quiet else 0:.1f} times ({worst / quiet_worst if quiet_worst else 0:.1f})"
    )
    for pattern, count in tally.allowed.most_common():
        click.echo(f"{count:,} answers 500 that are allowed by {pattern}")
    sys.exit(1 if tally.findings else 0)


def _grow(seconds: float, seed: int, only: str) -> None:
    """Send inputs that grow, and end the program."""

    def progress(found: growing.Grown) -> None:
        click.echo(
            f"{found.tried:,} of {found.all:,} inputs in {found.seconds:.0f} s, {len(found.findings)} findings; "
            f"dearest {1000 * found.dearest[0]:.0f} ms: {found.dearest[1]}"
        )

    with tempfile.TemporaryDirectory(prefix="vcsync-grow-") as folder:
        found = asyncio.run(growing.run(Path(folder), seconds, seed, only, progress))
    progress(found)
    for each in found.findings:
        click.echo(each, err=True)
    sys.exit(1 if found.findings or not found.tried else 0)


if __name__ == "__main__":
    main()

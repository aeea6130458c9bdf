"""`python -m hack.bench_door`: measures what the door costs, and what a crowd of tenants costs a quiet one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from hack.attacks.quiet import REQUESTS
from hack.bench_door import crowd, forward
from hack.bench_door import logs as reading

MOST_CPU, MOST_MEMORY, MOST_RATIO, LEAST_RATE = 1.5, 100_000, 1.5, 0.8
"""The aims: milliseconds of CPU added to a get, bytes of a forwarded watch, the ratio of two p99s, and that of two rates."""


@click.group()
def main() -> None:
    """Measure the door, on an otherwise idle machine."""


@main.command()
@click.option("--requests", default=3000, show_default=True, help="Gets of each round.")
@click.option("--watches", default=500, show_default=True, help="Open watches.")
def external(requests: int, watches: int) -> None:
    """Compare a kube-apiserver behind the door with direct access to it."""
    with tempfile.TemporaryDirectory(prefix="vcsync-bench-") as folder:
        gets, watching = forward.run(Path(folder), requests, watches)
    for each in gets:
        click.echo(
            f"get, {each.clients} clients: direct {each.direct.cpu:.2f} ms of CPU, p99 {each.direct.p99:.1f} ms; "
            f"through the door {each.door.cpu:.2f} ms, p99 {each.door.p99:.1f} ms; "
            f"added {each.added:.2f} ms of CPU (aim {MOST_CPU})"
        )
    click.echo(
        f"{watching.count} watches: {watching.memory / 1000:.1f} KB each (aim {MOST_MEMORY / 1000:.0f})"
    )


@main.command()
@click.option("--megabytes", default=100, show_default=True, help="Size of the log.")
def logs(megabytes: int) -> None:
    """Read the log of a real container directly and through the door; needs root."""
    with tempfile.TemporaryDirectory(prefix="vcsync-bench-") as folder:
        direct, door = reading.run(Path(folder), megabytes)
    for name, log in (("direct", direct), ("through the door", door)):
        click.echo(
            f"{name}: {log.size / 1e6:.0f} MB in {log.seconds:.2f} s, {log.rate:.0f} MB/s, "
            f"{1000 * log.cpu / log.size * 1e6:.2f} ms of CPU per MB"
        )
    click.echo(f"ratio of the rates {door.rate / direct.rate:.2f} (aim {LEAST_RATE})")


@main.command()
@click.option("--tenants", default=1000, show_default=True)
@click.option("--watches", default=5000, show_default=True, help="Open watches of all tenants together.")
@click.option("--greedy", default=100, show_default=True, help="Tenants that send 50 times their limit.")
@click.option("--seconds", default=40.0, show_default=True, help="Of each of the three measurements.")
def many(tenants: int, watches: int, greedy: int, seconds: float) -> None:
    """Measure a quiet tenant while greedy ones send to its door, and while they send to another one."""
    with tempfile.TemporaryDirectory(prefix="vcsync-bench-") as folder:
        found = crowd.run(Path(folder), crowd.Size(tenants, watches, greedy), seconds)
    click.echo(
        f"{found.sent:.0f} answers/s to {greedy} greedy tenants, {100 * found.refused:.1f} % refused; the door uses "
        f"{100 * found.busy:.0f} % of a processor; {found.memory / 1000:.1f} KB per open watch"
    )
    click.echo(
        f"{'quiet tenant':12}{'calm p99':>10}{'elsewhere':>11}{'here':>8}{'ratio':>7}   aim {MOST_RATIO}"
    )
    for kind in ("", *REQUESTS):
        calm, elsewhere, here = (each.at(0.99, kind) for each in (found.calm, found.elsewhere, found.here))
        click.echo(f"{kind or 'all':12}{calm:10.1f}{elsewhere:11.1f}{here:8.1f}{here / elsewhere:7.2f}")
    refused = found.calm.refused + found.elsewhere.refused + found.here.refused
    click.echo(f"{refused} of the quiet tenant's requests were refused")


if __name__ == "__main__":
    main()

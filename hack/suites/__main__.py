"""`python -m hack.suites`: runs suites of tests, and remembers which have passed on the present tree."""

import shlex
import shutil
import sys
from pathlib import Path

import click

from hack.suites.catalog import SUITES, Suite, Tier
from hack.suites.results import Result, Results, table
from hack.suites.run import run
from hack.suites.snapshot import clone, tree

BY_NAME = {suite.name: suite for suite in SUITES}
TIERS: tuple[Tier, ...] = ("test", "gate", "verify")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Run suites of tests."""


@main.command(name="list")
def show() -> None:
    """List all suites."""
    for suite in SUITES:
        click.echo(f"{suite.name:<15}{suite.tier:<8}{suite.purpose}")


@main.command(name="run")
@click.argument("names", nargs=-1, required=True, type=click.Choice(list(BY_NAME)))
@click.option("--args", "arguments", default="", help="Further arguments of pytest.")
def run_named(names: tuple[str, ...], arguments: str) -> None:
    """Run suites with their output, whether they have passed or not; stop at the first that fails."""
    results = Results(tree())
    done: list[Result] = []
    for name in names:
        done.append(run(BY_NAME[name], results.folder, shown=True, arguments=shlex.split(arguments)))
        if not arguments:
            results.save(done[-1])
        if not done[-1].green:
            break
    click.echo(f"\n{table(done)}")
    sys.exit(not all(result.green for result in done))


@main.command()
@click.option("--again", is_flag=True, help="Run those that have passed, too.")
@click.argument("names", nargs=-1, type=click.Choice(list(BY_NAME)))
def verify(names: tuple[str, ...], *, again: bool) -> None:
    """Run every suite (or the named ones) that has not passed on the present tree; go on after one that fails.

    They run in a clone of the tree, so that the checkout may change meanwhile.
    """
    results = Results(tree())
    results.forget_old()
    wanted = [BY_NAME[name] for name in names] or list(SUITES)
    root = clone(results.tree, results.folder / "checkout")
    found = [_verified(suite, results, root, again=again) for suite in wanted]
    shutil.rmtree(root, ignore_errors=True)
    click.echo(f"\n{table(found)}")
    for result in found:
        for test in result.failed:
            click.echo(f"FAILED {test}  (log: {result.log})")
        for test in result.flaky:
            click.echo(f"FLAKY {test}  (log: {result.log})")
    red = [result.suite for result in found if not result.green]
    click.echo(f"\n{len(found) - len(red)} passed, {len(red)} failed")
    sys.exit(bool(red))


def _verified(suite: Suite, results: Results, root: Path, *, again: bool) -> Result:
    earlier = results.load(suite.name)
    if earlier and earlier.green and not again:
        click.echo(f"{suite.name}: has passed on this tree")
        return earlier
    click.echo(f"{suite.name}: {suite.purpose} (output: {results.folder / suite.name}.log)")
    result = run(suite, results.folder, shown=False, root=root)
    results.save(result)
    click.echo(f"{suite.name}: {'passed' if result.green else 'FAILED'} in {result.seconds:.0f} s")
    return result


if __name__ == "__main__":
    main()

"""`python -m hack.conformance`: runs the official Kubernetes tests for a tenant and counts those that pass.

Starts a meta cluster, two super clusters with hollow nodes and a tenant's control plane, installs vcsync, runs every
role in its own process, and runs the official end-to-end tests against the tenant. Stops everything that it started.
"""

import json
import re
import sys
import time
from functools import partial
from pathlib import Path

import click

from hack.conformance.environment import (
    FEW_NODES,
    MANY_NODES,
    EmbeddedEnvironment,
    Environment,
    EnvironmentFailed,
)
from hack.conformance.reports import Report, Result
from hack.conformance.runner import Runner
from hack.conformance.tests import (
    EMBEDDED_SHORT,
    EXCLUDED,
    FEW,
    HOLLOW,
    OWN_NODES,
    SHORT,
    WHOLE_SHORT,
    E2eTest,
    InvalidList,
    choose_named,
    exclusion_of,
    read_exclusions,
    read_names,
    read_tests,
)
from hack.conformance.whole import WholeEnvironment
from hack.testbed import BuildError, TestBedError

DIRECTORY = Path(".testbed") / "conformance"


@click.command()
@click.option("--short", is_flag=True, help="The short form: a few minutes, every group of tests.")
@click.option(
    "--embedded",
    is_flag=True,
    help="Test an embedded control plane as a cluster, instead of a tenant with super clusters.",
)
@click.option(
    "--whole",
    is_flag=True,
    help="Use only vcsync's programs: `vcsync up`, its control plane, controllers and hollow clusters.",
)
@click.option(
    "--door",
    is_flag=True,
    help="Reach the tenant through the door: an embedded control plane that forwards all requests to it.",
)
@click.option(
    "--content-type", default="", metavar="TYPE", help="Media type that the tests use (default: protobuf)."
)
@click.option("--focus", metavar="REGEX", help="Only tests whose name this matches.")
@click.option(
    "--names",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run only the tests that this file names, one per line.",
)
@click.option(
    "--parallel", type=click.IntRange(1, 16), default=2, show_default=True, help="Processes at once."
)
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write results here."
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=DIRECTORY,
    show_default=True,
    help="For logs.",
)
def main(
    *,
    short: bool,
    embedded: bool,
    whole: bool,
    door: bool,
    content_type: str,
    focus: str | None,
    names: Path | None,
    parallel: int,
    json_file: Path | None,
    directory: Path,
) -> None:
    """Run the official Kubernetes tests against a tenant; the exit code is 1 unless all pass."""
    chosen = read_names(names.read_text()) if names else None
    folder = directory.absolute()
    try:
        if embedded:
            report = embedded_conformance(
                short=short,
                content_type=content_type,
                focus=focus,
                names=chosen,
                parallel=parallel,
                directory=folder,
            )
        else:
            run = whole_conformance if whole else partial(conformance, door=door)
            report = run(short=short, focus=focus, names=chosen, parallel=parallel, directory=folder)
    except (InvalidList, EnvironmentFailed, TestBedError, BuildError) as error:
        click.echo(f"conformance: {error}", err=True)
        sys.exit(2)
    if json_file:
        json_file.write_text(json.dumps(report.as_json(), indent=1) + "\n")
    click.echo(report.as_text())
    sys.exit(1 if report.failed else 0)


def conformance(
    *,
    directory: Path,
    short: bool = False,
    focus: str | None = None,
    names: list[str] | None = None,
    parallel: int = 2,
    door: bool = False,
) -> Report:
    """Run the selected tests for a tenant in a new environment, and print each result immediately.

    Args:
        directory: for data and logs.
        short: whether to run the short form.
        focus: regular expression; only tests whose name it matches run.
        names: only these tests run; None: all.
        parallel: number of concurrent processes.
        door: whether the tests reach the tenant through the door.

    Raises:
        InvalidList: a list of tests is malformed, or no test is selected.
        EnvironmentFailed: vcsync did not start.
        TestBedError: a server did not start.
        BuildError: a program is missing and cannot be built.
    """
    listed = read_tests(HOLLOW.read_text())
    exclusions = read_exclusions(EXCLUDED.read_text())
    excluded = {test.name: group for test in listed if (group := exclusion_of(test, exclusions))}
    possible = [test for test in listed if test.name not in excluded]
    tests = choose(possible, SHORT if short else None, names, focus)
    click.echo(f"{len(tests)} tests, logs in {directory}")
    few = set(read_names(FEW.read_text()))
    started = time.monotonic()
    results: list[Result] = []
    for nodes, chosen in (
        (MANY_NODES, [test for test in tests if test.name not in few]),
        (FEW_NODES, [test for test in tests if test.name in few]),
    ):
        if chosen:
            folder = directory / f"{nodes.count}-nodes"
            results += run_in(Environment(folder, nodes, door=door), folder, chosen, parallel)
    return Report(results, excluded, time.monotonic() - started)


def whole_conformance(
    *,
    directory: Path,
    short: bool = False,
    focus: str | None = None,
    names: list[str] | None = None,
    parallel: int = 2,
) -> Report:
    """Run the selected tests like `conformance`, on a system that consists only of vcsync's programs.

    Tests that need their own nodes run on a super cluster, which owns its nodes.

    Raises:
        InvalidList, EnvironmentFailed, BuildError: as `conformance` does.
    """
    tests = choose(read_tests(HOLLOW.read_text()), WHOLE_SHORT if short else None, names, focus)
    click.echo(f"{len(tests)} tests, logs in {directory}")
    owning = [each for file in (EXCLUDED, OWN_NODES) for each in read_exclusions(file.read_text())]
    own = [test for test in tests if exclusion_of(test, owning)]
    few = set(read_names(FEW.read_text()))
    others = [test for test in tests if test not in own]
    started = time.monotonic()
    results: list[Result] = []
    for name, nodes, chosen in (
        ("many-nodes", MANY_NODES, [test for test in others if test.name not in few]),
        ("few-nodes", FEW_NODES, [test for test in others if test.name in few]),
        ("own-nodes", FEW_NODES, own),
    ):
        if chosen:
            folder = directory / name
            environment = WholeEnvironment(folder, nodes, own_nodes=chosen is own)
            results += run_in(environment, folder, chosen, parallel)
    return Report(results, {}, time.monotonic() - started)


def embedded_conformance(
    *,
    directory: Path,
    short: bool = False,
    content_type: str = "",
    focus: str | None = None,
    names: list[str] | None = None,
    parallel: int = 2,
) -> Report:
    """Run the selected tests against an embedded control plane that has nodes, a scheduler and controllers.

    Raises:
        InvalidList, TestBedError, BuildError: as `conformance` does.
    """
    tests = choose(read_tests(HOLLOW.read_text()), EMBEDDED_SHORT if short else None, names, focus)
    click.echo(f"{len(tests)} tests, logs in {directory}")
    started = time.monotonic()
    results = run_in(EmbeddedEnvironment(directory, content_type), directory, tests, parallel)
    return Report(results, {}, time.monotonic() - started)


def run_in(
    environment: Environment | EmbeddedEnvironment | WholeEnvironment,
    folder: Path,
    tests: list[E2eTest],
    parallel: int,
) -> list[Result]:
    """Start an environment, run tests in it, and stop it, even if it fails to start.

    Args:
        environment: in which the tests run.
        folder: for their logs.
        tests: the tests to run.
        parallel: number of concurrent processes.

    Raises:
        EnvironmentFailed, TestBedError: it did not start.
    """
    try:
        environment.start()
        return Runner(environment.target, folder, parallel=parallel, on_result=show).run(tests)
    finally:
        environment.stop()


def choose(
    tests: list[E2eTest], listed: Path | None, names: list[str] | None, focus: str | None
) -> list[E2eTest]:
    """Return the tests that are in the file `listed`, in `names`, and match `focus`, as far as these are set.

    Raises:
        InvalidList: no test is left, or a name is unknown.
    """
    if listed is not None:
        tests = choose_named(tests, read_names(listed.read_text()))
    if names is not None:
        tests = choose_named(tests, names)
    if focus:
        tests = [test for test in tests if re.search(focus, test.name)]
    if not tests:
        raise InvalidList("no test is chosen; see --focus")
    return tests


def show(result: Result) -> None:
    """Print a result immediately."""
    click.echo(f"{result.outcome:<8}{result.seconds:7.1f} s  {result.name}")
    if result.outcome != "passed":
        click.echo(f"    {result.message}")


if __name__ == "__main__":
    main()

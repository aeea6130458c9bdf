"""`python -m hack.operators`: runs operators' own test suites on a kube-apiserver and on a tenant, and reports what differs."""

import argparse
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple

import yaml

from hack.operators import kopf_examples, sides
from hack.operators.cases import Case, Comparison, again, compare, total
from hack.operators.catalog import OPERATORS, Operator
from hack.operators.programs import prepare, program, slug

KNOWN: Mapping[str, Mapping[str, str]] = yaml.safe_load(
    (Path(__file__).parent / "known.yaml").read_text(encoding="utf-8")
)
"""Operator -> case that differs -> reason."""
TERMINATED = 143


class Suite(NamedTuple):
    """The tests of one package; `compared` runs them, with the folder for logs. `short`: whether the short form has it."""

    operator: str
    version: str
    package: str
    short: bool
    compared: Callable[[Path], Comparison]


class Result(NamedTuple):
    """Result of the tests of one package."""

    suite: Suite
    comparison: Comparison


def main() -> int:
    """Run the command. Return 0 if every case that passes on the kube-apiserver passes on the tenant, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m hack.operators", description=__doc__)
    parser.add_argument("--short", action="store_true", help="only the packages of the short form")
    parser.add_argument(
        "--only", metavar="REGEX", default="", help="packages that match, such as 'kueue webhook'"
    )
    parser.add_argument("--logs", metavar="DIR", type=Path, help="where to keep logs and reports")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # No process remains.
    wanted = [
        each
        for each in suites()
        if (each.short or not options.short) and re.search(options.only, f"{each.operator} {each.package}")
    ]
    temporary = tempfile.TemporaryDirectory(prefix="vcsync-operators-")
    with nullcontext(options.logs) if options.logs else temporary as logs:
        found = [_run(each, Path(logs).absolute() / each.operator / slug(each.package)) for each in wanted]
    unexpected = [
        case
        for suite, comparison in found
        for case in comparison.worse
        if case.name not in KNOWN.get(suite.operator, {})
    ]
    _report(found)
    whole = total(each.comparison for each in found)
    print(f"{whole.cases} cases in {len(found)} packages, {len(unexpected)} unexpected differences")
    empty = [each.suite.package for each in found if not each.comparison.equal]
    for package in empty:
        print(f"{package}: no case passes on both sides, so nothing was compared", file=sys.stderr)
    return 1 if unexpected or empty or not found else 0


def suites() -> list[Suite]:
    """Return all suites."""
    found = [
        Suite(each.name, each.version, package, package in each.short, partial(_compared, each, package))
        for each in OPERATORS
        for package in each.packages
    ]
    examples = partial(kopf_examples.compared, report=print)
    return [*found, Suite(kopf_examples.NAME, kopf_examples.VERSION, kopf_examples.TESTS, False, examples)]


def _run(suite: Suite, logs: Path) -> Result:
    found = suite.compared(logs)
    print(
        f"{suite.operator} {suite.package}: {found.cases} cases, {found.equal} equal, {len(found.worse)} worse, "
        f"{len(found.better)} better, {len(found.neither)} on neither",
        flush=True,
    )
    for each in found.worse:
        print(f"  worse: {each.name}: {each.message}", flush=True)
    return Result(suite, found)


def _compared(operator: Operator, package: str, logs: Path) -> Comparison:
    """Run the tests of a package of Go on both sides. A case that differs runs a second time on a tenant."""
    test, where = program(operator, package, print), prepare(operator, print) / package
    with sides.kube_apiserver(logs / "bed") as kubeconfig:
        real = sides.run(test, where, kubeconfig, logs / "kube-apiserver")
    found = compare(real, _on_tenant(test, where, logs / "tenant"))
    if found.worse:
        found = again(found, compare(real, _on_tenant(test, where, logs / "tenant-again")))
    return found


def _on_tenant(test: Path, where: Path, folder: Path) -> dict[str, Case]:
    folder.mkdir(parents=True, exist_ok=True)
    with sides.tenant(folder) as kubeconfig:
        return sides.run(test, where, kubeconfig, folder)


def _report(found: Sequence[Result]) -> None:
    """Print a table with a line for each operator, and known differences that are gone."""
    print("\n" + _row("operator", "version", "packages", "cases", "equal", "worse", "better", "neither"))
    every = suites()
    for name, version in dict.fromkeys((each.operator, each.version) for each in every):
        ours = [each.comparison for each in found if each.suite.operator == name]
        if not ours:
            continue
        whole = total(ours)
        counts = (whole.cases, whole.equal, len(whole.worse), len(whole.better), len(whole.neither))
        print(_row(name, version, len(ours), *counts))
        if len(ours) == sum(each.operator == name for each in every):
            for case in sorted(KNOWN.get(name, {}).keys() - {each.name for each in whole.worse}):
                print(f"known.yaml: {name}: {case} passes; remove it", file=sys.stderr)


def _row(name: str, version: str, *counts: object) -> str:
    return f"{name:<20}{version:<10}" + "".join(f"{each!s:>10}" for each in counts)


if __name__ == "__main__":
    sys.exit(main())

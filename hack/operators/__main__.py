"""`python -m hack.operators`: runs operators' own test suites on a kube-apiserver and on a tenant, and reports what differs."""

import argparse
import re
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import yaml

from hack.embedded import ControlPlane
from hack.operators import sides
from hack.operators.cases import Case, Comparison, again, compare, total
from hack.operators.catalog import OPERATORS, Operator
from hack.operators.programs import prepare, program, slug

KNOWN: Mapping[str, Mapping[str, str]] = yaml.safe_load(
    (Path(__file__).parent / "known.yaml").read_text(encoding="utf-8")
)
"""Operator -> case that differs -> reason."""
TERMINATED = 143


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
        (operator, package)
        for operator in OPERATORS
        for package in (operator.short if options.short else operator.packages)
        if re.search(options.only, f"{operator.name} {package}")
    ]
    with (
        nullcontext(options.logs)
        if options.logs
        else tempfile.TemporaryDirectory(prefix="vcsync-operators-") as logs,
        ControlPlane(Path(logs) / "plane", arguments=sides.ALLOWED_WEBHOOKS) as plane,
    ):
        found = [
            (operator, package, _compared(operator, package, plane, Path(logs).absolute()))
            for operator, package in wanted
        ]
    unexpected = [
        (operator, each)
        for operator, _, comparison in found
        for each in comparison.worse
        if each.name not in KNOWN.get(operator.name, {})
    ]
    _report(found)
    print(
        f"{total(each for *_, each in found).cases} cases in {len(found)} packages, {len(unexpected)} unexpected differences"
    )
    return 1 if unexpected or not total(each for *_, each in found).equal else 0


def _compared(operator: Operator, package: str, plane: ControlPlane, logs: Path) -> Comparison:
    """Run the tests of a package on both sides. A case that differs runs a second time on a tenant."""
    test, where = program(operator, package, print), prepare(operator, print) / package
    folder = logs / operator.name / slug(package)
    with sides.kube_apiserver(folder / "bed") as kubeconfig:
        real = sides.run(test, where, kubeconfig, folder / "kube-apiserver")
    found = compare(real, _on_tenant(test, where, plane, folder / "tenant"))
    if found.worse:
        found = again(found, compare(real, _on_tenant(test, where, plane, folder / "tenant-again")))
    print(
        f"{operator.name} {package}: {found.cases} cases, {found.equal} equal, {len(found.worse)} worse, "
        f"{len(found.better)} better, {len(found.neither)} on neither",
        flush=True,
    )
    for each in found.worse:
        print(f"  worse: {each.name}: {each.message}", flush=True)
    return found


def _on_tenant(test: Path, where: Path, plane: ControlPlane, folder: Path) -> dict[str, Case]:
    folder.mkdir(parents=True, exist_ok=True)
    with sides.tenant(plane, folder) as kubeconfig:
        return sides.run(test, where, kubeconfig, folder)


def _report(found: list[tuple[Operator, str, Comparison]]) -> None:
    """Print a table with a line for each operator, and known differences that are gone."""
    print("\n" + _row("operator", "version", "packages", "cases", "equal", "worse", "better", "neither"))
    for operator in OPERATORS:
        ours = [each for other, _, each in found if other is operator]
        if not ours:
            continue
        whole = total(ours)
        counts = (whole.cases, whole.equal, len(whole.worse), len(whole.better), len(whole.neither))
        print(_row(operator.name, operator.version, len(ours), *counts))
        if len(ours) == len(operator.packages):
            for name in sorted(KNOWN.get(operator.name, {}).keys() - {each.name for each in whole.worse}):
                print(f"known.yaml: {operator.name}: {name} passes; remove it", file=sys.stderr)


def _row(name: str, version: str, *counts: object) -> str:
    return f"{name:<20}{version:<10}" + "".join(f"{each!s:>10}" for each in counts)


if __name__ == "__main__":
    sys.exit(main())

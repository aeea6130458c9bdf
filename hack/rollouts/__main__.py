"""`python -m hack.rollouts`: runs Argo Rollouts' end-to-end tests on a tenant of `vcsync up`, and reports what is unexpected."""

import argparse
import re
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

from hack.operators.cases import Case
from hack.operators.whole import hollow_cluster, tenant_of_up
from hack.rollouts.catalog import CASES, ROLLOUTS, known, names
from hack.rollouts.outcomes import Verdict, judge
from hack.rollouts.run import Installation

TERMINATED = 143


def main() -> int:
    """Run the command. Return 0 if every case ended as the table says, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m hack.rollouts", description=__doc__)
    parser.add_argument(
        "--reference",
        action="store_true",
        help="on a hollow cluster of Kubernetes' programs, instead of a tenant",
    )
    parser.add_argument(
        "--only", metavar="REGEX", default="", help="cases that match, such as 'TestCanarySuite/.*Scale'"
    )
    parser.add_argument("--logs", metavar="DIR", type=Path, help="where to keep logs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # No process remains.
    chosen = {
        suite: wanted
        for suite in CASES
        if (wanted := tuple(each for each in names(suite) if re.search(options.only, each)))
    }
    side = hollow_cluster if options.reference else tenant_of_up
    reasons = known(reference=options.reference)
    temporary = tempfile.TemporaryDirectory(prefix="vcsync-rollouts-")
    with nullcontext(options.logs) if options.logs else temporary as folder:
        logs = Path(folder).absolute()
        with side(logs / "cluster") as kubeconfig:
            installation = Installation(kubeconfig, logs, print)
            installation.define()
            with installation.controller():
                verdicts = _run(installation, chosen, reasons)
    _report(verdicts, reasons)
    passed = sum(len(each.passed) + len(each.spared) for each in verdicts.values())
    failed = sum(len(each.known) for each in verdicts.values())
    unexpected = sum(len(each.unexpected) for each in verdicts.values())
    print(f"{passed} cases passed, {failed} failed as known, {unexpected} failed unexpectedly")
    return 1 if unexpected or not passed else 0


def _run(
    installation: Installation, chosen: Mapping[str, Sequence[str]], reasons: Mapping[str, str]
) -> dict[str, Verdict]:
    """Run suites at the same time, then what failed unexpectedly a second time, alone.

    Args:
        installation: where they run.
        chosen: suite -> its cases.
        reasons: case that is expected to fail -> reason.
    """

    def whole(suite: str) -> dict[str, Case]:
        found = installation.run(suite, [_method(each) for each in chosen[suite]], "first")
        print(f"{suite}: {len(found)} cases have run", flush=True)
        return found

    with ThreadPoolExecutor(max(1, len(chosen))) as pool:  # Nearly all of their time is waiting.
        try:
            results = dict(zip(chosen, pool.map(whole, chosen), strict=True))
        except BaseException:
            installation.stop()  # Otherwise the pool waits for the end of the tests.
            raise
    for suite, found in results.items():
        for position, (name, message) in enumerate(judge(chosen[suite], reasons, found).unexpected.items()):
            print(f"{name} failed: {message}; it runs again", flush=True)
            found.update(installation.run(suite, [_method(name)], f"again-{position}"))
    return {suite: judge(chosen[suite], reasons, found) for suite, found in results.items()}


def _method(name: str) -> str:
    return name.partition("/")[2]


def _report(verdicts: Mapping[str, Verdict], reasons: Mapping[str, str]) -> None:
    """Print a table with a line for each suite, then every case that did not pass, and those of the table that did."""
    print(f"\n{ROLLOUTS.name} {ROLLOUTS.version:<18}{'cases':>8}{'passed':>8}{'known':>8}{'failed':>8}")
    for suite, each in verdicts.items():
        passed = len(each.passed) + len(each.spared)
        count = passed + len(each.known) + len(each.unexpected)
        print(f"{suite:<32}{count:>8}{passed:>8}{len(each.known):>8}{len(each.unexpected):>8}")
    for each in verdicts.values():
        for name in each.known:
            print(f"known: {name}: {reasons[name]}")
        for name, message in each.unexpected.items():
            print(f"failed: {name}: {message}")
        for name in each.spared:
            print(f"known.yaml: {name} passes; remove it", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

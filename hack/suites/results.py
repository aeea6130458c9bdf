"""Results of suites, kept outside the checkout under the hash of its tree, so that what has passed need not run again."""

import json
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from hack.testbed.binaries import cache_root

KEPT_SECONDS = 14 * 24 * 3600.0
"""Time after which results of other trees are removed."""


@dataclass(frozen=True)
class Result:
    """The result of one suite.

    Attributes:
        suite: Its name.
        passed: Number of tests that passed, with those that passed at the second try.
        failed: Node ids of the tests that failed; of a suite without pytest, its name.
        flaky: Node ids of the tests that failed first and passed alone.
        problem: Why it is red although no test failed; empty otherwise.
        seconds: Time of the whole suite.
        servers: Most kube-apiservers at the same time.
        log: File with its output.
    """

    suite: str
    passed: int
    failed: tuple[str, ...]
    flaky: tuple[str, ...]
    problem: str
    seconds: float
    servers: int
    log: str

    @property
    def green(self) -> bool:
        """Whether the suite passed."""
        return not self.failed and not self.problem


class Results:
    """The results of one tree.

    Args:
        tree: Hash of the tree.
        root: Folder that has a folder for each tree.
    """

    def __init__(self, tree: str, root: Path | None = None) -> None:
        self._root = root or cache_root().parent / "suites"
        self.tree = tree
        self.folder = self._root / tree

    def load(self, suite: str) -> Result | None:
        """Return the result of a suite, or None if it has not run on this tree."""
        try:
            found = json.loads(self._file(suite).read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            return None
        return Result(**{**found, "failed": tuple(found["failed"]), "flaky": tuple(found["flaky"])})

    def save(self, result: Result) -> None:
        """Keep the result of a suite, in place of an earlier one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self._file(result.suite)
        unfinished = file.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(asdict(result)), encoding="utf-8")
        unfinished.replace(file)

    def _file(self, suite: str) -> Path:
        return self.folder / f"{suite}.json"

    def forget_old(self, now: float | None = None) -> None:
        """Remove the results of trees that have not been used for two weeks."""
        oldest = (now or time.time()) - KEPT_SECONDS
        for folder in self._root.glob("*/"):
            if folder != self.folder and folder.stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)


def table(results: list[Result]) -> str:
    """Return a table of suites, numbers of tests, times and results."""
    lines = [f"{'suite':<15}{'passed':>8}{'failed':>8}{'flaky':>7}{'servers':>9}{'seconds':>9}  result"]
    for each in results:
        verdict = "passed" if each.green else f"FAILED {each.problem}".rstrip()
        lines.append(
            f"{each.suite:<15}{each.passed:>8}{len(each.failed):>8}{len(each.flaky):>7}{each.servers:>9}"
            f"{each.seconds:>9.0f}  {verdict}"
        )
    return "\n".join(lines)

"""A pytest plug-in that writes the outcome of each test to a file, and the reader of that file.

`pytest -p hack.suites.outcomes` with VCSYNC_OUTCOMES=<file> appends one JSON object for each phase of a test.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

VARIABLE = "VCSYNC_OUTCOMES"


@dataclass
class Outcome:
    """The result of one test.

    Attributes:
        test: Its node id.
        failed: Whether a phase failed.
        skipped: Whether it was skipped.
        seconds: Time of all phases.
        text: Output of the failed phases.
    """

    test: str
    failed: bool = False
    skipped: bool = False
    seconds: float = 0.0
    text: str = ""


def pytest_configure(config: pytest.Config) -> None:
    """Write outcomes in the process that gets the reports of all workers."""
    file = os.environ.get(VARIABLE)
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Writer(Path(file)))


class _Writer:
    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        line = {
            "test": report.nodeid,
            "outcome": report.outcome,
            "seconds": report.duration,
            "text": _text(report) if report.failed else "",
        }
        with self._file.open("a", encoding="utf-8") as output:
            output.write(json.dumps(line) + "\n")


def read(file: Path) -> list[Outcome]:
    """Return the outcomes in a file, in the order of the first phases. A missing file has none."""
    return collect(file.read_text(encoding="utf-8").splitlines() if file.exists() else ())


def collect(lines: Iterable[str]) -> list[Outcome]:
    """Return the outcomes of tests from lines of their phases."""
    found: dict[str, Outcome] = {}
    for line in lines:
        phase = json.loads(line)
        outcome = found.setdefault(phase["test"], Outcome(phase["test"]))
        outcome.failed |= phase["outcome"] == "failed"
        outcome.skipped |= phase["outcome"] == "skipped"
        outcome.seconds += phase["seconds"]
        outcome.text += phase["text"]
    return list(found.values())


def _text(report: pytest.TestReport) -> str:
    sections = [f"----- {title} -----\n{content}" for title, content in report.sections]
    return "\n".join([report.longreprtext, *sections])

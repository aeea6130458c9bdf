"""Runs one suite: pytest or another program, with a second chance for tests that failed on real servers."""

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from hack.checkout import ROOT
from hack.suites import outcomes
from hack.suites.catalog import Suite
from hack.suites.census import RUN, Census
from hack.suites.outcomes import Outcome
from hack.suites.results import Result
from hack.testbed.binaries import SERVERS, ensure

MOST_FLAKY = 3
"""Tests that may fail at first and pass alone. With more of them the suite fails."""
MOST_RETRIED = 10
"""Failed tests that get a second chance. With more of them something is broken."""
NOTHING_RAN = 5
"""Exit code of pytest that found no test."""


def run(
    suite: Suite, folder: Path, *, shown: bool, arguments: Sequence[str] = (), root: Path = ROOT
) -> Result:
    """Run a suite and return its result.

    Args:
        suite: The suite.
        folder: Folder for its log and, if it fails, the files and logs of its servers.
        shown: Whether its output goes to standard output as well.
        arguments: Further arguments of pytest.
        root: Checkout that is tested.
    """
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{suite.name}.log"
    census = Census(uuid.uuid4().hex)
    if suite.real:
        ensure((*SERVERS, *suite.programs), lambda line: print(f"test bed: {line}", flush=True))
    with log.open("wb") as output, census.counting():
        environment = {**os.environ, "PYTHONPATH": str(root), **suite.environment, RUN: census.run}
        place = _Place(root, environment, output, shown)
        if suite.command:
            code = place.call(suite.command)
            ran = Ran(1) if code == 0 else Ran(0, (suite.name,))
        else:
            files = folder / suite.name
            ran = _pytest(suite, files, place, arguments)
            if not ran.failed and not ran.problem:
                shutil.rmtree(files, ignore_errors=True)
            else:
                print(f"{suite.name}: logs of the servers are in {files}", flush=True)
    why = ran.problem
    if census.most > suite.servers and not why:
        why = f"{census.most} kube-apiservers ran at the same time, more than {suite.servers}"
        print(f"{suite.name}: {why}: {'; '.join(sorted(census.peak))}", flush=True)
    seconds = time.monotonic() - began
    return Result(suite.name, ran.passed, ran.failed, ran.flaky, why, seconds, census.most, str(log))


@dataclass(frozen=True)
class _Place:
    """Surroundings of the programs of a run: folder, environment, log, and whether their output is shown as well."""

    root: Path
    environment: Mapping[str, str]
    output: IO[bytes]
    shown: bool

    def call(self, module: Sequence[str], **variables: str) -> int:
        """Run a Python module with arguments and return its exit code."""
        with subprocess.Popen(
            [sys.executable, "-m", *module],
            cwd=self.root,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            for line in process.stdout or ():
                self.output.write(line)
                self.output.flush()
                if self.shown:
                    sys.stdout.buffer.write(line)
                    sys.stdout.buffer.flush()
        return process.returncode


class Ran(NamedTuple):
    """Outcome of a program of tests: number of passed tests, node ids of failed and flaky ones, another problem."""

    passed: int
    failed: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    problem: str = ""


def _pytest(suite: Suite, folder: Path, place: _Place, arguments: Sequence[str]) -> Ran:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    spread = ("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder")
    first, code = _attempt((*spread, *suite.arguments, *arguments, *suite.paths), folder / "first", place)
    failures = [each for each in first if each.failed]
    again: list[Outcome] = []
    if suite.real and 0 < len(failures) <= MOST_RETRIED:
        print(f"\n{suite.name}: {len(failures)} failed; they run again, alone", flush=True)
        again, code = _attempt(("-n", "0", *(each.test for each in failures)), folder / "second", place)
    passed_alone = {each.test for each in again if not each.failed}
    flaky = tuple(each.test for each in failures if each.test in passed_alone)
    failed = tuple(each.test for each in failures if each.test not in passed_alone)
    for each in failures:
        if each.test in passed_alone:
            print(f"\nFLAKY {each.test}: failed, then passed alone\n{each.text}", flush=True)
    skipped = [each.test for each in first if each.skipped]
    passed = len(first) - len(failed) - len(skipped)
    if code == NOTHING_RAN and arguments:
        return Ran(0)  # a selection that concerns other suites
    return Ran(passed, failed, flaky, problem(code, len(first), failed, flaky, skipped))


def problem(
    code: int, count: int, failed: Sequence[str], flaky: Sequence[str], skipped: Sequence[str]
) -> str:
    """Return why a run is red although no test failed; empty: it is not, or a test failed.

    Args:
        code: Exit code of the last pytest.
        count: Number of tests that ran.
        failed: Tests that failed.
        flaky: Tests that failed and then passed alone.
        skipped: Tests that did not run.
    """
    if failed:
        return ""
    if len(flaky) > MOST_FLAKY:
        return f"{len(flaky)} flaky tests, more than {MOST_FLAKY}"
    if skipped:
        return f"skipped: {', '.join(skipped)}"
    if code == NOTHING_RAN or count == 0:
        return "no test ran"
    return f"pytest ended with {code}" if code else ""


def _attempt(arguments: Sequence[str], folder: Path, place: _Place) -> tuple[list[Outcome], int]:
    file = folder.parent.with_suffix(f".{folder.name}.jsonl")
    file.unlink(missing_ok=True)
    command = ("pytest", *arguments, "-p", "hack.suites.outcomes", f"--basetemp={folder}")
    code = place.call(command, **{outcomes.VARIABLE: str(file)})
    return outcomes.read(file), code

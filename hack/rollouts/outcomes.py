"""Results of Argo Rollouts' tests, and what is unexpected about them. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hack.operators.cases import Case, results

_NOW = re.compile(r"^=== (?:RUN|CONT|NAME)\s+(\S+)")
_TOLD = re.compile(r"^\s+(?:\w+\.go:\d+: |Error:\s+)(.+)")
"""Message of `t.Fatal`, or of an assertion of testify, which begins below its first line."""
_LOGGED = re.compile(r'\blevel=(?:error|fatal|warning) msg="((?:[^"\\]|\\.)*)"')
_SHOWN = 300
"""Characters of the message of a failure."""


class Verdict(NamedTuple):
    """Results of the fixed cases, compared with the table.

    Attributes:
        passed: Cases that passed as expected.
        known: Cases that failed as the table says.
        unexpected: Case that failed or did not run -> its message.
        spared: Cases of the table that passed.
    """

    passed: tuple[str, ...]
    known: tuple[str, ...]
    unexpected: Mapping[str, str]
    spared: tuple[str, ...]


def cases(log: str) -> dict[str, Case]:
    """Return name -> result of each case in the output of a test program with `-test.v`, without the suites themselves.

    A failed case has the last message that the test printed about it, or the last warning or error that it logged.
    """
    told: dict[str, str] = {}
    logged: dict[str, str] = {}
    now = ""
    for line in log.splitlines():
        if found := _NOW.match(line):
            now = found[1]
        elif found := _TOLD.match(line):
            told[now] = found[1]
        elif found := _LOGGED.search(line):
            logged[now] = found[1].replace('\\"', '"')
    return {
        name: case
        if case.outcome == "passed"
        else Case("failed", _shown(told.get(name) or logged.get(name, "")))
        for name, case in results(log).items()
        if "/" in name
    }


def judge(expected: Iterable[str], known: Mapping[str, str], found: Mapping[str, Case]) -> Verdict:
    """Compare the results with the table.

    Args:
        expected: names of the cases that must run.
        known: name of each case that is expected to fail -> reason.
        found: the results.
    """
    passed: list[str] = []
    failed: list[str] = []
    spared: list[str] = []
    unexpected: dict[str, str] = {}
    for name in expected:
        case = found.get(name, Case("failed", "it did not run"))
        if case.outcome == "passed":
            (spared if name in known else passed).append(name)
        elif name in known:
            failed.append(name)
        else:
            unexpected[name] = case.message
    return Verdict(tuple(passed), tuple(failed), unexpected, tuple(spared))


def _shown(text: str) -> str:
    return " ".join(text.split())[:_SHOWN]

"""The official tests, the excluded ones with their reasons, and the distribution of tests over batches. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
HOLLOW = FOLDER / "hollow.tsv"
"""Tests that pass on one ordinary Kubernetes cluster with hollow nodes: seconds, name, ..., tab-separated."""
EXCLUDED = FOLDER / "excluded.tsv"
"""Groups of tests about features that a tenant does not have: group, pattern, reason, tab-separated."""
SHORT = FOLDER / "short.txt"
"""Names of the short form's tests, one per line; `#` starts a comment."""
EMBEDDED_SHORT = FOLDER / "embedded.txt"
"""Names of the tests that an embedded control plane passes, for CI."""
WHOLE_SHORT = FOLDER / "whole.txt"
"""Names of the short form's tests for a system of only vcsync's programs."""
OWN_NODES = FOLDER / "own_nodes.tsv"
"""Tests that need their own nodes if the controllers are vcsync's, besides `EXCLUDED`: group, pattern, reason."""
FEW = FOLDER / "few_nodes.txt"
"""Names of the tests that need a cluster with few nodes."""

BATCH_SECONDS = 90.0
BATCH_TESTS = 25
SUITE = "Kubernetes e2e suite"
"""The suite's title, which precedes the name of every test that the test program matches."""


class InvalidList(Exception):
    """One of the lists is invalid; the text names file and line."""


@dataclass(frozen=True)
class E2eTest:
    """One official test.

    `seconds`: its duration on an ordinary cluster.
    """

    name: str
    seconds: float

    @property
    def sig(self) -> str:
        """The special interest group that owns it, e.g. `sig-apps`."""
        match = re.match(r"\[(sig-[a-z-]+)\]", self.name)
        return match[1] if match else "none"

    @property
    def serial(self) -> bool:
        """Return whether it must run alone."""
        return "[Serial]" in self.name or "[Disruptive]" in self.name


@dataclass(frozen=True)
class Exclusion:
    """A group of tests that need a feature that a tenant does not have."""

    group: str
    pattern: re.Pattern[str]
    reason: str


def read_tests(text: str) -> list[E2eTest]:
    """Read the list of tests.

    Raises:
        InvalidList: a line has no seconds or no name.
    """
    tests = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split("\t")
        try:
            tests.append(E2eTest(fields[1], float(fields[0])))
        except (IndexError, ValueError):
            raise InvalidList(f"list of tests, line {number}: needs seconds, a tab and a name") from None
    return tests


def read_exclusions(text: str) -> list[Exclusion]:
    """Read the excluded groups.

    Raises:
        InvalidList: a line does not have three fields.
    """
    exclusions = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 3 or not all(fields):
            raise InvalidList(
                f"excluded groups, line {number}: needs group, pattern and reason, separated by tabs"
            )
        exclusions.append(Exclusion(fields[0], re.compile(fields[1]), fields[2]))
    return exclusions


def read_names(text: str) -> list[str]:
    """Read a list of names, one per line, and skip comments."""
    return [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]


def exclusion_of(test: E2eTest, exclusions: Iterable[Exclusion]) -> Exclusion | None:
    """Return the group that excludes a test, if any."""
    return next((exclusion for exclusion in exclusions if exclusion.pattern.search(test.name)), None)


def choose_named(tests: Iterable[E2eTest], names: Sequence[str]) -> list[E2eTest]:
    """Return the tests of these names.

    Raises:
        InvalidList: a name is unknown or excluded.
    """
    by_name = {test.name: test for test in tests}
    if unknown := [name for name in names if name not in by_name]:
        raise InvalidList(f"unknown or excluded test: {unknown[0]}")
    return [by_name[name] for name in names]


def batches(tests: Sequence[E2eTest], parallel: int = 1) -> list[list[E2eTest]]:
    """Distribute tests over batches of about `BATCH_SECONDS`, the longest tests first, so that none delays the end.

    If the tests take less time, each of the `parallel` processes gets an equal share.
    """
    share = sum(test.seconds for test in tests) / parallel + 1
    limit = min(BATCH_SECONDS, share)
    filled: list[list[E2eTest]] = []
    seconds: list[float] = []
    for test in sorted(tests, key=lambda test: (-test.seconds, test.name)):
        for position, batch in enumerate(filled):
            if seconds[position] + test.seconds <= limit and len(batch) < BATCH_TESTS:
                batch.append(test)
                seconds[position] += test.seconds
                break
        else:
            filled.append([test])
            seconds.append(test.seconds)
    return filled


def focus(tests: Iterable[E2eTest]) -> str:
    """Return the regular expression that matches exactly these tests, for `--ginkgo.focus`."""
    return f"^{SUITE} ({'|'.join(quoted(test.name) for test in tests)})$"


def quoted(name: str) -> str:
    """Return a Go regular expression that matches a name; Go allows a backslash only before punctuation."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", name)

"""Which official tests there are, which are left out and why, and how they are dealt out in batches. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
HOLLOW = FOLDER / "hollow.tsv"
"""Tests that pass on one ordinary Kubernetes cluster with hollow nodes: seconds, name, ..., tab-separated."""
EXCLUDED = FOLDER / "excluded.tsv"
"""Groups of them that a tenant does not have: group, pattern, reason, tab-separated."""
SHORT = FOLDER / "short.txt"
"""Names of the short form's tests, one a line; `#` begins a comment."""
EMBEDDED_SHORT = FOLDER / "embedded.txt"
"""Names of the tests that an embedded control plane passes, for CI."""
WHOLE_SHORT = FOLDER / "whole.txt"
"""Names of the short form's tests where everything is ours."""
OWN_NODES = FOLDER / "own_nodes.tsv"
"""What besides `EXCLUDED` needs nodes of one's own where the controllers are ours: group, pattern, reason."""
FEW = FOLDER / "few_nodes.txt"
"""Names of tests that need a cluster of few nodes."""

BATCH_SECONDS = 90.0
BATCH_TESTS = 25
SUITE = "Kubernetes e2e suite"
"""The suite's title, part of what the test program matches names against."""


class InvalidList(Exception):
    """One of the lists is not as it should be; the text names file and line."""


@dataclass(frozen=True)
class E2eTest:
    """One official test.

    `seconds`: what it took on an ordinary cluster.
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
        """Whether it must run alone."""
        return "[Serial]" in self.name or "[Disruptive]" in self.name


@dataclass(frozen=True)
class Exclusion:
    """Tests that ask for something that a tenant does not have."""

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
    """Read the groups that are left out.

    Raises:
        InvalidList: a line has not three fields.
    """
    exclusions = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 3 or not all(fields):
            raise InvalidList(
                f"excluded groups, line {number}: needs group, pattern and reason, tabs between"
            )
        exclusions.append(Exclusion(fields[0], re.compile(fields[1]), fields[2]))
    return exclusions


def read_names(text: str) -> list[str]:
    """Read a list of names, one a line, without its comments."""
    return [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]


def exclusion_of(test: E2eTest, exclusions: Iterable[Exclusion]) -> Exclusion | None:
    """The group by which a test is left out, if any."""
    return next((exclusion for exclusion in exclusions if exclusion.pattern.search(test.name)), None)


def choose_named(tests: Iterable[E2eTest], names: Sequence[str]) -> list[E2eTest]:
    """The tests of these names.

    Raises:
        InvalidList: there is none of a name.
    """
    by_name = {test.name: test for test in tests}
    if unknown := [name for name in names if name not in by_name]:
        raise InvalidList(f"no such test, or it is left out: {unknown[0]}")
    return [by_name[name] for name in names]


def batches(tests: Sequence[E2eTest], parallel: int = 1) -> list[list[E2eTest]]:
    """Deal tests out in batches of about `BATCH_SECONDS`, the longest first, so that none holds up the end.

    Few tests are dealt out evenly to so many processes.
    """
    share = sum(test.seconds for test in tests) / parallel + 1
    limit = min(BATCH_SECONDS, share)
    dealt: list[list[E2eTest]] = []
    seconds: list[float] = []
    for test in sorted(tests, key=lambda test: (-test.seconds, test.name)):
        for position, batch in enumerate(dealt):
            if seconds[position] + test.seconds <= limit and len(batch) < BATCH_TESTS:
                batch.append(test)
                seconds[position] += test.seconds
                break
        else:
            dealt.append([test])
            seconds.append(test.seconds)
    return dealt


def focus(tests: Iterable[E2eTest]) -> str:
    """The regular expression that matches exactly these tests, for `--ginkgo.focus`."""
    return f"^{SUITE} ({'|'.join(quoted(test.name) for test in tests)})$"


def quoted(name: str) -> str:
    """A name as a regular expression of Go, in which a backslash may stand before punctuation only."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", name)

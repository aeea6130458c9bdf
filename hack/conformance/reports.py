"""Results of the tests: parses the test program's report and formats our own. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal
from xml.etree import ElementTree

from hack.conformance.tests import E2eTest, Exclusion

Outcome = Literal["passed", "failed", "skipped"]
"""`skipped`: the test decided by itself that it does not apply here."""

_ITEM = "[It] "
_LONGEST_MESSAGE = 500


@dataclass(frozen=True)
class Result:
    """The result of one test. `message`: the first lines of its failure, of the first run if it was `repeated`."""

    name: str
    outcome: Outcome
    seconds: float
    message: str = ""
    repeated: bool = False


def read_junit(text: str, tests: Iterable[E2eTest]) -> dict[str, Result]:
    """Parse the results of the tests that ran from a report in JUnit format.

    Tests that had not started when the run was interrupted are absent.

    Raises:
        xml.etree.ElementTree.ParseError: the report was cut off.
    """
    names = {test.name for test in tests}
    results: dict[str, Result] = {}
    for case in ElementTree.fromstring(text).iter("testcase"):  # noqa: S314 - written by a program of ours
        name = _name(case.get("name", ""), names)
        status = case.get("status", "")
        skipped = case.find("skipped")
        if name is None or (status == "skipped" and not _skipped_itself(skipped)):
            continue
        outcome: Outcome = "passed" if status == "passed" else "skipped" if status == "skipped" else "failed"
        results[name] = Result(name, outcome, float(case.get("time", "0")), _message(case))
    return results


def _name(title: str, names: set[str]) -> str | None:
    """Return the name of the test in a title, without the labels in brackets that follow it."""
    text = title.removeprefix(_ITEM)
    while text and text not in names:
        text = text.rpartition(" [")[0]
    return text or None


def _skipped_itself(element: ElementTree.Element | None) -> bool:
    return element is not None and " - " in (element.get("message") or "")


def _message(case: ElementTree.Element) -> str:
    for tag in ("failure", "error", "skipped"):
        element = case.find(tag)
        if element is not None:
            return short_message(element.get("message") or element.text or "")
    return ""


def short_message(text: str) -> str:
    """Return the start of a failure's text as one line."""
    return " ".join(text.split())[:_LONGEST_MESSAGE]


@dataclass(frozen=True)
class Report:
    """A whole run."""

    results: Sequence[Result]
    excluded: Mapping[str, Exclusion]
    """Name of each excluded test -> the group that excludes it."""
    seconds: float

    @property
    def passed(self) -> int:
        return sum(result.outcome == "passed" for result in self.results)

    @property
    def failed(self) -> list[Result]:
        """Return all results that did not pass. They include skipped tests, because these pass on an ordinary cluster."""
        return [result for result in self.results if result.outcome != "passed"]

    @property
    def repeated(self) -> list[Result]:
        """Return the tests that passed only when repeated alone: each reveals a race in vcsync or in the test."""
        return [result for result in self.results if result.repeated and result.outcome == "passed"]

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "possible": len(self.results),
            "passed": self.passed,
            "seconds": round(self.seconds),
            "results": [asdict(result) for result in sorted(self.results, key=lambda result: result.name)],
            "excluded": {name: exclusion.group for name, exclusion in sorted(self.excluded.items())},
        }

    def as_text(self) -> str:
        """Format the report for people: a table by sig, the excluded tests, every failure."""
        lines = ["", f"{'SIG':<24}{'PASSED':>8}{'POSSIBLE':>10}{'SECONDS':>9}"]
        for sig in sorted({_sig(result) for result in self.results}):
            mine = [result for result in self.results if _sig(result) == sig]
            passed = sum(result.outcome == "passed" for result in mine)
            seconds = sum(result.seconds for result in mine)
            lines.append(f"{sig:<24}{passed:>8}{len(mine):>10}{seconds:>9.0f}")
        groups: dict[str, int] = {}
        for exclusion in self.excluded.values():
            groups[exclusion.group] = groups.get(exclusion.group, 0) + 1
        lines += ["", *(f"left out: {group} ({count} tests)" for group, count in sorted(groups.items()))]
        lines += [
            "",
            *(f"passed when repeated: {result.name}\n    {result.message}" for result in self.repeated),
        ]
        lines += ["", *(f"{result.outcome}: {result.name}\n    {result.message}" for result in self.failed)]
        lines += ["", f"{self.passed} passed of {len(self.results)} possible, in {self.seconds:.0f} s"]
        return "\n".join(lines)


def _sig(result: Result) -> str:
    return E2eTest(result.name, 0).sig

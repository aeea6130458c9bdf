"""Results of test programs of Go, as data, and their comparison. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple
from xml.etree import ElementTree

Outcome = Literal["passed", "failed"]
_LINE = re.compile(r"^\s*--- (PASS|FAIL): (\S+)", re.MULTILINE)
_SUITE = re.compile(r"^Test\w+$")
_SHOWN = 300
"""Characters of the message of a failure."""


class Case(NamedTuple):
    """The result of one case; `message`: why it failed."""

    outcome: Outcome
    message: str = ""


class Difference(NamedTuple):
    """A case that passes on the kube-apiserver, and not on the tenant."""

    name: str
    message: str


class Comparison(NamedTuple):
    """The cases of one package.

    Attributes:
        cases: Number of cases that ran on either side.
        equal: Number of cases that passed on both sides.
        worse: Cases that passed on the kube-apiserver only.
        better: Names of cases that passed on the tenant only.
        neither: Names of cases that passed on no side.
    """

    cases: int
    equal: int
    worse: tuple[Difference, ...]
    better: tuple[str, ...]
    neither: tuple[str, ...]


def results(log: str, report: str = "") -> dict[str, Case]:
    """Return name -> result of each case that ran.

    Args:
        log: output of the program with `-test.v`.
        report: report of Ginkgo in the format of JUnit; "" if the package does not use it. Then functions of Go that only
            start Ginkgo are no cases.
    """
    found: dict[str, Case] = {}
    for case in ElementTree.fromstring(report).iter("testcase") if report else ():  # noqa: S314  our own program wrote it
        name, state = case.get("name", ""), case.get("status", "")
        if state not in ("skipped", "pending") and name.startswith("[It]"):
            found[name] = Case("passed") if state == "passed" else Case("failed", _message(case))
    for word, name in _LINE.findall(log):
        if not (report and _SUITE.match(name)):
            found[name] = Case("passed" if word == "PASS" else "failed")
    return found


def results_of_pytest(report: str) -> dict[str, Case]:
    """Return name -> result of each case of pytest's report in the format of JUnit; skipped ones are left out."""
    found: dict[str, Case] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):  # noqa: S314  our own program wrote it
        broken = case.find("failure") is not None or case.find("error") is not None
        if case.find("skipped") is None:
            found[case.get("name", "")] = Case("failed", _message(case)) if broken else Case("passed")
    return found


def _message(case: ElementTree.Element) -> str:
    failure = next((each for tag in ("failure", "error") if (each := case.find(tag)) is not None), None)
    text = "" if failure is None else failure.get("message") or failure.text or ""
    return " ".join(text.split())[:_SHOWN]


def compare(real: Mapping[str, Case], ours: Mapping[str, Case]) -> Comparison:
    """Compare the results on a kube-apiserver with those on a tenant."""
    names = sorted({*real, *ours})
    passed = {side: {name for name in names if name in found and found[name].outcome == "passed"}
              for side, found in (("real", real), ("ours", ours))}  # fmt: skip
    worse = tuple(
        Difference(name, ours[name].message if name in ours else "it did not run")
        for name in names
        if name in passed["real"] - passed["ours"]
    )
    return Comparison(
        len(names),
        len(passed["real"] & passed["ours"]),
        worse,
        tuple(sorted(passed["ours"] - passed["real"])),
        tuple(name for name in names if name not in passed["real"] | passed["ours"]),
    )


def again(first: Comparison, second: Comparison) -> Comparison:
    """Return the first comparison without the differences that a second run has not shown again."""
    lasting = {each.name for each in second.worse}
    worse = tuple(each for each in first.worse if each.name in lasting)
    return first._replace(equal=first.equal + len(first.worse) - len(worse), worse=worse)


def total(found: Iterable[Comparison]) -> Comparison:
    """Return the comparisons of several packages as one."""
    every = list(found)
    return Comparison(
        sum(each.cases for each in every),
        sum(each.equal for each in every),
        tuple(case for each in every for case in each.worse),
        tuple(name for each in every for name in each.better),
        tuple(name for each in every for name in each.neither),
    )

"""The lists of official tests, their distribution over batches, and the parsing of reports."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hack.conformance.reports import Outcome, Report, Result, read_junit
from hack.conformance.runner import Progress, Runner, Target, limit_of
from hack.conformance.tests import (
    BATCH_SECONDS,
    BATCH_TESTS,
    EXCLUDED,
    HOLLOW,
    OWN_NODES,
    SHORT,
    WHOLE_SHORT,
    E2eTest,
    Exclusion,
    InvalidList,
    batches,
    choose_named,
    exclusion_of,
    focus,
    read_exclusions,
    read_names,
    read_tests,
)

LISTED = read_tests(HOLLOW.read_text())
EXCLUSIONS = read_exclusions(EXCLUDED.read_text())
ALL_GROUPS = [*EXCLUSIONS, *read_exclusions(OWN_NODES.read_text())]

PODS = E2eTest("[sig-node] Pods should get a host IP [NodeConformance] [Conformance]", 2.1)
QUOTA = E2eTest("[sig-api-machinery] ResourceQuota should work. [Conformance]", 9.0)
QUOTA_MORE = E2eTest("[sig-api-machinery] ResourceQuota should work. [Conformance] [Slow]", 9.0)


def junit(*cases: str) -> str:
    return f'<testsuites><testsuite name="Kubernetes e2e suite">{"".join(cases)}</testsuite></testsuites>'


def case(name: str, status: str, inside: str = "") -> str:
    return (
        f'<testcase name="[It] {name} [sig-x, Conformance]" status="{status}" time="1.5">{inside}</testcase>'
    )


def test_the_list_names_each_test_once() -> None:
    assert len({test.name for test in LISTED}) == len(LISTED) == 367


@pytest.mark.parametrize("exclusion", ALL_GROUPS, ids=lambda exclusion: exclusion.group)
def test_every_excluded_group_has_tests_and_a_reason(exclusion: Exclusion) -> None:
    assert any(exclusion_of(test, [exclusion]) for test in LISTED)


@pytest.mark.parametrize(
    "name",
    [
        "[sig-scheduling] LimitRange should list, patch and delete a LimitRange by collection [Conformance]",
        "[sig-storage] PV Protection Verify that PV bound to a PVC is not removed immediately",
        "[sig-auth] ServiceAccounts should update a ServiceAccount [Conformance]",
    ],
)
def test_tests_of_features_that_a_tenant_has_are_not_excluded(name: str) -> None:
    (test,) = choose_named(LISTED, [name])
    assert exclusion_of(test, EXCLUSIONS) is None


def test_the_short_form_names_tests_that_a_tenant_has() -> None:
    possible = [test for test in LISTED if exclusion_of(test, EXCLUSIONS) is None]
    chosen = choose_named(possible, read_names(SHORT.read_text()))
    assert {test.sig for test in chosen} == {test.sig for test in possible}
    assert sum(test.seconds for test in chosen) < 2 * 180


def test_the_short_form_for_only_our_programs_takes_seconds() -> None:
    possible = [test for test in LISTED if exclusion_of(test, ALL_GROUPS) is None]
    chosen = choose_named(possible, read_names(WHOLE_SHORT.read_text()))
    assert not any(test.serial for test in chosen)
    assert sum(test.seconds for test in chosen) < 60


@pytest.mark.parametrize("text", ["1.0", "fast\tname\t2\t-"])
def test_a_broken_list_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(InvalidList, match="line 1"):
        read_tests(text)


def test_an_exclusion_without_a_reason_is_refused() -> None:
    with pytest.raises(InvalidList, match="line 2"):
        read_exclusions("# comment\nNodes\tNode\t\n")


def test_a_name_that_is_not_listed_is_refused() -> None:
    with pytest.raises(InvalidList, match="unknown or excluded test"):
        choose_named([PODS], ["[sig-node] Pods should fly"])


@given(st.lists(st.floats(0, 200), max_size=80))
def test_batches_contain_every_test_once_and_keep_their_limits(seconds: list[float]) -> None:
    tests = [E2eTest(f"test {number}", amount) for number, amount in enumerate(seconds)]
    made = batches(tests)
    assert sorted(test.name for batch in made for test in batch) == sorted(test.name for test in tests)
    for batch in made:
        assert len(batch) <= BATCH_TESTS
        assert len(batch) == 1 or sum(test.seconds for test in batch) <= BATCH_SECONDS


def test_few_tests_are_distributed_evenly() -> None:
    tests = [E2eTest(f"test {number}", 2.0) for number in range(20)]
    assert [len(batch) for batch in batches(tests, 2)] == [10, 10]


def test_the_focus_matches_its_tests_and_no_other() -> None:
    pattern = re.compile(focus([PODS, QUOTA]))
    assert pattern.search(f"Kubernetes e2e suite {PODS.name}")
    assert pattern.search(f"Kubernetes e2e suite {QUOTA.name}")
    assert not pattern.search(f"Kubernetes e2e suite {QUOTA_MORE.name}")


def test_a_report_distinguishes_outcomes_and_omits_tests_that_did_not_run() -> None:
    other = E2eTest("[sig-x] other", 1)
    report = junit(
        case(PODS.name, "passed"),
        case(QUOTA.name, "failed", '<failure message="">expected\n   1 Pod</failure>'),
        case(QUOTA_MORE.name, "skipped", '<skipped message="skipped - needs a cloud"></skipped>'),
        case(other.name, "skipped", '<skipped message="skipped"></skipped>'),
        case("[sig-x] nobody asked for", "passed"),
    )
    found = read_junit(report, [PODS, QUOTA, QUOTA_MORE, other])
    assert found == {
        PODS.name: Result(PODS.name, "passed", 1.5),
        QUOTA.name: Result(QUOTA.name, "failed", 1.5, "expected 1 Pod"),
        QUOTA_MORE.name: Result(QUOTA_MORE.name, "skipped", 1.5, "skipped - needs a cloud"),
    }


def test_a_test_that_skipped_itself_does_not_count_as_passed() -> None:
    report = Report([Result(PODS.name, "passed", 1), Result(QUOTA.name, "skipped", 0, "no cloud")], {}, 3)
    assert report.passed == 1
    assert "1 passed of 2 possible" in report.as_text()
    assert QUOTA.name in report.as_text()


def test_progress_finds_test_names_after_a_horizontal_line() -> None:
    rule = "-" * 30
    progress = Progress({test.name: test for test in (PODS, QUOTA)})
    assert not progress.read("Running Suite\n")
    assert progress.current is None
    assert progress.read(f"{rule}\n{PODS.name} [sig-node, Conformance]\n  STEP: {QUOTA.name}\n")
    assert progress.current == PODS
    assert not progress.read(f"• [1.2 seconds]\n{rule}\n{QUOTA.name[:20]}"), "half a line"
    assert progress.read(f"{QUOTA.name[20:]} [sig-x]\n")
    assert progress.current == QUOTA
    assert progress.read(f"{rule}\n[SynchronizedAfterSuite]\n")
    assert progress.current is None


@pytest.mark.parametrize(("seconds", "limit"), [(0.1, 180.0), (20.0, 180.0), (330.0, 660.0)])
def test_a_long_test_may_take_twice_its_usual_time(seconds: float, limit: float) -> None:
    assert limit_of(E2eTest("[sig-x] test", seconds)) == limit


class Scripted(Runner):
    """A runner whose test program returns scripted outcomes."""

    def __init__(self, outcomes: dict[str, list[Outcome]]) -> None:
        super().__init__(Target(Path(), Path(), Path(), 1), Path(), parallel=1, on_result=lambda result: None)
        self.outcomes = outcomes

    def _run_once(self, tests: Sequence[E2eTest]) -> dict[str, Result]:
        return {test.name: Result(test.name, self.outcomes[test.name].pop(0), 1, "why") for test in tests}


def test_a_failed_test_that_passes_when_repeated_alone_is_reported_separately() -> None:
    report = Report(
        Scripted({PODS.name: ["failed", "passed"], QUOTA.name: ["passed"]}).run([PODS, QUOTA]), {}, 3
    )
    assert report.failed == []
    assert [(result.name, result.message) for result in report.repeated] == [(PODS.name, "why")]
    assert f"passed when repeated: {PODS.name}" in report.as_text()


def test_a_test_that_fails_twice_has_failed() -> None:
    report = Report(Scripted({PODS.name: ["failed", "failed"]}).run([PODS]), {}, 3)
    assert [result.name for result in report.failed] == [PODS.name]


def test_many_failures_are_not_repeated() -> None:
    tests = [E2eTest(f"[sig-x] test {number}", 1) for number in range(4)]
    report = Report(Scripted({test.name: ["failed"] for test in tests}).run(tests), {}, 3)
    assert len(report.failed) == 4

"""The results of Argo Rollouts' tests: what counts as a case, why it failed, and which failures are expected."""

import pytest

from hack.operators.cases import Case
from hack.rollouts.catalog import CASES, KNOWN, known, names
from hack.rollouts.outcomes import cases, judge

LOG = """
=== RUN   TestCanarySuite
time="2026-01-01T00:00:00Z" level=error msg="of no case"
=== RUN   TestCanarySuite/TestScaling
time="2026-01-01T00:00:00Z" level=info msg="Sleeping 1s" rollout=one
time="2026-01-01T00:00:01Z" level=error msg="Rollout expectation 'a \\"b\\"' failed" rollout=one
=== RUN   TestCanarySuite/TestDelay
time="2026-01-01T00:00:02Z" level=warning msg="unexpected stable pod count" rollout=two
    when.go:411: timeout after 1m30s waiting for condition status=Degraded
=== RUN   TestCanarySuite/TestSilent
=== RUN   TestCanarySuite/TestAbort
=== NAME  TestCanarySuite/TestSilent
    suite.go:90: test panicked: no pods
=== RUN   TestCanarySuite/TestCount
    canary_test.go:516: \n\
        \tError Trace:\tcanary_test.go:516
        \tError:      \tNot equal: 1 and 2
        \tTest:       \tTestCanarySuite/TestCount
=== RUN   TestCanarySuite/TestLater
--- FAIL: TestCanarySuite (9.00s)
    --- FAIL: TestCanarySuite/TestScaling (1.00s)
    --- FAIL: TestCanarySuite/TestDelay (4.00s)
    --- FAIL: TestCanarySuite/TestSilent (1.00s)
    --- PASS: TestCanarySuite/TestAbort (3.00s)
    --- FAIL: TestCanarySuite/TestCount (1.00s)
    --- SKIP: TestCanarySuite/TestLater (0.00s)
FAIL
"""
PASSED, FAILED = Case("passed"), Case("failed", "why")


def test_a_failed_case_says_why_in_its_own_words_or_in_those_of_its_log() -> None:
    assert cases(LOG) == {
        "TestCanarySuite/TestScaling": Case("failed", "Rollout expectation 'a \"b\"' failed"),
        "TestCanarySuite/TestDelay": Case(
            "failed", "timeout after 1m30s waiting for condition status=Degraded"
        ),
        "TestCanarySuite/TestSilent": Case("failed", "test panicked: no pods"),
        "TestCanarySuite/TestAbort": PASSED,
        "TestCanarySuite/TestCount": Case("failed", "Not equal: 1 and 2"),
    }


@pytest.mark.parametrize(
    ("found", "listed", "part"),
    [
        (PASSED, False, "passed"),
        (FAILED, True, "known"),
        (FAILED, False, "unexpected"),
        (PASSED, True, "spared"),
        (None, False, "unexpected"),
        (None, True, "known"),
    ],
)
def test_a_failure_is_unexpected_unless_the_table_has_it(found: Case | None, listed: bool, part: str) -> None:
    verdict = judge(["one"], {"one": "reason"} if listed else {}, {"one": found} if found else {})
    assert {each: list(getattr(verdict, each)) for each in verdict._fields} == {
        each: ["one"] if each == part else [] for each in verdict._fields
    }


def test_an_unexpected_failure_keeps_its_message_and_a_missing_case_says_so() -> None:
    assert judge(["one", "two"], {}, {"one": FAILED}).unexpected == {"one": "why", "two": "it did not run"}


def test_cases_that_nobody_asked_for_do_not_count() -> None:
    assert judge(["one"], {}, {"one": PASSED, "other": FAILED}).unexpected == {}


def test_the_table_names_cases_that_run_each_on_one_side_and_with_a_reason() -> None:
    every = {name for suite in CASES for name in names(suite)}
    both, hollow = KNOWN["both"], KNOWN["hollow cluster"]
    assert not both.keys() & hollow.keys()
    assert known(reference=True).keys() <= every
    assert all(known(reference=True).values())
    assert known(reference=False) == both

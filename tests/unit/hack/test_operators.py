"""The comparison of operators' suites: what counts as a case, and which differences count."""

import pytest

from hack.operators.cases import Case, Difference, again, compare, results, results_of_pytest, total
from hack.operators.catalog import OPERATORS
from hack.operators.programs import slug

LOG = """
=== RUN   TestClient
--- PASS: TestClient (1.20s)
=== RUN   TestNames
=== RUN   TestNames/empty
    --- FAIL: TestNames/empty (0.00s)
--- FAIL: TestNames (0.00s)
--- SKIP: TestLater (0.00s)
"""
REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite>
<testcase name="[BeforeSuite]" status="passed"/>
<testcase name="[It] creates" status="passed"/>
<testcase name="[It] deletes" status="failed"><failure message="Expected&#10;  gone">trace</failure></testcase>
<testcase name="[It] hangs" status="timedout"><error>too
  late</error></testcase>
<testcase name="[It] later" status="skipped"/>
<testcase name="[It] written later" status="pending"/>
</testsuite></testsuites>"""
PASSED, FAILED = Case("passed"), Case("failed", "why")


def test_cases_of_go_are_its_functions_and_their_parts() -> None:
    assert results(LOG) == {
        "TestClient": PASSED,
        "TestNames/empty": Case("failed"),
        "TestNames": Case("failed"),
    }


def test_cases_of_ginkgo_are_in_its_report_and_not_the_functions_that_start_it() -> None:
    assert results(LOG, REPORT) == {
        "[It] creates": PASSED,
        "[It] deletes": Case("failed", "Expected gone"),
        "[It] hangs": Case("failed", "too late"),
        "TestNames/empty": Case("failed"),
    }


PYTEST = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest">
<testcase name="test_one[a]"/>
<testcase name="test_one[b]"><failure message="assert 1 == 2">trace</failure></testcase>
<testcase name="test_one[c]"><error message="no fixture">trace</error></testcase>
<testcase name="test_one[d]"><skipped message="no library"/></testcase>
</testsuite></testsuites>"""


def test_cases_of_pytest_are_in_its_report() -> None:
    assert results_of_pytest(PYTEST) == {
        "test_one[a]": PASSED,
        "test_one[b]": Case("failed", "assert 1 == 2"),
        "test_one[c]": Case("failed", "no fixture"),
    }


@pytest.mark.parametrize(
    ("real", "ours", "kind"),
    [
        (PASSED, PASSED, "equal"),
        (PASSED, FAILED, "worse"),
        (PASSED, None, "worse"),
        (FAILED, PASSED, "better"),
        (None, PASSED, "better"),
        (FAILED, FAILED, "neither"),
    ],
)
def test_a_case_is_worse_if_it_passes_on_the_kube_apiserver_only(
    real: Case | None, ours: Case | None, kind: str
) -> None:
    found = compare({"one": real} if real else {}, {"one": ours} if ours else {})
    counts = {
        "equal": found.equal,
        "worse": len(found.worse),
        "better": len(found.better),
        "neither": len(found.neither),
    }
    assert counts == {each: int(each == kind) for each in counts}
    assert found.cases == 1


def test_a_case_that_did_not_run_on_the_tenant_says_so() -> None:
    assert compare({"one": PASSED}, {}).worse == (Difference("one", "it did not run"),)


def test_a_difference_counts_only_if_a_second_run_shows_it_again() -> None:
    real = dict.fromkeys(("always", "once"), PASSED)
    first = compare(real, dict.fromkeys(("always", "once"), FAILED))
    second = compare(real, {"always": FAILED, "once": PASSED})
    assert again(first, second) == first._replace(equal=1, worse=(Difference("always", "why"),))


def test_the_short_form_is_a_part_of_the_whole_and_files_have_names_of_their_own() -> None:
    for operator in OPERATORS:
        assert set(operator.short) <= set(operator.packages)
        assert len({slug(each) for each in operator.packages}) == len(operator.packages)


def test_the_total_has_the_cases_of_all_packages() -> None:
    one, other = (
        compare({"a": PASSED}, {"a": FAILED}),
        compare({"b": PASSED, "c": FAILED}, {"b": PASSED, "c": PASSED}),
    )
    whole = total([one, other])
    assert (whole.cases, whole.equal, whole.worse, whole.better) == (3, 1, one.worse, ("c",))

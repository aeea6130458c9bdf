"""The short form of the official Kubernetes tests, on a tenant whose Pods run in two hollow super clusters."""

from pathlib import Path

import pytest

from hack.conformance.__main__ import conformance
from hack.testbed import ensure

SECONDS = 900


@pytest.fixture(scope="module")
def programs() -> None:
    ensure(("e2e.test",), print)


@pytest.mark.timeout(SECONDS, func_only=True)
@pytest.mark.usefixtures("programs")
def test_the_official_tests_pass_for_a_tenant(tmp_path: Path) -> None:
    report = conformance(short=True, directory=tmp_path)
    print(report.as_text())
    failures = {result.name: result.message for result in report.failed}
    assert not failures

"""The short form of the official Kubernetes tests, on an embedded control plane with nodes, a scheduler and controllers."""

from pathlib import Path

import pytest

from hack.conformance.__main__ import embedded_conformance
from hack.testbed import ensure

SECONDS = 900


@pytest.fixture(scope="module")
def programs() -> None:
    ensure(("e2e.test",), print)


@pytest.mark.timeout(SECONDS, func_only=True)
@pytest.mark.usefixtures("programs")
def test_the_official_tests_pass_for_an_embedded_control_plane(tmp_path: Path) -> None:
    report = embedded_conformance(short=True, directory=tmp_path)
    print(report.as_text())
    failures = {result.name: result.message for result in report.failed}
    assert not failures

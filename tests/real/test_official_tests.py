"""The short forms of the official Kubernetes tests."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hack.conformance.__main__ import conformance, embedded_conformance, whole_conformance
from hack.conformance.reports import Report
from hack.testbed import ensure

SECONDS = 900


@pytest.fixture(scope="module")
def programs() -> None:
    ensure(("e2e.test",), print)


@pytest.mark.timeout(SECONDS, func_only=True)
@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    "run",
    [
        pytest.param(
            partial(conformance, door=True),
            id="a tenant whose Pods run in two hollow super clusters, through the door",
        ),
        pytest.param(embedded_conformance, id="an embedded control plane with nodes and controllers"),
        pytest.param(whole_conformance, id="a tenant of vcsync up"),
    ],
)
def test_the_official_tests_pass(tmp_path: Path, run: Callable[..., Report]) -> None:
    report = run(short=True, directory=tmp_path)
    print(report.as_text())
    failures = {result.name: result.message for result in report.failed}
    assert not failures

"""Kubernetes' own tests of logs, exec, attach, port-forward, cp and proxies, as tenants whose Pods run in real containers."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hack.conformance.reports import Report, Result
from hack.conformance.runner import Runner, Target
from hack.conformance.streams import (
    STREAMS,
    STREAMS_EMBEDDED,
    STREAMS_EXCLUDED,
    differences,
    in_scope,
    read_listing,
)
from hack.conformance.tests import E2eTest, Exclusion, exclusion_of, read_exclusions, read_tests
from hack.testbed import ensure
from tests.real.pool.pool_kit import Pool

SECONDS = 1800
PARALLEL = 4
"""Processes of the test program. Most tests wait for a container most of the time."""
QUOTA = {"cpu": "200m", "memory": "256Mi"}
SLICE = {"cpu": "100m", "memory": "128Mi"}
"""Every namespace, including the four of each tenant that always exist, has a slice on each of the two small nodes."""


@pytest.fixture(scope="module")
def programs() -> Mapping[str, Path]:
    return ensure(("e2e.test", "kubectl"), print)


@pytest.fixture(scope="module")
def scope(programs: Mapping[str, Path]) -> list[str]:
    """The names of the tests of streams that the test program has."""
    command = [programs["e2e.test"], "--list-tests"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return in_scope(read_listing(done.stdout))


def listed() -> list[E2eTest]:
    return read_tests(STREAMS.read_text())


def groups(*, embedded: bool = False) -> list[Exclusion]:
    """Return the groups of tests that do not run for any tenant, or not for an embedded one."""
    files = (STREAMS_EXCLUDED, STREAMS_EMBEDDED) if embedded else (STREAMS_EXCLUDED,)
    return [group for file in files for group in read_exclusions(file.read_text())]


@pytest.mark.timeout(SECONDS, func_only=True)
def test_every_official_test_of_streams_runs_or_is_left_out_for_a_reason(scope: list[str]) -> None:
    assert differences(scope, listed(), groups()) == []


@pytest.mark.timeout(SECONDS, func_only=True)
@pytest.mark.parametrize("tenant", ["inside", "outside"])
def test_the_official_tests_of_streams_pass(
    node_pool: Pool, programs: Mapping[str, Path], scope: list[str], tmp_path: Path, tenant: str
) -> None:
    cluster = node_pool.cluster(tenant)
    target = Target(programs["e2e.test"], programs["kubectl"], cluster.kubeconfig, len(node_pool.supers))
    endpoint = {"host": cluster.plan.service_address, "port": 443}
    excluded = groups(embedded=cluster.plan.embedded)
    left_out = {name: group for name in scope if (group := exclusion_of(E2eTest(name, 0), excluded))}
    wanted = [test for test in listed() if test.name not in left_out]
    with node_pool.configured(tenant, defaultQuota=QUOTA, sliceSize=SLICE, apiEndpoint=endpoint):
        results = Runner(target, tmp_path, parallel=PARALLEL, on_result=show).run(wanted)
    report = Report(results, left_out, sum(result.seconds for result in results))
    print(report.as_text(), f"logs of the test program: {tmp_path}", sep="\n")
    assert {result.name: result.message for result in report.failed} == {}
    assert sorted(result.name for result in report.results) == sorted(set(scope) - left_out.keys())


def show(result: Result) -> None:
    """Print a result immediately."""
    print(f"{result.outcome:<8}{result.seconds:7.1f} s  {result.name}", flush=True)
    if result.outcome != "passed":
        print(f"    {result.message}", flush=True)

"""Two super clusters with one real node each, and a pool of them with an embedded and an external tenant."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.system import System
from hack.testbed import TestBed
from tests.real import waiting
from tests.real.node.node_kit import Namespace
from tests.real.pool.pool_kit import Pool

SETUP_AND_TEST_SECONDS = 300
USUAL_SECONDS = 20.0
"""Time that the servers and nodes need to start on a quiet machine with two processors, programs built."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Extend the time limit of tests, because the first one starts the servers."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SETUP_AND_TEST_SECONDS))


@pytest.fixture(scope="session")
def system_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("system")


@pytest.fixture(scope="session")
def node_bed(tmp_path_factory: pytest.TempPathFactory, system_directory: Path) -> Iterator[TestBed]:
    """Super clusters r1 and r2, tenants `inside` (embedded) and `outside` (a kube-apiserver).

    A machine that cannot have real nodes fails the tests, and says what it lacks.
    """
    began = time.monotonic()
    directory = tmp_path_factory.mktemp("nodes")
    bed = TestBed(
        supers=2,
        tenants=("inside", "outside"),
        embedded=("meta", "inside"),
        ours=True,
        real_nodes=True,
        pool=system_directory / "roles" / "streams.kubeconfig",
        directory=directory,
    )
    with bed:
        waiting.observe(time.monotonic() - began, USUAL_SECONDS)
        yield bed


@pytest.fixture(scope="session")
def node_pool(node_bed: TestBed, system_directory: Path) -> Iterator[Pool]:
    """All roles of vcsync on these clusters."""
    with System(node_bed, system_directory, kubelet_api=True) as system:
        yield Pool(node_bed, system)


@pytest.fixture(params=["r1", "r2"])
def space(node_bed: TestBed, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    """A namespace of each super cluster in turn."""
    cluster = node_bed.supers[request.param]
    name = f"n-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    made = Namespace(cluster, name)
    made.wait_for_account()
    yield made
    cluster.kubectl("delete", "namespace", name, "--wait=false")

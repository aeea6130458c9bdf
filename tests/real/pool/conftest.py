"""A separate system for the end-to-end tests: two super clusters, two tenants, each role in its own process.

VCSYNC_POOL=<folder> uses the servers of a running `python -m hack.testbed up --tenants 2 --dir <folder>`, which must
not be used otherwise; vcsync is installed there once and started for every run.
VCSYNC_TENANTS=embedded gives the tenants embedded control planes instead of kube-apiservers, with objects in a file;
VCSYNC_TENANTS=embedded-etcd with objects in etcd. VCSYNC_SUPERS=hollow gives the pool hollow super clusters: another
embedded control plane, with simulated nodes and vcsync's own controllers. With both, the embedded tenants have those
controllers, too, the meta cluster is embedded, and kubectl is the only program of Kubernetes that runs.
VCSYNC_NODES=real gives each super cluster one real node instead of two hollow ones.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pool_kit import Pool, Space

from hack.system import System
from hack.testbed import TestBed
from hack.testbed.plan import Role
from tests.real import waiting

EMBEDDED_TENANTS = os.environ.get("VCSYNC_TENANTS", "").startswith("embedded")
HOLLOW = os.environ.get("VCSYNC_SUPERS") == "hollow"
collect_ignore = [
    # They need kube-schedulers, which allocate devices, and nodes without drivers.
    *(["test_devices.py"] if HOLLOW or os.environ.get("VCSYNC_NODES") == "real" else []),
    # Embedded control planes ask the Pod scheduler in another way.
    *(["test_placement_service.py", "test_placement_webhook.py"] if EMBEDDED_TENANTS else []),
]
"""Modules that cannot run in a form of the pool. A skipped test would fail its suite."""
SETUP_AND_TEST_SECONDS = 240
USUAL_SECONDS = 25.0
"""Time that the servers and all roles need to start on a quiet machine with two processors."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Extend the time limit of tests, because the first one starts the servers."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SETUP_AND_TEST_SECONDS))


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A whole system that other test modules do not use."""
    directory = tmp_path_factory.mktemp("pool")
    if folder := os.environ.get("VCSYNC_POOL"):
        yield from _attached(Path(folder))
        return
    embedded: list[Role] = ["tenant"] if EMBEDDED_TENANTS else []
    if HOLLOW:
        embedded += ["meta", "super"] if embedded else ["super"]
    bed = TestBed(
        supers=int(os.environ.get("VCSYNC_SUPER_CLUSTERS", "2")),
        nodes=2,
        tenants=("acme", "umbrella"),
        directory=directory / "bed",
        embedded=embedded,
        embedded_on_etcd=os.environ.get("VCSYNC_TENANTS") == "embedded-etcd",
        ours=HOLLOW,
        real_nodes=os.environ.get("VCSYNC_NODES") == "real",
    )
    began = time.monotonic()
    with (
        bed,
        System(bed, directory / "system") as system,
    ):
        waiting.observe(time.monotonic() - began, USUAL_SECONDS)
        yield Pool(bed, system)


def _attached(folder: Path) -> Iterator[Pool]:
    bed = TestBed.attach(folder)
    system = System(bed, folder / "system")
    try:
        if not system.role_directory.exists():
            system.install()
        system.start()
        yield Pool(bed, system)
    finally:
        system.stop()
        bed.let_go()


@pytest.fixture
def space(pool: Pool) -> Iterator[Space]:
    """A namespace of tenant acme with a slice on each super cluster."""
    with pool.space() as space:
        yield space

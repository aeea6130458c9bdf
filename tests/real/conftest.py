"""Fixtures for real servers of the test bed: clusters, kubectl, fault proxies.

The servers start once per session (about ten seconds). VCSYNC_TESTBED=<folder> uses those of a running
`python -m hack.testbed up --dir <folder>` instead. Tests therefore use unique names for namespaces and clean up.
"""

import gc
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from hack.testbed import BuildError, Cluster, TestBed, ensure
from hack.testbed.faultproxy import FaultProxy
from tests.real import waiting
from tests.real.up_kit import Up

BINARIES: pytest.StashKey[str] = pytest.StashKey()
HERE = Path(__file__).parent
USUAL_SECONDS = 12.0
"""Time that the test bed needs to start on a quiet machine with two processors."""
HEAVY = frozenset(
    f"test_{name}"
    for name in (
        "api_crds", "attacks_gateway", "bench_peer", "chart", "cli", "documents", "dual_stack", "failover", "failure",
        "failure_glitches", "gateway",
        "gateway_all", "gateway_streams",
        "identity_providers", "kube_connection", "kube_reflector", "official_tests", "promises", "recorded", "request_limits",
        "restart", "rolling_restart", "schedulers", "status_endpoint", "tenants_real_meta",
        "testbed", "up_kubelet_api", "up_kubelet_metrics",
        "up_proxy", "up_real", "up_real_super", "up_streams", "wrong_servers",
    )
)  # fmt: skip
"""Modules beside those of node/ and pool/ whose tests start several kube-apiservers. Two such test beds at a time would
be too many for two processors."""
HEAVY_FOLDERS = ("tests/real/node/", "tests/real/pool/")
HEAVY_FIXTURES = frozenset({"testbed", "pool", "bed"})
"""Fixtures that start them."""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """A process of `vcsync up` that has not started."""
    made = Up(tmp_path)
    yield made
    if made.begun and made.alive:
        made.end(signal.SIGKILL)


@pytest.fixture(scope="session", autouse=True)
def long_lived() -> None:
    """Exclude existing objects from garbage collection, so that the collection after each test is quick."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def leaves_nothing_open(long_lived: None) -> Iterator[None]:
    """Attribute an unclosed connection or file to the test that opened it, not to a later one."""
    yield
    gc.collect()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that need kube-apiservers, since they take longest.

    Those with servers of their own come before those that share the session's, which then run to its end.
    """
    for item in items:
        if HEAVY_FIXTURES.intersection(getattr(item, "fixturenames", ())) and not is_heavy(item.nodeid):
            raise pytest.UsageError(f"{item.nodeid} starts kube-apiservers: add its module to HEAVY")
    shared = {item.path for item in items if "testbed" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: (not is_heavy(item.nodeid), item.path in shared))


class HeavyTogether(LoadScopeScheduling):
    """Distributes modules over workers, and gives all heavy ones to the same worker."""

    def _split_scope(self, nodeid: str) -> str:
        return "heavy" if is_heavy(nodeid) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Replace the scheduler of pytest-xdist."""
    return HeavyTogether(config, log)


def is_heavy(node_id: str) -> bool:
    """Return whether a test is in a heavy module."""
    return node_id.startswith(HEAVY_FOLDERS) or Path(node_id.partition("::")[0]).stem in HEAVY


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build missing binaries before the first test, because the build would exceed a test's time limit."""
    if session.config.option.collectonly:
        return
    if not any("testbed" in getattr(item, "fixturenames", ()) for item in session.items):
        return
    terminal = session.config.get_terminal_writer()
    try:
        ensure(progress=lambda line: terminal.line(f"test bed: {line}"))
    except BuildError as error:
        session.config.stash[BINARIES] = str(error)


@pytest.fixture(scope="session")
def testbed(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBed]:
    """Meta cluster, super clusters r1 and r2 with two nodes each, tenants acme and umbrella."""
    if failure := pytestconfig.stash.get(BINARIES, None):
        pytest.fail(f"test bed: {failure}")
    if folder := os.environ.get("VCSYNC_TESTBED"):
        attached = TestBed.attach(Path(folder))
        yield attached
        attached.let_go()
        return
    directory = tmp_path_factory.mktemp("testbed")
    began = time.monotonic()
    with TestBed(supers=2, nodes=2, tenants=("acme", "umbrella"), directory=directory) as bed:
        waiting.observe(time.monotonic() - began, USUAL_SECONDS)
        yield bed


@pytest.fixture
def kubectl(testbed: TestBed) -> Callable[..., str]:
    """Run kubectl as admin of a cluster: `kubectl("r1", "get", "pods", "-o", "name", input=None)`."""

    def run(cluster: str, *arguments: str, input: str | None = None) -> str:  # noqa: A002
        return testbed.clusters[cluster].kubectl(*arguments, input=input)

    return run


ProxyFactory = Callable[..., Awaitable[FaultProxy]]


@pytest.fixture
async def fault_proxy(tmp_path: Path) -> AsyncIterator[ProxyFactory]:
    """Return a function that starts a proxy in front of an API server: `await fault_proxy(testbed.supers["r1"])`.

    The proxy parses requests; with `tcp=True` it forwards TLS as bytes. `proxy.kubeconfig` contains its address.
    """
    async with AsyncExitStack() as stack:

        async def start(cluster: Cluster, *, tcp: bool = False) -> FaultProxy:
            proxy = cluster.proxy(tmp_path, tcp=tcp)
            return await stack.enter_async_context(proxy)

        yield start

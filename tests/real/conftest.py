"""Fixtures for real servers of the test bed: clusters, kubectl, fault proxies.

The servers start once per session (about ten seconds). VCSYNC_TESTBED=<folder> uses those of a running
`python -m hack.testbed up --dir <folder>` instead. Tests therefore use unique names for namespaces and clean up.
"""

import gc
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hack.testbed import BuildError, Cluster, TestBed, ensure
from hack.testbed.faultproxy import FaultProxy
from tests.real.up_kit import Up

BINARIES: pytest.StashKey[str] = pytest.StashKey()


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
    with TestBed(supers=2, nodes=2, tenants=("acme", "umbrella"), directory=directory) as bed:
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

"""Fixtures on top of the test bed: real clusters, kubectl, proxies that do faults.

The servers start once per session (about ten seconds). VCSYNC_TESTBED=<folder> uses those of a running
`python -m hack.testbed up --dir <folder>` instead; so tests name their namespaces uniquely and clean up.
"""

import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hack.testbed import BuildError, Cluster, TestBed, ensure
from hack.testbed.faultproxy import FaultProxy

BINARIES: pytest.StashKey[str] = pytest.StashKey()


@pytest.fixture(scope="session", autouse=True)
def long_lived() -> None:
    """Have the collector leave alone what was there before, so that looking at what a test leaves is quick."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def leaves_nothing_open(long_lived: None) -> Iterator[None]:
    """Blame a connection or file that was left open on the test that did, not on any later one."""
    yield
    gc.collect()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build missing binaries before the first test, where no test's time limit applies."""
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
    """Put a proxy before a cluster's API server: `proxy = await fault_proxy(testbed.supers["r1"])`.

    It sees requests; with `tcp=True` it passes TLS through and sees bytes only. `proxy.kubeconfig` leads
    through it.
    """
    async with AsyncExitStack() as stack:

        async def start(cluster: Cluster, *, tcp: bool = False) -> FaultProxy:
            proxy = cluster.proxy(tmp_path, tcp=tcp)
            return await stack.enter_async_context(proxy)

        yield start

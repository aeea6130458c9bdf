"""Fixtures of the kube tests: a stand-in server and clients of it."""

from collections.abc import AsyncIterator

import pytest
from kube_standin import StandIn, kubeconfig

from vcsync.kube.client import Client
from vcsync.kube.connection import Connection


@pytest.fixture
async def server() -> AsyncIterator[StandIn]:
    standin = StandIn()
    await standin.start()
    yield standin
    await standin.stop()


@pytest.fixture
async def client(server: StandIn) -> AsyncIterator[Client]:
    connection = Connection.from_kubeconfig_bytes(kubeconfig(server.url, token="t0ken"))
    async with Client(connection, name="standin") as made:
        yield made

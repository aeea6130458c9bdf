"""A door over HTTP with one external tenant, whose API server records what it receives."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from door_kit import TOKENS, ApiServer, Door

from vcsync.apiserver.assembly.identity import Authentication, Identity
from vcsync.apiserver.assembly.server import control_plane
from vcsync.apiserver.metering.meter import Meter
from vcsync.apiserver.operator.lifecycle import Endpoint
from vcsync.apiserver.request.host_names import HostNames
from vcsync.apiserver.storage.sqlite import open_sqlite


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncIterator[ApiServer]:
    server = ApiServer()
    await server.start(tmp_path)
    yield server
    await server.stop()


@pytest.fixture
async def door(tmp_path: Path, upstream: ApiServer) -> AsyncIterator[Door]:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(TOKENS)
    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    names = HostNames("tenants.example.com")
    endpoint = Endpoint("https://door.example:6443", "192.0.2.1", 6443, names)
    identity = await Identity.open(store, endpoint, authentication=Authentication(token_file=tokens))
    meter = Meter(store, identity.tenants, time.time)
    plane = control_plane(store, identity, meter=meter)
    await plane.start("127.0.0.1", 0, None)
    await identity.lifecycle.create("acme")
    await identity.lifecycle.create("umbrella", upstream=upstream.upstream)
    yield Door(plane, identity, upstream, meter)
    await plane.stop()
    await store.close()

"""The syncer's role: the state that it keeps when the syncer is rebuilt, and its reads of the registration."""

import asyncio
import base64
from typing import Any

import msgspec
import pytest
from tenacity import wait_none

from vcsync.cli.command.errors import FailedError
from vcsync.cli.command.status_endpoint import Listen
from vcsync.cli.run import roles
from vcsync.cli.run.roles import Settings, SyncerRole
from vcsync.kube.errors import (
    CredentialsError,
    Forbidden,
    NotFound,
    ServerError,
    Status,
    Unauthorized,
    Unreachable,
)
from vcsync.kube.resources import SECRETS, Resource
from vcsync.objects.envelope import Envelope, parse
from vcsync.syncer import service
from vcsync.tenancy.brake import Releases


async def test_a_rebuilt_syncer_remembers_the_releases_it_has_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Any] = []

    class Ends:
        """A syncer that records its arguments and ends."""

        def __init__(self, *, releases: Releases, **_: Any) -> None:
            given.append(releases)
            self.fenced = asyncio.Event()

        async def run(self) -> None:
            """End immediately."""

    monkeypatch.setattr(service, "Syncer", Ends)
    settings = Settings(kubeconfigs={}, listen=Listen(""), leader_elect=False, identity="me")
    role = SyncerRole(None, "r1", settings, (1, 1))  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(FailedError, match="ended by itself"):
            await role._sync_until_changed(None, b"")  # type: ignore[arg-type]
    first, second = given
    assert isinstance(first, Releases)
    assert first is second


async def test_a_fence_stops_the_syncer(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []

    class Fenced:
        """A syncer whose super cluster an operator fences."""

        def __init__(self, **_: Any) -> None:
            self.fenced = asyncio.Event()

        async def run(self) -> None:
            """Run until cancelled."""
            self.fenced.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append("run")

        async def drain_work(self, _seconds: float) -> None:
            stopped.append("drain")

    monkeypatch.setattr(service, "Syncer", Fenced)
    settings = Settings(kubeconfigs={}, listen=Listen(""), leader_elect=False, identity="me")
    role = SyncerRole(None, "r1", settings, (1, 1))  # type: ignore[arg-type]
    await role._sync_until_changed(None, b"")  # type: ignore[arg-type]
    assert stopped == ["drain", "run"]


async def test_nothing_is_synced_until_the_fence_is_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "FENCE_SECONDS", 0.0)
    meta = Meta()
    meta.fenced = True
    role = role_at(meta)
    waiting = asyncio.create_task(role._wait_unfenced())
    while meta.reads < 3:
        await asyncio.sleep(0)
    assert role.ready() == (
        True,
        "super cluster r1 is fenced: 'vcsync super unfence' has it synced again",
    )
    meta.failures = [Unreachable("refused")]
    while meta.failures:
        await asyncio.sleep(0)
    assert not waiting.done(), "an answer that is missing lifts no fence"
    meta.fenced = False
    await waiting
    assert role.ready() == (False, "starts")


class Meta:
    """A meta cluster that answers reads of the registration with errors first."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.reads = 0
        self.fenced = False

    async def get(self, resource: Resource, name: str, _namespace: str = "") -> Envelope:
        self.reads += 1
        if self.failures:
            raise self.failures.pop(0)
        body: dict[str, Any] = {"metadata": {"name": name}, "spec": {"id": name, "fenced": self.fenced}}
        if resource == SECRETS:
            body["data"] = {"kubeconfig": base64.b64encode(b"the kubeconfig").decode()}
        return parse(msgspec.json.encode(body))


def role_at(meta: Meta, *, leader_elect: bool = True) -> SyncerRole:
    settings = Settings(kubeconfigs={}, listen=Listen(""), leader_elect=leader_elect, identity="me")
    return SyncerRole(meta, "r1", settings, (1, 1))  # type: ignore[arg-type]


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "wait_random_exponential", lambda **_: wait_none())


@pytest.mark.usefixtures("no_pause")
async def test_a_starting_meta_cluster_does_not_end_the_syncer() -> None:
    meta = Meta(Forbidden(Status(403)), Unreachable("refused"), ServerError(Status(503)))
    assert await role_at(meta)._registration() == b"the kubeconfig"
    assert meta.reads == 5


@pytest.mark.usefixtures("no_pause")
async def test_a_persistent_refusal_ends_the_syncer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "REGISTRATION_SECONDS", 0.0)
    with pytest.raises(Forbidden):
        await role_at(Meta(Forbidden(Status(403))))._registration()


@pytest.mark.parametrize("failure", [Unauthorized(Status(401)), CredentialsError("no token")])
async def test_refused_credentials_end_the_syncer_immediately(failure: Exception) -> None:
    meta = Meta(failure)
    with pytest.raises(type(failure)):
        await role_at(meta)._registration()
    assert meta.reads == 1


async def test_a_missing_registration_ends_the_syncer_immediately() -> None:
    with pytest.raises(FailedError, match="vcsync super add r1"):
        await role_at(Meta(NotFound(Status(404))))._registration()


@pytest.mark.usefixtures("no_pause")
async def test_a_syncer_is_a_stand_by_once_it_has_read_its_registration() -> None:
    role = role_at(Meta(Forbidden(Status(403))))
    assert role.ready() == (False, "starts")
    waits = asyncio.Event()

    async def stand_by(_lead: object) -> None:
        waits.set()
        await asyncio.Event().wait()

    assert role._elector is not None
    role._elector.run = stand_by  # type: ignore[method-assign]
    work = asyncio.create_task(role.run())
    await waits.wait()
    assert role.ready() == (True, "stand-by: another instance holds the lease")
    work.cancel()
    await asyncio.wait({work})

"""The status endpoint of a process, as its options say, and the commands that read it."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from api_server_kit import api_server
from prometheus_client.metrics_core import Metric
from structlog.testing import capture_logs

from vcsync.apiserver.tenants.pki import issue_serving, new_authority
from vcsync.cli.command.endpoints import Endpoints, roles_of, timeline_of
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.status_endpoint import Listen, serve_status
from vcsync.fairqueue import ObjectName
from vcsync.kube.connection import Connection

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Role:
    def ready(self) -> tuple[bool, str]:
        return True, ""

    def status(self) -> dict[str, Any]:
        return {"leader": True}

    def metrics(self) -> Iterable[Metric]:
        return []

    def timeline(self, tenant: str, _name: ObjectName) -> list[dict[str, Any]]:
        return [
            {"time": "2026-01-01", "controller": tenant, "reconcile": "", "what": "created", "version": "1"}
        ]


SOURCES = {"nsscheduler": Role()}
POD = ObjectName("pods", "default", "web-0")


def nobody() -> Connection:
    raise AssertionError("the meta cluster is not needed on loopback")


class Files:
    """A certificate for this machine, and a token."""

    def __init__(self, folder: Path) -> None:
        authority = new_authority("test", time.time())
        pair = issue_serving(authority, ["localhost", "127.0.0.1"], time.time())
        self.authority, self.certificate, self.key, self.token = (
            folder / name for name in ("ca.crt", "tls.crt", "tls.key", "token")
        )
        self.authority.write_text(authority.certificate)
        self.certificate.write_text(pair.certificate)
        self.key.write_text(pair.key)
        self.token.write_text("t-operator\n")

    def listen(self, address: str) -> Listen:
        return Listen(address, self.certificate, self.key)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


async def test_on_loopback_everybody_reads_over_http_and_the_meta_cluster_is_not_asked() -> None:
    async with serve_status(Listen("127.0.0.1:0"), SOURCES, nobody) as server:
        assert server.url.startswith("http://127.0.0.1:")
        roles = await roles_of(Endpoints((server.address,)))
        found = await timeline_of(Endpoints((server.address,)), ("acme",), POD)
    assert roles == {"nsscheduler": {"ready": True, "reason": "", "leader": True}}
    assert [(each["source"], each["controller"]) for each in found] == [("nsscheduler", "acme")]


async def test_a_certificate_on_loopback_is_used(files: Files) -> None:
    async with serve_status(files.listen("127.0.0.1:0"), SOURCES, nobody) as server:
        roles = await roles_of(Endpoints((server.url,), authority=files.authority))
    assert list(roles) == ["nsscheduler"]


@pytest.mark.parametrize(
    ("reviews", "said"),
    [
        ({}, "503 the meta cluster does not answer"),
        ({TOKEN_REVIEWS: 403}, "503 the meta cluster does not let this process create TokenReviews"),
        ({TOKEN_REVIEWS: {"status": {"authenticated": False}}}, "401 Unauthorized"),
        (
            {TOKEN_REVIEWS: {"status": {"authenticated": True, "user": {"username": "u"}}}, ACCESS_REVIEWS: {"status": {}}},
            '403 forbidden: User "u" cannot get path "/status": bind ClusterRole vcsync-status-reader to it',
        ),
    ],
)  # fmt: skip
async def test_a_refusal_of_an_endpoint_is_shown(files: Files, reviews: dict[str, Any], said: str) -> None:
    async with (
        api_server() as meta,
        serve_status(files.listen("0.0.0.0:0"), SOURCES, meta.connection) as server,
    ):
        meta.objects |= reviews
        url = f"https://localhost:{server.address.rpartition(':')[2]}"
        with pytest.raises(FailedError) as failed:
            await roles_of(Endpoints((url,), files.token, files.authority))
    assert said in str(failed.value)
    assert "t-operator" not in str(failed.value)


async def test_elsewhere_a_reader_reads_with_a_token(files: Files) -> None:
    async with (
        api_server() as meta,
        serve_status(files.listen("0.0.0.0:0"), SOURCES, meta.connection) as server,
    ):
        meta.objects[TOKEN_REVIEWS] = {"status": {"authenticated": True, "user": {"username": "u"}}}
        meta.objects[ACCESS_REVIEWS] = {"status": {"allowed": True}}
        url = f"https://localhost:{server.address.rpartition(':')[2]}"
        endpoints = Endpoints((url,), files.token, files.authority)
        assert list(await roles_of(endpoints)) == ["nsscheduler"]
        assert await timeline_of(endpoints, ("acme",), POD)
        with pytest.raises(FailedError, match=r"401 Unauthorized.*--endpoint-token-file"):
            await roles_of(Endpoints((url,), None, files.authority))
        asked = len(meta.lines())
        with pytest.raises(FailedError, match="certificate verify failed"):
            await roles_of(Endpoints((url,), files.token))
        assert len(meta.lines()) == asked, "no token is sent to a server that is not known"


async def test_a_token_is_not_sent_over_http(files: Files) -> None:
    async with api_server() as server:
        with pytest.raises(FailedError):
            await roles_of(Endpoints((server.url,), files.token))
        assert [
            line.lower() for head in server.heads for line in head.splitlines() if "uthorization" in line
        ] == []
        assert len(server.heads) == 1


async def test_without_files_other_machines_get_a_certificate_that_is_made_at_the_start() -> None:
    async with api_server() as meta:
        with capture_logs() as logs:
            async with serve_status(Listen("0.0.0.0:0"), SOURCES, meta.connection) as server:
                port = server.address.rpartition(":")[2]
                async with (
                    aiohttp.ClientSession() as session,
                    session.get(f"https://127.0.0.1:{port}/readyz", ssl=False) as answer,
                ):
                    assert (answer.status, await answer.text()) == (200, "ok\n")
                    assert answer.url.scheme == "https"
    [logged] = logs
    assert len(logged["sha256"]) == 64


@pytest.mark.parametrize("content", [None, "no PEM"])
async def test_a_certificate_that_cannot_be_used_is_refused(files: Files, content: str | None) -> None:
    if content is None:
        files.certificate.unlink()
    else:
        files.certificate.write_text(content)
    with pytest.raises(WrongInputError, match=r"--tls-cert-file.*tls\.crt"):
        async with serve_status(files.listen("127.0.0.1:0"), SOURCES, nobody):
            pass


async def test_an_empty_token_file_is_refused(files: Files) -> None:
    files.token.write_text("\n")
    with pytest.raises(WrongInputError, match="it has no token"):
        await roles_of(Endpoints(("https://localhost:1",), files.token))

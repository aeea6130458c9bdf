"""Calls to identity providers, against servers of this process."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from vcsync.apiserver.authentication import provider_calls as calls
from vcsync.apiserver.authentication.provider_calls import CallError, call
from vcsync.apiserver.authentication.webhook_tokens import sender
from vcsync.apiserver.tenants import pki
from vcsync.kube.errors import CredentialsError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve on a free port of loopback; yield the URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_the_call_arrives_as_it_was_made() -> None:
    async def echo(request: web.Request) -> web.Response:
        body = await request.read()
        return web.Response(
            text=f"{request.method} {request.path_qs} {request.headers['X-Who']} {body.decode()}"
        )

    async with serving(echo) as url:
        assert await call("POST", f"{url}/a?b=c", None, headers={"X-Who": "me"}, body=b"text") == (
            b"POST /a?b=c me text"
        )


@pytest.mark.parametrize(
    ("status", "good"), [(200, True), (201, True), (299, True), (300, False), (404, False)]
)
async def test_only_answers_of_success_count(status: int, good: bool) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text="x")

    async with serving(answer) as url:
        if good:
            assert await call("GET", url, None) == b"x"
        else:
            with pytest.raises(CallError, match=f"{url} answers {status}"):
                await call("GET", url, None)


async def test_redirects_are_not_followed() -> None:
    async def answer(request: web.Request) -> web.Response:
        raise web.HTTPFound("/elsewhere") if request.path == "/" else web.HTTPOk

    async with serving(answer) as url:
        with pytest.raises(CallError, match="answers 302"):
            await call("GET", f"{url}/", None)


@pytest.mark.parametrize(("more", "good"), [(0, True), (1, False)])
async def test_answers_have_an_end(monkeypatch: pytest.MonkeyPatch, more: int, good: bool) -> None:
    monkeypatch.setattr(calls, "MAX_BYTES", 4096)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(4):
            await response.write(b"x" * 1024)
        await response.write(b"x" * more)
        await response.write_eof()
        return response

    async with serving(answer) as url:
        if good:
            assert await call("GET", url, None) == b"x" * 4096
        else:
            with pytest.raises(CallError, match="answers with more than 4096 bytes"):
                await call("GET", url, None)


async def test_nobody_there_is_told_with_the_reason() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    async with serving(answer) as url:
        pass
    with pytest.raises(CallError, match=r"does not answer: .*[Cc]onnect"):
        await call("GET", url, None)


async def test_who_is_slow_is_given_up() -> None:
    ended = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        await ended.wait()
        return web.Response()

    async with serving(answer) as url:
        with pytest.raises(CallError, match="does not answer: TimeoutError"):
            await call("GET", url, None, seconds=0.1)
        ended.set()


async def test_only_the_named_authority_is_trusted(tmp_path: Path) -> None:
    authority = pki.new_authority("issuer", time.time())
    issued = pki.issue_serving(authority, ["127.0.0.1"], time.time())
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    files[0].write_text(issued.certificate)
    files[1].write_text(issued.key)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(*files)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="x")

    trusting = ssl.create_default_context(cadata=authority.certificate)
    async with serving(answer, server) as url:
        assert await call("GET", url, trusting) == b"x"
        with pytest.raises(CallError, match=r"does not answer: .*CERTIFICATE_VERIFY_FAILED"):
            await call("GET", url, None)


async def test_an_answer_that_comes_in_parts_is_put_together() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (b"one ", b"two ", b"three"):
            await response.write(part)
            for _ in range(10):  # so that who reads has read so much before the next part is there
                await asyncio.sleep(0)
        await response.write_eof()
        return response

    async with serving(answer) as url:
        assert await call("GET", url, None) == b"one two three"


def kubeconfig(path: Path, server: str, **user: Any) -> Path:
    """Write a kubeconfig as the authentication webhook's."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(document))
    return path


async def test_a_review_goes_to_the_url_of_the_kubeconfig_with_its_credentials(tmp_path: Path) -> None:
    asked: list[tuple[str, str, bytes, dict[str, str]]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.method, request.path, await request.read(), dict(request.headers)))
        return web.Response(text="said")

    async with serving(answer) as url:
        send = sender(kubeconfig(tmp_path / "hook", f"{url}/review", token="secret"))
        assert await send(b"{}") == b"said"
    [(method, path, body, headers)] = asked
    assert (method, path, body) == ("POST", "/review", b"{}")
    assert headers["Authorization"] == "Bearer secret"
    assert (headers["Content-Type"], headers["Accept"]) == ("application/json", "application/json")


async def test_a_webhook_whose_credentials_are_gone_does_not_answer(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    send = sender(kubeconfig(tmp_path / "hook", "http://127.0.0.1:1/", tokenFile=str(token)))
    token.unlink()
    with pytest.raises(CallError):
        await send(b"{}")


def test_a_webhook_needs_a_kubeconfig_that_can_be_used(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError):
        sender(tmp_path / "missing")

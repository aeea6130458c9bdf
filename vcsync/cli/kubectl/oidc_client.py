"""Logs a user in at an OpenID Connect provider: by browser, by device code, or by a refresh token.

Behaviour: OAuth 2.0 (RFC 6749) with PKCE (RFC 7636) for native applications (RFC 8252), device grant (RFC 8628), OpenID Connect
Discovery 1.0. oauthlib builds the requests and reads the answers.
"""

import asyncio
import contextlib
import secrets
import ssl
import webbrowser
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import aiohttp
import msgspec
from aiohttp import web
from oauthlib.oauth2 import DeviceClient, OAuth2Error, WebApplicationClient

from vcsync.cli.kubectl.oidc_tokens import Client, LoginError, Tokens, tokens_of

CALL_SECONDS: Final = 10.0
LOGIN_SECONDS: Final = 300.0
"""Time that the user has in the browser."""
MAX_BYTES: Final = 1024 * 1024
POLL_SECONDS: Final = 5.0
"""Time between two requests for the tokens of a device code, if the provider names none (RFC 8628, section 3.2)."""
SLOWER_SECONDS: Final = 5.0
"""Added to that time whenever the provider answers `slow_down` (RFC 8628, section 3.5)."""
FORM: Final = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
DONE: Final = "Return to the terminal. You can close this page.\n"
Say = Callable[[str], None]
"""Shows the user a line."""


class _Discovery(msgspec.Struct):
    issuer: str
    token_endpoint: str
    authorization_endpoint: str = ""
    device_authorization_endpoint: str = ""


class _Device(msgspec.Struct):
    device_code: str
    user_code: str
    verification_uri: str
    expires_in: float
    verification_uri_complete: str = ""
    interval: float = POLL_SECONDS


class Provider:
    """A provider whose endpoints are known.

    Args:
        client: Our client there.
        session: Session for all calls.
        tls: Trusted authorities.
        found: Endpoints.
        say: Shows the user a line.
    """

    def __init__(
        self, client: Client, session: aiohttp.ClientSession, tls: ssl.SSLContext, found: _Discovery, say: Say
    ) -> None:
        self._client = client
        self._session = session
        self._tls = tls
        self._found = found
        self._say = say

    @property
    def has_device_codes(self) -> bool:
        """Whether the provider offers device codes."""
        return bool(self._found.device_authorization_endpoint)

    async def refresh(self, refresh_token: str) -> Tokens | None:
        """Get new tokens with a refresh token, or None if the provider no longer accepts it.

        Raises:
            LoginError: The provider does not answer, or answers nonsense.
        """
        client = WebApplicationClient(self._client.client_id)
        body = client.prepare_refresh_body(refresh_token=refresh_token, **self._identification())
        answer = await self._post(self._found.token_endpoint, body)
        if "error" in answer:
            return None
        return self._tokens(answer, refresh_token=refresh_token)

    async def by_device(self) -> Tokens:
        """Show the user a code, and wait until it has been confirmed on any device.

        Raises:
            LoginError: The provider refuses, the user refuses, or the code expires.
        """
        if not self.has_device_codes:
            raise LoginError(f"{self._client.issuer} offers no device codes; use --grant browser")
        client = DeviceClient(self._client.client_id)
        body = urlencode({**self._identification(), "scope": self._scope()})
        answer = await self._post(self._found.device_authorization_endpoint, body)
        device = self._converted(answer, _Device)
        self._say(f"To log in, open {device.verification_uri} and enter the code {device.user_code}")
        if device.verification_uri_complete:
            self._say(f"or open {device.verification_uri_complete}")
        try:
            async with asyncio.timeout(device.expires_in):
                return await self._confirmed(client, device)
        except TimeoutError as error:
            raise LoginError("the code has expired; try again") from error

    async def by_browser(self, port: int, *, show: Callable[[str], object] = webbrowser.open) -> Tokens:
        """Have the user log in in a browser on this machine.

        Args:
            port: Port of the address 127.0.0.1 to which the provider sends the browser back; 0: any free one.
            show: Opens a URL in a browser.

        Raises:
            LoginError: The provider refuses, the user refuses, or does not log in in time.
        """
        if not self._found.authorization_endpoint:
            raise LoginError(f"{self._client.issuer} offers no login by browser; use --grant device")
        client = WebApplicationClient(self._client.client_id)
        state, nonce = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        verifier = client.create_code_verifier(64)
        async with _callback(port, state) as (redirect, arrived):
            url = client.prepare_request_uri(
                self._secure(self._found.authorization_endpoint),
                redirect_uri=redirect,
                scope=self._scope(),
                state=state,
                nonce=nonce,
                code_challenge=client.create_code_challenge(verifier, "S256"),
                code_challenge_method="S256",
            )
            self._say(f"To log in, open {url}")
            await asyncio.to_thread(show, url)
            try:
                async with asyncio.timeout(LOGIN_SECONDS):
                    target = await arrived
            except TimeoutError as error:
                raise LoginError(f"nobody logged in within {LOGIN_SECONDS:.0f} seconds; try again") from error
            try:
                # oauthlib insists on https, which RFC 8252 does not ask of an address of this machine.
                code = client.parse_request_uri_response(target.replace("http:", "https:", 1), state=state)[
                    "code"
                ]
            except OAuth2Error as error:
                raise LoginError(f"{self._client.issuer} refuses the login: {_reason(error)}") from error
            body = client.prepare_request_body(
                code=code,
                redirect_uri=redirect,
                code_verifier=verifier,
                **self._secret(),
            )
            answer = await self._post(self._found.token_endpoint, body)
        return self._tokens(answer, nonce=nonce)

    async def _confirmed(self, client: DeviceClient, device: _Device) -> Tokens:
        body = client.prepare_request_body(device.device_code, include_client_id=True, **self._secret())
        interval = max(device.interval, 0.1)
        while True:
            await asyncio.sleep(interval)
            answer = await self._post(self._found.token_endpoint, body)
            error = answer.get("error")
            if error == "slow_down":
                interval += SLOWER_SECONDS
            elif error != "authorization_pending":
                return self._tokens(answer)

    def _tokens(self, answer: Mapping[str, Any], *, nonce: str = "", refresh_token: str = "") -> Tokens:
        if "error" in answer:
            about = answer.get("error_description") or answer["error"]
            raise LoginError(f"{self._client.issuer} refuses the login: {about}")
        issuer, client_id = self._client.issuer, self._client.client_id
        return tokens_of(answer, issuer=issuer, client_id=client_id, nonce=nonce, refresh_token=refresh_token)

    def _scope(self) -> str:
        return " ".join(["openid", *self._client.scopes])

    def _secret(self) -> dict[str, Any]:
        return {"client_secret": self._client.secret} if self._client.secret else {}

    def _identification(self) -> dict[str, Any]:
        return {"client_id": self._client.client_id, **self._secret()}

    def _secure(self, url: str) -> str:
        if urlsplit(url).scheme != "https":
            raise LoginError(f"{self._client.issuer} names the endpoint {url!r}, which is no https URL")
        return url

    async def _post(self, url: str, body: str) -> Mapping[str, Any]:
        return await _call(self._session, self._tls, "POST", self._secure(url), body)

    def _converted(self, answer: Mapping[str, Any], kind: type[_Device]) -> _Device:
        try:
            return msgspec.convert(answer, kind)
        except msgspec.ValidationError as error:
            about = answer.get("error_description") or answer.get("error") or error
            raise LoginError(f"{self._client.issuer} gives no device code: {about}") from error


@contextlib.asynccontextmanager
async def provider(client: Client, say: Say) -> AsyncIterator[Provider]:
    """Discover a provider's endpoints, and yield it.

    Raises:
        LoginError: The provider does not answer, or is another one.
    """
    if urlsplit(client.issuer).scheme != "https":
        raise LoginError(f"--issuer {client.issuer}: give an https URL")
    try:
        tls = ssl.create_default_context(cafile=client.authority)
    except (OSError, ssl.SSLError) as error:
        raise LoginError(f"--certificate-authority {client.authority}: {error}") from error
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=CALL_SECONDS)) as session:
        url = f"{client.issuer.rstrip('/')}/.well-known/openid-configuration"
        answer = await _call(session, tls, "GET", url, None)
        try:
            found = msgspec.convert(answer, _Discovery)
        except msgspec.ValidationError as error:
            raise LoginError(f"{url}: {error}") from error
        if found.issuer != client.issuer:
            raise LoginError(f"{url} is about the issuer {found.issuer!r}: give exactly this as --issuer")
        yield Provider(client, session, tls, found, say)


async def _call(
    session: aiohttp.ClientSession, tls: ssl.SSLContext, method: str, url: str, body: str | None
) -> Mapping[str, Any]:
    """Send a request, and return the JSON object of its answer: 2xx, or 4xx with the field `error` (RFC 6749, section 5.2).

    Raises:
        LoginError: There is no such answer.
    """
    try:
        async with session.request(
            method, url, data=body, headers=FORM if body else None, ssl=tls, allow_redirects=False
        ) as answer:
            content = await answer.content.read(MAX_BYTES)
            while len(content) < MAX_BYTES and not answer.content.at_eof():
                content += await answer.content.read(MAX_BYTES - len(content))
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise LoginError(f"{url} does not answer: {str(error) or type(error).__name__}") from error
    try:
        found = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise LoginError(f"{url} answers {answer.status} without a JSON object") from error
    if not answer.ok and not (answer.status < 500 and "error" in found):
        raise LoginError(f"{url} answers {answer.status}")
    return found


@contextlib.asynccontextmanager
async def _callback(port: int, state: str) -> AsyncIterator[tuple[str, "asyncio.Future[str]"]]:
    """Serve the address to which the provider sends the browser back.

    Yields:
        (URL of the address, the URL that a browser asked for).

    Raises:
        LoginError: The port is in use.
    """
    arrived: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def handle(request: web.Request) -> web.Response:
        # Any page in the browser can send requests here; only the provider knows the state.
        if request.query.get("state") == state and not arrived.done():
            arrived.set_result(str(request.url))
        return web.Response(text=DONE, headers={"Cache-Control": "no-store"})

    application = web.Application()
    application.router.add_get("/callback", handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        try:
            await site.start()
        except OSError as error:
            raise LoginError(f"--redirect-port {port}: {error.strerror}") from error
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/callback", arrived
    finally:
        await runner.cleanup()


def _reason(error: OAuth2Error) -> str:
    return str(error.description or error.error)

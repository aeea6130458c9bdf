"""A sample identity service: authenticates the tokens of tenants' users for a control plane, by TokenReview.

    python config/samples/iam_webhook.py users.yaml --certificate tls.crt --key tls.key --client-ca client-ca.crt

The file of users is read again when it changes. It has SHA-256 digests of tokens, never tokens:

    users:
    - {name: alice, tenant: acme, groups: [developers], token: 9f86d081884c7d65...}

A service of your own does the same with its own users: it answers a TokenReview with the user, and names the tenant in the
user's extra `tenancy.x-k8s.io/tenant`.
"""

import argparse
import asyncio
import hashlib
import logging
import ssl
import sys
from pathlib import Path
from typing import Any

import msgspec
import yaml
from aiohttp import web

TENANT = "tenancy.x-k8s.io/tenant"
"""Key of a user's extra that names the tenant."""
MAX_BYTES = 64 * 1024


class User(msgspec.Struct, forbid_unknown_fields=True):
    """A user of a tenant. `token` is the SHA-256 digest of the user's token, as hexadecimal digits."""

    name: str
    tenant: str
    token: str
    groups: list[str] = []


class File(msgspec.Struct, forbid_unknown_fields=True):
    """The file of users."""

    users: list[User]


class Spec(msgspec.Struct):
    """The part of a TokenReview that is asked for."""

    token: str


class Review(msgspec.Struct, rename="camel"):
    """A TokenReview."""

    api_version: str
    kind: str
    spec: Spec


class Users:
    """The users in a file.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at = 0
        self._users: dict[str, User] = {}

    def of(self, token: str) -> User | None:
        """Return the user of a token, or None."""
        try:
            changed = self._path.stat().st_mtime_ns
            if changed != self._read_at:
                self._read_at = changed
                users = msgspec.convert(yaml.safe_load(self._path.read_text()), File).users
                self._users = {user.token.lower(): user for user in users}
        except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
            # An unfinished edit must not lock everybody out: the users of before stay.
            logging.warning("%s cannot be read: %s", self._path, error)
        return self._users.get(hashlib.sha256(token.encode()).hexdigest())


def status_of(user: User | None) -> dict[str, Any]:
    """Return the status of the TokenReview for a user."""
    if user is None:
        return {"authenticated": False}
    return {
        "authenticated": True,
        "user": {"username": user.name, "groups": user.groups, "extra": {TENANT: [user.tenant]}},
    }


def application(users: Users) -> web.Application:
    """Return the service."""

    async def review(request: web.Request) -> web.Response:
        try:
            asked = msgspec.json.decode(await request.read(), type=Review)
        except msgspec.MsgspecError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        answer = {
            "apiVersion": asked.api_version,
            "kind": asked.kind,
            "status": status_of(users.of(asked.spec.token)),
        }
        return web.json_response(answer)

    app = web.Application(client_max_size=MAX_BYTES)
    app.router.add_post("/review", review)
    return app


async def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description="A sample identity service for tenants' users.")
    parser.add_argument("users", type=Path)
    parser.add_argument("--certificate", required=True, help="certificate of the service, PEM")
    parser.add_argument("--key", required=True, help="its key, PEM")
    parser.add_argument(
        "--client-ca", required=True, help="CA of the control plane's client certificate, PEM"
    )
    parser.add_argument("--port", type=int, default=9443)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
    # Whoever may send reviews could try out tokens: only the control plane may.
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=options.client_ca)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(options.certificate, options.key)
    runner = web.AppRunner(application(Users(options.users)))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", options.port, ssl_context=tls).start()
    logging.info("serving https://127.0.0.1:%d/review", options.port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())

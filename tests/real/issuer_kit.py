"""An OpenID Connect issuer on loopback with Keycloak's URLs and token shape, whose only user is logged in at once."""

import base64
import hashlib
import http.server
import json
import ssl
import threading
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from hack.testbed.processes import free_ports
from vcsync.apiserver.tenants import pki

REALM = "/realms/platform"
ENDPOINTS = f"{REALM}/protocol/openid-connect"
CLIENT = "vcsync"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class Issuer:
    """The issuer. `groups` are those of its user alice."""

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.url = f"https://127.0.0.1:{port}{REALM}"
        self.groups = ["/acme/developers"]
        self.logins: list[str] = []
        """Grant types of the token requests that succeeded."""
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._codes: dict[str, dict[str, str]] = {}
        """Code of a browser's login -> the query of its request."""
        self._devices: dict[str, bool] = {}
        """Device code -> whether it is confirmed."""
        self._refreshable: set[str] = set()
        authority = pki.new_authority("issuer", time.time())
        self.authority = folder / "issuer-ca.crt"
        self.authority.write_text(authority.certificate)
        pair = pki.issue_serving(authority, ["127.0.0.1"], time.time())
        chain = folder / "issuer.pem"
        chain.write_text(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def confirm(self) -> None:
        """Confirm all device codes, as their user does."""
        self._devices = dict.fromkeys(self._devices, True)

    def end_sessions(self) -> None:
        """Refuse all refresh tokens."""
        self._refreshable.clear()

    def id_token(self, **claims: Any) -> str:
        now = int(time.time())
        payload = {
            "exp": now + 300,
            "iat": now,
            "auth_time": now,
            "jti": str(uuid.uuid4()),
            "iss": self.url,
            "aud": CLIENT,
            "sub": "b1a5d0c2-8f3e-4d3a-9a51-0d6b3d1b7c11",
            "typ": "ID",
            "azp": CLIENT,
            "sid": str(uuid.uuid4()),
            "acr": "1",
            "email_verified": True,
            "name": "Alice Example",
            "preferred_username": "alice",
            "given_name": "Alice",
            "family_name": "Example",
            "email": "alice@example.com",
            "groups": self.groups,
            **claims,
        }
        return jwt.encode(payload, self._key, "RS256", headers={"kid": "realm-key"})

    def get(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        if path == f"{REALM}/.well-known/openid-configuration":
            base = self.url.removesuffix(REALM) + ENDPOINTS
            return 200, {
                "issuer": self.url,
                "authorization_endpoint": f"{base}/auth",
                "token_endpoint": f"{base}/token",
                "jwks_uri": f"{base}/certs",
                "device_authorization_endpoint": f"{base}/auth/device",
            }
        if path == f"{ENDPOINTS}/certs":
            key = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
            return 200, {"keys": [{**key, "kid": "realm-key", "use": "sig", "alg": "RS256"}]}
        if path == f"{ENDPOINTS}/auth" and query["client_id"] == CLIENT:
            code = str(uuid.uuid4())
            self._codes[code] = query
            return 302, f"{query['redirect_uri']}?{urlencode({'state': query['state'], 'code': code})}"
        return 404, {"error": "not_found"}

    def post(self, path: str, form: dict[str, str]) -> tuple[int, Any]:
        if form.get("client_id") != CLIENT:
            return 401, {"error": "invalid_client", "error_description": "Invalid client credentials"}
        if path == f"{ENDPOINTS}/auth/device":
            code = str(uuid.uuid4())
            self._devices[code] = False
            page = f"{self.url}/device"
            return 200, {
                "device_code": code,
                "user_code": "ABCD-EFGH",
                "verification_uri": page,
                "verification_uri_complete": f"{page}?user_code=ABCD-EFGH",
                "expires_in": 60,
                "interval": 0.2,
            }
        if path == f"{ENDPOINTS}/token":
            return self._token(form)
        return 404, {"error": "not_found"}

    def _token(self, form: dict[str, str]) -> tuple[int, Any]:
        grant = form["grant_type"]
        claims = {}
        if grant == "authorization_code":
            asked = self._codes.pop(form["code"], None)
            digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if (
                asked is None
                or asked["redirect_uri"] != form["redirect_uri"]
                or asked["code_challenge"] != challenge
            ):
                return 400, {"error": "invalid_grant", "error_description": "Code not valid"}
            claims = {"nonce": asked["nonce"]}
        elif grant == DEVICE_GRANT:
            if not self._devices[form["device_code"]]:
                return 400, {"error": "authorization_pending"}
        elif form["refresh_token"] not in self._refreshable:
            return 400, {"error": "invalid_grant", "error_description": "Session not active"}
        self.logins.append(grant)
        refresh = str(uuid.uuid4())
        self._refreshable.add(refresh)
        return 200, {
            "access_token": "opaque",
            "token_type": "Bearer",
            "expires_in": 300,
            "scope": "openid email profile",
            "id_token": self.id_token(**claims),
            "refresh_token": refresh,
        }


def _handler(issuer: Issuer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self._answer(*issuer.get(parts.path, _single(parts.query)))

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer(*issuer.post(self.path, _single(content)))

        def _answer(self, status: int, body: Any) -> None:
            content = b"" if status == 302 else json.dumps(body).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", body)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _single(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}

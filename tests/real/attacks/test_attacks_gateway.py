"""Attacks on the door to an external control plane, a real kube-apiserver: each is refused, or changes nothing.

The attackers are `mallory`, a user of the external control plane without permissions, and the administrator of an
embedded tenant at the same door. Whom a forwarded request acts as, the external API server itself tells.
"""

import base64
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from hack.attacks.client import Answer, Door, read_answer
from hack.attacks.framing import CHUNKS, LENGTHS
from hack.attacks.judge import REFUSED, hint, problem
from hack.attacks.world import MARK, NOBODY, VICTIM, World
from hack.testbed import TestBed

BEYOND = "beyond"
"""The external tenant; its name is as long as that of the missing tenant."""
PLACE = "door-attacks"
"""Namespace of the external control plane that contains marked objects."""
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
FIRST, WAIT = 5.0, 0.3
"""Seconds for the first answer, and for each later one, which a half request may never get."""
HANDSHAKE = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
HARMLESS = REFUSED | {200, 201, 301, 307}
"""Codes of attacks whose answers are compared with those of the same request without the attack."""
INWARD = {
    "its path": "/tenants/{}/api/v1/secrets",
    "its path in upper case": "/TENANTS/{}/api/v1/secrets",
    "Arktos' path": "/api/v1/tenants/{}/secrets",
    "Arktos' path of a group": "/apis/apps/v1/tenants/{}/deployments",
    "Arktos' path with a namespace": "/api/v1/tenants/{}/namespaces/door-attacks/secrets",
    "Arktos' old watch": "/api/v1/watch/tenants/{}/secrets",
    "its discovery": "/tenants/{}/apis",
    "its OpenAPI": "/tenants/{}/openapi/v3",
    "its version": "/tenants/{}/version",
    "its health": "/tenants/{}/healthz",
    "its metrics": "/tenants/{}/metrics",
    "its logs": "/tenants/{}/logs/kube-apiserver.log",
    "its profiles": "/tenants/{}/debug/pprof/heap",
    "its token issuer": "/tenants/{}/openid/v1/jwks",
    "a node's proxy": "/tenants/{}/api/v1/nodes/n1/proxy/pods",
    "a Service's proxy": "/tenants/{}/api/v1/namespaces/default/services/https:kubernetes:https/proxy/api/v1/secrets",
    "an aggregated API": "/tenants/{}/apis/metrics.k8s.io/v1beta1/nodes",
    "both shapes, the own tenant in front": "/tenants/mallet/api/v1/tenants/{}/secrets",
    "both shapes, the own tenant inside": "/tenants/{}/api/v1/tenants/mallet/secrets",
    "twice in front": "/tenants/mallet/tenants/{}/api/v1/secrets",
    "three times": "/tenants/mallet/tenants/{}/api/v1/tenants/{}/secrets",
    "the operator's path": "/vcsync/v1/tenants/{}/kubeconfig",
    "the operator's path below it": "/tenants/{}/vcsync/v1/tenants",
    "dot segments": "/tenants/mallet/../{}/api/v1/secrets",
    "twice encoded dot segments": "/tenants/mallet/%252e%252e/{}/api/v1/secrets",
    "empty segments": "/tenants/{}//api//v1/secrets",
    "an encoded slash": "/tenants%2f{}/api/v1/secrets",
    "an absolute form": "https://kubernetes.default.svc/tenants/{}/api/v1/secrets",
    "an absolute form without a path": "https://{}:443",
    "a host alone": "{}:443",
}  # fmt: skip
"""Paths by which the administrator of another tenant tries to reach the external one."""
ODD = {
    "dot segments": "/tenants/beyond/api/v1/namespaces/x/../door-attacks/secrets",
    "encoded dot segments": "/tenants/beyond/api/v1/namespaces/x/%2e%2e/door-attacks/secrets",
    "twice encoded dot segments": "/tenants/beyond/api/v1/namespaces/x/%252e%252e/door-attacks/secrets",
    "an encoded slash in a name": "/tenants/beyond/api/v1/namespaces/door-attacks/configmaps/..%2fsecrets",
    "a twice encoded slash": "/tenants/beyond/api/v1/namespaces/door-attacks/configmaps/..%252fsecrets",
    "an encoded backslash": "/tenants/beyond/api/v1/namespaces/door-attacks/configmaps/..%5csecrets",
    "an empty segment": "/tenants/beyond/api/v1//namespaces/door-attacks/secrets",
    "an empty segment behind the tenant": "/tenants/beyond//api/v1/namespaces/door-attacks/secrets",
    "an empty segment in front": "//tenants/beyond/api/v1/namespaces/door-attacks/secrets",
    "empty segments only": "/tenants/beyond//",
    "an encoded tenant": "/tenants/bey%6fnd/api/v1/namespaces/door-attacks/secrets",
    "an encoded prefix": "/%74enants/beyond/api/v1/namespaces/door-attacks/secrets",
    "an encoded tenant in Arktos' shape": "/api/v1/tenants/%62eyond/namespaces/door-attacks/secrets",
    "the tenant twice": "/tenants/beyond/tenants/beyond/api/v1/namespaces/door-attacks/secrets",
    "both shapes": "/tenants/beyond/api/v1/tenants/beyond/namespaces/door-attacks/secrets",
    "both shapes with another tenant": "/tenants/beyond/api/v1/tenants/victim/namespaces/default/secrets",
    "another tenant below": "/tenants/beyond/tenants/victim/api/v1/namespaces/default/secrets",
    "another tenant in front": "/tenants/victim/api/v1/tenants/beyond/namespaces/default/secrets",
    "all tenants": "/tenants/all/api/v1/secrets",
    "all tenants below": "/tenants/beyond/tenants/all/api/v1/secrets",
    "all tenants inside": "/tenants/beyond/api/v1/tenants/all/secrets",
    "no tenant": "/tenants//api/v1/namespaces/door-attacks/secrets",
    "a semicolon in the query": "/tenants/beyond/api/v1/namespaces/door-attacks/secrets?a=b;watch=1",
    "a semicolon in the path": "/tenants/beyond/api/v1/namespaces/door-attacks/secrets;watch=1",
    "a fragment": "/tenants/beyond/api/v1/namespaces/door-attacks/secrets#/../configmaps",
    "a space in the query": "/tenants/beyond/api/v1/namespaces/door-attacks/secrets?a=b%zz",
    "a second question mark": "/tenants/beyond/api/v1/namespaces/door-attacks/secrets?watch=0?watch=1",
    "NUL": "/tenants/beyond/api/v1/namespaces/door-attacks%00/secrets",
    "a line end": "/tenants/beyond/api/v1/namespaces/door-attacks/secrets%0d%0aImpersonate-User:%20admin",
    "a line end in the query": "/tenants/beyond/api/v1/namespaces/door-attacks/secrets?a=%0d%0aImpersonate-User:%20admin",
    "bytes that are no text": "/tenants/beyond/api/v1/namespaces/%ff/secrets",
    "a verb in the path": "/tenants/beyond/api/v1/proxy/namespaces/door-attacks/secrets",
    "an old watch path": "/tenants/beyond/api/v1/watch/namespaces/door-attacks/secrets",
    "a Pod's proxy by dots": "/tenants/beyond/api/v1/namespaces/door-attacks/pods/web/proxy/../../../secrets",
    "a Pod's proxy by encoded dots": "/tenants/beyond/api/v1/namespaces/door-attacks/pods/web/proxy/%2e%2e/%2e%2e/secrets",
    "a Service's proxy": "/tenants/beyond/api/v1/namespaces/default/services/https:kubernetes:https/proxy/api/v1/secrets",
    "a Service's proxy of another scheme": "/tenants/beyond/api/v1/namespaces/default/services/http:127.0.0.1:80/proxy/",
    "a node's proxy": "/tenants/beyond/api/v1/nodes/127.0.0.1:10250/proxy/pods",
    "a node's proxy to another host": "/tenants/beyond/api/v1/nodes/https:169.254.169.254:80/proxy/latest/meta-data",
    "an aggregated API": "/tenants/beyond/apis/metrics.k8s.io/v1beta1/namespaces/door-attacks/pods",
    "metrics": "/tenants/beyond/metrics",
    "profiles": "/tenants/beyond/debug/pprof/heap",
    "logs": "/tenants/beyond/logs/",
    "flags": "/tenants/beyond/flagz",
    "the gateway's credential": "/tenants/beyond/api/v1/namespaces/vcsync-system/secrets/vcsync-gateway-token",
    "the operator's path": "/tenants/beyond/vcsync/v1/tenants",
    "the operator's path without a tenant": "/vcsync/v1/tenants/beyond",
    "an absolute form": "https://victim.example.com/tenants/beyond/api/v1/namespaces/door-attacks/secrets",
    "an absolute form with user information": "https://admin:x@127.0.0.1/tenants/beyond/api/v1/namespaces/door-attacks/secrets",
}  # fmt: skip
"""Paths by which mallory tries to have the door and the API server read different requests."""
DISCOVERY = (
    "/api", "/apis", "/api/v1", "/apis/apps/v1", "/apis/apps", "/apis/{}.example.com/v1", "/version", "/openapi/v3",
    "/openapi/v3/apis/apps/v1",
)  # fmt: skip
NAMED = (
    "tenant=victim", "Tenant=victim", "tenant=victim&tenant=beyond", "tenant%3Dvictim", "tenant=%2Ftenants%2Fvictim", "tenant=all",
)  # fmt: skip
FORGED = {
    "a user": "Impersonate-User: admin",
    "a user in lower case": "impersonate-user: admin",
    "a superuser": "Impersonate-User: admin\r\nImpersonate-Group: system:masters",
    "a group alone": "Impersonate-Group: system:masters",
    "a tenant's administrators alone": "Impersonate-Group: vcsync:tenant-admins",
    "a uid alone": "Impersonate-Uid: 0",
    "extra alone": "Impersonate-Extra-Scopes: all",
    "extra with an encoded key": "Impersonate-Extra-authentication.kubernetes.io%2fcredential-id: X509SHA256=0",
    "extra without a key": "Impersonate-Extra-: a",
    "a user with every kind of header": "Impersonate-User: admin\r\nImpersonate-Uid: 0\r\nImpersonate-Group: system:masters"
    "\r\nImpersonate-Extra-A: b",
    "two users": "Impersonate-User: mallory\r\nImpersonate-User: admin",
    "two users in one": "Impersonate-User: mallory, admin",
    "a user behind spaces": "Impersonate-User:    admin",
    "a space before the colon": "Impersonate-User : admin",
    "a tab before the colon": "Impersonate-User\t: admin",
    "an underscore": "Impersonate_User: admin\r\nImpersonate_Group: system:masters",
    "a name of other letters": "\u0130mpersonate-User: admin",
    "the gateway": "Impersonate-User: system:serviceaccount:vcsync-system:vcsync-gateway",
    "a ServiceAccount that deletes namespaces": "Impersonate-User: system:serviceaccount:kube-system:namespace-controller",
    "the API server": "Impersonate-User: system:apiserver",
    "a node": "Impersonate-User: system:node:n1\r\nImpersonate-Group: system:nodes",
    "nobody": "Impersonate-User: system:anonymous",
    "an empty user": "Impersonate-User:",
    "a front proxy's user": "X-Remote-User: admin\r\nX-Remote-Group: system:masters",
    "a front proxy's uid and extra": "X-Remote-User: admin\r\nX-Remote-Uid: 0\r\nX-Remote-Extra-Scopes: all",
    "a front proxy's user in lower case": "x-remote-user: admin\r\nx-remote-group: system:masters",
    "a folded user": "User-Agent: a\r\n Impersonate-User: admin",
    "a user folded by a tab": "User-Agent: a\r\n\tImpersonate-User: admin",
    "a folded forwarded header": "Kubectl-Command: a\r\n\r\n Impersonate-User: admin",
    "a user behind a carriage return": "User-Agent: a\rImpersonate-User: admin",
    "a user behind a line feed": "User-Agent: a\nImpersonate-User: admin",
    "a user behind NUL": "User-Agent: a\x00Impersonate-User: admin",
    "a user behind a vertical tab": "Kubectl-Session: a\x0bImpersonate-User: admin",
    "a user behind another line end": "Kubectl-Session: a\u0085Impersonate-User: admin",
    "hop by hop: the credential": "Connection: Authorization",
    "hop by hop: the user": "Connection: Impersonate-User",
    "hop by hop: everything": "Connection: Authorization, Impersonate-User, Impersonate-Group, Impersonate-Uid, Host, Audit-Id",
    "hop by hop: extra": "Connection: Impersonate-Extra-authentication.kubernetes.io%2fcredential-id, keep-alive",
    "hop by hop: the proxy's": "Proxy-Connection: Authorization, Impersonate-User\r\nKeep-Alive: timeout=1",
    "hop by hop: close": "Connection: close, Impersonate-User",
    "a bearer token": "Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.",
    "a token for a proxy": "Proxy-Authorization: Bearer x",
    "a cookie": "Cookie: impersonate=admin; tenant=victim",
    "a client's certificate": 'X-Forwarded-Client-Cert: Subject="CN=admin,O=system:masters"\r\nX-SSL-Client-S-DN: CN=admin',
    "another address": "X-Forwarded-For: 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\nForwarded: for=127.0.0.1;host=victim",
    "another URL": "X-Original-URL: /api/v1/secrets\r\nX-Rewrite-URL: /api/v1/secrets\r\nX-Forwarded-Prefix: /tenants/victim",
    "another method": "X-HTTP-Method-Override: DELETE\r\nX-Method-Override: DELETE",
    "another host": "X-Forwarded-Host: victim.example.com\r\nX-Host: victim",
    "another tenant": "X-Tenant: victim\r\nX-Vcsync-Tenant: victim\r\nTenant: victim",
    "an audit id": "Audit-Id: ../../victim",
    "trailers": "TE: trailers\r\nTrailer: Impersonate-User",
    "an expectation": "Expect: 100-continue, Impersonate-User",
    "h2c": "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
    "a websocket where there is none": f"Upgrade: websocket\r\nConnection: Upgrade\r\n{HANDSHAKE}",
    "a token in a websocket": f"Upgrade: websocket\r\nConnection: Upgrade\r\n{HANDSHAKE}\r\n"
    "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YQ",
}  # fmt: skip
"""Header lines that mallory adds to the question who it is."""
HOSTS = (
    "victim",
    "victim.example.com",
    "127.0.0.1:1",
    "kubernetes.default.svc",
    "[::1]",
    "beyond@victim",
    "",
    "a b",
    "a\r\nHost: victim",
)
UPGRADES = {
    "h2c": "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
    "HTTP/2": "Upgrade: HTTP/2.0\r\nConnection: Upgrade",
    "TLS": "Upgrade: TLS/1.2, HTTP/1.1\r\nConnection: Upgrade",
    "SPDY/2": "Upgrade: SPDY/2\r\nConnection: Upgrade",
    "SPDY": "Upgrade: SPDY/3.1\r\nConnection: Upgrade\r\nX-Stream-Protocol-Version: v4.channel.k8s.io",
    "SPDY, the credential hop by hop": "Upgrade: SPDY/3.1\r\nConnection: Upgrade, Authorization, Impersonate-User",
    "SPDY, as somebody": "Upgrade: SPDY/3.1\r\nConnection: Upgrade\r\nImpersonate-User: admin\r\nImpersonate-Group: system:masters",
    "SPDY, as a front proxy": "Upgrade: SPDY/3.1\r\nConnection: Upgrade\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters",
    "SPDY with a body": "Upgrade: SPDY/3.1\r\nConnection: Upgrade\r\nContent-Length: 5",
    "SPDY in chunks": "Upgrade: SPDY/3.1\r\nConnection: Upgrade\r\nTransfer-Encoding: chunked",
    "a websocket": f"Upgrade: websocket\r\nConnection: Upgrade\r\n{HANDSHAKE}\r\nSec-WebSocket-Protocol: v5.channel.k8s.io",
    "a websocket in upper case": f"Upgrade: WEBSOCKET\r\nConnection: UPGRADE\r\n{HANDSHAKE}",
    "a websocket of an unknown version": "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 99\r\n"
    "Sec-WebSocket-Key: x",
    "a websocket with a token": f"Upgrade: websocket\r\nConnection: Upgrade\r\n{HANDSHAKE}\r\n"
    "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YQ, v5.channel.k8s.io",
    "a websocket, the user hop by hop": f"Upgrade: websocket\r\nConnection: Upgrade, Impersonate-User\r\n{HANDSHAKE}",
    "a websocket, as somebody": f"Upgrade: websocket\r\nConnection: Upgrade\r\n{HANDSHAKE}\r\nImpersonate-User: admin",
    "two protocols": f"Upgrade: websocket, h2c\r\nConnection: Upgrade\r\n{HANDSHAKE}",
    "two headers": f"Upgrade: websocket\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n{HANDSHAKE}",
    "no Connection": f"Upgrade: websocket\r\n{HANDSHAKE}",
    "a folded protocol": f"Upgrade: websocket\r\n Impersonate-User: admin\r\nConnection: Upgrade\r\n{HANDSHAKE}",
}  # fmt: skip
STREAMS = (
    "pods/web/exec?command=id&stdout=1",
    "pods/web/attach?stdout=1",
    "pods/web/portforward?ports=80",
    "pods/web/proxy/",
    "services/web/proxy/",
    "secrets?watch=1",
)
UNAMBIGUOUS = frozenset({"chunked behind gzip"})
"""Framings in which the body ends where the hidden request begins, for every reader (RFC 9112, section 6.3)."""
NAMES = {
    "a superuser": ("root", "system:masters"),
    "a node": ("system:node:n1", "system:nodes"),
    "the group of all ServiceAccounts": ("root", "system:serviceaccounts"),
    "the group of some ServiceAccounts": ("root", "system:serviceaccounts:kube-system"),
    "unauthenticated": ("root", "system:unauthenticated"),
    "a group in other letters": ("root", "System:Masters"),
    "a group of wide letters": ("root", "\uff53\uff59\uff53\uff54\uff45\uff4d:masters"),
    "a group behind a space": ("root", "\u2003system:masters"),
    "a group behind nothing": ("root", "\u200bsystem:masters"),
    "nobody": ("system:anonymous", ""),
    "a ServiceAccount": ("system:serviceaccount:kube-system:default", ""),
}  # fmt: skip


LAST = b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@dataclass
class Outside:
    """The external control plane: its administrator at the door, and a user without permissions."""

    owner: Door
    mallory: Door
    known: dict[str, Any]

    def secrets(self, **headers: str) -> Answer:
        return self.mallory.ask(
            "GET", f"/tenants/{BEYOND}/api/v1/namespaces/{PLACE}/secrets", headers=headers
        )


@pytest.fixture(scope="module")
def outside(world: World, testbed: TestBed) -> Iterator[Outside]:
    umbrella = testbed.tenants["umbrella"]
    world.plane.vcsync("tenant", "connect", BEYOND, "--kubeconfig", str(umbrella.kubeconfig))
    owner, mallory = world.user(BEYOND), world.user(BEYOND, "mallory")
    assert owner.ask("POST", "/api/v1/namespaces", {"metadata": {"name": PLACE}}).status in (201, 409)
    for plural in ("secrets", "configmaps"):
        body = {"metadata": {"name": "kept", "annotations": {"mark": MARK}}}
        assert owner.ask("POST", f"/api/v1/namespaces/{PLACE}/{plural}", body).status in (201, 409)
    yield Outside(owner, mallory, identity(mallory.ask("POST", REVIEW, {})))
    owner.ask("DELETE", f"/api/v1/namespaces/{PLACE}")


@pytest.fixture(autouse=True)
def kept(outside: Outside) -> Iterator[None]:
    """Check after every attack that the door still serves, and that the marked objects are as they were."""
    yield
    for plural in ("secrets", "configmaps"):
        answer = outside.owner.ask("GET", f"/api/v1/namespaces/{PLACE}/{plural}/kept")
        assert answer.json["metadata"]["annotations"] == {"mark": MARK}


def identity(answer: Answer) -> dict[str, Any]:
    """Return the user that the external API server reports."""
    assert answer.status == 201, answer.message
    found: dict[str, Any] = answer.json["status"]["userInfo"]
    return found


def lines(method: str, path: str, header: str, body: bytes = b"", host: str = "x") -> bytes:
    """Return a request with header lines as they are."""
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{header}\r\n"
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{head}{length}\r\n".encode() + body


def every_answer(door: Door, sent: bytes) -> list[Answer]:
    """Send bytes, and a request after which the door closes the connection; return all answers but the last one's."""
    found: list[Answer] = []
    with contextlib.suppress(OSError, ValueError), door.connect() as connection:
        connection.settimeout(FIRST)
        connection.sendall(sent + LAST)
        with connection.makefile("rb") as stream:
            while answer := read_answer(stream):
                connection.settimeout(WAIT)
                found.append(answer)
    return [each for each in found if b'"gitVersion"' not in each.body]


def test_mallory_is_exactly_itself(outside: Outside) -> None:
    assert outside.known["username"] == "mallory"
    assert outside.known["groups"] == ["system:authenticated"]
    assert problem(outside.secrets(), frozenset({403})) == ""


@pytest.mark.parametrize("what", INWARD)
def test_another_tenants_administrator_does_not_reach_it(world: World, outside: Outside, what: str) -> None:
    for door in (world.attacker, world.anonymous):

        def attack(tenant: str, door: Door = door) -> Answer:
            return door.ask("GET", INWARD[what].replace("{}", tenant))

        # Version and health are those of the door itself, for everybody.
        open_to_all = door is world.anonymous and what in ("its version", "its health")
        assert hint(attack, REFUSED | {200} if open_to_all else REFUSED, BEYOND) == ""


@pytest.mark.parametrize("what", ODD)
def test_an_odd_path_is_refused(outside: Outside, what: str) -> None:
    for method in ("GET", "DELETE"):
        assert problem(outside.mallory.ask(method, ODD[what])) == ""


@pytest.mark.parametrize("named", NAMED)
def test_a_tenant_in_the_query_has_no_effect(world: World, outside: Outside, named: str) -> None:
    for path in DISCOVERY:
        for door in (world.attacker, outside.mallory):
            own = path.replace("{}", VICTIM)
            answer = door.ask("GET", f"{own}?{named}")
            assert problem(answer, HARMLESS) == ""
            assert answer.visible[::2] == door.ask("GET", own).visible[::2]


@pytest.mark.parametrize("what", FORGED)
def test_forged_headers_make_nobody_else_of_a_user(outside: Outside, what: str) -> None:
    for answer in every_answer(outside.mallory, lines("POST", REVIEW, FORGED[what], b"{}")):
        assert problem(answer, REFUSED | {201}) == ""
        if answer.status == 201:
            assert identity(answer) == outside.known
    for path in (f"/api/v1/namespaces/{PLACE}/secrets", f"/tenants/{VICTIM}/api/v1/secrets"):
        assert problem(outside.mallory.raw(lines("GET", path, FORGED[what]))[0]) == ""


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_names_no_tenant(outside: Outside, host: str) -> None:
    answer = outside.mallory.raw(lines("POST", REVIEW, "A: b", b"{}", host))[0]
    assert problem(answer, frozenset({201, 400})) == ""
    if answer.status == 201:
        assert identity(answer) == outside.known


@pytest.mark.parametrize("what", LENGTHS)
def test_no_request_hides_behind_an_ambiguous_length(outside: Outside, what: str) -> None:
    hidden = b"0\r\n\r\n" + lines("DELETE", f"/api/v1/namespaces/{PLACE}/configmaps/kept", "A: b")
    head = f"POST {REVIEW} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
    # The owner may delete the object, and the check after the attack would miss it.
    door = outside.mallory if what in UNAMBIGUOUS else outside.owner
    for answer in every_answer(door, head + LENGTHS[what] + b"\r\n\r\n" + hidden):
        assert problem(answer) == ""


@pytest.mark.parametrize("what", CHUNKS)
def test_a_malformed_chunk_ends_at_the_door(outside: Outside, what: str) -> None:
    place = f"/api/v1/namespaces/{PLACE}/configmaps"
    head = f"POST {place} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    for answer in every_answer(outside.mallory, head.encode() + CHUNKS[what]):
        assert problem(answer) == ""


@pytest.mark.parametrize("what", UPGRADES)
def test_an_upgrade_gives_no_rights(outside: Outside, what: str) -> None:
    for method in ("GET", "POST"):
        asked = lines(method, f"/api/v1/namespaces/{PLACE}/{STREAMS[0]}", UPGRADES[what])
        hidden = lines("GET", f"/api/v1/namespaces/{PLACE}/secrets", "A: b")
        for answer in every_answer(outside.mallory, asked + hidden):
            assert problem(answer) == ""


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("what", ["SPDY, as somebody", "a websocket, as somebody", "h2c"])
def test_no_stream_can_be_upgraded_without_the_right_to_it(outside: Outside, what: str, stream: str) -> None:
    asked = lines("GET", f"/api/v1/namespaces/{PLACE}/{stream}", UPGRADES[what])
    assert problem(outside.mallory.raw(asked)[0]) == ""


@pytest.mark.parametrize("what", NAMES)
def test_a_certificate_gives_no_group_of_kubernetes(world: World, outside: Outside, what: str) -> None:
    name, group = NAMES[what]
    config = world.user(BEYOND, name, *([group] if group else []))
    assert problem(config.ask("GET", f"/api/v1/namespaces/{PLACE}/secrets"), frozenset({401, 403})) == ""


def test_the_gateways_credential_opens_nothing_at_the_door(
    world: World, outside: Outside, testbed: TestBed
) -> None:
    found = testbed.tenants["umbrella"].call(
        "GET", "/api/v1/namespaces/vcsync-system/secrets/vcsync-gateway-token"
    )
    token = base64.b64decode(found[1]["data"]["token"]).decode()
    for tenant in (BEYOND, VICTIM, NOBODY):
        header = {"Authorization": f"Bearer {token}"}
        answer = world.anonymous.ask("GET", f"/tenants/{tenant}/api/v1/secrets", headers=header)
        assert problem(answer, frozenset({401, 403})) == ""
    assert token not in json.dumps(world.plane.log.read_text())

"""Requests whose headers or framing a door and an external API server could read differently; what reaches the server tells."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hack.attacks.case import Case, Scene, wrong
from hack.attacks.client import Answer, Door
from hack.attacks.judge import REFUSED
from hack.attacks.upstream import TOKEN, Received, Upstream, started

USER = "mallory"
PLACE = "/api/v1/namespaces/default/configmaps"
HIDDEN = "hidden-5d41402abc4b"
"""Name in the target of requests that hide behind another one."""
HARMLESS = REFUSED | {200, 304}
PASSES = frozenset(
    {"accept", "accept-encoding", "audit-id", "authorization", "content-encoding", "content-length", "content-type", "host",
     "if-match", "if-modified-since", "if-none-match", "impersonate-user", "kubectl-command", "kubectl-session", "range",
     "transfer-encoding", "user-agent", "impersonate-extra-authentication.kubernetes.io%2fcredential-id"}
)  # fmt: skip
"""Headers that may reach the server. All others are credentials, hop-by-hop, or nothing that it needs."""
LINES = {
    "an encoded hyphen": "Impersonate%2dUser: admin",
    "a semicolon behind the name": "Impersonate-User;: admin",
    "a space of another kind": "Impersonate-User\xa0: admin",
    "a name in quotes": '"Impersonate-User": admin',
    "a name with a slash": "x/Impersonate-User: admin",
    "an extra in upper case": "IMPERSONATE-EXTRA-AUTHENTICATION.KUBERNETES.IO%2FCREDENTIAL-ID: X509SHA256=1",
    "an extra's key encoded twice": "Impersonate-Extra-a%252fb: c",
    "a group for every letter": "\r\n".join(f"Impersonate-Group: {each}" for each in "abcdefghij"),
    "eleven hundred groups": "\r\n".join(["Impersonate-User: admin", *["Impersonate-Group: g"] * 1100]),
    "the gateway's own account": "Impersonate-User: system:serviceaccount:vcsync-system:vcsync-gateway",
    "the syncer": "Impersonate-User: system:serviceaccount:vcsync-system:vcsync-syncer",
    "a front proxy with underscores": "X_Remote_User: admin\r\nX_Remote_Group: system:masters",
    "a front proxy's extra, encoded": "X-Remote-Extra-acme.com%2Fproject: a",
    "a front proxy of another name": "X-Auth-Request-User: admin\r\nX-WEBAUTH-USER: admin\r\nRemote-User: admin",
    "a service mesh's identity": "X-Forwarded-Client-Cert: By=spiffe://x/ns/kube-system\r\nL5D-Client-ID: admin",
    "a cloud's identity": "X-Goog-Authenticated-User-Email: a@b\r\nX-Amzn-Oidc-Identity: admin\r\nX-MS-CLIENT-PRINCIPAL: x",
    "two credentials": "Authorization: Bearer a\r\nAuthorization: Bearer b",
    "basic credentials": "Authorization: Basic YWRtaW46YWRtaW4=",
    "credentials of another scheme": "Authorization: Negotiate YII=",
    "credentials in upper case": "AUTHORIZATION: Bearer x",
    "a token of a websocket": "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YQ, v4.channel.k8s.io",
    "hop by hop: the agent": "Connection: User-Agent, Accept",
    "hop by hop: the type": "Connection: Content-Type",
    "hop by hop: the length": "Connection: Content-Length",
    "hop by hop: the coding": "Connection: Transfer-Encoding",
    "hop by hop: the audit id": "Connection: Audit-Id",
    "hop by hop: the extra": "Connection: impersonate-extra-authentication.kubernetes.io%2fcredential-id",
    "hop by hop: every name": "Connection: " + ", ".join(sorted(PASSES)),
    "hop by hop: twice": "Connection: keep-alive\r\nConnection: Impersonate-User, Authorization",
    "hop by hop: nothing": "Connection: ,,,",
    "hop by hop: an upgrade without a protocol": "Connection: Upgrade",
    "a protocol without an upgrade": "Upgrade: SPDY/3.1",
    "a proxy's length": "Proxy-Connection: Content-Length\r\nProxy-Authenticate: Basic",
    "codings of answers": "TE: chunked, trailers\r\nTrailer: Content-Length",
    "a limit of hops": "Max-Forwards: 0\r\nVia: 1.1 victim",
    "another path": "X-Original-Uri: /api/v1/secrets\r\nX-Envoy-Original-Path: /api/v1/secrets\r\nX-Accel-Redirect: /etc",
    "another port and scheme": "X-Forwarded-Proto: http\r\nX-Forwarded-Port: 80\r\nX-Forwarded-Ssl: off",
    "another address": "True-Client-IP: 127.0.0.1\r\nCF-Connecting-IP: 127.0.0.1\r\nX-Client-IP: 127.0.0.1",
    "a cache's key": "Cache-Control: only-if-cached\r\nPragma: no-cache\r\nX-Cache-Key: victim",
    "another origin": "Origin: https://victim\r\nReferer: https://victim/\r\nAccess-Control-Request-Method: DELETE",
    "a stream's version": "X-Stream-Protocol-Version: v5.channel.k8s.io",
    "a trace": "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nBaggage: user=admin",
    "an agent of other bytes": "User-Agent: \xff\xfe\x80",
    "an agent with a line end, encoded": "User-Agent: a%0d%0aImpersonate-User: admin",
    "an agent with a tab": "User-Agent: a\tImpersonate-User: admin",
    "a type with a vertical tab": "Content-Type: application/json\x0bImpersonate-User: admin",
    "a type with a form feed": "Content-Type: application/json\x0cImpersonate-User: admin",
    "a long session": "Kubectl-Session: " + "a" * 15_000,
    "many types": "Accept: " + ", ".join(["application/json"] * 500),
    "a range": "Range: bytes=0-0,-1",
    "an escape": "Kubectl-Command: \x1b]0;admin\x07",
    "a backspace": "Kubectl-Command: admin\x08\x08",
    "an empty name": ": admin",
    "a line without a colon": "Impersonate-User admin",
    "a line of one space": " ",
    "a line that is a request": "GET /api/v1/secrets HTTP/1.1",
}  # fmt: skip
"""Header lines that are added to a request."""
HEADS = {
    "two hosts": "GET {} HTTP/1.1\r\nHost: x\r\nHost: victim\r\n",
    "a host with a path": "GET {} HTTP/1.1\r\nHost: x/tenants/victim\r\n",
    "a host with a query": "GET {} HTTP/1.1\r\nHost: x?tenant=victim\r\n",
    "a host with a fragment": "GET {} HTTP/1.1\r\nHost: x#victim\r\n",
    "a host with a comma": "GET {} HTTP/1.1\r\nHost: x, victim\r\n",
    "a host with a backslash": "GET {} HTTP/1.1\r\nHost: x\\victim\r\n",
    "an encoded host": "GET {} HTTP/1.1\r\nHost: %76ictim\r\n",
    "a host that is a port": "GET {} HTTP/1.1\r\nHost: :6443\r\n",
    "a host of other letters": "GET {} HTTP/1.1\r\nHost: v\xefctim\r\n",
    "no host": "GET {} HTTP/1.1\r\n",
    "an absolute form of another host": "GET https://victim{} HTTP/1.1\r\nHost: x\r\n",
    "an absolute form of another scheme": "GET file://{} HTTP/1.1\r\nHost: x\r\n",
    "an absolute form with an empty host": "GET https://{} HTTP/1.1\r\nHost: x\r\n",
    "an absolute form with a port that is none": "GET https://victim:x{} HTTP/1.1\r\nHost: x\r\n",
    "a relative form": "GET ..{} HTTP/1.1\r\nHost: x\r\n",
    "an authority": "CONNECT victim:443 HTTP/1.1\r\nHost: victim:443\r\n",
    "a connection to a path": "CONNECT {} HTTP/1.1\r\nHost: x\r\n",
    "a trace": "TRACE {} HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n",
    "the whole server": "OPTIONS * HTTP/1.1\r\nHost: x\r\n",
    "an asterisk": "GET * HTTP/1.1\r\nHost: x\r\n",
    "a method in lower case": "get {} HTTP/1.1\r\nHost: x\r\n",
    "a method that is a line": "GET\x0b/ {} HTTP/1.1\r\nHost: x\r\n",
    "an unknown method": "PROPFIND {} HTTP/1.1\r\nHost: x\r\n",
    "two spaces": "GET  {} HTTP/1.1\r\nHost: x\r\n",
    "a tab for a space": "GET\t{}\tHTTP/1.1\r\nHost: x\r\n",
    "a space in front": " GET {} HTTP/1.1\r\nHost: x\r\n",
    "a third word": "GET {} x HTTP/1.1\r\nHost: x\r\n",
    "line feeds only": "GET {} HTTP/1.1\nHost: x\n",
    "carriage returns only": "GET {} HTTP/1.1\rHost: x\r",
    "an earlier version": "GET {} HTTP/1.0\r\nHost: x\r\n",
    "an old version": "GET {}\r\n",
    "a later version": "GET {} HTTP/2.0\r\nHost: x\r\n",
    "a version of many digits": "GET {} HTTP/1.10\r\nHost: x\r\n",
    "the preface of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n",
    "a long path": "GET {}" + "/a" * 40_000 + " HTTP/1.1\r\nHost: x\r\n",
    "a long query": "GET {}?a=" + "a" * 70_000 + " HTTP/1.1\r\nHost: x\r\n",
    "a path of other bytes": "GET {}/\xff HTTP/1.1\r\nHost: x\r\n",
    "a path with a control character": "GET {}/a\x01b HTTP/1.1\r\nHost: x\r\n",
    "a path with a quote": 'GET {}/"<> HTTP/1.1\r\nHost: x\r\n',
    "a path with braces": "GET {}/{{}}|^` HTTP/1.1\r\nHost: x\r\n",
    "dots behind an encoded slash": "GET {}/a%2F..%2F..%2Fsecrets HTTP/1.1\r\nHost: x\r\n",
    "dots behind a semicolon": "GET {}/..;/secrets HTTP/1.1\r\nHost: x\r\n",
    "an empty segment at the end": "GET {}// HTTP/1.1\r\nHost: x\r\n",
    "a percent sign alone": "GET {}/% HTTP/1.1\r\nHost: x\r\n",
    "a query encoded twice": "GET {}?fieldSelector=%2525 HTTP/1.1\r\nHost: x\r\n",
    "a query with NUL": "GET {}?a=%00 HTTP/1.1\r\nHost: x\r\n",
}  # fmt: skip
"""Heads of requests for a path, without the last empty line."""
FRAMES = {
    "an empty length": b"Content-Length:\r\n\r\n",
    "two numbers in a length": b"Content-Length: 5 5\r\n\r\n12345",
    "a length and a semicolon": b"Content-Length: 5;\r\n\r\n12345",
    "the same length twice": b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a length of another name": b"Content_Length: 200\r\nContent-Length: 2\r\n\r\n{}",
    "a length behind a control character": b"Content-Length: \x0c2\r\n\r\n{}",
    "a coding of another name": b"Transfer_Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
    "a coding without a value": b"Transfer-Encoding:\r\nContent-Length: 2\r\n\r\n{}",
    "a coding with a parameter": b"Transfer-Encoding: chunked;q=1\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "the identity": b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}",
    "a coding in two headers": b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a folded coding": b"Transfer-Encoding:\r\n chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "chunked and nothing": b"Transfer-Encoding: chunked,\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a space before a chunk's size": b"Transfer-Encoding: chunked\r\n\r\n 2\r\n{}\r\n0\r\n\r\n",
    "a space behind a chunk's size": b"Transfer-Encoding: chunked\r\n\r\n2 \r\n{}\r\n0\r\n\r\n",
    "line feeds between chunks": b"Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n",
    "a carriage return behind a chunk's size": b"Transfer-Encoding: chunked\r\n\r\n2\r{}\r\n0\r\n\r\n",
    "a chunk longer than its size": b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
    "a chunk's size with an underscore": b"Transfer-Encoding: chunked\r\n\r\n0_2\r\n{}\r\n0\r\n\r\n",
    "an extension with a line end": b'Transfer-Encoding: chunked\r\n\r\n2;a="\r\n{}\r\n0\r\n\r\n',
    "an extension with a line feed": b"Transfer-Encoding: chunked\r\n\r\n2;\n{}\r\n0\r\n\r\n",
    "a trailer that is a length": b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nContent-Length: 200\r\n\r\n",
    "a trailer that is a user": b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nImpersonate-User: admin\r\n\r\n",
    "a body longer than its length": b"Content-Length: 1\r\n\r\n{}",
    "an expectation without a body": b"Expect: 100-continue\r\nContent-Length: 0\r\n\r\n",
    "a body in another coding": b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
}  # fmt: skip
"""Header lines and bodies; a hidden request follows."""
ON_ITS_OWN = frozenset(
    {"a length of another name", "the same length twice", "a coding of another name", "an expectation without a body",
     "a body in another coding", "a trailer that is a length", "a trailer that is a user", "a space behind a chunk's size"}
)  # fmt: skip
"""Framings with one reading, if they are not refused: the request behind them is one of its own, as its user."""
LEARN_SECONDS = 20.0


@dataclass(frozen=True)
class Outside:
    """An external tenant whose API server records what reaches it."""

    server: Upstream
    door: Door
    tenant: str

    @property
    def path(self) -> str:
        """Return the path at the door under which its ConfigMaps are."""
        return f"/tenants/{self.tenant}{PLACE}"


_TENANTS: dict[str, Outside] = {}


def outside(scene: Scene) -> Outside:
    """Return the external tenant of a scene, which the first attack creates."""
    name, port = f"{scene.tenant}-out", scene.world.plane.port
    server = started()
    key = f"{name} {scene.world.plane.data}"
    found = _TENANTS.get(key)
    if found is None:
        made = scene.world.operator.ask(
            "POST", "/vcsync/v1/tenants", {"name": name, "upstream": server.record}
        )
        if made.status not in (201, 409):
            raise RuntimeError(f"external tenant {name}: {made.message}")
        found = _TENANTS[key] = Outside(server, scene.world.user(name, USER), name)
        until = time.monotonic() + LEARN_SECONDS
        while replace(found.door, port=port).ask("GET", found.path).status != 200:
            if time.monotonic() > until:
                raise RuntimeError(f"external tenant {name} is not served")
            time.sleep(0.1)
    server.taken()
    return replace(found, door=replace(found.door, port=port))


def findings(received: Sequence[Received], *, hidden: bool = False) -> Iterator[str]:
    """Return what is wrong with the requests that reached the server. `hidden`: the hidden request is one of its own."""
    for each in received:
        names = [name for name, _ in each.headers]
        if other := set(names) - PASSES:
            yield f"these headers reached the server: {sorted(other)}"
        if len(names) != len(set(names)) or "host" not in names:
            yield f"headers reached the server twice, or none: {names}"
        if each.values("authorization") != [f"Bearer {TOKEN}"] or each.values("impersonate-user") != [USER]:
            yield f"it was sent as {each.values('impersonate-user')} by {each.values('authorization')}"
        if {"content-length", "transfer-encoding"} <= set(names):
            yield "it has a length and a coding"
        if not each.target.startswith("/api/") or any(
            part in each.target for part in ("//", "/..", "victim")
        ):
            yield f"its target is {each.target[:100]}"
        if HIDDEN in each.target and not hidden:
            yield "the hidden request reached the server"


def cases() -> Sequence[Case]:
    """Send odd headers, odd heads and odd frames to an external tenant."""
    found = [_with_lines(name, lines) for name, lines in LINES.items()]
    found += [_with_head(name, head) for name, head in HEADS.items()]
    return found + [_with_frame(name, frame) for name, frame in FRAMES.items()]


def _judged(place: Outside, answers: Sequence[Answer], *, hidden: bool = False) -> Iterator[str]:
    for each in answers:
        yield from wrong(each, HARMLESS)
    yield from findings(place.server.taken(), hidden=hidden)


def _with_lines(name: str, lines: str) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        place = outside(scene)
        for method in ("GET", "DELETE"):
            head = f"{method} {place.path}/x HTTP/1.1\r\nHost: x\r\n{lines}\r\n\r\n"
            yield from _judged(place, place.door.raw(head.encode("latin-1"), seconds=5))

    return Case(f"a header: {name}", attack)


def _with_head(name: str, head: str) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        place = outside(scene)
        end = "\n" if "\r" not in head else "\r" if "\n" not in head else "\r\n"
        sent = head.format(f"{place.path}") + end
        yield from _judged(place, place.door.raw(sent.encode("latin-1"), seconds=3))

    return Case(f"a head: {name}", attack)


def _with_frame(name: str, frame: bytes) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        place = outside(scene)
        hidden = f"DELETE {place.path}/{HIDDEN} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        for method in ("POST", "GET"):
            head = f"{method} {place.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
            answers = place.door.raw(head + frame + hidden, answers=2, seconds=3)
            yield from _judged(place, answers, hidden=name in ON_ITS_OWN)

    return Case(f"a frame: {name}", attack)

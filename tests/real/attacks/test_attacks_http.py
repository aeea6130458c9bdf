"""Malformed and misleading HTTP: every request is authorized for its own caller, and none is hidden in another."""

import socket
import ssl
from dataclasses import replace

import pytest

from hack.attacks.client import Answer, answers_of
from hack.attacks.framing import CHUNKS, HIDDEN, LENGTHS
from hack.attacks.judge import hint, problem
from hack.attacks.world import ATTACKER, MARK, NOBODY, VICTIM, World

PLACE = "/api/v1/namespaces/default/configmaps"
WAIT = 0.5
"""Seconds for an answer that a half request may never get."""
FORGED = {
    "X-Remote-User": "X-Remote-User: admin\r\nX-Remote-Group: system:masters",
    "X-Remote-Extra": "X-Remote-User: admin\r\nX-Remote-Extra-Tenant: {}",
    "X-Tenant": "X-Tenant: {}\r\nX-Vcsync-Tenant: {}\r\nTenant: {}",
    "X-Forwarded-Client-Cert": 'X-Forwarded-Client-Cert: By=x;Hash=0;Subject="CN=admin,O=system:masters"',
    "X-SSL-Client-Cert": "X-SSL-Client-Cert: x\r\nSSL-Client-S-DN: CN=admin\r\nX-Client-Verify: SUCCESS",
    "X-Forwarded-For": "X-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1;host={};proto=https\r\nX-Real-IP: ::1",
    "X-Forwarded-Host": "X-Forwarded-Host: {}\r\nX-Forwarded-Prefix: /tenants/{}\r\nX-Forwarded-Uri: /tenants/{}/api",
    "X-Original-URL": "X-Original-URL: /tenants/{}/api/v1/secrets\r\nX-Rewrite-URL: /tenants/{}/api/v1/secrets",
    "X-HTTP-Method-Override": "X-HTTP-Method-Override: DELETE\r\nX-Method-Override: DELETE",
    "another Host": "Host: {}.example.com",
    "hop by hop": "Connection: Authorization, X-Remote-User, close",
    "a cookie": "Cookie: token={}; tenant={}",
    "Basic as somebody": "Authorization: Basic YWRtaW46YWRtaW4=",
    "Negotiate": "Authorization: Negotiate YII=",
    "h2c": "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
    "folded": "X-Folded: a\r\n X-Remote-User: admin",
}  # fmt: skip
LINES = {
    "HTTP/0.9": b"GET /api/v1/namespaces\r\n\r\n",
    "HTTP/2's preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/3.0": b"GET /api HTTP/3.0\r\nHost: x\r\n\r\n",
    "CONNECT": b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: x\r\n\r\n",
    "TRACE": b"TRACE /api HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n",
    "an unknown method": b"PROPFIND /api/v1/namespaces HTTP/1.1\r\nHost: x\r\n\r\n",
    "a method in lower case": b"get /api/v1/namespaces HTTP/1.1\r\nHost: x\r\n\r\n",
    "a long method": b"A" * 100_000 + b" /api HTTP/1.1\r\nHost: x\r\n\r\n",
    "a long path": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a space in the path": b"GET /api/v1 /namespaces HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes that are no text": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header without a colon": b"GET /api HTTP/1.1\r\nHost: x\r\nNoColon\r\n\r\n",
    "a header without a name": b"GET /api HTTP/1.1\r\nHost: x\r\n: a\r\n\r\n",
    "a second TLS handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "nothing but empty lines": b"\r\n" * 5000,
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_header_does_not_authenticate_an_anonymous_caller(world: World, what: str) -> None:
    def attack(tenant: str) -> Answer:
        header = FORGED[what].replace("{}", tenant)
        head = f"GET /tenants/{tenant}/api/v1/secrets HTTP/1.1\r\n"
        host = "" if header.startswith("Host") else "Host: x\r\n"
        return world.attacker.raw(f"{head}{host}{header}\r\n\r\n".encode())[0]

    assert hint(attack, frozenset({400, 403})) == ""


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_header_does_not_give_rights(world: World, what: str) -> None:
    for path in ("/api/v1/secrets", f"/tenants/{VICTIM}/api/v1/secrets", "/vcsync/v1/tenants"):
        host = "" if FORGED[what].startswith("Host") else "Host: x\r\n"
        sent = f"GET {path} HTTP/1.1\r\n{host}{FORGED[what].replace('{}', VICTIM)}\r\n\r\n"
        answer = world.anonymous.raw(sent.encode())[0]
        assert problem(answer, frozenset({400, 401, 403})) == ""


def test_requests_with_two_hosts_or_none_are_refused(world: World) -> None:
    for host in (f"Host: a\r\nHost: {VICTIM}", "Host:", "Host: a b", f"Host: {VICTIM}\r\nHost: a"):
        sent = f"GET /tenants/{VICTIM}/api/v1/secrets HTTP/1.1\r\n{host}\r\n\r\n"
        assert problem(world.attacker.raw(sent.encode())[0], frozenset({400, 403})) == ""


@pytest.mark.parametrize("what", LENGTHS)
def test_an_ambiguous_length_is_refused(world: World, what: str) -> None:
    def attack(tenant: str) -> Answer:
        head = (
            f"POST {PLACE} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode() + LENGTHS[what]
        )
        hidden = b"0\r\n\r\n" + HIDDEN.replace(b"{}", tenant.encode())
        answers = world.attacker.raw(head + b"\r\n\r\n" + hidden, answers=2, seconds=WAIT)
        for each in answers:
            assert problem(each) == ""
        return answers[0]

    assert hint(attack) == ""
    assert world.attacker.ask("GET", f"{PLACE}/smuggled").status == 404


@pytest.mark.parametrize("what", CHUNKS)
def test_a_malformed_chunk_is_refused(world: World, what: str) -> None:
    head = f"POST {PLACE} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    answers = world.anonymous.raw(head.encode() + CHUNKS[what], answers=2, seconds=WAIT)
    for each in answers:
        assert problem(each) == ""


@pytest.mark.parametrize("what", LINES)
def test_a_malformed_request_line_is_refused(world: World, what: str) -> None:
    for answer in world.anonymous.raw(LINES[what], answers=2, seconds=WAIT):
        assert problem(answer) == ""
        assert b"Bearer secret" not in answer.body


def test_every_request_of_a_connection_is_judged_on_its_own(world: World) -> None:
    own, others = (
        world.attacker.request("GET", PLACE),
        world.attacker.request("GET", f"/tenants/{VICTIM}{PLACE}"),
    )
    answers = world.attacker.raw(own + others + own + others, answers=4)
    assert [each.status for each in answers] == [200, 403, 200, 403]
    assert all(problem(each, frozenset({200, 403})) == "" for each in answers)


def test_a_token_counts_for_its_own_request_only(world: World) -> None:
    place = "/api/v1/namespaces/default/serviceaccounts/default/token"
    world.attacker.ask(
        "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}}
    )
    token = world.attacker.ask("POST", place, {"spec": {}}).json["status"]["token"]
    known, unknown = replace(world.anonymous, token=token), world.anonymous
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answers = unknown.raw(known.request("POST", path, {}) + unknown.request("POST", path, {}), answers=2)
    assert [each.status for each in answers] == [201, 403]


def test_a_request_in_a_get_requests_body_is_not_served(world: World) -> None:
    hidden = world.attacker.request("DELETE", f"{PLACE}/kept")
    world.attacker.ask("POST", PLACE, {"metadata": {"name": "kept"}})
    sent = world.attacker.request("GET", PLACE, hidden, {"Content-Length": str(len(hidden))})
    world.attacker.raw(sent, answers=2, seconds=WAIT)
    assert world.attacker.ask("GET", f"{PLACE}/kept").status == 200


def test_two_tokens_in_one_request_are_not_both_tried(world: World) -> None:
    for order in (
        "Bearer a\r\nAuthorization: Bearer b",
        "Bearer a, Bearer b",
        "Bearer a b",
        "Bearer",
        "bearer\ta",
    ):
        sent = f"GET /api/v1/secrets HTTP/1.1\r\nHost: x\r\nAuthorization: {order}\r\n\r\n"
        assert problem(world.anonymous.raw(sent.encode())[0], frozenset({400, 401, 403})) == ""


@pytest.mark.parametrize(
    "value", ["a\r\nX-Evil: 1", "a\r\n\r\n<html>", "a\x00", 'a"; evil="1', "\u2028", "a\nSet-Cookie: b=c"]
)
def test_text_that_is_returned_in_a_header_does_not_split_an_answer(world: World, value: str) -> None:
    body = {"metadata": {"name": "w", "annotations": {"a": value}}, "spec": {"containers": [{"name": value}]}}
    for place in (PLACE, "/api/v1/namespaces/default/pods"):
        answer = world.attacker.ask(
            "POST", f"{place}?fieldValidation=Warn&dryRun=All", {**body, value: value}
        )
        assert problem(answer, frozenset({201, 400, 403, 422})) == ""
        assert not {"x-evil", "set-cookie"} & {key for key, _ in answer.headers}


def test_a_websocket_opens_with_no_other_credential(world: World) -> None:
    head = (
        f"GET /tenants/{VICTIM}/api/v1/secrets?watch=1 HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YQ, v4.channel.k8s.io\r\n\r\n"
    )
    assert problem(world.attacker.raw(head.encode())[0], frozenset({403})) == ""
    assert problem(world.anonymous.raw(head.encode())[0], frozenset({401, 403})) == ""


def test_plain_http_gets_no_answer(world: World) -> None:
    with socket.create_connection(("127.0.0.1", world.plane.port), timeout=60) as plain:
        plain.sendall(f"GET /tenants/{VICTIM}/api HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert MARK.encode() not in plain.recv(65536)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_tls_is_refused(world: World) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(OSError, match=r".*"):
        replace(world.anonymous, tls=old).connect()


def test_the_handshake_names_no_tenant(world: World) -> None:
    context = ssl.create_default_context(cafile=str(world.plane.data / "ca.crt"))
    # In this version the certificate request of the server is not encrypted.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    with socket.create_connection(("127.0.0.1", world.plane.port), timeout=60) as plain:
        plain.sendall(outgoing.read())
        received = plain.recv(65536)
        plain.settimeout(60)
        while b"\x0e\x00\x00\x00" not in received[-9:]:  # ServerHelloDone
            received += plain.recv(65536)
    assert len(received) > 500
    for name in (VICTIM, ATTACKER, NOBODY, "system:"):
        assert name.encode() not in received


def test_an_answer_does_not_name_the_server_software(world: World) -> None:
    for answer in (
        world.anonymous.ask("GET", "/version"),
        world.anonymous.ask("GET", "/api"),
        world.anonymous.raw(b"GET /\xff HTTP/1.1\r\n: x\r\n\r\n")[0],
    ):
        assert "python" not in str(answer.headers).lower()
        assert "aiohttp" not in str(answer.headers).lower()


def test_answers_keep_the_end_of_a_pipelined_connection(world: World) -> None:
    sent = b"".join(
        world.attacker.request("GET", f"/tenants/{name}/api") for name in (ATTACKER, VICTIM, NOBODY)
    )
    with world.attacker.connect() as connection:
        connection.sendall(sent)
        first, second, third = answers_of(connection, 3)
    assert first.status == 200
    assert second.visible == third.visible

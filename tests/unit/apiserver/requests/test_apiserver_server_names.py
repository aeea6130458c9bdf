"""The host name that a client asks for in its TLS handshake."""

import ssl
import sys
import time
from pathlib import Path

import pytest

from vcsync.apiserver.serving.server_names import remember_server_names, server_name
from vcsync.apiserver.tenants import pki
from vcsync.process.handshakes import BoundedContext, BoundedHandshake


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    pair = pki.issue_serving(pki.new_authority("server", time.time()), ["localhost"], time.time())
    file = tmp_path / "server.pem"
    file.write_text(pair.certificate + pair.key)
    context = BoundedContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    remember_server_names(context)
    return context


def greeted(
    server: ssl.SSLContext, asked: str | None, change: tuple[bytes, bytes] = (b"", b"")
) -> ssl.SSLObject:
    """Send a ClientHello to a server, perhaps with other bytes in it, and return the server's end of the connection.

    Raises:
        ssl.SSLError: the server ends the handshake.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    sent = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=asked)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    received = ssl.MemoryBIO()
    received.write(sent.read().replace(*change))
    found = server.wrap_bio(received, ssl.MemoryBIO(), server_side=True)
    try:
        found.do_handshake()
    except ssl.SSLWantReadError:
        return found
    raise AssertionError("the handshake needs an answer of the client")


def test_the_name_of_each_connection_is_remembered(server: ssl.SSLContext) -> None:
    first = greeted(server, "acme.tenants.example.com")
    second = greeted(server, "UMBRELLA.tenants.example.com")
    assert server_name(first) == "acme.tenants.example.com"
    assert server_name(second) == "UMBRELLA.tenants.example.com"


def test_a_client_may_ask_for_none(server: ssl.SSLContext) -> None:
    assert server_name(greeted(server, None)) == ""
    assert server_name(greeted(server, "127.0.0.1")) == ""


def test_nothing_is_known_without_tls_and_of_other_servers(server: ssl.SSLContext) -> None:
    assert server_name(None) is None
    server.sslobject_class = BoundedHandshake
    assert server_name(greeted(server, "acme.tenants.example.com")) is None


def test_a_name_that_is_not_ascii_ends_the_handshake_without_a_line_in_the_log(
    server: ssl.SSLContext, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ssl.SSLError):
        greeted(server, "acme.tenants.example.com", (b"acme.tenants", b"\xffcme.tenants"))
    assert capfd.readouterr().err == ""


def test_other_errors_are_still_reported(server: ssl.SSLContext, capfd: pytest.CaptureFixture[str]) -> None:
    class Careless:
        def __del__(self) -> None:
            raise ValueError("a mistake")

    Careless()
    assert "a mistake" in capfd.readouterr().err

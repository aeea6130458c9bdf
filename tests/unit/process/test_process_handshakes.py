"""What a client may send before its TLS handshake is complete."""

import asyncio
import datetime
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from vcsync.process.handshakes import MAX_HANDSHAKE, USUAL_HANDSHAKE, BoundedContext, BoundedHandshake
from vcsync.process.http_connection import BoundedServer
from vcsync.process.listener import ConnectionRate, Listener

KEY = ec.generate_private_key(ec.SECP256R1())
PEM = serialization.Encoding.PEM
KEY_TEXT = KEY.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def certificate(subject: str, issuer: str = "authority", names: int = 0) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    named = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (subject, issuer)]
    made = (
        x509.CertificateBuilder(*reversed(named), KEY.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(1))
        .not_valid_after(now + datetime.timedelta(1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    if names:
        others = [x509.DNSName(f"a{at}.example.com") for at in range(names)]
        made = made.add_extension(x509.SubjectAlternativeName(others), critical=False)
    return made.sign(KEY, hashes.SHA256()).public_bytes(PEM)


def server(folder: Path) -> BoundedContext:
    (folder / "server.pem").write_bytes(certificate("server") + KEY_TEXT)
    context = BoundedContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=certificate("authority").decode())
    return context


def client(folder: Path, *chain: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if chain:
        (folder / "client.pem").write_bytes(b"".join(chain) + KEY_TEXT)
        context.load_cert_chain(folder / "client.pem")
    return context


def shake_hands(server: BoundedContext, client: ssl.SSLContext) -> BoundedHandshake:
    """Return the server's end of a connection.

    Raises:
        ssl.SSLError: the server ends the handshake.
    """
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours, theirs = server.wrap_bio(one, other, server_side=True), client.wrap_bio(other, one)
    assert isinstance(ours, BoundedHandshake)
    done = False
    while not done:
        for end in (theirs, ours):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
                done = end is ours
    return ours


def test_usual_handshakes_are_complete(tmp_path: Path) -> None:
    assert shake_hands(server(tmp_path), client(tmp_path)).handshake_bytes < USUAL_HANDSHAKE
    own = client(tmp_path, certificate("me"))
    assert shake_hands(server(tmp_path), own).handshake_bytes < USUAL_HANDSHAKE
    chain = [certificate(f"n{at}", f"n{at + 1}") for at in range(5)] + [certificate("n5")]
    assert shake_hands(server(tmp_path), client(tmp_path, *chain)).getpeercert(binary_form=True)


@pytest.mark.parametrize(
    "chain",
    [
        [certificate(f"n{at}", f"n{at + 1}") for at in range(100)],
        [certificate("n", "n")] * 100,
        [certificate("me", names=2_000)],
    ],
    ids=["chain", "repeated", "extensions"],
)
def test_openssl_never_sees_many_certificates(tmp_path: Path, chain: list[bytes]) -> None:
    """Each costs as much as a tenth of a handshake."""
    with pytest.raises(ssl.SSLError, match="handshake is too long"):
        shake_hands(server(tmp_path), client(tmp_path, *chain))


def test_bytes_that_are_no_handshake_are_not_kept(tmp_path: Path) -> None:
    received = ssl.MemoryBIO()
    found = server(tmp_path).wrap_bio(received, ssl.MemoryBIO(), server_side=True)
    received.write(b"\x16\x03\x01\x40\x00\x01\x00\xff\xff" + b"a" * 1_000)
    for _ in range(MAX_HANDSHAKE // 1_000 + 1):
        with pytest.raises(ssl.SSLError) as ended:
            found.do_handshake()
        if not isinstance(ended.value, ssl.SSLWantReadError):
            break
        received.write(b"a" * 1_000)
    else:
        pytest.fail("it goes on")


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_data_that_follows_a_handshake_at_once_has_no_limit(tmp_path: Path, loop: Callable[[], Any]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(send_at_once(tmp_path))


async def send_at_once(tmp_path: Path) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=f"{len(await request.read())} bytes")

    runner = web.ServerRunner(BoundedServer(answer), shutdown_timeout=0.1)
    await runner.setup()
    rate = ConnectionRate(rate=1.0, burst=100)
    listener = Listener(runner, "127.0.0.1", 0, server(tmp_path), rate=rate)
    await listener.start()
    port = runner.addresses[0][1]
    try:
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=client(tmp_path, certificate("me"))
            )
            head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 900000\r\n\r\n"
            writer.write(head + b"a" * 900_000)
            assert (await reader.read()).endswith(b"900000 bytes")
            writer.close()
            counted = rate._next["127.0.0.1"]
            many = client(tmp_path, *[certificate("n", "n")] * 100)
            with suppress(ConnectionError, ssl.SSLError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=many)
                assert await reader.read() == b""
            # A failed handshake counts as five.
            assert rate._next["127.0.0.1"] == pytest.approx(counted + 5)
    finally:
        await runner.cleanup()

"""Bodies of unauthorized callers: they are answered without reading the bodies, which use no memory."""

import contextlib
from collections.abc import Iterator

import pytest

from hack.attacks.client import Answer, Door, answers_of
from hack.attacks.judge import problem
from hack.attacks.routes import NOWHERE, operators
from hack.attacks.world import ATTACKER, VICTIM, World
from hack.testbed.processes import resident_memory

MEGABYTE = 2**20
SIZE = 3 * MEGABYTE
CONNECTIONS = 60
ROUNDS = 4
MOST_GROWTH = 128 * MEGABYTE
"""Growth of the process that an allocator may keep after all rounds, in which 720 MiB are sent."""
PLACES = (
    *operators(VICTIM),
    *NOWHERE,
    "/api/v1/namespaces/default/secrets",
    f"/tenants/{VICTIM}/api/v1/namespaces/default/secrets",
    f"/api/v1/tenants/{VICTIM}/namespaces/default/secrets",
    f"/tenants/{VICTIM}/api/v1/namespaces/default/pods/x/exec",
    f"/tenants/{VICTIM}/api/v1/namespaces/default/serviceaccounts/default/token",
    f"/tenants/{VICTIM}/apis/authentication.k8s.io/v1/tokenreviews",
    "/version",
    "/apis",
    "/openapi/v2",
)
LENGTHS = (
    f"Content-Length: {SIZE}",
    "Transfer-Encoding: chunked",
    f"Content-Length: {SIZE}\r\nExpect: 100-continue",
)


def without_body(door: Door, path: str, length: str) -> Answer:
    """Send a head, and no byte of the body that it announces."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
    return door.raw(head.encode())[0]


@pytest.mark.parametrize("length", LENGTHS)
def test_an_anonymous_caller_is_answered_before_sending_a_body(world: World, length: str) -> None:
    for path in PLACES:
        assert problem(without_body(world.anonymous, path, length), frozenset({400, 403, 404, 405})) == ""


@pytest.mark.parametrize("length", LENGTHS)
def test_another_tenants_user_is_answered_before_sending_a_body(world: World, length: str) -> None:
    lowly = world.user(ATTACKER, "lowly")
    for path in PLACES:
        assert problem(without_body(lowly, path, length), frozenset({400, 403, 404, 405})) == ""


@contextlib.contextmanager
def holding(door: Door, path: str, length: str) -> Iterator[Answer]:
    """Send a body without its end, and keep the connection open."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
    body = b"x" * (SIZE - 1)
    if "chunked" in length:
        body = b"%x\r\n%b" % (SIZE, body)
    with door.connect() as connection:
        with contextlib.suppress(OSError):  # the server does not wait for the rest
            connection.sendall(head.encode() + body)
        yield next(iter(answers_of(connection, 1)), Answer(0))


@pytest.mark.parametrize(
    ("path", "length"),
    [("/vcsync/v1/tenants", LENGTHS[0]), (f"/tenants/{VICTIM}/api/v1/namespaces", LENGTHS[1])],
)
def test_bodies_of_anonymous_callers_use_no_memory(world: World, path: str, length: str) -> None:
    before = resident_memory(world.plane.pid)
    for _ in range(ROUNDS):
        hold(world.anonymous, path, length)
    assert resident_memory(world.plane.pid) - before < MOST_GROWTH


def hold(door: Door, path: str, length: str) -> None:
    """Send bodies on many concurrent connections."""
    with contextlib.ExitStack() as connections:
        for _ in range(CONNECTIONS):
            answer = connections.enter_context(holding(door, path, length))
            # 0: the server closed the connection while the body was being sent.
            assert problem(answer, frozenset({0, 403, 404})) == ""

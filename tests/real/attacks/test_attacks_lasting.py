"""Watches that were opened with a valid credential end when it becomes invalid."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from hack.attacks.client import Door
from hack.attacks.world import ATTACKER, World

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
WATCH = "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=600"
SECONDS = 60.0
"""What ends, ends within a few; a machine may be slow."""


@contextmanager
def watching(door: Door) -> Iterator[ssl.SSLSocket]:
    """Open a watch, and wait until its answer has started."""
    with door.connect(SECONDS) as connection:
        connection.sendall(door.request("GET", WATCH))
        assert connection.recv(12) == b"HTTP/1.1 200"
        yield connection


def ended(connection: ssl.SSLSocket) -> bool:
    """Read until the connection ends; a timeout fails the test."""
    try:
        while connection.recv(65536):
            pass
    except (ssl.SSLError, ConnectionError):
        pass
    return True


def bot(world: World) -> Door:
    """Return a client with the token of a ServiceAccount that may do anything."""
    world.attacker.ask("POST", ACCOUNTS, {"metadata": {"name": "bot"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "bot", "namespace": "default"}
    body = {"metadata": {"name": "bot"}, "roleRef": role, "subjects": [subject]}
    world.attacker.ask("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body)
    made = world.attacker.ask("POST", f"{ACCOUNTS}/bot/token", {"spec": {}})
    return replace(world.anonymous, token=made.json["status"]["token"])


def another(world: World) -> Door:
    """Return an administrator of another tenant, which is created if it does not exist."""
    return world.tenant("mortal")


ENDS: dict[str, tuple[Callable[[World], Door], Callable[[World], int]]] = {
    "the certificate is revoked": (
        lambda world: world.user(ATTACKER, "eve", "vcsync:tenant-admins"),
        lambda world: world.operator.ask("POST", f"/vcsync/v1/tenants/{ATTACKER}/revoke", {"user": "eve"}).status,
    ),
    "the token's account is deleted": (bot, lambda world: world.attacker.ask("DELETE", f"{ACCOUNTS}/bot").status),
    "the tenant is deleted": (
        another,
        lambda world: world.operator.ask("DELETE", "/vcsync/v1/tenants/mortal").status,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ENDS)
def test_an_open_watch_ends_when(world: World, what: str) -> None:
    opener, undo = ENDS[what]
    with watching(opener(world)) as connection:
        assert undo(world) < 300
        assert ended(connection)

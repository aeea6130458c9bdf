"""A webhook server on loopback, and who may call it."""

import asyncio
from ipaddress import ip_network

import pytest

from hack.webhooks import WebhookServer
from vcsync.controlplane.egress.client import Client
from vcsync.controlplane.egress.hosts import parse_host
from vcsync.controlplane.egress.networks import Allowed, Networks
from vcsync.controlplane.egress.policy import Policy


@pytest.fixture(scope="session")
def hooks():
    with WebhookServer(["hooks.example.com", "web.shop.svc"]) as found:
        yield found


@pytest.fixture
def policy():
    """Make what an operator allows."""

    def made(*hosts, networks=("127.0.0.1/32",)):
        return Policy(
            tuple(parse_host(each) for each in hosts),
            Networks(tuple(Allowed(ip_network(each)) for each in networks)),
        )

    return made


@pytest.fixture
async def client():
    """Make clients; they are closed at the end."""
    made = []

    def make(policy, services=None, **parts):
        found = Client(policy, services, **parts)
        made.append(found)
        return found

    yield make
    for each in made:
        await each.close()
    for _ in range(10):  # sockets are closed in the loop's next rounds
        await asyncio.sleep(0)

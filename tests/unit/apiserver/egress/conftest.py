"""A webhook server on loopback, policies that allow calls to it, and clients."""

import asyncio
from ipaddress import ip_network

import pytest

from hack.webhooks import WebhookServer
from vcsync.apiserver.egress.client import Client
from vcsync.apiserver.egress.hosts import parse_host
from vcsync.apiserver.egress.networks import Allowed, Networks
from vcsync.apiserver.egress.policy import Policy


@pytest.fixture(scope="session")
def hooks():
    with WebhookServer(["hooks.example.com", "web.shop.svc"]) as found:
        yield found


@pytest.fixture
def policy():
    """Return a function that makes a policy."""

    def made(*hosts, networks=("127.0.0.1/32",)):
        return Policy(
            tuple(parse_host(each) for each in hosts),
            Networks(tuple(Allowed(ip_network(each)) for each in networks)),
        )

    return made


@pytest.fixture
async def client():
    """Return a function that makes clients. They are closed after the test."""
    made = []

    def make(policy, services=None, **parts):
        found = Client(policy, services, **parts)
        made.append(found)
        return found

    yield make
    for each in made:
        await each.close()
    # The event loop closes sockets in its next iterations.
    for _ in range(10):
        await asyncio.sleep(0)

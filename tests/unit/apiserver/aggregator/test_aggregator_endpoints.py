"""Endpoints are remembered for some seconds, until their objects change."""

import pytest

from vcsync.apiserver.aggregator import endpoints as endpoints_module
from vcsync.apiserver.aggregator.endpoints import KEPT_SECONDS, Endpoints
from vcsync.apiserver.discovery.remote_api_services import Destination, ServiceReference
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.policy import TRUSTED
from vcsync.apiserver.egress.target import target_of
from vcsync.apiserver.storage.interface import Change

DESTINATION = Destination(ServiceReference("shop", "web", 443))
TARGET = target_of("acme", {"service": {"namespace": "shop", "name": "web", "port": 443}})


class Lookup:
    def __init__(self):
        self.calls = 0
        self.fails = ""
        self.meanwhile = lambda: None

    async def endpoints(self, target):
        self.calls += 1
        self.meanwhile()
        if self.fails:
            raise CallFailed(self.fails)
        return [f"endpoint-{number}" for number in range(3)]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def lookup(monkeypatch):
    found = Lookup()

    async def service_endpoints(policy, services, target):
        return await services.endpoints(target)

    monkeypatch.setattr(endpoints_module, "service_endpoints", service_endpoints)
    return found


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def endpoints(lookup, clock):
    return Endpoints(TRUSTED, lookup, clock)


def changed(key):
    return (Change(1, key, b"{}", None, 1),)


async def test_they_are_read_again_after_some_seconds(endpoints, lookup, clock):
    for _ in range(3):
        assert sorted(await endpoints.of(DESTINATION, TARGET)) == ["endpoint-0", "endpoint-1", "endpoint-2"]
    assert lookup.calls == 1
    clock.now += KEPT_SECONDS + 1
    await endpoints.of(DESTINATION, TARGET)
    assert lookup.calls == 2


async def test_a_refusal_is_remembered_too(endpoints, lookup):
    lookup.fails = "no"
    for _ in range(2):
        with pytest.raises(CallFailed, match="no"):
            await endpoints.of(DESTINATION, TARGET)
    assert lookup.calls == 1


@pytest.mark.parametrize(
    ("key", "again"),
    [
        ("acme/core/services/shop/web", True),
        ("acme/core/pods/shop/any", True),
        ("acme/discovery.k8s.io/endpointslices/shop/any", True),
        ("acme/core/configmaps/shop/any", False),
        ("acme/core/pods/other/any", False),
        ("other/core/pods/shop/any", False),
        ("acme/core/namespaces/shop", False),
        ("~vcsync/layout", False),
    ],
)
async def test_changes_of_what_is_read_end_what_is_remembered(endpoints, lookup, key, again):
    await endpoints.of(DESTINATION, TARGET)
    endpoints.changed(changed(key))
    await endpoints.of(DESTINATION, TARGET)
    assert lookup.calls == 1 + again


async def test_a_change_while_they_are_read_counts(endpoints, lookup):
    lookup.meanwhile = lambda: endpoints.changed(changed("acme/core/pods/shop/any"))
    for _ in range(2):
        await endpoints.of(DESTINATION, TARGET)
    assert lookup.calls == 2


async def test_tenants_and_services_are_apart_and_their_number_is_bounded(endpoints, lookup, monkeypatch):
    monkeypatch.setattr(endpoints_module, "MAX_SERVICES", 2)
    targets = [target_of(tenant, {"service": {"namespace": "shop", "name": "web"}}) for tenant in "abc"]
    for target in targets:
        await endpoints.of(DESTINATION, target)
    assert lookup.calls == 3
    assert len(endpoints._known) <= 2
    endpoints.forget()
    await endpoints.of(DESTINATION, targets[2])
    assert lookup.calls == 4

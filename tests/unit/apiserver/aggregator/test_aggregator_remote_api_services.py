"""The index of APIServices that name a Service: what is loaded, what changes do, and which are served."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apiserver.discovery.remote_api_services import (
    MAX_RESOURCES_BYTES,
    MOST,
    TOO_MANY,
    UNCHECKED,
    RemoteApiServices,
    Served,
    ServiceReference,
)
from vcsync.apiserver.storage.interface import Change, Page, Record

PREFIX = "acme/apiregistration.k8s.io/apiservices/"


def stored(group="m.io", version="v1", service="web", uid="u1", condition=None, **spec):
    found = {
        "metadata": {"name": f"{version}.{group}", "uid": uid},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            **spec,
        },
    }
    if service:
        found["spec"]["service"] = {"namespace": "shop", "name": service, "port": 8443}
    if condition is not None:
        found["status"] = {"conditions": [{"type": "Available", **condition}]}
    return msgspec.json.encode(found)


def change(revision, value, name="v1.m.io", created=1):
    return Change(revision, PREFIX + name, value, None, created)


class Reads:
    """A store whose only range is given; `meanwhile` happens while it is read."""

    def __init__(self, *records, meanwhile=lambda: None):
        self.page = Page(
            [Record(PREFIX + name, value, created, created) for name, value, created in records], 9
        )
        self.meanwhile = meanwhile

    async def range(self, prefix, *, counted):
        assert prefix == PREFIX
        assert not counted
        self.meanwhile()
        return self.page


@pytest.fixture
def index():
    return RemoteApiServices(lambda tenant: tenant == "acme")


async def test_only_api_services_with_a_service_are_found_once_they_are_loaded(index):
    told = []
    index.on_change = lambda *what: told.append(what)
    assert index.find("acme", "m.io", "v1") is None
    await index.load("acme", Reads(("v1.m.io", stored(), 1), ("v1.apps", stored("apps", service=""), 2)))
    await index.load("acme", None)
    found = index.find("acme", "m.io", "v1")
    assert found.destination.service == ServiceReference("shop", "web", 8443)
    assert (found.name, found.available, found.reason) == ("v1.m.io", False, UNCHECKED)
    assert index.find("acme", "apps", "v1") is None
    assert index.find("other", "m.io", "v1") is None
    assert told == [("acme", "v1.m.io")]


async def test_changes_while_loading_win_over_older_records(index):
    def meanwhile():
        index.apply(change(5, None))
        index.apply(change(6, stored("n.io", service="new"), "v1.n.io"))
        index.apply(change(7, stored("o.io", service=""), "v1.o.io"))

    old = [("v1.m.io", stored(), 1), ("v1.n.io", stored("n.io"), 2), ("v1.o.io", stored("o.io"), 3)]
    await index.load("acme", Reads(*old, meanwhile=meanwhile))
    assert [each.destination.service.name for each in index.all("acme")] == ["new"]


async def test_changes_of_tenants_that_are_not_loaded_are_ignored(index):
    index.apply(change(5, stored()))
    assert index.find("acme", "m.io", "v1") is None
    assert not index.loaded("acme")


async def test_changes_are_applied_in_order_and_only_once(index):
    await index.load("acme", Reads())
    index.apply(change(5, stored(service="new")))
    index.apply(change(4, stored(service="old")))
    assert index.get("acme", "v1.m.io").destination.service.name == "new"
    index.apply(change(6, stored(service="")))
    assert index.get("acme", "v1.m.io") is None
    index.forget("acme")
    assert not index.loaded("acme")


@pytest.mark.parametrize("value", [b"{", b"[]", b'{"metadata":{},"spec":{"service":7}}', stored("other.io")])
async def test_what_is_no_api_service_of_that_name_is_not_served(index, value):
    await index.load("acme", Reads())
    index.apply(change(5, stored()))
    index.apply(change(6, value))
    assert index.get("acme", "v1.m.io") is None


async def test_the_oldest_are_served_and_the_others_say_why_not(index):
    names = [f"g{number}.io" for number in range(MOST + 1)]
    await index.load(
        "acme", Reads(*((f"v1.{name}", stored(name), 100 - at) for at, name in enumerate(names)))
    )
    newest = index.get("acme", f"v1.{names[0]}")
    assert [index.refusal(each) for each in index.all("acme")] == [TOO_MANY] + [""] * MOST
    told = []
    index.on_change = lambda *what: told.append(what)
    index.apply(change(200, None, f"v1.{names[-1]}"))
    assert index.refusal(newest) == ""
    assert set(told) == {("acme", f"v1.{names[-1]}"), ("acme", newest.name)}


async def test_the_operator_decides_whose_services_are_called():
    index = RemoteApiServices()
    await index.load("acme", Reads(("v1.m.io", stored(), 1)))
    assert "its operator allows none" in index.refusal(index.get("acme", "v1.m.io"))


async def test_what_is_known_of_a_server_is_outdated_once_it_fails_and_gone_with_its_destination(index):
    await index.load("acme", Reads(("v1.m.io", stored(condition={"status": "True"}), 1)))
    found = index.get("acme", "v1.m.io")
    assert index.version(found).current is False
    index.outdated(found)
    assert index.served(found) == Served()
    index.learn(found, Served(b"[1]", current=True, openapi="hash=1"))
    assert (index.version(found).resources, index.version(found).current) == (b"[1]", True)
    index.outdated(found)
    assert index.served(found) == Served(b"[1]", current=False, openapi="hash=1")
    index.apply(change(5, stored(condition={"status": "False"})))
    assert index.served(found).resources == b"[1]"
    index.apply(change(6, stored(service="other")))
    assert index.served(found) == Served()
    index.apply(change(7, None))
    index.learn(found, Served(b"[1]"))
    assert index.served(found) == Served()


async def test_resources_of_one_tenant_are_bounded(index):
    await index.load("acme", Reads(("v1.m.io", stored(), 1), ("v1.n.io", stored("n.io"), 2)))
    first, second = index.all("acme")
    index.learn(first, Served(b" " * MAX_RESOURCES_BYTES, current=True))
    assert index.served(first).current
    index.learn(second, Served(b" ", current=True))
    assert index.served(second) == Served()
    index.learn(first, Served(b" " * (MAX_RESOURCES_BYTES - 1), current=True))
    index.learn(second, Served(b" ", current=True))
    assert index.served(second).current


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["web", "other", "", None])),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 12),
)
async def test_loading_at_any_time_leads_to_the_same_index(writes, at):
    """The index is that of the last write of each name, wherever the load came between the writes."""
    index = RemoteApiServices()
    state: dict[str, tuple[str, bytes, int]] = {}

    def write(number, letter, service):
        name, value = f"v1.{letter}.io", None if service is None else stored(f"{letter}.io", service=service)
        index.apply(change(number, value, name))
        if value is None:
            state.pop(name, None)
        else:
            state[name] = (name, value, number)

    numbered = [(number, *each) for number, each in enumerate(writes, 1)]
    for each in numbered[:at]:
        write(*each)

    def meanwhile():
        for each in numbered[at:]:
            write(*each)

    await index.load("acme", Reads(*state.values(), meanwhile=meanwhile))
    wanted = {name for name, value, _ in state.values() if b'"service"' in value}
    assert {each.name for each in index.all("acme")} == wanted

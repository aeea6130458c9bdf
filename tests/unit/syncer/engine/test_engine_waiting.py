"""Items that wait for other objects."""

from vcsync.kube.resources import NAMESPACES, SERVICE_ACCOUNTS
from vcsync.syncer.kinds.plan import Dependency, Wait
from vcsync.syncer.waiting import Item, ParkedItems

POD = Item("pods", "shop", "web")
OTHER = Item("pods", "shop", "api")
ACCOUNT = Dependency("super", SERVICE_ACCOUNTS, "t-shop", "default")
NAMESPACE = Dependency("super", NAMESPACES, "", "t-shop")


def test_an_object_wakes_all_items_of_its_tenant_that_wait_for_it() -> None:
    room = ParkedItems()
    room.park("acme", POD, Wait("no account", on=(ACCOUNT,)), now=1)
    room.park("acme", OTHER, Wait("no account", on=(ACCOUNT, NAMESPACE)), now=1)
    assert set(room.wake("acme", ACCOUNT)) == {POD, OTHER}
    assert room.wake("acme", NAMESPACE) == (OTHER,)
    assert room.wake("umbrella", ACCOUNT) == ()


def test_a_new_wait_replaces_the_earlier_one() -> None:
    room = ParkedItems()
    room.park("acme", POD, Wait("no namespace", on=(NAMESPACE,)), now=1)
    room.park("acme", POD, Wait("no account", on=(ACCOUNT,)), now=5)
    assert room.wake("acme", NAMESPACE) == ()
    parked = room.reason("acme", POD)
    assert parked is not None
    assert (parked.reason, parked.since) == ("no account", 5)


def test_a_wait_for_the_same_reason_keeps_its_start() -> None:
    room = ParkedItems()
    room.park("acme", POD, Wait("no account", on=(ACCOUNT,)), now=1)
    room.park("acme", POD, Wait("no account", on=(ACCOUNT,)), now=9)
    assert room.longest("acme") == (POD, room.reason("acme", POD))
    assert room.reason("acme", POD).since == 1  # type: ignore[union-attr]


def test_objects_of_others_wake_the_items_of_all_tenants() -> None:
    room = ParkedItems()
    room.park("acme", POD, Wait("taken", on_others=(ACCOUNT,)), now=1)
    room.park("umbrella", POD, Wait("taken", on_others=(ACCOUNT,)), now=1)
    assert room.wake("acme", ACCOUNT) == ()
    assert room.wake_others(ACCOUNT) == (("acme", POD), ("umbrella", POD))
    room.settle("acme", POD)
    room.park("umbrella", POD, Wait("another reason"), now=2)
    assert room.wake_others(ACCOUNT) == ()
    assert room._waiters_of_others == {}


def test_settling_and_forgetting_remove_all_state() -> None:
    room = ParkedItems()
    room.park("acme", POD, Wait("no account", on=(ACCOUNT,)), now=1)
    room.park("umbrella", POD, Wait("no account", on=(ACCOUNT,)), now=1)
    room.settle("acme", POD)
    room.forget_tenant("umbrella")
    assert len(room) == 0
    assert room.wake("acme", ACCOUNT) == room.wake("umbrella", ACCOUNT) == ()
    assert (room._waiters, room._parked) == ({}, {})


def test_a_settled_item_does_not_affect_other_waiting_items() -> None:
    room = ParkedItems()
    other = Item("pods", "shop", "other")
    room.park("acme", POD, Wait("no account", on=(ACCOUNT,)), now=1)
    room.park("acme", other, Wait("no account", on=(ACCOUNT,)), now=1)
    room.settle("acme", POD)
    assert room.wake("acme", ACCOUNT) == (other,)


def test_items_are_listed_and_woken_in_the_order_of_their_waits() -> None:
    room = ParkedItems()
    items = [Item("pods", "shop", f"web-{number}") for number in range(20)]
    for now, item in enumerate(items):
        room.park("acme", item, Wait("no account", on=(ACCOUNT,)), now=now)
    assert room.wake("acme", ACCOUNT) == tuple(items)
    room.park("acme", items[0], Wait("something else", on=(ACCOUNT,)), now=30)
    room.park("acme", items[1], Wait("no account", on=(ACCOUNT,)), now=31)
    assert [item for item, _ in room.of("acme")] == [*items[1:], items[0]]
    longest = room.longest("acme")
    assert longest is not None
    assert longest[0] == items[1]

"""Seats: shared between tenants, then by each tenant's priority levels."""

import asyncio
import json
from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.flow import classification as rules
from vcsync.apiserver.flow import metrics
from vcsync.apiserver.flow.dispatcher import Bounds, SeatDispatcher
from vcsync.apiserver.flow.shuffle_sharding import deal_queues
from vcsync.apiserver.request.caller import Attributes, Caller
from vcsync.apiserver.storage.interface import StoreError
from vcsync.apiserver.tenants import flow_defaults as flowcontrol

QUEUING = {"queues": 64, "handSize": 1, "queueLengthLimit": 50}
GET = Attributes("get", resource="pods", namespace="default")


def stored(name, spec):
    return json.dumps({"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec}).encode()


def bootstrap():
    objects = list(flowcontrol.objects("2026-01-01T00:00:00Z"))
    schemas = [
        stored(each["metadata"]["name"], each["spec"]) for plural, each in objects if plural == "flowschemas"
    ]
    levels = [
        stored(each["metadata"]["name"], each["spec"]) for plural, each in objects if plural != "flowschemas"
    ]
    return [rules.read_schema(each) for each in schemas], [rules.read_level(each) for each in levels]


def caller(name="jane", *groups, tenant="a", system=False):
    return Caller(User(name, groups=("system:authenticated", *groups)), tenant, system)


def level(name, shares=30, *, queuing=None, **limited):
    response = {"type": "Queue", "queuing": queuing} if queuing else {"type": "Reject"}
    limited = {"nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": 0, **limited}
    return rules.read_level(stored(name, {"type": "Limited", "limited": limited}))


def schema(name, to, precedence=1000, *, user="*", by="ByUser"):
    everything = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "clusterScope": True,
        "namespaces": ["*"],
    }
    rule = {"subjects": [{"kind": "User", "user": {"name": user}}], "resourceRules": [everything]}
    spec = {"priorityLevelConfiguration": {"name": to}, "matchingPrecedence": precedence, "rules": [rule]}
    return rules.read_schema(stored(name, {**spec, "distinguisherMethod": {"type": by}}))


async def gate_of(configuration=None, tenants=("a", "b"), weight=lambda _: 1, **bounds):
    async def load(_):
        return configuration or bootstrap()

    gate = SeatDispatcher(Bounds(**bounds), load, weight)
    for tenant in (*tenants, "system", ""):
        await gate.prepare(tenant)
    return gate


async def test_a_request_with_a_free_seat_runs_immediately():
    gate = await gate_of()
    seat = gate.enter("a", caller(), GET)
    assert (seat.ready, gate.used) == (None, 1)
    seat.end()
    seat.end()
    assert gate.used == 0


async def test_response_headers_name_the_schema_and_the_level():
    gate = await gate_of()
    flow = gate.enter("a", caller(), GET).flow
    assert flow.headers == {
        "X-Kubernetes-PF-FlowSchema-UID": "uid-global-default",
        "X-Kubernetes-PF-PriorityLevel-UID": "uid-global-default",
    }


async def test_a_busy_tenant_leaves_seats_for_other_tenants():
    gate = await gate_of(([schema("s", "s")], [level("s", queuing=QUEUING)]), seats=16)
    greedy = [gate.enter("a", caller(f"user{number}"), GET) for number in range(40)]
    assert sum(each.taken for each in greedy) == 8
    assert gate.enter("b", caller(tenant="b"), GET).taken


async def test_tenants_take_turns_for_free_seats():
    gate = await gate_of(([schema("s", "s")], [level("s", queuing=QUEUING)]), seats=4)
    first = [gate.enter("a", caller(f"user{number}"), GET) for number in range(20)]
    second = [gate.enter("b", caller(f"user{number}", tenant="b"), GET) for number in range(20)]
    both = [each for pair in zip(first, second, strict=True) for each in pair]
    for _ in range(10):
        next(each for each in both if each.taken).end()
    served = [gate.spaces[each].levels["s"].dispatched["s"] for each in ("a", "b")]
    assert abs(served[0] - served[1]) <= 2


@pytest.mark.parametrize(("weight", "share"), [(1, 1), (3, 3), (10, 10), (1000, 10)])
async def test_tenants_share_scarce_seats_by_their_weights(weight, share):
    light = [f"light-{number}" for number in range(10)]
    queuing = {"queues": 64, "handSize": 1, "queueLengthLimit": 1000}
    gate = await gate_of(
        ([schema("s", "s")], [level("s", queuing=queuing)]),
        tenants=("heavy", *light),
        weight=lambda tenant: weight if tenant == "heavy" else 1,
        seats=126,
    )
    running = deque()

    def enter(tenant):
        seat = gate.enter(tenant, caller(f"user{len(running)}", tenant=tenant), GET)
        if seat.ready is None:
            running.append(seat)
        else:
            seat.ready.add_done_callback(lambda _: running.append(seat))

    for _ in range(200):
        for tenant in ("heavy", *light):
            enter(tenant)
    served = Counter()
    for number in range(1500):
        ended = running.popleft()
        if number >= 700:
            served[ended.space.name] += 1
        ended.end()
        enter(ended.space.name)
        await asyncio.sleep(0)
    others = sum(served[tenant] for tenant in light) / len(light)
    assert 0.7 * share <= served["heavy"] / others <= 1.4 * share
    assert gate.spaces["heavy"].in_use <= 63


async def test_another_weight_takes_effect_with_the_next_request():
    weights = {"a": 1}
    gate = await gate_of(weight=lambda tenant: weights.get(tenant, 1))
    weights["a"] = 5
    gate.changed("a")
    await gate.prepare("a")
    assert gate.spaces["a"].weight == 5


async def test_the_heaviest_tenant_leaves_seats_for_others():
    gate = await gate_of(
        ([schema("s", "exempt")], [rules.read_level(stored("exempt", {"type": "Exempt"}))]),
        weight=lambda tenant: 1000 if tenant == "a" else 1,
        seats=16,
    )
    for number in range(16):
        gate.enter("a", caller(f"user{number}"), GET)
    assert gate.used == 8
    assert gate.enter("b", caller(tenant="b"), GET).taken


async def test_a_request_that_waits_too_long_is_refused():
    gate = await gate_of(seats=2, wait_seconds=0.0)
    gate.enter("a", caller(), GET)
    waiting = gate.enter("a", caller(), GET)
    with pytest.raises(StatusError) as refused:
        await waiting.wait()
    assert (refused.value.code, refused.value.retry_after) == (429, 1)
    assert gate.spaces["a"].waiting == 0
    assert (
        b'flow_schema="global-default",priority_level="global-default",reason="time-out"} 1'
        in metrics.text(gate.spaces["a"], 0)
    )


async def test_a_cancelled_request_leaves_its_queue():
    gate = await gate_of(seats=2)
    held = gate.enter("a", caller(), GET)
    waiting = gate.enter("a", caller(), GET)
    task = asyncio.create_task(waiting.wait())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    waiting.end()
    held.end()
    assert (gate.used, gate.spaces["a"].waiting, len(gate._ring)) == (0, 0, 0)


async def test_a_seat_given_to_a_cancelled_request_is_given_back():
    gate = await gate_of(seats=2)
    held = gate.enter("a", caller(), GET)
    waiting = gate.enter("a", caller(), GET)
    task = asyncio.create_task(waiting.wait())
    await asyncio.sleep(0)
    task.cancel()
    held.end()
    await asyncio.gather(task, return_exceptions=True)
    waiting.end()
    assert gate.used == 0


async def test_the_number_of_waiting_requests_is_limited():
    gate = await gate_of(seats=2, waiting=3)
    seats = [gate.enter("a", caller(f"user{number}"), GET) for number in range(4)]
    with pytest.raises(StatusError, match="Too many requests, please try again later"):
        gate.enter("a", caller("another"), GET)
    assert [each.taken for each in seats] == [True, False, False, False]


async def test_a_level_that_rejects_does_so_when_its_seats_are_taken():
    configuration = ([schema("s", "small")], [level("small", 1, borrowingLimitPercent=0), level("big", 9)])
    gate = await gate_of(configuration, seats=20)
    assert gate.enter("a", caller(), GET).taken
    with pytest.raises(StatusError):
        gate.enter("a", caller(), GET)


async def test_a_level_borrows_lendable_seats():
    levels = [level("s", 1), level("lends", 5, lendablePercent=100), level("keeps", 4)]
    gate = await gate_of(([schema("s", "s")], levels), seats=20)
    for _ in range(6):
        assert gate.enter("a", caller(), GET).taken
    with pytest.raises(StatusError):
        gate.enter("a", caller(), GET)


async def test_queues_take_turns_so_that_one_flow_does_not_delay_another():
    gate = await gate_of(([schema("s", "s")], [level("s", queuing=QUEUING)]), seats=2)
    held = gate.enter("a", caller("flood"), GET)
    flood = [gate.enter("a", caller("flood"), GET) for _ in range(20)]
    apart = next(
        f"user{number}"
        for number in range(1000)
        if deal_queues(gate.spaces["a"].classify(User(f"user{number}"), GET).key, 64, 1)
        != deal_queues(flood[0].flow.key, 64, 1)
    )
    quiet = gate.enter("a", caller(apart), GET)
    held.end()
    next(each for each in flood if each.taken).end()
    assert quiet.taken


async def test_the_exempt_level_of_a_tenant_does_not_reach_beyond_its_seats():
    everybody = schema("mine", "exempt", 2)
    schemas, levels = bootstrap()
    gate = await gate_of(([everybody, *schemas], levels), seats=4)
    seats = [gate.enter("a", caller(), GET) for _ in range(4)]
    assert [each.taken for each in seats] == [True, True, False, False]
    assert gate.enter("b", caller(tenant="b"), GET).taken


async def test_the_operator_is_served_even_if_tenants_take_all_seats():
    gate = await gate_of(seats=2)
    for tenant in ("a", "b"):
        for _ in range(5):
            gate.enter(tenant, caller(tenant=tenant), GET)
    operator = gate.enter("system", caller("op", "system:masters", tenant="system", system=True), GET)
    assert operator.taken
    operator.end()


async def test_watches_of_a_user_and_of_a_tenant_are_bounded():
    gate = await gate_of(watches=3, watches_of_user=2)
    watch = Attributes("watch", resource="pods")
    seats = []
    for user in ("one", "one", "two"):
        seat = gate.enter("a", caller(user), watch)
        seat.watch(caller(user))
        seats.append(seat)
    for user in ("one", "two"):
        refused = gate.enter("a", caller(user), watch)
        with pytest.raises(StatusError, match="too many open watches"):
            refused.watch(caller(user))
        refused.end()
    seats[0].end()
    gate.enter("a", caller("one"), watch).watch(caller("one"))
    for each in seats[1:]:
        each.end()
    assert gate.spaces["a"].watches == {"one": 1}


async def test_a_changed_configuration_is_read_again_and_seats_stay_valid():
    found = [bootstrap()]

    async def load(_):
        return found[0]

    gate = SeatDispatcher(Bounds(seats=4), load)
    await gate.prepare("a")
    before = gate.enter("a", caller(), GET)
    found[0] = ([schema("new", "level")], [level("level")])
    gate.changed("a")
    assert not gate.known("a")
    await gate.prepare("a")
    after = gate.enter("a", caller(), GET)
    assert (before.flow.schema, after.flow.schema) == ("global-default", "new")
    before.end()
    after.end()
    assert (gate.used, gate.spaces["a"].in_use, gate.spaces["a"].idle) == (0, 0, True)


async def test_the_number_of_cached_tenants_is_limited():
    async def load(_):
        return (), ()

    gate = SeatDispatcher(Bounds(), load)
    await gate.prepare("busy")
    gate.enter("busy", caller(), GET)
    for number in range(2100):
        await gate.prepare(f"t{number}")
    assert len(gate.spaces) == 2048
    assert gate.known("busy")


async def test_without_any_configuration_requests_are_served():
    gate = await gate_of(((), ()))
    assert gate.enter("a", caller(), GET).flow.schema == "catch-all"


@given(st.integers(0, 2**64 - 1), st.integers(1, 10_000_000), st.integers(1, 16))
def test_a_hand_holds_different_queues(entropy, queues, size):
    dealt = deal_queues(entropy, queues, size)
    assert len(set(dealt)) == len(dealt) == min(size, queues)
    assert all(0 <= each < queues for each in dealt)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["enter", "end"]), st.integers(0, 5)), max_size=80
    )
)
def test_no_seat_is_lost_or_given_twice(steps):
    async def run():
        gate = await gate_of(seats=6, waiting=8)
        seats = {"a": [], "b": []}
        for tenant, step, number in steps:
            if step == "enter":
                try:
                    seats[tenant].append(gate.enter(tenant, caller(f"u{number}", tenant=tenant), GET))
                except StatusError:
                    continue
            elif taken := [each for each in seats[tenant] if each.taken]:
                taken[number % len(taken)].end()
            assert gate.used == sum(each.taken for side in seats.values() for each in side) <= 6
        while taken := [each for side in seats.values() for each in side if each.taken]:
            taken[0].end()
        assert (gate.used, gate.spaces["a"].waiting, gate.spaces["b"].waiting) == (0, 0, 0)
        assert gate.spaces["a"].reserved == sum(each.reserved for each in gate.spaces["a"].levels.values())

    asyncio.run(run())


async def test_concurrent_requests_share_one_read_of_the_configuration():
    read = asyncio.Event()

    async def load(_):
        await read.wait()
        return bootstrap()

    gate = SeatDispatcher(Bounds(), load)
    both = [asyncio.create_task(gate.prepare("a")) for _ in range(2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not gate.known("a")
    read.set()
    await asyncio.gather(*both)
    assert gate.known("a")


async def test_a_change_during_a_read_is_read_by_the_next_request():
    reads = []

    async def load(tenant):
        reads.append(tenant)
        await asyncio.sleep(0)
        gate.changed(tenant)
        return (), ()

    gate = SeatDispatcher(Bounds(), load)
    async with asyncio.timeout(5):
        await asyncio.gather(*(gate.prepare("a") for _ in range(10)))
    assert (len(reads), gate.known("a")) == (1, False)
    gate.enter("a", caller(), GET).end()
    await gate.prepare("a")
    assert len(reads) == 2


async def test_a_failed_read_of_the_configuration_is_retried():
    answers = [StoreError("no"), ((), ())]

    async def load(_):
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    gate = SeatDispatcher(Bounds(), load)
    with pytest.raises(StoreError):
        await gate.prepare("a")
    await gate.prepare("a")
    assert gate.known("a")


async def test_a_request_right_after_a_read_does_not_wait():
    async def load(_):
        return bootstrap()

    gate = SeatDispatcher(Bounds(), load)
    coming = []
    for _ in range(5):
        # One in each turn of the loop, so that one comes between the end of the reading and those told of it.
        coming.append(asyncio.create_task(gate.prepare("a")))
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await asyncio.gather(*coming)
    assert gate.known("a")

"""Two Pod schedulers behind the Service of the placement webhook: another one leads, and Pods are placed at creation again."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest
from placement_kit import SERVICE, Forwarder, addresses, created, placed_at_creation
from pool_kit import Json, Pool, Space, super_of

from hack.testbed.processes import free_ports
from tests.real.waiting import eventually
from vcsync.api import names

FIRST, SECOND = ROLES = ("podscheduler", "podscheduler-second")
ADDRESSES = dict(zip(ROLES, ("192.0.2.7", "192.0.2.8"), strict=True))
"""Addresses that the processes give as their own. The forwarder knows where they are."""
LEASE = names.scheduler_lease(names.ROLE_PODSCHEDULER)
MOST_BETWEEN = 3
pytestmark = pytest.mark.timeout(600)


class Pair:
    """Two processes of the Pod scheduler, one of which leads."""

    def __init__(self, pool: Pool, forwarder: Forwarder) -> None:
        self.pool = pool
        self.forwarder = forwarder
        self._numbers = itertools.count()

    def status(self, role: str) -> Json:
        [found] = self.pool.system.status(role)["roles"].values()
        return dict(found)

    def leader(self) -> str:
        """Wait until the Service leads to the process that leads, and return that."""

        def check() -> str:
            return next((each for each in ROLES if self.leads(each)), "")

        return eventually(check)

    def leads(self, role: str) -> bool:
        """Return whether a process leads, and the Service leads to it."""
        return bool(self.status(role)["leader"]) and self.taken_over(role)

    def taken_over(self, role: str) -> bool:
        return addresses(self.pool.bed.meta) == [ADDRESSES[role]]

    def create_until_taken_over(self, space: Space, role: str) -> list[str]:
        """Create Pods until the Service leads to a process, and return the names of those that were created without a place.

        They are few, so that the slices have room for all.
        """
        unplaced: list[str] = []

        def check() -> bool:
            name = f"between-{next(self._numbers)}"
            over = self.taken_over(role)
            if not over and len(unplaced) < MOST_BETWEEN and not created(space, name):
                unplaced.append(name)
            return over

        eventually(check)
        return unplaced


def other_of(role: str) -> str:
    return SECOND if role == FIRST else FIRST


@pytest.fixture(scope="module")
def pair(pool: Pool) -> Iterator[Pair]:
    """Both processes, and tenant acme that asks by the Service, until the tests of this module end."""
    system, meta = pool.system, pool.bed.meta
    renew = ("tenant", "renew", "acme", "--kubeconfig", str(pool.cluster("acme").kubeconfig))
    ports = dict(zip(ROLES, free_ports(2), strict=True))
    for role in ROLES:
        system.options[role] = (
            *("--placement-webhook-listen", f"127.0.0.1:{ports[role]}"),
            *("--placement-webhook-endpoint", ADDRESSES[role]),
        )
    system.terminate(FIRST)
    meta.kubectl("apply", "-f", str(SERVICE))
    try:
        with Forwarder(meta, {ADDRESSES[role]: ports[role] for role in ROLES}) as forwarder:
            system.vcsync(*renew, "--placement-webhook", f"127.0.0.1:{forwarder.port}")
            system.start(*ROLES)
            found = Pair(pool, forwarder)
            for role in ROLES:
                eventually(lambda role=role: found.status(role)["placementWebhook"].startswith("served at"))
            yield found
    finally:
        system.vcsync(*renew, "--no-placement-webhook")
        meta.kubectl("delete", "-f", str(SERVICE), "--ignore-not-found")
        system.options.clear()
        for role in ROLES:
            with suppress(KeyError):  # it did not start
                system.kill(role)
        system.start(FIRST)


@pytest.mark.parametrize("crash", [False, True], ids=["terminated", "killed"])
def test_pods_are_placed_at_their_creation_again_after_the_leader_has_ended(
    pair: Pair, space: Space, *, crash: bool
) -> None:
    leader = pair.leader()
    follower = other_of(leader)
    placed_at_creation(space)
    (pair.pool.system.kill if crash else pair.pool.system.terminate)(leader)
    try:
        unplaced = pair.create_until_taken_over(space, follower)
        assert pair.leads(follower)
        name = placed_at_creation(space)
        space.running(name)
        for each in unplaced:
            assert super_of(space.running(each)) in pair.pool.supers
    finally:
        pair.pool.system.start(leader)
    assert pair.leader() == follower, "a process that returns is a stand-by"
    placed_at_creation(space)


def test_a_leader_that_hangs_delays_pods_until_it_is_replaced(pair: Pair, space: Space) -> None:
    """To the tenant it is a leader whose machine has failed: the address does not answer, and nobody has closed connections."""
    leader = pair.leader()
    follower = other_of(leader)
    placed_at_creation(space)
    process = pair.pool.system.pid(leader)
    os.kill(process, signal.SIGSTOP)
    try:
        unplaced = pair.create_until_taken_over(space, follower)
        assert unplaced, "a Pod is created although nobody answers"
        placed_at_creation(space)
        for each in unplaced:
            assert super_of(space.running(each)) in pair.pool.supers
    finally:
        os.kill(process, signal.SIGCONT)
    eventually(lambda: not pair.status(leader)["leader"])
    assert pair.taken_over(follower), "the former leader does not lead the Service back to itself"
    placed_at_creation(space)


def test_a_control_plane_does_not_go_on_asking_a_leader_that_was_replaced(pair: Pair, space: Space) -> None:
    """The former leader lives and answers, so that nothing but itself ends the connections to it."""
    leader = pair.leader()
    follower = other_of(leader)
    placed_at_creation(space)
    before = pair.forwarder.opened[ADDRESSES[follower]]
    taken = json.dumps({"spec": {"holderIdentity": pair.status(follower)["identity"]}})
    meta = pair.pool.bed.meta
    meta.kubectl("patch", "lease", LEASE, "-n", names.SYSTEM_NAMESPACE, "--type=merge", "-p", taken)
    eventually(lambda: pair.leads(follower))
    placed_at_creation(space)
    assert pair.forwarder.opened[ADDRESSES[follower]] > before

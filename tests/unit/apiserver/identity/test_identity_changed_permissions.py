"""A change of a role or binding forgets what it concerns, and permissions are collected in turns."""

import asyncio

import pytest

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization.policy import Binding, Policy, Subject
from vcsync.apiserver.authorization.rbac import FULL_AUTHORITY
from vcsync.apiserver.request.caller import Attributes

LOW = User("low")
GET_SECRETS = Attributes("get", resource="secrets", namespace="n", name="x")
LOW_SUBJECT = (Subject("User", "low"),)


def binding(name: str, role: str, user: str = "low", namespace: str = "") -> Binding:
    return Binding(name, "Role" if namespace else "ClusterRole", role, (Subject("User", user),), namespace)


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for each collection of a user's permissions."""
    found: list[int] = []
    collect = Policy._collect

    def counted(self, bound):
        found.append(len(bound))
        return collect(self, bound)

    monkeypatch.setattr(Policy, "_collect", counted)
    return found


def test_changes_that_do_not_concern_a_user_keep_what_is_remembered(collected: list[int]) -> None:
    policy = Policy({"all": FULL_AUTHORITY}, {}, [binding("b", "all")])
    assert policy.decide(LOW, GET_SECRETS).allowed
    for number in range(20):
        policy.set_role("", f"role-{number}", FULL_AUTHORITY)
        policy.set_role("n", "all", FULL_AUTHORITY)
        policy.set_binding("", f"other-{number}", binding(f"other-{number}", "all", "other"))
        policy.set_binding("n", f"other-{number}", binding(f"other-{number}", "all", "other", "n"))
        policy.set_binding("", f"other-{number}", None)
        assert policy.decide(LOW, GET_SECRETS).allowed
    assert len(collected) == 1


def test_changes_that_concern_a_user_count_at_once(collected: list[int]) -> None:
    policy = Policy({}, {}, [binding("b", "all")])
    assert not policy.decide(LOW, GET_SECRETS).allowed
    policy.set_role("", "all", FULL_AUTHORITY)
    assert policy.decide(LOW, GET_SECRETS).allowed
    policy.set_role("", "all", ())
    assert not policy.decide(LOW, GET_SECRETS).allowed
    policy.set_role("n", "own", FULL_AUTHORITY)
    policy.set_binding("n", "own", binding("own", "own", namespace="n"))
    assert policy.decide(LOW, GET_SECRETS).allowed
    policy.set_binding("n", "own", binding("own", "own", "other", "n"))
    assert not policy.decide(LOW, GET_SECRETS).allowed
    policy.set_binding("n", "own", binding("own", "own", namespace="n"))
    assert policy.decide(LOW, GET_SECRETS).allowed
    policy.set_role("n", "own", None)
    assert not policy.decide(LOW, GET_SECRETS).allowed
    assert (
        len(collected) == 6
    )  # without the binding in the namespace, what was remembered before counts again


def test_a_binding_that_changes_its_role_counts_at_once() -> None:
    policy = Policy({"all": FULL_AUTHORITY, "none": ()}, {}, [binding("b", "none")])
    assert not policy.decide(LOW, GET_SECRETS).allowed
    policy.set_binding("", "b", binding("b", "all"))
    assert policy.decide(LOW, GET_SECRETS).allowed
    policy.set_binding("", "b", None)
    policy.set_binding("", "c", binding("c", "none"))
    assert not policy.decide(LOW, GET_SECRETS).allowed


def many(count: int) -> Policy:
    made = [binding(f"b{number:05}", f"role-{number}") for number in range(count)]
    return Policy({f"role-{number}": FULL_AUTHORITY for number in range(0, count, 2)}, {}, made)


async def test_other_tasks_run_while_permissions_are_collected() -> None:
    policy, ticks = many(8_000), 0

    async def other() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await asyncio.sleep(0)
    before = ticks
    held = await policy.held_in_turns(LOW, "")
    task.cancel()
    assert ticks - before >= 3
    assert held == policy.held(LOW, "")
    assert held is await policy.held_in_turns(LOW, "")


@pytest.mark.parametrize("change", ["role", "binding"])
async def test_what_changes_while_it_is_collected_is_not_remembered(change: str) -> None:
    policy = many(4_000)
    collecting = asyncio.create_task(policy.held_in_turns(LOW, ""))
    await asyncio.sleep(0)
    assert not collecting.done()
    if change == "role":
        policy.set_role("", "role-0", None)
    else:
        policy.set_binding("", "b03999", None)
    await collecting
    fresh = policy.held(LOW, "")
    assert fresh == Policy(
        {name: rules for (_, name), rules in policy._roles.items()}, {}, policy._bindings.values()
    ).held(LOW, "")

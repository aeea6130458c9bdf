"""Division of connections between tenants."""

from hypothesis import given
from hypothesis import strategies as st

from vcsync.streams.budget import ConnectionBudget


def test_a_tenant_gets_half_and_leaves_room_for_others() -> None:
    budget = ConnectionBudget(16)
    assert [sum(budget.take(tenant) for _ in range(20)) for tenant in "abc"] == [8, 4, 2]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans())))
def test_what_is_given_back_can_be_taken_again(steps: list[tuple[str, bool]]) -> None:
    budget, held = ConnectionBudget(10), dict.fromkeys("abcd", 0)
    for tenant, takes in steps:
        if takes:
            free = 10 - sum(held.values())
            assert budget.take(tenant) == (held[tenant] < free)
            held[tenant] += held[tenant] < free
        elif held[tenant]:
            budget.give_back(tenant)
            held[tenant] -= 1
    for tenant, count in held.items():
        for _ in range(count):
            budget.give_back(tenant)
    assert sum(budget.take("a") for _ in range(10)) == 5


def test_a_tenant_has_no_more_than_its_limit() -> None:
    budget = ConnectionBudget(100, 3)
    assert sum(budget.take("a") for _ in range(10)) == 3
    budget.give_back("a")
    assert [budget.take("a"), budget.take("a")] == [True, False]

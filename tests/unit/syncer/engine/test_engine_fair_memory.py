"""A bounded memory of facts about several tenants' objects."""

from hypothesis import given
from hypothesis import strategies as st

from vcsync.syncer.fair_memory import FairMemory


def test_a_tenant_with_many_changes_makes_none_of_others_forgotten() -> None:
    memory: FairMemory[int, bool] = FairMemory(100)
    for number in range(10):
        memory.put("quiet", number, True)
    for number in range(1000):
        memory.put("busy", number, True)
    assert all(memory.get("quiet", number) for number in range(10))
    assert [number for number in range(1000) if memory.get("busy", number)] == list(range(910, 1000))


def test_a_tenant_that_comes_later_gets_its_share() -> None:
    memory: FairMemory[int, bool] = FairMemory(100)
    for number in range(1000):
        memory.put("busy", number, True)
    for number in range(50):
        memory.put("late", number, True)
    assert all(memory.get("late", number) for number in range(50))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 8), st.booleans())), st.integers(1, 12))
def test_no_more_than_the_largest_number_is_remembered(steps: list[tuple[str, int, bool]], most: int) -> None:
    memory: FairMemory[int, int] = FairMemory(most)
    for tenant, key, keep in steps:
        if keep:
            memory.put(tenant, key, key)
        else:
            memory.forget(tenant, key)
            assert memory.get(tenant, key) is None
        assert sum(len(each) for each in memory._of.values()) == memory._total <= most

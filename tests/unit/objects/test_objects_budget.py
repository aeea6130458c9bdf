"""A budget refuses steps and bytes beyond its limits, names the work, and divides it into pieces."""

import pytest

from vcsync.objects.budget import PIECE_STEPS, Budget, BudgetExceeded


def test_steps_within_the_limit_are_granted():
    budget = Budget("the work", steps=3)
    budget.spend(2)
    budget.spend()
    with pytest.raises(BudgetExceeded, match=r"^the work takes more than 3 steps$"):
        budget.spend()


def test_bytes_have_a_limit_of_their_own():
    budget = Budget("the work", size=10)
    budget.spend(size=10)
    with pytest.raises(BudgetExceeded, match=r"^the work takes more than 10 bytes$"):
        budget.spend(size=1)


def test_without_limits_the_work_is_only_divided_into_pieces():
    budget = Budget("the work")
    ends = 0
    for _ in range(5 * PIECE_STEPS):
        budget.spend()
        ends += budget.piece_ended()
    assert ends == 5

"""Patterns of tenants: a comparison that takes long leaves the event loop, and one that takes too long is refused."""

import pytest

from vcsync.apimachinery.cel.cooperative import SHORT_STEPS, evaluate_cooperatively
from vcsync.apimachinery.cel.functions import FUNCTIONS
from vcsync.apimachinery.cel.values import CostExceeded, Work
from vcsync.apimachinery.structural import patterns
from vcsync.apimachinery.structural.validation import validate
from vcsync.objects import loop_steps
from vcsync.objects.loop_steps import LoopSteps, TooLong

HUGE = "(" + "".join(f"[ab]{{0,900}}{chr(99 + number)}?" for number in range(20)) + "){0,1}z"
"""A pattern of some 270 characters whose alternatives are followed one by one for each character of a text."""


def test_a_pattern_of_few_characters_can_have_many_instructions() -> None:
    assert patterns.compiled(HUGE).compiled.size > 30_000
    assert patterns.compiled("^[a-z]([-a-z0-9]*[a-z0-9])?$").compiled.size < 50


def test_a_long_comparison_leaves_the_event_loop() -> None:
    token = loop_steps.current.set(LoopSteps(SHORT_STEPS))
    try:
        with pytest.raises(TooLong):
            patterns.compiled(HUGE).found_in("ab" * 500)
        loop_steps.current.set(LoopSteps(SHORT_STEPS))
        assert patterns.compiled("^[a-z]+$").found_in("ab" * 500)
    finally:
        loop_steps.current.reset(token)


async def test_a_long_comparison_has_its_answer_from_a_thread() -> None:
    schema = {"type": "string", "pattern": HUGE}
    assert await evaluate_cooperatively("acme", lambda: validate("spec.a", "abz" * 40, schema)) == []


def test_texts_that_are_too_long_for_a_pattern_are_refused() -> None:
    [found] = validate("spec.a", "ab" * 4_000, {"type": "string", "pattern": HUGE})
    assert "is too long: at most" in str(found)
    assert validate("spec.a", "ab" * 400_000, {"type": "string", "pattern": "^[a-z]+$"}) == []


@pytest.mark.parametrize("function", ["matches", "find", "findAll"])
def test_expressions_end_at_texts_that_are_too_long_for_a_pattern(function: str) -> None:
    arguments = (HUGE, 1) if function == "findAll" else (HUGE,)
    with pytest.raises(CostExceeded):
        FUNCTIONS[function](Work(1_000), "ab" * 4_000, *arguments)

"""The comparison of upstream's expressions finds every difference, and excuses only those of its table."""

import re

import pytest

from hack.upstream_cel import compare
from hack.upstream_cel.asking import Question
from hack.upstream_cel.compare import NO_BOOL, Difference
from hack.upstream_cel.expressions import expressions


def test_expressions_are_the_string_literals_of_a_go_file():
    source = """
        package a // "not(this)"
        /* `nor(this)` */
        var r = '"'
        var tests = []string{`a("b")`, "c(\\"d\\\\n\\")", "word", ""}
    """
    assert list(expressions(source)) == ['a("b")', 'c("d\\n")']


def server(compiling, values=None):
    """Return what a server says, by rule."""

    def ask(told):
        return lambda questions: {
            at: told[each.rule] for at, each in enumerate(questions) if each.rule in told
        }

    return ask(compiling), ask(values or {})


def differing(real, ours, *wanted):
    def both(index):
        return lambda questions: (real[index](questions), ours[index](questions))

    return [each.expression for each in compare.differences(wanted, both(0), both(1))]


TEXT = "'%s'.format([1 + 1\n]) == '?'"
OPAQUE = "dyn(1 + 1\n) == 0 || true"


@pytest.mark.parametrize(
    ("real", "ours", "found"),
    [
        (server({}), server({}), []),
        (server({"a": ("x",)}), server({}), ["a"]),
        (server({"a": ("x",)}), server({"a": ("y",)}), ["a"]),
        (server({"a": ("Syntax error: x",)}), server({"a": ("Syntax error: y",)}), []),
        (server({}, {"a": ("it is false",)}), server({}), ["a"]),
        (server({"1 + 1": (NO_BOOL,)}, {TEXT: ("2",)}), server({"1 + 1": (NO_BOOL,)}, {TEXT: ("2",)}), []),
        (server({"1 + 1": (NO_BOOL,)}, {TEXT: ("2",)}), server({"1 + 1": (NO_BOOL,)}, {TEXT: ("3",)}), [TEXT]),
        (server({"1 + 1": (NO_BOOL,), TEXT: ("no text",)}, {OPAQUE: ("fails",)}),
         server({"1 + 1": (NO_BOOL,), TEXT: ("no text",)}), [OPAQUE]),
    ],
)  # fmt: skip
def test_acceptance_messages_and_values_are_compared(real, ours, found):
    assert differing(real, ours, "a", "1 + 1") == found


def test_every_expression_is_asked_about_once():
    wanted = [f"e{at}" for at in range(compare.AT_ONCE * 2 + 1)]
    asked = []

    def ask(questions):
        asked.extend(questions)
        return {}, {}

    assert list(compare.differences(wanted, ask, lambda _: ({}, {}))) == []
    assert asked == [Question(each) for each in wanted]


def test_a_reason_covers_only_what_matches_all_of_its_patterns():
    reason = compare.Reason(re.compile("a"), re.compile("b"), re.compile("c"), "why")
    assert reason.covers(Difference("a", ("b",), ("c",)))
    assert not any(
        reason.covers(each)
        for each in (
            Difference("", ("b",), ("c",)),
            Difference("a", (), ("c",)),
            Difference("a", ("b",), ()),
        )
    )


def test_no_reason_covers_a_value_that_differs():
    found = Difference("url('/a') == {'a': 1}", ("it is false",), ())
    assert not any(each.covers(found) for each in compare.reasons())

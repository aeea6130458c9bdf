"""Rules of custom resources end in bounded time and memory, whatever they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.cel import rules as module
from vcsync.apimachinery.cel.declared import RESERVED, declare, escape
from vcsync.apimachinery.cel.rules import compile_rules, estimate
from vcsync.apimachinery.cel.values import CelError, Duration, Timestamp, Work, equal
from vcsync.apimachinery.structural.schema import build


def schema(*rules):
    return {
        "type": "object",
        "x-kubernetes-validations": [{"rule": each} for each in rules],
        "properties": {
            "list": {"type": "array", "items": {"type": "string"}},
            "text": {"type": "string"},
            "n": {"type": "integer"},
            "any": {"x-kubernetes-int-or-string": True},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    }


def findings(rule, value):
    return [str(each) for each in compile_rules(build(schema(rule))).validate("", value, None, None)]


MANY = {"list": [f"a{each}" for each in range(3000)], "text": "x" * 20_000, "n": 7, "any": 1, "map": {"a": 1}}


@pytest.mark.parametrize(
    "rule",
    [
        "self.list.all(a, self.list.all(b, self.list.all(c, a != b || b != c || a == c)))",
        "self.list.map(a, self.list).map(a, a.map(b, b + b)).size() > 0",
        "self.list.all(a, self.list == self.list)",
        "self.list.all(a, self.text.matches('(x+x+)+y') || true)",
        "self.list.all(a, a == 'zz' || (self.text + self.text + self.text).contains('y') || true)",
        "lists.range(1000000000).size() > 0",
        "self.list.all(a, self.text.replace('', self.text).size() > 0)",
        "self.list.all(a, self.list.map(b, [b, b]).flatten().sort().size() > 0)",
    ],
)
def test_what_takes_too_long_is_ended(rule, monkeypatch):
    monkeypatch.setattr(module, "STEPS", 20_000)
    (found,) = findings(rule, MANY)
    assert "budget" in found or "cost limit exceeded" in found


WORDS = st.sampled_from(
    ["self.n", "self.text", "self.list", "self.map", "self.any", "1", "2.5", "'a'", "true", "null", "[1]", "{'a': 1}",
     "duration('1h')", "timestamp('2020-01-01T00:00:00Z')", "self"]
)  # fmt: skip
OPERATORS = st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "&&", "||", "in"])
CALLS = st.sampled_from(
    ["size(%s)", "%s.size()", "type(%s) == int", "string(%s)", "int(%s)", "%s.all(x, x == 1)", "%s.map(x, x)",
     "has(self.n) ? %s : %s", "%s.matches('a')", "dyn(%s)", "!%s", "-%s", "%s[0]", "%s.contains('a')",
     "'%%s'.format([%s])", "quantity(%s)", "%s.split('')", "optional.of(%s)", "%s.exists(k, v, k == v)"]
)  # fmt: skip


@st.composite
def expressions(draw):
    text = draw(WORDS)
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            text = f"({text} {draw(OPERATORS)} {draw(WORDS)})"
        else:
            call = draw(CALLS)
            text = call % ((text,) * (call.count("%s") - call.count("%%s")))
    return text


@given(expressions())
def test_any_expression_compiles_or_is_refused_and_has_an_outcome(text):
    node = build(schema(f"dyn({text}) == dyn(1)"))
    (found,) = estimate(node, True)
    outcome = compile_rules(node).validate("", MANY, None, None)
    assert len(outcome) <= 1
    if found.error:
        assert outcome


@given(st.text(max_size=40))
def test_any_text_is_refused_or_compiled(text):
    (found,) = estimate(build(schema(text)), True)
    assert found.error or found.cost >= 0


def test_deep_nesting_is_refused():
    (found,) = estimate(build(schema("(" * 500 + "true" + ")" * 500)), True)
    assert found.error


def test_long_expressions_are_refused():
    (found,) = estimate(build(schema("true" + " && true" * 20_000)), True)
    assert "size exceeds limit" in found.error


def test_objects_without_rules_cost_nothing():
    assert compile_rules(build({"type": "object", "properties": {"a": {"type": "string"}}})) is None


def test_transitions_are_checked_only_on_changes():
    validator = compile_rules(build(schema("self.n >= oldSelf.n")))
    assert validator.validate("", {"n": 1}, None, None) == []
    assert validator.validate("", {"n": 2}, {"n": 1}, None) == []
    assert len(validator.validate("", {"n": 1}, {"n": 2}, None)) == 1


@pytest.mark.parametrize(
    ("name", "escaped"),
    [("a", "a"), ("a-b", "a__dash__b"), ("a.b/c", "a__dot__b__slash__c"), ("namespace", "__namespace__"),
     ("a__b", "a__underscores__b"), ("1a", None), ("ä", None), ("", None), ("a b", None)],
)  # fmt: skip
def test_names_of_fields_are_escaped(name, escaped):
    assert escape(name) == escaped


@pytest.mark.parametrize("name", ["__namespace__", "namespace", "a__dash__b"])
def test_an_absent_field_is_told_by_the_name_in_the_expression(name):
    rules = [{"rule": f"self.{name} == 'x'"}]
    properties = {"namespace": {"type": "string"}, "a-b": {"type": "string"}}
    node = build({"type": "object", "properties": properties, "x-kubernetes-validations": rules})
    (found,) = compile_rules(node).validate("", {}, None, None)
    assert f"no such key: {name} evaluating rule" in str(found)


@pytest.mark.parametrize("word", sorted(RESERVED - {"true", "false", "null", "in"}))
def test_a_field_named_by_a_reserved_word_has_both_names(word):
    """Kubeflow Trainer's and JobSet's definitions write `self.namespace`."""
    rules = (
        f"!has(self.{word}) || self.{word} == self.__{word}__",
        f"self.?{word}.orValue('') != 'refused'",
        "self == self",
    )
    properties = {word: {"type": "string"}, "plain": {"type": "string"}}
    node = build(
        {
            "type": "object",
            "properties": properties,
            "x-kubernetes-validations": [{"rule": each} for each in rules],
        }
    )
    assert [each.error for each in estimate(node, whole=False)] == [""] * 3
    compiled = compile_rules(node)
    assert list(compiled.validate("", {word: "a"}, None, None)) == []
    assert len(list(compiled.validate("", {word: "refused"}, None, None))) == 1


def test_unlimited_lists_count_as_what_fits_in_a_request():
    declared = declare(build({"type": "array", "items": {"type": "string"}}), whole=False)
    assert declared.largest == (3 * 1024 * 1024 - 2) // 3


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1h", 3600 * 10**9),
        ("-1.5s", -1_500_000_000),
        ("0", 0),
        ("1h15m30.918s", 4_530_918_000_000),
        ("1µs", 1000),
    ],
)
def test_durations_are_read(text, nanoseconds):
    assert Duration.parse(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "1", "h", "1x", "1h ", ".s", "9" * 30 + "h"])
def test_other_texts_are_no_durations(text):
    with pytest.raises(CelError):
        Duration.parse(text)


def test_times_keep_their_nanoseconds():
    assert Timestamp.parse("2020-01-01T00:00:00.123456789Z").text() == "2020-01-01T00:00:00.123456789Z"
    assert Timestamp.parse("2020-01-01T01:00:00+01:00") == Timestamp.parse("2020-01-01T00:00:00Z")


def test_numbers_of_all_types_are_equal_by_value():
    work = Work(100)
    assert equal(1, 1.0, work)
    assert not equal(True, 1, work)
    assert not equal("1", 1, work)


def test_a_rule_that_takes_too_much_is_named(monkeypatch):
    monkeypatch.setattr(module, "STEPS", 20_000)
    rule = "self.list.all(a, self.list.all(b, a == a))"
    [found] = findings(rule, MANY)
    assert f"call cost exceeds limit for rule: {rule}" in found

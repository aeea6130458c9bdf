"""Patterns of linear time answer as those of `re` do."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pattern_growth import texts_of
from re_collector import Use, all_uses, value

from vcsync.patterns.linear import InvalidPattern, Match, linear

USES = [use for use in all_uses() if use.method == "linear" and use.pattern]
TEXTS = st.text(st.sampled_from(list("ab0é€\ud800 \n")), max_size=8)
PATTERNS = ["a", "a+", "[^a]", "(?s).", "é*", "(a)|(b)", "(?P<x>a?)b", r"\w+", "(?i)A|é", "x*", ""]


def found(match: re.Match[str] | Match | None) -> object:
    return None if match is None else (match.start(), match.end(), match[0], match.groups())


@pytest.mark.parametrize("pattern", PATTERNS)
@given(TEXTS)
def test_one_match(pattern: str, text: str) -> None:
    new, old = linear(pattern), re.compile(pattern, re.ASCII)
    for method in ("match", "fullmatch", "search"):
        assert found(getattr(new, method)(text)) == found(getattr(old, method)(text))


@pytest.mark.parametrize("pattern", [each for each in PATTERNS if re.fullmatch(each, "") is None])
@given(TEXTS)
def test_several_matches(pattern: str, text: str) -> None:
    new, old = linear(pattern), re.compile(pattern, re.ASCII)
    assert [found(each) for each in new.finditer(text)] == [found(each) for each in old.finditer(text)]
    assert new.sub("\\1é", text) == old.sub("\\\\1é", text)
    assert new.sub(lambda match: f"<{match[0]}{match.start()}>", text) == old.sub(
        lambda match: f"<{match[0]}{match.start()}>", text
    )
    assert new.split(text) == [each for at, each in enumerate(old.split(text)) if at % (old.groups + 1) == 0]


def test_groups_have_names() -> None:
    match = linear("(?P<key>[a-z]+)=(?P<value>[0-9]+)?").fullmatch("a=")
    assert match is not None
    assert (match["key"], match["value"], match[1]) == ("a", None, "a")


@pytest.mark.parametrize("pattern", ["(", "a**", r"(?=a)", r"(a)\1", "a{1001}"])
def test_what_is_no_pattern_of_linear_time_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        linear(pattern)


def test_a_pattern_that_needs_much_memory_is_refused() -> None:
    with pytest.raises(InvalidPattern, match="too large"):
        linear("[^a]{1000}" * 20, memory=1 << 16)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.place)
def test_each_pattern_answers_as_re_does(use: Use) -> None:
    """On texts that match nearly, made of each pattern. `$` of `re` also matches before a last line break, and its
    `\\s` contains the vertical tab, which does not for Kubernetes."""
    try:
        pattern, _ = value(use)
    except NameError:
        return  # The pattern is an argument of a function.
    if r"\p{" in pattern:
        return  # `re` has no classes of all letters.
    new, old = linear(pattern), re.compile(re.sub(r"(?<!\\)\$$", r"\\Z", pattern), re.ASCII)
    beginnings, units, ends = texts_of(pattern)
    units = [*units[:15], "\x85", "\u2028", "\x1c", "İ", "\u017f"]
    for beginning, unit, size, end in itertools.product(beginnings, units, (1, 3), ends):
        text = beginning + unit * size + end
        for method in ("fullmatch", "match", "search"):
            one, other = getattr(new, method)(text), getattr(old, method)(text)
            assert found(one) == found(other), (method, text)

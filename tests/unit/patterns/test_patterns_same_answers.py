"""What took the place of a pattern answers as that pattern did. The patterns are slow, so the texts are short."""

import re
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.cel import quantities
from vcsync.apimachinery.wire import jsonpath, values
from vcsync.objects.selectors import InvalidSelector, Selector, parse_selector


def texts(*pieces: str, most: int = 12) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(pieces), max_size=most).map("".join)


NUMBERS = texts(*"01.+-eEimKun", "ms", "x", "Ki", "é")
OLD_QUANTITY = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?P<suffix>[eEinumkKMGTP]*[+-]?\d*)", re.ASCII)
OLD_CEL_QUANTITY = re.compile(r"([+-]?)(0*)(\d*)(?:\.(\d*))?([eEinumkKMGTP]*[+-]?\d*)", re.ASCII)
OLD_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)(?=[.\d]|\Z)", re.ASCII)
OLD_NUMBER_AND_UNIT = re.compile(r"(?:\d+\.?\d*|\.\d+)([^.\d]*)", re.ASCII)
OLD_INDEX = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^'",]+))\s*(?:,|$)""")
OLD_FILTER = re.compile(
    r"""\s*@(?P<path>(?:[^=!<>'"]|'[^']*'|"[^"]*")*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<literal>.+?))?\s*""",
    re.DOTALL,
)
OLD_COMMA = re.compile(r",(?![^(]*\))")


def groups(match: re.Match[str] | None) -> list[str] | None:
    return None if match is None else [each or "" for each in match.groups()]


@given(NUMBERS)
def test_quantities(text: str) -> None:
    assert groups(values.QUANTITY.fullmatch(text)) == groups(OLD_QUANTITY.fullmatch(text))
    new = quantities._QUANTITY.fullmatch(text)
    old = groups(OLD_CEL_QUANTITY.fullmatch(text))
    assert (None if new is None else [each or "" for each in new.groups()]) == old


@given(texts(*"01.", "ms", "m", "s", "h", "µs", "ns", "x"))
def test_durations(text: str) -> None:
    old, end = [], 0
    for match in OLD_DURATION.finditer(text):
        if match.start() != end:
            break
        old.append(match.groups())
        end = match.end()
    new, at = [], 0
    while (found := values.DURATION.match(text, at)) is not None:
        new.append(found.groups())
        at = found.end()
    assert (new, at) == (old, end)
    assert groups(values.NUMBER_AND_UNIT.match(text)) == groups(OLD_NUMBER_AND_UNIT.match(text))


@given(texts("'", '"', "\\", ",", " ", "\n", "a", "*", "0", ":"))
def test_indices_of_a_path(text: str) -> None:
    new, old = jsonpath._PART.match(text), OLD_INDEX.match(text)
    if new is None and old is not None:
        # A part without a quoted name or another character. The path is refused in either case.
        assert old[3].strip() == ""
        return
    assert (new is None) == (old is None)
    if new is not None and old is not None:
        assert new.end() == old.end()
        assert [each and each.strip() for each in new.groups()] == [
            each and each.strip() for each in old.groups()
        ]


@given(texts("@", ".", "x", "=", "==", "!=", "<", ">", " ", "\n", "'", '"', "1").map("@".__add__))
def test_filters_of_a_path(text: str) -> None:
    new, old = jsonpath._COMPARISON.fullmatch(text), OLD_FILTER.fullmatch(text)
    if new is None and old is not None:
        assert old["literal"].strip() == ""
        return
    assert (new is None) == (old is None)
    if new is not None and old is not None:
        assert new["path"].strip() == old["path"].strip()
        assert new["operator"] == old["operator"]
        assert (new["literal"] or "").rstrip() == (old["literal"] or "")


def _parsed(parse: Callable[[], Selector]) -> Selector | None:
    try:
        return parse()
    except InvalidSelector:
        return None


@given(texts(",", "(", ")", "a", " in ", " notin (", "!", "=", "b)", " "))
def test_selectors(text: str) -> None:
    def old() -> Selector:
        parts = OLD_COMMA.split(text) if text.strip() else []
        return Selector(tuple(each for part in parts for each in _one(part)))

    assert _parsed(lambda: parse_selector(text)) == _parsed(old)


def _one(part: str) -> tuple[object, ...]:
    if not part.strip() or part.count("(") > 1:
        raise InvalidSelector
    return parse_selector(part).expressions

"""Each regular expression that a tenant's text may reach is linear, and no other use of `re` comes in unseen."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pattern_growth import growing, texts_of
from re_collector import Use, all_uses, field_patterns, uses, value
from re_uses import MADE_OF_VARIABLES, OF_OPERATORS, OF_TENANTS

from vcsync.patterns.linear import linear

OF_RE = [use for use in all_uses() if use.method != "linear"]
SEVERAL = frozenset({"finditer", "sub", "split", "findall"})
"""Methods that find several matches, whose sum google-re2 does not bound."""
LINEAR = [use for use in all_uses() if use.method == "linear"]


def test_each_use_of_re_has_a_reason() -> None:
    unknown = {use.place for use in OF_RE} - OF_TENANTS.keys() - OF_OPERATORS.keys()
    assert unknown == set(), "use vcsync.patterns.linear, or say in re_uses.py why not"


def test_the_table_names_nothing_else() -> None:
    assert (OF_TENANTS.keys() | OF_OPERATORS.keys()) - {use.place for use in OF_RE} == set()


@pytest.mark.parametrize(
    "source",
    [
        "import re\nA = re.compile('a')",
        "import re as other\nclass C:\n  def f(self, t): return other.sub('a', '', t)",
        "from re import fullmatch as whole\ndef f(t): return whole('a', t)",
        "def f(t):\n  import re\n  return re.findall('a', t)",
        "import re\nfinders = map(re.compile, ['a'])",
        "import re\nA: list[re.Pattern[str]] = [re.compile('a')]",
    ],
)
def test_uses_are_seen_wherever_they_are(source: str) -> None:
    assert len(list(uses(source, "x.py"))) == 1


@pytest.mark.parametrize(
    "source", ["import re\ndef f(m: re.Match[str]): return m[0]", "import re\nA = re.escape('a')"]
)
def test_types_and_escapes_are_no_uses(source: str) -> None:
    assert list(uses(source, "x.py")) == []


@pytest.mark.parametrize("place", OF_TENANTS)
def test_patterns_on_re_are_linear(place: str) -> None:
    for use in OF_RE:
        if use.place == place:
            for pattern, flags in _patterns(use):
                _check(re.compile(pattern, flags), pattern, flags, use.methods)


@pytest.mark.parametrize(
    "use", [use for use in LINEAR if use.methods & SEVERAL and use.pattern], ids=lambda use: use.place
)
def test_several_matches_are_found_in_linear_time(use: Use) -> None:
    try:
        pattern, _ = value(use)
    except NameError:
        return  # The pattern is an argument of a function.
    compiled = linear(pattern)
    beginnings, units, ends = texts_of(pattern)
    for method in use.methods & SEVERAL:
        run = _run(compiled, method, is_bytes=False)
        assert growing(run, beginnings[:1], units[:8], ends[:2], sizes=(4000,)) is None


def test_patterns_of_fields_are_linear_and_their_texts_short() -> None:
    found = list(field_patterns())
    assert len(found) > 20
    for place, pattern, most in found:
        assert most is not None, place
        _check(re.compile(pattern), pattern, 0, frozenset({"search"}))


def _patterns(use: Use) -> Iterator[tuple[Any, int]]:
    if use.place in MADE_OF_VARIABLES:
        yield from ((pattern, 0) for pattern in MADE_OF_VARIABLES[use.place])
    elif use.pattern is not None:
        yield value(use)


def _check(compiled: Any, pattern: str | bytes, flags: int, methods: frozenset[str]) -> None:
    text = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
    for method in sorted(methods):
        run = _run(compiled, method, isinstance(pattern, bytes))
        assert growing(run, *texts_of(text, flags & ~re.UNICODE)) is None, f"{method} of {text}"


def _run(compiled: Any, method: str, is_bytes: bool) -> Callable[[str], object]:
    call = getattr(compiled, method)
    if is_bytes:
        return lambda text: _all(call(text.encode("latin-1", "replace")))
    return (lambda text: call("", text)) if method == "sub" else lambda text: _all(call(text))


def _all(found: object) -> object:
    return list(found) if isinstance(found, Iterator) else found

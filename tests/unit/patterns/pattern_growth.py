"""Finds texts on which a pattern, or a function of a text, takes more than linear time.

The texts are near-misses: a beginning, one unit many times, an end. Those of a pattern come from its own syntax tree:
the beginnings reach each of its repeats, the units are what its parts match, and the ends are wrong.

A busy machine does not change the answer. Time is CPU time of the thread, a short one counts as none, and only a ratio that stays
large in each of several measurements counts.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from re import _constants as codes
from re import _parser
from typing import Any

SIZES = (8, 12, 16, 20, 64, 500, 2000)
"""Repetitions. They begin with few, so that exponential time ends."""
SHORT = 300_000
"""Nanoseconds that count as none. A linear pattern takes some 10,000 for the longest text."""
LONG = 50_000_000
"""Nanoseconds after which a text is not made longer."""
RATIO = 3
"""A text of twice the length may take so many times as long. Linear time gives 2, quadratic time 4."""
TRIES = (1, 3, 3, 3)
"""Measurements of each size in each round. The ratio of their shortest ones counts, and the first small ratio ends the rounds."""

Run = Callable[[str], object]

WRONG_ENDS = ("", "!", "\n", "é", "]", "'")
CHARACTERS = "aA0 .-:/"
MOST_UNITS = 40
MOST_BEGINNINGS = 12


def texts_of(pattern: str, flags: int = 0) -> tuple[list[str], list[str], list[str]]:
    """Return beginnings, units and ends of near-misses of a pattern."""
    tree = _parser.parse(pattern, flags)
    beginnings, units = [""], list[str]()
    _walk(tree, [""], beginnings, units)
    words = _samples(tree)
    units += [each for each in words if len(each) > 1] + list(CHARACTERS)
    singles = [each for each in units if len(each) == 1][:6]
    units += [a + b for a, b in itertools.permutations(singles, 2)]
    return (
        list(dict.fromkeys(beginnings))[:MOST_BEGINNINGS],
        list(dict.fromkeys(filter(None, units)))[:MOST_UNITS],
        list(dict.fromkeys((*WRONG_ENDS[:3], *words[:1], *WRONG_ENDS[3:]))),
    )


def growing(
    run: Run, beginnings: list[str], units: list[str], ends: list[str], sizes: tuple[int, ...] = SIZES
) -> str | None:
    """Return a description of a text on which `run` takes more than linear time, or None. It must not remember texts."""
    for beginning, unit, end in itertools.product(beginnings, units, ends):
        for size in sizes:
            if (cost := _cost(run, beginning + unit * size + end)) < SHORT:
                continue
            if all(_ratio(run, beginning, unit, end, size, tries) > RATIO for tries in TRIES):
                return f"{beginning!r} + {unit!r} * {size} + {end!r}"
            if cost > LONG:
                break
    return None


def _ratio(run: Run, beginning: str, unit: str, end: str, size: int, tries: int) -> float:
    """Compare the costs of two sizes."""
    long = min(_cost(run, beginning + unit * (size + more) + end) for more in range(tries))
    short = min(_cost(run, beginning + unit * (size // 2 + more) + end) for more in range(tries))
    return 0.0 if long < SHORT else long / max(short, 1)


def _cost(run: Run, text: str) -> int:
    begin = time.thread_time_ns()
    with suppress(ValueError):
        run(text)
    return time.thread_time_ns() - begin


def _walk(tree: Any, before: list[str], beginnings: list[str], units: list[str]) -> list[str]:
    """Collect units of all repeats and beginnings that reach them. Returns texts that match `before` and the tree."""
    for code, value in tree:
        if code is codes.LITERAL:
            units.append(chr(value))
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            _walk(value[1], before, beginnings, units)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            beginnings += before[:2]
            units += _samples(value[2])
            _walk(value[2], before, beginnings, units)
        elif code is codes.SUBPATTERN:
            _walk(value[3], before, beginnings, units)
        elif code is codes.ATOMIC_GROUP:
            _walk(value, before, beginnings, units)
        elif code is codes.BRANCH:
            for branch in value[1]:
                _walk(branch, before, beginnings, units)
        before = [a + b for a, b in itertools.product(before, _samples([(code, value)]) or [""])][:3]
    return before


def _samples(tree: Any) -> list[str]:
    """Return some texts that the tree matches, the shortest ones of its repeats."""
    found = [""]
    for code, value in tree:
        found = [a + b for a, b in itertools.product(found, _of(code, value))][:8]
    return found


def _of(code: Any, value: Any) -> list[str]:
    if code is codes.LITERAL:
        return [chr(value)]
    if code is codes.NOT_LITERAL:
        return [next(each for each in "a0 " if ord(each) != value)]
    if code is codes.ANY:
        return ["a"]
    if code is codes.IN:
        return list(_characters(value))[:6] or ["a"]
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, most, body = value
        return (
            [each * least for each in _samples(body)]
            if least
            else ["", *_samples(body)[:2]][: 1 + (most > 0)]
        )
    if code is codes.SUBPATTERN:
        return _samples(value[3])
    if code is codes.ATOMIC_GROUP:
        return _samples(value)
    if code is codes.BRANCH:
        return [each for branch in value[1] for each in _samples(branch)[:2]]
    return [""]


_CLASSES = {codes.CATEGORY_DIGIT: "0", codes.CATEGORY_SPACE: " \n", codes.CATEGORY_WORD: "a0_"}


def _characters(items: Any) -> Iterator[str]:
    """Yield characters of a class: both ends of ranges."""
    if items[0][0] is codes.NEGATE:
        excluded = set(_characters(items[1:]))
        yield from (each for each in "a0 .-" if each not in excluded)
        return
    for code, value in items:
        if code is codes.LITERAL:
            yield chr(value)
        elif code is codes.RANGE:
            yield chr(value[0])
        elif code is codes.CATEGORY:
            yield from _CLASSES.get(value, "a ")

"""Functions that took the place of patterns, or use several: linear time on what a tenant sends."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from pattern_growth import growing

from vcsync.apimachinery.cel.quantities import FUNCTIONS
from vcsync.apimachinery.cel.values import Work
from vcsync.apimachinery.kinds.core.pod_projections import field_reference
from vcsync.apimachinery.structural.formats import FORMATS
from vcsync.apimachinery.wire import jsonpath, values
from vcsync.objects.selectors import parse_selector
from vcsync.process import logs

CHARACTERS = [*"a0 .,-:/[]()'\"!=@<>+\\%{}", "\n", "é"]
SIZES = (8, 12, 16, 20, 64, 500)
ENDS = ["", "!", "'", ")", "']", "x]", '"a"x]', "!)]", "x)]"]

FUNCTIONS_OF_TEXTS: dict[str, tuple[Callable[[str], Any], list[str], list[str]]] = {
    # Name: (function, beginnings, units besides pairs of characters).
    "quantity() of CEL": (
        lambda text: FUNCTIONS["isQuantity"](Work(10**9), text),
        ["", "1.", "+"],
        ["0.", "1e", "Ki"],
    ),
    "quantities": (values.quantity, ["", "1.", "-"], ["0.", "1e", "Ki"]),
    "durations": (values.duration_of, ["", "1.", "-"], ["1ms", "ms", "1.s", "1h"]),
    "selectors": (
        parse_selector,
        ["", "a in (", "a=", "a in (b),", "!"],
        ["a,", "a in (b),", "a=b,", ",(", "),"],
    ),
    "field paths": (
        lambda text: list(field_reference("x", {"apiVersion": "v1", "fieldPath": text}, ())),
        ["", "metadata.annotations", "metadata.labels['"],
        ["['", "a['", "']", "['a']"],
    ),
    "JSONPath": (
        jsonpath.parse,
        ["", ".a[", ".a['", ".a[?(@.x", '.a[?(@.x=="', ".a["],
        ["'a',", "*,", "..", "[?(@.x)]", "\\a", "1:", "[0]", ".a", "'a' ", "=="],
    ),
    "secrets in the log": (
        lambda text: logs.redact(None, "info", {"event": text}),
        ["", "Bearer ", "eyJaaaaaaaa."],
        ["eyJ", "eyJeyJeyJ", "Bearer ", "eyJaaaaaaaa.", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----"],
    ),
} | {
    f"format {name}": (check, ["", "a@", "http://", "1.", "rgb("], ["ms", "1ms", "a.", "1.", "00-"])
    for name, check in FORMATS.items()
}


@pytest.mark.parametrize("name", FUNCTIONS_OF_TEXTS)
def test_a_function_of_a_tenants_text_takes_linear_time(name: str) -> None:
    function, beginnings, units = FUNCTIONS_OF_TEXTS[name]
    pairs = ["".join(each) for each in itertools.permutations("a0 .,", 2)]
    assert growing(function, beginnings, [*CHARACTERS, *units, *pairs], ENDS, SIZES) is None

"""Long selectors select, and are refused, as short ones, but others have their turn while they are parsed."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from vcsync.controlplane.behaviour import Behaviour
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.rest import selection as selecting
from vcsync.controlplane.rest.fieldselectors import InvalidFieldSelector, parse_field_selector
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.rest.labelselectors import InvalidLabelSelector, parse_label_selector
from vcsync.controlplane.rest.options import ListOptions
from vcsync.controlplane.rest.selection import MAX_SELECTOR, SHORT, selection

KIND = cast(
    "Kind",
    SimpleNamespace(
        behaviour=Behaviour(), resource=SimpleNamespace(group="", kind="ConfigMap", custom=False)
    ),
)
MANY = range(700)
LABELS = [
    ",".join(f"a{n}!=b" for n in MANY),
    ",".join(f"a{n},!b{n},c{n} in (x,y),d{n}>1" for n in MANY[:200]),
    "a notin (" + ",".join(f"b{n}" for n in MANY) + "),c=d",
    "a in (" + "," * 700 + ")",
]
WRONG_LABELS = [
    "(" * 700,
    ",".join(f"a{n}" for n in MANY) + ",,b",
    "a in (" + ",".join(f"b{n}" for n in MANY),
    "a in (" + ",".join(f"-{n}" for n in MANY) + ")",
    ",".join(f"a{n}" for n in MANY) + ",b>c",
]
FIELDS = [",".join(f"metadata.name!=x{n}" for n in MANY), "metadata.name=" + "x" * SHORT]
WRONG_FIELDS = [",".join(f"metadata.name!=x{n}" for n in MANY) + ",x", "metadata.name=" + "=" * SHORT]


@pytest.mark.parametrize("text", LABELS)
async def test_long_label_selectors_are_parsed_as_short_ones(text: str) -> None:
    assert SHORT < len(text) <= MAX_SELECTOR
    assert (await selection(KIND, ListOptions(label_selector=text))).labels == parse_label_selector(text)


@pytest.mark.parametrize("text", WRONG_LABELS)
async def test_long_label_selectors_are_refused_as_short_ones(text: str) -> None:
    with pytest.raises(InvalidLabelSelector) as wrong:
        parse_label_selector(text)
    with pytest.raises(StatusError) as refused:
        await selection(KIND, ListOptions(label_selector=text))
    assert refused.value.message == str(wrong.value)


@pytest.mark.parametrize("text", FIELDS)
async def test_long_field_selectors_are_parsed_as_short_ones(text: str) -> None:
    assert (await selection(KIND, ListOptions(field_selector=text))).fields == parse_field_selector(text)


@pytest.mark.parametrize("text", WRONG_FIELDS)
async def test_long_field_selectors_are_refused_as_short_ones(text: str) -> None:
    with pytest.raises(InvalidFieldSelector) as wrong:
        parse_field_selector(text)
    with pytest.raises(StatusError) as refused:
        await selection(KIND, ListOptions(field_selector=text))
    assert refused.value.message == str(wrong.value)


@pytest.mark.parametrize(
    "wanted",
    [*(ListOptions(label_selector=each) for each in LABELS), ListOptions(field_selector=FIELDS[0])],
)
async def test_others_have_their_turn_while_long_selectors_are_parsed(
    wanted: ListOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        turns += 1
        await asyncio.sleep(0)

    monkeypatch.setattr(selecting, "turn", turn)
    await selection(KIND, wanted)
    assert turns >= 7

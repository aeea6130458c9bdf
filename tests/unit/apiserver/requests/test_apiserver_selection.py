"""Long selectors select and are refused like short ones, while other tasks run during their parsing."""

import asyncio
from types import SimpleNamespace
from typing import cast
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.selectors.field_selectors import (
    FieldSelector,
    InvalidFieldSelector,
    parse_field_selector,
)
from vcsync.apimachinery.selectors.label_selectors import InvalidLabelSelector, parse_label_selector
from vcsync.apimachinery.strategy import Behaviour
from vcsync.apiserver.registry.selection import Selection, selection
from vcsync.apiserver.request import selectors
from vcsync.apiserver.request.request_info import (
    MAX_QUERY,
    RequestInfo,
    parse_query,
    read_selectors,
    request_info,
)
from vcsync.apiserver.request.resource import Kind
from vcsync.apiserver.request.selectors import SHORT, read

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


async def chosen(fields: str = "", labels: str = "") -> Selection:
    return selection(KIND, await read(fields, labels))


@pytest.mark.parametrize("text", LABELS)
async def test_long_label_selectors_are_parsed_like_short_ones(text: str) -> None:
    assert SHORT < len(text) <= MAX_QUERY
    assert (await chosen(labels=text)).labels == parse_label_selector(text)


@pytest.mark.parametrize("text", WRONG_LABELS)
async def test_long_label_selectors_are_refused_like_short_ones(text: str) -> None:
    with pytest.raises(InvalidLabelSelector) as wrong:
        parse_label_selector(text)
    with pytest.raises(StatusError) as refused:
        await chosen(labels=text)
    assert refused.value.message == str(wrong.value)


@pytest.mark.parametrize("text", FIELDS)
async def test_long_field_selectors_are_parsed_like_short_ones(text: str) -> None:
    assert (await chosen(fields=text)).fields == parse_field_selector(text)


@pytest.mark.parametrize("text", WRONG_FIELDS)
async def test_long_field_selectors_are_refused_like_short_ones(text: str) -> None:
    with pytest.raises(InvalidFieldSelector) as wrong:
        parse_field_selector(text)
    with pytest.raises(StatusError) as refused:
        await chosen(fields=text)
    assert refused.value.message == str(wrong.value)


@pytest.mark.parametrize(
    "wanted",
    [*({"labels": each} for each in LABELS), {"fields": FIELDS[0]}],
)
async def test_other_tasks_run_while_long_selectors_are_parsed(
    wanted: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        turns += 1
        await asyncio.sleep(0)

    monkeypatch.setattr(selectors, "turn", turn)
    await chosen(**wanted)
    assert turns >= 7


ODD = (
    "metadata.name=a", "metadata.name==a", "metadata.name!=a", "metadata.name=", "metadata.name=a,metadata.name=b",
    "metadata.name=b,metadata.name=a", "metadata.name!=a,metadata.name=b", r"metadata.name=a\,metadata.name=b",
    r"metadata.name=a\\,metadata.name=b", r"x\,metadata.name=a", r"metadata.name=a\=b", "metadata.name=a=b", "metadata.name=a,",
    ",metadata.name=a", ",,metadata.name=a,,", "metadata.name=a,x", "metadata.name", " metadata.name=a", "metadata.name =a",
    "metadata.name= a", "metadata.name=a\x00", "metadata.name=..", "metadata.name=a%2Fb", "metadata.name=a/b", "METADATA.NAME=a",
    "metadata.name===a", "metadata.name=!a", "metadata.name!==a", "a=b", "=", "==", "!=", "\\", "",
)  # fmt: skip


async def authorized(query: str) -> RequestInfo:
    """What a request for Secrets is authorized as."""
    parsed = parse_query(query)
    info = request_info("GET", "/api/v1/namespaces/default/secrets", parsed)
    return info if info.selectors is not None else await read_selectors(info, parsed)


@pytest.mark.parametrize("padding", ["", "metadata.namespace!=" + "x" * SHORT])
@pytest.mark.parametrize("text", ODD)
async def test_the_authorized_selector_is_the_executed_one(text: str, padding: str) -> None:
    text = ",".join(filter(None, (text, padding)))
    await check_that_it_is_executed(text)


@given(
    st.text(max_size=40, alphabet="ab=!,\\ ./%") | st.lists(st.sampled_from(ODD), max_size=4).map(",".join)
)
async def test_any_authorized_selector_is_the_executed_one(text: str) -> None:
    await check_that_it_is_executed(text)


async def check_that_it_is_executed(text: str) -> None:
    """Whatever would be shown has the name and the fields by which it was authorized."""
    info = await authorized(f"fieldSelector={quote(text)}&labelSelector=a%3Db")
    assert info.selectors is not None
    try:
        shown = selection(KIND, info.selectors)
    except StatusError:
        if info.selectors.wrong:
            assert (info.name, info.selected) == ("", ())
        return
    fields = shown.fields or FieldSelector()
    for name in ("", "a", "b", "a,metadata.name=b", "a\\", "a=b", "!a", "=a", info.name):
        if fields.matches({"metadata.name": name, "metadata.namespace": "default"}):
            assert info.name in ("", name)
            assert all(name == value for field, value in info.selected if field == "metadata.name")
    assert shown.labels is info.selectors.labels


async def test_a_selector_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def counting(text: str) -> FieldSelector:
        parsed.append(text)
        return parse_field_selector(text)

    monkeypatch.setattr(selectors, "_short_fields", counting)
    info = await authorized("fieldSelector=metadata.name%3Da")
    assert info.selectors is not None
    assert (info.name, info.selected, selection(KIND, info.selectors).name) == (
        "a",
        (("metadata.name", "a"),),
        "a",
    )
    assert parsed == ["metadata.name=a"]

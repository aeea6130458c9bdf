"""Large versions are compiled on a thread, once, and shared as small ones are."""

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from vcsync.apimachinery.crd import custom_resource
from vcsync.apimachinery.crd.custom_resource import compile_version
from vcsync.apiserver.apiextensions import catalogue
from vcsync.apiserver.apiextensions.catalogue import Served
from vcsync.apiserver.apiextensions.conversion import refuse


def definition(properties: int, *, raw: bool = True) -> dict[str, Any]:
    def version(name: str) -> dict[str, Any]:
        own = {f"{name}-property-{number:05}-{'x' * 20}": {"type": "string"} for number in range(properties)}
        schema: Any = {"openAPIV3Schema": {"type": "object", "properties": own}}
        schema = msgspec.Raw(msgspec.json.encode(schema)) if raw else schema
        return {"name": name, "served": True, "storage": name == "v1", "schema": schema}

    names = {"plural": "foos", "kind": "Foo"}
    return {
        "metadata": {"name": "foos.example.com"},
        "spec": {"group": "example.com", "names": names, "versions": [version("v1"), version("v2")]},
    }


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads on which versions are compiled."""
    found: list[threading.Thread] = []
    compile_ = custom_resource._compile

    def noted(*args: Any) -> Any:
        found.append(threading.current_thread())
        return compile_(*args)

    monkeypatch.setattr(custom_resource, "_compile", noted)
    return found


def served(made: dict[str, Any], name: str = "v2") -> Served:
    version = next(each for each in made["spec"]["versions"] if each["name"] == name)
    return Served("acme", made, version, refuse)


async def test_a_large_version_is_not_compiled_on_the_event_loop(compiling: list[threading.Thread]) -> None:
    kind = served(definition(2_000))
    await asyncio.gather(*(kind.compiled() for _ in range(5)))
    assert len(compiling) == 1
    assert threading.main_thread() not in compiling
    assert kind.schema is not None


async def test_a_version_of_many_columns_is_not_compiled_on_the_event_loop(
    compiling: list[threading.Thread],
) -> None:
    made = definition(1)
    columns = [{"name": f"c{number}", "type": "string", "jsonPath": ".a" * 50} for number in range(500)]
    made["spec"]["versions"][1]["additionalPrinterColumns"] = columns
    kind = served(made)
    await kind.compiled()
    assert len(compiling) == 1
    assert threading.main_thread() not in compiling
    assert len(kind.columns) == 1 + len(columns)


async def test_another_version_is_compiled_on_a_thread_once(
    compiling: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = served(definition(2_001))
    await kind.compiled()
    encoded = []
    monkeypatch.setattr(
        catalogue, "compile_version", lambda *args: encoded.append(1) or compile_version(*args)
    )
    for _ in range(3):
        obj = {"apiVersion": "example.com/v2", "kind": "Foo", "metadata": {"name": "a"}}
        await kind.store(obj)
        await kind.into({**obj, "apiVersion": "example.com/v2"}, "example.com/v1")
    assert len(compiling) == 2
    assert len(encoded) == 1
    assert threading.main_thread() not in compiling


async def test_a_small_version_needs_no_thread(compiling: list[threading.Thread]) -> None:
    await served(definition(3)).compiled()
    assert compiling == [threading.main_thread()]


def test_threads_that_compile_equal_versions_share_one() -> None:
    made = definition(500, raw=False)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: compile_version(made, "v1"), range(8)))
    assert len(set(map(id, found))) == 1


def test_what_no_tenant_has_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custom_resource, "_recent", custom_resource.Kept(1))
    before = len(custom_resource._shared)
    for number in range(20):
        compile_version(definition(10 + number, raw=False), "v1")
    gc.collect()
    assert len(custom_resource._shared) <= before + 1


async def test_a_kind_that_no_request_names_is_not_compiled_on_the_event_loop(
    compiling: list[threading.Thread],
) -> None:
    kind = served(definition(2_002))
    await kind.load([{"apiVersion": "example.com/v2", "kind": "Foo", "metadata": {"name": "a"}}])
    assert len(compiling) == 1
    assert threading.main_thread() not in compiling

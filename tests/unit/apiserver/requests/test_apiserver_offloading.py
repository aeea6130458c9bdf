"""Large bodies run on threads or in the offload process, and cost no more than their size."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.strategy import Behaviour
from vcsync.apiserver.admission.runtime_classes import MOST_MERGED, merged
from vcsync.apiserver.registry import object_meta as meta
from vcsync.apiserver.registry import offloading
from vcsync.apiserver.registry.offloading import (
    MAX_REMEMBERED,
    OFFLOAD_FIELDS,
    REMEMBERED_SECONDS,
    THREAD_BYTES,
    UNCOUNTED_BYTES,
    YIELD_BYTES,
    SlowWrites,
    is_expensive,
    run_rules,
    run_step,
)
from vcsync.apiserver.request.scope import Scope


def scope(size: int, stored_size: int = 0) -> Scope:
    return cast("Scope", SimpleNamespace(size=size, stored_size=stored_size, tenant="acme"))


@pytest.mark.parametrize(
    ("size", "aside"), [(0, False), (THREAD_BYTES, False), (THREAD_BYTES + 1, True), (3 << 20, True)]
)
async def test_steps_on_large_bodies_run_on_a_thread(size: int, *, aside: bool) -> None:
    here = threading.get_ident()
    for run in (run_step, run_rules):
        assert (await run(scope(size), threading.get_ident) != here) is aside


@pytest.mark.parametrize(
    ("size", "stored_size", "turns"),
    [
        (YIELD_BYTES, YIELD_BYTES, 0),
        (YIELD_BYTES + 1, 0, 2),
        (0, YIELD_BYTES + 1, 2),
        (THREAD_BYTES + 1, 0, 0),
    ],
)
async def test_steps_on_medium_bodies_yield_to_other_tasks(
    size: int, stored_size: int, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []

    async def turn() -> None:
        taken.append(1)

    monkeypatch.setattr(offloading, "turn", turn)
    for run in (run_step, run_rules):
        assert await run(scope(size, stored_size), lambda: 7) == 7
    assert len(taken) == turns


@pytest.mark.parametrize("size", [0, THREAD_BYTES + 1])
async def test_errors_of_a_step_reach_the_caller(size: int) -> None:
    def refuse() -> None:
        raise ValueError("no")

    for run in (run_step, run_rules):
        with pytest.raises(ValueError, match="no"):
            await run(scope(size), refuse)


def test_messages_about_too_many_controllers_are_bounded() -> None:
    owner = {"apiVersion": "v1", "kind": "Secret", "uid": "1", "controller": True}
    owners: list[dict[str, Any]] = [{**owner, "name": f"n{number}"} for number in range(500)]
    resource = next(each for each in builtin.resources() if each.plural == "configmaps")
    metadata = {"name": "a", "namespace": "b", "ownerReferences": owners}
    found = meta.findings(metadata, resource=resource, own_name=True, behaviour=Behaviour())
    assert len(found) == meta.MAX_CONTROLLER_FINDINGS


def test_tolerations_are_merged_unless_they_are_very_many() -> None:
    same = [{"key": "a", "operator": "Exists"}] * MOST_MERGED
    assert merged(same) == same[:1]
    assert len(merged([*same, *same])) == 2 * MOST_MERGED


@pytest.mark.parametrize(
    ("body", "content_type", "expensive"),
    [
        (b'{"a":1}', "application/json", False),
        (b'{"data":{"a":"' + b"x" * 200_000 + b'"}}', "application/json", False),
        (b'{"data":{"a":"' + b"x" * 300_000 + b'"}}', "application/json", True),
        (b"[" + b"1," * OFFLOAD_FIELDS + b"1]", "application/json", False),
        (b"[" + b"1," * 2 * UNCOUNTED_BYTES + b"1]", "application/json", True),
        (b"a: b", "application/yaml", True),
        (b"a: b", "application/apply-patch+yaml", True),
        (b'{"a":"b"}', "application/apply-patch+yaml", False),
        (b'[{"op":"copy","from":"/a","path":"/b"}]', "application/json-patch+json", True),
        (b'[{"op":"add","path":"/b","value":1}]', "application/json-patch+json", False),
        (b"k8s\0" + b"," * 5000, "application/vnd.kubernetes.protobuf", False),
        (b"k8s\0" + b"x" * THREAD_BYTES, "application/vnd.kubernetes.protobuf", True),
    ],
)
def test_expensive_bodies_are_recognized(body: bytes, content_type: str, *, expensive: bool) -> None:
    assert is_expensive(body, content_type) is expensive


def test_slow_writes_are_remembered_for_a_while() -> None:
    now = 100.0
    slow = SlowWrites(lambda: now)
    assert not slow.includes("bombs", 10**6)
    slow.add("bombs", 1000)
    assert [slow.includes("bombs", size) for size in (999, 1000, 5000)] == [False, True, True]
    assert not slow.includes("others", 5000)
    slow.add("bombs", 10)
    assert slow.includes("bombs", 999)
    now += REMEMBERED_SECONDS
    assert not slow.includes("bombs", 5000)


def test_slow_writes_are_forgotten_together_when_there_are_too_many() -> None:
    slow = SlowWrites(lambda: 0.0)
    for number in range(MAX_REMEMBERED):
        slow.add(number, 10)
    assert all(slow.includes(number, 10) for number in range(MAX_REMEMBERED))
    slow.add("one more", 10)
    assert slow.includes("one more", 10)
    assert len(slow._known) == 1
    assert not any(slow.includes(number, 10) for number in range(MAX_REMEMBERED))

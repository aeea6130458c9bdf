"""Large bodies: worked on beside the event loop, and without a product of their parts."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vcsync.controlplane.admission.runtime_classes import MOST_MERGED, merged
from vcsync.controlplane.behaviour import Behaviour
from vcsync.controlplane.rest import heavy, meta
from vcsync.controlplane.rest.heavy import (
    LARGE,
    MANY,
    MIDDLE,
    MOST_TRIED,
    SMALL,
    TRIED_SECONDS,
    Tried,
    checked,
    costly,
    heavily,
)
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.schema import builtin


def scope(size: int, there: int = 0) -> Scope:
    return cast("Scope", SimpleNamespace(size=size, there=there, tenant="acme"))


@pytest.mark.parametrize(("size", "aside"), [(0, False), (LARGE, False), (LARGE + 1, True), (3 << 20, True)])
async def test_large_bodies_are_worked_on_beside_the_loop(size: int, *, aside: bool) -> None:
    here = threading.get_ident()
    for ask in (heavily, checked):
        assert (await ask(scope(size), threading.get_ident) != here) is aside


@pytest.mark.parametrize(
    ("size", "there", "turns"),
    [(MIDDLE, MIDDLE, 0), (MIDDLE + 1, 0, 2), (0, MIDDLE + 1, 2), (LARGE + 1, 0, 0)],
)
async def test_others_have_their_turn_between_steps_of_middling_writes(
    size: int, there: int, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []

    async def turn() -> None:
        taken.append(1)

    monkeypatch.setattr(heavy, "turn", turn)
    for ask in (heavily, checked):
        assert await ask(scope(size, there), lambda: 7) == 7
    assert len(taken) == turns


@pytest.mark.parametrize("size", [0, LARGE + 1])
async def test_what_the_work_refuses_is_refused(size: int) -> None:
    def refuse() -> None:
        raise ValueError("no")

    for ask in (heavily, checked):
        with pytest.raises(ValueError, match="no"):
            await ask(scope(size), refuse)


def test_owners_too_many_are_told_of_a_bounded_number_of_times() -> None:
    owner = {"apiVersion": "v1", "kind": "Secret", "uid": "1", "controller": True}
    owners: list[dict[str, Any]] = [{**owner, "name": f"n{number}"} for number in range(500)]
    resource = next(each for each in builtin.resources() if each.plural == "configmaps")
    metadata = {"name": "a", "namespace": "b", "ownerReferences": owners}
    found = meta.findings(metadata, resource=resource, own_name=True, behaviour=Behaviour())
    assert len(found) == meta.MAX_CONTROLLERS_TOLD


def test_tolerations_are_merged_unless_they_are_very_many() -> None:
    same = [{"key": "a", "operator": "Exists"}] * MOST_MERGED
    assert merged(same) == same[:1]
    assert len(merged([*same, *same])) == 2 * MOST_MERGED


@pytest.mark.parametrize(
    ("body", "content_type", "heavy"),
    [
        (b'{"a":1}', "application/json", False),
        (b'{"data":{"a":"' + b"x" * 200_000 + b'"}}', "application/json", False),
        (b'{"data":{"a":"' + b"x" * 300_000 + b'"}}', "application/json", True),
        (b"[" + b"1," * MANY + b"1]", "application/json", False),
        (b"[" + b"1," * 2 * SMALL + b"1]", "application/json", True),
        (b"a: b", "application/yaml", True),
        (b"a: b", "application/apply-patch+yaml", True),
        (b'{"a":"b"}', "application/apply-patch+yaml", False),
        (b'[{"op":"copy","from":"/a","path":"/b"}]', "application/json-patch+json", True),
        (b'[{"op":"add","path":"/b","value":1}]', "application/json-patch+json", False),
        (b"k8s\0" + b"," * 5000, "application/vnd.kubernetes.protobuf", False),
        (b"k8s\0" + b"x" * LARGE, "application/vnd.kubernetes.protobuf", True),
    ],
)
def test_what_is_heavy_shows(body: bytes, content_type: str, *, heavy: bool) -> None:
    assert costly(body, content_type) is heavy


def test_what_took_too_long_is_not_tried_again_for_a_while() -> None:
    now = 100.0
    tried = Tried(lambda: now)
    assert not tried.in_vain("bombs", 10**6)
    tried.told("bombs", 1000)
    assert [tried.in_vain("bombs", size) for size in (999, 1000, 5000)] == [False, True, True]
    assert not tried.in_vain("others", 5000)
    tried.told("bombs", 10)
    assert tried.in_vain("bombs", 999)
    now += TRIED_SECONDS
    assert not tried.in_vain("bombs", 5000)


def test_what_is_remembered_of_long_writes_is_bounded() -> None:
    tried = Tried()
    for number in range(2 * MOST_TRIED + 1):
        tried.told(number, 1)
    assert len(tried._known) <= MOST_TRIED

"""Objects and refusals of every kind, word for word as kube-apiserver 1.36 answered them (answers.json)."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS
from vcsync.apimachinery.kinds.core.service_claims import Network, allocate
from vcsync.apimachinery.schema.findings import DecodeError
from vcsync.apimachinery.strategy import Context, User

ANSWERS = json.loads((Path(__file__).parent / "answers.json").read_text("utf-8"))
CONTEXT = Context(
    "acme", User("admin", "admin", ("system:masters", "system:authenticated")), "2026-01-01T00:00:00Z"
)
NETWORK = Network("10.0.0.0/16")
KINDS = [f"{each['kind']}-{index}" for index, each in enumerate(ANSWERS)]


def made(answer: dict[str, Any], sent: dict[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """Bring an object through what a create does with it."""
    behaviour = BEHAVIOURS[answer["group"], answer["kind"]]
    found = {key: value for key, value in copy.deepcopy(sent).items() if key not in ("apiVersion", "kind")}
    if answer["namespace"]:
        found["metadata"]["namespace"] = answer["namespace"]
    behaviour.default(found)
    found["metadata"]["uid"] = "UID"
    behaviour.prepare_create(found, CONTEXT)
    if answer["kind"] == "Service":
        chosen = random.Random(7)
        allocation = allocate(found, None, NETWORK, chosen.randrange, dry_run=True)
        if allocation.findings:
            return found, list(allocation.findings)
    return found, behaviour.validate(found)


def without_chance(found: dict[str, Any]) -> dict[str, Any]:
    """Drop what no two servers answer alike."""
    found = copy.deepcopy(found)
    found["metadata"].pop("uid", None)
    (found.get("status") or {}).pop("lastPhaseTransitionTime", None)
    spec = found.get("spec") or {}
    if spec.get("clusterIPs") not in (None, ["None"]):
        del spec["clusterIP"], spec["clusterIPs"]
        for port in spec["ports"]:
            port.pop("nodePort", None)
    return found


def changed(found: Any, at: list[Any], to: Any) -> Any:
    found = copy.deepcopy(found)
    holder = found
    for key in at[:-1]:
        holder = holder[key]
    if to == "DEL":
        del holder[at[-1]]
    elif to == "EMPTY":
        holder[at[-1]] = []
    elif to == "DUP":
        holder[at[-1]] = [*holder[at[-1]], copy.deepcopy(holder[at[-1]][0])]
    else:
        holder[at[-1]] = to[0]
    return found


@pytest.mark.parametrize("answer", ANSWERS, ids=KINDS)
def test_a_good_object_is_filled_in_as_the_real_server_does(answer: dict[str, Any]) -> None:
    found, wrong = made(answer, answer["object"])
    assert wrong == []
    assert without_chance(found) == without_chance(answer["answer"])


@pytest.mark.parametrize("answer", ANSWERS, ids=KINDS)
def test_warnings_are_those_of_the_real_server(answer: dict[str, Any]) -> None:
    found, _ = made(answer, answer["object"])
    told = [each for each in answer["warnings"] if "deprecated in v1.33+; use discovery" not in each]
    assert sorted(BEHAVIOURS[answer["group"], answer["kind"]].warnings(found, None)) == sorted(told)


@pytest.mark.parametrize("answer", ANSWERS, ids=KINDS)
def test_bad_objects_are_refused_in_the_words_of_the_real_server(answer: dict[str, Any]) -> None:
    for case in answer["refused"]:
        _, wrong = made(answer, changed(answer["object"], case["at"], case["to"]))
        told = [[each.reason, each.field, each.body] for each in wrong]
        assert sorted(told) == sorted(case["causes"]), case["at"]


@pytest.mark.parametrize("answer", ANSWERS, ids=KINDS)
def test_an_object_that_is_written_again_unchanged_is_accepted(answer: dict[str, Any]) -> None:
    behaviour = BEHAVIOURS[answer["group"], answer["kind"]]
    old, _ = made(answer, answer["object"])
    new = copy.deepcopy(old)
    behaviour.default(new)
    behaviour.prepare_update(new, old, CONTEXT)
    assert new == old
    assert behaviour.validate_update(new, old) == []


def places(found: Any, at: tuple[Any, ...] = ()) -> Any:
    yield at
    if isinstance(found, dict):
        for key in found:
            yield from places(found[key], (*at, key))
    elif isinstance(found, list):
        for index in range(len(found)):
            yield from places(found[index], (*at, index))


@pytest.mark.parametrize("answer", ANSWERS, ids=KINDS)
def test_nothing_and_null_anywhere_breaks_no_rule(answer: dict[str, Any]) -> None:
    behaviour = BEHAVIOURS[answer["group"], answer["kind"]]
    old, _ = made(answer, answer["object"])
    spots = [at for at in places(answer["object"]) if at and at[0] not in ("apiVersion", "kind", "metadata")]
    for at in spots[::3]:
        held = answer["object"]
        for key in at:
            held = held[key]
        for value in (None, type(held)()):
            try:
                new, _ = made(answer, changed(answer["object"], list(at), [value]))
            except DecodeError:
                continue  # an empty text is no quantity: refused before any rule sees it
            behaviour.prepare_update(new, old, CONTEXT)
            behaviour.validate_update(new, old)
            behaviour.warnings(new, old)
            behaviour.fields(new)

"""Requests derived from the types: every field of every built-in kind, with valid and invalid values.

Each request takes a small valid object of the kind (`kinds.yaml`, `fields.yaml`) and changes one field. The values are
every member of an enumeration, numbers and texts within and beyond the limits, each wrong JSON type, and empty and
repeated lists and maps. One more request omits the field if the object has it. At the first place where a type occurs,
each of its fields gets all values; at every other place, one valid and one invalid value. The requests create the
object, update it and update its status. They are dry runs, so that they leave no objects. Deterministic.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml

from hack.parity import kinds
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.schema.node import Schema

FILE = Path(__file__).parent / "fields.yaml"
NAME = "parity-fields"
"""Name of the object that updates change."""
OTHER = "parity-other"
"""Name of objects that are only created in dry runs."""
LABEL_CHARACTERS = 48
"""Characters of a value that a step's label shows."""
LONG = "a" * 254

Step = dict[str, Any]
Wrap = Callable[[Any], Any]


@dataclass(frozen=True)
class Seed:
    """The object on which a resource's requests are based.

    Attributes:
        body: the object without its metadata.
        status: a valid status for a merge patch.
        name: of the object that updates change.
        other: the name in creations; empty: the object has no metadata.
        dry: whether creations are dry runs; reviews are not stored and need none.
        before: steps that create the objects to which this one refers.
    """

    body: dict[str, Any]
    status: dict[str, Any] = field(default_factory=dict)
    name: str = NAME
    other: str = OTHER
    dry: bool = True
    before: Sequence[Step] = ()


@dataclass(frozen=True)
class Change:
    """An object with one changed field: description, object, and whether the value should be valid."""

    label: str
    body: dict[str, Any]
    valid: bool


def scenarios() -> Iterator[dict[str, Any]]:
    """Yield a scenario for each built-in resource, in the form of the corpus files."""
    sweep = _Sweep()
    order = {plural: position for position, plural in enumerate(_data()["last"])}
    for each in sorted(builtin.resources(), key=lambda each: order.get(each.plural, -1)):
        seed = _seeds().get((each.api_version, each.plural))
        if seed is not None:
            name = f"{each.plural}.{each.api_version}".replace("/", "-").replace(".", "-")
            yield {"scenario": f"fields-{name}", "steps": list(_steps(each, seed, sweep))}


def _steps(resource: Resource, seed: Seed, sweep: "_Sweep") -> Iterator[Step]:
    at = f"/apis/{resource.group}" if resource.group else "/api"
    where = f"{at}/{resource.version}/{'namespaces/{ns}/' if resource.namespaced else ''}{resource.plural}"
    one = f"{where}/{seed.name}"
    schema = builtin.schema(resource.group, resource.version, resource.kind)
    if schema is None:
        raise LookupError(f"no schema of {resource.kind}")
    remove: list[Step] = [{"DELETE": f"{one}?gracePeriodSeconds=0", "may_fail": True}]
    if resource.plural in ("persistentvolumes", "volumeattributesclasses"):
        remove.append({"PATCH": one, "body": {"metadata": {"finalizers": None}}, "may_fail": True})
    if resource.plural == "namespaces":
        remove.append({"PUT": f"{one}/finalize", "body": {"metadata": {"name": seed.name}}, "may_fail": True})
    has_status = "status" in resource.subresources
    body = {**({"metadata": {"name": seed.other}} if seed.other else {}), **seed.body}
    changes = list(sweep.changes(schema, body, leave=("status",) if has_status else ()))
    yield from seed.before
    if "delete" in resource.verbs:
        yield from remove
    for each in changes:
        yield {
            "POST": f"{where}{'?dryRun=All' if seed.dry else ''}",
            "label": f"create {each.label}",
            "body": each.body,
        }
    if "patch" not in resource.verbs:
        return
    yield {"POST": where, "label": "made", "body": {**body, "metadata": {"name": seed.name}}}
    for each in changes:
        top = each.label.partition(".")[0].partition(" ")[0].partition("[")[0]
        if each.valid and top in schema.properties:
            patch = {top: each.body.get(top)}
            if top == "metadata":
                patch = {
                    top: {
                        key: value
                        for key, value in each.body[top].items()
                        if key != "name" or value != seed.other
                    }
                }
            yield {"PATCH": f"{one}?dryRun=All", "label": f"update {each.label}", "body": patch}
    if has_status:
        status = {"status": seed.status}
        leave = tuple(each for each in schema.properties if each != "status")
        for each in sweep.changes(schema, status, leave=leave):
            yield {"PATCH": f"{one}/status?dryRun=All", "label": f"status {each.label}", "body": each.body}
    yield from remove


class _Sweep:
    """Generates changes, and remembers the types whose values have all been generated at some place."""

    def __init__(self) -> None:
        self._done: set[str] = set()

    def changes(self, schema: Schema, base: dict[str, Any], leave: Sequence[str]) -> Iterator[Change]:
        """Yield the changes of an object and of everything below it, except the properties in `leave`."""
        return self._object(schema, base, lambda value: value, "", leave, whole=True)

    def _object(
        self,
        schema: Schema,
        base: dict[str, Any],
        wrap: Wrap,
        path: str,
        leave: Sequence[str],
        *,
        whole: bool,
    ) -> Iterator[Change]:
        for key, node in schema.properties.items():
            if key in leave:
                continue
            place = f"{path}.{key}" if path else key
            good, bad = values(schema.definition, key, node)
            chosen = [(each, True) for each in good] + [(each, False) for each in bad]
            if not whole:
                chosen = [*chosen[:1], *chosen[len(good) : len(good) + 1]]
            siblings = _siblings(schema.definition, key, base)
            for value, valid in chosen:
                yield Change(f"{place} = {_abridged(value)}", wrap({**siblings, key: value}), valid)
            if whole and key in base:
                rest = {each: value for each, value in base.items() if each != key}
                yield Change(f"{place} left out", wrap(rest), False)
            if whole:
                yield from self._below(node, siblings, key, wrap, place)

    def _below(
        self, node: Schema, base: dict[str, Any], key: str, wrap: Wrap, place: str
    ) -> Iterator[Change]:
        placed: Wrap
        present = base.get(key)
        if node.type == "array" and node.items is not None:
            target, start, rest = node.items, present[0] if present else None, present[1:] if present else []
            place, placed = f"{place}[]", partial(_in_list, rest)
        elif node.type == "map" and node.values is not None:
            target, start, place, placed = node.values, None, f"{place}[a]", _in_map
        else:
            target, start, placed = node, present, _itself

        def within(value: Any) -> Any:
            return wrap({**base, key: placed(value)})

        if target.type != "object" or not target.properties:
            return
        whole = target.definition not in self._done
        self._done.add(target.definition)
        yield from self._object(target, start or smallest(target), within, place, (), whole=whole)


def _in_list(rest: list[Any], value: Any) -> Any:
    return [value, *rest]


def _in_map(value: Any) -> Any:
    return {"a": value}


def _itself(value: Any) -> Any:
    return value


def _siblings(definition: str, key: str, base: dict[str, Any]) -> dict[str, Any]:
    """Return the other properties of an object, without other members of the property's union."""
    union = _data()["unions"].get(_short(definition), ())
    return {
        each: value for each, value in base.items() if each == key or key not in union or each not in union
    }


def smallest(schema: Schema) -> Any:
    """Return the smallest valid value of a type: the one in `fields.yaml`, else one with only the required fields."""
    listed = _data()["types"].get(_short(schema.definition))
    if listed is not None:
        return listed
    return {
        key: values(schema.definition, key, node)[0][0]
        for key, node in schema.properties.items()
        if key in schema.required
    }


def values(definition: str, key: str, node: Schema) -> tuple[list[Any], list[Any]]:
    """Return the values to try for a property: (valid ones, invalid or doubtful ones)."""
    short = _short(definition)
    extra = _data()["values"]
    own = extra.get(f"{short}.{key}", extra.get(f".{key}", []))
    enumerated = _enumerated(definition, key)
    good, bad = _palette(node, enumerated)
    if own:
        bad = [*good[:1], *bad] if not enumerated else bad
        good = [*own, *(good if enumerated else [])]
    return _unique(good), _unique([each for each in bad if each not in good])


def _palette(node: Schema, enumerated: Sequence[str] = ()) -> tuple[list[Any], list[Any]]:
    if enumerated:
        return _several(node, [*enumerated], ["Other", ""], 7)
    kind = f"{node.type}/{node.format}" if node.type == "string" and node.format else node.type
    known = _data()["palette"].get(kind)
    if known is not None:
        return [*known["good"]], [LONG if each == "LONG" else each for each in known["bad"]]
    if node.type == "object":
        return [smallest(node)], [{}, "x"]
    if node.type == "array" and node.items is not None:
        good, bad = _palette(node.items)
        return [[good[0]]], [[], [good[0], good[0]], *([each] for each in bad), {}]
    if node.type == "map" and node.values is not None:
        good, bad = _palette(node.values)
        return [{"a": good[0]}], [{}, {"Not a key!": good[0]}, *({"a": each} for each in bad), []]
    raise LookupError(f"no values for {kind}")


def _several(node: Schema, good: list[Any], bad: list[Any], wrong: Any) -> tuple[list[Any], list[Any]]:
    """Wrap values of elements in a list or a map."""
    if node.type == "array":
        return [[each] for each in good], [[], [good[0], good[0]], *([each] for each in bad), [wrong], {}]
    if node.type == "map":
        return [{"a": each} for each in good], [{}, *({"a": each} for each in bad), []]
    return good, [*bad, wrong]


@cache
def _go_types(definition: str) -> dict[str, str]:
    return {each[0]: each[1] for each in builtin.data()["go"].get(definition, ())}


def _enumerated(definition: str, key: str) -> list[str]:
    name = _go_types(definition).get(key, "").lstrip("*[]").rpartition("]")[2].lstrip("*")
    return _data()["enums"].get(_short(name)) or _published_enums().get(name, [])


@cache
def _published_enums() -> dict[str, list[str]]:
    return {name: [each[0] for each in members] for name, members in builtin.descriptions().enums.items()}


def _short(definition: str) -> str:
    """Return the last three parts of a type's public name: `core.v1.Pod`."""
    return ".".join(definition.split(".")[-3:])


def _abridged(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"))
    return text if len(text) <= LABEL_CHARACTERS else f"{text[:LABEL_CHARACTERS]}...{len(text)}"


def _unique(found: Sequence[Any]) -> list[Any]:
    return list({json.dumps(each): each for each in found}.values())


@cache
def _data() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load(FILE.read_text(), Loader=yaml.CSafeLoader)
    return loaded


@cache
def _seeds() -> dict[tuple[str, str], Seed]:
    """Return the seed of each apiVersion and plural."""
    found = {}
    for each in [*yaml.load(kinds.FILE.read_text(), Loader=yaml.CSafeLoader), *_data()["objects"]]:
        api_version = each["at"].removeprefix("/apis/").removeprefix("/api/")
        more = _data()["seeds"].get(f"{each['plural']}.{api_version}", {})
        seed = Seed(body=each["object"], status=each.get("status", {}))
        if "name" in each:
            seed = Seed(each["object"], each.get("status", {}), each["name"], each["name"])
        found[api_version, each["plural"]] = Seed(**{**seed.__dict__, **more})
    return found

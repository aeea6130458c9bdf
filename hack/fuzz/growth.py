"""Inputs that grow: every field of every kind, at two sizes, in each way in which it can become long. Pure.

A text repeats a unit and perhaps ends in what does not fit, a list or map has many members, equal or not, and a free-form
value is nested.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any
from urllib.parse import quote

from hack.fuzz.aware import corpus_bodies
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema.builtin import resources, schema
from vcsync.apimachinery.schema.node import Schema

FACTOR = 4
"""The larger size divided by the smaller one."""
TEXT_SIZE, COUNT, DEPTH = 4_000, 250, 20
"""The smaller sizes: characters, members, levels."""
MAX_PATH = 14
"""Most steps of the path of a field: schemas contain themselves."""
UNITS = (
    "0", "9", "a", "A", "ms", "1.", "1:", "a.", "a-", "a/", "a=", "a,", "a:", "['", "['a']", ".a", "(", ")", "[", "{", " ", "\t", "\n", ",", "%41",
    "\\", "'", '"', "é", "a b", "--", "a@", "*/", "0 ", "=a,", "a in (b),", "://", "..", "$(A)", "$$", "x\x00", "&", "<", "T", "+", "1e", "0x", "Z",
)  # fmt: skip
ENDS = ("", "!", "0")
HEADS = ("", "a")
QUERIES = (
    "labelSelector", "fieldSelector", "continue", "resourceVersion", "timeout", "fieldManager", "limit", "dryRun", "pretty", "timeoutSeconds", "a",
)  # fmt: skip
HEADERS = (
    "Accept",
    "Accept-Encoding",
    "If-None-Match",
    "User-Agent",
    "Impersonate-User",
    "Content-Type",
    "Range",
    "Cookie",
)
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CONTENT = {"Content-Type": "application/json", "Accept": "application/json"}

Value = Callable[[int], Any]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A place in objects of a kind.

    Attributes:
        path: Its path.
        schema: Its schema.
        origin: The named type that declares it, and its path within that type. Fields of one origin have the same rules.
    """

    path: Path
    schema: Schema
    origin: str


@dataclass(frozen=True, slots=True)
class Growth:
    """An input that grows.

    Attributes:
        name: What grows, and how.
        size: The smaller size.
        request: Makes method, target, headers and body of a size.
    """

    name: str
    size: int
    request: Callable[[int], tuple[str, str, Mapping[str, str], bytes | None]]


def fields(of: Schema, path: Path = (), origin: str = "") -> Iterator[Field]:
    """Return all fields of a schema; a type within itself is entered once."""
    yield Field(path, of, origin)
    if len(path) >= MAX_PATH:
        return
    within = of.definition or origin
    for key, each in of.properties.items():
        if path.count(key) < 2:
            yield from fields(each, (*path, key), f"{within}.{key}")
    if of.items is not None:
        yield from fields(of.items, (*path, 0), f"{within}[]")
    if of.values is not None:
        yield from fields(of.values, (*path, "k"), f"{within}{{}}")


def minimal(of: Schema, number: int = 0) -> Any:
    """Return a small value of a schema, in which texts differ by `number`."""
    match of.type:
        case "object" | "map":
            keys = [key for key in of.properties if key in of.required or key in ("name", "key")]
            return {key: minimal(of.properties[key], number) for key in keys}
        case "array":
            return []
        case "integer" | "number" | "int-or-string":
            return number + 1
        case "boolean":
            return True
        case "quantity":
            return "1"
        case "any":
            return {"a": number}
        case _:
            return of.enum[0] if of.enum else f"a{number}"


def ways(of: Schema) -> Iterator[tuple[str, int, Value]]:
    """Return the ways in which a value can grow: the name of each, the smaller size, and the value of a size."""
    match of.type:
        case "array" if of.items is not None:
            items = of.items
            yield "equal members", COUNT, lambda size: [minimal(items)] * size
            yield "different members", COUNT, lambda size: [minimal(items, n) for n in range(size)]
        case "map" | "object" if of.values is not None:
            inner = of.values
            yield "keys", COUNT, lambda size: {f"k{n}": minimal(inner, n) for n in range(size)}
        case "object" | "boolean":
            yield "unknown fields", COUNT, lambda size: {f"unknown{n}": n for n in range(size)}
        case "any":
            yield "keys", COUNT, lambda size: {f"k{n}": {"a": n} for n in range(size)}
            yield "levels", DEPTH, lambda size: json.loads('{"a":' * size + "1" + "}" * size)
            yield "members", COUNT, lambda size: {"a": [{"name": f"n{n}"} for n in range(size)]}
        case "integer" | "number":
            yield "digits", DEPTH, lambda size: int("9" * size)
        case _:
            yield from texts()


def texts() -> Iterator[tuple[str, int, Value]]:
    """Return the ways in which a text can grow."""
    for head, unit, end in product(HEADS, UNITS, ENDS):
        yield f"{head!r} + {unit!r} * n + {end!r}", TEXT_SIZE, text_of(head, unit, end)


def text_of(head: str, unit: str, end: str) -> Value:
    return lambda size: head + unit * (size // len(unit)) + end


def placed(base: Any, path: Path, value: Any) -> Any:
    """Return a copy of an object with a value at a path, whose steps are made where they are absent."""
    if not path:
        return {**base, **value} if isinstance(base, dict) and isinstance(value, dict) else value
    step, *rest = path
    if isinstance(step, int):
        items = list(base) if isinstance(base, list) and base else [{}]
        return [placed(items[0], tuple(rest), value), *items[1:]]
    found = dict(base) if isinstance(base, dict) else {}
    return found | {step: placed(found.get(step), tuple(rest), value)}


def collection(resource: Resource) -> str:
    """Return the path of a resource's collection."""
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return (
        f"{base}/namespaces/default/{resource.plural}" if resource.namespaced else f"{base}/{resource.plural}"
    )


@cache
def bases() -> tuple[tuple[Resource, tuple[Field, ...], Any], ...]:
    """Return each resource whose objects can be created, with its fields and an object of the parity corpus, or a small one."""
    made = []
    for resource in resources():
        found = schema(resource.group, resource.version, resource.kind)
        if "create" not in resource.verbs or found is None:
            continue
        bodies = corpus_bodies().get((resource.group, resource.plural), ())
        base = next((each for each in bodies if isinstance(each, dict)), minimal(found))
        version = f"{resource.group}/{resource.version}" if resource.group else resource.version
        metadata = {**(base.get("metadata") or {}), "name": "grown"}
        metadata.pop("namespace", None)
        base = {**base, "apiVersion": version, "kind": resource.kind, "metadata": metadata}
        places = tuple(each for each in fields(found) if each.path not in ((), ("apiVersion",), ("kind",)))
        made.append((resource, places, base))
    return tuple(made)


def of_kinds() -> Iterator[Growth]:
    """Return the growths of the fields of built-in kinds, one field of each origin."""
    seen = set()
    for resource, places, base in bases():
        for field in places:
            if field.origin in seen:
                continue
            seen.add(field.origin)
            where = ".".join(map(str, field.path))
            for name, size, value in ways(field.schema):
                yield Growth(
                    f"{resource.plural}: {where}: {name}",
                    size,
                    created(collection(resource), base, field.path, value),
                )


def created(
    place: str, base: Any, path: Path, value: Value
) -> Callable[[int], tuple[str, str, Mapping[str, str], bytes]]:
    def request(size: int) -> tuple[str, str, Mapping[str, str], bytes]:
        body = json.dumps(placed(base, path, value(size))).encode("utf-8", "surrogatepass")
        return "POST", f"{place}?dryRun=All", CONTENT, body

    return request


def of_requests() -> Iterator[Growth]:
    """Return the growths of queries, headers and paths."""
    for name, whole, value in texts():
        size = whole // 2
        yield Growth(f"name: {name}", size, _named(value))
        for key in HEADERS:
            yield Growth(f"header {key}: {name}", size, _headed(key, value))
        for key in QUERIES:
            yield Growth(f"query {key}: {name}", size, _asked(key, value))


def _asked(key: str, value: Value) -> Callable[[int], tuple[str, str, Mapping[str, str], None]]:
    return lambda size: ("GET", f"{CONFIG_MAPS}?{key}={quote(value(size), safe='')}", CONTENT, None)


def _named(value: Value) -> Callable[[int], tuple[str, str, Mapping[str, str], None]]:
    return lambda size: ("GET", f"{CONFIG_MAPS}/{quote(value(size), safe='')}", CONTENT, None)


def _headed(key: str, value: Value) -> Callable[[int], tuple[str, str, Mapping[str, str], None]]:
    def request(size: int) -> tuple[str, str, Mapping[str, str], None]:
        return (
            "GET",
            CONFIG_MAPS,
            {**CONTENT, key: "".join(each for each in value(size) if " " <= each <= "~")},
            None,
        )

    return request

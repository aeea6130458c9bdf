"""Random values for a schema: valid ones, boundaries, wrong types. Deterministic for the state of `Random`."""

from random import Random
from typing import Any

from vcsync.apimachinery.schema.node import Schema

NAMES = ("a", "b", "web", "x.y", "default", "kube-system")
ODD_NAMES = (
    "", "-", ".", "..", "A", "a_b", "a/b", "a%2fb", "%00", "a%", "\x00", "\x1f\x7f", "ä", "😀" * 9, "\u202e\u2028", "\ufeff",
    "a" * 63, "a" * 64, "a" * 253, "a" * 254, "a" * 5000, "1", "true", "null", "~", "system:x", "a:b", "a b", "'\"\\", "{{x}}", "$(x)",
    "__proto__", "metadata", "a.", ".a", "a..b", "xn--a", "*",
)  # fmt: skip
TEXTS = (
    "", "a", "1", "0", "-1", "8080", "100%", "101%", "1Ki", "1e400", "1e-400", "0.1m", "1E", "9" * 400, "Always", "TCP", "ClusterIP",
    "10.0.0.1", "::1", "::ffff:1.2.3.4", "10.0.0.0/8", "300.1.1.1", "fe80::1%eth0", "2026-01-01T00:00:00Z", "0000-00-00T00:00:00Z",
    "9999-12-31T23:59:60.999999999+23:59", "* * * * *", "@every 1s", "*/0 * * * *", "TZ=UTC * * * * *", "aGk=", "a=", "(((", "(a+)+$", "[",
    "v1", "apps/v1", "a/b/c", "kubernetes.io/x", "/", "http://[::1", "https://example.com", "\x00", "\ud7ff", "\u2028", "é" * 300, "x" * 40000,
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 3, 80, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1,
    2**64, 10**30, 0.5, -0.0, 1e308, 5e-324, 1.0,
)  # fmt: skip
MAX_DEPTH = 12
KEYS = ("a", "b", "app", "kubernetes.io/hostname", "cpu", "memory", "a/b", "limits.cpu", "nvidia.com/gpu")


def name(random: Random) -> str:
    """Return a name, usually from a small set, so that requests concern objects of earlier requests."""
    return random.choice(ODD_NAMES) if random.random() < 0.06 else random.choice(NAMES)


def anything(random: Random, depth: int = 0) -> Any:
    """Return a JSON value of any type."""
    kind = random.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return None
    if kind == 1:
        return random.random() < 0.5
    if kind in (2, 3):
        return random.choice(NUMBERS)
    if kind in (4, 5):
        return random.choice(TEXTS + ODD_NAMES)
    if kind == 6:
        return [anything(random, depth + 1) for _ in range(random.randrange(4))]
    return {random.choice(KEYS + ODD_NAMES): anything(random, depth + 1) for _ in range(random.randrange(4))}


def of(schema: Schema, random: Random, wild: float, depth: int = 0) -> Any:
    """Return a value for a schema.

    Args:
        schema: of the value.
        random: source of the choices.
        wild: probability that a node of the value is wrong; 0 to 1.
        depth: of the value in the whole object.
    """
    if random.random() < wild:
        return anything(random)
    match schema.type:
        case "object":
            return _object(schema, random, wild, depth)
        case "map":
            if depth > MAX_DEPTH or schema.values is None:
                return {}
            return {
                random.choice(KEYS): of(schema.values, random, wild, depth + 1)
                for _ in range(random.randrange(3))
            }
        case "array":
            if depth > MAX_DEPTH or schema.items is None:
                return []
            return [of(schema.items, random, wild, depth + 1) for _ in range(random.choice((0, 1, 1, 2, 3)))]
        case "string":
            return _text(schema, random)
        case "integer":
            return int(random.choice(NUMBERS)) if random.random() < 0.2 else random.choice((0, 1, 2, 80))
        case "number":
            return random.choice(NUMBERS)
        case "boolean":
            return random.random() < 0.5
        case "int-or-string":
            return random.choice((1, 80, "80", "http", "50%", -1))
        case "quantity":
            return random.choice((1, "1", "100m", "1Gi", "0", "-1", "1e3", "9" * 30))
        case _:
            return anything(random, 2)


def _text(schema: Schema, random: Random) -> str:
    if schema.enum and random.random() < 0.9:
        return str(random.choice(schema.enum))
    if schema.format in ("date-time", "micro-time") and random.random() < 0.8:
        return "2026-01-01T00:00:00Z"
    return str(random.choice(TEXTS) if random.random() < 0.2 else random.choice(NAMES))


def _object(schema: Schema, random: Random, wild: float, depth: int) -> Any:
    if schema.definition.endswith("ObjectMeta"):
        return metadata(random, wild)
    likely = 0.5 if depth < 3 else 0.25 if depth < 7 else 0.0
    made = {
        key: of(each, random, wild, depth + 1)
        for key, each in schema.properties.items()
        if key in schema.required or (depth <= MAX_DEPTH and random.random() < likely)
    }
    if random.random() < wild:
        made[random.choice(KEYS + ODD_NAMES)] = anything(random)
    return made


def metadata(random: Random, wild: float) -> Any:
    """Return the metadata of an object, from small sets of values, so that objects refer to each other."""
    made: dict[str, Any] = {"name": name(random)}
    if random.random() < 0.1:
        made.pop("name")
        made["generateName"] = random.choice(("g-", "g" * 300, "G", ""))
    if random.random() < 0.3:
        made["labels"] = {random.choice(KEYS): random.choice(("a", "b", "")) for _ in range(2)}
    if random.random() < 0.2:
        made["annotations"] = {random.choice(KEYS): random.choice(TEXTS)}
    if random.random() < 0.05:
        made["finalizers"] = [random.choice(("a/b", "foregroundDeletion", "orphan", "kubernetes", "x"))]
    if random.random() < 0.1:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": random.choice(TEXTS)}
        made["ownerReferences"] = [owner] * random.choice((1, 2, 50))
    if random.random() < 0.1:
        made["resourceVersion"] = random.choice(("0", "1", "", "x", "-1", "9" * 25))
    if random.random() < 0.05:
        made["uid"] = random.choice(TEXTS)
    if random.random() < 0.05:
        made["managedFields"] = [
            {"manager": "a", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
             "fieldsV1": random.choice(({}, {"f:a": {}}, {"k:{": {}}, {"v:x": 1}, anything(random)))},
        ]  # fmt: skip
    if random.random() < wild:
        made[random.choice(("name", "namespace", "labels", "deletionTimestamp", "generation", "x"))] = (
            anything(random)
        )
    return made


def mutated(value: Any, random: Random, changes: int = 1) -> Any:
    """Return a copy with some nodes changed, added, doubled or removed."""
    copy = _copied(value)
    for _ in range(changes):
        copy = _changed(copy, random)
    return copy


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def _changed(value: Any, random: Random) -> Any:
    if random.random() < 0.2 or not isinstance(value, (dict, list)) or not value:
        return anything(random)
    if isinstance(value, list):
        at = random.randrange(len(value))
        match random.randrange(6):
            case 0:
                del value[at]
            case 1:
                value += [value[at]] * random.choice((1, 2, 100))
            case _:
                value[at] = _changed(value[at], random)
        return value
    key = random.choice(list(value))
    match random.randrange(8):
        case 0:
            del value[key]
        case 1:
            value[random.choice(KEYS + ODD_NAMES)] = _copied(value[key])
        case _:
            value[key] = _changed(value[key], random)
    return value

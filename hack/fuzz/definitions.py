"""Random CustomResourceDefinitions with schemas, patterns and rules, and their objects."""

from random import Random
from typing import Any

from hack.fuzz import values

GROUP = "fuzz.example.com"
PLURALS = ("alphas", "betas", "gammas")
FIELDS = ("a", "b", "c", "spec", "status")
RULES = (
    "self.a == self.b", "true", "self", "self.", "has(self.a)", "self.a.matches('(a+)+$')", "oldSelf.a == self.a", "size(self) < 3",
    "self.all(x, self.all(y, self.all(z, x == y)))", "[1,2,3].map(x, x / 0).size() > 0", "1/0 == 1", "self.a[99999999999] == 1",
    "'a'.repeat(9)", "duration('1s') < duration('x')", "quantity('1x').isGreaterThan(quantity('1'))", "url('::').getHost() == ''", "\x00",
    "(" * 300 + ")" * 300, "!" * 500 + "true", "self.a + " * 200 + "1", "ip('1.2.3.4').family() == 4", "self.a.b.c.d", "type(self) == int",
    "9223372036854775807 + 1 > 0", "-9223372036854775808 / -1 > 0", "optional.of(1).hasValue()", "self.?a.orValue(1) == 1", "x" * 30000,
    "self.exists_one(x, x == 'a')", "format.dns1123Label().value().validate('a').hasValue()", "'%s'.format([self]) == ''", "{}.a", "",
)  # fmt: skip
PATTERNS = (
    "^a$",
    "(a+)+$",
    "(a|a)*$",
    "[",
    "(?=a)",
    "\\p{L}",
    "(?i)a",
    "a{1,1001}",
    "((a{1,100}){1,100}){1,100}",
    "\\Z",
    "\\1",
    "(?P<a>b)",
    "^" * 999,
    "",
)
JSON_PATHS = (
    ".spec",
    ".spec.a",
    ".metadata.name",
    "..",
    ".a[",
    ".a[?(@.b=='c')]",
    "a",
    "",
    ".a.b[*].c",
    ".a['b']",
    "{.a}",
)


def definition(random: Random) -> Any:
    """Return a definition, usually one that becomes established."""
    plural = random.choice(PLURALS)
    versions = [_version(random, "v1", True)]
    if random.random() < 0.3:
        versions.append(_version(random, random.choice(("v2", "v1beta1", "v1", "X")), random.random() < 0.1))
    spec: dict[str, Any] = {
        "group": GROUP,
        "scope": random.choice(("Namespaced", "Namespaced", "Namespaced", "Cluster")),
        "names": {"plural": plural, "kind": plural.title()[:-1], "singular": plural[:-1]},
        "versions": versions,
    }
    if random.random() < 0.1:
        spec["names"]["shortNames"] = random.choice((["al"], ["po"], ["A"], [""] * 50))
    if random.random() < 0.05:
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/x"}}
        spec["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    if random.random() < 0.05:
        spec["preserveUnknownFields"] = random.random() < 0.5
    made = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": spec,
    }
    return values.mutated(made, random) if random.random() < 0.2 else made


def _version(random: Random, name: str, storage: bool) -> dict[str, Any]:
    schema = {"type": "object", "properties": {each: node(random, 0) for each in random.sample(FIELDS, 3)}}
    made: dict[str, Any] = {
        "name": name, "served": random.random() < 0.95, "storage": storage, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    if random.random() < 0.3:
        scale = {
            "specReplicasPath": ".spec.a",
            "statusReplicasPath": random.choice((".status.a", ".spec", "x")),
        }
        made["subresources"] = random.choice(({"status": {}}, {"status": {}, "scale": scale}))
    if random.random() < 0.3:
        column = {
            "name": "A",
            "type": random.choice(("string", "date", "integer", "x")),
            "jsonPath": random.choice(JSON_PATHS),
        }
        made["additionalPrinterColumns"] = [column] * random.choice((1, 2))
    if random.random() < 0.1:
        made["selectableFields"] = [{"jsonPath": random.choice(JSON_PATHS)}]
    return made


def node(random: Random, depth: int) -> dict[str, Any]:
    """Return a schema, usually a structural one."""
    kind = random.choice(("string", "integer", "number", "boolean", "object", "object", "array", "any"))
    if depth > random.choice((2, 3, 6)) and kind in ("object", "array"):
        kind = "string"
    made: dict[str, Any] = {} if kind == "any" else {"type": kind}
    match kind:
        case "any":
            made[random.choice(("x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"))] = True
        case "object":
            if random.random() < 0.3:
                made["additionalProperties"] = random.choice((True, node(random, depth + 1)))
            else:
                made["properties"] = {each: node(random, depth + 1) for each in random.sample(FIELDS, 2)}
                if random.random() < 0.2:
                    made["required"] = random.choice((["a"], ["x"]))
        case "array":
            made["items"] = node(random, depth + 1)
            if random.random() < 0.3:
                made["x-kubernetes-list-type"] = random.choice(("atomic", "set", "map"))
                made["x-kubernetes-list-map-keys"] = ["a"]
        case "string":
            if random.random() < 0.4:
                made["pattern"] = random.choice(PATTERNS)
            if random.random() < 0.3:
                made["format"] = random.choice(
                    ("date-time", "uuid", "ipv4", "byte", "email", "duration", "x", "cidr", "date")
                )
        case _:
            if random.random() < 0.3:
                made[random.choice(("minimum", "maximum", "multipleOf"))] = random.choice(values.NUMBERS)
    if random.random() < 0.2:
        rule = {"rule": random.choice(RULES)}
        if random.random() < 0.3:
            rule[
                random.choice(("message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"))
            ] = random.choice(RULES)
        made["x-kubernetes-validations"] = [rule] * random.choice((1, 1, 5))
    if random.random() < 0.15:
        made["default"] = values.anything(random)
    if random.random() < 0.05:
        made["nullable"] = True
    if random.random() < 0.04:
        key = random.choice(
            ("allOf", "not", "enum", "$ref", "uniqueItems", "maxLength", "x-kubernetes-embedded-resource")
        )
        made[key] = random.choice(([{"pattern": "a"}], {}, True, 3, "#/a"))
    return made


def instance(random: Random, plural: str) -> dict[str, Any]:
    """Return an object of a definition."""
    made: dict[str, Any] = {
        "apiVersion": f"{GROUP}/v1",
        "kind": plural.title()[:-1],
        "metadata": values.metadata(random, 0.05),
    }
    for each in random.sample(FIELDS, 3):
        made[each] = values.anything(random)
    return made

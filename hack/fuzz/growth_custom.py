"""Inputs that grow in custom resources, their definitions, and expressions of CEL. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from hack.fuzz.growth import COUNT, DEPTH, Growth, Path, Value, created, texts

GROUP, PLURAL, KIND = "grown.example.com", "growns", "Grown"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PLACE = f"/apis/{GROUP}/v1/{PLURAL}"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
EXPRESSIONS: Mapping[str, tuple[str, str, str]] = {
    "sums": ("1", " + 1", " > 0"),
    "texts": ("'a'", " + 'a'", " != ''"),
    "conditions": ("true", " && true", ""),
    "choices": ("true", " ? true : false", ""),
    "parentheses": ("(", "(", ""),
    "negations": ("", "!", "true"),
    "lists": ("", "[", ""),
    "members": ("object", ".a", " == 1"),
    "indexes": ("object", "['a']", " == 1"),
    "macros": ("", "[1].all(x, ", "true"),
    "long text": ("'", "a", "' != ''"),
    "escapes": ("'", "\\u0041", "' != ''"),
    "pattern": ("'a'.matches('", "(a|b)", "')"),
    "list of numbers": ("1 in [1", ", 1", "]"),
    "spaces": ("true", " ", ""),
    "comments": ("true //", "a", ""),
    "variables": ("variables.a", " == variables.a", ""),
}
"""Expressions of CEL, as beginning, what is repeated, and end."""

FORMATS = (
    "bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5", "isbn", "isbn10", "isbn13",
    "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date", "duration", "datetime", "date-time", "k8s-short-name", "k8s-long-name",
)  # fmt: skip
FUNCTIONS = (
    "isQuantity(self)", "isURL(self)", "isIP(self)", "isCIDR(self)", "isSemver(self)", "isSemver(self, true)", "self.matches('^(a|aa)+$')",
    "self.find('[0-9]+') == 'x'", "self.findAll('[0-9]+').size() == 0", "self.split(',').size() == 1", "self.replace('a', 'aa') == ''",
    "self.lowerAscii() == ''", "self.upperAscii() == ''", "self.trim() == ''", "self.indexOf('!!') == 0", "self.lastIndexOf('!!') == 0",
    "self.substring(1) == ''", "self.contains('!!')", "self + self == ''", "size(self) == 1", "self == 'a'", "duration(self) < duration('1s')",
    "timestamp(self) < timestamp('2026-01-01T00:00:00Z')", "int(self) > 0", "double(self) > 0.0", "'%s'.format([self]) == ''", "bytes(self) == b''",
    "format.dns1123Subdomain().value().validate(self).hasValue()", "format.qualifiedName().value().validate(self).hasValue()",
    "format.uri().value().validate(self).hasValue()", "format.byte().value().validate(self).hasValue()", "format.date().value().validate(self).hasValue()",
    "format.uuid().value().validate(self).hasValue()", "format.labelValue().value().validate(self).hasValue()",
    "format.datetime().value().validate(self).hasValue()", "self.reverse() == ''", "strings.quote(self) == ''",
)  # fmt: skip
LISTS: Mapping[str, Mapping[str, Any]] = {
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "keyed": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    },
    "atomic": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string", "default": "a"}}}},
    "ruled": {
        "type": "array", "maxItems": 5_000, "items": {"type": "string", "maxLength": 100},
        "x-kubernetes-validations": [{"rule": "self.all(a, a != 'b')"}, {"rule": "self.map(a, a).size() >= 0"}, {"rule": "!('x' in self)"}],
    },
    "sorted": {
        "type": "array", "maxItems": 5_000, "items": {"type": "string", "maxLength": 100},
        "x-kubernetes-validations": [{"rule": "self.isSorted() || self.indexOf('x') == -1"}],
    },
}  # fmt: skip


MEMBERS: Mapping[str, Value] = {
    **{key: lambda size: [f"n{n}" for n in range(size)] for key in ("set", "ruled", "sorted")},
    **{key: lambda size: [{"name": f"n{n}"} for n in range(size)] for key in ("keyed", "atomic")},
    "map": lambda size: {f"k{n}": "v" for n in range(size)},
    "free": lambda size: {f"k{n}": {"a": [n]} for n in range(size)},
}
RULE: Path = (
    "spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec", "properties", "a", "x-kubernetes-validations", 0, "rule",
)  # fmt: skip
"""Path of the rule in `definition`."""
POLICY: Mapping[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "grown"},
    "spec": {
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]},
        "variables": [{"name": "a", "expression": "1"}],
        "validations": [{"expression": "true"}],
    },
}  # fmt: skip
EXPRESSION: Path = ("spec", "validations", 0, "expression")


def functions() -> Mapping[str, str]:
    """Return the field of each function of CEL."""
    return {f"f{number}": rule for number, rule in enumerate(FUNCTIONS)}


def definition(ruled: Mapping[str, str]) -> dict[str, Any]:
    """Return the definition of the resource whose fields grow.

    Args:
        ruled: Rules about texts, by the names of their fields; rules that the server refuses are left out.
    """
    text = {"type": "string"}
    long = {"type": "string", "maxLength": 20_000}
    properties: dict[str, Any] = {
        **{each.replace("-", ""): {**text, "format": each} for each in FORMATS},
        **{key: {**long, "x-kubernetes-validations": [{"rule": rule}]} for key, rule in ruled.items()},
        **LISTS,
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "map": {"type": "object", "additionalProperties": text},
        "either": {"x-kubernetes-int-or-string": True},
        "pattern": {**text, "pattern": "^(a|b|ab)*c$"},
        "only": {**text, "enum": ["a", "b"]},
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": PLURAL, "singular": "grown", "kind": KIND, "listKind": f"{KIND}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]},
    }  # fmt: skip


def of_objects(ruled: Mapping[str, str]) -> Iterator[Growth]:
    """Return the growths of the fields of custom resources; `ruled` as in `definition`."""
    base = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": "grown"}, "spec": {}}
    for key, value in MEMBERS.items():
        yield Growth(f"custom: {key}: members", COUNT, created(PLACE, base, ("spec", key), value))
    for key in (*(each.replace("-", "") for each in FORMATS), *ruled, "pattern", "only", "either"):
        for name, size, value in texts():
            what = f"custom: {key} {ruled.get(key, '')}: {name}"
            yield Growth(what, size, created(PLACE, base, ("spec", key), value))


def of_expressions() -> Iterator[Growth]:
    """Return the growths of expressions, in a rule of a definition and in a policy."""
    for name, (begin, again, end) in EXPRESSIONS.items():
        text = _repeated(begin, again, end)
        yield Growth(f"rule: {name}", DEPTH, created(DEFINITIONS, definition({"a": "true"}), RULE, text))
        yield Growth(f"policy: {name}", DEPTH, created(POLICIES, POLICY, EXPRESSION, text))


def _repeated(begin: str, again: str, end: str) -> Value:
    return lambda size: begin + again * size + end

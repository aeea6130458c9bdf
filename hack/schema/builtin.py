"""Make the data files of the built-in kinds' schemas from the published JSON schemas of Kubernetes.

The schemas come from the development dependency `kubernetes-validate`; vcsync itself needs only the generated files.
"""

import gzip
import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from vcsync.apimachinery.schema.builtin import resources

RELEASE = "v1.36.0"
FACTS = Path(__file__).resolve().parent / "gotypes.json"
"""Written by `python -m hack.schema.gotypes`."""
PUBLISHED = Path(__file__).resolve().parent / "published.json"
"""Written by `python -m hack.schema.published`."""
REFERENCE = "#/$defs/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
GROUP_VERSION_KIND = "x-kubernetes-group-version-kind"
UNIONS = "x-kubernetes-unions"
SHARED = (f"{META}Patch", "io.k8s.apimachinery.pkg.version.Info")
"""Types that are not kinds but are part of OpenAPI documents."""

SPECIAL: dict[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"t": "quantity"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"t": "int-or-string"},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"t": "any", "u": 1},
    f"{META}FieldsV1": {"t": "any", "u": 1},
    f"{META}Time": {"t": "string", "f": "date-time"},
    f"{META}MicroTime": {"t": "string", "f": "micro-time"},
}
"""Types whose JSON form differs from their Go fields. `t`: type, `f`: format, `u`: unknown fields are preserved."""

_PLAIN = {
    "format": "f",
    "x-kubernetes-list-type": "l",
    "x-kubernetes-list-map-keys": "k",
    "x-kubernetes-patch-strategy": "s",
    "x-kubernetes-patch-merge-key": "g",
    "default": "d",
    "required": "r",
}


def data_files() -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of every data file of vcsync/apimachinery/schema; deterministic."""
    published = _published()
    kinds = _kinds(published)
    names = _reachable(published, kinds)
    facts = json.loads(FACTS.read_text(encoding="utf-8"))
    definitions = {name: _definition(name, published[name], facts) for name in names}
    go = {name: _go_fields(name, facts) for name in names if "p" in definitions[name]}
    aliases = {name: fact["alias"] for name, fact in facts.items() if "alias" in fact}
    yield (
        "builtin.json.gz",
        _packed({"kinds": kinds, "definitions": definitions, "go": go, "aliases": aliases}),
    )
    texts = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    described = {
        name: _descriptions(published[name], texts["types"].get(name, ""), _blank(name, facts))
        for name in names
    }
    enums = {name: _enum(fact["values"]) for name, fact in facts.items() if "values" in fact}
    yield "openapi.json.gz", _packed({"definitions": described, "enums": enums})
    yield "parameters.json.gz", _packed(texts["parameters"])


def definition_names() -> list[str]:
    """Return the public names of the built-in kinds and of all types that they contain."""
    published = _published()
    return _reachable(published, _kinds(published))


def _published() -> dict[str, Any]:
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"{RELEASE}-local"
    loaded: dict[str, Any] = json.loads((folder / "_definitions.json").read_text(encoding="utf-8"))["$defs"]
    return loaded


def _kinds(published: dict[str, Any]) -> dict[str, str]:
    """Return `group/version/kind` of the served kinds -> definition; `*/*/kind` for kinds of every version."""
    served = {(each.group, each.version) for each in resources()}
    kinds = {}
    for name, definition in published.items():
        for each in definition.get(GROUP_VERSION_KIND, ()):
            if name.startswith(META):
                kinds[f"*/*/{each['kind']}"] = name
            elif (each["group"], each["version"]) in served:
                kinds[f"{each['group']}/{each['version']}/{each['kind']}"] = name
    return dict(sorted(kinds.items()))


def _reachable(published: dict[str, Any], kinds: dict[str, str]) -> list[str]:
    found: set[str] = set()
    waiting = set(kinds.values())
    waiting.update(SHARED)
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= set(_references(published[name])) - found
    return sorted(found)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rpartition("/")[2]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _definition(name: str, published: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    if name in SPECIAL:
        return SPECIAL[name]
    node = _node(published)
    for field, _ in _fields(name, facts):
        if "default" in field and field["name"] in node["p"]:
            node["p"][field["name"]]["d"] = json.loads(field["default"])
    return node


def _go_fields(name: str, facts: dict[str, Any]) -> list[list[str]]:
    """Return [name, type, options of the json tag, embedded structs above it] of each field of a Go struct, in order."""
    fields = []
    for field, through in _fields(name, facts):
        options = field.get("options", "")
        short = ("e" if "omitempty" in options else "") + ("z" if "omitzero" in options else "")
        fields.append([field["name"], field["type"], short, through])
    return fields


def _fields(name: str, facts: dict[str, Any], through: str = "") -> Iterator[tuple[dict[str, Any], str]]:
    for field in facts.get(name, {}).get("fields", ()):
        if field["name"]:
            yield field, through
        elif field["type"].lstrip("*") in facts:
            embedded = field["type"].lstrip("*")
            yield from _fields(embedded, facts, f"{through}{embedded.rpartition('.')[2]}.")


def _node(published: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the short names that vcsync/apimachinery/schema/builtin.py reads."""
    node: dict[str, Any] = {short: published[key] for key, short in _PLAIN.items() if key in published}
    if "x-kubernetes-map-type" in published:
        node["a"] = int(published["x-kubernetes-map-type"] == "atomic")
    if published.get("x-kubernetes-int-or-string"):
        return {**node, "t": "int-or-string"}
    if "$ref" in published:
        return {**node, "$": published["$ref"].rpartition("/")[2]}
    kind = _type(published)
    if "properties" in published:
        node["p"] = {key: _node(value) for key, value in sorted(published["properties"].items())}
    values = published.get("additionalProperties")
    if isinstance(values, dict):
        node["v"] = _node(values)
        kind = "object" if "p" in node else "map"
    if "items" in published:
        node["i"] = _node(published["items"])
    if kind == "object" and "p" not in node:
        kind = "any"
    node["t"] = kind
    if kind == "any":
        node["u"] = 1
    return node


def _type(published: dict[str, Any]) -> str:
    kind = published.get("type", "any")
    if isinstance(kind, list):
        kind = next(each for each in kind if each != "null")
    return str(kind)


def _descriptions(published: dict[str, Any], description: str, blank: frozenset[str]) -> list[Any]:
    """Return the parts of a definition that only OpenAPI documents need.

    Args:
        published: the JSON schema.
        description: of the definition, if the JSON schema has none.
        blank: the properties whose description ends with an empty line.

    Returns:
        Its description, those of its properties by name, and its extensions.
    """
    texts = {
        key: value["description"] + ("\n" if key in blank else "")
        for key, value in sorted(published.get("properties", {}).items())
        if "description" in value
    }
    extensions = {key: published[key] for key in (GROUP_VERSION_KIND, UNIONS) if key in published}
    return [published.get("description", description), texts, extensions]


def _blank(name: str, facts: dict[str, Any]) -> frozenset[str]:
    """Return the enumeration fields for which a generator writes an empty line between the comment and the values."""
    return frozenset(
        field["name"]
        for field, _ in _fields(name, facts)
        if field.get("blank") and "values" in facts.get(field["type"].removeprefix("*"), {})
    )


def _enum(values: list[dict[str, str]]) -> list[list[str]]:
    """Return an enumeration's [value, comment of its constant] pairs (kube-openapi's generators/enum.go)."""
    comments: dict[str, tuple[str, str]] = {}
    for each in values:
        comment = " ".join(each.get("comment", "").splitlines())
        longest, _ = comments.get(each["value"], ("", ""))
        if len(comment) > len(longest) or each["value"] not in comments:
            comments[each["value"]] = (comment, each["name"])
    return [
        [value, " ".join(comment.strip().removeprefix(name).split())]
        for value, (comment, name) in sorted(comments.items())
    ]


def _packed(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return gzip.compress(text.encode(), 9, mtime=0)

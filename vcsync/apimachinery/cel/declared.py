"""The types of CEL variables, derived from structural schemas: fields, and bounds of sizes. Pure.

Source: `SchemaDeclType` of k8s.io/apiserver `pkg/cel/common`.
"""

from dataclasses import dataclass, field

from vcsync.apimachinery.structural.schema import Structural
from vcsync.patterns.linear import linear

LARGEST_REQUEST = 3 * 1024 * 1024
RESERVED = frozenset(
    ("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
     "let", "loop", "package", "namespace", "return", "var", "void", "while")
)  # fmt: skip
_STRANGE = linear(r"[^a-zA-Z0-9_./-]")
_ESCAPED = linear(r"__|[-./]")
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_TIMES = {"duration": ("duration", 3, 32), "date": ("timestamp", 12, 12), "date-time": ("timestamp", 21, 32)}
_SCALARS = {"boolean": ("bool", 4), "number": ("double", 1), "integer": ("int", 1)}


@dataclass(slots=True)
class Declared:
    """A type.

    Attributes:
        kind: `object`, `map`, `list`, `string`, `bytes`, `int`, `double`, `bool`, `timestamp`, `duration`, `dyn`.
        smallest: size of the smallest value as JSON, in bytes.
        largest: most elements, or most bytes of a string.
        fields: of an object: name in expressions -> (name, type). A reserved word has its escaped name, too.
        element: the type of elements of a list or map.
        title: the name of an object in messages.
        list_type: of a list: `x-kubernetes-list-type`, which decides how two lists are compared.
    """

    kind: str
    smallest: int = 0
    largest: int = 0
    fields: dict[str, tuple[str, "Declared"]] = field(default_factory=dict)
    element: "Declared | None" = None
    list_type: str = ""
    map_keys: tuple[str, ...] = ()
    title: str = ""
    plain: bool = True


def escape(name: str) -> str | None:
    """Return a field's name as expressions write it, or None if they cannot."""
    if not name or name[0].isdigit() or _STRANGE.search(name):
        return None
    if name in RESERVED:
        return f"__{name}__"
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


def spellings(name: str) -> tuple[str, ...]:
    """Return the names by which expressions know a field, the escaped one first. Empty: they cannot name it.

    Since Kubernetes 1.31 (`SetRecognizeKeywordAsFieldName`), a field whose name is a reserved word has both.
    """
    escaped = escape(name)
    if escaped is None:
        return ()
    return (escaped, name) if name in RESERVED else (escaped,)


def _string(node: Structural) -> Declared:
    raw = node.raw
    format_ = raw.get("format") or ""
    longest = raw.get("maxLength")
    if format_ in _TIMES:
        kind, smallest, largest = _TIMES[format_]
        return Declared(kind, smallest, largest, plain=False)
    if format_ == "byte":
        return Declared("bytes", 2, LARGEST_REQUEST - 2 if longest is None else max(longest, 0), plain=False)
    if longest is not None:
        return Declared("string", 2, max(longest, 0) * 4)
    if raw.get("enum"):
        sizes = [len(each.encode("utf-8", "replace")) for each in raw["enum"] if isinstance(each, str)]
        return Declared("string", 2, max(sizes, default=0))
    return Declared("string", 2, LARGEST_REQUEST - 2)


def _array(node: Structural) -> Declared | None:
    element = declare(node.items, whole=node.items.embedded) if node.items is not None else None
    if element is None:
        return None
    most = node.raw.get("maxItems")
    largest = (LARGEST_REQUEST - 2) // (element.smallest + 1) if most is None else max(most, 0)
    plain = element.plain and element.kind != "object" and not node.list_type
    return Declared(
        "list", 2, largest, element=element, list_type=node.list_type, map_keys=node.map_keys, plain=plain
    )


def _object(node: Structural, *, whole: bool) -> Declared | None:
    if node.additional is not None and not whole:
        element = declare(node.additional, whole=node.additional.embedded)
        if element is None:
            return None
        most = node.raw.get("maxProperties")
        largest = (LARGEST_REQUEST - 2) // (element.smallest + 6) if most is None else max(most, 0)
        return Declared("map", 2, largest, element=element, plain=element.plain and element.kind != "object")
    found = Declared("object", 2, plain=False)
    needed = set(node.raw.get("required") or ())
    for name, below in node.properties.items():
        type_ = declare(below, whole=below.embedded)
        if type_ is None:
            continue
        for spelling in spellings(name):
            found.fields[spelling] = (name, type_)
        if name in needed and below.default is None:
            found.smallest += len(name.encode("utf-8", "replace")) + type_.smallest + 4
    if whole:
        text = Declared("string", 2, LARGEST_REQUEST - 2)
        metadata = Declared("object", 2, plain=False)
        metadata.fields = {"name": ("name", text), "generateName": ("generateName", text)}
        found.fields |= {
            "apiVersion": ("apiVersion", text),
            "kind": ("kind", text),
            "metadata": ("metadata", metadata),
        }
    return found


def declare(node: Structural, *, whole: bool) -> Declared | None:
    """Return the type of a schema, or None if expressions do not see it.

    Args:
        node: the schema.
        whole: whether it is the schema of whole objects, which always have apiVersion, kind and metadata.
    """
    if node.int_or_string:
        longest = node.raw.get("maxLength")
        return Declared("dyn", 1, LARGEST_REQUEST - 2 if longest is None else max(longest, 0) * 4)
    kind = "object" if whole else node.type
    if kind == "array":
        return _array(node)
    if kind == "object":
        return _object(node, whole=whole)
    if kind == "string":
        return _string(node)
    if kind in _SCALARS:
        scalar, smallest = _SCALARS[kind]
        return Declared(scalar, smallest, plain=scalar != "double")
    return None

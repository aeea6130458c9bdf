"""Decodes request bodies to objects, with the error messages of kube-apiserver. Pure.

The behaviour is that of apimachinery's serializers and apiserver's `transformDecodeError`. The caller limits the size.
"""

import contextlib
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from vcsync.apimachinery import numbers, tenant_marks
from vcsync.apimachinery.errors import StatusError, bad_request
from vcsync.apimachinery.gotext import json_type
from vcsync.apimachinery.schema import builtin, sent_empty, walk
from vcsync.apimachinery.schema.findings import DecodeError
from vcsync.apimachinery.wire import gojson, goyaml, protobuf, types
from vcsync.apimachinery.wire.negotiation import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Format, body_format

Object = dict[str, Any]

SHOWN = 30
"""Bytes of a body that a message quotes."""
SCHEME = "pkg/runtime/scheme.go:111"
"""Name of the scheme of kube-apiserver."""
HEADER_TYPE = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
"""Name, in messages, of the Go type into which kind and apiVersion are decoded."""
UNREADABLE = (gojson.NotJSON, goyaml.NotYAML, protobuf.ProtobufError)


class Decoded(NamedTuple):
    """A decoded body.

    Attributes:
        object: The object, with kind, apiVersion and metadata first.
        group: Group of the object.
        version: Version of the object.
        kind: Kind of the object.
        findings: Texts for Warning headers, in the order of the body.
    """

    object: Object
    group: str
    version: str
    kind: str
    findings: tuple[str, ...] = ()


class Expected(NamedTuple):
    """The type that a body must have.

    Attributes:
        group: Its group.
        version: Its version.
        kind: Its kind.
        custom: Whether it is a custom resource, whose fields only its schema knows.
        also: Further apiVersions that the path accepts, in which the kind has the same form.
        refused: Further apiVersions that Kubernetes knows for the kind, and that the path does not accept.
    """

    group: str
    version: str
    kind: str
    custom: bool = False
    also: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class _Body(NamedTuple):
    """A parsed body.

    Attributes:
        value: The JSON value.
        duplicates: Findings of the JSON parser.
        yaml_duplicates: Findings of the YAML parser.
        written: Whether it has numbers that keep their text; see `numbers.Written`.
    """

    value: Any
    duplicates: list[str]
    yaml_duplicates: list[str]
    written: bool = False


class _Undecodable(Exception):
    """A body cannot be decoded. `claimed` has the group, version and kind in the body, as far as they are known."""

    def __init__(self, message: str, claimed: tuple[str, str, str] = ("", "", "")) -> None:
        super().__init__(message)
        self.claimed = claimed


def read(body: bytes, form: Format, expected: Expected, *, validation: str = "Warn") -> Decoded:
    """Decode the body of a create or an update.

    Objects of built-in kinds lose unknown fields, and get the zero values of Go's types. Custom resources stay unchanged:
    only repeated keys are found, and the version is not checked.

    Args:
        body: The body as sent.
        form: Its format; see `negotiation.body_format`.
        expected: Type that the body must have. It also replaces absent kind and apiVersion.
        validation: `Strict` refuses unknown and repeated fields, `Warn` reports them, `Ignore` skips the search.

    Raises:
        StatusError: 400.
    """
    try:
        found = _read(body, form, expected, look=validation != "Ignore" and form != "protobuf")
    except _Undecodable as error:
        raise _refusal(str(error), error.claimed, expected.kind, body) from None
    if found.findings and validation == "Strict":
        raise strict_error(found.kind, found.version, expected.kind, found.findings)
    warned = tuple(each.removeprefix(_YAML_ERRORS).strip() for each in found.findings)
    return found._replace(findings=tuple(line.strip() for each in warned for line in each.split("\n")))


def strict_error(kind: str, version: str, expected_kind: str, findings: tuple[str, ...]) -> StatusError:
    """Return the 400 for a body with unknown or repeated fields (`fieldValidation=Strict`)."""
    return refusal(kind, version, expected_kind, f"strict decoding error: {', '.join(findings)}")


def read_options(body: bytes, content_type: str, kind: str = "DeleteOptions") -> Object:
    """Decode the options in the body of a DELETE. Without a body they are empty.

    Their apiVersion may be any: typed clients send the group and version of the resource.

    Raises:
        StatusError: 400, 415.
    """
    if not body:
        return {}
    try:
        expected = Expected(types.META_GROUP, "v1", kind)
        form = body_format(content_type)
        return _read(body, form, expected, look=False, find=types.find_options).object
    except _Undecodable as error:
        raise bad_request(str(error)) from None


def read_patch(body: bytes, patch_type: str) -> tuple[Any, tuple[str, ...]]:
    """Decode a patch.

    Returns:
        The patch, and a finding for each key that occurs twice in it.

    Raises:
        StatusError: 400.
    """
    if patch_type == APPLY_PATCH:
        try:
            return _read_apply(body)
        except goyaml.NotYAML as error:
            raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    try:
        parsed = _parse(body, "json", look=True)
    except UNREADABLE as error:
        prefix = "error decoding patch: " if patch_type in (JSON_PATCH, MERGE_PATCH) else ""
        raise bad_request(f"{prefix}{error}") from None
    return parsed.value, tuple(parsed.duplicates)


def keeps_numbers(patch: bytes, patch_type: str) -> bool:
    """Return whether a valid patch has numbers whose texts Go's typed decoder reads: with a fraction or an exponent."""
    return patch_type in (JSON_PATCH, MERGE_PATCH) and gojson.loads_written(patch)[1]


def _read_apply(body: bytes) -> tuple[Any, tuple[str, ...]]:
    """Decode YAML. JSON, which kubectl sends, is decoded as JSON, because that is faster."""
    if body[:1] == b"{":
        with contextlib.suppress(gojson.NotJSON):
            value = gojson.loads(body)
            if not gojson.duplicates(body, value):
                return value, ()
    document = goyaml.loads(body)
    return document.value, tuple(document.duplicates)


def conform(group: str, version: str, kind: str, obj: Object) -> tuple[Object, tuple[str, ...]]:
    """Fit an object that is not from a body, but from a patch, for example, to its built-in type.

    Returns:
        A new object, and a finding for each unknown field (`unknown field "spec.x"`).

    Raises:
        StatusError: 400 if a value does not fit.
    """
    try:
        fitted, findings = typed(group, version, kind, obj)
    except DecodeError as error:
        raise refusal(kind, version, kind, str(error)) from None
    return fitted, tuple(findings)


def typed(group: str, version: str, kind: str, obj: Object) -> tuple[Object, list[str]]:
    """Return an object in the form of Go's types, and a finding for each unknown field.

    Objects of versions that are not served stay unchanged, because no request accepts them.

    Raises:
        DecodeError: A value does not fit.
    """
    schema = builtin.schema(group, version, kind)
    if schema is None:
        return obj, []
    fitted, unknown = walk.decode(obj, schema, complete=True)
    sent_empty.keep(obj, fitted, schema.definition)
    return fitted, [f'unknown field "{path}"' for path in unknown if path != f"metadata.{tenant_marks.FIELD}"]


def _read(
    body: bytes, form: Format, expected: Expected, *, look: bool, find: types.Find = types.find
) -> Decoded:
    find = _with_others(find, expected)
    try:
        parsed = _parse(body, form, look=look, expected=expected, find=find)
    except gojson.NoFloat as error:
        # Go reads the kind of a body before its numbers.
        raise _Undecodable(str(error), _identity(gojson.loads_written(body)[0], expected)) from None
    except UNREADABLE as error:
        claimed = error.claimed if isinstance(error, protobuf.ProtobufError) else ("", "", "")
        prefix = "couldn't get version/kind; json parse error: " if isinstance(error, gojson.NotJSON) else ""
        raise _Undecodable(f"{prefix}{error}", claimed) from None
    group, version, kind = claimed = _identity(parsed.value, expected)
    if not version and not expected.custom:
        raise _Undecodable(f"Object 'apiVersion' is missing in '{body.decode('utf-8', 'replace')}'", claimed)
    obj: Object = parsed.value or {}
    strict = yaml_errors(parsed.yaml_duplicates)
    if expected.custom:
        if not obj.get("kind"):
            raise _Undecodable(f"Object 'Kind' is missing in '{body.decode('utf-8', 'replace')}'")
        findings = [*strict, *parsed.duplicates]
        group, _, version = (obj.get("apiVersion") or "").rpartition("/")
    else:
        fitted, unknown = _fit(obj, claimed, expected, find)
        findings = [*strict, *(_in_order(body, parsed.duplicates, unknown) if look else ())]
        obj = _settled(fitted, claimed) if parsed.written else fitted
        if _api_version(group, version) in expected.also:
            group, version = expected.group, expected.version
    api_version = _api_version(group, version)
    metadata = {"metadata": obj["metadata"]} if "metadata" in obj else {}
    return Decoded(
        {"kind": kind, "apiVersion": api_version} | metadata | _rest(obj),
        group,
        version,
        kind,
        tuple(findings),
    )


def yaml_errors(repeated: Sequence[str]) -> list[str]:
    """Return the finding about keys of a YAML body that occur twice, or nothing."""
    return [_YAML_ERRORS + "\n  ".join(repeated)] if repeated else []


def _settled(obj: Object, claimed: tuple[str, str, str]) -> Object:
    """Return an object whose numbers in free-form parts are as Go encodes them."""
    try:
        settled: Object = numbers.settled(obj)
    except numbers.OutOfRange as error:
        raise _Undecodable(str(gojson.no_float(error)), claimed) from None
    return settled


_YAML_ERRORS = "yaml: unmarshal errors:\n  "


def _rest(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


def _with_others(find: types.Find, expected: Expected) -> types.Find:
    """Return a scheme that knows the expected kind in all its apiVersions."""
    others = expected.also + expected.refused
    if not others:
        return find

    def found(group: str, version: str, kind: str) -> types.Message | None:
        if kind == expected.kind and _api_version(group, version) in others:
            return find(expected.group, expected.version, kind)
        return find(group, version, kind)

    return found


def _api_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def _parse(
    body: bytes,
    form: Format,
    *,
    look: bool,
    expected: Expected | None = None,
    find: types.Find = types.find,
) -> _Body:
    if form == "protobuf":
        default = expected or Expected("", "", "")
        decoded = protobuf.decode(body, default.group, default.version, default.kind, find=find)
        return _Body(decoded, [], [])
    if form == "yaml":
        document = goyaml.loads(body)
        return _Body(document.value, [], document.duplicates if look else [])
    typed_numbers = expected is not None and not expected.custom
    value, written = gojson.loads_written(body) if typed_numbers else (gojson.loads(body), False)
    repeated = gojson.duplicates(body, value) if look else []
    return _Body(value, [f'duplicate field "{path}"' for path in repeated], [], written)


def _identity(value: Any, expected: Expected) -> tuple[str, str, str]:
    """Return group, version and kind of a body. Absent ones are those of the expected type."""
    if value is None:
        return expected.group, expected.version, expected.kind
    if not isinstance(value, dict):
        raise _Undecodable(_bad_header(f"{json_type(value)} into Go value of type {HEADER_TYPE}"))
    for key, each in value.items():
        if key in ("apiVersion", "kind") and not isinstance(each, str | None):
            raise _Undecodable(_bad_header(f"{json_type(each)} into Go struct field .{key} of type string"))
    api_version = value.get("apiVersion") or ""
    if api_version.count("/") > 1:
        raise _Undecodable(f"unexpected GroupVersion string: {api_version}")
    group, _, version = api_version.rpartition("/")
    kind = value.get("kind") or expected.kind
    if not version:
        version = expected.version if group in ("", expected.group) else ""
        group = group or expected.group
    return group, version, kind


def _bad_header(mismatch: str) -> str:
    return f"couldn't get version/kind; json parse error: json: cannot unmarshal {mismatch}"


def no_object(body: bytes) -> str:
    """Return Go's error about JSON without kind and version because it is not an object; empty: it is an object."""
    try:
        value = gojson.loads(body)
    except gojson.NotJSON as error:
        return f"couldn't get version/kind; json parse error: {error}"
    return (
        ""
        if isinstance(value, dict)
        else _bad_header(f"{json_type(value)} into Go value of type {HEADER_TYPE}")
    )


def _fit(
    obj: Object, claimed: tuple[str, str, str], expected: Expected, find: types.Find
) -> tuple[Object, list[str]]:
    group, version, kind = claimed
    known = find(group, version, kind)
    wanted = find(expected.group, expected.version, expected.kind)
    if known is None or wanted is None:
        raise _Undecodable(_not_registered(kind, _api_version(group, version)), claimed)
    if known is wanted:
        group, version, kind = expected.group, expected.version, expected.kind
    try:
        fitted, findings = typed(group, version, kind, obj)
    except DecodeError as error:
        raise _Undecodable(str(error), claimed) from None
    if known.name != wanted.name:
        if kind == expected.kind and (group == expected.group or kind == "Event"):
            raise other_version(group, version, expected)
        raise _Undecodable(_unknown_conversion(known, expected), claimed)
    if _api_version(*claimed[:2]) in expected.refused:
        raise other_version(*claimed[:2], expected)
    return fitted, findings


def other_kind(obj: Object, expected: Expected, versions: Container[str]) -> str:
    """Return why an object cannot have the expected type; empty if it can, or if it lacks kind or apiVersion.

    Args:
        obj: The object.
        expected: The expected type.
        versions: All apiVersions in which objects of the expected kind may have been stored.
    """
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not (isinstance(api_version, str) and api_version and isinstance(kind, str) and kind):
        return ""
    if api_version.count("/") > 1:
        return f"unexpected GroupVersion string: {api_version}"
    group, _, version = api_version.rpartition("/")
    found = types.find(group, version, kind)
    if kind == expected.kind and (api_version in versions or found is not None):
        return ""
    if found is None:
        return _not_registered(kind, api_version)
    return _unknown_conversion(found, expected)


def _not_registered(kind: str, api_version: str) -> str:
    return f'no kind "{kind}" is registered for version "{api_version}" in scheme "{SCHEME}"'


def _unknown_conversion(found: types.Message, expected: Expected) -> str:
    """Return Go's error about two types without a conversion. Options have no internal type."""
    package = expected.group.partition(".")[0] or "core"
    if expected.group == types.META_GROUP:
        package = expected.version
    return f"converting ({found.name.rpartition('/')[2]}) to ({package}.{expected.kind}): unknown conversion"


def other_version(group: str, version: str, expected: Expected) -> StatusError:
    """Return the 400 for a body whose version differs from that of the path."""
    sent, wanted = _api_version(group, version), _api_version(expected.group, expected.version)
    return bad_request(
        f"the API version in the data ({sent}) does not match the expected API version ({wanted})"
    )


def _in_order(body: bytes, duplicates: list[str], unknown: list[str]) -> list[str]:
    """Return findings in the order of the body. The order is looked up only if both types of findings exist."""
    if not duplicates or not unknown:
        return [*duplicates, *unknown]
    found = {*duplicates, *unknown}
    places: dict[str, int] = {}
    for at, (path, repeated) in enumerate(gojson.key_order(body)):
        text = f'{"duplicate" if repeated else "unknown"} field "{path}"'
        if text in found:
            places.setdefault(text, at)
    return sorted((*duplicates, *unknown), key=lambda each: places.get(each, 0))[: gojson.MOST_FINDINGS]


def refusal(kind: str, version: str, expected_kind: str, why: str) -> StatusError:
    """Return the 400 for a body that does not fit its type. `kind` and `version` are those in the body."""
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {expected_kind}: {why}')


def _refusal(message: str, claimed: tuple[str, str, str], expected_kind: str, body: bytes) -> StatusError:
    _, version, kind = claimed
    if kind:
        return refusal(kind, version, expected_kind, message)
    return bad_request(
        f"the object provided is unrecognized (must be of type {expected_kind}): {message} ({_summary(body)})"
    )


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    quoted = body[:SHOWN].decode("utf-8", "replace") if body[:1] == b"{" else body[:SHOWN].hex()
    return quoted + (" ..." if len(body) > SHOWN else "")

"""Validation of values against schemas of custom resources, with the messages of kube-openapi and apiextensions. Pure.

Follows kube-openapi's `pkg/validation/validate` (order, counting of matches for `anyOf` and `oneOf`) and
apiextensions' `apiserver/validation` (how findings become field errors, ratcheting of unchanged values).
"""

import struct
from collections.abc import Mapping
from typing import Any

from vcsync.apimachinery import gotext
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.message_size import extended
from vcsync.apimachinery.structural import formats, patterns
from vcsync.apimachinery.structural.choices import choices_of
from vcsync.apimachinery.structural.correlate import Correlated
from vcsync.apimachinery.structural.findings import Problem, Result, field_errors

_Expected = tuple[tuple[str, ...], str]
"""(types that a value may have, its format)."""


def validate(
    path: str, value: Any, schema: Mapping[str, Any], correlated: Correlated | None = None
) -> list[FieldError]:
    """Return the findings on a value.

    Args:
        value: JSON data.
        path: the path of the value, which prefixes those of the findings.
        schema: the openAPIV3Schema as written.
        correlated: the value with its old value. Findings on unchanged values are omitted.
    """
    result = _value(schema, value, "", correlated, ratchet=True)
    return field_errors(path, result)


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _format(schema: Mapping[str, Any], types: tuple[str, ...]) -> str:
    written = schema.get("format") or ""
    return written if written and formats.recognized(types[0] if len(types) == 1 else "", written) else ""


def _value(
    schema: Mapping[str, Any], value: Any, path: str, correlated: Correlated | None, *, ratchet: bool
) -> Result:
    result = Result()
    types = _types(schema)
    written = _format(schema, types)
    if value is None:
        _type(result, schema, value, path, (types, written))
        _enum(result, schema, value, path)
        return _ratcheted(result, correlated if ratchet else None)
    if types or written:
        _type(result, schema, value, path, (types, written))
        result.matches += 1
    _junctors(result, schema, value, path, correlated)
    if isinstance(value, str):
        _string(result, schema, value, path)
        if written in formats.FORMATS or written.replace("-", "") in formats.FORMATS:
            _string_format(result, value, path, written)
    elif gotext.is_number(value):
        _number(result, schema, value, path, (types, written))
    elif isinstance(value, list):
        _array(result, schema, value, path, correlated)
    _enum(result, schema, value, path)
    if isinstance(value, dict):
        _object(result, schema, value, path, correlated)
    result.matches += 3
    return _ratcheted(result, correlated if ratchet else None)


def _ratcheted(result: Result, correlated: Correlated | None) -> Result:
    """Omit the findings on an unchanged value."""
    if correlated is not None and not result.valid and correlated.unchanged():
        return Result(matches=result.matches)
    return result


def _json_type(value: Any) -> tuple[str, str]:
    if isinstance(value, bool):
        return "boolean", ""
    if isinstance(value, str):
        return "string", ""
    if gotext.is_integer(value):
        return "integer", "int64"
    if isinstance(value, int | float):
        return "number", "float64"
    return ("array", "") if isinstance(value, list) else ("object", "")


def _type(result: Result, schema: Mapping[str, Any], value: Any, path: str, expected: _Expected) -> None:
    types, written = expected
    if value is None:
        if types and not schema.get("nullable"):
            result.add(_misfit(path, ",".join(types), "null"))
        else:
            result.matches += 1
        return
    actual, width = _json_type(value)
    whole = actual == "number" and "integer" in types and gotext.whole(value)
    widened = actual == "integer" and "number" in types
    textual = isinstance(value, str | list)
    if not textual and written and not (actual in types or width == written or whole or widened):
        result.add(_misfit(path, written, width))
        return
    if not {"number", "integer"} & set(types) and written and textual:
        result.matches += 1
        return
    if actual in types or whole or widened:
        result.matches += 1
    else:
        result.add(_misfit(path, ",".join(types), actual))


def _misfit(path: str, expected: str, actual: str) -> Problem:
    return Problem(
        "type", path, actual, f"{path} in body must be of type {expected}: {gotext.quoted(actual)}"
    )


def _enum(result: Result, schema: Mapping[str, Any], value: Any, path: str) -> None:
    written = schema.get("enum")
    if not written:
        return
    choices = choices_of(written)
    if value not in choices:
        told = f"{path} in body should be one of {choices.shown}"
        result.add(Problem("enum", path, value, told, choices=choices.supported))


def _string(result: Result, schema: Mapping[str, Any], value: str, path: str) -> None:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if longest is not None and len(value) > longest:
        told = f"{path} in body should be at most {longest} chars long"
        result.add(Problem("long", path, value, told, limit=longest))
    elif shortest is not None and len(value) < shortest:
        result.add(Problem("", path, value, f"{path} in body should be at least {shortest} chars long"))
    elif pattern:
        try:
            found = patterns.compiled(pattern).found_in(value)
        except patterns.InvalidPattern as why:
            found, pattern = False, f"{pattern}, but pattern is invalid: {why}"
        except patterns.TooMuchWork as why:
            found, pattern = False, f"{pattern}, but is too long: {why}"
        if not found:
            result.add(Problem("", path, value, f"{path} in body should match '{pattern}'"))


def _string_format(result: Result, value: str, path: str, written: str) -> None:
    if not formats.FORMATS[written.replace("-", "")](value):
        told = f"{path} in body must be of type {written}: {gotext.quoted(value)}"
        result.add(Problem("type", path, value, told))


_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (gotext.INT64_MIN, gotext.INT64_MAX)}


def _number(result: Result, schema: Mapping[str, Any], value: float, path: str, expected: _Expected) -> None:
    types, written = expected
    type_ = types[0] if len(types) == 1 and types[0] in ("integer", "number") else ""
    result.add(_beyond(value, type_, written, "Checked", path))
    factor, most, least = schema.get("multipleOf"), schema.get("maximum"), schema.get("minimum")
    if factor is not None:
        result.add(_beyond(factor, type_, written, "MultipleOf", path))
        _multiple(result, value, factor, path)
    if least is not None:
        result.add(_beyond(least, type_, written, "Minimum boundary", path))
    for limit, exclusive, sign, words in (
        (least, schema.get("exclusiveMinimum"), -1, "greater"),
        (most, schema.get("exclusiveMaximum"), 1, "less"),
    ):
        if limit is None:
            continue
        bound = int(limit) if gotext.is_integer(value) else gotext.as_float(limit)
        difference = sign * (value - bound)
        if difference > 0 or (exclusive and difference == 0):
            than = "than" if exclusive else "than or equal to"
            told = f"{path} in body should be {words} {than} {gotext.number(bound)}"
            result.add(Problem("", path, value, told))
    if most is not None:
        result.add(_beyond(most, type_, written, "Maximum boundary", path))
    result.matches += 1


def _multiple(result: Result, value: float, factor: float, path: str) -> None:
    if gotext.is_integer(value):
        whole = int(factor)
        if whole <= 0:
            told = f"factor MultipleOf declared for {path} must be positive: {whole}"
            result.add(Problem("", path, whole, told))
            return
        fits, shown = value % whole == 0, gotext.number(whole)
    else:
        real = gotext.as_float(factor)
        if real <= 0:
            told = f"factor MultipleOf declared for {path} must be positive: {gotext.number(factor)}"
            result.add(Problem("", path, factor, told))
            return
        quotient = (1 / real * value) if real < 1 else gotext.as_float(value) / real
        fits, shown = gotext.whole(quotient), gotext.number(real)
    if not fits:
        result.add(Problem("", path, value, f"{path} in body should be a multiple of {shown}"))


def _beyond(value: float, type_: str, written: str, what: str, path: str) -> Problem | None:
    if type_ == "integer":
        low, high = _RANGES.get(written, _RANGES["int64"])
        real = gotext.as_float(value)
        inside = (
            gotext.is_integer(value) and low <= value <= high
            if isinstance(value, int)
            else real.is_integer() and low <= real < high
        )
    elif written == "float":
        try:
            struct.pack("f", value)
            inside = True
        except OverflowError:
            inside = False
    else:
        inside = True
    if inside:
        return None
    told = f"of type {type_} with format {written}" if written else f"of type {type_} (default format)"
    return Problem("composite", path, "", f"{what} value must be {told} in {path}")


def _array(
    result: Result, schema: Mapping[str, Any], value: list[Any], path: str, correlated: Correlated | None
) -> None:
    items = schema.get("items")
    if isinstance(items, Mapping):
        for at, each in enumerate(value):
            own = correlated.item(at) if correlated is not None else None
            result.merge(_value(items, each, extended(path, f"[{at}]"), own, ratchet=True))
    least, most = schema.get("minItems"), schema.get("maxItems")
    size = len(value)
    if least is not None and size < least:
        result.add(Problem("", path, size, f"{path} in body should have at least {least} items"))
    if most is not None and size > most:
        result.add(
            Problem("many", path, size, f"{path} in body should have at most {most} items", limit=most)
        )
    if schema.get("uniqueItems") and any(value[at] in value[:at] for at in range(min(size, 1000))):
        result.add(Problem("", path, "", f"{path} in body shouldn't contain duplicates"))
    result.matches += 1


def _object(
    result: Result,
    schema: Mapping[str, Any],
    value: dict[str, Any],
    path: str,
    correlated: Correlated | None,
) -> None:
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    size = len(value)
    if least is not None and size < least:
        result.add(Problem("", path, size, f"{path} in body should have at least {least} properties"))
    if most is not None and size > most:
        told = f"{path} in body should have at most {most} properties"
        result.add(Problem("many", path, size, told, limit=most))
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    for name, each in value.items():
        if name in properties or additional is None or additional is True:
            continue
        if additional is False:
            result.add(
                Problem("", path, name, f"{extended(path, f'.{name}')} in body is a forbidden property")
            )
        else:
            own = correlated.field(name) if correlated is not None else None
            result.merge(_value(additional, each, extended(path, f".{name}"), own, ratchet=True))
    for name, below in properties.items():
        if name in value:
            own = correlated.field(name) if correlated is not None else None
            if not path and name in ("kind", "apiVersion"):
                own = None
            where = extended(path, f".{name}" if path else name)
            result.merge(_value(below, value[name], where, own, ratchet=True))
    for name in schema.get("required") or ():
        if name not in value:
            where = extended(path, f".{name}")
            result.add(Problem("required", where, None, f"{where} in body is required"))


def _junctors(
    result: Result, schema: Mapping[str, Any], value: Any, path: str, correlated: Correlated | None
) -> None:
    """Check anyOf, oneOf, allOf and not. If alternatives fail, the best match is reported."""
    own = Result()
    quoted = gotext.quoted(path)

    def tried(alternative: Mapping[str, Any]) -> Result:
        return _value(alternative, value, path, correlated, ratchet=False)

    if alternatives := schema.get("anyOf"):
        _any_of(
            own, [tried(each) for each in alternatives], f"{quoted} must validate at least one schema (anyOf)"
        )
    if alternatives := schema.get("oneOf"):
        _one_of(
            own,
            [tried(each) for each in alternatives],
            f"{quoted} must validate one and only one schema (oneOf). ",
        )
    if alternatives := schema.get("allOf"):
        results = [tried(each) for each in alternatives]
        for each in results:
            own.merge(each)
        passed = sum(each.valid for each in results)
        if passed != len(results):
            none = "" if passed else ". None validated"
            told = f"{quoted} must validate all the schemas (allOf){none}"
            own.add(Problem("composite", path, None, told))
    if (refused := schema.get("not")) is not None and tried(refused).valid:
        own.add(Problem("composite", path, None, f"{quoted} must not validate the schema (not)"))
    own.matches += 1
    result.merge(own)


def _best(results: list[Result]) -> Result:
    best = results[0]
    for each in results[1:]:
        if each.matches > best.matches:
            best = each
    return best


def _any_of(own: Result, results: list[Result], told: str) -> None:
    passed = next((each for each in results if each.valid), None)
    if passed is None:
        own.add(Problem("composite", "", None, told))
        passed = _best(results)
    own.merge(passed)


def _one_of(own: Result, results: list[Result], told: str) -> None:
    passed = [each for each in results if each.valid]
    if len(passed) == 1:
        own.merge(passed[0])
        return
    found = f"Found {len(passed)} valid alternatives" if passed else "Found none valid"
    own.add(Problem("composite", "", None, told + found))
    if not passed:
        own.merge(_best(results))

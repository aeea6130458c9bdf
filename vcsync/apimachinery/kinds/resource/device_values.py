"""Validation of values in specs and in status: names of pools, UIDs, free-form data. Pure.

Source: Kubernetes' `pkg/apis/resource/validation`, and `Validate` in `github.com/google/uuid`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, say
from vcsync.patterns.linear import linear

_LONGEST_POOL = 253
_UUID_SIZE = 36
_URN, _BRACES = "urn:uuid:", "{}"
_DASHED = linear(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PLAIN = linear(r"[0-9a-fA-F]{32}")
_NOT_NORMAL = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
    "hexadecimal characters"
)


def pool_name(path: str, name: str) -> Findings:
    """Check the name of a pool: DNS subdomains with slashes between them."""
    if not name:
        yield errors.required(path)
        return
    if names.size(name) > _LONGEST_POOL:
        yield errors.too_long(path, _LONGEST_POOL)
    for segment in name.split("/"):
        yield from say(path, segment, names.dns_subdomain(segment))


def uid(path: str, value: str) -> Findings:
    """Check that a UID is a UUID in normalized form."""
    fault = _uuid_fault(value)
    if fault:
        yield errors.wrong(path, value, f"error validating uid: {fault}")
    elif names.size(value) != _UUID_SIZE or value != value.lower():
        yield errors.wrong(path, value, _NOT_NORMAL)


def _uuid_fault(value: str) -> str:
    """Return what is wrong with a UUID in one of the four forms that upstream's library reads, or an empty text."""
    size, pattern = names.size(value), _DASHED
    if size == _UUID_SIZE + len(_URN):
        if not value.lower().startswith(_URN):
            return f"invalid urn prefix: {errors.value_text(value[: len(_URN)])}"
        value = value[len(_URN) :]
    elif size == _UUID_SIZE + len(_BRACES):
        if (value[0], value[-1]) != tuple(_BRACES):
            return "invalid bracketed UUID format"
        value = value[1:-1]
    elif size == _UUID_SIZE - len("----"):
        pattern = _PLAIN
    elif size != _UUID_SIZE:
        return f"invalid UUID length: {size}"
    return "" if pattern.fullmatch(value) else "invalid UUID format"


def raw_object(path: str, value: object, longest: int) -> Findings:
    """Check free-form data, which must be an object of at most `longest` bytes."""
    if value is None:
        yield errors.required(path)
    elif names.size(errors.value_text(value)) > longest:
        yield errors.too_long(path, longest)
    elif not isinstance(value, dict):
        yield errors.wrong(path, "<value omitted>", "must be a valid JSON object")

"""Which snapshot a list reads, and how its pages are continued. Pure.

Rules and words: apiserver's `storage/{continue,interfaces}.go` and `storage/etcd3/errors.go`.
"""

import base64
import binascii
import posixpath
from dataclasses import dataclass

import msgspec

from vcsync.controlplane.errors import Cause, StatusError, bad_request, expired
from vcsync.controlplane.rest.options import EXACT, NOT_OLDER_THAN, ListOptions
from vcsync.controlplane.wire import gojson

TOO_OLD = "The resourceVersion for the provided list is too old."
INCONSISTENT = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)
LATEST = -1
"""The revision of a token that goes on at whatever is newest."""

MAX_DIGITS = 20
"""Of a number of 64 bits."""


class Token(msgspec.Struct):
    """What a continue token says."""

    v: str = ""
    rv: int = 0
    start: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to read: `revision` 0 is now; `at_least` must have been reached; `after` is a key."""

    revision: int = 0
    at_least: int = 0
    after: str = ""


def plan(options: ListOptions, prefix: str) -> Plan:
    """Settle which snapshot to read from where.

    Raises:
        StatusError: 400.
    """
    if options.continue_:
        revision, after = decode_token(options.continue_, prefix)
        if options.resource_version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        return Plan(revision=max(revision, 0), after=after)
    version = parse_version(options.resource_version, listed=True)
    if options.match == EXACT or (not options.match and options.limit > 0 and version > 0):
        return Plan(revision=version)
    return Plan(at_least=version if options.match in ("", NOT_OLDER_THAN) else 0)


def parse_version(text: str, *, listed: bool = False) -> int:
    """Read a resourceVersion; empty is 0.

    Raises:
        StatusError: 400; of anything but lists the real server says the same with 500, as if it were its own fault.
    """
    if not text:
        return 0
    try:
        return parse_number(text)
    except StatusError as why:
        said = f'resourceVersion: Invalid value: "{text}": {why.message}'
        raise bad_request(f"invalid resource version: {said}" if listed else said) from None


def parse_number(text: str, bits: int = 64) -> int:
    """Read an unsigned number of so many bits, 64 at most.

    Raises:
        StatusError: 400, in Go's words.
    """
    number = text.isascii() and text.isdigit()
    digits = text.lstrip("0") or "0"
    if number and len(digits) <= MAX_DIGITS and int(digits) < 2**bits:
        return int(digits)
    wrong = "value out of range" if number else "invalid syntax"
    raise bad_request(f'strconv.ParseUint: parsing "{text}": {wrong}')


def encode_token(key: str, prefix: str, revision: int) -> str:
    """Make the token that goes on after a key."""
    token = Token("meta.k8s.io/v1", revision, key.removeprefix(prefix) + "\x00")
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def decode_token(text: str, prefix: str) -> tuple[int, str]:
    """Return the revision and the key to go on after.

    Raises:
        StatusError: 400.
    """
    invalid = "invalid continue token: continue key is not valid"
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.convert(gojson.loads(data), type=Token)
    except (binascii.Error, ValueError) as error:
        raise bad_request(f"{invalid}: {error}") from None
    if token.v != "meta.k8s.io/v1":
        raise bad_request(f"{invalid}: server does not recognize this encoded version {token.v}")
    if token.rv == 0:
        raise bad_request(f"{invalid}: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    if not token.start:
        raise bad_request(f"{invalid}: encoded start key empty (version meta.k8s.io/v1)")
    start = token.start if token.start.startswith("/") else f"/{token.start}"
    if posixpath.normpath(start) != start:
        raise bad_request(f"{invalid}: {token.start}")
    # Our ranges begin after a key, the token's after its trailing NUL at it.
    return token.rv, prefix + start[1:].removesuffix("\x00")


def too_old(options: ListOptions, after: str, prefix: str) -> StatusError:
    """410 for a snapshot that is gone; one that was paged through may be gone on with inconsistently."""
    if not options.continue_:
        return expired(TOO_OLD)
    error = expired(INCONSISTENT)
    error.metadata = {"continue": encode_token(after, prefix, LATEST)}
    return error


def too_large(wanted: int, current: int, retry: int = 1) -> StatusError:
    """504 for a revision that is not yet."""
    message = f"Too large resource version: {wanted}, current: {current}"
    return StatusError(
        504,
        "Timeout",
        f"Timeout: {message}",
        causes=(Cause("ResourceVersionTooLarge", "Too large resource version"),),
        retry_after=retry,
    )

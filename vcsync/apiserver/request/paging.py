"""Chooses the snapshot of a list, and encodes its continue tokens. Pure.

Rules and messages: apiserver's `storage/{continue,interfaces}.go` and `storage/etcd3/errors.go`.
"""

import base64
import binascii
import posixpath
from dataclasses import dataclass

import msgspec

from vcsync.apimachinery.errors import Cause, StatusError, bad_request, expired
from vcsync.apimachinery.wire import gojson
from vcsync.apiserver.request.options import EXACT, NOT_OLDER_THAN, ListOptions

TOO_OLD = "The resourceVersion for the provided list is too old."
INCONSISTENT = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)
LATEST = -1
"""Revision in a token that continues at the newest revision."""

MAX_DIGITS = 20
"""Digits of a 64-bit number."""


class Token(msgspec.Struct):
    """The content of a continue token."""

    v: str = ""
    rv: int = 0
    start: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan for reading a list.

    Attributes:
        revision: Revision of the snapshot. 0: the newest.
        at_least: Revision that the store must have reached.
        after: Key after which the list starts.
    """

    revision: int = 0
    at_least: int = 0
    after: str = ""


def plan(options: ListOptions, prefix: str) -> Plan:
    """Return how to read a list.

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
    """Parse a resourceVersion. Empty is 0.

    Raises:
        StatusError: 400. kube-apiserver answers 500 with the same message unless `listed`, as if the fault were its own.
    """
    if not text:
        return 0
    try:
        return parse_number(text)
    except StatusError as why:
        said = f'resourceVersion: Invalid value: "{text}": {why.message}'
        raise bad_request(f"invalid resource version: {said}" if listed else said) from None


def parse_number(text: str, bits: int = 64) -> int:
    """Parse an unsigned number of `bits` bits, at most 64.

    Raises:
        StatusError: 400 with Go's message.
    """
    number = text.isascii() and text.isdigit()
    digits = text.lstrip("0") or "0"
    if number and len(digits) <= MAX_DIGITS and int(digits) < 2**bits:
        return int(digits)
    wrong = "value out of range" if number else "invalid syntax"
    raise bad_request(f'strconv.ParseUint: parsing "{text}": {wrong}')


def encode_token(key: str, prefix: str, revision: int) -> str:
    """Return the token that continues after a key."""
    token = Token("meta.k8s.io/v1", revision, key.removeprefix(prefix) + "\x00")
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def decode_token(text: str, prefix: str) -> tuple[int, str]:
    """Return the revision and the key after which to continue.

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
    # Ranges of the store start after a key; the token names the key with a trailing NUL, at which to start.
    return token.rv, prefix + start[1:].removesuffix("\x00")


def too_old(options: ListOptions, after: str, prefix: str) -> StatusError:
    """Return a 410 for a compacted snapshot. A paged list gets a token to continue inconsistently."""
    if not options.continue_:
        return expired(TOO_OLD)
    error = expired(INCONSISTENT)
    error.metadata = {"continue": encode_token(after, prefix, LATEST)}
    return error


def too_large(wanted: int, current: int, retry: int = 1) -> StatusError:
    """Return a 504 for a revision that the store has not reached."""
    message = f"Too large resource version: {wanted}, current: {current}"
    return StatusError(
        504,
        "Timeout",
        f"Timeout: {message}",
        causes=(Cause("ResourceVersionTooLarge", "Too large resource version"),),
        retry_after=retry,
    )

"""Semantic versions as `github.com/blang/semver/v4` parses them, and their CEL functions. Pure.

Source: `semverlib.go` of k8s.io/apiserver's `pkg/cel/library`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from vcsync.apimachinery import gotext
from vcsync.apimachinery.cel.arguments import Function, of_types, succeeds
from vcsync.apimachinery.cel.values import UINT_MAX, CelError, Work
from vcsync.patterns.linear import linear

_DIGITS = linear("[0-9]*")
_WORD = linear("[0-9a-zA-Z-]*")
_LONGEST_NUMBER = 20


@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version, without its build metadata, which no comparison regards."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()
    type_name: ClassVar[str] = "kubernetes.Semver"

    def order(self, other: "Semver") -> int:
        """Compare two versions. A pre-release precedes its release."""
        left, right = self._key(), other._key()
        return int(left > right) - int(left < right)

    def _key(self) -> Any:
        parts = [(0, len(each), each) if each.isdigit() else (1, 0, each) for each in self.pre]
        return (self.major, self.minor, self.patch, not self.pre, parts)


def _number(text: str, name: str) -> int:
    """Parse a part of a version; `name`: what messages call it."""
    if not _DIGITS.fullmatch(text):
        raise CelError(f"Invalid character(s) found in {name.lower()} number {gotext.quoted(text)}")
    if len(text) > 1 and text.startswith("0"):
        raise CelError(f"{name} number must not contain leading zeroes {gotext.quoted(text)}")
    return _unsigned(text)


def _unsigned(text: str) -> int:
    """Parse digits as Go's `strconv.ParseUint` does."""
    if not text:
        raise CelError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > _LONGEST_NUMBER or int(text) > UINT_MAX:
        raise CelError(f"strconv.ParseUint: parsing {gotext.quoted(text)}: value out of range")
    return int(text)


def _check_pre(text: str) -> None:
    """Check an identifier of a pre-release."""
    if not text:
        raise CelError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text.startswith("0"):
            told = "Numeric PreRelease version must not contain leading zeroes"
            raise CelError(f"{told} {gotext.quoted(text)}")
        _unsigned(text)
    elif not _WORD.fullmatch(text):
        raise CelError(f"Invalid character(s) found in prerelease {gotext.quoted(text)}")


def _check_build(text: str) -> None:
    """Check an identifier of the build metadata."""
    if not text:
        raise CelError("Build meta data is empty")
    if not _WORD.fullmatch(text):
        raise CelError(f"Invalid character(s) found in build meta data {gotext.quoted(text)}")


def _parse(text: str) -> Semver:
    if not text:
        raise CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "Major"), _number(parts[1], "Minor")
    rest, plus, build = parts[2].partition("+")
    patch_text, dash, pre = rest.partition("-")
    patch = _number(patch_text, "Patch")
    identifiers = tuple(pre.split(".")) if dash else ()
    for each in identifiers:
        _check_pre(each)
    for each in build.split(".") if plus else ():
        _check_build(each)
    return Semver(major, minor, patch, identifiers)


def _normalized(text: str) -> str:
    """Drop a leading `v` and leading zeros, and add missing parts."""
    parts = text.removeprefix("v").split(".", 2)
    for at, each in enumerate(parts):
        if len(each) > 1:
            kept = each.lstrip("0")
            parts[at] = kept if kept[:1] in tuple("0123456789") else f"0{kept}"
    if len(parts) < 3 and any(each in parts[-1] for each in "+-"):
        raise CelError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][: max(3, len(parts))])


@of_types(str, bool)
def _semver(_: Work, text: str, normalize: bool = False) -> Semver:
    return _parse(_normalized(text) if normalize else text)


def _part(get: Callable[[Semver], int]) -> Function:
    """Return a getter of a number. Go converts it to int64, which makes the largest ones negative."""
    return of_types(Semver)(lambda _, value: (get(value) + 2**63) % 2**64 - 2**63)


FUNCTIONS: dict[str, Function] = {
    "semver": _semver,
    "isSemver": succeeds(_semver),
    "major": _part(lambda value: value.major),
    "minor": _part(lambda value: value.minor),
    "patch": _part(lambda value: value.patch),
}
"""Implementation of each function, by name."""

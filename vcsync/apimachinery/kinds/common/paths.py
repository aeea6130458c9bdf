"""Validation of relative file paths and file modes in fields of objects. Pure."""

from vcsync.apimachinery import errors
from vcsync.apimachinery.validation.fields import Findings


def no_backsteps(path: str, value: str) -> Findings:
    """Check that no element of a path is `..`."""
    if ".." in value.split("/"):
        yield errors.wrong(path, value, "must not contain '..'")


def descending(path: str, value: str) -> Findings:
    """Check that a path is relative and has no element `..`."""
    if value.startswith("/"):
        yield errors.wrong(path, value, "must be a relative path")
    yield from no_backsteps(path, value)


def local(path: str, value: str) -> Findings:
    """Check that a path is relative, has no element `..`, and does not start with `..`."""
    yield from descending(path, value)
    if value.startswith("..") and not value.startswith("../"):
        yield errors.wrong(path, value, "must not start with '..'")


def file_mode(path: str, value: object) -> Findings:
    """Check a file's permission bits."""
    if isinstance(value, int) and not 0 <= value <= 0o777:
        yield errors.wrong(path, value, "must be a number between 0 and 0777 (octal), both inclusive")

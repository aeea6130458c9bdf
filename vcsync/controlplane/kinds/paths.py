"""Paths of files as fields of objects: relative, without a way upward. Pure."""

from vcsync.controlplane import errors
from vcsync.controlplane.kinds.rules import Findings


def no_backsteps(path: str, value: str) -> Findings:
    """No part may be `..`."""
    if ".." in value.split("/"):
        yield errors.wrong(path, value, "must not contain '..'")


def descending(path: str, value: str) -> Findings:
    """A relative path that never goes up."""
    if value.startswith("/"):
        yield errors.wrong(path, value, "must be a relative path")
    yield from no_backsteps(path, value)


def local(path: str, value: str) -> Findings:
    """A relative path that never goes up and whose name is not reserved."""
    yield from descending(path, value)
    if value.startswith("..") and not value.startswith("../"):
        yield errors.wrong(path, value, "must not start with '..'")


def file_mode(path: str, value: object) -> Findings:
    """A file's permissions."""
    if isinstance(value, int) and not 0 <= value <= 0o777:
        yield errors.wrong(path, value, "must be a number between 0 and 0777 (octal), both inclusive")

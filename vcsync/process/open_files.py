"""Shares of the open files that the process may have."""

import resource

RESERVED_FILES = 500
"""File descriptors that are not shared: for stores, logs and connections to other servers."""
LEAST = 16


def share_of_files(share: float, most: int, files_each: int = 1) -> int:
    """Return how many connections a part of the process may have by the limit of open files.

    Args:
        share: Share of the files that the part may have.
        most: Upper limit of the result.
        files_each: Files of a connection.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files <= 0:
        return most
    return min(most, max(LEAST, int((files - RESERVED_FILES) * share) // files_each))

"""A plug-in of pytest for runs on mutants: clears the caches of functions, and limits memory.

Each mutant runs in a fork of a process that has run the tests already, and whose caches were filled without the fault.
"""

import functools
import gc
import resource
from pathlib import Path

MORE_BYTES = 4 * 2**30
"""Address space that tests may use in addition. Without a limit, a fault in a loop may use all memory of the machine."""


def pytest_sessionstart() -> None:
    """Clear the caches of the functions under test, and limit the process's memory once."""
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper) and each.__module__.startswith("vcsync"):
            each.cache_clear()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MORE_BYTES, hard))


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()

"""Runs `vcsync` with a wall clock that is wrong: `python -m hack.skewed SECONDS ARGUMENTS`.

Only `time.time`, `time.time_ns` and `datetime.now` are wrong. The monotonic clock is right, and OpenSSL uses the
machine's clock.
"""

import ctypes
import gc
import sys
import time
from datetime import datetime, timedelta, tzinfo


def skew(seconds: float) -> None:
    """Shift this process's wall clock.

    Args:
        seconds: by which the clock is ahead; a negative number sets it behind.
    """
    real_time, real_time_ns, real_now = time.time, time.time_ns, datetime.now
    step = timedelta(seconds=seconds)

    def now(_: type[datetime], tz: tzinfo | None = None) -> datetime:
        return real_now(tz) + step

    # Python refuses to assign to a built-in type, and msgspec would not recognize a subclass in its place.
    [attributes] = (
        referent for referent in gc.get_referents(datetime.__dict__) if isinstance(referent, dict)
    )
    attributes["now"] = classmethod(now)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime))
    vars(time).update(
        time=lambda: real_time() + seconds, time_ns=lambda: real_time_ns() + round(seconds * 1e9)
    )


if __name__ == "__main__":
    skew(float(sys.argv.pop(1)))
    from vcsync.cli.command.main import main

    sys.exit(main())

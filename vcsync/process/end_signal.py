"""The signal by which the watchdog ends a process, known to whoever starts it again."""

import signal
from typing import Final

END_SIGNAL: Final = signal.SIGPROF
"""Its supervisor sees the signal, and shells see the exit code 128 + 27."""


def is_free() -> bool:
    """Return whether nobody else uses the signal in this process. Profilers do: the process is then not ended by it."""
    return signal.getsignal(END_SIGNAL) is signal.SIG_DFL

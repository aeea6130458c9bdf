"""The signal by which the watchdog ends a process, known to whoever starts it again."""

import signal
from typing import Final

END_SIGNAL: Final = signal.SIGPROF
"""Its supervisor sees the signal, and shells see the exit code 128 + 27."""

"""The operators' window: health, readiness, metrics and state of every role over HTTP."""

from vcsync.status.server import StatusServer
from vcsync.status.sources import StatusSource

__all__ = ["StatusServer", "StatusSource"]

"""The status endpoint: health, readiness, metrics and state of all roles, over HTTP."""

from vcsync.status.server import StatusServer
from vcsync.status.sources import StatusSource, TimelineSource

__all__ = ["StatusServer", "StatusSource", "TimelineSource"]

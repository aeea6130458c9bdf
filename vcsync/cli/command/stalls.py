"""Tells whose work stalled the last process."""

import structlog

from vcsync.process import loop
from vcsync.process.stall_report import Suspects, suspects

_log = structlog.get_logger(__name__)


def last_stall() -> Suspects | None:
    """Return and log whose work made the last process end; None if it ended while its loop ran, or somebody has asked before."""
    report = loop.taken_report()
    if not report:
        return None
    found = suspects(report)
    _log.error(
        "the last process ended because its event loop stood",
        tenants=sorted(found.tenants),
        work=found.mark.kind,
        sure=found.sure,
        report=report,
    )
    return found

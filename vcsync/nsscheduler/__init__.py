"""Namespace scheduler: turns tenants' ResourceQuotas into slices on super clusters, recorded in the ledger."""

from vcsync.nsscheduler.scheduler import NamespaceScheduler
from vcsync.nsscheduler.settings import Settings

__all__ = ["NamespaceScheduler", "Settings"]

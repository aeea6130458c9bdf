"""Namespace scheduler: from a tenant's ResourceQuota to slices on super clusters, by the ledger in meta."""

from vcsync.nsscheduler.scheduler import NamespaceScheduler
from vcsync.nsscheduler.settings import Settings

__all__ = ["NamespaceScheduler", "Settings"]

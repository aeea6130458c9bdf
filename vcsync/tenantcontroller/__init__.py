"""Tenant controller: creates, registers and deletes the control planes that Tenants describe."""

from vcsync.tenantcontroller.controller import TenantController
from vcsync.tenantcontroller.settings import Settings

__all__ = ["Settings", "TenantController"]

"""Compares every tenant with every super cluster, by the fields that vcsync owns; shares no code with vcsync."""

from hack.audit.findings import Finding, table
from hack.audit.read import Kubeconfig, read_cluster, read_world
from hack.audit.rules import RULES, audit
from hack.audit.world import Cluster, Tenant, World

__all__ = [
    "RULES",
    "Cluster",
    "Finding",
    "Kubeconfig",
    "Tenant",
    "World",
    "audit",
    "read_cluster",
    "read_world",
    "table",
]

"""Clusters in which Pods run, for operators with workloads: a hollow cluster, and a tenant of `vcsync up`."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hack.testbed import TestBed
from tests.real.up_kit import Up


@contextmanager
def hollow_cluster(folder: Path) -> Iterator[Path]:
    """Run one hollow cluster of upstream's programs; yield its kubeconfig."""
    with TestBed(supers=1, tenants=0, directory=folder) as bed:
        yield bed.supers["r1"].kubeconfig


@contextmanager
def tenant_of_up(folder: Path) -> Iterator[Path]:
    """Run `vcsync up` with two hollow super clusters; yield a tenant's kubeconfig."""
    up = Up(folder)
    try:
        up.start("--tenants", "acme")
        yield up.data / "acme.kubeconfig"
    finally:
        if up.begun and up.alive:
            up.end(signal.SIGTERM)

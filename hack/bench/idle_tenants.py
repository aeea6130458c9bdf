"""The memory of an idle tenant with a control plane of its own, in each role."""

from __future__ import annotations

import time
from pathlib import Path

from msgspec import Struct

from hack.bench.load import NotInTime
from hack.bench.meter import memory_bytes
from hack.bench.stage import SYNCER, SYNCER_SOURCE, say
from hack.system import System
from hack.testbed.bed import TestBed
from vcsync.tenancy.registry import TenantState

FIRST = 4
"""Tenants before the first look, so that code and buffers of a first tenant are not counted."""
COUNT = 40
"""Tenants whose memory is measured."""
QUIET_SECONDS = 30.0
"""Seconds without change before each look."""
CONNECTED_SECONDS = 120.0


class IdleTenants(Struct, frozen=True):
    """Bytes of memory by role, without and with tenants that do nothing."""

    count: int
    before: dict[str, int]
    after: dict[str, int]


def measure(directory: Path) -> IdleTenants:
    """Register tenants whose control planes share one process, and compare the memory of the roles.

    Each tenant has its own address, credentials and connections, as if its control plane were elsewhere.
    """
    names = [f"t{number:02}" for number in range(FIRST + COUNT)]
    with TestBed(
        supers=1,
        nodes=2,
        tenants=names[:FIRST],
        embedded=("tenant",),
        ours=True,
        directory=directory / "bed",
        progress=say,
    ) as bed:
        system = System(bed, directory / "system")
        try:
            return _measure(system, names)
        finally:
            system.stop()


def _measure(system: System, names: list[str]) -> IdleTenants:
    system.directory.mkdir(parents=True, exist_ok=True)
    system.vcsync("install", "--kubeconfigs", str(system.role_directory))
    system.vcsync("super", "add", "r1", "--kubeconfig", str(system.bed.supers["r1"].kubeconfig))
    for name in names[:FIRST]:
        system.add_tenant(name)
    system.start()
    before = _memory(system, FIRST)
    for name in names[FIRST:]:  # one by one: the commands would keep each other waiting
        system.bed.add_tenant(name)
        system.add_tenant(name)
    return IdleTenants(COUNT, before, _memory(system, len(names)))


def _memory(system: System, tenants: int) -> dict[str, int]:
    """Return the memory of each role, some time after it has connected to all tenants."""
    deadline = time.monotonic() + CONNECTED_SECONDS
    while (connected := _connected(system)) < tenants:
        if time.monotonic() > deadline:
            raise NotInTime(f"{connected} of {tenants} tenants are connected")
        time.sleep(1.0)
    time.sleep(QUIET_SECONDS)
    return {role: memory_bytes(system.pid(role)) for role in system.role_names}


def _connected(system: System) -> int:
    """Return the number of tenants to which the syncer is connected."""
    tenants = system.status(SYNCER)["roles"][SYNCER_SOURCE]["tenants"]
    return sum(each["state"] == TenantState.READY for each in tenants)

"""The first process of a node: prepares mounts, addresses and control groups, then collects ended processes."""

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import NoReturn

from hack.node import cgroups, namespaces
from hack.node.plan import LOOPBACK, NodePlan

SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Settings of the kernel that kubelet changes for the whole machine (setupKernelTunables in its container manager).

In a node they are files with the wanted values, so that the machine keeps its own.
"""


def run(plan: NodePlan, parent: socket.socket) -> NoReturn:
    """Prepare the namespaces and hand over listening sockets through `parent`; never returns."""
    namespaces.end_with_parent()
    # Only `sigwait` takes it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    cgroups.join(plan.cgroup)
    namespaces.unshare(namespaces.CLONE_NEWNS | namespaces.CLONE_NEWNET)
    _mount(plan)
    listeners = _listen(plan)
    socket.send_fds(parent, [b"listening"], [each.fileno() for each in listeners])
    if not parent.recv(16):
        os._exit(1)
    for each in listeners:
        each.close()
    _connect(plan)
    parent.send(b"ready")
    parent.close()
    while True:
        signal.sigwait({signal.SIGCHLD})
        _collect()


def _mount(plan: NodePlan) -> None:
    """Give the node its own /proc, /run, /var/lib and /var/log, and no influence on the machine's mounts."""
    namespaces.mount("none", Path("/"), flags=namespaces.MS_REC | namespaces.MS_PRIVATE)
    bound = {Path("/var/lib"): plan.folder / "lib", Path("/var/log"): plan.folder / "log"}
    for target, source in bound.items():
        source.mkdir(parents=True, exist_ok=True)
        namespaces.mount(str(source), target, flags=namespaces.MS_BIND)
    safe = namespaces.MS_NOSUID | namespaces.MS_NODEV
    namespaces.mount("tmpfs", Path("/run"), "tmpfs", safe, "mode=755")
    namespaces.mount("proc", Path("/proc"), "proc", safe)
    for number, (setting, value) in enumerate(SYSCTLS.items()):
        file = Path(f"/run/sysctl-{number}")
        file.write_text(value)
        namespaces.mount(str(file), Path("/proc/sys") / setting, flags=namespaces.MS_BIND)
    # Mounts of a Pod's volumes must reach running containers. The machine's mounts are not their peers.
    namespaces.mount("none", Path("/"), flags=namespaces.MS_REC | namespaces.MS_SHARED)


def _listen(plan: NodePlan) -> list[socket.socket]:
    """Return sockets of the node at which it serves API servers."""
    _ip("link", "set", "lo", "up")
    for each in plan.served_at:
        if each.address != LOOPBACK:
            _ip("address", "add", f"{each.address}/32", "dev", "lo")
    return [socket.create_server((each.address, each.port), backlog=128) for each in plan.served_at]


def _connect(plan: NodePlan) -> None:
    """Set up the node's end of the link, and forwarding between it and the Pods."""
    _ip("address", "add", f"{plan.address}/30", "dev", "eth0")
    _ip("link", "set", "eth0", "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, timeout=30)


def _collect() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return

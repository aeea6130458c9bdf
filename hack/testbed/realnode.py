"""The real node of a super cluster: its files, the commands of its programs, and its end."""

import datetime
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from hack.node import busybox, cgroups, configuration, images, requirements
from hack.node.plan import CGROUPS, NodePlan
from hack.testbed import servers
from hack.testbed.binaries import NODE, Progress, cache_root, ensure, locate
from hack.testbed.pki import Authority
from hack.testbed.plan import Plan

END_SECONDS = 30.0
"""Time in which the kernel ends all processes of a node."""
IMPORT_SECONDS = 120.0
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class NodeError(Exception):
    """The machine cannot have a real node, or a program of one failed; the message says why."""


def prepare(directory: Path, progress: Progress) -> None:
    """Check the machine, build the programs of nodes, and remove control groups that killed test beds left.

    Args:
        directory: of the test bed.
        progress: called with lines of progress.

    Raises:
        BuildError: a program is missing and cannot be built.
        NodeError: the machine lacks something; the message names it.
    """
    lacks = requirements.missing((directory, cache_root()))
    if lacks:
        raise NodeError("a real node needs " + "; ".join(lacks))
    ensure(NODE, progress)
    try:
        busybox.find(cache_root() / "busybox")
    except busybox.NoBusyboxError as error:
        raise NodeError(str(error)) from error
    cgroups.sweep(CGROUPS)


def of(plan: Plan) -> NodePlan:
    """Return the plan of a cluster's node."""
    return NodePlan(plan.folder / "node", plan.port, plan.service_address, plan.advertised_address)


def texts(plan: Plan, authority: Authority) -> dict[str, str]:
    """Return name -> text of the files that the node's programs read, in the folder of the cluster.

    Args:
        plan: of the cluster.
        authority: the cluster's certificate authority.
    """
    node = of(plan)
    serving = authority.server(node.name, node.name, node.address)
    identity = authority.client(f"system:node:{node.name}", "system:nodes")
    found = configuration.files(node, locate("bridge").parent)
    found |= {
        "ca.crt": authority.pair.certificate,
        "kubelet.crt": serving.certificate,
        "kubelet.key": serving.key,
        "kubelet.kubeconfig": servers.kubeconfig(plan, authority.pair.certificate, client=identity),
    }
    return {f"node/{name}": text for name, text in found.items()}


def namespaces(
    plan: Plan, others: Iterable[Plan] = (), services: Mapping[str, int] | None = None
) -> list[str]:
    """Return the command of the process that owns the node's namespaces.

    Args:
        plan: of the node's cluster.
        others: clusters that the node's Pods reach at the address of their Service `kubernetes.default`.
        services: further addresses that Pods reach -> ports of the machine.
    """
    node = of(plan)
    addresses = (node.service_address, node.advertised_address)
    # Embedded control planes of tenants share address and port.
    reached = [*((each.service_address, each.port) for each in others), *(services or {}).items()]
    served = dict.fromkeys(f"--tenant={address}={port}" for address, port in reached)
    return [sys.executable, "-m", "hack.node", str(node.folder), str(node.port), *addresses, *served]


def program(plan: Plan, component: str) -> list[str]:
    """Return the command of containerd or kubelet within the namespaces of the running node."""
    node = of(plan)
    binary = locate(component)
    command = (
        configuration.containerd(node, binary, locate("runc"))
        if component == "containerd"
        else configuration.kubelet(node, binary)
    )
    return configuration.entered(node, init(plan), command)


def init(plan: Plan) -> int:
    """Return the process id of the first process of the node; 0: the node is not prepared yet."""
    try:
        return int(of(plan).ready_file.read_text())
    except FileNotFoundError:
        return 0


def containerd_serves(plan: Plan) -> bool:
    """Return whether containerd has opened its socket."""
    return Path(f"/proc/{init(plan)}/root{configuration.CONTAINERD_SOCKET}").exists()


def import_images(plan: Plan) -> None:
    """Make the images and import them into containerd.

    Raises:
        NodeError: containerd refuses them.
    """
    node = of(plan)
    archive = node.folder / "images.tar"
    # `agnhost porter` serves with it; the clients of Kubernetes' tests accept any certificate.
    serving = Authority("agnhost-ca", datetime.datetime.now(datetime.UTC)).server("localhost")
    texts = {"localhost.crt": serving.certificate, "localhost.key": serving.key}
    made = images.all_images(busybox.find(cache_root() / "busybox"), locate("agnhost"), texts)
    images.write_archive(made, archive, ARCHITECTURES.get(platform.machine(), platform.machine()))
    import_archive(plan, archive)
    archive.unlink()


def import_archive(plan: Plan, archive: Path) -> None:
    """Import an archive of images into the containerd of a cluster's node.

    Raises:
        NodeError: containerd refuses it.
    """
    command = entered(plan, configuration.importing(locate("ctr"), archive))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=IMPORT_SECONDS)
    if done.returncode != 0:
        raise NodeError(f"{plan.name}: importing images: {done.stderr.strip()}")


def entered(plan: Plan, command: list[str]) -> list[str]:
    """Return the command that runs another one with the mounts and the network of a cluster's running node."""
    return configuration.entered(of(plan), init(plan), command)


def wait_ended(plan: Plan) -> None:
    """Wait for the end of all processes of a node whose owner was killed, and remove its control groups.

    Raises:
        TimeoutError: processes remain.
    """
    of(plan).ready_file.unlink(missing_ok=True)
    if not cgroups.remove(of(plan).cgroup, END_SECONDS):
        raise TimeoutError(f"processes of the control group {of(plan).cgroup} have not ended")


def remove(plan: Plan) -> None:
    """Remove what remains of a node whose owner was killed: its control groups, images and containers."""
    wait_ended(plan)
    shutil.rmtree(of(plan).folder, ignore_errors=True)

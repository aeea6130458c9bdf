"""The configuration of one real node: its names, addresses and folders. Pure."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

PORTS = 1 << 15
"""API servers of test beds have ports below it; a node's addresses follow from its API server's port."""
LINKS = ipaddress.IPv4Address("198.18.0.0")
"""First address of the links between nodes and the machine, 4 addresses each: 198.18.0.0/15, for benchmarks (RFC 2544)."""
PODS = ipaddress.IPv4Address("10.192.0.0")
"""First address of Pods on real nodes, 128 addresses for each node: 10.192.0.0/10."""
CGROUPS = "vcsync-node-"
"""Prefix of the names of nodes' control groups."""
KUBELET_PORT = 10250
HTTPS_PORT = 443
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Served:
    """An address of the node at which it serves an API server of the machine."""

    address: str
    port: int
    machine_port: int
    """Port of the API server on the machine's loopback address."""


@dataclass(frozen=True)
class NodePlan:
    """The configuration of a node.

    All that the machine has in common for all nodes is named after the port of the node's API server. So two test beds
    do not get in each other's way, and what a killed one left is known by its name.
    """

    folder: Path
    """Folder of its files: images, containers, logs and Pods' volumes."""
    port: int
    """Port of its API server on the machine's loopback address."""
    service_address: str
    """Address of the Service `kubernetes.default`, at which the node serves the API server."""
    advertised_address: str
    """Address in the Endpoints of `kubernetes.default`, at which the node serves it as well."""
    name: str = "node-0"
    tenants: tuple[tuple[str, int], ...] = ()
    """Address and machine's port of further API servers, which Pods reach at that address and port 443."""

    def __post_init__(self) -> None:
        """Refuse a port from which no addresses follow."""
        if not 0 < self.port < PORTS:
            raise ValueError(f"port {self.port} of the API server of a real node is not below {PORTS}")

    @property
    def link(self) -> str:
        """Name of the machine's end of the link to the node."""
        return f"vcsn{self.port}"

    @property
    def machine_address(self) -> str:
        """Address of the machine's end of the link."""
        return str(LINKS + 4 * self.port + 1)

    @property
    def address(self) -> str:
        """Address of the node (InternalIP)."""
        return str(LINKS + 4 * self.port + 2)

    @property
    def pod_cidr(self) -> str:
        return f"{PODS + 128 * self.port}/25"

    @property
    def cgroup(self) -> str:
        """Name of the control group that contains the control groups of its Pods."""
        return f"{CGROUPS}{self.port}"

    @property
    def ready_file(self) -> Path:
        """File with the process id of the node's first process, which exists once the namespaces are prepared."""
        return self.folder / "init.pid"

    @property
    def served_at(self) -> tuple[Served, ...]:
        """Addresses and ports of the node at which it serves its API server and those of tenants."""
        return (
            Served(LOOPBACK, self.port, self.port),
            Served(self.service_address, HTTPS_PORT, self.port),
            Served(self.advertised_address, self.port, self.port),
            *(Served(address, HTTPS_PORT, port) for address, port in self.tenants),
        )

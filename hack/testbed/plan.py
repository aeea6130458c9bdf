"""The configuration of one cluster of the test bed: its role, processes, addresses and folders. Pure."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Role = Literal["meta", "super", "tenant"]

MAX_CLUSTERS = 64
"""Limit of the address ranges, which follow from a cluster's position: services in 10.64/16 ... 10.127/16, Pods in
10.128/16 ... 10.191/16."""
EMBEDDED_SERVICE_ADDRESS = "10.0.0.1"
"""Address of the Service `kubernetes.default` in every embedded control plane."""
COMPONENTS: dict[Role, tuple[str, ...]] = {
    "meta": ("kube-apiserver", "kube-controller-manager"),
    "super": ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"),
    "tenant": ("kube-apiserver", "kube-controller-manager"),
}
REAL_NODE = ("node", "containerd", "kubelet")
"""Components of a real node, in the order of their start; `node` are its namespaces."""
CONTROL_PLANE, DRIVERS, HOLLOW = "controlplane", "controllers", "hollow"
REPLACED_BY = {"kube-controller-manager": DRIVERS, "kube-scheduler": HOLLOW, "kwok": HOLLOW}
"""Kubernetes' program -> vcsync's program that replaces it in a cluster of only vcsync's programs."""


@dataclass(frozen=True)
class NodeShape:
    """Capacity of each hollow node."""

    cpu: str = "32"
    memory: str = "128Gi"
    pods: str = "500"
    storage: str = "1Ti"


@dataclass(frozen=True)
class Plan:
    """The configuration of a cluster, which is fixed before its first server starts."""

    name: str
    role: Role
    index: int
    folder: Path
    """Folder of its certificates, configuration files and logs."""
    port: int
    kwok_port: int
    etcd_url: str
    admin_token: str
    without_admission: tuple[str, ...] = ()
    """Default admission plug-ins that are disabled in its API server."""
    path: str = ""
    """Prefix of the path of every request; empty unless an embedded control plane serves it."""
    ours: bool = False
    """Whether controllers, scheduler and nodes are vcsync's own; requires an embedded control plane."""
    nodes: int = 0
    shape: NodeShape = NodeShape()
    without_controllers: tuple[str, ...] = ()
    """Controllers that its kube-controller-manager does not run."""
    real: bool = False
    """Whether its only node is real: kubelet and containerd instead of kwok."""
    dual_stack: bool = False
    """Whether its kube-apiserver allocates cluster IPs of both IP families."""

    @property
    def embedded(self) -> bool:
        """Whether it is a tenant of an embedded control plane that it shares with others."""
        return bool(self.path)

    @property
    def plane(self) -> str:
        """Name of the embedded control plane that serves it; super clusters have a separate one with its own CA."""
        return f"{CONTROL_PLANE}-supers" if self.role == "super" else CONTROL_PLANE

    @property
    def components(self) -> tuple[str, ...]:
        """Its own processes, in the order of their start."""
        if self.ours:
            return (HOLLOW,) if self.role == "super" else ()
        names = COMPONENTS[self.role][1:] if self.embedded else COMPONENTS[self.role]
        return (*(name for name in names if name != "kwok"), *REAL_NODE) if self.real else names

    def program(self, component: str) -> str:
        """Return the program that does the work of one of Kubernetes' programs in this cluster."""
        if component == "kube-apiserver" and self.embedded:
            return CONTROL_PLANE
        return REPLACED_BY.get(component, component) if self.ours else component

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}{self.path}"

    @property
    def service_cidr(self) -> str:
        return f"10.{64 + self.index}.0.0/16"

    @property
    def service_cidrs(self) -> str:
        """Ranges of its cluster IPs, that of IPv4 first, as `--service-cluster-ip-range` has them."""
        return f"{self.service_cidr},fd00:{64 + self.index}::/108" if self.dual_stack else self.service_cidr

    @property
    def service_address(self) -> str:
        """Address of the Service `kubernetes.default`: the first one of the range, which embedded control planes share."""
        return EMBEDDED_SERVICE_ADDRESS if self.embedded else f"10.{64 + self.index}.0.1"

    @property
    def pod_cidr(self) -> str:
        return f"10.{128 + self.index}.0.0/16"

    @property
    def advertised_address(self) -> str:
        """Address in the Endpoints of `kubernetes.default`.

        Loopback addresses are refused there, so that it is an unused address for documentation (RFC 5737).
        """
        return f"192.0.2.{1 + self.index}"

    @property
    def server_names(self) -> tuple[str, ...]:
        """Host names and addresses in the API server's certificate."""
        services = (
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        )
        return ("127.0.0.1", "localhost", *services, self.service_address)

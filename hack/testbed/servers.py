"""Command lines and configuration files of the servers: pure functions of a cluster's plan."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hack.testbed.pki import KeyPair

Role = Literal["meta", "super", "tenant"]

MAX_CLUSTERS = 64
"""Address ranges are dealt out by position: services in 10.64/16 ... 10.127/16, Pods in 10.128/16 ...
10.191/16.
"""

CLIENT_QPS = 1000
CLIENT_BURST = 2000

# The meta cluster holds our own objects: what it needs is what deletes namespaces and makes service accounts
# usable.
META_CONTROLLERS = (
    "namespace-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "garbage-collector-controller",
    "resourcequota-controller",
    "clusterrole-aggregation-controller",
    "validatingadmissionpolicy-status-controller",
)
ALL_CONTROLLERS = ("*", "bootstrap-signer-controller", "token-cleaner-controller")
CONTROLLERS: dict[Role, tuple[str, ...]] = {
    "meta": META_CONTROLLERS,
    "super": ALL_CONTROLLERS,
    "tenant": ALL_CONTROLLERS,
}
COMPONENTS: dict[Role, tuple[str, ...]] = {
    "meta": ("kube-apiserver", "kube-controller-manager"),
    "super": ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"),
    "tenant": ("kube-apiserver", "kube-controller-manager"),
}
CONTROL_PLANE, DRIVERS, HOLLOW = "controlplane", "controllers", "hollow"
PLAYED_BY = {"kube-controller-manager": DRIVERS, "kube-scheduler": HOLLOW, "kwok": HOLLOW}
"""Which of vcsync's programs does the work of one of Kubernetes' where a cluster is wholly of vcsync's making."""


@dataclass(frozen=True)
class NodeShape:
    """Capacity of each hollow node."""

    cpu: str = "32"
    memory: str = "128Gi"
    pods: str = "500"
    storage: str = "1Ti"


@dataclass(frozen=True)
class Plan:
    """Everything about a cluster that is settled before its first server starts."""

    name: str
    role: Role
    index: int
    folder: Path
    """Holds its certificates, configuration files and logs."""
    port: int
    kwok_port: int
    etcd_url: str
    admin_token: str
    without_admission: tuple[str, ...] = ()
    """Admission plug-ins, of those that are on by default, which its API server goes without."""
    path: str = ""
    """What goes before the path of every request: set where an embedded control plane serves it."""
    ours: bool = False
    """Whether controllers, scheduler and nodes are vcsync's own; only where the control plane is embedded."""
    nodes: int = 0
    shape: NodeShape = NodeShape()

    @property
    def embedded(self) -> bool:
        """Whether it is a tenant of an embedded control plane, which it shares with others."""
        return bool(self.path)

    @property
    def plane(self) -> str:
        """The embedded control plane that serves it: super clusters have one of their own, with a CA of its own."""
        return f"{CONTROL_PLANE}-supers" if self.role == "super" else CONTROL_PLANE

    @property
    def components(self) -> tuple[str, ...]:
        """The processes of its own, in the order of their start."""
        if self.ours:
            return (HOLLOW,) if self.role == "super" else ()
        return COMPONENTS[self.role][1:] if self.embedded else COMPONENTS[self.role]

    def program(self, component: str) -> str:
        """Return what does the work of one of Kubernetes' programs here."""
        if component == "kube-apiserver" and self.embedded:
            return CONTROL_PLANE
        return PLAYED_BY.get(component, component) if self.ours else component

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}{self.path}"

    @property
    def service_cidr(self) -> str:
        return f"10.{64 + self.index}.0.0/16"

    @property
    def service_address(self) -> str:
        """Address of the Service `kubernetes.default`: the first of the range."""
        return f"10.{64 + self.index}.0.1"

    @property
    def pod_cidr(self) -> str:
        return f"10.{128 + self.index}.0.0/16"

    @property
    def advertised_address(self) -> str:
        """What the Endpoints of `kubernetes.default` announce.

        A loopback address is refused there, so it is one of the documentation's (RFC 5737): nobody listens.
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


def etcd(data: Path, client_url: str, peer_url: str) -> list[str]:
    """Arguments of the one etcd. Nothing is synced to disk: the data do not outlive the test bed."""
    return [
        "--name=testbed",
        f"--data-dir={data}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=testbed={peer_url}",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]


def apiserver(plan: Plan) -> list[str]:
    """Arguments of kube-apiserver."""
    folder = plan.folder
    return [
        f"--etcd-servers={plan.etcd_url}",
        f"--etcd-prefix=/{plan.name}",
        "--bind-address=127.0.0.1",
        f"--secure-port={plan.port}",
        f"--advertise-address={plan.advertised_address}",
        f"--service-cluster-ip-range={plan.service_cidr}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--disable-admission-plugins={','.join(plan.without_admission)}",
        "--allow-privileged=true",
        "--enable-bootstrap-token-auth=true",
        f"--token-auth-file={folder}/tokens.csv",
        f"--client-ca-file={folder}/ca.crt",
        f"--tls-cert-file={folder}/server.crt",
        f"--tls-private-key-file={folder}/server.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder}/service-accounts.key",
        f"--service-account-signing-key-file={folder}/service-accounts.key",
        f"--requestheader-client-ca-file={folder}/front-proxy-ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={folder}/front-proxy-client.crt",
        f"--proxy-client-key-file={folder}/front-proxy-client.key",
        f"--kubelet-client-certificate={folder}/kubelet-client.crt",
        f"--kubelet-client-key={folder}/kubelet-client.key",
        # The hollow nodes' kubelet is kwok on this machine; the nodes give "localhost" as their external
        # name.
        "--kubelet-preferred-address-types=ExternalDNS,InternalIP",
        "--profiling=false",
    ]


def controller_manager(plan: Plan) -> list[str]:
    """Arguments of kube-controller-manager."""
    folder = plan.folder
    keys = {
        "--root-ca-file": "ca.crt",
        "--service-account-private-key-file": "service-accounts.key",
        "--cluster-signing-cert-file": "ca.crt",
        "--cluster-signing-key-file": "ca.key",
    }
    own: list[str] = []
    if plan.embedded:
        keys = {
            "--root-ca-file": "keys/server-ca.crt",
            "--service-account-private-key-file": "keys/sa.key",
            "--cluster-signing-cert-file": "keys/ca.crt",
            "--cluster-signing-key-file": "keys/ca.key",
        }
        own = ["--use-service-account-credentials"]
    return [
        *own,
        *(f"{flag}={folder}/{file}" for flag, file in keys.items()),
        f"--kubeconfig={folder}/kube-controller-manager.kubeconfig",
        f"--controllers={','.join(CONTROLLERS[plan.role])}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--kube-api-qps={CLIENT_QPS}",
        f"--kube-api-burst={CLIENT_BURST}",
        f"--cluster-name={plan.name}",
        "--concurrent-namespace-syncs=20",
        "--concurrent-deployment-syncs=20",
        "--concurrent-replicaset-syncs=20",
        "--concurrent-resource-quota-syncs=20",
    ]


def scheduler(plan: Plan) -> list[str]:
    """Arguments of kube-scheduler."""
    return [f"--config={plan.folder}/scheduler.json", "--secure-port=0"]


def kwok(plan: Plan) -> list[str]:
    """Arguments of kwok."""
    here = Path(__file__).parent
    return [
        f"--kubeconfig={plan.folder}/kwok.kubeconfig",
        f"--config={plan.folder}/kwok.json",
        f"--config={here}/hollow-stages.yaml",
        f"--config={here}/hollow-job-stages.yaml",
    ]


def arguments(component: str, plan: Plan) -> list[str]:
    """Arguments of one of a cluster's components."""
    return {
        "kube-apiserver": apiserver,
        "kube-controller-manager": controller_manager,
        "kube-scheduler": scheduler,
        "kwok": kwok,
    }[component](plan)


def scheduler_configuration(plan: Plan) -> str:
    """KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), JSON."""
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {
                "kubeconfig": f"{plan.folder}/kube-scheduler.kubeconfig",
                "qps": CLIENT_QPS,
                "burst": CLIENT_BURST,
            },
        }
    )


def kwok_configuration(plan: Plan) -> str:
    """KwokConfiguration, and what every hollow container logs and executes; a stream of JSON documents."""
    options = {
        "manageAllNodes": True,
        "cidr": plan.pod_cidr,
        "serverAddress": f"127.0.0.1:{plan.kwok_port}",
        "nodePort": plan.kwok_port,
        "tlsCertFile": f"{plan.folder}/server.crt",
        "tlsPrivateKeyFile": f"{plan.folder}/server.key",
        "enableDebuggingHandlers": True,
        "nodeLeaseDurationSeconds": 40,
        "nodeLeaseParallelism": 16,
        "nodePlayStageParallelism": 16,
        "podPlayStageParallelism": 64,
        "podsOnNodeSyncParallelism": 16,
    }
    log = f"{plan.folder}/container.log"
    documents = (
        _kwok_document("config.kwok.x-k8s.io", "KwokConfiguration", options=options),
        _kwok_document("kwok.x-k8s.io", "ClusterLogs", spec={"logs": [{"logsFile": log, "follow": True}]}),
        _kwok_document("kwok.x-k8s.io", "ClusterAttach", spec={"attaches": [{"logsFile": log}]}),
        _kwok_document(
            "kwok.x-k8s.io", "ClusterExec", spec={"execs": [{"local": {"workDir": str(plan.folder)}}]}
        ),
        # Every port of a hollow Pod leads to kwok's own server, which answers /healthz.
        _kwok_document(
            "kwok.x-k8s.io",
            "ClusterPortForward",
            spec={"forwards": [{"target": {"address": "127.0.0.1", "port": plan.kwok_port}}]},
        ),
    )
    return "\n---\n".join(json.dumps(document) for document in documents)


def kubeconfig(
    plan: Plan, authority: str, *, token: str = "", client: KeyPair | None = None, url: str = ""
) -> str:
    """A kubeconfig with everything inside it, JSON (which is YAML).

    Args:
        plan: the cluster.
        authority: PEM of the CA that signed the server's certificate.
        token: bearer token of the user, or
        client: the user's certificate.
        url: the server, where it is not the cluster's own (a proxy in front of it).
    """
    user: dict[str, str] = {"token": token} if token else {}
    if client:
        user = {
            "client-certificate-data": _base64(client.certificate),
            "client-key-data": _base64(client.key),
        }
    cluster = {"server": url or plan.url, "certificate-authority-data": _base64(authority)}
    return _kubeconfig(plan.name, cluster, user)


def kubeconfig_of_files(plan: Plan) -> str:
    """A kubeconfig for the admin's client certificate that names its files relative to itself."""
    user = {"client-certificate": "admin.crt", "client-key": "admin.key"}
    return _kubeconfig(plan.name, {"server": plan.url, "certificate-authority": "ca.crt"}, user)


def node(plan: Plan, position: int, shape: NodeShape, kubelet_version: str) -> dict[str, Any]:
    """A hollow node as kubelet would register it, not Ready yet."""
    name = f"node-{position}"
    resources = {
        "cpu": shape.cpu,
        "memory": shape.memory,
        "pods": shape.pods,
        "ephemeral-storage": shape.storage,
    }
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": plan.name,
        "topology.kubernetes.io/zone": f"{plan.name}-{'abc'[position % 3]}",
    }
    high, low = divmod(position, 250)
    addresses = [
        {"type": "InternalIP", "address": f"172.{16 + high // 256 % 16}.{high % 256}.{low + 1}"},
        {"type": "Hostname", "address": name},
        {"type": "ExternalDNS", "address": "localhost"},
    ]
    information = {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "osImage": "hollow",
        "kernelVersion": "hollow",
        "containerRuntimeVersion": "hollow://1",
        "kubeletVersion": kubelet_version,
        "kubeProxyVersion": "",
        **dict.fromkeys(("bootID", "machineID", "systemUUID"), f"{plan.name}-{name}"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": addresses,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": plan.kwok_port}},
            "nodeInfo": information,
        },
    }


def _kubeconfig(name: str, cluster: Mapping[str, str], user: Mapping[str, str]) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        },
        indent=1,
    )


def _kwok_document(group: str, kind: str, **content: object) -> dict[str, object]:
    return {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": "testbed"}, **content}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

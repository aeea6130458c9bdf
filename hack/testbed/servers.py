"""Command lines and configuration files of the servers, as pure functions of a cluster's plan."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hack.testbed.pki import KeyPair
from hack.testbed.plan import NodeShape, Plan, Role

CLIENT_QPS = 1000
CLIENT_BURST = 2000

# The meta cluster contains only our own objects. It needs the controllers that delete namespaces and that make service
# accounts usable.
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


def etcd(data: Path, client_url: str, peer_url: str, members: Mapping[str, str] | None = None) -> list[str]:
    """Return the arguments of an etcd. It does not sync to disk, because its data does not outlive the test bed.

    Args:
        data: its data folder.
        client_url: at which it serves clients.
        peer_url: at which other members reach it.
        members: name -> peer URL of all members including itself; None: it is the only one.
    """
    members = members or {"testbed": peer_url}
    [name] = (name for name, url in members.items() if url == peer_url)
    return [
        f"--name={name}",
        f"--data-dir={data}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster={','.join(f'{name}={url}' for name, url in members.items())}",
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
        f"--service-cluster-ip-range={plan.service_cidrs}",
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
        f"--kubelet-preferred-address-types={','.join(address_types(plan))}",
        "--profiling=false",
    ]


def address_types(plan: Plan) -> tuple[str, ...]:
    """Return the types of nodes' addresses at which kube-apiserver reaches kubelets, the preferred one first.

    The kubelet of hollow nodes is kwok on this machine, and their external name is "localhost". No name server knows the
    name of a real node.
    """
    return ("InternalIP",) if plan.real else ("ExternalDNS", "Hostname", "InternalIP")


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
        f"--controllers={','.join(controllers(plan))}",
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


def controllers(plan: Plan) -> tuple[str, ...]:
    """Return the value of the flag `--controllers` of kube-controller-manager; a hyphen leaves a controller out."""
    return (*CONTROLLERS[plan.role], *(f"-{name}" for name in plan.without_controllers))


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
    """Return the arguments of one of a cluster's components."""
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
    """Return the configuration of kwok and of the logs and commands of hollow containers; a stream of JSON documents."""
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
        # Every port of a hollow Pod is forwarded to kwok's own server, which answers /healthz.
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
    """Return a kubeconfig with embedded credentials, as JSON (which is YAML).

    Args:
        plan: of the cluster.
        authority: PEM of the CA that signed the server's certificate.
        token: bearer token of the user; empty: the user has a certificate.
        client: the user's certificate.
        url: of the server, if it is not the cluster's own (a proxy in front of it).
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
    """Return a kubeconfig with the admin's client certificate, whose files it names by relative paths."""
    user = {"client-certificate": "admin.crt", "client-key": "admin.key"}
    return _kubeconfig(plan.name, {"server": plan.url, "certificate-authority": "ca.crt"}, user)


def node(plan: Plan, position: int, shape: NodeShape, kubelet_version: str) -> dict[str, Any]:
    """Return a hollow node as kubelet would register it, not Ready yet."""
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

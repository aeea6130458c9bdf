"""The manifests of a tenant's name server: an unmodified CoreDNS in the tenant's kube-system. Pure.

They are those of kubeadm (`cmd/kubeadm/app/phases/addons/dns/manifests.go`), but for what its Pods need in a super cluster: no
tolerations and no priority that tenants' Pods do not have, and a port that a process without privileges can open. CoreDNS reads
Pods only with `pods verified`, so it gets no right to.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from vcsync.api import names
from vcsync.api.rbac import PART_OF, PROJECT

Manifest = dict[str, Any]

DEFAULT_IMAGE: Final = "registry.k8s.io/coredns/coredns:v1.14.2"
DEFAULT_DOMAIN: Final = "cluster.local"
DEFAULT_REPLICAS: Final = 2

NAME: Final = "coredns"
_ROLE: Final = "system:coredns"
_LABELS: Final[Mapping[str, str]] = {
    "k8s-app": names.TENANT_DNS_SERVICE,
    PART_OF: PROJECT,
}
_PORT: Final = 1053
_REQUESTS: Final[Mapping[str, str]] = {"cpu": "100m", "memory": "170Mi"}
_SPARE_PODS: Final = 1
"""Pods that a rolling update has in addition."""
_NOBODY: Final = 65532
"""User of the image."""

COREFILE: Final = """\
.:{port} {{
    errors
    health {{
        lameduck 5s
    }}
    ready
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
    prometheus :9153
    forward . /etc/resolv.conf {{
        max_concurrent 1000
    }}
    cache 30 {{
        disable success {domain}
        disable denial {domain}
    }}
    loop
    reload
    loadbalance
}}
"""


class NameServer(Struct, frozen=True, kw_only=True):
    """The operator's choices.

    Attributes:
        image: image of CoreDNS.
        domain: DNS domain of the tenant's cluster.
        replicas: number of Pods.
    """

    image: str = DEFAULT_IMAGE
    domain: str = DEFAULT_DOMAIN
    replicas: int = DEFAULT_REPLICAS


def manifests(wanted: NameServer) -> list[Manifest]:
    """Return the objects of a name server, without the quota of its namespace."""
    return [*access(), _config(wanted), _deployment(wanted), _service()]


def access() -> list[Manifest]:
    """Return the account of the name server, and its rights: to read what it answers from, and nothing else."""
    group = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [""], "resources": ["services", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": names.TENANT_DNS_NAMESPACE}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": _ROLE}
    return [
        _object("v1", "ServiceAccount", NAME),
        _object(f"{group}/v1", "ClusterRole", _ROLE, namespace="") | {"rules": rules},
        _object(f"{group}/v1", "ClusterRoleBinding", _ROLE, namespace="")
        | {"roleRef": role, "subjects": [account]},
    ]


def quota(wanted: NameServer) -> Manifest:
    """Return a ResourceQuota by which kube-system gets slices for the name server."""
    pods = wanted.replicas + _SPARE_PODS
    hard = {name: _times(each, pods) for name, each in _REQUESTS.items()}
    return _object("v1", "ResourceQuota", names.TENANT_DNS_SERVICE) | {"spec": {"hard": hard}}


def slice_size() -> dict[str, str]:
    """Return the size of a slice in kube-system: that of one Pod of the name server."""
    return dict(_REQUESTS)


def corefile(domain: str, port: int = _PORT) -> str:
    """Return the configuration of CoreDNS for a tenant's domain."""
    return COREFILE.format(domain=domain, port=port)


def _times(quantity: str, count: int) -> str:
    unit = quantity.lstrip("0123456789")
    return f"{int(quantity.removesuffix(unit)) * count}{unit}"


def _object(
    api_version: str, kind: str, name: str, *, namespace: str = names.TENANT_DNS_NAMESPACE
) -> Manifest:
    metadata: dict[str, Any] = {"name": name, "labels": dict(_LABELS)}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _config(wanted: NameServer) -> Manifest:
    return _object("v1", "ConfigMap", NAME) | {"data": {"Corefile": corefile(wanted.domain)}}


def _service() -> Manifest:
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": "dns-tcp"},
        {"name": "metrics", "port": 9153, "protocol": "TCP", "targetPort": "metrics"},
    ]
    spec = {"selector": {"k8s-app": names.TENANT_DNS_SERVICE}, "ports": ports}
    return _object("v1", "Service", names.TENANT_DNS_SERVICE) | {"spec": spec}


def _deployment(wanted: NameServer) -> Manifest:
    selector = {"k8s-app": names.TENANT_DNS_SERVICE}
    container = {
        "name": NAME,
        "image": wanted.image,
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": {"requests": dict(_REQUESTS), "limits": {"memory": _REQUESTS["memory"]}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
        "ports": [
            {"name": "dns", "containerPort": _PORT, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": _PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9153, "protocol": "TCP"},
        ],
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": 8080},
            "initialDelaySeconds": 60,
            "timeoutSeconds": 5,
            "failureThreshold": 5,
        },
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            # The program's file has this capability, and does not start where it is not permitted.
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    pod = {
        "serviceAccountName": NAME,
        "dnsPolicy": "Default",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {
                "name": "config",
                "configMap": {"name": NAME, "items": [{"key": "Corefile", "path": "Corefile"}]},
            }
        ],
    }
    spec = {
        "replicas": wanted.replicas,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 0, "maxSurge": _SPARE_PODS},
        },
        "selector": {"matchLabels": selector},
        "template": {"metadata": {"labels": selector}, "spec": pod},
    }
    return _object("apps/v1", "Deployment", NAME) | {"spec": spec}

"""Labels that programs of super clusters are known to obey, as data. Copies have them under other keys.

Such a program takes a label of an object for a wish of the super cluster's operator: to put a sidecar into Pods, to load a
dashboard, or to leave a namespace out of its checks. `opaqueMetaPrefixes` of a VirtualCluster adds keys for a tenant,
`podPolicy.labels` and `servicePolicy.labels` take some out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec import Struct

from vcsync.objects.text_cache import cache_short_texts


class Row(Struct, frozen=True):
    """Labels of one kind of program.

    Attributes:
        why: What obeys them, and what they do.
        domains: Domains of keys, with their subdomains.
        keys: Further keys, or beginnings of keys followed by `*`.
        kinds: Plural names of the kinds of which they are obeyed; empty: all.
    """

    why: str
    domains: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


TABLE: Final = (
    Row(
        "Calico gives Pods the labels of their Namespace and ServiceAccount under pcns. and pcsa.; a Pod with such a label of "
        "its own would be selected as if it were in another namespace. Other labels choose address pools.",
        domains=("projectcalico.org",),
        keys=("pcns.*", "pcsa.*"),
    ),
    Row(
        "Cilium, OVN, Kube-OVN, Antrea, Multus and Network Service Mesh take identities, addresses and networks from them.",
        domains=("cilium.io", "ovn.org", "kubeovn.io", "antrea.io", "cncf.io", "networkservicemesh.io"),
    ),
    Row(
        "Service meshes put a proxy into Pods, or redirect their traffic, by a label of the Pod or its Namespace.",
        domains=(
            *(
                "istio.io",
                "linkerd.io",
                "buoyant.io",
                "kuma.io",
                "consul.hashicorp.com",
                "openservicemesh.io",
            ),
            *("dapr.io", "knative.dev", "traefik.io", "solo.io"),
        ),
        keys=("istio-injection", "istio-env"),
    ),
    Row(
        "Webhooks and agents of clouds give Pods credentials, networks or load balancers of the operator's account.",
        domains=(
            *("azure.workload.identity", "kubernetes.azure.com", "amazonaws.com", "k8s.aws", "gke.io"),
            *("cloud.google.com", "openstack.org"),
        ),
        keys=("aadpodidbinding",),
    ),
    Row(
        "Distributions that group namespaces: a label assigns the Namespace to a project, its members and its exceptions.",
        domains=(
            *("openshift.io", "cattle.io", "kubesphere.io", "clastix.io", "projectcapsule.dev", "loft.sh"),
            *("coreos.com", "crossplane.io"),
        ),
        keys=("olm.*",),
    ),
    Row(
        "Policy engines and other admission webhooks leave out namespaces and objects with these labels.",
        domains=(
            *("gatekeeper.sh", "openpolicyagent.org", "kyverno.io", "kubewarden.io", "cert-manager.io"),
            *("topolvm.io", "topolvm.cybozu.com"),
        ),
    ),
    Row(
        "Admission webhooks of many projects, and those of Azure, leave out namespaces with this label. Pods of controllers have "
        "it, too, and are selected by it.",
        keys=("control-plane",),
        kinds=("namespaces",),
    ),
    Row(
        "Sidecars of Grafana and Loki load dashboards, data sources and rules from ConfigMaps and Secrets of all namespaces.",
        keys=("grafana_*", "loki_rule"),
    ),
    Row(
        "Replicators and controllers of Secrets write copies into other namespaces, restart workloads, or take credentials.",
        domains=(
            *("mittwald.de", "emberstack.com", "appscode.com", "stakater.com", "external-secrets.io"),
            *("bitnami.com", "vault.hashicorp.com"),
        ),
        keys=("replicator.*",),
    ),
    Row(
        "Continuous delivery and backup take objects for their own: they change, delete or leave them out.",
        domains=("argoproj.io", "fluxcd.io", "velero.io", "kanister.io"),
    ),
    Row(
        "Load balancers and ingress controllers configure themselves by them, and take credentials from Secrets.",
        domains=(
            *(
                "metallb.io",
                "metallb.universe.tf",
                "kube-vip.io",
                "purelb.io",
                "getambassador.io",
                "haproxy.org",
            ),
            *(
                "nginx.org",
                "nginx.com",
                "konghq.com",
                "projectcontour.io",
                "tailscale.com",
                "apisix.apache.org",
            ),
        ),
    ),
    Row(
        "Agents for monitoring put programs of the operator into Pods.",
        domains=("admission.datadoghq.com", "dynatrace.com", "opentelemetry.io", "jaegertracing.io"),
    ),
    Row(
        "Schedulers and controllers that take Pods for their own, or change them.",
        domains=(
            *("volcano.sh", "yunikorn.apache.org", "karpenter.sh", "spotinst.io", "fairwinds.com"),
            *("tekton.dev", "kserve.io", "kubeflow.org", "kubevirt.io", "strimzi.io"),
        ),
        keys=("kubevirt.io",),
    ),
)


class _Rules(Struct, frozen=True):
    """The rows of one kind, so that a key is compared with all of them at once. Tenants choose how many keys there are."""

    domains: tuple[str, ...]
    keys: frozenset[str]
    beginnings: tuple[str, ...]


@lru_cache(maxsize=64)
def _rules(plural: str) -> _Rules:
    rows = [row for row in TABLE if not row.kinds or plural in row.kinds]
    listed = [key for row in rows for key in row.keys]
    return _Rules(
        tuple(f".{domain}" for row in rows for domain in row.domains),
        frozenset(key for key in listed if not key.endswith("*")),
        tuple(key[:-1] for key in listed if key.endswith("*")),
    )


@cache_short_texts(16384, 384)
def is_obeyed(key: str, plural: str) -> bool:
    """Return whether programs are known to obey a label of objects of a kind.

    Keys without a slash that begin with `io.` are among them: runtimes and Cilium have such keys.

    Args:
        key: the label's key.
        plural: plural name of the kind.
    """
    rules = _rules(plural)
    if key in rules.keys or key.startswith(rules.beginnings):
        return True
    domain, slash, _ = key.partition("/")
    return f".{domain}".endswith(rules.domains) if slash else key.startswith("io.")

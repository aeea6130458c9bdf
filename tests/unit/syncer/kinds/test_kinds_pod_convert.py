"""The conversion of a tenant's Pod for its super cluster."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds_bench import CONTEXT, KEY, NODE, Bench, super_ns

from vcsync.api import names
from vcsync.apiserver.admission.pod_standards import pod_checks
from vcsync.apiserver.admission.pod_standards.pod_checks import findings
from vcsync.kube.resources import NODES
from vcsync.objects.envelope import parse
from vcsync.syncer.kinds import pod_convert, pod_downward, pod_policy
from vcsync.syncer.kinds.plan import PodPolicy, TenantContext, TokenSource

Json = dict[str, Any]

UID = "pod-uid"
TOKEN_SECRET = names.TOKEN_SECRET_PREFIX + UID
KUBE_API_ACCESS: Json = {
    "name": "kube-api-access-x2x4z",
    "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]
                }
            },
        ],
    },
}


def convert(
    spec: Json, context: TenantContext = CONTEXT, bench: Bench | None = None, node: str = "", **meta: Any
) -> tuple[Json, tuple[TokenSource, ...]]:
    spec.setdefault("containers", [{"name": "app", "image": "i"}])
    pod = {"metadata": {"name": "web-0", "namespace": "shop", "uid": UID, **meta}, "spec": spec}
    v = parse(json.dumps(pod).encode())
    return pod_convert.convert(v, json.loads(v.spec), context, bench or Bench(), node=node)


def converted(spec: Json, **rest: Any) -> Json:
    return convert(spec, **rest)[0]["spec"]


def env(container: Json) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


# --- Tokens and root CA ---


def test_the_usual_api_access_volume_gets_the_tenants_token_and_ca() -> None:
    body, tokens = convert({"volumes": [KUBE_API_ACCESS]})
    assert tokens == (TokenSource("token-0", "", 3607),)
    (volume,) = body["spec"]["volumes"]
    assert volume == {
        "name": "kube-api-access-x2x4z",
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"secret": {"name": TOKEN_SECRET, "items": [{"key": "token-0", "path": "token"}]}},
                {"configMap": {"name": names.TENANT_ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {
                    "downwardAPI": {
                        "items": [
                            {
                                "path": "namespace",
                                "fieldRef": {
                                    "fieldPath": "metadata.annotations['tenancy.x-k8s.io/namespace']"
                                },
                            }
                        ]
                    }
                },
            ],
        },
    }
    assert body["metadata"]["annotations"][names.NAMESPACE] == "shop"
    assert body["spec"]["automountServiceAccountToken"] is False


def test_every_token_source_has_its_own_key_audience_and_lifetime() -> None:
    volumes = [
        {
            "name": "a",
            "projected": {"sources": [{"serviceAccountToken": {"audience": "vault", "path": "v"}}]},
        },
        KUBE_API_ACCESS,
        {
            "name": "b",
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"audience": "x", "expirationSeconds": 600, "path": "d/x"}}
                ]
            },
        },
    ]
    body, tokens = convert({"volumes": volumes})
    assert tokens == (
        TokenSource("token-0", "vault", 3600),
        TokenSource("token-1", "", 3607),
        TokenSource("token-2", "x", 600),
    )
    assert body["spec"]["volumes"][2]["projected"]["sources"] == [
        {"secret": {"name": TOKEN_SECRET, "items": [{"key": "token-2", "path": "d/x"}]}}
    ]


def test_every_reference_to_the_root_ca_is_converted() -> None:
    reference = {"name": "kube-root-ca.crt"}
    container = {
        "name": "app",
        "env": [{"name": "CA", "valueFrom": {"configMapKeyRef": {**reference, "key": "ca.crt"}}}],
        "envFrom": [{"configMapRef": reference}, {"configMapRef": {"name": "other"}}],
    }
    spec = converted(
        {
            "containers": [container],
            "initContainers": [{**container, "name": "init"}],
            "volumes": [{"name": "v", "configMap": reference}],
        }
    )
    assert "kube-root-ca.crt" not in json.dumps(spec).replace(names.TENANT_ROOT_CA, "")
    assert json.dumps(spec).count(names.TENANT_ROOT_CA) == 5
    assert spec["containers"][0]["envFrom"][1] == {"configMapRef": {"name": "other"}}


SOURCE = st.one_of(
    st.fixed_dictionaries(
        {
            "serviceAccountToken": st.fixed_dictionaries(
                {"path": st.text(max_size=5)}, optional={"audience": st.text(max_size=5)}
            )
        }
    ),
    st.just({"serviceAccountToken": None}),
    st.just({"serviceAccountToken": {}}),
    st.just({"secret": {"name": "s"}}),
    st.just({"configMap": {"name": "kube-root-ca.crt"}}),
    st.just({}),
)
VOLUME = st.one_of(
    st.builds(lambda sources: {"projected": {"sources": sources}}, st.lists(SOURCE, max_size=4)),
    st.just({"projected": {"sources": None}}),
    st.just({"projected": {}}),
    st.just({"emptyDir": {}}),
    st.just({"secret": {"secretName": "s"}}),
)


@given(st.lists(VOLUME, max_size=6), st.booleans())
def test_no_volume_gets_a_token_of_the_super_cluster(volumes: list[Json], automount: bool) -> None:
    named = [{"name": f"v{index}", **volume} for index, volume in enumerate(volumes)]
    wanted = json.dumps(named).count('"serviceAccountToken"')
    body, tokens = convert({"volumes": named, "automountServiceAccountToken": automount})
    assert "serviceAccountToken" not in json.dumps(body["spec"]["volumes"])
    assert body["spec"]["automountServiceAccountToken"] is False
    assert len(tokens) == wanted
    assert len({source.key for source in tokens}) == wanted


# --- API endpoint ---


def test_containers_get_the_tenants_api_endpoint() -> None:
    spec = converted(
        {"containers": [{"name": "a"}], "initContainers": [{"name": "b", "restartPolicy": "Always"}]}
    )
    for container in (spec["containers"][0], spec["initContainers"][0]):
        assert env(container) == {
            "KUBERNETES_SERVICE_HOST": "10.9.8.7",
            "KUBERNETES_SERVICE_PORT": "6443",
            "KUBERNETES_SERVICE_PORT_HTTPS": "6443",
            "KUBERNETES_PORT": "tcp://10.9.8.7:6443",
            "KUBERNETES_PORT_443_TCP": "tcp://10.9.8.7:6443",
            "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
            "KUBERNETES_PORT_443_TCP_PORT": "6443",
            "KUBERNETES_PORT_443_TCP_ADDR": "10.9.8.7",
        }
    assert spec["hostAliases"] == [
        {
            "ip": "10.9.8.7",
            "hostnames": [
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
                "kubernetes.default.svc.acme.local",
            ],
        }
    ]


def test_a_tenants_variables_take_precedence_and_may_refer_to_others() -> None:
    own = [
        {"name": "KUBERNETES_SERVICE_HOST", "value": "mine"},
        {"name": "URL", "value": "https://$(KUBERNETES_SERVICE_PORT)"},
    ]
    container = converted({"containers": [{"name": "a", "env": own}]})["containers"][0]
    assert [entry["value"] for entry in container["env"] if entry["name"] == "KUBERNETES_SERVICE_HOST"] == [
        "mine"
    ]
    order = [entry["name"] for entry in container["env"]]
    assert order.index("KUBERNETES_SERVICE_PORT") < order.index("URL")


@pytest.mark.parametrize(
    ("host", "bare", "url", "alias"),
    [
        ("api.acme.example", "api.acme.example", "tcp://api.acme.example:443", None),
        ("[fd00::1]", "fd00::1", "tcp://[fd00::1]:443", "fd00::1"),
        ("fd00::1", "fd00::1", "tcp://[fd00::1]:443", "fd00::1"),
    ],
)
def test_forms_of_the_api_host(host: str, bare: str, url: str, alias: str | None) -> None:
    context = msgspec.structs.replace(CONTEXT, api_host=host, api_port=443)
    given = [{"ip": "192.0.2.1", "hostnames": ["mine"]}]
    spec = converted({"hostAliases": given}, context=context)
    assert env(spec["containers"][0])["KUBERNETES_SERVICE_HOST"] == bare
    assert env(spec["containers"][0])["KUBERNETES_PORT"] == url
    assert spec["hostAliases"][0] == given[0]
    assert [entry["ip"] for entry in spec["hostAliases"][1:]] == ([alias] if alias else [])


# --- Downward API ---


def field_ref(path: str) -> Json:
    return {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.namespace", "shop"),
        ("metadata.uid", UID),
        ("metadata.name", None),
        ("metadata.labels['app']", None),
        ("status.podIP", None),
        ("status.hostIP", None),
        ("spec.serviceAccountName", None),
    ],
)
def test_variables_have_the_values_of_the_tenants_pod(path: str, value: str | None) -> None:
    spec = converted(
        {"containers": [{"name": "a", "env": [{"name": "X", "valueFrom": field_ref(path)}]}]},
        labels={"topology.kubernetes.io/zone": "z$1", "app": "web"},
        annotations={"k8s.io/note": "n"},
    )
    said = env(spec["containers"][0])["X"]
    assert said == (field_ref(path) if value is None else value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.labels['topology.kubernetes.io/zone']", "z$1"),
        ("metadata.labels['istio.io/rev']", "canary"),
        ("metadata.labels['tenancy.x-k8s.io/cluster']", ""),
        ("metadata.annotations['k8s.io/note']", "n"),
        ("metadata.annotations['acme.com/x']", "$(HOME)"),
        ("metadata.annotations['acme.com/absent']", ""),
    ],
)
def test_variables_show_what_is_not_copied_by_annotations_of_vcsync(path: str, value: str) -> None:
    body = convert(
        {"containers": [{"name": "a", "env": [{"name": "X", "valueFrom": field_ref(path)}]}]},
        labels={"topology.kubernetes.io/zone": "z$1", "istio.io/rev": "canary"},
        annotations={"k8s.io/note": "n", "acme.com/x": "$(HOME)"},
    )[0]
    said = env(body["spec"]["containers"][0])["X"]["fieldRef"]["fieldPath"]
    key = said.removeprefix("metadata.annotations['").removesuffix("']")
    assert key.startswith(names.DOWNWARD_PREFIX)
    assert body["metadata"]["annotations"][key] == value


def test_the_node_variable_has_the_virtual_nodes_name() -> None:
    variables = [{"name": name, "valueFrom": field_ref("spec.nodeName")} for name in ("NODE", "NODE2")]
    container = converted({"containers": [{"name": "a", "env": variables}]})["containers"][0]
    said = env(container)
    assert said[pod_downward.NODE_VARIABLE] == field_ref("spec.nodeName")
    assert said["NODE"] == said["NODE2"] == f"$({pod_downward.NODE_VARIABLE}).r1"
    order = [entry["name"] for entry in container["env"]]
    assert order.count(pod_downward.NODE_VARIABLE) == 1
    assert order.index(pod_downward.NODE_VARIABLE) < order.index("NODE")


@pytest.mark.parametrize("projected", [True, False])
def test_files_refer_to_the_values_of_the_tenants_pod(projected: bool) -> None:
    paths = [
        "metadata.namespace",
        "metadata.uid",
        "metadata.name",
        "metadata.labels",
        "metadata.annotations",
        "metadata.labels['app']",
        "metadata.labels['k8s.io/role']",
        "metadata.annotations['k8s.io/role']",
    ]
    items = [{"path": f"f{index}", "fieldRef": {"fieldPath": path}} for index, path in enumerate(paths)]
    items.append({"path": "cpu", "resourceFieldRef": {"containerName": "app", "resource": "limits.cpu"}})
    source: Json = {"downwardAPI": {"items": items}}
    volume = {"name": "v", "projected": {"sources": [source]}} if projected else {"name": "v", **source}
    body, _ = convert(
        {"volumes": [volume]}, labels={"app": "web", "k8s.io/role": "r"}, annotations={"note": 'a"b'}
    )
    converted_volume = body["spec"]["volumes"][0]
    holder = converted_volume["projected"]["sources"][0] if projected else converted_volume
    annotations = body["metadata"]["annotations"]

    def value_of(index: int) -> str:
        path = holder["downwardAPI"]["items"][index]["fieldRef"]["fieldPath"]
        prefix = "metadata.annotations['"
        return (
            str(annotations[path.removeprefix(prefix).removesuffix("']")])
            if path.startswith(prefix)
            else str(path)
        )

    assert [value_of(index) for index in range(len(paths))] == [
        "shop",
        UID,
        "metadata.name",
        'app="web"\nk8s.io/role="r"',
        'note="a\\"b"',
        "metadata.labels['app']",
        "r",
        "",
    ]
    assert holder["downwardAPI"]["items"][-1] == items[-1]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ("", '""'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("tab\tnl\n\r\a\b\f\v", '"tab\\tnl\\n\\r\\a\\b\\f\\v"'),
        ("\x00\x1f\x7f", '"\\x00\\x1f\\x7f"'),
        ("ü€😀", '"ü€😀"'),
        ("\u00a0\u200b\ufeff\u00ad", '"\\u00a0\\u200b\\ufeff\\u00ad"'),
        ("\ue000\U000e0001", '"\\ue000\\U000e0001"'),
        ("\u0085", '"\\u0085"'),
    ],
)
def test_values_are_quoted_as_the_kubelet_does(text: str, quoted: str) -> None:
    assert pod_downward.quote(text) == quoted


def test_annotations_whose_copies_are_too_large_are_refused() -> None:
    volume = {
        "name": "v",
        "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.annotations"}}]},
    }
    with pytest.raises(pod_convert.Refused, match=r"metadata\.annotations"):
        convert({"volumes": [volume]}, annotations={"big": "x" * 262_100})


# --- Affinity ---

CLUSTER_LABEL = {names.CLUSTER: KEY}


def affinity(term: Json) -> Json:
    spec = converted(
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [term],
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": term}
                    ],
                }
            }
        },
        labels={"app": "web", "pod-template-hash": "abc"},
    )
    anti = spec["affinity"]["podAntiAffinity"]
    required = anti["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert required == anti["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"]
    return dict(required)


@pytest.mark.parametrize(
    ("term", "result"),
    [
        (
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "h"},
            {"labelSelector": {"matchLabels": {"app": "web", **CLUSTER_LABEL}}, "topologyKey": "h"},
        ),
        (
            {"labelSelector": {"matchLabels": {names.CLUSTER: "other"}}},
            {"labelSelector": {"matchLabels": CLUSTER_LABEL}},
        ),
        ({"labelSelector": {}}, {"labelSelector": {"matchLabels": CLUSTER_LABEL}}),
        ({"topologyKey": "h"}, {"topologyKey": "h"}),
        (
            {"labelSelector": {}, "namespaces": ["shop", "web"]},
            {
                "labelSelector": {"matchLabels": CLUSTER_LABEL},
                "namespaces": [super_ns("shop"), super_ns("web")],
            },
        ),
        ({"namespaceSelector": {}}, {"namespaceSelector": {"matchLabels": CLUSTER_LABEL}}),
        (
            {
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": "web", "team": "a"},
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop"]},
                        {"key": "team", "operator": "Exists"},
                    ],
                }
            },
            {
                "namespaceSelector": {
                    "matchLabels": {
                        "kubernetes.io/metadata.name": super_ns("web"),
                        "team": "a",
                        **CLUSTER_LABEL,
                    },
                    "matchExpressions": [
                        {
                            "key": "kubernetes.io/metadata.name",
                            "operator": "In",
                            "values": [super_ns("shop")],
                        },
                        {"key": "team", "operator": "Exists"},
                    ],
                }
            },
        ),
        (
            {
                "labelSelector": {
                    "matchExpressions": [{"key": "pod-template-hash", "operator": "In", "values": ["abc"]}]
                },
                "matchLabelKeys": ["pod-template-hash"],
            },
            {
                "labelSelector": {
                    "matchExpressions": [{"key": "pod-template-hash", "operator": "In", "values": ["abc"]}],
                    "matchLabels": CLUSTER_LABEL,
                }
            },
        ),
        (
            {
                "labelSelector": {
                    "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]
                },
                "mismatchLabelKeys": ["app", "unmerged"],
            },
            {
                "labelSelector": {
                    "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}],
                    "matchLabels": CLUSTER_LABEL,
                },
                "mismatchLabelKeys": ["unmerged"],
            },
        ),
    ],
)
def test_pod_terms_are_restricted_to_the_tenant(term: Json, result: Json) -> None:
    assert affinity(term) == result


def test_a_pod_has_its_tenants_key_as_label() -> None:
    body, _ = convert({}, labels={names.CLUSTER: "other", "a": "b"})
    assert body["metadata"]["labels"][names.CLUSTER] == KEY
    assert body["metadata"]["labels"]["a"] == "b"


def node_terms(*terms: Json) -> Json:
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    }


def test_virtual_node_names_become_real_ones() -> None:
    bench = Bench()
    bench.put("super", NODES, {"metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": "host-1"}}})
    spec = converted(
        {
            "nodeSelector": {
                "kubernetes.io/hostname": f"{NODE}.r1",
                "disk": "ssd",
                names.SUPER_CLUSTER_ID: "r1",
            },
            "affinity": node_terms(
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"{NODE}.r1"]}]},
                {
                    "matchExpressions": [
                        {
                            "key": "kubernetes.io/hostname",
                            "operator": "In",
                            "values": [f"{NODE}.r1", "x.r1", "y.r2"],
                        },
                        {"key": names.VIRTUAL_NODE, "operator": "Exists"},
                    ]
                },
            ),
        },
        bench=bench,
    )
    assert spec["nodeSelector"] == {"kubernetes.io/hostname": "host-1", "disk": "ssd"}
    assert spec["affinity"] == node_terms(
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]},
        {
            "matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-1", "x", "y.r2"]}
            ]
        },
    )


def test_a_requirement_that_every_node_here_satisfies_is_removed() -> None:
    met = {"matchExpressions": [{"key": names.SUPER_CLUSTER_ID, "operator": "In", "values": ["r1", "r2"]}]}
    other = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    spec = converted({"affinity": node_terms(met, other)})
    assert spec["affinity"] == {}
    elsewhere = {"matchExpressions": [{"key": names.SUPER_CLUSTER_ID, "operator": "In", "values": ["r2"]}]}
    assert converted({"affinity": node_terms(elsewhere)})["affinity"] == node_terms(elsewhere)


@pytest.mark.parametrize(
    "negation",
    [
        {"key": names.SUPER_CLUSTER_ID, "operator": "NotIn", "values": ["r1"]},
        {"key": names.VIRTUAL_NODE, "operator": "DoesNotExist"},
    ],
)
def test_a_requirement_that_no_virtual_node_satisfies_matches_no_real_node(negation: Json) -> None:
    never = {"matchExpressions": [{"key": negation["key"], "operator": "Exists"}]}
    spec = converted({"affinity": node_terms({"matchExpressions": [negation]})})
    assert spec["affinity"] == node_terms(never)


def test_merged_keys_of_spread_constraints_are_removed() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "labelSelector": {"matchExpressions": [{"key": "h", "operator": "In", "values": ["1"]}]},
        "matchLabelKeys": ["h", "unmerged"],
    }
    spec = converted({"topologySpreadConstraints": [constraint]}, labels={"h": "1"})
    assert spec["topologySpreadConstraints"] == [{**constraint, "matchLabelKeys": ["unmerged"]}]


# --- Other fields ---


def test_scheduling_fields_belong_to_the_super_cluster() -> None:
    spec = converted(
        {
            "nodeName": "x",
            "schedulerName": "mine",
            "priorityClassName": "system-node-critical",
            "priority": 2_000_001_000,
            "preemptionPolicy": "PreemptLowerPriority",
            "overhead": {"cpu": "1"},
            "schedulingGates": [],
            "hostname": "h",
            "subdomain": "s",
            "enableServiceLinks": True,
            "securityContext": {"runAsUser": 1},
            "resources": {"limits": {"cpu": "2"}},
        }
    )
    for dropped in (
        "nodeName",
        "priorityClassName",
        "priority",
        "preemptionPolicy",
        "overhead",
        "schedulingGates",
    ):
        assert dropped not in spec
    assert spec["schedulerName"] == "default-scheduler"
    assert (spec["hostname"], spec["subdomain"]) == ("h", "s")
    assert spec["enableServiceLinks"] is True
    assert spec["securityContext"] == {"runAsUser": 1}
    assert spec["resources"] == {"limits": {"cpu": "2"}}


def test_a_mapped_priority_class_has_its_super_name() -> None:
    context = msgspec.structs.replace(CONTEXT, priority_classes={"high": "tenant-high"})
    spec = converted({"priorityClassName": "high", "priority": 1000}, context=context)
    assert spec["priorityClassName"] == "tenant-high"
    assert "priority" not in spec


@pytest.mark.parametrize(
    ("resources", "result"),
    [
        ({}, {"requests": {"cpu": "0", "memory": "0"}}),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1", "memory": "0"}}),
        ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1Gi"}, "requests": {"cpu": "0"}}),
        (
            {"requests": {"cpu": "1", "memory": "1Gi"}, "claims": [{"name": "c"}]},
            {"requests": {"cpu": "1", "memory": "1Gi"}, "claims": [{"name": "c"}]},
        ),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, {"limits": {"cpu": "1", "memory": "1Gi"}}),
    ],
)
def test_every_container_has_requests_for_the_quota(resources: Json, result: Json) -> None:
    spec = converted(
        {
            "containers": [{"name": "a", "resources": resources}],
            "initContainers": [{"name": "b", "resources": resources}],
        }
    )
    assert spec["containers"][0]["resources"] == result
    assert spec["initContainers"][0]["resources"] == result


WITH_DNS = msgspec.structs.replace(CONTEXT, dns_nameserver="10.97.0.10")


def test_no_container_may_use_a_whole_node() -> None:
    """Containers without requests do not count, and so as many ran as Pods were allowed, each without a limit."""
    bench = Bench()
    bench.place()
    greedy = {"name": "a", "resources": {"limits": {"cpu": "64"}, "requests": {"cpu": "1m"}}}
    spec = converted({"containers": [{"name": "b"}, greedy], "initContainers": [{"name": "c"}]}, bench=bench)
    found = [each["resources"]["limits"] for each in (*spec["containers"], *spec["initContainers"])]
    assert found == [{"cpu": "4", "memory": "8Gi"}] * 3


def test_containers_have_no_limits_that_their_pod_has() -> None:
    bench = Bench()
    bench.place()
    spec = converted({"resources": {"limits": {"cpu": "1"}}, "containers": [{"name": "a"}]}, bench=bench)
    assert spec["containers"][0]["resources"]["limits"] == {"memory": "8Gi"}
    assert spec["resources"]["limits"] == {"cpu": "1"}
    spec = converted({"resources": {"limits": {"cpu": "64"}}, "containers": [{"name": "a"}]}, bench=bench)
    assert spec["resources"]["limits"] == {"cpu": "4"}


def test_names_are_resolved_by_the_tenants_name_server() -> None:
    own = {
        "nameservers": ["192.0.2.53"],
        "searches": ["x.example", "acme.local"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
    }
    spec = converted({"dnsPolicy": "ClusterFirst", "dnsConfig": own}, context=WITH_DNS)
    assert spec["dnsPolicy"] == "None"
    assert spec["dnsConfig"] == {
        "nameservers": ["10.97.0.10", "192.0.2.53"],
        "searches": ["shop.svc.acme.local", "svc.acme.local", "acme.local", "x.example"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
    }


@pytest.mark.parametrize(
    ("spec", "labels", "context", "policy"),
    [
        ({"dnsPolicy": "ClusterFirst"}, {}, CONTEXT, "Default"),
        (
            {"dnsPolicy": "ClusterFirst"},
            {names.DISABLE_DNS_POLICY_MUTATION: "true"},
            WITH_DNS,
            "ClusterFirst",
        ),
        ({"dnsPolicy": "Default"}, {}, WITH_DNS, "Default"),
        ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.1"]}}, {}, WITH_DNS, "None"),
        ({"dnsPolicy": "ClusterFirst", "hostNetwork": True}, {}, WITH_DNS, "ClusterFirst"),
        ({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True}, {}, WITH_DNS, "None"),
        ({"dnsPolicy": "ClusterFirstWithHostNet"}, {}, WITH_DNS, "None"),
    ],
)
def test_dns_policies(spec: Json, labels: dict[str, str], context: TenantContext, policy: str) -> None:
    assert converted(spec, context=context, labels=labels)["dnsPolicy"] == policy


# --- Policy ---

PERMISSIONS = [name for name in PodPolicy.__struct_fields__ if getattr(PodPolicy(), name) == "Refuse"]
ALLOW_ALL = PodPolicy(**dict.fromkeys(PERMISSIONS, "Allow"))

HOSTILE: list[tuple[str, Json, str]] = [
    ("host_network", {"hostNetwork": True}, "spec.hostNetwork"),
    ("host_pid", {"hostPID": True}, "spec.hostPID"),
    ("host_ipc", {"hostIPC": True}, "spec.hostIPC"),
    (
        "host_path",
        {"volumes": [{"name": "a"}, {"name": "b", "hostPath": {"path": "/"}}]},
        "spec.volumes[1].hostPath",
    ),
    (
        "host_port",
        {"containers": [{"name": "a", "ports": [{"hostPort": 80}]}]},
        "spec.containers[0].ports[0].hostPort",
    ),
    (
        "host_port",
        {"initContainers": [{"name": "a", "ports": [{"containerPort": 1}, {"hostPort": 80}]}]},
        "spec.initContainers[0].ports[1].hostPort",
    ),
    *(
        (
            "privileged",
            {field: [{"name": "a", "securityContext": security}]},
            f"spec.{field}[0].securityContext.{path}",
        )
        for field in ("containers", "initContainers", "ephemeralContainers")
        for security, path in (
            ({"privileged": True}, "privileged"),
            ({"procMount": "Unmasked"}, "procMount"),
            ({"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}}, "capabilities.add: SYS_ADMIN"),
            ({"capabilities": {"add": ["cap_sys_admin"]}}, "capabilities.add: cap_sys_admin"),
            ({"capabilities": {"add": ["ALL"]}}, "capabilities.add: ALL"),
            ({"windowsOptions": {"hostProcess": True}}, "windowsOptions.hostProcess"),
            ({"seLinuxOptions": {"type": "spc_t"}}, "seLinuxOptions.type: spc_t"),
            ({"seLinuxOptions": {"role": "system_r"}}, "seLinuxOptions.role"),
            ({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile.type: Unconfined"),
            ({"appArmorProfile": {"type": "Unconfined"}}, "appArmorProfile.type: Unconfined"),
        )
    ),
    *(
        (
            "host_network",
            {"containers": [{"name": "a", "livenessProbe": {action: {"host": "127.0.0.1", "port": 10255}}}]},
            f"spec.containers[0].livenessProbe.{action}.host",
        )
        for action in ("httpGet", "tcpSocket")
    ),
    (
        "host_network",
        {
            "initContainers": [
                {"name": "a", "lifecycle": {"preStop": {"httpGet": {"host": "169.254.169.254"}}}}
            ]
        },
        "spec.initContainers[0].lifecycle.preStop.httpGet.host",
    ),
    *(
        ("node_volumes", {"volumes": [{"name": "a"}, {"name": "b", kind: {}}]}, f"spec.volumes[1].{kind}")
        for kind in ("awsElasticBlockStore", "csi", "flexVolume", "gitRepo", "iscsi", "nfs", "yetUnknown")
    ),
    (
        "privileged",
        {"securityContext": {"windowsOptions": {"hostProcess": True}}},
        "spec.securityContext.windowsOptions",
    ),
    (
        "privileged",
        {"securityContext": {"seLinuxOptions": {"user": "system_u", "type": "container_t"}}},
        "spec.securityContext.seLinuxOptions.user",
    ),
    ("node_name", {"nodeName": "n.r1"}, "spec.nodeName"),
    ("control_plane_tolerations", {"tolerations": [{"operator": "Exists"}]}, "spec.tolerations[0]"),
    (
        "control_plane_tolerations",
        {"tolerations": [{"key": "", "operator": "Exists", "effect": "NoExecute"}]},
        "spec.tolerations[0]",
    ),
    (
        "control_plane_tolerations",
        {"tolerations": [{"key": "a"}, {"key": "node-role.kubernetes.io/control-plane"}]},
        "spec.tolerations[1]",
    ),
]


@pytest.mark.parametrize("policy", [PodPolicy(), ALLOW_ALL])
def test_tolerations_are_checked_against_the_policy(policy: PodPolicy) -> None:
    limited = msgspec.structs.replace(policy, tolerations=("spot",))
    kept = {
        "spot": True,
        "node.kubernetes.io/not-ready": True,
        "gpu": False,
        "": False,
        "node-role.kubernetes.io/control-plane": policy is ALLOW_ALL,
    }
    for key, allowed in kept.items():
        spec = {"tolerations": [{"key": "spot"}, {"key": key, "operator": "Exists"}]}
        found = list(pod_policy.refusals(spec, limited))
        expected = [] if allowed else ["spec.tolerations[1]"]
        assert [reason.partition(" ")[0] for reason in found] == expected, key


@pytest.mark.parametrize(("field", "spec", "path"), HOSTILE)
def test_access_to_the_node_is_refused_unless_allowed(field: str, spec: Json, path: str) -> None:
    (reason,) = pod_policy.refusals(spec, PodPolicy())
    assert reason.startswith(path)
    assert list(pod_policy.refusals(spec, msgspec.structs.replace(PodPolicy(), **{field: "Allow"}))) == []
    others = msgspec.structs.replace(ALLOW_ALL, **{field: "Refuse"})
    assert len(list(pod_policy.refusals(spec, others))) == 1


BY_CLASS = "deviceclass.resource.kubernetes.io/"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (
            {"volumes": [{"name": "a", "projected": {"sources": [{}, {"clusterTrustBundle": {}}]}}]},
            "spec.volumes[0].projected.sources[1].clusterTrustBundle",
        ),
        (
            {"volumes": [{"name": "a", "projected": {"sources": [{"podCertificate": {}}]}}]},
            "spec.volumes[0].projected.sources[0].podCertificate",
        ),
        ({"resourceClaims": [{"name": "gpu", "podGroup": "x"}]}, "spec.resourceClaims[0].podGroup"),
        *(
            (
                {
                    field: [
                        {"name": "a"},
                        {"name": "b", "resources": {kind: {f"{BY_CLASS}gpu": "1", "cpu": "1"}}},
                    ]
                },
                f"spec.{field}[1].resources: {BY_CLASS}gpu",
            )
            for field in ("containers", "initContainers")
            for kind in ("requests", "limits")
        ),
    ],
)
def test_unsupported_fields_are_refused_under_any_policy(spec: Json, path: str) -> None:
    (reason,) = pod_policy.refusals(spec, ALLOW_ALL)
    assert reason.startswith(path)


def sysctls(*found: str) -> Json:
    return {"securityContext": {"sysctls": [{"name": name, "value": "1"} for name in found]}}


@pytest.mark.parametrize(
    ("policy", "name", "refused"),
    [
        (PodPolicy(), "net.core.somaxconn", True),
        (PodPolicy(), "kernel.msgmax", True),
        (PodPolicy(), "net/ipv4/tcp_syncookies", True),
        (PodPolicy(), "net.ipv4.tcp_syncookies", False),
        (PodPolicy(sysctls=("net.core.somaxconn",)), "net.core.somaxconn", False),
        (PodPolicy(sysctls=("net.core.somaxconn",)), "net.core.somaxconn2", True),
        (PodPolicy(sysctls=("kernel.msg*", "net.core.*")), "net.core.rmem_max", False),
        (PodPolicy(sysctls=("kernel.msg*",)), "kernel.sem", True),
        (PodPolicy(privileged="Allow"), "kernel.sem", False),
    ],
)
def test_sysctls_beyond_baseline_need_the_operators_permission(
    policy: PodPolicy, name: str, refused: bool
) -> None:
    found = list(pod_policy.refusals(sysctls("kernel.shm_rmid_forced", name), policy))
    assert [each.partition(":")[0] for each in found] == ["spec.securityContext.sysctls[1]"] * refused


def test_the_safe_sysctls_are_those_of_the_standard_as_the_api_server_has_it() -> None:
    safe = sysctls(*pod_policy.SAFE_SYSCTLS)
    assert not findings(restricted=False, minor=36, metadata={}, spec=safe)
    assert findings(restricted=False, minor=36, metadata={}, spec=sysctls("net.core.somaxconn"))
    assert pod_policy.SAFE_SYSCTLS == pod_checks._SYSCTLS_32


@pytest.mark.parametrize("policy", ["Always", "AsWritten"])
def test_the_operator_may_have_the_registry_asked_at_each_start(policy: Any) -> None:
    """A node may have another tenant's private image, which starts without its credentials otherwise."""
    context = msgspec.structs.replace(CONTEXT, policy=PodPolicy(image_pull=policy))
    volumes = [
        {"name": "a", "image": {"reference": "i", "pullPolicy": "Never"}},
        {"name": "b", "emptyDir": {}},
    ]
    written = {"name": "c", "image": "i", "imagePullPolicy": "IfNotPresent"}
    spec = converted(
        {"containers": [written], "initContainers": [{**written, "name": "d"}], "volumes": volumes},
        context=context,
    )
    always = policy == "Always"
    found = [each["imagePullPolicy"] for each in (*spec["containers"], *spec["initContainers"])]
    assert found == ["Always" if always else "IfNotPresent"] * 2
    assert spec["volumes"][0]["image"]["pullPolicy"] == ("Always" if always else "Never")
    ephemeral: Json = {"name": "e", "image": "i", "imagePullPolicy": "Never"}
    v = parse(b'{"metadata": {"name": "web-0", "namespace": "shop"}}')
    pod_convert.convert_container(ephemeral, v, context)
    assert ephemeral["imagePullPolicy"] == ("Always" if always else "Never")


def test_an_ordinary_restricted_pod_passes() -> None:
    spec = {
        "containers": [
            {
                "name": "a",
                "ports": [{"containerPort": 80}],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "privileged": False,
                    "procMount": "Default",
                    "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
                    "seccompProfile": {"type": "RuntimeDefault"},
                    "appArmorProfile": {"type": "Localhost", "localhostProfile": "acme"},
                    "seLinuxOptions": {"type": "container_t", "level": "s0:c1,c2"},
                },
                "livenessProbe": {"httpGet": {"path": "/", "port": 80, "host": ""}},
                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            }
        ],
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        "volumes": [
            KUBE_API_ACCESS,
            {"name": "e", "emptyDir": {}},
            {"name": "i", "image": {"reference": "acme/data:1"}},
            {"name": "s", "secret": {"secretName": "s"}, "csi": None},
        ],
        "hostNetwork": False,
    }
    assert list(pod_policy.refusals(spec, PodPolicy())) == []


# --- Hostile metadata ---


@given(st.dictionaries(st.text("abc./-", min_size=1, max_size=8), st.text(max_size=20), max_size=5))
@settings(max_examples=60)
def test_any_value_is_one_line_in_files(labels: dict[str, str]) -> None:
    text = pod_downward.format_map(labels)
    assert len(text.split("\n")) == max(1, len(labels))
    assert all(char == "\n" or ord(char) >= 0x20 for char in text)

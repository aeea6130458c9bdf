"""Labels and annotations that programs of super clusters obey: none reaches a copy unless the operator allows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds_bench import CONTEXT, Bench, super_ns

from vcsync.api import names
from vcsync.api.specs import PodPolicy, ServicePolicy
from vcsync.kube.resources import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    INGRESSES,
    NAMESPACES,
    NETWORK_POLICIES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from vcsync.objects.envelope import parse
from vcsync.objects.selectors import LabelSelector, compile_selector
from vcsync.syncer.kinds import KINDS, keys, obeyed_labels, pod_downward
from vcsync.syncer.kinds.plan import EMPTY, TenantContext

Json = dict[str, Any]

BODIES: dict[Resource, Json] = {
    NAMESPACES: {},
    SERVICE_ACCOUNTS: {},
    CONFIG_MAPS: {"data": {"a": "1"}},
    SECRETS: {"type": "Opaque", "data": {"a": "MQ=="}},
    SERVICES: {"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}},
    ENDPOINTS: {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    ENDPOINT_SLICES: {"addressType": "IPv4", "endpoints": [], "ports": []},
    NETWORK_POLICIES: {"spec": {"podSelector": {}}},
    POD_DISRUPTION_BUDGETS: {"spec": {"selector": {"matchLabels": {"app": "web"}}}},
    PODS: {"spec": {"containers": [{"name": "app", "image": "i"}]}, "status": {}},
}
"""A body of each kind that has labels and annotations in super clusters, besides Ingresses."""
KIND_IDS = [resource.plural for resource in BODIES]
ANNOTATIONS = {
    "services": [
        "metallb.io/loadBalancerIPs",
        "metallb.universe.tf/allow-shared-ip",
        "lbipam.cilium.io/ips",
        "kube-vip.io/loadbalancerIPs",
        "loadbalancer.openstack.org/load-balancer-id",
        "getambassador.io/config",
        "haproxy.org/backend-config-snippet",
        "tailscale.com/expose",
        "service.beta.kubernetes.io/aws-load-balancer-type",
    ],
    "pods": [
        "k8s.v1.cni.cncf.io/networks",
        "cni.projectcalico.org/ipAddrs",
        "iam.amazonaws.com/role",
        "io.kubernetes.cri-o.Devices",
        "io.katacontainers.config.hypervisor.path",
        "prometheus.io/scrape",
        "kubernetes.io/egress-bandwidth",
    ],
    "namespaces": [
        "openshift.io/node-selector",
        "cni.projectcalico.org/ipv4pools",
        "field.cattle.io/projectId",
    ],
    "secrets": ["replicator.v1.mittwald.de/replicate-to"],
    "configmaps": ["k8s-sidecar-target-directory"],
    "serviceaccounts": ["eks.amazonaws.com/role-arn"],
}
LABELS = {
    "configmaps": ["grafana_dashboard", "grafana_datasource", "loki_rule"],
    "secrets": ["argocd.argoproj.io/secret-type", "konghq.com/credential"],
    "namespaces": [
        "istio-injection",
        "admission.gatekeeper.sh/ignore",
        "control-plane",
        "field.cattle.io/projectId",
    ],
    "pods": [
        "sidecar.istio.io/inject",
        "azure.workload.identity/use",
        "io.cilium.k8s.policy.cluster",
        "kuma.io/sidecar-injection",
        "linkerd.io/inject",
        "pcns.team",
        "pcsa.example.com/role",
        "kubevirt.io",
        "io.kompose.service",
    ],
    "services": ["istio.io/global"],
}


def put(bench: Bench, resource: Resource, *, name: str = "web", **meta: Any) -> Json:
    """Store a tenant's object, with what it needs to go down."""
    if resource == NAMESPACES:
        bench.placements[name] = bench.placements["shop"]
    if resource == ENDPOINT_SLICES:
        bench.put("tenant", SERVICES, {"metadata": {"name": "bare"}, "spec": {"ports": [{"port": 80}]}})
        bench.settle("services", "shop", "bare")
        meta["labels"] = {"kubernetes.io/service-name": "bare", **meta.get("labels", {})}
    return bench.put(
        "tenant", resource, json.loads(json.dumps({**BODIES[resource], "metadata": {"name": name, **meta}}))
    )


def settle(bench: Bench, resource: Resource, name: str = "web") -> None:
    bench.settle(resource.plural, "" if resource == NAMESPACES else "shop", name)


def below(bench: Bench, resource: Resource, name: str = "web") -> Json:
    if resource == NAMESPACES:
        return bench.get("super", NAMESPACES, super_ns(name))
    return bench.get("super", resource, name)


def goes_down(bench: Bench, resource: Resource, **meta: Any) -> Json:
    put(bench, resource, **meta)
    settle(bench, resource)
    found: Json = below(bench, resource)["metadata"]
    return found


def allowing(*, pods: tuple[str, ...] = (), services: tuple[str, ...] = ()) -> TenantContext:
    return msgspec.structs.replace(
        CONTEXT,
        policy=PodPolicy(annotations=pods, labels=pods),
        service_policy=ServicePolicy(annotations=services, labels=services),
    )


OURS = ("tenancy.x-k8s.io/", "scheduler.virtualcluster.io/")


def cases(table: dict[str, list[str]]) -> list[tuple[Resource, str]]:
    by_plural = {resource.plural: resource for resource in BODIES}
    return [(by_plural[plural], key) for plural, listed in table.items() for key in listed]


def not_ours(found: Json) -> Json:
    return {key: value for key, value in found.items() if not key.startswith(OURS)}


# --- What reaches a super cluster ---


@pytest.mark.parametrize(("resource", "key"), cases(ANNOTATIONS))
def test_annotations_that_programs_obey_stay_in_the_tenant(
    bench: Bench, resource: Resource, key: str
) -> None:
    found = goes_down(bench, resource, annotations={key: "x"})
    assert key not in found["annotations"]
    assert "x" not in found["annotations"].values()


@pytest.mark.parametrize(("resource", "key"), cases(LABELS))
def test_labels_that_programs_obey_have_another_key(bench: Bench, resource: Resource, key: str) -> None:
    found = goes_down(bench, resource, labels={key: "x", "app": "web"})
    assert key not in found["labels"]
    assert found["labels"][keys.renamed(key)] == "x"
    assert found["labels"]["app"] == "web"
    assert found["annotations"][names.LEFT_OUT] == f"metadata.labels {key}"


@pytest.mark.parametrize("resource", BODIES, ids=KIND_IDS)
def test_labels_of_workloads_keep_their_keys(bench: Bench, resource: Resource) -> None:
    labels = {
        "app.kubernetes.io/name": "a",
        "batch.kubernetes.io/job-name": "j",
        "team": "t",
        "example.com/x": "y",
    }
    found = goes_down(bench, resource, labels=labels)
    assert labels.items() <= found["labels"].items()
    assert names.LEFT_OUT not in found["annotations"]


def test_controllers_are_selected_by_the_label_that_takes_namespaces_out_of_checks(bench: Bench) -> None:
    found = goes_down(bench, PODS, labels={"control-plane": "controller-manager"})
    assert found["labels"]["control-plane"] == "controller-manager"


@pytest.mark.parametrize("resource", BODIES, ids=KIND_IDS)
def test_the_operator_allows_annotations_and_labels(bench: Bench, resource: Resource) -> None:
    given = (
        "example.com/exact",
        "mesh.example.com/*",
        "service.beta.kubernetes.io/*",
        "sidecar.istio.io/inject",
    )
    of_networks = resource in (SERVICES, ENDPOINTS, ENDPOINT_SLICES, NETWORK_POLICIES)
    bench.context = allowing(services=given) if of_networks else allowing(pods=given)
    annotations = {
        "example.com/exact": "1",
        "example.com/exactly": "2",
        "mesh.example.com/a": "3",
        "service.beta.kubernetes.io/b": "4",
    }
    found = goes_down(bench, resource, annotations=annotations, labels={"sidecar.istio.io/inject": "true"})
    assert not_ours(found["annotations"]) == {
        key: value for key, value in annotations.items() if value != "2"
    }
    assert found["labels"]["sidecar.istio.io/inject"] == "true"
    assert found["annotations"][names.LEFT_OUT] == "metadata.annotations example.com/exactly"


def test_each_policy_is_for_its_own_kinds(bench: Bench) -> None:
    bench.context = allowing(services=("example.com/*",))
    assert not_ours(goes_down(bench, PODS, annotations={"example.com/a": "1"})["annotations"]) == {}
    bench.context = allowing(pods=("example.com/*",))
    assert not_ours(goes_down(bench, SERVICES, annotations={"example.com/a": "1"})["annotations"]) == {}


@pytest.mark.parametrize("key", ["io.kubernetes.cri-o.Devices", "IO.kubernetes.cri-o.Devices", "io.x"])
def test_keys_of_runtimes_never_go_down(bench: Bench, key: str) -> None:
    bench.context = allowing(pods=("io*", "IO*", key))
    found = goes_down(bench, PODS, annotations={key: "x"}, labels={key: "x"})
    assert key not in found["annotations"]
    assert key not in found["labels"] or not key.startswith("io.")


@pytest.mark.parametrize(
    "key", [names.UID, "Tenancy.x-k8s.io/uid", f"sub.{names.UID}", "tenancy.x-k8s.io/new"]
)
def test_no_pattern_allows_keys_of_vcsync(bench: Bench, key: str) -> None:
    bench.context = allowing(pods=("tenancy*", "Tenancy*", "sub*", key))
    assert "forged" not in goes_down(bench, CONFIG_MAPS, annotations={key: "forged"})["annotations"].values()


_SPELLED = st.one_of(
    st.sampled_from([key for table in (ANNOTATIONS, LABELS) for listed in table.values() for key in listed]),
    st.builds(lambda a, b: f"{a}/{b}", st.text(max_size=9), st.text(max_size=5)),
    st.builds(lambda a: f"io.{a}", st.text(max_size=9)),
    st.text(min_size=1, max_size=12),
).flatmap(lambda key: st.sampled_from([key, key.upper(), key.title(), f"x.{key}", f"{key}x", f"{key}/x"]))


@given(
    st.sampled_from(list(BODIES)),
    st.dictionaries(_SPELLED, st.just("tenants"), max_size=6),
    st.dictionaries(_SPELLED, st.just("tenants"), max_size=6),
    st.lists(st.sampled_from(["example.com/*", "metallb.io/loadBalancerIPs", "pods*"]), max_size=2),
)
@settings(deadline=None)
def test_no_annotation_outside_the_list_reaches_a_super_cluster(
    resource: Resource, annotations: dict[str, str], labels: dict[str, str], patterns: list[str]
) -> None:
    bench = Bench(allowing(pods=tuple(patterns), services=tuple(patterns)))
    bench.place("shop")
    labels.pop("kubernetes.io/service-name", None)
    found = goes_down(bench, resource, annotations=annotations, labels=labels)
    exact = {pattern for pattern in patterns if not pattern.endswith("*")}
    prefixes = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
    copied = {key for key, value in found["annotations"].items() if value == "tenants"}
    assert all(key in exact or key.startswith(prefixes) for key in copied)
    assert copied == {key for key in annotations if keys.is_allowed(key, resource, bench.context)}
    assert not any(
        obeyed_labels.is_obeyed(key, resource.plural) and key not in exact and not key.startswith(prefixes)
        for key, value in found["labels"].items()
        if value == "tenants"
    )
    bench.context = CONTEXT
    settle(bench, resource)
    assert "tenants" not in below(bench, resource)["metadata"]["annotations"].values()


@given(st.text(min_size=1, max_size=317))
def test_another_key_is_a_valid_label(key: str) -> None:
    domain, _, name = keys.renamed("a" + key.replace(key[0], "b")).partition("/")
    assert domain == names.WITHHELD_DOMAIN
    assert 0 < len(name) <= names.MAX_LABEL_LENGTH


# --- Selectors ---


KEY = "istio.io/rev"


def test_a_service_selects_by_the_keys_of_copies(bench: Bench) -> None:
    pod = goes_down(bench, PODS, labels={KEY: "canary", "app": "web"})
    service = put(bench, SERVICES)
    service["spec"]["selector"] = {KEY: "canary", "app": "web"}
    settle(bench, SERVICES)
    selector = below(bench, SERVICES)["spec"]["selector"]
    assert selector == {keys.renamed(KEY): "canary", "app": "web"}
    assert selector.items() <= pod["labels"].items()
    bench.context = allowing(pods=("istio.io/*",))
    settle(bench, SERVICES)
    settle(bench, PODS)
    assert below(bench, SERVICES)["spec"]["selector"] == {KEY: "canary", "app": "web"}
    assert below(bench, PODS)["metadata"]["labels"][KEY] == "canary"
    assert keys.renamed(KEY) not in below(bench, PODS)["metadata"]["labels"]


def _selects(selector: Json, labels: dict[str, str]) -> bool:
    return compile_selector(msgspec.convert(selector, LabelSelector)).matches(labels)


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {KEY: "canary"}},
        {"matchExpressions": [{"key": KEY, "operator": "In", "values": ["canary"]}]},
        {"matchExpressions": [{"key": KEY, "operator": "Exists"}], "matchLabels": {"app": "web"}},
    ],
)
def test_policies_and_budgets_select_by_the_keys_of_copies(bench: Bench, selector: Json) -> None:
    labels = {KEY: "canary", "app": "web"}
    pod = goes_down(bench, PODS, labels=labels)["labels"]
    space = goes_down(bench, NAMESPACES, labels=labels)["labels"]
    peer = {"podSelector": selector, "namespaceSelector": selector}
    policy = put(bench, NETWORK_POLICIES)
    policy["spec"] = {"podSelector": selector, "ingress": [{"from": [peer]}], "egress": [{"to": [peer]}]}
    settle(bench, NETWORK_POLICIES)
    spec = below(bench, NETWORK_POLICIES)["spec"]
    budget = put(bench, POD_DISRUPTION_BUDGETS)
    budget["spec"]["selector"] = selector
    settle(bench, POD_DISRUPTION_BUDGETS)
    for used in (
        spec["podSelector"],
        spec["ingress"][0]["from"][0]["podSelector"],
        spec["egress"][0]["to"][0]["podSelector"],
        below(bench, POD_DISRUPTION_BUDGETS)["spec"]["selector"],
    ):
        assert _selects(used, pod)
        assert KEY not in json.dumps(used).replace(keys.renamed(KEY), "")
    assert _selects(spec["ingress"][0]["from"][0]["namespaceSelector"], space)


def test_pods_repel_each_other_by_the_keys_of_copies(bench: Bench) -> None:
    term = {"labelSelector": {"matchLabels": {KEY: "a"}}, "topologyKey": "zone", "matchLabelKeys": [KEY]}
    pod = put(bench, PODS, labels={KEY: "a"})
    pod["spec"] |= {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "topologySpreadConstraints": [{**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
    }
    settle(bench, PODS)
    spec = below(bench, PODS)["spec"]
    anti = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    for used in (anti, spec["topologySpreadConstraints"][0]):
        assert used["labelSelector"]["matchLabels"][keys.renamed(KEY)] == "a"
        assert used["matchLabelKeys"] == [keys.renamed(KEY)]
        assert KEY not in used["labelSelector"]["matchLabels"]


# --- Owners of keys ---


@pytest.mark.parametrize("resource", BODIES, ids=KIND_IDS)
def test_what_programs_of_the_super_cluster_write_stays(bench: Bench, resource: Resource) -> None:
    bench.context = allowing(pods=("metallb.io/*",), services=("metallb.io/*",))
    goes_down(bench, resource, annotations={"metallb.io/a": "1"}, labels={KEY: "tenants"})
    theirs = {"cni.projectcalico.org/podIP": "10.1.1.1", "metallb.io/ip-allocated-from-pool": "public"}
    labels = {KEY: "operators", "security.istio.io/tlsMode": "istio"}
    metadata = below(bench, resource)["metadata"]
    metadata["annotations"] |= theirs
    metadata["labels"] |= labels
    name = "web"
    assert bench.plan(resource.plural, "" if resource == NAMESPACES else "shop", name).actions == ()
    tenants = bench.get("tenant", resource, name)["metadata"]
    tenants["annotations"] = {"metallb.io/b": "2"}
    tenants["labels"] = {key: value for key, value in tenants["labels"].items() if key != KEY}
    settle(bench, resource)
    after = below(bench, resource)["metadata"]
    assert not_ours(after["annotations"]) == theirs | {"metallb.io/b": "2"}
    assert labels.items() <= after["labels"].items()
    assert keys.renamed(KEY) not in after["labels"]


@pytest.mark.parametrize("resource", BODIES, ids=KIND_IDS)
def test_copies_of_earlier_versions_lose_what_is_not_allowed(bench: Bench, resource: Resource) -> None:
    annotations = {"metallb.io/loadBalancerIPs": "10.0.0.1", "example.com/kept": "k"}
    bench.context = allowing(pods=("example.com/*",), services=("example.com/*",))
    goes_down(bench, resource, annotations=annotations, labels={KEY: "tenants"})
    metadata = below(bench, resource)["metadata"]
    del metadata["annotations"][names.COPIED_ANNOTATIONS], metadata["annotations"][names.LEFT_OUT]
    metadata["annotations"] |= annotations | {"gone.example.org/in-the-tenant": "x"}
    metadata["labels"] = {KEY: "tenants", **metadata["labels"]}
    del metadata["labels"][keys.renamed(KEY)]
    uid = metadata["uid"]
    settle(bench, resource)
    after = below(bench, resource)["metadata"]
    assert after["uid"] == uid
    assert not_ours(after["annotations"]) == {"example.com/kept": "k"}
    assert KEY not in after["labels"]
    assert after["labels"][keys.renamed(KEY)] == "tenants"
    assert "metallb.io/loadBalancerIPs" in after["annotations"][names.LEFT_OUT]


@pytest.mark.parametrize("resource", BODIES, ids=KIND_IDS)
def test_copies_of_earlier_versions_without_such_keys_are_not_written(
    bench: Bench, resource: Resource
) -> None:
    goes_down(bench, resource, labels={"app": "web"})
    del below(bench, resource)["metadata"]["annotations"][names.COPIED_ANNOTATIONS]
    assert bench.plan(resource.plural, "" if resource == NAMESPACES else "shop", "web") == EMPTY


@pytest.mark.parametrize("resource", BODIES, ids=KIND_IDS)
def test_a_tighter_policy_removes_what_was_allowed(bench: Bench, resource: Resource) -> None:
    bench.context = allowing(pods=("istio.io/*",), services=("istio.io/*",))
    found = goes_down(bench, resource, annotations={"istio.io/a": "1"}, labels={KEY: "x"})
    assert found["annotations"]["istio.io/a"] == "1"
    assert found["labels"][KEY] == "x"
    bench.context = CONTEXT
    settle(bench, resource)
    after = below(bench, resource)["metadata"]
    assert not_ours(after["annotations"]) == {}
    assert KEY not in after["labels"]


def test_a_record_that_somebody_spoilt_is_written_again(bench: Bench) -> None:
    bench.context = allowing(pods=("example.com/*",))
    annotations = goes_down(bench, CONFIG_MAPS, annotations={"example.com/a": "1"})["annotations"]
    for spoilt in ("{", '["example.com/b"]', None):
        annotations[names.COPIED_ANNOTATIONS] = spoilt
        if spoilt is None:
            del annotations[names.COPIED_ANNOTATIONS]
        settle(bench, CONFIG_MAPS)
        annotations = below(bench, CONFIG_MAPS)["metadata"]["annotations"]
        assert annotations[names.COPIED_ANNOTATIONS] == '["example.com/a"]'
        assert annotations[names.UID]


# --- The downward API ---


PATHS = ("metadata.annotations['example.com/a']", "metadata.labels['istio.io/rev']", "metadata.labels['app']")


def pod_that_shows(bench: Bench, **meta: Any) -> Json:
    items = [
        {"path": path[-8:-2], "fieldRef": {"fieldPath": path}} for path in (*PATHS, "metadata.annotations")
    ]
    variables = [
        {"name": f"X{index}", "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for index, path in enumerate(PATHS)
    ]
    pod = put(bench, PODS, **meta)
    pod["spec"]["volumes"] = [{"name": "about", "downwardAPI": {"items": items}}]
    pod["spec"]["containers"][0]["env"] = variables
    return pod


def tenants(bench: Bench) -> Json:
    metadata: Json = bench.get("tenant", PODS, "web")["metadata"]
    return metadata


def shown(copy: Json) -> list[str]:
    """Return what the kubelet would show of each field, in order."""
    values = []
    for path in pod_downward.paths(copy["spec"]):
        field, _, key = path.partition("['")
        values.append(copy["metadata"][field.removeprefix("metadata.")].get(key[:-2], ""))
    return values


def test_the_downward_api_shows_what_is_not_copied_and_follows_changes(bench: Bench) -> None:
    pod_that_shows(
        bench, annotations={"example.com/a": "1", "io.x": "y"}, labels={KEY: "canary", "app": "web"}
    )
    settle(bench, PODS)
    assert shown(below(bench, PODS)) == [
        *("1", "canary", "web", 'example.com/a="1"\nio.x="y"'),
        *("1", "canary", "web"),
    ]
    tenants(bench)["annotations"] = {"example.com/a": "2"}
    tenants(bench)["labels"][KEY] = "stable"
    settle(bench, PODS)
    assert shown(below(bench, PODS)) == ["2", "stable", "web", 'example.com/a="2"', "2", "stable", "web"]


def test_variables_of_debugging_containers_show_what_is_not_copied(bench: Bench) -> None:
    put(bench, PODS, annotations={"example.com/a": "1"})
    settle(bench, PODS)
    variable = {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": PATHS[0]}}}
    bench.get("tenant", PODS, "web")["spec"]["ephemeralContainers"] = [
        {"name": "debug", "image": "i", "env": [variable]}
    ]
    settle(bench, PODS)
    assert "1" in shown(below(bench, PODS))


def test_pods_of_earlier_versions_show_the_values_that_they_had(bench: Bench) -> None:
    pod_that_shows(
        bench, annotations={"example.com/a": "1", "example.com/b": "1"}, labels={KEY: "old", "app": "web"}
    )
    settle(bench, PODS)
    copy = below(bench, PODS)
    copy["metadata"]["annotations"] = {
        key: value
        for key, value in copy["metadata"]["annotations"].items()
        if key not in (names.COPIED_ANNOTATIONS, names.LEFT_OUT)
        and not (key.startswith(names.DOWNWARD_PREFIX) and key != pod_downward.ALL_ANNOTATIONS)
    } | {"example.com/a": "1", "example.com/b": "1"}
    copy["metadata"]["labels"][KEY] = copy["metadata"]["labels"].pop(keys.renamed(KEY))
    items = copy["spec"]["volumes"][0]["downwardAPI"]["items"]
    for item, path in zip(items, PATHS, strict=False):
        item["fieldRef"]["fieldPath"] = path
    for variable, path in zip(copy["spec"]["containers"][0]["env"][-len(PATHS) :], PATHS, strict=True):
        variable["valueFrom"]["fieldRef"]["fieldPath"] = path
    tenants(bench)["annotations"]["example.com/a"] = "2"
    settle(bench, PODS)
    after = below(bench, PODS)
    assert shown(after)[:3] == ["1", "old", "web"]
    assert "example.com/b" not in after["metadata"]["annotations"]
    tenants(bench)["labels"][KEY] = "new"
    settle(bench, PODS)
    assert shown(below(bench, PODS))[:3] == ["1", "old", "web"]
    assert 'example.com/a="2"' in shown(below(bench, PODS))[3]


# --- Reports ---


@pytest.mark.parametrize(
    ("resource", "annotations", "said"),
    [
        (PODS, {"prometheus.io/scrape": "true"}, "metadata.annotations prometheus.io/scrape"),
        (
            PODS,
            {"kubectl.kubernetes.io/restartedAt": "x", "checksum/config": "x", "meta.helm.sh/release": "x"},
            "",
        ),
        (CONFIG_MAPS, {"kubernetes.io/description": "x"}, ""),
        (
            SERVICES,
            {"service.beta.kubernetes.io/a": "x"},
            "metadata.annotations service.beta.kubernetes.io/a",
        ),
        (SERVICES, {f"example.com/{n}": "x" for n in range(10)}, "example.com/7 and 2 more"),
        (NAMESPACES, {names.SLICE: "x"}, ""),
    ],
)
def test_copies_note_what_has_no_effect(
    bench: Bench, resource: Resource, annotations: dict[str, str], said: str
) -> None:
    noted = goes_down(bench, resource, annotations=annotations)["annotations"].get(names.LEFT_OUT, "")
    assert noted.endswith(said)
    assert bool(noted) == bool(said)
    bench.get("tenant", resource, "web")["metadata"]["annotations"] = {}
    settle(bench, resource)
    assert names.LEFT_OUT not in below(bench, resource)["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("resource", "field"), [(PODS, "podPolicy"), (SERVICES, "servicePolicy"), (SECRETS, "podPolicy")]
)
def test_the_report_names_keys_and_remedy(resource: Resource, field: str) -> None:
    v = parse(
        json.dumps({"metadata": {"name": "x", "annotations": {"a.io/b": "c"}, "labels": {KEY: "d"}}}).encode()
    )
    message = keys.left_out_message(resource, keys.left_out(v, resource, CONTEXT))
    assert message.endswith(": metadata.annotations a.io/b; metadata.labels istio.io/rev")
    assert f"{field}.annotations or {field}.labels" in message


def test_the_table_is_complete() -> None:
    assert set(BODIES) | {INGRESSES} == {
        kind.resource
        for kind in KINDS.values()
        if kind.name not in ("persistentvolumeclaims", "resourceclaims", "volumesnapshots", "events")
    }
    for row in obeyed_labels.TABLE:
        assert row.why
        assert row.domains or row.keys


def test_the_document_lists_the_table() -> None:
    lines = (Path(__file__).parents[4] / "docs" / "annotations.md").read_text(encoding="utf-8").splitlines()
    for row in obeyed_labels.TABLE:
        listed = ", ".join(f"`{each}`" for each in (*(f"{domain}/*" for domain in row.domains), *row.keys))
        (line,) = [line for line in lines if line.startswith(f"| {listed}")]
        assert line.endswith(f"| {row.why.rstrip('.')} |")

"""Namespaces, ServiceAccounts, ConfigMaps, Secrets, Endpoints."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds_bench import KEY, Bench, super_ns

from vcsync.api import names
from vcsync.kube.resources import (
    CONFIG_MAPS,
    ENDPOINTS,
    NAMESPACES,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from vcsync.syncer.kinds import KINDS
from vcsync.syncer.kinds.plan import EMPTY, Delete, Notify, Patch, Placement
from vcsync.syncer.kinds.secret import super_type

# --- Namespaces ---


def test_a_placed_namespace_is_created_with_a_quota_of_its_slices(bench: Bench) -> None:
    bench.placements["web"] = Placement(
        {"r1": 3, "r2": 1}, {"cpu": "2", "memory": "4Gi"}, {"requests.cpu": "6"}
    )
    bench.put(
        "tenant",
        NAMESPACES,
        {
            "metadata": {
                "name": "web",
                "labels": {"team": "a", "pod-security.kubernetes.io/enforce": "privileged"},
                "annotations": {names.PLACEMENTS: '{"r1":99}', "note": "n"},
            }
        },
    )
    assert len(bench.settle("namespaces", "", "web")) == 1
    p = bench.get("super", NAMESPACES, super_ns("web"))
    assert p["metadata"]["labels"] == {
        "team": "a",
        names.CLUSTER: KEY,
        names.CONTROLLED: "true",
        names.VC_NAME: "main",
        names.VC_NAMESPACE: "acme",
    }
    annotations = p["metadata"]["annotations"]
    assert annotations[names.PLACEMENTS] == '{"r1":3,"r2":1}'
    assert annotations[names.SLICE] == '{"cpu":"2","memory":"4Gi"}'
    assert annotations[names.NAMESPACE] == "web"
    assert annotations[names.VC_UID] == "vc-uid"
    quota = bench.get("super", RESOURCE_QUOTAS, names.SUPER_QUOTA_NAME, super_ns("web"))
    assert quota["spec"] == {"hard": {"requests.cpu": "6"}}
    assert KINDS["namespaces"].related[0].item(
        bench.super(RESOURCE_QUOTAS, super_ns("web"), names.SUPER_QUOTA_NAME)
    ) == (
        "",
        "web",
    )


def test_the_quota_is_kept_and_equal_quantities_are_not_written(bench: Bench) -> None:
    quota = names.SUPER_QUOTA_NAME
    bench.edit("super", RESOURCE_QUOTAS, quota, {"spec": {"hard": {"requests.cpu": "4000m"}}})
    assert bench.plan("namespaces", "", "shop").actions == ()
    bench.edit("super", RESOURCE_QUOTAS, quota, {"spec": {"hard": {"requests.cpu": "5", "pods": "1"}}})
    bench.settle("namespaces", "", "shop")
    assert bench.get("super", RESOURCE_QUOTAS, quota)["spec"] == {
        "hard": {"requests.cpu": "4", "requests.memory": "8Gi"}
    }
    bench.remove("super", RESOURCE_QUOTAS, quota)
    bench.settle("namespaces", "", "shop")
    assert bench.has("super", RESOURCE_QUOTAS, quota)


def test_more_slices_reach_the_quota_and_the_annotations(bench: Bench) -> None:
    bench.placements["shop"] = Placement({"r1": 5}, {"cpu": "2", "memory": "4Gi"}, {"requests.cpu": "10"})
    bench.settle("namespaces", "", "shop")
    assert bench.get("super", RESOURCE_QUOTAS, names.SUPER_QUOTA_NAME)["spec"] == {
        "hard": {"requests.cpu": "10"}
    }
    annotations = bench.get("super", NAMESPACES, super_ns("shop"))["metadata"]["annotations"]
    assert annotations[names.PLACEMENTS] == '{"r1":5}'


def test_an_unplaced_namespace_is_not_created(bench: Bench) -> None:
    bench.put("tenant", NAMESPACES, {"metadata": {"name": "web"}})
    plan = bench.plan("namespaces", "", "web")
    assert plan.actions == ()
    assert plan.wait is not None


def test_a_super_namespace_is_kept_until_the_tenants_is_gone(bench: Bench) -> None:
    bench.edit("tenant", NAMESPACES, "shop", {"metadata": {"deletionTimestamp": "2026-05-01T12:00:00Z"}})
    assert bench.plan("namespaces", "", "shop").actions == ()
    bench.remove("tenant", NAMESPACES, "shop")
    (delete,) = bench.plan("namespaces", "", "shop").actions
    assert isinstance(delete, Delete)
    assert (delete.name, delete.confirm) == (super_ns("shop"), False)


ONE, OTHER = (f"{'x' * 45}-{number}" for number in ("01151", "01699"))
"""Two of the tenant's namespaces whose super namespaces have the same name: what is cut off has the same hash."""


def test_a_namespace_with_the_hashed_name_of_another_is_reported(bench: Bench) -> None:
    assert super_ns(ONE) == super_ns(OTHER)
    bench.place(ONE)
    bench.placements[OTHER] = bench.placements[ONE]
    bench.put("tenant", NAMESPACES, {"metadata": {"name": OTHER}})
    plan = bench.plan("namespaces", "", OTHER)
    (notice,) = plan.actions
    assert isinstance(notice, Notify)
    assert notice.reason == "NameTaken"
    assert KEY not in notice.message
    assert plan.wait is not None
    assert plan.wait.on[0].name == super_ns(ONE)
    assert bench.plan("namespaces", "", ONE).actions == ()


@pytest.mark.parametrize("kind", ["configmaps", "pods", "secrets", "services", "serviceaccounts"])
def test_objects_of_a_namespace_with_the_same_hashed_name_are_kept(bench: Bench, kind: str) -> None:
    bench.place(ONE)
    for namespace in (ONE, OTHER):
        bench.put(
            "tenant", KINDS[kind].resource, {"metadata": {"name": "app", "namespace": namespace}, "spec": {}}
        )
    bench.settle(kind, ONE, "app")
    plan = bench.plan(kind, OTHER, "app")
    assert not any(isinstance(action, Delete | Patch) for action in plan.actions)
    assert plan.wait is not None


def test_a_changed_namespace_annotation_is_repaired(bench: Bench) -> None:
    place = super_ns("shop")
    bench.edit("super", NAMESPACES, place, {"metadata": {"annotations": {names.NAMESPACE: "elsewhere"}}})
    bench.settle("namespaces", "", "shop")
    assert bench.get("super", NAMESPACES, place)["metadata"]["annotations"][names.NAMESPACE] == "shop"


# --- ServiceAccounts ---


def test_a_service_account_is_copied_without_secrets_and_automount(bench: Bench) -> None:
    bench.put(
        "tenant",
        SERVICE_ACCOUNTS,
        {
            "metadata": {"name": "robot"},
            "secrets": [{"name": "robot-token"}],
            "imagePullSecrets": [{"name": "pull"}],
            "automountServiceAccountToken": True,
        },
    )
    bench.settle("serviceaccounts", "shop", "robot")
    p = bench.get("super", SERVICE_ACCOUNTS, "robot")
    assert "secrets" not in p
    assert p["imagePullSecrets"] == [{"name": "pull"}]
    assert p["automountServiceAccountToken"] is False
    bench.edit("tenant", SERVICE_ACCOUNTS, "robot", {"imagePullSecrets": None})
    bench.edit("super", SERVICE_ACCOUNTS, "robot", {"automountServiceAccountToken": True})
    bench.settle("serviceaccounts", "shop", "robot")
    p = bench.get("super", SERVICE_ACCOUNTS, "robot")
    assert "imagePullSecrets" not in p
    assert p["automountServiceAccountToken"] is False


def test_the_super_clusters_default_account_is_adopted(bench: Bench) -> None:
    bench.remove("super", SERVICE_ACCOUNTS, "default")
    stands = bench.put(
        "super", SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": super_ns("shop")}}
    )
    (plan,) = bench.settle("serviceaccounts", "shop", "default")
    assert [type(action) for action in plan.actions] == [Patch]
    p = bench.get("super", SERVICE_ACCOUNTS, "default")
    assert p["metadata"]["uid"] == stands["metadata"]["uid"]
    assert p["metadata"]["labels"][names.CONTROLLED] == "true"
    assert p["automountServiceAccountToken"] is False


def test_only_the_tenants_default_account_is_adopted(bench: Bench) -> None:
    bench.put("tenant", SERVICE_ACCOUNTS, {"metadata": {"name": "robot"}})
    bench.put("super", SERVICE_ACCOUNTS, {"metadata": {"name": "robot", "namespace": super_ns("shop")}})
    assert isinstance(bench.plan("serviceaccounts", "shop", "robot").actions[0], Notify)
    bench.edit("super", SERVICE_ACCOUNTS, "default", {"metadata": {"annotations": {names.CLUSTER: "other"}}})
    assert isinstance(bench.plan("serviceaccounts", "shop", "default").actions[0], Notify)


def test_nothing_is_adopted_in_a_namespace_that_is_not_the_tenants(bench: Bench) -> None:
    bench.edit("super", NAMESPACES, super_ns("shop"), {"metadata": {"annotations": {names.CLUSTER: "other"}}})
    bench.edit("super", SERVICE_ACCOUNTS, "default", {"metadata": {"annotations": None}})
    plan = bench.plan("serviceaccounts", "shop", "default")
    assert plan.actions == ()
    assert plan.wait is not None


# --- ConfigMaps ---


def test_data_is_copied_and_repaired(bench: Bench) -> None:
    bench.put(
        "tenant",
        CONFIG_MAPS,
        {"metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}, "binaryData": {"x": "AA=="}},
    )
    bench.settle("configmaps", "shop", "c")
    bench.edit("super", CONFIG_MAPS, "c", {"data": {"a": "drift", "b": None, "more": "x"}})
    (plan,) = bench.settle("configmaps", "shop", "c")
    assert plan.actions[0].patch == {
        "metadata": {"uid": bench.get("super", CONFIG_MAPS, "c")["metadata"]["uid"]},
        "data": {"a": "1", "b": "2", "more": None},
    }


def test_a_different_immutable_config_map_is_recreated(bench: Bench) -> None:
    bench.put("tenant", CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}, "immutable": True})
    bench.settle("configmaps", "shop", "c")
    bench.objects[bench.key("super", CONFIG_MAPS, "", "c")]["data"] = {"a": "2"}
    first, _ = bench.settle("configmaps", "shop", "c")
    assert isinstance(first.actions[0], Delete)
    assert bench.get("super", CONFIG_MAPS, "c")["data"] == {"a": "1"}


def test_the_tenants_root_ca_has_its_own_name(bench: Bench) -> None:
    bench.put(
        "super",
        CONFIG_MAPS,
        {"metadata": {"name": names.ROOT_CA, "namespace": super_ns("shop")}, "data": {"ca.crt": "super"}},
    )
    bench.put("tenant", CONFIG_MAPS, {"metadata": {"name": names.ROOT_CA}, "data": {"ca.crt": "tenant"}})
    bench.settle("configmaps", "shop", names.ROOT_CA)
    assert bench.get("super", CONFIG_MAPS, names.ROOT_CA)["data"] == {"ca.crt": "super"}
    assert bench.get("super", CONFIG_MAPS, names.TENANT_ROOT_CA)["data"] == {"ca.crt": "tenant"}


def test_a_tenant_cannot_use_the_name_of_the_root_ca(bench: Bench) -> None:
    bench.put("tenant", CONFIG_MAPS, {"metadata": {"name": names.ROOT_CA}, "data": {"ca.crt": "tenant"}})
    bench.settle("configmaps", "shop", names.ROOT_CA)
    bench.put("tenant", CONFIG_MAPS, {"metadata": {"name": names.TENANT_ROOT_CA}, "data": {"ca.crt": "evil"}})
    plan = bench.plan("configmaps", "shop", names.TENANT_ROOT_CA)
    assert [action.reason for action in plan.actions] == ["ReservedName"]
    bench.remove("tenant", CONFIG_MAPS, names.TENANT_ROOT_CA)
    assert bench.plan("configmaps", "shop", names.TENANT_ROOT_CA).actions == ()
    assert bench.get("super", CONFIG_MAPS, names.TENANT_ROOT_CA)["data"] == {"ca.crt": "tenant"}


DATA = st.dictionaries(st.text("abcXYZ._-", min_size=1, max_size=8), st.text(max_size=20), max_size=4)


@given(DATA, DATA, DATA)
@settings(max_examples=60)
def test_config_maps_settle_in_one_step(
    data: dict[str, str], labels: dict[str, str], drift: dict[str, str]
) -> None:
    bench = Bench()
    bench.place()
    bench.put("tenant", CONFIG_MAPS, {"metadata": {"name": "c", "labels": labels}, "data": data})
    assert len(bench.settle("configmaps", "shop", "c")) == 1
    bench.objects[bench.key("super", CONFIG_MAPS, "", "c")]["data"] = drift
    assert len(bench.settle("configmaps", "shop", "c")) == (drift != data)
    assert bench.get("super", CONFIG_MAPS, "c").get("data") == data


# --- Secrets ---


@pytest.mark.parametrize(
    ("tenants", "supers"),
    [
        ("Opaque", "Opaque"),
        ("", "Opaque"),
        ("kubernetes.io/tls", "kubernetes.io/tls"),
        ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockerconfigjson"),
        ("kubernetes.io/service-account-token", "Opaque"),
        ("bootstrap.kubernetes.io/token", "Opaque"),
        ("kubernetes.io/anything", "Opaque"),
        ("storage.k8s.io/x", "Opaque"),
        ("example.com/any", "example.com/any"),
    ],
)
def test_types_with_controllers_become_opaque(bench: Bench, tenants: str, supers: str) -> None:
    assert super_type(tenants) == supers
    body: dict[str, Any] = {
        "metadata": {"name": "s", "annotations": {"kubernetes.io/service-account.name": "default"}},
        "data": {"token": "dG9r"},
    }
    if tenants:
        body["type"] = tenants
    bench.put("tenant", SECRETS, body)
    assert len(bench.settle("secrets", "shop", "s")) == 1
    p = bench.get("super", SECRETS, "s")
    assert p["type"] == supers
    assert p["data"] == {"token": "dG9r"}
    assert "kubernetes.io/service-account.name" not in p["metadata"]["annotations"]


def test_a_secret_whose_type_changed_is_recreated(bench: Bench) -> None:
    bench.put("tenant", SECRETS, {"metadata": {"name": "s"}, "type": "kubernetes.io/tls"})
    bench.settle("secrets", "shop", "s")
    bench.edit("super", SECRETS, "s", {"type": "Opaque"})
    plans = bench.settle("secrets", "shop", "s")
    assert isinstance(plans[0].actions[0], Delete)
    assert bench.get("super", SECRETS, "s")["type"] == "kubernetes.io/tls"


def test_a_tenant_cannot_name_a_secret_like_a_token_secret(bench: Bench) -> None:
    name = names.TOKEN_SECRET_PREFIX + "abc"
    bench.put("tenant", SECRETS, {"metadata": {"name": name}})
    assert [action.reason for action in bench.plan("secrets", "shop", name).actions] == ["ReservedName"]
    assert KINDS["secrets"].tenant_name(name) is None


RELEASE: dict[str, Any] = {
    "metadata": {"name": "sh.helm.release.v1.web.v1", "uid": "u"},
    "type": "helm.sh/release.v1",
    "data": {"release": "eA=="},
}


def test_records_of_helm_stay_in_the_tenant(bench: Bench) -> None:
    name = RELEASE["metadata"]["name"]
    bench.put("tenant", SECRETS, RELEASE)
    assert bench.plan("secrets", "shop", name) == EMPTY
    assert not bench.has("super", SECRETS, name)


def test_the_copy_of_a_record_of_helm_that_an_earlier_version_made_is_deleted(bench: Bench) -> None:
    name = RELEASE["metadata"]["name"]
    bench.put("tenant", SECRETS, {**RELEASE, "type": "Opaque"})
    bench.settle("secrets", "shop", name)
    bench.put("tenant", SECRETS, RELEASE)
    bench.put("super", SECRETS, {**bench.get("super", SECRETS, name), "type": RELEASE["type"]})
    plans = bench.settle("secrets", "shop", name)
    assert [type(action) for plan in plans for action in plan.actions] == [Delete]
    assert not bench.has("super", SECRETS, name)


def test_a_foreign_secret_with_the_name_of_a_record_of_helm_is_not_touched(bench: Bench) -> None:
    bench.put("tenant", SECRETS, RELEASE)
    bench.put("super", SECRETS, {"metadata": {"name": RELEASE["metadata"]["name"]}})
    assert bench.plan("secrets", "shop", RELEASE["metadata"]["name"]) == EMPTY


# --- Endpoints ---

SUBSETS = [
    {
        "addresses": [
            {
                "ip": "192.0.2.1",
                "nodeName": "n.r1",
                "targetRef": {"kind": "Pod", "namespace": "shop", "uid": "u"},
            },
            {"ip": "192.0.2.2"},
        ],
        "ports": [{"port": 80, "protocol": "TCP"}],
    }
]


def test_endpoints_without_controller_are_copied_without_references(bench: Bench) -> None:
    bench.put("tenant", ENDPOINTS, {"metadata": {"name": "db"}, "subsets": SUBSETS})
    assert len(bench.settle("endpoints", "shop", "db")) == 1
    p = bench.get("super", ENDPOINTS, "db")
    assert p["subsets"] == [
        {"addresses": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}], "ports": [{"port": 80, "protocol": "TCP"}]}
    ]


def test_only_the_addresses_of_subsets_are_compared(bench: Bench) -> None:
    bench.put("tenant", ENDPOINTS, {"metadata": {"name": "db"}, "subsets": SUBSETS})
    bench.settle("endpoints", "shop", "db")
    repacked = [
        {"addresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 80}]},
        {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]},
    ]
    bench.edit("super", ENDPOINTS, "db", {"subsets": repacked})
    assert bench.plan("endpoints", "shop", "db").actions == ()
    bench.edit("super", ENDPOINTS, "db", {"subsets": repacked[:1]})
    assert len(bench.plan("endpoints", "shop", "db").actions) == 1


@pytest.mark.parametrize(("selector", "synced"), [(None, True), ({}, True), ({"app": "x"}, False)])
def test_endpoints_of_a_service_with_selector_are_not_copied(
    bench: Bench, selector: dict[str, str] | None, synced: bool
) -> None:
    spec = {"ports": [{"port": 80}]} | ({"selector": selector} if selector is not None else {})
    bench.put("tenant", SERVICES, {"metadata": {"name": "db"}, "spec": spec})
    bench.put("tenant", ENDPOINTS, {"metadata": {"name": "db"}, "subsets": SUBSETS})
    assert bool(bench.plan("endpoints", "shop", "db").actions) is synced


def test_a_new_selector_leaves_the_endpoints_to_the_controller(bench: Bench) -> None:
    bench.put("tenant", SERVICES, {"metadata": {"name": "db"}, "spec": {"ports": [{"port": 80}]}})
    bench.put("tenant", ENDPOINTS, {"metadata": {"name": "db"}, "subsets": SUBSETS})
    bench.settle("services", "shop", "db")
    bench.settle("endpoints", "shop", "db")
    bench.edit("tenant", SERVICES, "db", {"spec": {"selector": {"app": "db"}}})
    (handed,) = bench.settle("endpoints", "shop", "db")
    assert [type(action) for action in handed.actions] == [Delete]
    bench.put("super", ENDPOINTS, {"metadata": {"name": "db", "namespace": super_ns("shop")}})
    assert bench.plan("endpoints", "shop", "db").actions == ()
    bench.edit("tenant", SERVICES, "db", {"spec": {"selector": None}})
    bench.settle("endpoints", "shop", "db")
    assert len(bench.get("super", ENDPOINTS, "db")["subsets"]) == 1


@pytest.mark.parametrize("below", [True, False])
def test_endpoints_of_a_controller_whose_service_was_deleted_are_left_alone(
    bench: Bench, below: bool
) -> None:
    labels = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    bench.put("tenant", ENDPOINTS, {"metadata": {"name": "db", "labels": labels}, "subsets": SUBSETS})
    if below:
        bench.put(
            "super", ENDPOINTS, {"metadata": {"name": "db", "namespace": super_ns("shop"), "labels": labels}}
        )
    assert bench.plan("endpoints", "shop", "db") == EMPTY
    # A Service that has lost its selector keeps the Endpoints, which are the tenant's from then on.
    bench.put("tenant", SERVICES, {"metadata": {"name": "db"}, "spec": {"ports": [{"port": 80}]}})
    bench.settle("services", "shop", "db")
    bench.settle("endpoints", "shop", "db")
    assert len(bench.get("super", ENDPOINTS, "db")["subsets"]) == 1


def test_the_api_servers_own_service_and_endpoints_are_not_copied(bench: Bench) -> None:
    bench.place("default")
    for resource, kind in ((SERVICES, "services"), (ENDPOINTS, "endpoints")):
        bench.put("tenant", resource, {"metadata": {"name": "kubernetes", "namespace": "default"}})
        assert bench.plan(kind, "default", "kubernetes").actions == ()

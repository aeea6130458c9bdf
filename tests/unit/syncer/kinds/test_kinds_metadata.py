"""Ownership of objects, and the labels and annotations that are copied."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds_bench import CONTEXT, KEY, Bench, super_ns

from vcsync.api import names
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.objects.envelope import Envelope, OwnerReference
from vcsync.syncer.kinds import keys, metadata
from vcsync.syncer.kinds.plan import Delete, Notify

OWN_CONTEXT = msgspec.structs.replace(
    CONTEXT, opaque_prefixes=("secret.acme.com",), transparent_prefixes=("mesh.acme.com",)
)


@pytest.mark.parametrize(
    ("key", "stripped"),
    [
        ("app", False),
        ("example.com/x", False),
        ("app.kubernetes.io/name", False),
        ("apps.kubernetes.io/pod-index", False),
        ("batch.kubernetes.io/job-name", False),
        ("statefulset.kubernetes.io/pod-name", False),
        ("kubernetes.io/x", True),
        ("k8s.io/x", True),
        ("kubectl.kubernetes.io/last-applied-configuration", True),
        ("pod-security.kubernetes.io/enforce", True),
        ("topology.kubernetes.io/zone", True),
        ("x.app.kubernetes.io/y", False),
        ("notkubernetes.io/x", False),
        ("mykubernetes.io", False),
        ("tenancy.x-k8s.io/uid", True),
        ("transparency.tenancy.x-k8s.io/clusterIP", True),
        ("ingress.transparency.tenancy.x-k8s.io/r1", True),
        ("scheduler.virtualcluster.io/superCluster", True),
        ("placement.scheduler.virtualcluster.io/r1", True),
        ("virtualcluster.io/x", False),
        ("secret.acme.com/x", True),
        ("mesh.acme.com/x", False),
    ],
)
def test_keys_that_are_not_copied(key: str, stripped: bool) -> None:
    assert keys.is_stripped(key, OWN_CONTEXT) is stripped
    assert (key in keys.copied_labels({key: "v"}, CONFIG_MAPS, OWN_CONTEXT)) is not stripped


def test_a_copied_object_names_its_owner() -> None:
    v = Envelope(
        "x",
        "shop",
        "u1",
        labels={"app": "a", names.CONTROLLED: "false", names.VC_NAME: "other"},
        annotations={names.CLUSTER: "other", names.UID: "forged", "note": "n"},
        owners=(OwnerReference("apps/v1", "ReplicaSet", "rs", "u0", controller=True),),
    )
    result = metadata.super_metadata(CONFIG_MAPS, v, CONTEXT)
    assert result["namespace"] == super_ns("shop")
    assert result["labels"] == {
        "app": "a",
        names.CONTROLLED: "true",
        names.VC_NAME: "main",
        names.VC_NAMESPACE: "acme",
    }
    assert result["annotations"] == {
        names.COPIED_ANNOTATIONS: "[]",
        names.LEFT_OUT: "metadata.annotations note",
        names.CLUSTER: KEY,
        names.UID: "u1",
        names.NAMESPACE: "shop",
        names.VC_NAME: "main",
        names.VC_NAMESPACE: "acme",
        names.OWNER_REFERENCES: '[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rs","uid":"u0","controller":true}]',
    }
    assert "ownerReferences" not in result


def test_a_name_too_long_for_a_label_is_only_in_the_annotation() -> None:
    context = msgspec.structs.replace(CONTEXT, vc_name="n" * 64)
    result = metadata.super_metadata(CONFIG_MAPS, Envelope("x", "shop", "u1"), context)
    assert names.VC_NAME not in result["labels"]
    assert result["annotations"][names.VC_NAME] == "n" * 64


def test_keys_of_the_super_cluster_are_kept_and_others_removed() -> None:
    actual = {
        "a": "1",
        "strange": "x",
        "kubernetes.io/added": "y",
        "mesh.acme.com/z": "z",
        names.OWNER_REFERENCES: "[]",
    }
    patch = metadata.map_patch({"a": "2", "b": "3"}, actual, OWN_CONTEXT)
    assert patch == {"a": "2", "b": "3", "strange": None}


def test_transparent_keys_are_copied_up_and_never_removed_in_the_tenant() -> None:
    p = Envelope(
        "x",
        labels={"mesh.acme.com/a": "1", "app": "no"},
        annotations={"transparency.tenancy.x-k8s.io/t": "2"},
    )
    v = Envelope("x", labels={"mesh.acme.com/b": "stays"})
    assert metadata.upward_metadata(v, p, OWN_CONTEXT) == {
        "labels": {"mesh.acme.com/a": "1"},
        "annotations": {"transparency.tenancy.x-k8s.io/t": "2"},
    }


KEYS = st.one_of(
    st.sampled_from(
        [
            "app",
            "k8s.io/x",
            "app.kubernetes.io/n",
            names.UID,
            names.CLUSTER,
            names.CONTROLLED,
            "mesh.acme.com/q",
        ]
    ),
    st.text(max_size=12),
)
MAPS = st.dictionaries(KEYS, st.text(max_size=8), max_size=6)


@given(MAPS, MAPS, MAPS)
def test_any_metadata_of_a_tenant_keeps_the_owner_and_settles_with_one_patch(
    labels: dict[str, str], annotations: dict[str, str], other: dict[str, str]
) -> None:
    v = Envelope("x", "shop", "u1", labels=labels, annotations=annotations)
    p = Envelope("x", super_ns("shop"), "p1", labels=other, annotations=other)
    patch = metadata.metadata_patch(CONFIG_MAPS, v, p, OWN_CONTEXT)

    def applied(current: dict[str, str], change: dict[str, str | None]) -> dict[str, str]:
        return {key: value for key, value in (current | change).items() if value is not None}

    after = Envelope(
        "x",
        super_ns("shop"),
        "p1",
        labels=applied(other, patch.get("labels", {})),
        annotations=applied(other, patch.get("annotations", {})),
    )
    assert metadata.metadata_patch(CONFIG_MAPS, v, after, OWN_CONTEXT) == {}
    assert metadata.identify(v, after, OWN_CONTEXT) is metadata.Identity.OURS
    assert after.labels[names.CONTROLLED] == "true"


# --- Identity, on a kind without particulars ---


def test_a_foreign_object_of_the_same_name_is_reported_and_kept(bench: Bench) -> None:
    bench.put(
        "super",
        CONFIG_MAPS,
        {"metadata": {"name": "c", "namespace": super_ns("shop")}, "data": {"k": "theirs"}},
    )
    bench.put("tenant", CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"k": "mine"}})
    plan = bench.plan("configmaps", "shop", "c")
    assert [type(action) for action in plan.actions] == [Notify]
    assert plan.actions[0].reason == "NameTaken"
    assert plan.wait is not None
    assert plan.wait.after is not None


@pytest.mark.parametrize("annotation", [names.CLUSTER, names.UID])
def test_another_tenants_object_is_never_changed(bench: Bench, annotation: str) -> None:
    v = bench.put("tenant", CONFIG_MAPS, {"metadata": {"name": "c"}})
    annotations = {names.CLUSTER: "other-tenant", names.UID: v["metadata"]["uid"]}
    bench.put(
        "super",
        CONFIG_MAPS,
        {"metadata": {"name": "c", "namespace": super_ns("shop"), "annotations": annotations}},
    )
    assert [type(action) for action in bench.plan("configmaps", "shop", "c").actions] == [Notify]
    bench.remove("tenant", CONFIG_MAPS, "c")
    assert bench.plan("configmaps", "shop", "c").actions == ()


def test_a_copy_of_a_replaced_object_is_deleted_after_confirmation(bench: Bench) -> None:
    bench.put("tenant", CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"k": "1"}})
    bench.settle("configmaps", "shop", "c")
    bench.remove("tenant", CONFIG_MAPS, "c")
    v = bench.put("tenant", CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"k": "2"}})
    (delete,) = bench.plan("configmaps", "shop", "c").actions
    assert isinstance(delete, Delete)
    assert delete.confirm
    assert delete.side == "super"
    bench.settle("configmaps", "shop", "c")
    p = bench.get("super", CONFIG_MAPS, "c")
    assert p["metadata"]["annotations"][names.UID] == v["metadata"]["uid"]
    assert p["data"] == {"k": "2"}


@pytest.mark.parametrize("seen", [True, False])
def test_an_unobserved_deletion_is_confirmed(bench: Bench, seen: bool) -> None:
    bench.put("tenant", CONFIG_MAPS, {"metadata": {"name": "c"}})
    bench.settle("configmaps", "shop", "c")
    bench.remove("tenant", CONFIG_MAPS, "c", seen=seen)
    (delete,) = bench.plan("configmaps", "shop", "c").actions
    assert isinstance(delete, Delete)
    assert delete.confirm is not seen


def test_removed_annotations_of_the_owner_are_restored(bench: Bench) -> None:
    bench.put("tenant", CONFIG_MAPS, {"metadata": {"name": "c", "labels": {"a": "b"}}})
    bench.settle("configmaps", "shop", "c")
    bench.edit("super", CONFIG_MAPS, "c", {"metadata": {"labels": None}})
    bench.settle("configmaps", "shop", "c")
    assert bench.get("super", CONFIG_MAPS, "c")["metadata"]["labels"] == {
        "a": "b",
        names.CONTROLLED: "true",
        names.VC_NAME: "main",
        names.VC_NAMESPACE: "acme",
    }


def test_nothing_is_created_before_its_namespace_exists(bench: Bench) -> None:
    bench.put("tenant", CONFIG_MAPS, {"metadata": {"name": "c", "namespace": "other"}})
    plan = bench.plan("configmaps", "other", "c")
    assert plan.actions == ()
    assert plan.wait is not None
    assert plan.wait.on[0].name == super_ns("other")


def test_the_label_of_a_networks_dns_service_is_not_reported_to_the_tenant() -> None:
    """The network controller sets it, in every tenant: a user can do nothing about it."""
    service = Envelope(
        namespace="kube-system",
        name="kube-dns-default",
        labels={names.NETWORK: "default", names.CONTROLLED: "true"},
    )
    assert metadata.reserved_by_tenant(service) == [f"label {names.CONTROLLED}"]

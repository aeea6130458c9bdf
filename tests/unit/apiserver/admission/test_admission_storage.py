"""Volumes, classes and nodes: finalizers, default classes, expansion, the taint of new nodes."""

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.admission import storage

CLAIMS, INGRESSES = ("", "persistentvolumeclaims"), ("networking.k8s.io", "ingresses")
STORAGE, INGRESS = (
    "storageclass.kubernetes.io/is-default-class",
    "ingressclass.kubernetes.io/is-default-class",
)


def named(**content):
    return {"metadata": {"name": "x"}, **content}


@pytest.mark.parametrize(
    ("of", "given", "expected"),
    [
        (CLAIMS, None, ["kubernetes.io/pvc-protection"]),
        (("", "persistentvolumes"), None, ["kubernetes.io/pv-protection"]),
        (("", "persistentvolumes"), ["a.b/c"], ["a.b/c", "kubernetes.io/pv-protection"]),
        (CLAIMS, ["kubernetes.io/pvc-protection"], ["kubernetes.io/pvc-protection"]),
        (("", "configmaps"), None, None),
    ],
)
async def test_protection_finalizers_are_added_once(admit, of, given, expected):
    obj = {"metadata": {"name": "x", **({"finalizers": given} if given else {})}}
    found = await admit(storage.in_use_protection, obj, of=of)
    assert found["metadata"].get("finalizers") == expected


def marked(things, group, plural, annotation, **created):
    for name, when in created.items():
        metadata = {"creationTimestamp": when, "annotations": {annotation: "true"}}
        things.add(group, plural, name, metadata=metadata)


async def test_claims_get_the_newest_default_class(admit, things):
    marked(things, "storage.k8s.io", "storageclasses", STORAGE,
           old="2025-01-01T00:00:00Z", new="2026-01-01T00:00:00Z", same="2026-01-01T00:00:00Z")  # fmt: skip
    found = await admit(storage.default_storage_class, named(spec={}), of=CLAIMS)
    assert found["spec"] == {"storageClassName": "new"}


@pytest.mark.parametrize(
    "given",
    [
        named(spec={"storageClassName": ""}),
        named(spec={"storageClassName": "own"}),
        {"metadata": {"name": "x", "annotations": {storage.BETA_STORAGE_CLASS: "own"}}, "spec": {}},
    ],
)
async def test_claims_keep_an_explicit_class(admit, things, given):
    marked(things, "storage.k8s.io", "storageclasses", STORAGE, usual="2025-01-01T00:00:00Z")
    assert await admit(storage.default_storage_class, given, of=CLAIMS) == given


async def test_claims_get_no_class_without_a_default(admit, things):
    things.add("storage.k8s.io", "storageclasses", "plain")
    assert await admit(storage.default_storage_class, named(spec={}), of=CLAIMS) == named(spec={})


async def test_ingresses_get_the_default_class_unless_they_name_one(admit, things):
    marked(things, "networking.k8s.io", "ingressclasses", INGRESS, usual="2025-01-01T00:00:00Z")
    found = await admit(storage.default_ingress_class, named(spec={}), of=INGRESSES)
    assert found["spec"] == {"ingressClassName": "usual"}
    own = named(spec={"ingressClassName": "own"})
    assert await admit(storage.default_ingress_class, own, of=INGRESSES) == own
    old = {"metadata": {"name": "x", "annotations": {storage.OLD_INGRESS_CLASS: "own"}}, "spec": {}}
    assert await admit(storage.default_ingress_class, old, of=INGRESSES) == old


NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], [NOT_READY]),
        ([{"key": "a", "effect": "NoExecute"}], [{"key": "a", "effect": "NoExecute"}, NOT_READY]),
        ([NOT_READY], [NOT_READY]),
    ],
)
async def test_a_new_node_is_tainted_once(admit, given, expected):
    found = await admit(storage.taint_new_node, named(spec={"taints": given}), of=("", "nodes"))
    assert found["spec"]["taints"] == expected


async def test_existing_nodes_are_not_tainted(admit):
    given = named(spec={})
    assert await admit(storage.taint_new_node, given, of=("", "nodes"), old=given) == given


def sized(size, class_name="grows", phase="Bound"):
    spec = {"storageClassName": class_name, "resources": {"requests": {"storage": size}}}
    return named(spec=spec, status={"phase": phase})


async def test_claims_can_be_expanded_if_their_class_allows_it(admit, things):
    things.add("storage.k8s.io", "storageclasses", "grows", allowVolumeExpansion=True)
    await admit(storage.claim_resize, sized("2Gi"), of=CLAIMS, old=sized("1Gi"))
    await admit(storage.claim_resize, sized("1Gi", "none"), of=CLAIMS, old=sized("1Gi", "none"))
    await admit(storage.claim_resize, sized("1Gi", "none"), of=CLAIMS, old=sized("2048Mi", "none"))


async def test_only_bound_claims_can_be_expanded(admit, things):
    things.add("storage.k8s.io", "storageclasses", "grows", allowVolumeExpansion=True)
    with pytest.raises(StatusError, match="Only bound persistent volume claims can be expanded"):
        await admit(storage.claim_resize, sized("2Gi"), of=CLAIMS, old=sized("1Gi", phase="Pending"))


@pytest.mark.parametrize("class_name", ["fixed", "none", ""])
async def test_claims_of_classes_that_do_not_allow_it_cannot_be_expanded(admit, things, class_name):
    things.add("storage.k8s.io", "storageclasses", "fixed")
    with pytest.raises(StatusError) as refused:
        await admit(storage.claim_resize, sized("2Gi", class_name), of=CLAIMS, old=sized("1Gi", class_name))
    assert refused.value.message.endswith(
        " is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions "
        "the pvc must support resize"
    )

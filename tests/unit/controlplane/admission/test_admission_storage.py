"""Volumes, classes and nodes: finalizers, defaults, growth, the taint of a new node."""

import pytest

from vcsync.controlplane.admission import storage
from vcsync.controlplane.errors import StatusError

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
async def test_volumes_are_protected_once(asked, of, given, expected):
    obj = {"metadata": {"name": "x", **({"finalizers": given} if given else {})}}
    found = await asked(storage.in_use_protection, obj, of=of)
    assert found["metadata"].get("finalizers") == expected


def marked(things, group, plural, annotation, **created):
    for name, when in created.items():
        metadata = {"creationTimestamp": when, "annotations": {annotation: "true"}}
        things.add(group, plural, name, metadata=metadata)


async def test_a_claim_gets_the_newest_default_class(asked, things):
    marked(things, "storage.k8s.io", "storageclasses", STORAGE,
           old="2025-01-01T00:00:00Z", new="2026-01-01T00:00:00Z", same="2026-01-01T00:00:00Z")  # fmt: skip
    found = await asked(storage.default_storage_class, named(spec={}), of=CLAIMS)
    assert found["spec"] == {"storageClassName": "new"}


@pytest.mark.parametrize(
    "given",
    [
        named(spec={"storageClassName": ""}),
        named(spec={"storageClassName": "own"}),
        {"metadata": {"name": "x", "annotations": {storage.BETA_STORAGE_CLASS: "own"}}, "spec": {}},
    ],
)
async def test_a_claim_that_says_so_keeps_its_class(asked, things, given):
    marked(things, "storage.k8s.io", "storageclasses", STORAGE, usual="2025-01-01T00:00:00Z")
    assert await asked(storage.default_storage_class, given, of=CLAIMS) == given


async def test_without_a_default_there_is_none(asked, things):
    things.add("storage.k8s.io", "storageclasses", "plain")
    assert await asked(storage.default_storage_class, named(spec={}), of=CLAIMS) == named(spec={})


async def test_an_ingress_gets_the_default_class_unless_it_names_one(asked, things):
    marked(things, "networking.k8s.io", "ingressclasses", INGRESS, usual="2025-01-01T00:00:00Z")
    found = await asked(storage.default_ingress_class, named(spec={}), of=INGRESSES)
    assert found["spec"] == {"ingressClassName": "usual"}
    own = named(spec={"ingressClassName": "own"})
    assert await asked(storage.default_ingress_class, own, of=INGRESSES) == own
    old = {"metadata": {"name": "x", "annotations": {storage.OLD_INGRESS_CLASS: "own"}}, "spec": {}}
    assert await asked(storage.default_ingress_class, old, of=INGRESSES) == old


NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], [NOT_READY]),
        ([{"key": "a", "effect": "NoExecute"}], [{"key": "a", "effect": "NoExecute"}, NOT_READY]),
        ([NOT_READY], [NOT_READY]),
    ],
)
async def test_a_new_node_is_tainted_once(asked, given, expected):
    found = await asked(storage.taint_new_node, named(spec={"taints": given}), of=("", "nodes"))
    assert found["spec"]["taints"] == expected


async def test_a_node_that_stands_is_left_alone(asked):
    given = named(spec={})
    assert await asked(storage.taint_new_node, given, of=("", "nodes"), old=given) == given


def sized(size, class_name="grows", phase="Bound"):
    spec = {"storageClassName": class_name, "resources": {"requests": {"storage": size}}}
    return named(spec=spec, status={"phase": phase})


async def test_a_claim_grows_where_its_class_allows_it(asked, things):
    things.add("storage.k8s.io", "storageclasses", "grows", allowVolumeExpansion=True)
    await asked(storage.claim_resize, sized("2Gi"), of=CLAIMS, old=sized("1Gi"))
    await asked(storage.claim_resize, sized("1Gi", "none"), of=CLAIMS, old=sized("1Gi", "none"))
    await asked(storage.claim_resize, sized("1Gi", "none"), of=CLAIMS, old=sized("2048Mi", "none"))


async def test_only_a_bound_claim_grows(asked, things):
    things.add("storage.k8s.io", "storageclasses", "grows", allowVolumeExpansion=True)
    with pytest.raises(StatusError, match="Only bound persistent volume claims can be expanded"):
        await asked(storage.claim_resize, sized("2Gi"), of=CLAIMS, old=sized("1Gi", phase="Pending"))


@pytest.mark.parametrize("class_name", ["fixed", "none", ""])
async def test_other_claims_do_not_grow(asked, things, class_name):
    things.add("storage.k8s.io", "storageclasses", "fixed")
    with pytest.raises(StatusError, match="only dynamically provisioned pvc can be resized"):
        await asked(storage.claim_resize, sized("2Gi", class_name), of=CLAIMS, old=sized("1Gi", class_name))

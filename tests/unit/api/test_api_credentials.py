"""Credentials are looked up in VirtualCluster's places, after a role's own."""

import base64

import pytest

from vcsync.api import names
from vcsync.api.credentials import credentials_lookup, inline_kubeconfig, super_credentials
from vcsync.api.objects import InvalidObject, SuperCluster, VirtualCluster
from vcsync.api.specs import SecretRef, SuperClusterSpec

UID = "d64ea0c0-91f8-46f5-8643-c0cab32ab0cd"
ROOT = "ns-fd1b34-name"


def virtual_cluster(**annotations: str) -> VirtualCluster:
    return VirtualCluster(
        name="name",
        namespace="ns",
        uid=UID,
        annotations={
            f"{names.GROUP}/{key.replace('__', '.').replace('_', '-')}": annotations[key]
            for key in annotations
        },
    )


@pytest.mark.parametrize("role", names.ROLES)
def test_a_roles_own_credentials_come_before_the_administrators(role: str) -> None:
    assert credentials_lookup(virtual_cluster(), role) == (
        SecretRef(namespace=ROOT, name=f"kubeconfig-{role}", key="kubeconfig"),
        SecretRef(namespace=ROOT, name="admin-kubeconfig", key="admin-kubeconfig"),
    )


def test_an_annotation_can_name_a_secret_of_cluster_api() -> None:
    vc = virtual_cluster(secret__admin_kubeconfig="mine")
    assert credentials_lookup(vc, "syncer")[1:] == (SecretRef(namespace=ROOT, name="mine", key="value"),)


def test_an_inline_kubeconfig_replaces_the_administrators_secret() -> None:
    vc = virtual_cluster(
        admin_kubeconfig=base64.b64encode(b"kind: Config\n").decode(), secret__admin_kubeconfig="mine"
    )
    assert [ref.name for ref in credentials_lookup(vc, "syncer")] == ["kubeconfig-syncer"]
    assert inline_kubeconfig(vc) == b"kind: Config\n"


def test_base64_with_line_breaks_is_decoded() -> None:
    encoded = base64.encodebytes(b"x" * 200).decode()
    assert "\n" in encoded.strip()
    assert inline_kubeconfig(virtual_cluster(admin_kubeconfig=encoded)) == b"x" * 200


def test_without_the_annotation_there_is_no_inline_kubeconfig() -> None:
    assert inline_kubeconfig(virtual_cluster()) is None


def test_a_broken_inline_kubeconfig_is_named_but_not_shown() -> None:
    with pytest.raises(
        InvalidObject, match=r"VirtualCluster ns/name: annotation .*admin-kubeconfig"
    ) as caught:
        inline_kubeconfig(virtual_cluster(admin_kubeconfig="token: s3cret"))
    assert "s3cret" not in str(caught.value)


def test_a_super_clusters_credentials_have_a_default_secret() -> None:
    assert super_credentials(SuperCluster(name="r1", spec=SuperClusterSpec(id="r1"))) == SecretRef(
        namespace="vcsync-system", name="super-r1", key="kubeconfig"
    )


def test_a_super_cluster_may_name_another_secret() -> None:
    ref = SecretRef(namespace="elsewhere", name="mine", key="config")
    spec = SuperClusterSpec(id="r1", kubeconfig_secret_ref=ref)
    assert super_credentials(SuperCluster(name="r1", spec=spec)) == ref

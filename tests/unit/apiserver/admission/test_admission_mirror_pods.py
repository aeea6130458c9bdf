"""References of Pods, as refusals of mirror Pods name them."""

import pytest

from vcsync.apiserver.admission.mirror_pods import reference_of


def volume(**source):
    return {"volumes": [{"name": "empty", "emptyDir": {}}, {"name": "v", **source}]}


def projected(**source):
    return volume(projected={"sources": [{"downwardAPI": {}}, source]})


def container(**fields):
    return {"containers": [{"name": "plain"}, {"name": "c", **fields}]}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"serviceAccountName": "a"}, "serviceaccounts"),
        ({"imagePullSecrets": [{"name": "s"}]}, "secrets"),
        (container(envFrom=[{"secretRef": {"name": "s"}}]), "secrets"),
        (container(envFrom=[{"configMapRef": {"name": "c"}}]), "configmaps"),
        ({"resourceClaims": [{"name": "r", "resourceClaimName": "r"}]}, "resourceclaims"),
        (volume(csi={"driver": "d"}), "csidrivers (via CSI volumes)"),
        (volume(glusterfs={"endpoints": "e", "path": "p"}), "endpoints (via glusterFS volumes)"),
        (volume(persistentVolumeClaim={"claimName": "c"}), "persistentvolumeclaims"),
        (volume(ephemeral={"volumeClaimTemplate": {}}), "persistentvolumeclaims (via ephemeral volumes)"),
        (projected(serviceAccountToken={"path": "t"}), "serviceaccounts (via projected volumes)"),
        (projected(clusterTrustBundle={"path": "t"}), "clustertrustbundles"),
        (projected(podCertificate={}), "podcertificates"),
    ],
)
def test_references_of_pods_are_named(spec, named):
    assert reference_of({"spec": spec}) == named


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"spec": None},
        {"spec": {"serviceAccountName": "", "volumes": None, "resourceClaims": []}},
        {"spec": {**container(env=[{"name": "A", "value": "b"}]), **projected(downwardAPI={})}},
        {"spec": volume(hostPath={"path": "/"})},
    ],
)
def test_pods_without_references_have_none(pod):
    assert reference_of(pod) == ""
